"""`mlxctl profile …`, and `run --save-profile`: through the program, in a project of its own."""

import json
import os
import shutil
import stat
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from conftest import Program
from models import STOPPER_REPLY

Tiny = Callable[[str], str]
Write = Callable[[str, str], Path]


@pytest.fixture
def write(mlxctl: Program) -> Write:
    """Write a file of the project."""

    def put(name: str, text: str) -> Path:
        path = mlxctl.cwd / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        return path

    return put


def toml_files(folder: Path) -> list[str]:
    """Everything in a folder of profiles, hidden files too."""
    return sorted(path.name for path in folder.iterdir())


# list


def test_list_says_what_there_is_and_where_from(mlxctl: Program, write: Write) -> None:
    """Name, model (an inherited one too), description, place; a shadowed one is marked, a wrong one told of."""
    write(".mlxctl/review.toml", "extends = 'base'\ndescription = 'House rules'")
    write("profiles/base.toml", "[model]\npath = 'org/model'")
    write("profiles/review.toml", "description = 'Older'")
    write("profiles/bad.toml", "[sampler]\ntmp = 1\ntopp = 1")
    done = mlxctl("profile", "list")
    assert (done.code, done.err) == (0, "")
    heading, *lines = done.out.splitlines()
    assert heading.split() == ["NAME", "MODEL", "DESCRIPTION", "FROM"]
    rows = {(line.split()[0], number): line for number, line in enumerate(lines)}
    review, bad, base, older = (line for line in lines if line.split()[0] in ("review", "base", "bad"))
    assert "org/model" in review and "House rules" in review and review.endswith(".mlxctl/review.toml")
    assert "Older" in older and "profiles/review.toml (shadowed by .mlxctl/review.toml)" in older
    assert "org/model" in base
    assert "2 faults" in bad
    assert any(name == "demo" and "builtin:smollm2-135m" in line and "(shipped)" in line
               for (name, _), line in rows.items())  # fmt: skip


def test_list_as_json(mlxctl: Program, write: Write) -> None:
    """For scripts: paths in full."""
    first = write(".mlxctl/x.toml", "description = '''two\nlines'''\n[model]\npath = './m'")
    second = write("profiles/x.toml", "[kv]\nkv_bit = 4")
    done = mlxctl("profile", "list", "--format", "json")
    rows = [row for row in json.loads(done.out) if row["name"] == "x"]
    assert rows == [
        {"name": "x", "description": "two\nlines", "model": str(first.parent / "m"), "path": str(first),
         "shadowed_by": None, "faults": 0},
        {"name": "x", "description": "", "model": None, "path": str(second), "shadowed_by": str(first), "faults": 1},
    ]  # fmt: skip


def test_a_folder_that_is_searched_twice_is_listed_once(mlxctl: Program) -> None:
    """In a checkout of mlxctl, profiles/ is the project's and the shipped one."""
    shipped = mlxctl("profile", "path").out.splitlines()[-1]
    here = Program("mlxctl", mlxctl.env, Path(shipped).parent)
    assert here("profile", "path").out.splitlines().count(shipped) == 1
    assert "shadowed" not in here("profile", "list").out


# show


def test_show_prints_a_profile_that_stands_alone(mlxctl: Program, write: Write) -> None:
    """What is set, with the parents worked in; defaults are not repeated."""
    write("profiles/base.toml", "description = 'b'\n[model]\npath = 'org/model'\n[sampler]\ntemp = 0.9\ntop_p = 0.5")
    write("profiles/p.toml", "extends = 'base'\ndescription = 'd'\n[sampler]\ntemp = 0")
    done = mlxctl("profile", "show", "p")
    assert done.code == 0 and "top_p does nothing" in done.err
    assert done.out == (
        'description = "d"\n\n[model]\npath = "org/model"\n\n[sampler]\ntemp = 0.0\ntop_p = 0.5\n'
    )  # fmt: skip


def test_show_origin_says_where_every_value_is_from(mlxctl: Program, write: Write) -> None:
    """file:line, variable, flag, --unset, default."""
    base = write("profiles/base.toml", "[sampler]\ntemp = 0.9\nmin_p = 0.1\ntop_k = 3")
    path = write("profiles/p.toml", "extends = 'base'\n\n[sampler]\ntemp = 0.8")
    done = mlxctl("profile", "show", "p", "--origin", "--top-p", "0.5", "--unset", "top_k", env={"MLXCTL_SEED": "3"})
    lines = done.out.splitlines()
    for line in (
        f"temp = 0.8  # {path}:4",
        f"min_p = 0.1  # {base}:3",
        "top_p = 0.5  # flag --top-p",
        "seed = 3  # variable MLXCTL_SEED",
        "top_k = 0  # --unset",
        "xtc_threshold = 0.1  # default",
        "# max_tokens is not set  # default",
    ):
        assert line in lines


def test_show_as_json(mlxctl: Program, write: Write) -> None:
    """The same as an object, with the chain of profiles."""
    base = write("profiles/base.toml", "[sampler]\ntemp = 0.9")
    path = write("profiles/p.toml", "extends = 'base'\ndescription = 'd'\n[template]\nx = [1]")
    plain = json.loads(mlxctl("profile", "show", "p", "--format", "json").out)
    chain = [{"name": "p", "path": str(path)}, {"name": "base", "path": str(base)}]
    settings = {"sampler": {"temp": 0.9}, "template": {"x": [1]}}
    assert plain == {"profiles": chain, "description": "d", "settings": settings}
    full = json.loads(mlxctl("profile", "show", "p", "--format", "json", "--origin").out)["settings"]
    assert full["sampler"]["temp"] == {"value": 0.9, "origin": f"{base}:2"}
    assert full["kv"]["kv_bits"] == {"value": None, "origin": "default"}


def test_show_without_a_name_is_about_what_a_run_would_use(mlxctl: Program, write: Write) -> None:
    """MLXCTL_PROFILE, default.toml, nothing."""
    assert mlxctl("profile", "show").out == ""
    write(".mlxctl/default.toml", "[sampler]\ntemp = 0.5")
    assert "temp = 0.5" in mlxctl("profile", "show").out
    write(".mlxctl/other.toml", "[sampler]\ntemp = 0.6")
    assert "temp = 0.6" in mlxctl("profile", "show", env={"MLXCTL_PROFILE": "other"}).out


