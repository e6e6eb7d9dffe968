"""SPEC 2: profiles are found, checked to the line, and layered with an origin for every value."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from mlxctl import profiles
from mlxctl.errors import UsageError
from mlxctl.profiles.files import examine
from mlxctl.profiles.search import chain
from mlxctl.settings import Settings

Write = Callable[[str, str], Path]


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A repository to work in, apart from a home and a configuration directory of its own."""
    folder = tmp_path / "repo"
    (folder / ".git").mkdir(parents=True)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.chdir(folder)
    return folder


@pytest.fixture
def write(project: Path) -> Write:
    """Write a file below the project."""

    def put(name: str, text: str) -> Path:
        path = project / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        return path

    return put


def faults(path: Path | str) -> list[str]:
    """The lines of the refusal."""
    with pytest.raises(UsageError) as caught:
        profiles.load_profile(str(path))
    return caught.value.message.splitlines()


def origin(resolved: profiles.Resolved, key: str) -> tuple[Any, str]:
    """A value and where it came from."""
    found = resolved.values[key]
    return found.value, found.origin


def test_a_good_profile(write: Write) -> None:
    """Every table of SPEC 2 that there is so far, read into settings."""
    path = write("a.toml", """
        description = "All sorts"
        [model]
        path = "some/model"
        extra_eos_token = ["id:7"]
        [prompt]
        system = ""
        [template]
        enable_thinking = false
        anything = {deep = [1, 2]}
        [sampler]
        temp = 1
        [logits]
        logit_bias = {"id:7" = -1.5}
        [generation]
        max_tokens = -1
        stop = ["###", "\\n\\n"]
        [kv]
        kv_bits = 4
        [output]
        format = "json"
        thinking = "hide"
        """)  # fmt: skip
    found = profiles.load_profile(str(path))
    assert isinstance(found, Settings)
    assert (found.model.path, found.model.extra_eos_token) == ("some/model", ["id:7"])
    assert (found.prompt.system, found.sampler.temp, found.kv.kv_bits) == ("", 1.0, 4)
    assert found.template == {"enable_thinking": False, "anything": {"deep": [1, 2]}}
    assert (found.logits.logit_bias, found.generation.stop) == ({"id:7": -1.5}, ["###", "\n\n"])
    assert (found.generation.max_tokens, found.output.format, found.output.thinking) == (-1, "json", "hide")
    assert examine(path)[0].description == "All sorts"


@pytest.mark.parametrize(
    "text, line, words",
    [
        ("[sampler]\ntmp = 0.7", 2, ["sampler.tmp", "no such key", "did you mean temp?"]),
        ("[sampler]\n\n# x\ntopp = 0.7", 4, ["did you mean top_p?"]),
        ("[samplr]\ntemp = 0.7", 1, ["samplr", "did you mean sampler?"]),
        ("[generation]\ntemp = 1", 2, ["generation.temp", "did you mean sampler.temp?"]),
        ("temp = 1", 1, ["temp: no such key"]),
        ("extend = 'x'", 1, ["did you mean extends?"]),
        ("[kv]\nqqqq = 1", 2, ["kv.qqqq: no such key"]),
        ("[request]\nprompt = 'x'", 1, ["request", "no such key"]),
        ("sampler.tmp = 1", 1, ["sampler.tmp", "did you mean temp?"]),
        ("x = 1\nsampler = {tmp = 1}", 2, ["sampler.tmp", "did you mean temp?"]),
        ("[sampler]\n'tmp' = 1", 2, ["did you mean temp?"]),
    ],
)
def test_a_key_that_does_not_exist(text: str, line: int, words: list[str], write: Write) -> None:
    """File, line, key, and the nearest real key. In the library a mistyped keyword vanishes without a word."""
    path = write("a.toml", text)
    found = next(fault for fault in faults(path) if words[0] in fault)
    assert found.startswith(f"{path}:{line}: ")
    assert [word for word in words if word not in found] == [], found


