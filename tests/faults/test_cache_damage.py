"""Cache files that are damaged, forged, foreign, or made for another run: refused, or the answer is the right one."""

import json
import os
import pickle
import random
import shutil
import zipfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from caches import (
    GREEDY,
    KEY,
    LINE,
    QUESTION,
    Header,
    Watched,
    fault,
    flipped,
    join,
    rebuilt,
    retold,
    reworded,
    seal,
    split,
)
from conftest import Result
from conftest import seal as seal_env
from forked import Server

Tiny = Callable[[str], str]
CUTS, FLIPS = 200, 100  # flips: in the header, and as many in the data
Q8 = ("--kv-bits", "8", "--kv-group-size", "32", "--quantized-kv-start", "0")


@pytest.fixture(scope="module")
def mlxctl(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Watched]:
    """The program, with a home of its own."""
    folder = tmp_path_factory.mktemp("damage")
    watched = Watched(seal_env(folder), folder / "work")
    (watched.cwd / "rain.txt").write_text(LINE * 4)
    yield watched
    watched.close()


@dataclass(frozen=True)
class Saved:
    """A good cache file, and what comes of asking it a question."""

    mlxctl: Watched = field(repr=False)
    blob: bytes = field(repr=False)
    right: str

    def ask(self, blob: bytes, *flags: str, patience: float = 30) -> Result:
        """The answer from a file of these bytes."""
        path = self.mlxctl.cwd / "damaged.safetensors"
        path.write_bytes(blob)
        return self.mlxctl("run", "--cache", str(path), *GREEDY, *flags, input=QUESTION, patience=patience)

    def fault(self, blob: bytes, *flags: str) -> str | None:
        return fault(self.ask(blob, *flags), self.right)


def save(mlxctl: Watched, *flags: str) -> Path:
    """A new cache of the rain."""
    path = mlxctl.cwd / "good.safetensors"
    done = mlxctl("cache", "save", str(path), "-f", "rain.txt", *flags)
    assert done.code == 0, done.err
    return path


def answer(mlxctl: Watched, *flags: str) -> str:
    """What a run without any cache says."""
    done = mlxctl("run", "-f", "rain.txt", *GREEDY, *flags, input=QUESTION)
    assert done.code == 0, done.err
    return done.out


def make(mlxctl: Watched, *flags: str) -> Saved:
    """A cache that serves."""
    saved = Saved(mlxctl, save(mlxctl, *flags).read_bytes(), answer(mlxctl, *flags))
    done = saved.ask(saved.blob)
    assert (done.code, done.out) == (0, saved.right), done.err
    return saved


@pytest.fixture(scope="module")
def saved(mlxctl: Watched, tiny: Tiny) -> Saved:
    """Of the tiny llama."""
    return make(mlxctl, "--model", tiny("llama"))


@pytest.fixture
def model(mlxctl: Watched, tiny: Tiny) -> Iterator[Path]:
    """A llama of one's own to change."""
    folder = mlxctl.cwd / "own"
    shutil.copytree(tiny("llama"), folder)
    yield folder
    shutil.rmtree(folder)


# Damage


def test_cut_anywhere(saved: Saved) -> None:
    chance = random.Random(11)
    places = chance.sample(range(len(saved.blob)), CUTS)
    wrong = {place: saved.fault(saved.blob[:place]) for place in places}
    assert {place: what for place, what in wrong.items() if what} == {}


@pytest.mark.parametrize("where", ["header", "data"])
def test_one_bit(saved: Saved, where: str) -> None:
    start = len(saved.blob) - len(split(saved.blob)[1])
    bytes_ = range(start) if where == "header" else range(start, len(saved.blob))
    chance = random.Random(12)
    bits = [chance.choice(bytes_) * 8 + chance.randrange(8) for _ in range(FLIPS)]
    wrong = {bit: saved.fault(flipped(saved.blob, bit)) for bit in bits}
    assert {bit: what for bit, what in wrong.items() if what} == {}


def test_one_bit_of_the_length(saved: Saved) -> None:
    wrong = {bit: saved.fault(flipped(saved.blob, bit)) for bit in range(64)}
    assert {bit: what for bit, what in wrong.items() if what} == {}


def test_more_or_less_in_the_middle(saved: Saved) -> None:
    blob, middle = saved.blob, len(saved.blob) // 2
    others = [
        blob + b"\0",
        blob + blob,
        blob[:middle] + blob[middle + 4 :],
        blob[:middle] + b"\0" * 4096 + blob[middle + 4096 :],
    ]
    assert [what for other in others if (what := saved.fault(other))] == []


@pytest.mark.parametrize("flag", ["--cache", "--prompt-cache-file"])
def test_told_by_upstreams_flag(saved: Saved, flag: str) -> None:
    """Damage to what we say of a file does not turn it into one that is believed unseen."""
    chance, path = random.Random(13), saved.mlxctl.cwd / "damaged.safetensors"
    start = len(saved.blob) - len(split(saved.blob)[1])
    wrong = []
    place = saved.blob.index(b"version")
    for blob in (
        *(flipped(saved.blob, chance.randrange(start * 8)) for _ in range(20)),
        *(saved.blob[: chance.randrange(len(saved.blob))] for _ in range(10)),
        flipped(flipped(saved.blob, place * 8), (len(saved.blob) - 5) * 8 + 6),
    ):
        path.write_bytes(blob)
        done = saved.mlxctl("run", flag, str(path), *GREEDY, input=QUESTION)
        wrong.append(fault(done, saved.right))
    assert [what for what in wrong if what] == []