def test_show_says_what_is_wrong(mlxctl: Program, write: Write) -> None:
    """All of it, of the parents too, each line with its place and nothing before it."""
    base = write("profiles/base.toml", "[sampler]\ntemp = 'x'")
    path = write("profiles/p.toml", "extends = 'base'\n[sampler]\ntmp = 1\ntop_p = 2")
    done = mlxctl("profile", "show", "p")
    assert (done.code, done.out) == (2, "")
    places = [line.split(": ")[:2] for line in done.err.splitlines()]
    assert places == [[f"{path}:3", "sampler.tmp"], [f"{path}:4", "sampler.top_p"], [f"{base}:2", "sampler.temp"]]


# --unset, variables


def test_unset(mlxctl: Program, write: Write) -> None:
    """By key or by name; a free key of the template; variables and flags still count."""
    write("p.toml", "[sampler]\ntemp = 0.5\nseed = 1\n[template]\na = 1\nb = 2\n[prompt]\nsystem = 'x'")

    def show(*args: str, **env: str) -> str:
        return mlxctl("profile", "show", "p.toml", *args, env=env).out

    assert "temp = 0.5" in show()
    assert "temp =" not in show("--unset", "temp") and "temp =" not in show("--unset", "sampler.temp")
    assert "a = 1" not in show("--unset", "template.a") and "b = 2" in show("--unset", "template.a")
    assert "temp = 0.7" in show("--unset", "temp", MLXCTL_TEMP="0.7")
    assert "temp = 0.8" in show("--unset", "temp", "--temp", "0.8", MLXCTL_TEMP="0.7")
    assert "[prompt]" not in show("--unset", "system") and "seed = 1" in show("--unset", "system")
    assert show("--unset", "top_k") == show()


@pytest.mark.parametrize(
    "key, words",
    [
        ("tmp", "--unset tmp: no such key; did you mean sampler.temp?"),
        ("sampler.tmp", "--unset sampler.tmp: no such key; did you mean temp?"),
        ("template.nope", "--unset template.nope: the profile does not set it"),
        ("request.prompt", "--unset request.prompt: no such key"),
        ("", "no such key"),
    ],
)
def test_unset_of_what_is_not_there(key: str, words: str, mlxctl: Program) -> None:
    """A mistyped key would leave the value it was to drop."""
    for command in (("profile", "show"), ("run", "hi")):
        done = mlxctl(*command, "--unset", key)
        assert (done.code, done.out) == (2, "") and words in done.err


@pytest.mark.parametrize(
    "name, words",
    [
        ("MLXCTL_TMEP", "did you mean MLXCTL_TEMP?"),
        ("MLXCTL_PROFIL", "did you mean MLXCTL_PROFILE?"),
        ("MLXCTL_TRUST_REMOTE_CODE", "no variable sets this; give --trust-remote-code"),
        ("MLXCTL_XYZZY", "no such variable"),
    ],
)
def test_a_variable_that_does_not_exist(name: str, words: str, mlxctl: Program) -> None:
    """Refused: it would be without effect and without a word. mlx_lm.generate's stand-in reads none."""
    done = mlxctl("run", "hi", env={name: "1"})
    assert (done.code, done.out) == (2, "")
    assert done.err.startswith(f"mlxctl: {name}: ") and words in done.err
    assert name not in mlxctl("generate", "--model", "/nowhere", env={name: "1"}).err


def test_a_stronger_layers_system_prompt_replaces_the_file(mlxctl: Program, write: Write) -> None:
    """Text and file are two forms of one thing: the layer above has the say; in one layer they contradict."""
    write(".mlxctl/rules.txt", "x")
    write(".mlxctl/base.toml", "[prompt]\nsystem_file = 'rules.txt'")
    write(".mlxctl/p.toml", "extends = 'base'\n[prompt]\nsystem = 'text'")
    assert mlxctl("profile", "show", "p").out == '[prompt]\nsystem = "text"\n'
    assert mlxctl("profile", "show", "base", "--system-prompt", "t").out == '[prompt]\nsystem = "t"\n'
    write(".mlxctl/both.toml", "[prompt]\nsystem_file = 'rules.txt'\nsystem = 'text'")
    assert "both the text" in mlxctl("profile", "validate", "both").out


# new


def test_new_writes_every_key_as_a_comment(mlxctl: Program) -> None:
    """The file is in order as it stands, changes nothing, and its comments are true: uncommented, they still are in
    order, but for those that have no default."""
    done = mlxctl("profile", "new", "review")
    path = mlxctl.cwd / ".mlxctl" / "review.toml"
    assert (done.code, done.out) == (0, f"{path}\n")
    assert "mlxctl run -P review" in done.err
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert toml_files(path.parent) == ["review.toml"]
    assert mlxctl("profile", "validate", "review").code == 0
    assert mlxctl("profile", "show", "review").out == ""
    text = path.read_text()
    keys = [line.partition(" = ")[0] for line in text.splitlines() if line.startswith("#") and not
            line.startswith("# ") and " = " in line]  # fmt: skip
    assert len(keys) > 30
    live = "\n".join(line[1:] if line.partition(" = ")[0] in keys and "…" not in line else line
                     for line in text.splitlines())  # fmt: skip
    path.write_text(live)
    assert mlxctl("profile", "validate", "review").code == 0
    before, after = (json.loads(mlxctl("profile", "show", *name, "--origin", "--format", "json").out)["settings"]
                     for name in ((), ("review",)))  # fmt: skip
    del after["template"]
    assert {key: row["value"] for table in before.values() for key, row in table.items()} == {
        key: row["value"] for table in after.values() for key, row in table.items()
    }


def test_new_from_a_command_line(mlxctl: Program) -> None:
    """Its flags become keys, -P becomes extends, what belongs to one call is left out and told of."""
    line = 'mlxctl run -P demo --temp 0.5 -m 40 --stop "a b" --logit-bias id:7=-1 --think --no-stats -f - --offline hi'
    (mlxctl.cwd / ".mlxctl").mkdir()
    (mlxctl.cwd / ".mlxctl" / "-").write_text("x")
    line = line.replace("-f -", "-f .mlxctl/-")
    done = mlxctl("profile", "new", "mine", "--from", line, "--description", 'My "own"')
    assert done.code == 0 and "left out" in done.err and "--offline" in done.err
    shown = json.loads(mlxctl("profile", "show", "mine", "--format", "json").out)
    assert [row["name"] for row in shown["profiles"]] == ["mine", "demo"]
    assert shown["description"] == 'My "own"'
    assert shown["settings"]["sampler"] == {"temp": 0.5}
    assert shown["settings"]["generation"] == {"max_tokens": 40, "stop": ["a b"]}
    assert shown["settings"]["logits"] == {"logit_bias": {"id:7": -1.0}}
    assert shown["settings"]["template"] == {"enable_thinking": True}
    assert shown["settings"]["output"] == {"stats": "never"}
    assert shown["settings"]["prompt"] == {"files": [str(mlxctl.cwd / ".mlxctl" / "-")]}
    assert 'files = ["-"]' in (mlxctl.cwd / ".mlxctl/mine.toml").read_text()