@pytest.mark.parametrize(
    "table, line, expected",
    [
        ("sampler", 'temp = "0.7"', "a number"),
        ("sampler", "temp = true", "a number"),
        ("sampler", "temp = -1", "at least 0"),
        ("sampler", "temp = nan", "a number"),
        ("sampler", "temp = inf", "a number"),
        ("sampler", "temp = 1979-05-27", "a number"),
        ("sampler", "temp = [0.7]", "a number"),
        ("sampler", "top_p = 0", "above 0 to 1"),
        ("sampler", "seed = 1.0", "a whole number"),
        ("sampler", "seed = 9223372036854775808", "a whole number"),
        ("sampler", "top_k = true", "a whole number"),
        ("generation", "max_tokens = 0", "not 0"),
        ("generation", "max_tokens = '5'", "a whole number"),
        ("generation", "stop = '###'", "a list of texts"),
        ("generation", "stop = [1]", "a list of texts"),
        ("model", "trust_remote_code = 1", "true or false"),
        ("model", "trust_remote_code = 'yes'", "true or false"),
        ("model", "path = 1", "text"),
        ("kv", "kv_bits = 7", "one of 2, 3, 4, 5, 6, 8"),
        ("kv", "kv_bits = '4'", "one of"),
        ("output", "format = 'JSON'", "one of text"),
        ("logits", "logit_bias = {a = '1'}", "a table"),
        ("prompt", "system = ['x']", "text"),
    ],
)
def test_wrong_types_and_ranges(table: str, line: str, expected: str, write: Write) -> None:
    """Refused with what was expected; nothing is coerced."""
    path = write("a.toml", f"# a comment\n\n[{table}]\n{line}\n")
    (found,) = faults(path)
    assert found.startswith(f"{path}:4: {table}.{line.split()[0]}: expected ")
    assert expected in found and ", got " in found


@pytest.mark.parametrize(
    "text, key", [("extends = 1", "extends"), ("description = []", "description"), ("sampler = 1", "sampler")]
)
def test_wrong_types_at_the_top(text: str, key: str, write: Write) -> None:
    """The two texts and the tables."""
    (found,) = faults(write("a.toml", f"\n{text}\n"))
    assert f":2: {key}: expected " in found


def test_several_faults_are_told_at_once(write: Write) -> None:
    """Each with its own line, comments and texts of several lines counted."""
    path = write("a.toml", '''\
[prompt]
system = """
[sampler]
tmp = 1
"""
sytem = "x"

[sampler]   # the real one
temp = "hot"
top_p = 0.9
top_k = -1
''')  # fmt: skip
    found = [fault.removeprefix(f"{path}:").split(":")[:2] for fault in faults(path)]
    assert found == [["6", " prompt.sytem"], ["9", " sampler.temp"], ["11", " sampler.top_k"]]


def test_lines_after_a_list_of_several_lines(write: Write) -> None:
    """Whose items look like keys and tables."""
    path = write("a.toml", '[generation]\nstop = [\n  "x",\n  "[sampler]",\n  """\n[kv]\n""",\n]\nmax_tokens = 0\n')
    (found,) = faults(path)
    assert found.startswith(f"{path}:9: generation.max_tokens: ")


def test_a_value_with_an_escaped_ending(write: Write) -> None:
    """Quotes of a text of several lines that closes on a line with more on it."""
    path = write("a.toml", "[prompt]\nsystem = '''a\n[kv]\nb''' # '''\n[sampler]\ntemp = -1\n")
    (found,) = faults(path)
    assert found.startswith(f"{path}:6: sampler.temp: ")


@pytest.mark.parametrize(
    "text, place",
    [("[sampler]\ntemp = \n", "2:8"), ("[sampler\n", "1:"), ("a = 1\na = 2\n", "2:"), ("x = @", "1:5"), ("=", "1:1")],
)
def test_syntax_errors(text: str, place: str, write: Write) -> None:
    """With line and column."""
    path = write("a.toml", text)
    (found,) = faults(path)
    assert found.startswith(f"{path}:{place}")


def test_not_utf_8(project: Path) -> None:
    """The place of the byte is named."""
    path = project / "a.toml"
    path.write_bytes(b"description = '\xff'")
    (found,) = faults(path)
    assert str(path) in found and "UTF-8" in found and "15" in found


def test_a_folder_and_a_deeply_nested_file(project: Path, write: Write) -> None:
    """Neither ends in a traceback."""
    (project / "dir.toml").mkdir()
    assert "dir.toml" in faults("./dir.toml")[0]
    assert "deeply" in faults(write("a.toml", "a = " + "[" * 100_000))[0]


