"""TAB in real bash, zsh and fish on a pseudo-terminal: what the completed line hands to the program."""

import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import pexpect
import pytest
from conftest import REPO, Program, seal

COMPLETIONS = REPO / "completions"
PATIENCE_S = 60
READY = "READY> "
STUB = """#!/bin/sh
echo "$0" >>"$TRACE"
echo "<<"'<'
for arg; do printf '[%s]\\n' "$arg"; done
echo ">>"'>'
"""
TAB, ENTER, KILL_LINE = "\t", "\r", "\x15"


@dataclass(frozen=True)
class Setting:
    """A shell, how it is started clean, and what is typed into it first."""

    program: str
    args: tuple[str, ...]
    lines: tuple[str, ...]


def _source(file: str) -> str:
    return f"source {shlex.quote(str(COMPLETIONS / file))}"


_BASH_ARGS = ("--norc", "--noprofile")
_BASH = ("PS1='READY> '; bind 'set enable-bracketed-paste off'",)
_ZSH = ("PROMPT='READY> ' RPROMPT=; unsetopt zle_bracketed_paste", "autoload -Uz compinit")
_FISH = ("function fish_prompt; printf 'READY> '; end",)
SETTINGS = {
    "bash": Setting("bash", _BASH_ARGS, (*_BASH, _source("mlxctl.bash"))),
    "bash-odd": Setting("bash", _BASH_ARGS, (
        *_BASH, "shopt -s nullglob failglob dotglob nocaseglob extglob; set -u; IFS=/e; GLOBIGNORE=x",
        _source("mlxctl.bash"))),
    "bash-strict": Setting("bash", (*_BASH_ARGS, "--posix"), (
        *_BASH, "set -f; COMP_WORDBREAKS=${COMP_WORDBREAKS//:}; COMP_WORDBREAKS=${COMP_WORDBREAKS//=}",
        _source("mlxctl.bash"))),
    "zsh": Setting("zsh", ("-f",), (*_ZSH, "compinit -D -u", _source("_mlxctl"))),
    "zsh-odd": Setting("zsh", ("-f",), (
        *_ZSH, "compinit -D -u",
        "setopt ksharrays nomatch shwordsplit globdots globsubst nounset noextendedglob rcquotes",
        _source("_mlxctl"))),
    "zsh-fpath": Setting("zsh", ("-f",), (
        *_ZSH, f"fpath=({shlex.quote(str(COMPLETIONS))} $fpath); compinit -D -u")),
    "fish": Setting("fish", ("--no-config",), (*_FISH, _source("mlxctl.fish"))),
}  # fmt: skip


class Shell:
    """A session of a shell, in which `mlxctl` prints its arguments."""

    def __init__(self, setting: Setting, env: dict[str, str], cwd: Path) -> None:
        self._setting, self._env, self._cwd = setting, env, cwd
        self._child: pexpect.spawn | None = None

    def _start(self) -> pexpect.spawn:
        program = shutil.which(self._setting.program)
        assert program, f"{self._setting.program} is not installed: .ci/run installs it"
        child = pexpect.spawn(program, list(self._setting.args), env=self._env, cwd=str(self._cwd), encoding="utf-8",
                              timeout=PATIENCE_S, dimensions=(60, 200))  # fmt: skip
        child.delaybeforesend = None
        for line in (*self._setting.lines, "mlxctl started"):
            child.send(line + ENTER)
        child.expect_exact(">>>")
        child.expect_exact(READY)
        return child

    def arguments(self, typed: str) -> list[str]:
        """What the program is given after these keys and Enter."""
        self._child = self._child or self._start()
        try:
            self._child.send(KILL_LINE + typed + ENTER)
            self._child.expect(r"<<<\r\n(.*?)>>>")
            found = re.findall(r"\[(.*?)\]\r\n", self._child.match[1], re.DOTALL)
            self._child.expect_exact(READY)
        except pexpect.TIMEOUT:
            shown = self._child.before
            self.close()
            raise AssertionError(f"no answer; the terminal shows {shown!r}") from None
        return found

    def close(self) -> None:
        if self._child:
            self._child.close(force=True)
        self._child = None


def _write(path: Path, text: str = "") -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")