@pytest.mark.parametrize(
    "line, words",
    [
        ("run --tmp 1", "--tmp"),
        ("run --temp -1", "--temp"),
        ("chat --temp 1", "expected a command line of mlxctl run"),
        ("", "expected a command line"),
        ("run 'x", "no closing quotation"),
        ("run -P nobody", "nobody"),
        ("run --unset nope", "nope"),
        ("run --system-prompt a --system-file b", "both"),
        ("run --system-file /etc/hostname", "not in the folder of the new profile"),
        ("run -f .mlxctl/gone.txt", "no such file"),
        ("run --help", "no such option"),
        ("run --temp 1 | cat", "| is the shell's"),
        ("run --temp 1 >out.txt", "> is the shell's"),
        ("run --chat-template-config '{\"a\": 123456789012345678901234567890}'", "beyond 64 bits"),
        ('run --chat-template-config \'{"a": ' + "[" * 70 + "]" * 70 + "}'", "nested too deeply"),
        ("run --temp 0.0000001", "sampler.temp"),
        ("run --chat-template-config '{\"a\": null}'", "null"),
        ("run --chat-template-config '{\"messages\": 1}'", "messages"),
    ],
)
def test_new_from_a_command_line_that_is_wrong(line: str, words: str, mlxctl: Program) -> None:
    """Nothing is written, not even the folder."""
    (mlxctl.cwd / "outside.txt").write_text("x")
    done = mlxctl("profile", "new", "mine", "--from", line)
    assert (done.code, done.out) == (2, "") and words in done.err.lower()
    assert not (mlxctl.cwd / ".mlxctl").exists()


@pytest.mark.parametrize("name", ["", ".hidden", "-x", "a b", "a\nb", "../x", "a/b", "x" * 300, "$(x)"])
def test_new_refuses_names_that_make_trouble(name: str, mlxctl: Program) -> None:
    """With the reason, and nothing written."""
    done = mlxctl("profile", "new", "--", name)
    assert (done.code, done.out) == (2, ""), done
    assert not (mlxctl.cwd / ".mlxctl").exists()


def test_new_never_overwrites(mlxctl: Program, write: Write) -> None:
    """Not a file, not a link, not even a broken one."""
    path = write(".mlxctl/a.toml", "# mine")
    (path.parent / "b.toml").symlink_to("nowhere")
    for name in ("a", "b", ".mlxctl/a.toml"):
        done = mlxctl("profile", "new", name)
        assert (done.code, done.out) == (2, "") and "there is one already" in done.err
    assert path.read_text() == "# mine" and toml_files(path.parent) == ["a.toml", "b.toml"]


def test_where_new_profiles_go(mlxctl: Program, write: Write) -> None:
    """The nearest .mlxctl/ of the project; without one, here; --user: the configuration directory; or a path."""
    sub = mlxctl.cwd / "sub"
    sub.mkdir()
    inside = Program("mlxctl", mlxctl.env, sub)
    assert inside("profile", "new", "a").out == f"{sub}/.mlxctl/a.toml\n"
    (sub / ".mlxctl" / "a.toml").unlink()
    (sub / ".mlxctl").rmdir()
    (mlxctl.cwd / ".mlxctl").mkdir()
    assert inside("profile", "new", "a").out == f"{mlxctl.cwd}/.mlxctl/a.toml\n"
    user = Path(mlxctl.env["XDG_CONFIG_HOME"]) / "mlxctl" / "profiles" / "b.toml"
    assert inside("profile", "new", "b", "--user").out == f"{user}\n"
    assert inside("profile", "path", "b").out == f"{user}\n"
    done = inside("profile", "new", "else/c.toml")
    assert done.out == f"{sub}/else/c.toml\n" and "-P else/c.toml" in done.err


def test_new_shadowing_its_own_parent_is_refused(mlxctl: Program, write: Write) -> None:
    """It would extend itself."""
    done = mlxctl("profile", "new", "demo", "--from", "run -P demo")
    assert done.code == 2 and "give the new one another" in done.err
    assert not (mlxctl.cwd / ".mlxctl").exists()


def test_a_profile_for_all_projects_finds_its_parent_from_everywhere(mlxctl: Program, write: Write) -> None:
    """The parent is one of this project, whose name means nothing elsewhere."""
    write(".mlxctl/base.toml", "[sampler]\ntemp = 0.9")
    assert mlxctl("profile", "new", "mine", "--user", "--from", "run -P base --top-k 3").code == 0
    elsewhere = mlxctl.cwd / "else"
    (elsewhere / ".git").mkdir(parents=True)
    shown = Program("mlxctl", mlxctl.env, elsewhere)("profile", "show", "mine")
    assert (shown.code, shown.out) == (0, "[sampler]\ntemp = 0.9\ntop_k = 3\n")


def test_models_and_adapters_given_by_path(mlxctl: Program, tiny: Tiny, write: Write) -> None:
    """A path that was relative to the working directory is relative to the profile; a repository's name stays."""
    (mlxctl.cwd / "models" / "mine").mkdir(parents=True)
    (mlxctl.cwd / "ad").mkdir()
    line = f"run --model models/mine --adapter-path ad --draft-model {tiny('llama')}"
    assert mlxctl("profile", "new", "local", "--from", line).code == 0
    text = (mlxctl.cwd / ".mlxctl/local.toml").read_text()
    assert 'path = "../models/mine"' in text and 'adapter_path = "../ad"' in text and tiny("llama") in text
    elsewhere = mlxctl.cwd / "sub"
    elsewhere.mkdir()
    model = json.loads(Program("mlxctl", mlxctl.env, elsewhere)("profile", "show", "local", "--format", "json").out)
    paths = model["settings"]["model"]
    assert Path(paths["path"]).resolve() == mlxctl.cwd / "models" / "mine"
    assert Path(paths["adapter_path"]).resolve() == mlxctl.cwd / "ad"
    assert mlxctl("profile", "new", "hub", "--from", "run --model org/name").code == 0
    assert 'path = "org/name"' in (mlxctl.cwd / ".mlxctl/hub.toml").read_text()


