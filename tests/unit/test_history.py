"""The history's arithmetic, its schema, and what is drawn of it."""

import random
import sqlite3
from collections.abc import Callable
from itertools import combinations
from math import comb
from pathlib import Path

import past
import pytest
from conftest import REPO, seal

from mlxctl.bench import plan
from mlxctl.bench.rows import Subject, row
from mlxctl.bench.writers import FORMATS
from mlxctl.engine import roofline
from mlxctl.engine.bench import Sample, Task
from mlxctl.errors import HistoryError
from mlxctl.history import bandwidth, noise, plots, store, summary
from mlxctl.history.store import Filter
from mlxctl.settings import Settings

GOLDEN = REPO / "tests" / "golden"


@pytest.fixture
def env(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """A sealed environment, which is this process's, too."""
    made = seal(tmp_path)
    for name in ("XDG_STATE_HOME", "XDG_CACHE_HOME"):
        monkeypatch.setenv(name, made[name])
    bandwidth.forget()
    return made


# Noise


@pytest.mark.parametrize(
    ("a", "b", "p"),
    [
        # Of 70 ways to deal 8 ranks, two are as far apart as this.
        ([1, 2, 3, 4], [5, 6, 7, 8], 2 / 70),
        ([5, 6, 7, 8], [1, 2, 3, 4], 2 / 70),
        # Sums of ranks 10, 11 and 25, 26 of a: 1 + 1 + 1 + 1 ways.
        ([1, 2, 3, 5], [4, 6, 7, 8], 4 / 70),
        ([1, 1, 1, 1], [1, 1, 1, 1], 1.0),
        ([1, 2, 3, 4, 5], [6, 7, 8, 9, 10], 2 / 252),
    ],
)
def test_p_by_hand(a: list[float], b: list[float], p: float) -> None:
    assert noise.difference(a, b).p == pytest.approx(p)


def test_few_values_tell_nothing() -> None:
    assert noise.difference([1, 2, 3], [7, 8, 9]).p is None and not noise.difference([1, 2, 3], [7, 8, 9]).is_real
    assert noise.needed() == 4 and 2 / comb(8, 4) < noise.LEVEL < 2 / comb(6, 3)


def test_from_nothing_there_is_no_percentage() -> None:
    assert noise.difference([0.0] * 4, [1.0] * 4).change is None
    assert noise.difference([0.0] * 4, [1.0] * 4).percent == "-"
    assert noise.difference([0.0] * 4, [0.0] * 4).change == 0


def test_p_of_many_is_near_the_exact_one() -> None:
    """Where the splits are too many to count, the normal distribution stands for them."""
    numbers = random.Random(3)
    for _ in range(20):
        a = [numbers.gauss(10, 1) for _ in range(8)]
        b = [numbers.gauss(10.5, 1) for _ in range(8)]
        ranks = {value: rank for rank, value in enumerate(sorted([*a, *b]), 1)}
        off = abs(sum(ranks[value] for value in a) - 68)
        exact = sum(abs(sum(split) - 68) >= off for split in combinations(range(1, 17), 8)) / comb(16, 8)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(noise, "_EXACT", 0)
            assert noise.difference(a, b).p == pytest.approx(exact, abs=0.02)


def test_chance_is_called_a_difference_as_often_as_it_says() -> None:
    """Of 400 pairs from one distribution, outliers among them, some 5 of 100."""
    numbers = random.Random(5)

    def sample() -> list[float]:
        return [numbers.gauss(20, 1) * (0.3 if numbers.random() < 0.1 else 1) for _ in range(7)]

    found = sum(noise.difference(sample(), sample()).is_real for _ in range(400))
    assert 5 <= found <= 35


# Sums


def test_spread() -> None:
    assert summary.spread([]) is None
    assert summary.spread([3.0]) == summary.Spread(3.0, None, None)
    assert summary.spread([float(n) for n in range(101)]) == summary.Spread(50.0, 5.0, 95.0)


# The file


def test_migrations_are_applied_once(env: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    """A file of today gains what a later version adds, and keeps what it has."""
    past.add(env)
    later = (*store.MIGRATIONS, ("ALTER TABLE runs ADD COLUMN note TEXT", "UPDATE runs SET note = 'old'"))
    with monkeypatch.context() as patch:
        patch.setattr(store, "MIGRATIONS", later)
        assert [record.id for record in store.find(Filter())] == [1]
        past.add(env)
        with sqlite3.connect(past.file(env)) as db:
            assert db.execute("SELECT id, note FROM runs").fetchall() == [(1, "old"), (2, None)]
            assert db.execute("PRAGMA user_version").fetchone() == (2,)
            assert db.execute("PRAGMA journal_mode").fetchone() == ("wal",)
        db.close()
    with pytest.raises(HistoryError, match="a later mlxctl"):
        store.find(Filter())


def test_a_migration_that_fails_changes_nothing(env: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    past.add(env)
    broken = (*store.MIGRATIONS, ("ALTER TABLE runs ADD COLUMN note TEXT", "no statement at all"))
    with monkeypatch.context() as patch:
        patch.setattr(store, "MIGRATIONS", broken)
        with pytest.raises(HistoryError):
            past.add(env)
    past.add(env)
    assert [record.id for record in store.find(Filter())] == [1, 2]


# Bytes


def test_bytes_that_a_token_reads(tiny: Callable[[str], str]) -> None:
    """By the shapes in tests/models.py: 512 tokens, 64 wide, 4 bytes each."""
    from mlx.utils import tree_flatten
    from mlx_lm import load

    def loaded(kind: str) -> tuple[int, int, dict[str, int]]:
        model, _, config = load(tiny(kind), return_config=True)  # type: ignore[misc]
        sizes = {name: array.nbytes for name, array in tree_flatten(model.parameters())}
        return roofline.weight_bytes(model, config) or 0, sum(sizes.values()), sizes

    touched, total, sizes = loaded("llama")
    assert total - touched == sizes["model.embed_tokens.weight"]  # of which a token reads one row
    touched, total, sizes = loaded("hybrid")
    assert touched == total and "lm_head.weight" not in sizes  # here the table is the output's matrix, too
    touched, total, sizes = loaded("moe")
    experts = sum(size for name, size in sizes.items() if ".switch_mlp." in name)
    assert experts > 0 and total - touched == sizes["model.embed_tokens.weight"] + experts // 2  # 2 of 4 take part
    model, _, config = load(tiny("moe"), return_config=True)  # type: ignore[misc]
    del config["num_experts_per_tok"]
    assert roofline.weight_bytes(model, config) is None


def test_bytes_where_the_tables_are_several() -> None:
    """By shapes alone: a table a layer that is no output, a head of another kind, and what nobody can tell."""
    import mlx.core as mx
    from mlx import nn

    class Model(nn.Module):
        def __init__(self, **parts: nn.Module) -> None:
            super().__init__()
            for name, part in parts.items():
                setattr(self, name, part)

    def touched(config: dict[str, object] | None = None, **parts: nn.Module) -> int | None:
        return roofline.weight_bytes(Model(**parts), {"vocab_size": 100, **(config or {})})

    table, per_layer = nn.Embedding(100, 8), nn.Embedding(100, 64)
    assert touched(embed_tokens=table, embed_tokens_per_layer=per_layer) == 100 * 8 * 4
    head = nn.Linear(8, 100, bias=False)
    assert touched(embed_tokens=table, lm_head=head) == 100 * 8 * 4
    quantized = nn.QuantizedLinear.from_linear(nn.Linear(64, 100, bias=False), 64, 4)
    assert touched(embed_tokens=table, lm_head=quantized) == 100 * (64 // 2 + 2 * 4)
    named = type("QQLinear", (nn.Linear,), {})(8, 100, bias=False)
    assert touched(embed_tokens=table, lm_head=named) == 100 * 8 * 4
    assert touched(one=nn.Embedding(100, 8), two=nn.Embedding(100, 8)) is None
    assert touched(embed_tokens=table, ngrams=nn.Embedding(5000, 8)) == 100 * 8 * 4
    assert touched(embed_tokens=table, vision_tower=nn.Linear(512, 512)) == 100 * 8 * 4
    assert touched({"index_topk": 2048}, embed_tokens=table) is None
    quantized_table = nn.QuantizedEmbedding.from_embedding(nn.Embedding(100, 64), 64, 8)
    assert touched(embed_tokens=quantized_table) == 100 * (64 + 2 * 4)
    assert mx.default_device() is not None


def test_bandwidth_is_measured_on_the_gpu_by_mlx(monkeypatch: pytest.MonkeyPatch) -> None:
    """The branch of Metal and CUDA, run on what is here."""
    monkeypatch.setattr(roofline.device, "is_cpu", lambda: False)
    monkeypatch.setitem(roofline._SAMPLE_BYTES, "gpu", 4_000_000)
    assert roofline.measure_bandwidth() > 1e6


def test_the_ceiling_is_of_this_machine(env: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    """A home that machines share holds a figure for each."""
    said: list[str] = []
    for node, measured, speed in (("one", 10e9, 10e9), ("two", 20e9, 20e9), ("one", 9e9, 10e9), ("one", 11e9, 11e9)):
        monkeypatch.setattr(roofline, "measure_bandwidth", lambda measured=measured: measured)
        monkeypatch.setattr(bandwidth.platform, "node", lambda node=node: node)
        assert bandwidth.measured("gpu", said.append).bytes_per_s == speed  # the highest that was seen
    assert said == []


# Plans


@pytest.mark.parametrize(
    ("text", "numbers"),
    [
        ("512", [512]),
        ("0,1024", [0, 1024]),
        ("256-4096*2", [256, 512, 1024, 2048, 4096]),
        ("128-512+128", [128, 256, 384, 512]),
        ("1-4", [1, 2, 3, 4]),
        ("8, 16-64*4,7", [8, 16, 64, 7]),
        ("100-120+50", [100]),
        ("0-0*2", [0]),
    ],
)
def test_numbers(text: str, numbers: list[int]) -> None:
    assert plan.numbers(text) == numbers


# Formats


def rows() -> list[object]:
    """Two tests of a model, at 100 and 200, and at 10 and 30 tokens a second."""
    subject = Subject("org/one", "llama 4-bit", 1_800_000_000, 3_212_749_824, "bfloat16", "gpu (Apple M2 Max)",
                      past.VERSIONS)  # fmt: skip
    tests = [(Task(512, 0), [5.12, 2.56], None), (Task(0, 128, 1024, 8, 2), [25.6, 256 / 30], 2_000_000_000)]
    return [row(subject, test, [Sample(second, 0, 2.5) for second in seconds], Settings(), bytes_per_token=needed,
                bandwidth=80e9) for test, seconds, needed in tests]  # fmt: skip


@pytest.mark.parametrize("form", list(FORMATS))
def test_golden_bench(form: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """As it was looked at: 100 and 200 are 150 ± 70.71, 10 and 30 are 20 ± 14.14, half of the ceiling of 40."""
    monkeypatch.setattr("time.gmtime", lambda: (2026, 6, 1, 12, 0, 0, 0, 152, 0))
    found = rows()
    text: list[str] = []
    writer = FORMATS[form](text.append, [one.test for one in found])  # type: ignore[attr-defined]
    for one in found:
        writer.row(one)  # type: ignore[arg-type]
    writer.end()
    assert "".join(text) == (GOLDEN / f"bench.{form}").read_text(encoding="utf-8")


# Charts


def test_more_series_than_can_be_told_apart(env: dict[str, str]) -> None:
    for number in range(12):
        for _ in range(12 - number):
            past.add(env, model=f"org/{number}")
    found = plots.series(store.find(Filter()), name=str)
    assert [one.name for one in found] == [*(f"org/{number}" for number in range(7)), "5 others"]
    assert sum(len(one.points) for one in found) == 78


def test_a_chart_in_a_narrow_terminal(env: dict[str, str]) -> None:
    past.add(env)
    found = plots.series(store.find(Filter()), name=str)
    for chart in plots.CHARTS:
        plain = plots.to_text(found, chart, 40, 12, coloured=False)
        assert max(map(len, plain.splitlines())) <= 40 and "\x1b" not in plain
        assert "\x1b[" in plots.to_text(found, chart, 40, 12, coloured=True)


def test_no_matplotlib(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import sys

    from mlxctl.errors import UsageError

    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(UsageError, match="not installed") as found:
        plots.require_image(tmp_path / "a.png")
    assert found.value.hint == 'pip install "mlxctl[plot]"'