def _fill_project(project: Path) -> None:
    """A project, and below it the working directory."""
    (project / ".git").mkdir(parents=True)
    _write(project.parent / ".mlxctl" / "outside.toml")  # above .git
    for name in ("review", "two words", "$(touch PWNED)", "`touch PWNED`", "semi;touch PWNED", "li\nne", "*star",
                 "it's", ".hidden"):  # fmt: skip
        _write(project / ".mlxctl" / f"{name}.toml")
    _write(project / "profiles" / "release-notes.toml")
    work = project / "src" / "deep"
    for name in (
        "notes.txt",
        "paths/mine.toml",
        "paths/other.txt",
        "paths/saved.safetensors",
        "été.txt",
        "spa ce/text.txt",
        "folder/x/y",
    ):
        _write(work / name)


def _fill_home(home: Path) -> None:
    """What a person has: profiles for all projects, models in the hub cache."""
    _write(home / "config/mlxctl/profiles/personal.toml")
    hub = home / "cache/huggingface/hub"
    for name in ("models--tiny-org--one--two", "models--gpt2", "models--$(touch PWNED)--x"):
        _write(hub / name / "snapshots/abc/config.json", "{}")
    (hub / "models--tiny-org--absent/snapshots").mkdir(parents=True)
    _write(home / "homely/x.txt")
    for name in ("tides", "a%2Fb%20%C3%B6", "%24%28touch%20PWNED%29", "%0A", "x" * 151, ".hidden"):
        _write(home / "data/mlxctl/sessions" / f"{name}.json")
    for name in ("house-rules", "$(touch PWNED)", ".hidden"):
        _write(home / "cache/mlxctl/prompts" / f"{name}.safetensors")


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with all there is to complete, and stubs that leave a trace."""
    place = tmp_path_factory.mktemp("completions").resolve()
    env = seal(place)
    _fill_home(Path(env["HOME"]))
    _fill_project(place / "above" / "project")
    for name in ("mlxctl", "python", "python3"):
        _write(place / "bin" / name, STUB)
        (place / "bin" / name).chmod(0o755)
    return place


@pytest.fixture(scope="module")
def env(place: Path) -> dict[str, str]:
    """Of the shells: the stubs come first in PATH."""
    home = place / "home"
    xdg = {f"XDG_{name}_HOME": str(home / name.lower()) for name in ("CONFIG", "CACHE", "STATE", "DATA")}
    return {**xdg, "HOME": str(home), "PATH": f"{place / 'bin'}:{os.environ['PATH']}", "TERM": "xterm",
            "LC_ALL": "C.UTF-8", "TRACE": str(place / "trace")}  # fmt: skip


@pytest.fixture(scope="module")
def open_shell(place: Path, env: dict[str, str]) -> Iterator[Callable[[str], Shell]]:
    """A session by its name in SETTINGS, started when first asked for."""
    shells = {name: Shell(setting, env, place / "above/project/src/deep") for name, setting in SETTINGS.items()}
    yield shells.__getitem__
    for shell in shells.values():
        shell.close()


def in_shells(*names: str) -> pytest.MarkDecorator:
    """Runs a test in each; one worker of xdist keeps the sessions."""
    return pytest.mark.parametrize("name", [pytest.param(name, marks=_marks(name)) for name in names])


def _marks(name: str) -> list[pytest.MarkDecorator]:
    program = SETTINGS[name].program
    lacking = sys.platform == "darwin" and not shutil.which(program)
    return [pytest.mark.xdist_group("completions"), pytest.mark.skipif(lacking, reason=f"this Mac has no {program}")]


every_shell = in_shells(*SETTINGS)
three_shells = in_shells("bash", "zsh", "fish")


# What is typed before TAB, and the arguments then: None where nothing is to be offered.
CASES: dict[str, list[str] | None] = {
    "ru": ["run"],
    "profile val": ["profile", "validate"],
    "completion fi": ["completion", "fish"],
    "completion fish b": None,
    "run --max-tok": ["run", "--max-tokens"],
    "run --no-off": ["run", "--no-offline"],
    "run hello --max-tok": ["run", "hello", "--max-tokens"],
    "run -f main.py -p hi -P rev": ["run", "-f", "main.py", "-p", "hi", "-P", "review"],
    "run -- --max-tok": None,
    "generate --max-tok": ["generate", "--max-tokens"],
    "profile show --orig": ["profile", "show", "--origin"],
    "run --format cl": ["run", "--format", "classic"],
    "run --format=cl": ["run", "--format=classic"],
    "run --stats alw": ["run", "--stats", "always"],
    "run --stats=alw": ["run", "--stats=always"],
    "run --verbose fa": ["run", "--verbose", "false"],
    "run --kv-group-size 12": ["run", "--kv-group-size", "128"],
    "run --cache hou": ["run", "--cache", "house-rules"],
    "cache rm house-rules hou": ["cache", "rm", "house-rules", "house-rules"],
    "cache info paths/sa": ["cache", "info", "paths/saved.safetensors"],
    "run --cache hid": None,
    "chat --session ti": ["chat", "--session", "tides"],
    "chat --session a/": ["chat", "--session", "a/b ö"],
    "chat --session hid": None,
    "run --unset sampler.te": ["run", "--unset", "sampler.temp"],
    "run -P re": ["run", "-P", "re"],  # review, release-notes
    "run -P rev": ["run", "-P", "review"],
    "run -P rea": ["run", "-P", "reasoning"],
    "run -Prev": ["run", "-Preview"],
    "run --profile rev": ["run", "--profile", "review"],
    "run --profile=rev": ["run", "--profile=review"],
    "generate -P rev": ["generate", "-P", "review"],
    "profile show rev": ["profile", "show", "review"],
    "profile show review rev": None,
    "profile show -- rev": ["profile", "show", "--", "review"],
    "profile show --unset temp rev": ["profile", "show", "--unset", "temp", "review"],
    "profile validate review rel": ["profile", "validate", "review", "release-notes"],
    "profile validate paths/m": ["profile", "validate", "paths/mine.toml"],
    "run -P person": ["run", "-P", "personal"],
    "run -P outs": None,
    "run -P hid": None,
    "run -P two": ["run", "-P", "two words"],
    "run -P two\\ w": ["run", "-P", "two words"],
    'run -P "two': ["run", "-P", "two words"],
    "run -P 'two": ["run", "-P", "two words"],
    "run -P \\$": ["run", "-P", "$(touch PWNED)"],
    "run -P \\`": ["run", "-P", "`touch PWNED`"],
    "run -P semi": ["run", "-P", "semi;touch PWNED"],
    "run -P \\*s": ["run", "-P", "*star"],
    "run -P it": ["run", "-P", "it's"],
    "run -P li": None,
    "run -P paths/m": ["run", "-P", "paths/mine.toml"],
    "run -P ./paths/m": ["run", "-P", "./paths/mine.toml"],
    "run -P paths/o": None,
    "run --model tiny-org/o": ["run", "--model", "tiny-org/one--two"],
    "run --model tiny-org/a": None,
    "run --model gpt": ["run", "--model", "gpt2"],
    "run --model=gpt": ["run", "--model=gpt2"],
    "run --model builtin:sm": ["run", "--model", "builtin:smollm2-135m"],
    "run --model=builtin:sm": ["run", "--model=builtin:smollm2-135m"],
    "run --model \\$": ["run", "--model", "$(touch PWNED)/x"],
    "run --model fol": ["run", "--model", "folder/"],
    "run --model note": None,
    "run --draft-model ./fol": ["run", "--draft-model", "./folder/"],
    "run -f no": ["run", "-f", "notes.txt"],
    "run -f spa": ["run", "-f", "spa ce/"],
    "run -f spa\\ ce/": ["run", "-f", "spa ce/text.txt"],
    "run -f ét": ["run", "-f", "été.txt"],
    "run --file=no": ["run", "--file=notes.txt"],
    "run -f notes.txt -f pa": ["run", "-f", "notes.txt", "-f", "paths/"],
    "run --adapter-path fol": ["run", "--adapter-path", "folder/"],
    "run --adapter-path fol\tx": ["run", "--adapter-path", "folder/x"],
    "run --adapter-path no": None,
    "run --temp no": None,
    "run no": None,
    "run hello no": None,
    "run -p no": None,
    "profile new no": None,
    "generate no": None,
}


@every_shell
@pytest.mark.parametrize("typed", CASES, ids=repr)
def test_completed(name: str, typed: str, open_shell: Callable[[str], Shell], place: Path) -> None:
    expected = CASES[typed] or shlex.split(typed)
    found = open_shell(name).arguments(f"mlxctl {typed}{TAB}")
    # zsh takes the slash of a folder away again at Enter.
    assert [word.removesuffix("/") for word in found] == [word.removesuffix("/") for word in expected]
    assert not list(place.rglob("PWNED"))


@every_shell
def test_review_though_reasoning_is_shipped(name: str, open_shell: Callable[[str], Shell], place: Path) -> None:
    """A profile of one's own goes before the shipped ones."""
    aside = (place / "above/project/profiles/release-notes.toml").rename(place / "aside.toml")
    try:
        assert (REPO / "profiles/reasoning.toml").is_file()
        assert open_shell(name).arguments(f"mlxctl run -P re{TAB}") == ["run", "-P", "review"]
    finally:
        aside.rename(place / "above/project/profiles/release-notes.toml")