def test_new_with_unset_sets_what_is_left(mlxctl: Program, write: Write) -> None:
    """extends could not say that a value is dropped."""
    write(".mlxctl/rules.txt", "x")
    write(".mlxctl/base.toml", "[sampler]\ntemp = 0.9\ntop_p = 0.5\n[prompt]\nsystem_file = 'rules.txt'")
    assert mlxctl("profile", "new", "less", "--from", "run -P base --unset temp --top-k 3").code == 0
    shown = json.loads(mlxctl("profile", "show", "less", "--format", "json").out)
    assert [row["name"] for row in shown["profiles"]] == ["less"]
    assert shown["settings"]["sampler"] == {"top_p": 0.5, "top_k": 3}
    assert shown["settings"]["prompt"] == {"system_file": str(mlxctl.cwd / ".mlxctl/rules.txt")}


def test_new_where_nothing_can_be_written(mlxctl: Program) -> None:
    """One line that says what is in the way; a run that shall be saved ends before its answer."""
    (mlxctl.cwd / ".mlxctl").write_text("a file")
    for command in (("profile", "new", "x"), ("run", "--model", "/nowhere", "--save-profile", "x", "hi")):
        done = mlxctl(*command)
        assert (done.code, done.out) == (2, "")
        assert done.err.endswith(f"{mlxctl.cwd}/.mlxctl is not a folder\n") and len(done.err.splitlines()) == 1


# run --save-profile


def test_save_profile(mlxctl: Program, tiny: Tiny) -> None:
    """After the answer; the profile repeats the run, from a folder below too."""
    done = mlxctl("run", "--model", tiny("stopper"), "--seed", "3", "--save-profile", "mine", "hi")
    assert (done.code, done.out) == (0, f"{STOPPER_REPLY}\n")
    assert "saved as" in done.err and "mlxctl run -P mine" in done.err
    (mlxctl.cwd / "sub").mkdir()
    again = Program("mlxctl", mlxctl.env, mlxctl.cwd / "sub")("run", "-P", "mine", "hi", "--format", "json")
    assert json.loads(again.out)["seed"] == 3 and json.loads(again.out)["profile"] == "mine"


def test_save_profile_keeps_what_variables_set(mlxctl: Program, tiny: Tiny) -> None:
    """The profile repeats the run where they are not set."""
    env = {"MLXCTL_MODEL": tiny("stopper"), "MLXCTL_OFFLINE": "1"}
    assert mlxctl("run", "--save-profile", "mine", "hi", env=env).code == 0
    assert mlxctl("run", "-P", "mine", "hi").out == f"{STOPPER_REPLY}\n"


def test_save_profile_builds_on_the_default_that_was_used(mlxctl: Program, tiny: Tiny, write: Write) -> None:
    """Nobody named it, and the run depended on it."""
    write(".mlxctl/default.toml", f"[model]\npath = {tiny('stopper')!r}")
    assert mlxctl("run", "--temp", "0.5", "--save-profile", "mine", "hi").code == 0
    assert 'extends = "default"' in (mlxctl.cwd / ".mlxctl/mine.toml").read_text()
    assert mlxctl("run", "-P", "mine", "hi").code == 0


def test_save_profile_of_a_run_that_fails(mlxctl: Program) -> None:
    """Nothing is saved."""
    done = mlxctl("run", "--model", "/nowhere", "--save-profile", "mine", "hi")
    assert done.code == 3 and "saved" not in done.err
    assert not (mlxctl.cwd / ".mlxctl").exists()


def test_save_profile_is_checked_before_the_answer(mlxctl: Program, write: Write) -> None:
    """A name that is taken, or a profile that cannot be, is told before the model is loaded."""
    write(".mlxctl/mine.toml", "")
    write("x.txt", "x")
    huge = ("--stop", "x" * 110_000) * 10
    for args in (("mine",), ("other", "--system-file", "x.txt"), ("a b",), ("other", "--dry-run"), ("other", *huge)):
        done = mlxctl("run", "--model", "/nowhere", "hi", "--save-profile", *args)
        assert (done.code, done.out) == (2, "")
    assert toml_files(mlxctl.cwd / ".mlxctl") == ["mine.toml"]


# validate


def test_validate(mlxctl: Program, write: Write) -> None:
    """Status 0 and silence on stdout; 2 and a line a fault: file:line: key: what is wrong."""
    good = write("good.toml", "[sampler]\ntemp = 1")
    bad = write("bad.toml", "[sampler]\ntemp = '1'\n[kv]\nkv_bit = 4\n")
    done = mlxctl("profile", "validate", str(good))
    assert (done.code, done.out) == (0, "")
    done = mlxctl("profile", "validate", str(good), str(bad), str(bad))
    assert done.code == 2
    assert done.out.splitlines() == [
        f"{bad}:2: sampler.temp: expected a number of at least 0, got '1'",
        f"{bad}:4: kv.kv_bit: no such key; did you mean kv_bits?",
    ]


def test_validate_without_names_checks_all_in_reach(mlxctl: Program, write: Write) -> None:
    """The shipped ones are in order; a hidden file is nobody's profile."""
    assert mlxctl("profile", "validate").code == 0
    write(".mlxctl/.draft.toml", "x = 1")
    assert mlxctl("profile", "validate").code == 0
    path = write("profiles/x.toml", "x = 1")
    done = mlxctl("profile", "validate")
    assert (done.code, done.out) == (2, f"{path}:1: x: no such key\n")