def test_a_name_that_is_not_there(write: Write) -> None:
    """The nearest that is."""
    write("profiles/review.toml", "")
    (found,) = faults("reveiw")
    assert "reveiw" in found and "did you mean review?" in found
    assert "did you mean" not in faults("qqqqqqqq")[0]


def test_where_profiles_are_found(project: Path, write: Write, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """.mlxctl/ before profiles/, the nearest folder first, then the configuration directory, then the shipped ones."""
    config = tmp_path / "config" / "mlxctl" / "profiles" / "p.toml"
    config.parent.mkdir(parents=True)
    config.write_text("")
    here = project / "sub" / "deep"
    here.mkdir(parents=True)
    monkeypatch.chdir(here)
    names = ["sub/.mlxctl/p.toml", "sub/profiles/p.toml", ".mlxctl/p.toml", "profiles/p.toml"]
    made = [write(name, "") for name in names]
    for path in [*made, config]:
        assert profiles.find("p") == path
        path.unlink()
    with pytest.raises(UsageError):
        profiles.find("p")
    assert profiles.find("demo").name == "demo.toml"


def test_nothing_is_looked_for_above_the_repository(
    project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its folder with .git is the last one."""
    outside = tmp_path / "profiles" / "p.toml"
    outside.parent.mkdir()
    outside.write_text("")
    with pytest.raises(UsageError):
        profiles.find("p")
    (project / ".git").rmdir()
    assert profiles.find("p") == outside


def test_nothing_is_looked_for_above_home(project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a repository."""
    (project / ".git").rmdir()
    (tmp_path / "profiles").mkdir()
    (tmp_path / "profiles" / "p.toml").write_text("")
    monkeypatch.setenv("HOME", str(project))
    with pytest.raises(UsageError):
        profiles.find("p")


def test_the_default_profile(write: Write) -> None:
    """default.toml where there is one; MLXCTL_PROFILE before it; an empty variable names nothing."""

    def named(environ: Mapping[str, str]) -> str | None:
        return profiles.resolve({}, environ, None).settings.profile

    assert named({}) is None
    write(".mlxctl/default.toml", "")
    assert named({}) == "default"
    assert named({"MLXCTL_PROFILE": ""}) == "default"
    assert named({"MLXCTL_PROFILE": "demo"}) == "demo"


def test_layers(write: Write) -> None:
    """Flag, variable, profile, the profile it extends, default: each wins over those after it."""
    write("profiles/base.toml", "[sampler]\ntemp = 0.1\ntop_p = 0.1\nmin_p = 0.1\ntop_k = 1\n")
    write("profiles/p.toml", "extends = 'base'\n[sampler]\ntemp = 0.2\ntop_p = 0.2\nmin_p = 0.2\n")
    variables = {"MLXCTL_TEMP": "0.3", "MLXCTL_TOP_P": "0.3", "OTHER": "1"}
    found = profiles.resolve({"sampler.temp": 0.4}, variables, "p")
    folder = Path.cwd() / "profiles"
    assert origin(found, "sampler.temp") == (0.4, "flag --temp")
    assert origin(found, "sampler.top_p") == (0.3, "variable MLXCTL_TOP_P")
    assert origin(found, "sampler.min_p") == (0.2, f"{folder}/p.toml:5")
    assert origin(found, "sampler.top_k") == (1, f"{folder}/base.toml:5")
    assert origin(found, "sampler.xtc_probability") == (0.0, "default")
    s = found.settings.sampler
    assert (s.temp, s.top_p, s.min_p, s.top_k, s.xtc_probability) == (0.4, 0.3, 0.2, 1, 0.0)
    assert found.settings.profile == "p"


@pytest.mark.parametrize(
    "key, flag, variables, toml",
    [
        ("sampler.temp", 0.0, {"MLXCTL_TEMP": "0"}, "[sampler]\ntemp = 0"),
        ("prompt.system", "", {"MLXCTL_SYSTEM_PROMPT": ""}, "[prompt]\nsystem = ''"),
        ("prompt.ignore_chat_template", False, {"MLXCTL_IGNORE_CHAT_TEMPLATE": "false"},
         "[prompt]\nignore_chat_template = false"),
    ],
)  # fmt: skip
def test_zero_false_and_empty_count_as_set(
    key: str, flag: Any, variables: Mapping[str, str], toml: str, write: Write
) -> None:
    """In every layer, over a value of the layer below."""
    section, _, name = key.partition(".")
    strong = {"sampler.temp": "0.9", "prompt.system": "'x'", "prompt.ignore_chat_template": "true"}[key]
    base = str(write("base.toml", f"[{section}]\n{name} = {strong}"))
    child = str(write("child.toml", f"extends = {base!r}\n{toml}"))
    for flags, environ, profile in (({key: flag}, {}, base), ({}, variables, base), ({}, {}, child)):
        value, where = origin(profiles.resolve(flags, environ, profile), key)
        assert value == flag and where != "default" and not where.startswith(base)


def test_a_chain_and_its_circle(write: Write) -> None:
    """The strongest first; a circle is refused with its members; a parent that is missing says who wants it."""
    write("profiles/a.toml", "extends = 'b'")
    write("profiles/b.toml", "extends = 'c'")
    last = write("profiles/c.toml", "[sampler]\ntemp = 0.5")
    assert [profile.name for profile in chain("a")] == ["a", "b", "c"]
    assert profiles.load_profile("a").sampler.temp == 0.5
    last.write_text("extends = 'a'")
    assert "a -> b -> c -> a" in faults("a")[0]
    last.write_text("extends = 'c'")
    assert "circle" in faults("c")[0]
    last.write_text("extends = 'nobody'")
    assert "nobody" in faults("a")[0] and "a -> b -> c" in faults("a")[0]


def test_a_fault_in_a_parent_names_the_parent(write: Write) -> None:
    """Not the profile that was asked for."""
    write("profiles/a.toml", "extends = 'b'")
    path = write("profiles/b.toml", "\n[sampler]\ntmp = 1")
    assert faults("a")[0].startswith(f"{path}:3: sampler.tmp")


def test_lists_and_tables_replace_and_template_keys_add(write: Write) -> None:
    """A list of a child is the list; free template keys are keys of their own."""
    write("profiles/b.toml", "[generation]\nstop = ['x']\n[template]\na = 1\nb = 1")
    write("profiles/a.toml", "extends = 'b'\n[generation]\nstop = ['y']\n[template]\nb = 2")
    found = profiles.load_profile("a")
    assert (found.generation.stop, found.template) == (["y"], {"a": 1, "b": 2})


@pytest.mark.parametrize(
    "name, text", [("MLXCTL_TEMP", "hot"), ("MLXCTL_TEMP", "-1"), ("MLXCTL_MAX_TOKENS", "0"), ("MLXCTL_OFFLINE", "x")]
)
def test_a_bad_variable_is_named(name: str, text: str) -> None:
    """And not blamed on a flag."""
    with pytest.raises(UsageError, match=f"^{name}: expected ") as caught:
        profiles.resolve({}, {name: text}, None)
    assert text in caught.value.message.split("got ")[1]


def test_files_are_meant_relative_to_the_profile(write: Write) -> None:
    """Wherever one works."""
    path = write("profiles/p.toml", "[prompt]\nsystem_file = 'rules.txt'\nfiles = ['a/b.txt']")
    write("profiles/rules.txt", ""), write("profiles/a/b.txt", "")
    found = profiles.load_profile("p")
    assert found.prompt.system_file == str(path.parent / "rules.txt")
    assert found.prompt.files == [str(path.parent / "a/b.txt")]


@pytest.mark.parametrize("name", ["../secret.txt", "a/../../secret.txt", "/etc/passwd", "link/secret.txt"])
def test_files_outside_the_profiles_folder_are_refused(name: str, write: Write, project: Path) -> None:
    """A profile that comes with somebody's repository reads nothing else; a link does not help it."""
    path = write("profiles/p.toml", f"[prompt]\nsystem_file = {name!r}\nfiles = ['ok.txt', {name!r}]")
    (path.parent / "link").symlink_to(project)
    found = faults("p")
    assert [fault.split(": ")[0] for fault in found] == [f"{path}:2", f"{path}:3"]
    assert all(name in fault for fault in found)


def test_flags_are_checked_as_well() -> None:
    """For those who call this from Python."""
    with pytest.raises(UsageError, match=r"^--temp: expected "):
        profiles.resolve({"sampler.temp": -1.0}, {}, None)
