"""How long a TAB takes in bash, zsh and fish, with 200 profiles and 50 models lying around.

Prints the median in milliseconds: what the shell spends on finding the candidates, its start not counted.
"""

import argparse
import os
import shlex
import statistics
import subprocess
import tempfile
import time
from pathlib import Path

import pexpect

COMPLETIONS = Path(__file__).parent.parent / "completions"
LINES = {"a profile": "mlxctl run -P re", "all profiles": "mlxctl run -P ", "a model": "mlxctl run --model org",
         "a flag": "mlxctl run --max"}  # fmt: skip
_BASH = """
. "$1"
while IFS= read -r COMP_LINE; do
    COMP_POINT=${#COMP_LINE}
    _mlxctl
    echo "${#COMPREPLY[@]}"
done
"""
_FISH = """
source $argv[1]
while read -l --delimiter=\\n line
    complete -C "$line" | count
end
"""
_ZSH = """
zmodload zsh/datetime; autoload -Uz compinit; compinit -D -u; source $SCRIPT; LISTMAX=-1
timed() { local start=$EPOCHREALTIME; zle .kill-whole-line; LBUFFER=$LINE; zle complete-word
          print $(( EPOCHREALTIME - start )) >>$FIGURES; zle .kill-whole-line; zle -I; print ANSWERED }
zle -N timed; bindkey '^I' timed; print RE''ADY
"""


def fill(folder: Path) -> Path:
    """Profiles of a project and of a person, models in the hub cache; returns a working directory."""
    work = folder / "project/src/deep"
    work.mkdir(parents=True)
    (folder / "project/.git").mkdir()
    for place in (folder / "project/.mlxctl", folder / "home/.config/mlxctl/profiles"):
        place.mkdir(parents=True)
        for number in range(100):
            (place / f"{'review' if number % 2 else 'other'}-{number}.toml").touch()
    for number in range(50):
        snapshot = folder / f"home/.cache/huggingface/hub/models--org--model-{number}/snapshots/abc"
        snapshot.mkdir(parents=True)
        (snapshot / "config.json").touch()
    return work


def piped(command: list[str], line: str, env: dict[str, str], cwd: Path, times: int) -> list[float]:
    """Seconds of each round trip to a shell that completes the lines it reads."""
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=env, cwd=cwd) as shell:
        assert shell.stdin and shell.stdout
        taken = []
        for _ in range(times + 1):
            started = time.perf_counter()
            shell.stdin.write(line.encode() + b"\n")
            shell.stdin.flush()
            assert int(shell.stdout.readline()) > 0
            taken.append(time.perf_counter() - started)
        shell.stdin.close()
    return taken[1:]  # the first holds the start


def bash(line: str, env: dict[str, str], cwd: Path, times: int) -> list[float]:
    script = ["-c", _BASH, "bash", str(COMPLETIONS / "mlxctl.bash")]
    return piped(["bash", "--norc", "--noprofile", *script], line, env, cwd, times)


def fish(line: str, env: dict[str, str], cwd: Path, times: int) -> list[float]:
    return piped(["fish", "--no-config", "-c", _FISH, str(COMPLETIONS / "mlxctl.fish")], line, env, cwd, times)


def zsh(line: str, env: dict[str, str], cwd: Path, times: int) -> list[float]:
    """On a pseudo-terminal: its completion works nowhere else."""
    figures = cwd / "figures"
    figures.unlink(missing_ok=True)
    env = {**env, "SCRIPT": str(COMPLETIONS / "_mlxctl"), "FIGURES": str(figures)}
    shell = pexpect.spawn("zsh", ["-f"], env=env, cwd=str(cwd), encoding="utf-8", timeout=60, dimensions=(300, 200))
    setup = cwd / "setup.zsh"
    setup.write_text(_ZSH, encoding="utf-8")
    shell.send(f"LINE={shlex.quote(line)}; source {shlex.quote(str(setup))}\r")
    shell.expect_exact("READY")
    for _ in range(times + 1):
        shell.send("\t")
        shell.expect_exact("ANSWERED")
    shell.close(force=True)
    return [float(text) for text in figures.read_text().split()][1:]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--times", type=int, default=21)
    times = parser.parse_args().times
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name).resolve()
        work = fill(folder)
        env = {"PATH": os.environ["PATH"], "HOME": str(folder / "home"), "LC_ALL": "C.UTF-8", "TERM": "xterm"}
        print("| TAB for | bash (ms) | zsh (ms) | fish (ms) |\n|---|---|---|---|")
        for what, line in LINES.items():
            medians = [1000 * statistics.median(shell(line, env, work, times)) for shell in (bash, zsh, fish)]
            print(f"| {what} | " + " | ".join(f"{median:.1f}" for median in medians) + " |")


if __name__ == "__main__":
    main()