@pytest.mark.parametrize(
    "text, words",
    [
        ("extends = 'nobody'", ":1: extends: profile nobody: not found (p -> nobody)"),
        ("\nextends = 'p'", ":2: extends: goes in a circle: p -> p"),
        ("extends = './gone.toml'", ":1: extends: profile "),
        ("[prompt]\nsystem_file = 'gone.txt'", ":2: prompt.system_file: no such file: "),
        ("[prompt]\nfiles = ['gone.txt']", ":2: prompt.files: no such file: "),
        ("[prompt]\nfiles = ['../x']", ":2: prompt.files: '../x' names no file in the profile's folder"),
        ("[template]\nmessages = 1", "template.messages"),
        ("[generation]\nstop = ['']", "an empty text ends nothing"),
        ("[sampler]\ntemp = \n", ":2:8: "),
    ],
)
def test_validate_finds(text: str, words: str, mlxctl: Program, write: Write) -> None:
    """What is wrong beyond a key's type: parents, files, rules between settings, syntax with its column."""
    path = write("profiles/p.toml", text)
    done = mlxctl("profile", "validate", "p")
    assert done.code == 2 and done.out.startswith(str(path)) and words in done.out
    assert len(done.out.splitlines()) == 1


def test_validate_warns_of_what_does_nothing(mlxctl: Program, write: Write) -> None:
    """On stderr; the profile is not bad for it."""
    write("p.toml", "[sampler]\ntop_p = 0.5")
    done = mlxctl("profile", "validate", "p.toml")
    assert (done.code, done.out) == (0, "") and "top_p does nothing" in done.err


# path, edit, schema


def test_path(mlxctl: Program, write: Write) -> None:
    """Of a profile; without a name, the folders, the nearest first."""
    path = write(".mlxctl/x.toml", "this is wrong")
    assert mlxctl("profile", "path", "x").out == f"{path}\n"
    folders = mlxctl("profile", "path").out.splitlines()
    assert folders[:2] == [str(path.parent), f"{mlxctl.env['XDG_CONFIG_HOME']}/mlxctl/profiles"] and len(folders) == 3
    assert mlxctl("profile", "path", "y").code == 2


def edit(mlxctl: Program, name: str, editor: str, **env: str) -> tuple[int, str]:
    """Edit by a program that asks nobody."""
    done = mlxctl("profile", "edit", name, env={"EDITOR": editor, **env})
    assert done.out == ""
    return done.code, done.err


def test_edit(mlxctl: Program, write: Write) -> None:
    """What the editor leaves is saved, with the mode the file had; $VISUAL comes first."""
    path = write(".mlxctl/x.toml", "[sampler]\ntemp = 0.5\n")
    path.chmod(0o640)
    assert edit(mlxctl, "x", "false", VISUAL="sed -i s/0.5/0.6/")[0] == 0
    assert path.read_text() == "[sampler]\ntemp = 0.6\n"
    assert stat.S_IMODE(path.stat().st_mode) == 0o640
    assert toml_files(path.parent) == ["x.toml"]


def test_edit_with_a_mistake_keeps_both(mlxctl: Program, write: Write) -> None:
    """The profile as it was, and what was written."""
    path = write(".mlxctl/x.toml", "[sampler]\ntemp = 0.5\n")
    status, err = edit(mlxctl, "x", "sed -i s/temp/tmp/")
    assert status == 2 and f"{path}:2: sampler.tmp: no such key" in err and "is as it was" in err
    assert path.read_text() == "[sampler]\ntemp = 0.5\n"
    (draft,) = path.parent.glob(".x.*.draft.toml")
    assert str(draft) in err and draft.read_text() == "[sampler]\ntmp = 0.5\n"


@pytest.mark.parametrize(
    "editor, status, words",
    [("true", 0, "nothing was changed"), ("false", 2, "ended with status 1"), ("/no/such", 2, "cannot be started"),
     ("'", 2, "cannot be started")],
)  # fmt: skip
def test_edit_that_comes_to_nothing(editor: str, status: int, words: str, mlxctl: Program, write: Write) -> None:
    """The profile stays, no draft is left."""
    path = write(".mlxctl/x.toml", "# as it was")
    found, err = edit(mlxctl, "x", editor)
    assert found == status and words in err
    assert path.read_text() == "# as it was" and toml_files(path.parent) == ["x.toml"]


def test_edit_into_a_circle(mlxctl: Program, write: Write) -> None:
    """The draft has another name than the profile whose place it would take."""
    path = write(".mlxctl/x.toml", "# nothing\n")
    write(".mlxctl/y.toml", "extends = 'x'")
    for parent in ("x", "y"):
        status, err = edit(mlxctl, "x", f"""sed -i '$a extends = "{parent}"'""")
        assert status == 2 and f"{path}:2: extends: goes in a circle" in err
    assert path.read_text() == "# nothing\n"


def test_edit_while_somebody_else_does(mlxctl: Program, write: Write) -> None:
    """Theirs is not overwritten, ours is kept."""
    path = write(".mlxctl/x.toml", "[sampler]\n")
    script = write("editor", f"#!/bin/sh\necho 'temp = 0.1' >>\"$1\"\necho '# theirs' >>{path}\n")
    script.chmod(0o755)
    status, err = edit(mlxctl, "x", str(script))
    assert status == 2 and "somebody else" in err and "is kept in" in err
    assert path.read_text() == "[sampler]\n# theirs\n"
    (draft,) = path.parent.glob(".x.*.draft.toml")
    assert draft.read_text() == "[sampler]\ntemp = 0.1\n"


def test_edit_of_a_broken_profile_and_through_a_link(mlxctl: Program, write: Write) -> None:
    """It is there to be mended; a link stays a link."""
    real = write("real.toml", "[sampler\n")
    (mlxctl.cwd / ".mlxctl").mkdir()
    link = mlxctl.cwd / ".mlxctl" / "x.toml"
    link.symlink_to(real)
    assert edit(mlxctl, "x", "sed -i 's/.*/[sampler]/'")[0] == 0
    assert link.is_symlink() and real.read_text() == "[sampler]\n"


def test_edit_of_what_is_not_ours(mlxctl: Program) -> None:
    """A shipped profile is copied or built upon; a name that is not there is not made."""
    status, err = edit(mlxctl, "demo", "true")
    assert status == 2 and "comes with mlxctl" in err and 'extends = "demo"' in err
    assert edit(mlxctl, "nobody", "true")[0] == 2


def test_file_names_are_no_commands_for_the_editor(mlxctl: Program, write: Write) -> None:
    """A profile's path goes to it as one argument, whatever is in it."""
    path = write("a$(touch PWNED) `b`;c.toml", "[sampler]\n")
    assert edit(mlxctl, f"./{path.name}", "sed -i s/sampler/kv/")[0] == 0
    assert path.read_text() == "[kv]\n" and not (mlxctl.cwd / "PWNED").exists()