@every_shell
def test_hostile_names_listed(name: str, open_shell: Callable[[str], Shell], place: Path) -> None:
    """Listing all the profiles and models evaluates none."""
    shell = open_shell(name)
    assert shell.arguments(f"mlxctl run -P {TAB}{TAB}{KILL_LINE}mlxctl listed") == ["listed"]
    assert shell.arguments(f"mlxctl run --model {TAB}{TAB}{KILL_LINE}mlxctl listed") == ["listed"]
    assert not list(place.rglob("PWNED"))


@every_shell
def test_nothing_is_started(name: str, open_shell: Callable[[str], Shell], place: Path) -> None:
    """No program of ours and no python runs at TAB."""
    shell, trace = open_shell(name), place / "trace"
    shell.arguments("mlxctl started")
    trace.write_text("")
    for typed in ("run -P rev", "run --model g", "run --for", "profile va", "run -f n"):
        shell.arguments(f"mlxctl {typed}{TAB}{KILL_LINE}mlxctl ended")
    assert trace.read_text().splitlines() == [str(place / "bin/mlxctl")] * 5


@three_shells
def test_below_home(name: str, place: Path, env: dict[str, str]) -> None:
    """~ is the home folder; no profile is looked for above it."""
    _write(place / "profiles/too-high.toml")
    _write(place / "home/profiles/at-home.toml")
    with closing(Shell(SETTINGS[name], env, place / "home/homely")) as shell:
        assert shell.arguments(f"mlxctl run -P too-h{TAB}") == ["run", "-P", "too-h"]
        assert shell.arguments(f"mlxctl run -P at-h{TAB}") == ["run", "-P", "at-home"]
        assert shell.arguments(f"mlxctl run -f ~/homely/x{TAB}") == ["run", "-f", f"{env['HOME']}/homely/x.txt"]
        assert shell.arguments(f"mlxctl run -P ~/profiles/at{TAB}") == [
            "run", "-P", f"{env['HOME']}/profiles/at-home.toml"]  # fmt: skip