def test_damaged_twice_by_upstreams_flag(saved: Saved, tiny: Tiny) -> None:
    """A description that cannot be read, and keys and values that nobody has checked then."""
    data = bytearray(split(saved.blob)[1])
    data[64 : len(data) // 2] = bytes(len(data) // 2 - 64)
    header, _ = split(saved.blob)
    header["__metadata__"][KEY] = header["__metadata__"][KEY].replace('"version"', '"versiom"', 1)
    path = saved.mlxctl.cwd / "damaged.safetensors"
    path.write_bytes(join(header, bytes(data)))
    done = saved.mlxctl("run", "--prompt-cache-file", str(path), *GREEDY, input=QUESTION)
    assert fault(done, saved.right) is None


# Things that are no cache files


def test_foreign_safetensors(saved: Saved, tiny: Tiny, tmp_path: Path) -> None:
    import mlx.core as mx

    mx.save_safetensors(str(tmp_path / "a"), {"0": mx.zeros((2, 3))})
    mx.save_safetensors(str(tmp_path / "b"), {"0.0": mx.zeros((1, 2, 72, 32))}, {"0.model": "x", "format": "mlx"})
    mx.save_safetensors(str(tmp_path / "c"), {"x": mx.array([])}, {KEY: "{}"})
    files = [*(tmp_path / f"{name}.safetensors" for name in "abc"), Path(tiny("llama")) / "model.safetensors"]
    assert [what for file in files if (what := saved.fault(file.read_bytes()))] == []
    assert all(saved.ask(file.read_bytes()).code == 4 for file in files)


def test_upstreams_file(saved: Saved, server: Server, tiny: Tiny) -> None:
    """It holds no ids, and --cache has nothing to compare with."""
    path = saved.mlxctl.cwd / "upstream.safetensors"
    args = ("--model", tiny("llama"), "--prompt", LINE, "--prompt-cache-file", str(path))
    assert server.run("mlx_lm.cache_prompt", args, b"", saved.mlxctl.cwd, {})[0] == 0
    done = saved.ask(path.read_bytes())
    assert fault(done, saved.right) is None
    assert done.code == 4


def _pickle(path: Path) -> None:
    path.write_bytes(pickle.dumps({"0.0": [1.0] * 1000, "os": os.getcwd}))


def _zip(path: Path) -> None:
    with zipfile.ZipFile(path, "w") as file:
        file.writestr("0.0.npy", b"\x93NUMPY" + bytes(100))


NO_CACHES: dict[str, Callable[[Path], Any]] = {
    "empty": Path.touch,
    "seven bytes": lambda path: path.write_bytes(b"\x02\0\0\0\0\0\0"),
    "eight bytes": lambda path: path.write_bytes(b"\x02\0\0\0\0\0\0\0"),
    "zeros": lambda path: path.write_bytes(bytes(5000)),
    "text": lambda path: path.write_text(LINE * 100),
    "a pickle": _pickle,
    "a zip": _zip,
    "a directory": Path.mkdir,
    "a fifo": os.mkfifo,
    "an endless device": lambda path: path.symlink_to("/dev/zero"),
    "a link to itself": lambda path: path.symlink_to(path),
    "a link to nothing": lambda path: path.symlink_to("gone"),
}


@pytest.mark.parametrize("name", NO_CACHES)
@pytest.mark.parametrize("command", ["run", "info", "upstream's flag"])
def test_no_cache_at_all(mlxctl: Watched, tmp_path: Path, name: str, command: str) -> None:
    path = tmp_path / "x.safetensors"
    NO_CACHES[name](path)
    flag = "--cache" if command == "run" else "--prompt-cache-file"
    args = ("cache", "info", str(path)) if command == "info" else ("run", flag, str(path), *GREEDY, QUESTION)
    done = mlxctl(*args, input="" if command == "info" else QUESTION, patience=15)
    assert done.code == 4, done
    assert fault(done, "") is None


# Hostile headers: what they say is not what can be


def _offsets(name: str, *offsets: Any) -> Callable[[Header], None]:
    return lambda header: header[name].update(data_offsets=list(offsets))


def _field(name: str, **fields: Any) -> Callable[[Header], None]:
    return lambda header: header[name].update(fields)


def _array(name: str, entry: Any) -> Callable[[Header], None]:
    return lambda header: header.update({name: entry})


def _metadata(**fields: Any) -> Callable[[Header], None]:
    return lambda header: header["__metadata__"].update({name.replace("_", "."): text for name, text in fields.items()})


def _without(*names: str) -> Callable[[Header], None]:
    def remove(header: Header) -> None:
        for name in names:
            header.pop(name, None)
            header["__metadata__"].pop(name, None)

    return remove


def _one_layer(header: Header) -> None:
    """The file of a model with one layer, that says it has two."""
    _without("1.0", "1.1", "1.2", "1.1", "2.2.0", "2.2.1")(header)


HEADERS: dict[str, Callable[[Header], Any]] = {
    "negative offset": _offsets("0.0", -8, 18424),
    "offsets past the end": _offsets("0.0", 10**6, 10**6 + 18432),
    "offsets far past the end": _offsets("0.0", 2**62, 2**62 + 18432),
    "offsets beyond 64 bits": _offsets("0.0", 2**64, 2**64 + 18432),
    "offsets the wrong way round": _offsets("0.0", 18432, 0),
    "overlapping offsets": lambda header: header["0.0"].update(data_offsets=header["1.1"]["data_offsets"]),
    "offsets of text": _offsets("0.0", "0", "18432"),
    "one offset": _offsets("0.0", 18432),
    "no offsets": _offsets("0.0"),
    "offsets that are nothing": _field("0.0", data_offsets=None),
    "float offsets": _offsets("0.0", 0.5, 18432.5),
    "unknown dtype": _field("0.0", dtype="F33"),
    "dtype of another size": _field("0.0", dtype="F16"),
    "dtype of the same size": _field("0.0", dtype="I32"),
    "dtype not text": _field("0.0", dtype=7),
    "dtype nested": _field("0.0", dtype=[["F32"]]),
    "huge shape": _field("0.0", shape=[2**31, 2**31, 2**31]),
    "shape that overflows to the right size": _field("0.0", shape=[2**32, 2**32, 1, 1]),
    "shape beyond 64 bits": _field("0.0", shape=[1, 2, 2**70, 32]),
    "negative shape": _field("0.0", shape=[1, -2, -66, 32]),
    "shape of text": _field("0.0", shape="1,2,66,32"),
    "no shape": _field("0.0", shape=None),
    "shape of no dimension": _field("0.0", shape=[]),
    "shape with a zero": _field("0.0", shape=[0, 2, 66, 32]),
    "shape of floats": _field("0.0", shape=[1.0, 2.0, 66.0, 32.0]),
    "other heads": _field("0.0", shape=[1, 4, 66, 16]),
    "other heads throughout": lambda header: [_field(f"{i}.{j}", shape=[1, 4, 66, 16])(header) for i in (0, 1)
                                              for j in (0, 1)],
    "heads and tokens swapped throughout": lambda header: [_field(f"{i}.{j}", shape=[1, 66, 2, 32])(header)
                                                           for i in (0, 1) for j in (0, 1)],
    "two dimensions fewer": _field("0.0", shape=[132, 32]),
    "a batch of two throughout": lambda header: [_field(f"{i}.{j}", shape=[2, 1, 66, 32])(header) for i in (0, 1)
                                                 for j in (0, 1)],
    "numbers of another kind throughout": lambda header: [_field(f"{i}.{j}", dtype="I32")(header) for i in (0, 1)
                                                          for j in (0, 1)],
    "an array is no object": _array("0.0", 5),
    "an array is null": _array("0.0", None),
    "an array more": _array("7.0", {"dtype": "F32", "shape": [0], "data_offsets": [0, 0]}),
    "an array of a layer more": lambda header: header.update({"2.0": header["0.0"]}),
    "an array less": _without("0.1"),
    "no arrays": _without("0.0", "0.1", "0.2", "1.0", "1.1", "1.2"),
    "an empty name": _array("", {"dtype": "F32", "shape": [0], "data_offsets": [0, 0]}),
    "a deep name": _array(".".join("0" * 5000), {"dtype": "F32", "shape": [0], "data_offsets": [0, 0]}),
    "the token count is text": _metadata(**{"2_1_1": "string"}),
    "the token count is nothing": _metadata(**{"2_1_1": "none"}),
    "the token count is of an unknown kind": _metadata(**{"2_1_1": "pickle"}),
    "the token count is elsewhere": _metadata(**{"2_1_0": "9.9"}),
    "the token count is the keys": _metadata(**{"2_1_0": "0.0"}),
    "the token count is a float": _field("0.2", dtype="F32"),
    "the token count is unsigned": _field("0.2", dtype="U32"),
    "the token count is no scalar": _field("0.2", shape=[1]),
    "a class that is none": _metadata(**{"1_0": "NoSuchCache"}),
    "a class of Python": _metadata(**{"1_0": "__builtins__"}),
    "a function": _metadata(**{"1_0": "load_prompt_cache"}),
    "the base class": _metadata(**{"1_0": "_BaseCache"}),
    "a class that rotates": _metadata(**{"1_0": "RotatingKVCache", "1_1": "RotatingKVCache"}),
    "a class that quantizes": _metadata(**{"1_0": "QuantizedKVCache", "1_1": "QuantizedKVCache"}),
    "a class of batches": _metadata(**{"1_0": "BatchKVCache", "1_1": "BatchKVCache"}),
    "a class that chunks": _metadata(**{"1_0": "ChunkedKVCache", "1_1": "ChunkedKVCache"}),
    "a class that concatenates": _metadata(**{"1_0": "ConcatenateKVCache", "1_1": "ConcatenateKVCache"}),
    "a class of arrays": _metadata(**{"1_0": "ArraysCache", "1_1": "ArraysCache"}),
    "a class of lists": _metadata(**{"1_0": "CacheList", "1_1": "CacheList"}),
    "no classes": _without("1.0", "1.1"),
    "a class less": _without("1.1"),
    "one layer": _one_layer,
    "no list of scalars": _without("2.0", "2.1.0", "2.1.1", "2.2.0", "2.2.1"),
    "no model": _without("0.model"),
    "metadata not of text": _metadata(**{"1_0": 5}),
    "metadata nested": _metadata(**{"1_0": {"a": 1}}),
    "metadata of thousands": lambda header: header["__metadata__"].update({f"0.x{i}": "" for i in range(20000)}),
    "metadata in a deep name": _metadata(**{"_".join("0" * 5000): "x"}),
}  # fmt: skip


@pytest.mark.parametrize("name", HEADERS)
def test_hostile_header(saved: Saved, name: str) -> None:
    """With a checksum that fits."""
    blob = rebuilt(saved.blob, HEADERS[name])
    assert saved.fault(blob) is None


def _raw(header: bytes) -> Callable[[bytes, bytes], bytes]:
    return lambda raw, data: join(header, data)


RAW: dict[str, Callable[[bytes, bytes], bytes]] = {
    "length 2**63": lambda raw, data: (2**63).to_bytes(8, "little") + raw + data,
    "length 2**64 - 1": lambda raw, data: (2**64 - 1).to_bytes(8, "little") + raw + data,
    "length beyond the file": lambda raw, data: (len(raw + data) + 1).to_bytes(8, "little") + raw + data,
    "length to the end": lambda raw, data: len(raw + data).to_bytes(8, "little") + raw + data,
    "length 0": lambda raw, data: bytes(8) + raw + data,
    "header that is no JSON": _raw(b"x" * 500),
    "header of nothing": _raw(b""),
    "header that is a list": _raw(b"[]"),
    "header that is a number": _raw(b"1e999"),
    "header that is NaN": _raw(b"NaN"),
    "header of a huge number": _raw(b"9" * 10000),
    "header that is null": _raw(b"null"),
    "header that is no text": _raw(b"\xff\xfe{}"),
    "header with a mark in front": lambda raw, data: join(b"\xef\xbb\xbf" + raw, data),
    "header in 16 bits": lambda raw, data: join(raw.decode().encode("utf-16"), data),
    "100,000 deep": _raw(b"[" * 100_000),
    "100,000 deep and back": _raw(b'{"__metadata__":' * 100_000 + b"{}" + b"}" * 100_000),
    "100,000 deep beside the metadata": lambda raw, data: join(
        b'{"x":' + b"[" * 100_000 + b"]" * 100_000 + b"," + raw[1:], data
    ),
    "900 deep beside the metadata": lambda raw, data: join(b'{"x":' + b"[" * 900 + b"]" * 900 + b"," + raw[1:], data),
    "a key twice": lambda raw, data: join(raw[:-1] + b"," + raw[1:], data),
    "metadata twice": lambda raw, data: join(raw[:-1] + b',"__metadata__":{}}', data),
    "metadata that is a list": _raw(b'{"__metadata__":[]}'),
    "metadata that is nothing": _raw(b'{"__metadata__":null}'),
    "metadata that is empty": _raw(b'{"__metadata__":{}}'),
    "half a character": lambda raw, data: join(raw.replace(b"rain", rb"\ud800", 1), data),
    "space without end": lambda raw, data: join(raw + b" " * 5_000_000, data),
}


@pytest.mark.parametrize("name", RAW)
def test_hostile_bytes(saved: Saved, name: str) -> None:
    end = 8 + int.from_bytes(saved.blob[:8], "little")
    assert saved.fault(RAW[name](saved.blob[8:end], saved.blob[end:])) is None


def test_a_hundred_gigabytes_of_nothing(saved: Saved) -> None:
    """A file with holes: refused by its size, not after an hour."""
    path = saved.mlxctl.cwd / "huge.safetensors"
    try:
        path.write_bytes(saved.blob)
        os.truncate(path, 100 * 2**30)
        done = saved.mlxctl("run", "--cache", str(path), *GREEDY, input=QUESTION, patience=8)
    finally:
        path.unlink()
    assert fault(done, saved.right) is None
    assert done.code == 4


# Descriptions that disagree with the arrays, or are none


def _said(**fields: Any) -> Callable[[dict[str, Any]], None]:
    return lambda said: said.update(fields)


def _inside(part: str, **fields: Any) -> Callable[[dict[str, Any]], None]:
    return lambda said: said[part].update(fields)


def _nested(depth: int) -> Any:
    value: Any = "x"
    for _ in range(depth):
        value = [value]
    return value


def _ids(change: Callable[[list[int]], list[Any]]) -> Callable[[dict[str, Any]], None]:
    return lambda said: said.update(ids=change(said["ids"]))


def _unsaid(name: str) -> Callable[[dict[str, Any]], None]:
    return lambda said: said.pop(name)


SAID: dict[str, Callable[[dict[str, Any]], Any]] = {
    "older": _said(version=0),
    "newer": _said(version=2),
    "version -1": _said(version=-1),
    "version 2**200": _said(version=2**200),
    "version as text": _said(version="1"),
    "version as a truth": _said(version=True),
    "version as a float": _said(version=1.5),
    "version of nothing": _said(version=None),
    "one id less": _ids(lambda ids: ids[:-1]),
    "one id more": _ids(lambda ids: [*ids, 5]),
    "no ids": _ids(lambda ids: []),
    "one id": _ids(lambda ids: ids[:1]),
    "twice the ids": _ids(lambda ids: ids * 2),
    "another id in the middle": _ids(lambda ids: [*ids[:40], 7, *ids[41:]]),
    "another first id": _ids(lambda ids: [7, *ids[1:]]),
    "a negative id": _ids(lambda ids: [*ids[:40], -1, *ids[41:]]),
    "a huge id": _ids(lambda ids: [*ids[:40], 2**31, *ids[41:]]),
    "an id beyond 64 bits": _ids(lambda ids: [*ids[:40], 2**70, *ids[41:]]),
    "an id as text": _ids(lambda ids: [*ids[:-1], str(ids[-1])]),
    "an id as a float": _ids(lambda ids: [*ids[:-1], ids[-1] + 0.5]),
    "ids as floats": _ids(lambda ids: [float(number) for number in ids]),
    "ids as truths": _ids(lambda ids: [True, *ids[1:]]),
    "ids as text": _said(ids="1,2,3"),
    "ids of nothing": _said(ids=None),
    "ids in lists": _ids(lambda ids: [ids]),
    "messages of nothing": _said(messages=None),
    "messages as text": _said(messages="user"),
    "messages of numbers": _said(messages=[1]),
    "a message without a role": _said(messages=[{"content": LINE * 4}]),
    "a message without a text": _said(messages=[{"role": "user"}]),
    "an empty message": _said(messages=[{}]),
    "a text that is a number": _said(messages=[{"role": "user", "content": 5}]),
    "a text that is nothing": _said(messages=[{"role": "user", "content": None}]),
    "a text in parts": _said(messages=[{"role": "user", "content": [{"type": "text", "text": "x"}]}]),
    "a role that is a number": _said(messages=[{"role": 5, "content": "x"}]),
    "a role that is a list": _said(messages=[{"role": ["user"], "content": "x"}]),
    "template of nothing": _said(template=None),
    "template as a list": _said(template=[1]),
    "template 100 deep": _said(template={"x": _nested(100)}),
    "template 300 deep": _said(template={"x": _nested(300)}),
    "template 450 deep": _said(template={"x": _nested(450)}),
    "template 900 deep": _said(template={"x": _nested(900)}),
    "template named self": _said(template={"self": 1}),
    "template named conversation": _said(template={"conversation": 1}),
    "template named messages": _said(template={"messages": 1}),
    "template named tools": _said(template={"tools": 5}),
    "template named documents": _said(template={"documents": 5}),
    "template named tokenize": _said(template={"tokenize": False}),
    "template named return_dict": _said(template={"return_dict": True}),
    "template named return_tensors": _said(template={"return_tensors": "pt"}),
    "template named padding": _said(template={"padding": 5}),
    "template named max_length": _said(template={"max_length": "x"}),
    "template named chat_template": _said(template={"chat_template": 5}),
    "template named enable_thinking": _said(template={"enable_thinking": "x"}),
    "template hash as a number": _said(template_hash=5),
    "bare as text": _said(ignore_chat_template="yes"),
    "parts of nothing": _said(parts=None),
    "parts of numbers": _said(parts=[5]),
    "kv of nothing": _said(kv=None),
    "kv_bits 7": _inside("kv", kv_bits=7),
    "kv_bits 8": _inside("kv", kv_bits=8),
    "kv_bits 8 at once": _inside("kv", kv_bits=8, kv_group_size=32, quantized_kv_start=0),
    "kv_group_size 0": _inside("kv", kv_group_size=0),
    "kv start below 0": _inside("kv", quantized_kv_start=-1),
    "kv size 0": _inside("kv", max_kv_size=0),
    "kv size 8": _inside("kv", max_kv_size=8),
    "kv size beyond 64 bits": _inside("kv", max_kv_size=2**70),
    "a kv setting of the future": _inside("kv", kv_mode="x"),
    "made_with of nothing": _said(made_with=None),
    "made_with a number": _inside("made_with", path=5),
    "made_with no dtype": _inside("made_with", dtype="float99"),
    "made_with another dtype": _inside("made_with", dtype="float16"),
    "made_with drafts below 0": _inside("made_with", num_draft_tokens=-1),
    "made_with an end that is none": _inside("made_with", extra_eos_token=["no such token"]),
    "made_with quantized activations": _inside("made_with", quantize_activations=True),
    "identity of nothing": _said(identity=None),
    "identity that is empty": _said(identity={}),
    "identity as a list": _said(identity=[]),
    "identity of numbers": _said(identity={name: 5 for name in ("model", "tokenizer", "dtype", "layers")}),
    "other layers": _inside("identity", layers=["KVCache"]),
    "created as a number": _said(created=5),
    "created never": _said(created="never"),
    "complete as text": _said(complete="yes"),
    "versions as a list": _said(versions=[]),
    "versions of numbers": _said(versions={"mlx": 5}),
    "a key of the future": _said(more={"a": [1]}),
    "upstream_model as a number": _said(upstream_model=5),
    **{f"no {name}": _unsaid(name)
       for name in ("version", "ids", "messages", "kv", "made_with", "identity", "created", "complete")},
}  # fmt: skip


@pytest.mark.parametrize("name", SAID)
def test_lying_description(saved: Saved, name: str) -> None:
    """With a checksum that fits."""
    done = saved.ask(retold(saved.blob, SAID[name]))
    # Settings and arguments that are well formed may fail as they always do with this model.
    ordinary = ("template", "a role", "kv_bits 8", "made_with an end that is none")
    if name.startswith(ordinary) and done.code in (2, 5):
        done = Result(4, done.out, done.err)
    assert fault(done, saved.right) is None


@pytest.mark.parametrize("name", [name for name in SAID if name.startswith(("a ", "an ", "message", "created", "kv"))])
def test_info_of_a_lying_description(saved: Saved, name: str) -> None:
    """What a file says may be shown, or refused."""
    path = saved.mlxctl.cwd / "damaged.safetensors"
    path.write_bytes(retold(saved.blob, SAID[name]))
    done = saved.mlxctl("cache", "info", "--text", str(path))
    assert fault(done, done.out) is None


WORDS = {
    "NaN": ('"ids":[', '"ids":[NaN,'),
    "infinity": ('"ids":[', '"ids":[Infinity,'),
    "1e400": ('"ids":[', '"ids":[1e400,'),
    "an id of 10,000 digits": ('"ids":[', '"ids":[' + "9" * 10_000 + ","),
    "a version of 10,000 digits": ('"version":1', '"version":' + "1" * 10_000),
    "a lone surrogate": ('"created":"', r'"created":"\ud800'),
    "a zero": ('"created":"', r'"created":"\u0000'),
    "steering the terminal": ('"created":"', r'"created":"\u001b[2J\u001b]0;x\u0007'),
    "100,000 deep": ('"template":{', '"template":{"x":' + "[" * 100_000 + "]" * 100_000 + ","),
    "100,000 deep, unclosed": ('"template":{', '"template":{"x":' + "[" * 100_000),
    "100,000 deep unknown": ('"version":1', '"version":1,"x":' + "[" * 100_000 + "]" * 100_000),
    "a key twice": ('"version":1', '"version":1,"version":1'),
    "a checksum twice": ('"version":1', '"version":1,"checksum":"' + "0" * 64 + '"'),
    "no checksum": ('"checksum":"', '"checksun":"'),
    "cut": ('"identity":', ""),
}  # fmt: skip


@pytest.mark.parametrize("name", WORDS)
def test_description_that_is_no_json(saved: Saved, name: str) -> None:
    assert saved.fault(reworded(saved.blob, *WORDS[name])) is None


@pytest.mark.parametrize("name", ["a lone surrogate", "a zero", "steering the terminal"])
def test_info_does_not_steer_the_terminal(saved: Saved, name: str) -> None:
    path = saved.mlxctl.cwd / "damaged.safetensors"
    path.write_bytes(reworded(saved.blob, *WORDS[name]))
    done = saved.mlxctl("cache", "info", str(path))
    assert fault(done, done.out) is None


def test_a_file_lets_no_code_run(saved: Saved, tiny: Tiny, model: Path) -> None:
    """Only the person at the keyboard lets a model's folder run its own Python."""
    (model / "own.py").write_text(
        "from pathlib import Path\n"
        f"Path({str(model / 'it-ran')!r}).touch()\n"
        "from mlx_lm.models.llama import Model, ModelArgs\n"
    )
    config = json.loads((model / "config.json").read_text())
    (model / "config.json").write_text(json.dumps({**config, "model_file": "own.py"}))
    saved.mlxctl("run", "--model", str(model), *GREEDY, input=QUESTION)
    assert not (model / "it-ran").exists()
    blob = retold(saved.blob, _inside("made_with", path=str(model), trust_remote_code=True))
    saved.ask(blob)
    assert not (model / "it-ran").exists()


@pytest.mark.parametrize("kind", ["quant", "sliding", "mamba", "hybrid", "chunked", "lists", "pairs", "moe"])
def test_every_kind_of_cache(mlxctl: Watched, tiny: Tiny, kind: str) -> None:
    """Cut, flipped, and with arrays of other shapes under a checksum that fits."""
    kept = make(mlxctl, "--model", tiny(kind))
    _every_way(kept)


def test_a_quantized_cache(mlxctl: Watched, tiny: Tiny) -> None:
    _every_way(make(mlxctl, "--model", tiny("llama"), *Q8))


def test_a_bounded_cache(mlxctl: Watched, tiny: Tiny) -> None:
    _every_way(make(mlxctl, "--model", tiny("moe"), "--max-kv-size", "200"))


def _every_way(kept: Saved) -> None:
    """The arrays of the first and the last layer, and what is said of them."""
    chance, blob = random.Random(14), kept.blob
    header, data = split(blob)
    start = len(blob) - len(data)
    wrong = {}
    for _ in range(2):
        place, bit = chance.randrange(len(blob)), chance.randrange(start * 8, len(blob) * 8)
        wrong[f"cut at {place}"] = kept.fault(blob[:place])
        wrong[f"bit {bit}"] = kept.fault(flipped(blob, bit))
    arrays = sorted(name for name in header if name != "__metadata__")
    for name in (arrays[0], arrays[-1]):
        shape = header[name]["shape"]
        for other in ([1, *shape], list(reversed(shape))):
            if other != shape:
                changed = rebuilt(blob, _field(name, shape=other))
                wrong[f"{name} {shape} -> {other}"] = kept.fault(changed)
        wrong[f"without {name}"] = kept.fault(rebuilt(blob, _without(name)))
    for name in arrays:
        if header[name]["dtype"] == "I32" and header[name]["shape"] == []:
            wrong[f"{name} -1"] = kept.fault(seal(header, _ones(data, *header[name]["data_offsets"])))
    assert {how: what for how, what in wrong.items() if what} == {}


def _ones(data: bytes, begin: int, end: int) -> bytes:
    return data[:begin] + b"\xff" * (end - begin) + data[end:]


COUNTS = [-1, 0, 1, 5, 65, 67, 2**31 - 1, -(2**31)]


@pytest.mark.parametrize("layers", ["0", "1", "01"])
def test_other_token_counts(saved: Saved, layers: str) -> None:
    wrong = {}
    for count in COUNTS:
        header, data = split(saved.blob)
        for layer in layers:
            begin, end = header[f"{layer}.2"]["data_offsets"]
            data = data[:begin] + count.to_bytes(4, "little", signed=True) + data[end:]
        wrong[count] = saved.fault(seal(header, data))
        short = rebuilt(seal(header, data), lambda header: None)
        said = retold(short, _ids(lambda ids, count=count: ids[: max(count, 0)]))
        wrong[f"{count}, and says so"] = saved.fault(said)
    assert {how: what for how, what in wrong.items() if what} == {}


# Another run than the one it was made for


def expect(done: Result, right: Result) -> None:
    """Refused, or what the run without a cache says."""
    assert fault(done, right.out) is None
    assert right.code == 0, right.err


def uncached(mlxctl: Watched, *flags: str) -> Result:
    return mlxctl("run", "-f", "rain.txt", *GREEDY, *flags, input=QUESTION)


@pytest.mark.parametrize("kind", ["stopper", "eos-split", "llama-draft", "moe", "spm", "mamba", "quant", "sliding"])
def test_another_model(saved: Saved, tiny: Tiny, kind: str) -> None:
    done = saved.ask(saved.blob, "--model", tiny(kind))
    assert fault(done, "") is None
    assert done.code == 4


def _turn(path: Path, place: int) -> None:
    """Another bit in a file, and nothing in its folder tells of it."""
    before = path.stat()
    path.write_bytes(flipped(path.read_bytes(), place * 8 + 6))
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert (path.stat().st_size, path.stat().st_mtime_ns) == (before.st_size, before.st_mtime_ns)


@pytest.mark.parametrize("how", ["in place", "anew"])
def test_changed_weights(mlxctl: Watched, tiny: Tiny, model: Path, how: str) -> None:
    """In a run that has seen the folder before, and its size and time are as they were."""
    kept = make(mlxctl, "--model", str(model))
    file = model / "model.safetensors"
    if how == "anew":
        shutil.copy2(file, model / "copy")
        (model / "copy").rename(file)
    _turn(file, file.stat().st_size - 1001)
    done = kept.ask(kept.blob)
    expect(done, uncached(mlxctl, "--model", str(model)))
    assert done.code == 4


def test_the_model_is_gone(mlxctl: Watched, tiny: Tiny, model: Path) -> None:
    kept = make(mlxctl, "--model", str(model))
    model.rename(model.with_name("elsewhere"))
    try:
        done = kept.ask(kept.blob)
        assert done.code in (3, 4), done
        assert fault(Result(4, done.out, done.err), "") is None
        moved = kept.ask(kept.blob, "--model", str(model.with_name("elsewhere")))
        assert fault(moved, kept.right) is None
    finally:
        model.with_name("elsewhere").rename(model)


def test_changed_config(mlxctl: Watched, tiny: Tiny, model: Path) -> None:
    """The same weights mean something else."""
    kept = make(mlxctl, "--model", str(model))
    text = (model / "config.json").read_text()
    assert '"rope_theta": 10000.0' in text
    before = (model / "config.json").stat()
    (model / "config.json").write_text(text.replace('"rope_theta": 10000.0', '"rope_theta": 10001.0'))
    os.utime(model / "config.json", ns=(before.st_atime_ns, before.st_mtime_ns))
    expect(kept.ask(kept.blob), uncached(mlxctl, "--model", str(model)))


def test_changed_tokenizer(mlxctl: Watched, tiny: Tiny, model: Path) -> None:
    """Two tokens have each other's numbers now."""
    kept = make(mlxctl, "--model", str(model))
    tokenizer = json.loads((model / "tokenizer.json").read_text())
    vocab = tokenizer["model"]["vocab"]
    one, other = (max(token for token, number in vocab.items() if number == id) for id in (312, 274))
    vocab[one], vocab[other] = vocab[other], vocab[one]
    (model / "tokenizer.json").write_text(json.dumps(tokenizer))
    expect(kept.ask(kept.blob), uncached(mlxctl, "--model", str(model)))


@pytest.mark.parametrize("name", ["chat_template.jinja", "tokenizer_config.json", "generation_config.json"])
def test_changed_beside_the_tokenizer(mlxctl: Watched, tiny: Tiny, model: Path, name: str) -> None:
    kept = make(mlxctl, "--model", str(model))
    file = model / name
    if name == "chat_template.jinja":
        file.write_text(file.read_text().replace("assistant", "system"))
    elif name == "tokenizer_config.json":
        file.write_text(json.dumps({**json.loads(file.read_text()), "bos_token": "<|endoftext|>"}))
    else:
        file.write_text('{"eos_token_id": 5}')
    expect(kept.ask(kept.blob), uncached(mlxctl, "--model", str(model)))


def test_adapters(saved: Saved, mlxctl: Watched, tiny: Tiny, tmp_path: Path) -> None:
    """None before and one now; one before and another now."""
    adapter, other = tiny("adapter"), tmp_path / "adapter"
    shutil.copytree(adapter, other)
    done = saved.ask(saved.blob, "--adapter-path", adapter)
    expect(done, uncached(mlxctl, "--model", tiny("llama"), "--adapter-path", adapter))
    assert done.code == 4
    kept = make(mlxctl, "--model", tiny("llama"), "--adapter-path", str(other))
    assert kept.right != saved.right
    assert fault(kept.ask(kept.blob, "--adapter-path", adapter), kept.right) is None  # the same bytes elsewhere
    _turn(other / "adapters.safetensors", (other / "adapters.safetensors").stat().st_size - 1001)
    done = kept.ask(kept.blob)
    assert done.code == 4
    assert fault(done, "") is None
    shutil.rmtree(other)
    done = kept.ask(kept.blob)
    assert done.code in (3, 4), done
    assert fault(Result(4, done.out, done.err), "") is None


def test_a_draft_model_now(saved: Saved, tiny: Tiny) -> None:
    assert saved.fault(saved.blob, "--draft-model", tiny("llama-draft")) is None


KV_FLAGS = [
    Q8,
    ("--kv-bits", "4", "--kv-group-size", "32", "--quantized-kv-start", "0"),
    ("--kv-bits", "8", "--kv-group-size", "32"),
]


@pytest.mark.parametrize("flags", KV_FLAGS, ids=" ".join)
def test_other_kv_settings(saved: Saved, mlxctl: Watched, tiny: Tiny, flags: tuple[str, ...]) -> None:
    done = saved.ask(saved.blob, *flags)
    assert fault(done, "") is None
    assert done.code == 4


@pytest.mark.parametrize(
    "flags", [("--kv-bits", "4"), ("--kv-group-size", "64"), ("--quantized-kv-start", "20")], ids=" ".join
)
def test_other_settings_of_a_quantized_cache(mlxctl: Watched, tiny: Tiny, flags: tuple[str, ...]) -> None:
    kept = make(mlxctl, "--model", tiny("llama"), *Q8)
    done = kept.ask(kept.blob, *flags)
    assert done.code in (2, 4), done  # 2: a rule of the settings refuses them for this model
    assert fault(Result(4, done.out, done.err), "") is None


def test_another_size_of_a_bounded_cache(mlxctl: Watched, tiny: Tiny) -> None:
    kept = make(mlxctl, "--model", tiny("moe"), "--max-kv-size", "200")
    done = kept.ask(kept.blob, "--max-kv-size", "100")
    assert (done.code, fault(done, "")) == (4, None)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_another_dtype(saved: Saved, dtype: str) -> None:
    done = saved.ask(saved.blob, "--dtype", dtype)
    assert (done.code, fault(done, "")) == (4, None)


def test_another_template_argument(mlxctl: Watched, tiny: Tiny, model: Path) -> None:
    """It is heeded, as without a cache."""
    file = model / "chat_template.jinja"
    file.write_text("{{- extra | default('none') -}}" + file.read_text())
    config = "--chat-template-config"
    kept = make(mlxctl, "--model", str(model), config, '{"extra": "sun"}')
    for value in ("moon", "sun and moon", "s", ""):
        flags = (config, json.dumps({"extra": value}))
        wanted = uncached(mlxctl, "--model", str(model), *flags)
        assert fault(kept.ask(kept.blob, *flags), wanted.out) is None
        assert wanted.code == 0


@pytest.mark.parametrize("text", ["<|im_end|>\n<|im_start|>user\nhi", '{"checksum":"', r"\{\"checksum\":\""])
def test_text_that_looks_like_more(mlxctl: Watched, tiny: Tiny, text: str) -> None:
    """A cached text with a special token's spelling, or with that of our own marks."""
    path, question = str(mlxctl.cwd / "odd.safetensors"), f"{text}{QUESTION}"
    for said in ((), ("--allow-special",)):
        done = mlxctl("cache", "save", path, "--model", tiny("llama"), *said, LINE + text)
        assert done.code == 0, done.err
        for asked in ((), ("--allow-special",)):
            flags = (*GREEDY, *asked)
            wanted = mlxctl("run", "--model", tiny("llama"), *flags, input=f"{LINE + text}\n\n{question}")
            assert wanted.code == 0, wanted.err
            assert fault(mlxctl("run", "--cache", path, *flags, input=question), wanted.out) is None


@pytest.mark.parametrize("flag", ["--ignore-chat-template", "--think", "--no-think"])
def test_another_flag_of_the_prompt(saved: Saved, mlxctl: Watched, tiny: Tiny, flag: str) -> None:
    wanted = uncached(mlxctl, "--model", tiny("llama"), flag)
    assert fault(saved.ask(saved.blob, flag), wanted.out) is None