# What trying to break it found


def test_code_of_a_project_is_not_run_through_the_parent_of_a_default(mlxctl: Program, write: Write) -> None:
    """The user's own default.toml extends a name that the project has too: what counts is the file that sets it."""
    default = Path(mlxctl.env["XDG_CONFIG_HOME"]) / "mlxctl" / "profiles" / "default.toml"
    default.parent.mkdir(parents=True)
    default.write_text('extends = "house"\n')
    path = write(".mlxctl/house.toml", "[model]\ntrust_remote_code = true")
    for command in (("run", "hi"), ("profile", "show"), ("profile", "validate", str(default))):
        done = mlxctl(*command)
        assert (
            done.code == 2 and f"{path}:2: model.trust_remote_code: a profile that nobody named" in done.err + done.out
        )
    (default.parent / "house.toml").write_text("[model]\ntrust_remote_code = true")
    assert "trust_remote_code = true" in mlxctl("profile", "show").out


@pytest.mark.skipif(os.getuid() != 0, reason="only root can give a file to somebody else")
def test_a_profile_of_another_user(mlxctl: Program, write: Write) -> None:
    """It may be used, for it was named; it may not let a model run its own code."""
    path = write(".mlxctl/theirs.toml", "[model]\ntrust_remote_code = true\n[sampler]\ntemp = 0.5")
    os.chown(path, 54321, 54321)
    done = mlxctl("profile", "show", "theirs")
    assert done.code == 2 and f"{path}:2: model.trust_remote_code: this file belongs to another user" in done.err
    assert mlxctl("profile", "show", "theirs", "--no-trust-remote-code").code == 0
    write(".mlxctl/default.toml", "extends = 'theirs'")
    assert "belongs to another user, and nobody named it" in mlxctl("profile", "show").err


def test_a_profile_given_by_a_relative_path_means_the_same(mlxctl: Program, write: Write) -> None:
    """Its names are meant from its folder, however the path was spelled; ~ in it is a name like any other."""
    (mlxctl.cwd / "demo").write_text("")
    path = write("p.toml", "[model]\npath = './org/name'\nadapter_path = 'ad'")
    for given in ("p.toml", "./p.toml", str(path)):
        settings = json.loads(mlxctl("profile", "show", given, "--format", "json").out)["settings"]
        assert settings["model"] == {"path": f"{mlxctl.cwd}/org/name", "adapter_path": f"{mlxctl.cwd}/ad"}
    write("e.toml", "extends = './demo'")
    assert mlxctl("profile", "show", "e.toml").out == ""
    (Path(mlxctl.env["HOME"]) / "secret.txt").write_text("x")
    write("s.toml", "[prompt]\nfiles = ['~/secret.txt']")
    assert "no such file" in mlxctl("run", "-P", "s.toml", "--dry-run", "hi").err


def test_the_nearest_folder_wins_though_it_is_searched_again_later(mlxctl: Program, write: Write) -> None:
    """A link from the project to the user's folder, and a profile of that name in between."""
    user = Path(mlxctl.env["XDG_CONFIG_HOME"]) / "mlxctl" / "profiles"
    user.mkdir(parents=True)
    (user / "x.toml").write_text("description = 'user'")
    write("profiles/x.toml", "description = 'project'")
    (mlxctl.cwd / ".mlxctl").symlink_to(user)
    assert mlxctl("profile", "path", "x").out == f"{mlxctl.cwd}/.mlxctl/x.toml\n"
    assert mlxctl("profile", "path").out.splitlines()[:2] == [f"{mlxctl.cwd}/.mlxctl", f"{mlxctl.cwd}/profiles"]


def test_unset_uncovers_what_the_value_had_replaced(mlxctl: Program, write: Write) -> None:
    """The parent's file, when the child's text does not count; twice is as good as once."""
    write(".mlxctl/rules.txt", "x")
    write(".mlxctl/base.toml", "[prompt]\nsystem_file = 'rules.txt'")
    write(".mlxctl/p.toml", "extends = 'base'\n[prompt]\nsystem = 'x'\n[template]\na = 1")
    twice = ("--unset", "system") * 2 + ("--unset", "template.a") * 2
    assert mlxctl("profile", "show", "p", *twice).out == '[prompt]\nsystem_file = "rules.txt"\n'
    for name in ("a", "template.a"):
        assert "template" not in mlxctl("profile", "show", "p", "--unset", name).out
    for name in ("--system-prompt", "system-prompt", "prompt.system"):
        assert "system =" not in mlxctl("profile", "show", "p", "--unset", name).out


def test_show_says_which_file_a_profile_cannot_hold(mlxctl: Program, write: Write) -> None:
    """A parent in another folder reads one of its own: it stands there as a comment, and the rest is a profile."""
    user = Path(mlxctl.env["XDG_CONFIG_HOME"]) / "mlxctl" / "profiles"
    user.mkdir(parents=True)
    (user / "h.txt").write_text("x")
    (user / "base.toml").write_text("[prompt]\nfiles = ['h.txt']\n[sampler]\ntemp = 1")
    write(".mlxctl/k.toml", f"extends = '{user}/base.toml'")
    shown = mlxctl("profile", "show", "k").out
    assert "[prompt]\n# files = [" in shown and f'"{user}/h.txt"' in shown and "temp = 1.0" in shown
    write(".mlxctl/k2.toml", shown)
    assert mlxctl("profile", "validate", "k2").code == 0
    done = mlxctl("profile", "new", "k3", "--from", "run -P k --unset temp")
    assert done.code == 2 and f"{user}/base.toml:2: '{user}/h.txt' is not in the folder" in done.err


def test_show_origin_lists_what_belongs_to_one_call(mlxctl: Program) -> None:
    """As comments, for no profile can hold it; and a flag that implies another says so itself."""
    done = mlxctl("profile", "show", "demo", "--origin", env={"MLXCTL_OFFLINE": "1"})
    assert "# offline = true  # variable MLXCTL_OFFLINE" in done.out.splitlines()
    assert "[request]" not in done.out
    assert mlxctl("profile", "show", "demo", "-P", "demo").code == 2


def test_the_flag_that_implies_another_is_the_origin(mlxctl: Program, tiny: Tiny) -> None:
    """--verbose sets the format."""
    done = mlxctl("run", "--model", tiny("stopper"), "--verbose", "True", "--dry-run", "hi")
    assert 'output.format = "classic"  # flag --verbose' in done.out


