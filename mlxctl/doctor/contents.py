"""Profiles, caches, conversations, and the model that was chosen."""

import shlex
from collections.abc import Iterator, Sequence
from pathlib import Path

from mlxctl import paths, profiles, texts
from mlxctl.doctor import Found, Patient, check, fail, machine, ok, warning
from mlxctl.errors import ExitStatus, MlxctlError, UsageError
from mlxctl.rules import ModelFacts

_MOST = 0.75  # of the memory, above which a model leaves too little for a prompt
_WIRED = 0.9  # of the memory; the system freezes when all of it is wired


@check("profiles")
def check_profiles(patient: Patient) -> Iterator[Found]:
    found = list(profiles.everywhere())
    wrong = [fault for path in found for fault in _faults(str(path))]
    for fault in dict.fromkeys(wrong):
        yield fail(fault, f"mlxctl profile edit {shlex.quote(_named_in(fault))}", ExitStatus.USAGE)
    if not wrong:
        yield ok(f"{len(found)} in reach")


def _named_in(fault: str) -> str:
    """The file that "file:line: what is wrong" is about."""
    return fault.partition(".toml")[0] + ".toml" if ".toml" in fault else "NAME"


def _faults(name: str) -> list[str]:
    try:
        return profiles.check(profiles.find(name)).faults
    except UsageError as error:
        return [error.message]


@check("caches")
def caches(patient: Patient) -> Iterator[Found]:
    """Those with a name can be read, as far as their headers tell."""
    from mlxctl.caches import auto, format, named

    entries = named.entries()
    for entry in entries:
        try:
            with named.looking(entry.path):
                meta = format.read_meta(entry.path)
            model = meta.made_with.path if meta is not None else None
            if model is not None and model.startswith("/") and not paths.is_dir(Path(model)):
                yield warning(
                    f"cache {entry.name}: its model is gone: {model}", f"mlxctl cache rm {shlex.quote(entry.name)}"
                )
        except MlxctlError as error:
            yield fail(error.message, f"mlxctl cache rm {shlex.quote(entry.name)}", ExitStatus.CACHE)
    kept = auto.opened().entries()
    size = sum(entry.size for entry in entries) + sum(entry.size for entry in kept)
    yield ok(f"{len(entries)} with a name, {len(kept)} automatic, {texts.size(size)}")


@check("history")
def history(patient: Patient) -> Iterator[Found]:
    """Every record of it can be read."""
    from mlxctl.history import store

    found = store.find(store.Filter())
    yield ok(f"{len(found)} run{'' if len(found) == 1 else 's'}" if found else "empty")


@check("model")
def model(patient: Patient) -> Iterator[Found]:
    """The one that was chosen: there, of a size that fits, and with a template that does not spoil answers."""
    from mlxctl.engine import prompt
    from mlxctl.engine.device import require_backend
    from mlxctl.engine.loader import hub_is_offline, in_reach, open_source

    require_backend()
    settings = patient.settings
    if settings is None:
        yield warning("not looked at: the settings are wrong")
        return
    folder = in_reach(settings)
    if folder is None:
        offline = hub_is_offline(patient.environ) or settings.request.offline
        then = "offline nothing fetches it" if offline else "the first run fetches it"
        yield warning(f"{settings.model_id} is not here; {then}", "mlxctl run --model … names another")
        return
    files = sorted(folder.glob("model*.safetensors"))  # what mlx-lm loads; some keep another copy beside them
    size = sum(file.stat().st_size for file in files if file.exists())
    wrong = list(_weights(settings.model_id, folder, files))
    yield from wrong
    yield from _fits(settings.model_id, size)
    source = open_source(settings, lambda text: None)
    if not wrong:
        yield ok(f"{settings.model_id}: {paths.short(folder)}, {texts.size(size)}{_context(source.facts)}")
    findings = prompt.confined(
        lambda: prompt.lint(source.tokenizer, settings, source.path), settings.model_id, list[prompt.Finding]
    )
    for finding in findings:
        if finding.severity == "error":
            yield fail(f"{finding.code}: {finding.evidence}", finding.mend, ExitStatus.TEMPLATE)
        elif finding.severity == "warning":
            yield warning(f"{finding.code}: {finding.evidence}", finding.mend)


def _weights(name: str, folder: Path, files: Sequence[Path]) -> Iterator[Found]:
    """Whether they are there and whole, as far as their headers and the index of their parts tell."""
    from mlxctl.engine.health import is_whole, missing_parts

    if not files:
        yield fail(
            f"{name} has no weights (model*.safetensors)", "fetch the model again, or name another", ExitStatus.MODEL
        )
    elif missing := missing_parts(folder):
        more = f" and {len(missing) - 1} more" if len(missing) > 1 else ""
        yield fail(f"{name} lacks {missing[0]}{more}, which its index names", "fetch the model again", ExitStatus.MODEL)
    for file in files:
        if not is_whole(file):
            yield fail(
                f"{paths.short(file)} is damaged, or a part of it is missing", "fetch it again", ExitStatus.MODEL
            )


def _fits(name: str, size: int) -> Iterator[Found]:
    """Whether the weights have room, and on Metal may stay wired."""
    from mlxctl.engine.health import limits

    memory, wired = machine.memory_size(), limits().get("max_recommended_working_set_size")
    if size > memory:
        text = f"{name} has {texts.size(size)} of weights, the machine {texts.size(memory)} of memory"
        yield fail(text, "take a smaller one, or one of fewer bits", ExitStatus.RESOURCES)
    elif wired and size > wired:
        yield warning(f"{name} has {texts.size(size)} of weights, {texts.size(wired)} may stay wired",
                      _wire(size, memory))  # fmt: skip
    elif size > _MOST * memory:
        yield warning(f"{name} takes {size / memory:.0%} of the memory", "little is left for long prompts: --kv-bits 8")


def _wire(size: int, memory: int) -> str:
    """How to let so many bytes and what answers need beside them stay wired, of a memory that the system shares."""
    wanted, most = int(size * 1.2), int(memory * _WIRED)
    if size > most:
        return "take a smaller one, or one of fewer bits: the system needs the rest of the memory"
    return f"sudo sysctl iogpu.wired_limit_mb={min(wanted, most) // 2**20}"


def _context(facts: ModelFacts) -> str:
    return f", context {facts.context}" if facts.context else ""
