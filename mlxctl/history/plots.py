"""Charts of past runs: in the terminal by plotext, to PNG and SVG by matplotlib."""

import io
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from mlxctl import options, writing
from mlxctl.errors import ResourceError, UsageError
from mlxctl.history.record import Record

_RATE = "generation, tokens/s"
_MARKERS = "ox+*#%@&"  # told apart without colours
_DRAWN = 8  # series; more could not be told apart
_TYPES = (".png", ".svg")


@dataclass(frozen=True)
class Point:
    """One run. context: tokens at its end. at: seconds since 1970."""

    context: int
    at: float
    rate: float


@dataclass(frozen=True)
class Series:
    """The runs of one model and profile, the oldest first."""

    name: str
    points: Sequence[Point]


@dataclass(frozen=True)
class Chart:
    """What stands on the axes. Time is drawn as such, numbers as they are."""

    title: str
    label: str
    of: Callable[[Point], float]
    is_time: bool = False


CHARTS = (
    Chart("Rate against context length", "context at the end, tokens", lambda point: float(point.context)),
    Chart("Rate over time", "when", lambda point: point.at, is_time=True),
)


def series(records: Iterable[Record], *, name: Callable[[str], str]) -> list[Series]:
    """The runs that have a rate, by model and profile, those with most runs first."""
    found: dict[tuple[str, str | None], list[Point]] = {}
    for record in records:
        timing = record.run.timing
        if timing.generation_tps is not None and timing.prompt_tokens is not None:
            point = Point(timing.prompt_tokens + timing.generation_tokens, record.at, timing.generation_tps)
            found.setdefault((record.model, record.profile), []).append(point)
    named = [(name(model) + (f" ({options.named(profile)})" if profile else ""), points)
             for (model, profile), points in found.items()]  # fmt: skip
    ordered = sorted(named, key=lambda item: -len(item[1]))
    rest = [point for _, points in ordered[_DRAWN - 1 :] for point in points]
    if len(ordered) > _DRAWN:
        ordered = [*ordered[: _DRAWN - 1], (f"{len(ordered) - _DRAWN + 1} others", rest)]
    return [Series(label, points) for label, points in ordered]


def to_text(found: Sequence[Series], chart: Chart, columns: int, rows: int, *, coloured: bool) -> str:
    """A chart in characters."""
    import plotext

    plotext.clear_figure()
    plotext.theme("pro" if coloured else "clear")
    plotext.limit_size(False, False)
    plotext.plot_size(columns, rows)
    for marker, one in zip(_MARKERS, found, strict=False):
        plotext.scatter([chart.of(point) for point in one.points], [point.rate for point in one.points],
                        marker=marker, label=one.name)  # fmt: skip
    plotext.title(chart.title)
    plotext.xlabel(chart.label)
    plotext.ylabel(_RATE)
    plotext.ylim(0, 1.1 * max(point.rate for one in found for point in one.points))
    if chart.is_time:
        _name_times(plotext, [point.at for one in found for point in one.points])
    text = str(plotext.build())
    lines = (text if coloured else str(plotext.uncolorize(text))).splitlines()
    return "".join(f"{line.rstrip()}\n" for line in lines) + "\n"


def _name_times(plotext: Any, times: Sequence[float]) -> None:
    """Some times along the axis, by their dates, or by the hour where all are of one day."""
    first, last = min(times), max(times)
    steps = 4 if last > first else 0
    ticks = [first + (last - first) * step / max(steps, 1) for step in range(steps + 1)]
    form = _form(datetime.fromtimestamp(first), datetime.fromtimestamp(last))
    plotext.xticks(ticks, [datetime.fromtimestamp(tick).strftime(form) for tick in ticks])


def _form(first: datetime, last: datetime) -> str:
    """As much of a time as tells the ticks of an axis apart."""
    span = (last - first).total_seconds()
    if span < 300:
        return "%H:%M:%S"
    if first.date() == last.date():
        return "%H:%M"
    return "%m-%d %H:%M" if span < 4 * 86400 else "%Y-%m-%d"


def require_image(path: Path) -> None:
    """See that a chart can be drawn to a file. Raises UsageError."""
    if path.suffix.lower() not in _TYPES:
        raise UsageError(f"{path.name}: a chart is drawn to a .png or .svg file")
    if not path.parent.is_dir():
        raise UsageError(f"{path}: there is no such folder to write to")
    if path.exists() and not path.is_file():
        raise UsageError(f"{path}: this is no plain file")
    try:
        import matplotlib  # noqa: F401
    except ImportError:
        raise UsageError("matplotlib is not installed", hint='pip install "mlxctl[plot]"') from None


def to_file(found: Sequence[Series], path: Path) -> None:
    """All charts, one below the other, as PNG or SVG by the file's name. Raises ResourceError."""
    data = io.BytesIO()
    figure = _figure(found)
    figure.savefig(data, format=path.suffix.lower()[1:], dpi=150)
    try:
        writing.put(path, data.getvalue(), private=False)
    except OSError as error:
        raise ResourceError(f"{path}: {error.strerror}") from None


def _figure(found: Sequence[Series]) -> Any:
    """A figure without pyplot, which would look for a screen."""
    import matplotlib
    from matplotlib.dates import AutoDateLocator, ConciseDateFormatter
    from matplotlib.figure import Figure

    matplotlib.rcParams["svg.fonttype"] = "none"  # text stays text
    figure = Figure(figsize=(9, 4 * len(CHARTS)), layout="constrained")
    for chart, axes in zip(CHARTS, figure.subplots(len(CHARTS)), strict=True):
        for one in found:
            places: list[Any] = [chart.of(point) for point in one.points]
            if chart.is_time:
                places = [datetime.fromtimestamp(place) for place in places]
            axes.plot(places, [point.rate for point in one.points], "o", label=one.name, alpha=0.7)
        axes.set_title(chart.title)
        axes.set_xlabel(chart.label)
        axes.set_ylabel(_RATE)
        axes.set_ylim(bottom=0)
        axes.grid(alpha=0.3)
        axes.legend(loc="best", fontsize="small")
        if chart.is_time:
            locator = AutoDateLocator()
            axes.xaxis.set_major_locator(locator)
            axes.xaxis.set_major_formatter(ConciseDateFormatter(locator))
    return figure