def test_a_new_profile_in_another_project_finds_its_parent(mlxctl: Program, write: Write) -> None:
    """By path, for there its name means nothing; beside it, by name."""
    write(".mlxctl/base.toml", "[sampler]\ntemp = 0.9")
    other = mlxctl.cwd / "other"
    (other / ".git").mkdir(parents=True)
    assert mlxctl("profile", "new", "other/.mlxctl/x.toml", "--from", "run -P base").code == 0
    assert "temp = 0.9" in Program("mlxctl", mlxctl.env, other)("profile", "show", "x").out
    (other / ".mlxctl" / "kid.toml").write_text("extends = 'x'")
    assert mlxctl("profile", "validate", "other/.mlxctl/kid.toml").code == 0


@pytest.mark.parametrize("path", ["./a\n[sampler]\ntemp = 9\n#.toml", "./a\x1bb.toml", "./\udcff.toml", "sub/.toml"])
def test_a_path_with_a_name_that_makes_trouble(path: str, mlxctl: Program) -> None:
    """It would stand in the file, and in what we print."""
    done = mlxctl("profile", "new", path)
    assert (done.code, done.out) == (2, "") and "a name is up to 100" in done.err


def test_text_that_is_not_utf_8(mlxctl: Program) -> None:
    """Names the byte, and writes nothing."""
    done = mlxctl("profile", "new", "x", "--description", "a\udcff")
    assert (done.code, done.out) == (2, "") and "not UTF-8" in done.err
    assert not (mlxctl.cwd / ".mlxctl").exists()


def test_a_new_profile_says_whose_place_it_takes(mlxctl: Program, write: Write) -> None:
    """Others may extend that."""
    assert "demo means the new one from now on, not " in mlxctl("profile", "new", "demo").err


def test_links_to_models_stay_links(mlxctl: Program) -> None:
    """`current` is to mean tomorrow's target tomorrow; a folder that is not there yet is one all the same."""
    (mlxctl.cwd / "v3").mkdir()
    (mlxctl.cwd / "current").symlink_to("v3")
    assert mlxctl("profile", "new", "x", "--from", "run --model current --adapter-path later").code == 0
    text = (mlxctl.cwd / ".mlxctl" / "x.toml").read_text()
    assert 'path = "../current"' in text and 'adapter_path = "../later"' in text


def test_files_of_the_question_are_left_out(mlxctl: Program, write: Write) -> None:
    """They are of one call, and no profile may read them there."""
    write("main.py", "x")
    done = mlxctl("profile", "new", "x", "--from", "run -f main.py --temp 1 'What is this?'")
    assert done.code == 0 and "left out, for they belong to one call: --file" in done.err
    assert mlxctl("profile", "show", "x").out == "[sampler]\ntemp = 1.0\n"


def test_what_variables_set_is_kept_and_said(mlxctl: Program) -> None:
    """It was part of the run."""
    done = mlxctl("profile", "new", "x", "--from", "run --top-k 3", env={"MLXCTL_TEMP": "0.5"})
    assert "kept too is what these set: MLXCTL_TEMP" in done.err
    assert mlxctl("profile", "show", "x").out == "[sampler]\ntemp = 0.5\ntop_k = 3\n"


@pytest.mark.parametrize(
    "script, words",
    [
        ('rm "$1"; mkfifo "$1"', "is not a file"),
        ('rm "$1"; mkdir "$1"', "is not a file"),
        ('rm "$1"', "No such file"),
        ("echo '#' >>\"$1\"; rm .mlxctl/x.toml", "somebody else changed it"),
        ("echo '#' >>\"$1\"; rm .mlxctl/x.toml; mkdir .mlxctl/x.toml", "somebody else changed it"),
        ("rm -r .mlxctl", "No such file"),
    ],
)
def test_editors_that_do_odd_things(script: str, words: str, mlxctl: Program, write: Write) -> None:
    """One line, no fault of ours, and nothing is waited for."""
    write(".mlxctl/x.toml", "# as it was")
    write("editor", f"#!/bin/sh\n{script}\n").chmod(0o755)
    status, err = edit(mlxctl, "x", "./editor")
    assert status == 2 and words in err and "a fault of mlxctl" not in err


def test_two_edits_at_once_do_not_share_a_draft(mlxctl: Program, write: Write) -> None:
    """The one that is second to save is told, and keeps what it wrote."""
    path = write(".mlxctl/x.toml", "[sampler]\n")
    write("slow", "#!/bin/sh\ntouch started\nwhile [ ! -e go ]; do sleep 0.05; done\necho 'temp = 0.1' >>\"$1\"\n")
    (mlxctl.cwd / "slow").chmod(0o755)
    slow = mlxctl.popen(
        "profile", "edit", "x", env={"EDITOR": "./slow"}, stderr=subprocess.PIPE, stdin=subprocess.DEVNULL
    )
    while not (mlxctl.cwd / "started").exists():
        time.sleep(0.05)
    assert edit(mlxctl, "x", "sed -i '$a top_k = 3'")[0] == 0
    (mlxctl.cwd / "go").touch()
    _, err = slow.communicate(timeout=60)
    assert slow.returncode == 2 and b"somebody else changed it" in err
    assert path.read_text() == "[sampler]\ntop_k = 3\n"
    (draft,) = path.parent.glob(".x.*.draft.toml")
    assert draft.read_text() == "[sampler]\ntemp = 0.1\n"


def test_links_to_shipped_profiles_are_shipped_profiles(mlxctl: Program) -> None:
    """An edit through a link would change them for everybody."""
    (mlxctl.cwd / ".mlxctl").mkdir()
    (mlxctl.cwd / ".mlxctl" / "x.toml").symlink_to(mlxctl("profile", "path", "demo").out.strip())
    assert "comes with mlxctl" in edit(mlxctl, "x", "true")[1]


def test_a_pipe_that_a_profile_names_is_not_waited_for(mlxctl: Program, write: Write) -> None:
    """It is no file."""
    path = write(".mlxctl/x.toml", "[prompt]\nsystem_file = 'ff'")
    os.mkfifo(path.parent / "ff")
    done = mlxctl("run", "-P", "x", "hi", timeout=20)
    assert done.code == 2 and done.err.startswith(f"{path}:2: prompt.system_file: no such file")