@three_shells
@pytest.mark.parametrize(
    ("variables", "folder"),
    [
        ({"HF_HUB_CACHE": "1", "HUGGINGFACE_HUB_CACHE": "2", "HF_HOME": "3"}, "1"),
        ({"HUGGINGFACE_HUB_CACHE": "2", "HF_HOME": "3"}, "2"),
        ({"HF_HOME": "3"}, "3/hub"),
    ],
    ids=["HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE", "HF_HOME"],
)
def test_hub_cache_elsewhere(
    name: str, variables: dict[str, str], folder: str, place: Path, env: dict[str, str]
) -> None:
    """Found as the library finds it."""
    _write(place / "hubs" / folder / "models--elsewhere--model/snapshots/1/config.json")
    moved = {**env, **{variable: str(place / "hubs" / value) for variable, value in variables.items()}}
    with closing(Shell(SETTINGS[name], moved, place)) as shell:
        assert shell.arguments(f"mlxctl run --model else{TAB}") == ["run", "--model", "elsewhere/model"]
    shutil.rmtree(place / "hubs")


@pytest.mark.parametrize(("shell", "file"), [("bash", "mlxctl.bash"), ("zsh", "_mlxctl"), ("fish", "mlxctl.fish")])
def test_command_prints_script(mlxctl: Program, shell: str, file: str) -> None:
    done = mlxctl("completion", shell)
    assert (done.code, done.err) == (0, "")
    assert done.out == (COMPLETIONS / file).read_text(encoding="utf-8")


@pytest.mark.parametrize("args", [(), ("csh",)], ids=repr)
def test_unknown_shell(mlxctl: Program, args: tuple[str, ...]) -> None:
    done = mlxctl("completion", *args)
    assert (done.code, done.out) == (2, "")
    assert "bash" in done.err


@pytest.mark.parametrize(
    "line", ["run -f s", "run -p x --te", "generate -p x -f y ", "run -- -f ", "run -z -n -a = --te"]
)
def test_fish_says_nothing_else(line: str, sealed: dict[str, str], work: Path) -> None:
    """Words that look like operators of its own `test` are words."""
    script = f"source {REPO}/completions/mlxctl.fish; complete -C 'mlxctl {line}'"
    done = subprocess.run(["fish", "--no-config", "-c", script], env=sealed, cwd=work, capture_output=True, text=True,
                          check=False)  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")
