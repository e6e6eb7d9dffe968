"""MLX: the packages, the device, and what it computes with."""

import sys
from collections.abc import Iterator
from importlib.metadata import requires, version

from mlxctl.doctor import Found, Patient, check, ok, warning


@check("packages")
def packages(patient: Patient) -> Iterator[Found]:
    """Versions, and whether they are among those that mlxctl was tested with."""
    from packaging.requirements import Requirement

    from mlxctl.engine.device import versions

    found = versions()
    tested = {one.name: one for one in map(Requirement, requires("mlxctl") or ()) if not one.marker}
    odd = [f"{name} {now} (tested: {tested[name].specifier})" for name, now in found.items()
           if name in tested and not tested[name].specifier.contains(now, prereleases=True)]  # fmt: skip
    text = ", ".join(f"{name} {now}" for name, now in found.items())
    yield warning("; ".join(odd), "pip install --upgrade mlxctl brings versions that fit") if odd else ok(text)


@check("device")
def device(patient: Patient) -> Iterator[Found]:
    """A small sum, on the device that answers will come from."""
    from mlxctl.engine.health import compute

    yield ok(compute())


@check("blas")
def blas(patient: Patient) -> Iterator[Found]:
    """On a CPU under Linux nearly all of the work is BLAS's, and the one that comes with mlx is slow."""
    from mlxctl.engine import blas as library
    from mlxctl.engine.device import is_cpu, require_backend

    require_backend()
    if sys.platform != "linux" or not is_cpu():
        yield ok("the device's own")
        return
    loaded = library.loaded()
    fast = [name for name in loaded if library.is_fast(name)]
    if fast:
        yield ok(", ".join(fast))
    elif patient.environ.get(library.VARIABLE) == "off":
        yield warning(
            f"{library.VARIABLE}=off: {_slow(loaded)}", f"unset {library.VARIABLE}, for a fast one that is there"
        )
    else:
        yield warning(
            _slow(loaded), "install OpenBLAS (libopenblas0): mlxctl finds it, and reads prompts several times as fast"
        )


def _slow(loaded: list[str]) -> str:
    return f"{', '.join(loaded) or 'one inside mlx'}, which is slow"


@check("libraries")
def libraries(patient: Patient) -> Iterator[Found]:
    """What comes with Python and decides how prompts are made."""
    yield ok(", ".join(f"{name} {version(name)}" for name in ("tokenizers", "jinja2", "huggingface_hub")))