def test_faults_between_settings_name_the_file_that_sets_them(mlxctl: Program, write: Write) -> None:
    """And all of them at once, beside those of single keys; run and show say the same."""
    parent = write(".mlxctl/par.toml", '[generation]\nstop = [""]\n[prompt]\nfiles = ["gone"]\n[sampler]\ntmp = 1')
    write(".mlxctl/kid.toml", "extends = 'par'")
    done = mlxctl("profile", "validate", "kid")
    assert [line.removeprefix(f"{parent}:").split(": ")[:2] for line in done.out.splitlines()] == [
        ["6", "sampler.tmp"], ["4", "prompt.files"], ["2", "generation.stop"]]  # fmt: skip
    write(".mlxctl/par.toml", '[generation]\nstop = [""]\n')
    for command in (("run", "-P", "kid", "hi"), ("profile", "show", "kid")):
        assert mlxctl(*command).err == f"{parent}:2: generation.stop: an empty text ends nothing\n"
    assert "1 fault" in mlxctl("profile", "list").out


def test_lines_of_keys_written_with_escapes(mlxctl: Program, write: Write) -> None:
    """TOML lets a key be spelled so."""
    path = write("x.toml", '[sampler]\n\n"tem\\u0070" = 0.5\n')
    assert f"temp = 0.5  # {path}:3" in mlxctl("profile", "show", "x.toml", "--origin").out


def test_numbers_that_json_does_not_know(mlxctl: Program, write: Write) -> None:
    """They would be shown as null."""
    path = write("x.toml", "[template]\na = nan\nb = [inf]")
    faults = mlxctl("profile", "validate", "x.toml").out.splitlines()
    assert [fault.partition(f"{path}:")[2][:14] for fault in faults] == ["2: template.a:", "3: template.b:"]


def test_nearest_keys(mlxctl: Program, write: Write) -> None:
    """A key outside its table is known all the same; a name that is not found says where to look."""
    write("x.toml", "temp = 1")
    assert "temp: no such key; did you mean sampler.temp?" in mlxctl("profile", "validate", "x.toml").out
    done = mlxctl("profile", "show", env={"MLXCTL_PROFILE": "nosuch"})
    assert done.err.startswith("mlxctl: MLXCTL_PROFILE: profile nosuch: not found")
    assert "mlxctl profile list" in done.err
    assert "mlxctl run" in mlxctl("run", "--save-profile").err


def test_a_chain_without_end(mlxctl: Program, write: Write) -> None:
    """It is cut where nobody can mean it any more."""
    for number in range(40):
        write(f"profiles/p{number}.toml", f"extends = 'p{number + 1}'")
    write("profiles/p40.toml", "")
    done = mlxctl("profile", "validate", "p0")
    assert done.code == 2 and "more than 32 profiles" in done.out
    assert mlxctl("profile", "validate", "p20").code == 0


def test_half_a_list_in_a_variable(mlxctl: Program) -> None:
    """It was meant as a list; "[END]" and "[1]" are texts."""
    for text in ('["a", 1]', '["a"'):
        assert mlxctl("profile", "show", env={"MLXCTL_STOP": text}).code == 2
    for text in ("[END]", "[1]"):
        assert f'stop = ["{text}"]' in mlxctl("profile", "show", env={"MLXCTL_STOP": text}).out


@pytest.mark.parametrize("command", [("list",), ("show", "demo"), ("path",), ("schema",)], ids=lambda c: c[0])
def test_stdout_that_is_closed(command: tuple[str, ...], mlxctl: Program) -> None:
    """Nothing was printed, and that is no success."""
    done = subprocess.run(["sh", "-c", '"$0" profile "$@" >&-', mlxctl.path, *command], env=mlxctl.env, cwd=mlxctl.cwd,
                          capture_output=True, text=True, check=False)  # fmt: skip
    assert done.returncode == 2 and "stdout is closed" in done.stderr


@pytest.mark.skipif(os.getuid() != 0 or shutil.which("setpriv") is None, reason="needs root, and setpriv of util-linux")
def test_no_home_and_nothing_readable(mlxctl: Program, tiny: Tiny, write: Write) -> None:
    """As in a container, for a user that has no entry; and folders that may not be looked into."""
    caps = "+dac_override,+dac_read_search"
    ghost = [
        "setpriv",
        "--reuid",
        "54321",
        "--regid",
        "54321",
        "--clear-groups",
        "--inh-caps",
        caps,
        "--ambient-caps",
        caps,
    ]
    plain = [
        "setpriv",
        "--bounding-set",
        "-dac_override,-dac_read_search",
        "--inh-caps",
        "-dac_override,-dac_read_search",
    ]
    bare = {key: value for key, value in mlxctl.env.items() if key != "HOME" and not key.startswith("XDG")}

    def run(how: list[str], env: dict[str, str], *args: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run([*how, mlxctl.path, *args], env=env, cwd=mlxctl.cwd, capture_output=True, text=True,
                              stdin=subprocess.DEVNULL, check=False)  # fmt: skip

    answered = run(ghost, bare, "run", "--model", tiny("stopper"), "hi")
    assert (answered.returncode, answered.stdout) == (0, f"{STOPPER_REPLY}\n"), answered.stderr
    assert run(ghost, bare, "profile", "list").returncode == 0
    new = run(ghost, bare, "profile", "new", "x", "--user")
    assert new.returncode == 2 and "there is no home directory" in new.stderr
    for name in ("profiles", ".mlxctl"):
        (mlxctl.cwd / name).mkdir()
        (mlxctl.cwd / name).chmod(0)
    Path(mlxctl.env["XDG_CONFIG_HOME"]).mkdir(mode=0)
    for args in (("run", "--model", tiny("stopper"), "hi"), ("profile", "list"), ("profile", "show", "demo")):
        assert run(plain, mlxctl.env, *args).returncode == 0


def test_a_working_directory_that_is_gone(mlxctl: Program) -> None:
    """Paths from here mean nothing then."""
    for args in ("new ./x.toml", "new x", "show ./x.toml"):
        script = f"mkdir g; cd g; rmdir ../g; exec {mlxctl.path} profile {args}"
        done = subprocess.run(["sh", "-c", script], env=mlxctl.env, cwd=mlxctl.cwd, capture_output=True, text=True,
                              check=False)  # fmt: skip
        assert done.returncode == 2 and "the working directory: No such file or directory" in done.stderr
