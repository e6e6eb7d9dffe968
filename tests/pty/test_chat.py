"""`mlxctl chat` on a terminal: every key and command, as a person sees them."""

import base64
import json
import os
import pty
import re
import signal
import stat
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import models
import pexpect
import pytest
from conftest import Program
from terminal import Terminal, squeezed

Tiny = Callable[[str], str]
Start = Callable[..., Terminal]
SIZES = {"80x24": (24, 80), "40x10": (10, 40)}
EDITOR = """#!/bin/sh
printf '%s' "edited words" > "$1"
"""


@pytest.fixture(params=SIZES)
def start(request: pytest.FixtureRequest, mlxctl: Program, tiny: Tiny) -> Iterator[Start]:
    """Begins a chat with a tiny model, on a usual and on a small terminal; ends it when the test does."""
    begun: list[Terminal] = []

    def one(*args: str, model: str = "llama", **env: str) -> Terminal:
        chat = Terminal(mlxctl, "chat", "--model", tiny(model), "-m", "6", *args, size=SIZES[request.param], **env)
        begun.append(chat)
        chat.ready()
        return chat

    yield one
    for chat in begun:
        chat.close()


def kept(mlxctl: Program, name: str) -> dict[str, object]:
    """A session as it lies on the disk."""
    folder = Path(mlxctl.env["XDG_DATA_HOME"]) / "mlxctl" / "sessions"
    found = [json.loads(path.read_text()) for path in folder.glob("[!.]*.json")]
    return next((one for one in found if one["name"] == name), {"said": []})


def said(mlxctl: Program, name: str) -> list[str]:
    """The roles and questions of a session."""
    return [one["content"] if one["role"] == "user" else "" for one in kept(mlxctl, name)["said"]]  # type: ignore[attr-defined]


def test_a_conversation(start: Start, mlxctl: Program) -> None:
    """Questions are answered, undone, asked again and gone on with; it is kept, for its owner alone."""
    chat = start("--session", "one")
    chat.enter("Hello")
    chat.see("cut at 6 tokens")
    chat.enter("And then?")
    assert said(mlxctl, "one") == ["Hello", "", "And then?", ""]
    before = kept(mlxctl, "one")["said"]
    chat.enter("/regen")
    chat.see("at temperature 0")
    assert kept(mlxctl, "one")["said"] == before
    chat.enter("/continue")
    longer = kept(mlxctl, "one")["said"]
    assert longer[-1]["content"].startswith(before[-1]["content"]) and longer != before  # type: ignore[index]
    chat.ready()
    chat.send("/undo\r")
    chat.see("1 question is left")
    chat.line("And then?")
    assert said(mlxctl, "one") == ["Hello", ""]
    chat.send(" Or not?\r")  # it stands ready to be changed
    chat.until(lambda: said(mlxctl, "one") == ["Hello", "", "And then? Or not?", ""], "the changed question")
    chat.ready()
    chat.send("/undo 2\r")
    chat.see("0 questions are left")
    assert said(mlxctl, "one") == []
    chat.send("\x15")
    chat.enter("/clear")
    chat.enter("Anew")
    chat.enter("/sessions")
    chat.see("* 20")
    assert "one" in chat.news.split("/sessions")[-1]
    chat.send("\x04")
    assert chat.end() == 0
    folder = Path(mlxctl.env["XDG_DATA_HOME"]) / "mlxctl" / "sessions"
    assert {stat.S_IMODE(path.stat().st_mode) for path in folder.iterdir()} == {0o600}
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700


def test_settings(start: Start, mlxctl: Program) -> None:
    """Settings are shown, changed, checked and taken back."""
    (mlxctl.cwd / ".mlxctl").mkdir()
    (mlxctl.cwd / ".mlxctl" / "warm.toml").write_text("[sampler]\ntemp = 0.9\ntop_k = 5\n")
    chat = start()
    chat.enter("/set temp 0.5")
    chat.see("sampler.temp = 0.5")
    chat.enter("/set temp hot")
    chat.see("sampler.temp: expected a number of at least 0, got 'hot'")
    chat.enter("/set top_k 999999999")
    chat.see("beyond the vocabulary")
    chat.enter("/set tmep 1")
    chat.see("tmep: no such setting; did you mean temp?")
    chat.enter("/settings")
    chat.see("sampler.temp = 0.5 # set for this chat")
    assert "top_k" not in chat.text.split("/settings")[-1]
    chat.enter("/profile warm")
    chat.enter("/unset temp")
    chat.see("sampler.temp = 0.9")
    chat.enter("/unset top_k")
    chat.see("sampler.top_k = 0")
    chat.enter("/profile nowhere")
    chat.see("nowhere: not found")
    chat.enter("/profile")
    chat.see("profile warm")
    chat.enter("/set template.kind special")
    chat.see('template.kind = "special"')
    chat.enter("/model")
    chat.see("model /")
    chat.enter("/set model.path x")
    chat.see("/model changes the model")
    chat.enter("/system Be brief.")
    chat.enter("Hello")
    chat.enter("/system")
    chat.see("Be brief.")
    chat.enter("/template")
    chat.see("<|im_start|>system Be brief.<|im_end|>")
    chat.enter("/set temp")
    chat.see("sampler.temp = 0.9")
    chat.enter('/set template.x {"a":')
    chat.see("no JSON")


def test_model(start: Start, tiny: Tiny) -> None:
    """Another model goes on with the conversation; one that cannot be loaded changes nothing."""
    chat = start()
    chat.enter("Hello")
    chat.enter(f"/model {tiny('quant')}")
    chat.enter("/tokens")
    chat.see("0 in the cache")
    chat.enter("Hello again")
    chat.enter("/model /nowhere/at/all")
    chat.see("no such folder")
    chat.enter("And now?")
    chat.enter("/model")
    chat.see(tiny("quant"))


def test_sessions(start: Start, mlxctl: Program) -> None:
    """Named, branched, loaded; odd names are safe."""
    chat = start()
    chat.enter("First")
    chat.enter("/save ../ö ✓ a/b")
    chat.enter("/branch")
    chat.enter("Second")
    chat.enter("/load ../ö ✓ a/b")
    chat.see("1 question so far")
    chat.enter("Third")
    assert said(mlxctl, "../ö ✓ a/b") == ["First", "", "Third", ""]
    chat.enter("/load nothing like it")
    chat.see("there is none")
    chat.enter("/save ../ö ✓ a/b")
    chat.see("this one is called so")
    chat.enter("/branch other")
    chat.enter("/save ../ö ✓ a/b")
    chat.see("there is one already")
    folder = Path(mlxctl.env["XDG_DATA_HOME"]) / "mlxctl"
    assert [path.name for path in folder.iterdir()] == ["sessions"]
    other = Terminal(mlxctl, "chat", "--session", "other", "--model", "/nowhere")
    other.see("it is open in another chat")  # before any model is looked for
    assert other.end() == 2


def test_restored_with_its_cache(start: Start, mlxctl: Program) -> None:
    """A session that is opened again need not be computed again; a cache that was damaged is not believed."""
    chat = start("--session", "s")
    chat.enter("Hello, this is a first question")
    chat.send("\x04")
    assert chat.end() == 0
    again = start("--session", "s")
    assert re.search(r"\b[1-9]\d* cached", again.lines[-1])
    again.enter("More")
    again.see("cached")
    again.send("\x04")
    again.end()
    (cache,) = (Path(mlxctl.env["XDG_DATA_HOME"]) / "mlxctl" / "sessions").glob("*.safetensors")
    data = bytearray(cache.read_bytes())
    data[-9] ^= 4
    cache.write_bytes(data)
    third = start("--session", "s")
    third.see("the cache of this session is not used")
    third.enter("More")
    assert len(said(mlxctl, "s")) == 6


def test_files(start: Start, mlxctl: Program) -> None:
    """Read, attached, exported; nothing is written over."""
    (mlxctl.cwd / "note.txt").write_text("The boat is blue.\n")
    (mlxctl.cwd / "bad.txt").write_bytes(b"\xff\xfe")
    chat = start("--session", "f")
    chat.enter("/read note.txt")
    chat.see("characters go before your next question")
    chat.enter("Which colour?")
    assert said(mlxctl, "f")[0] == "The boat is blue.\n\nWhich colour?"
    chat.enter("/read bad.txt")
    chat.see("bad.txt: not UTF-8 text")
    chat.enter("/read missing.txt")
    chat.see("No such file")
    chat.enter("/export out.json")
    chat.enter("/export out.md")
    chat.enter("/export out.md")
    chat.see("is there already")
    chat.enter("/export out.txt")
    chat.see("ends in .md or .json")
    messages = json.loads((mlxctl.cwd / "out.json").read_text())
    assert [message["role"] for message in messages] == ["user", "assistant"]
    assert (mlxctl.cwd / "out.md").read_text().startswith("## User\n\nThe boat is blue.")
    assert stat.S_IMODE((mlxctl.cwd / "out.json").stat().st_mode) == 0o600
    chat.enter("/image nothing.png")
    chat.see("nothing.png: no such file")


def test_editor(start: Start, mlxctl: Program) -> None:
    """Ctrl-G for what is being written, /edit for what was asked."""
    editor = mlxctl.cwd / "editor"
    editor.write_text(EDITOR)
    editor.chmod(0o755)
    chat = start("--session", "e", EDITOR="./editor", VISUAL="")
    chat.send("draft\x07")
    chat.line("edited words")
    chat.send("\r")
    chat.see("6 tokens")
    chat.ready()
    assert said(mlxctl, "e") == ["edited words", ""]
    chat.enter("second")
    chat.enter("/edit 2")
    assert said(mlxctl, "e") == ["edited words", "", "edited words", ""]
    chat.enter("/edit")
    chat.see("nothing was changed")
    chat.enter("/edit 7")
    chat.see("there are 2 questions")


def test_lines_and_blocks(start: Start, mlxctl: Program) -> None:
    """Alt-Enter, Ctrl-J, blocks in triple quotes, /multi, and long pastes in any script."""
    chat = start("--session", "b", model="mamba")  # whose context has no limit
    chat.send("one\x1b\rtwo\nthree")
    chat.see("three")
    chat.send("\r")
    chat.ready()
    chat.send('"""four\rfive"""\r')
    chat.ready()
    chat.until(lambda: len(said(mlxctl, "b")) == 4, "the block")
    assert said(mlxctl, "b")[::2] == ["one\ntwo\nthree", "four\nfive"]
    chat.enter("/multi")
    chat.send("six\rseven\x1b\r")
    chat.until(lambda: len(said(mlxctl, "b")) == 6, "the lines")
    assert said(mlxctl, "b")[4] == "six\nseven"
    chat.ready()
    chat.enter("/multi")
    for text in ("👩‍👩‍👧 " * 30, "漢字かな交じり文" * 40, "مرحبا بالعالم " * 40, "x" * 5000, "a\nb\n\n/exit\nc"):
        before = len(said(mlxctl, "b"))
        chat.ready()
        chat.send(f"\x1b[200~{text}\x1b[201~")
        chat.read(0.3)
        chat.send("\r")
        chat.until(lambda before=before: len(said(mlxctl, "b")) == before + 2, "the paste")
        assert said(mlxctl, "b")[-2] == text
        assert squeezed(text.splitlines()[-1])[-8:] in squeezed((chat.text + chat.news).replace("... ", ""))
    chat.ready()
    chat.send("\x04")
    assert chat.end() == 0


def test_completion_and_history(start: Start, mlxctl: Program) -> None:
    """Tab, Up, Ctrl-R; the history outlives the chat, for its owner alone."""
    (mlxctl.cwd / ".mlxctl").mkdir()
    (mlxctl.cwd / ".mlxctl" / "warm.toml").write_text("[sampler]\ntemp = 0.9\n")
    (mlxctl.cwd / "notes.txt").write_text("x")
    (mlxctl.cwd / "folder").mkdir()
    kept_one = start("--session", "kept")
    kept_one.enter("Hello")
    kept_one.send("\x04")
    kept_one.end()
    chat = start("--session", "h")
    for begun, whole in (("/und", "/undo"), ("/profile wa", "/profile warm"), ("/read not", "/read notes.txt"),
                         ("/set sampler.te", "/set sampler.temp"), ("/set on_full dr", "/set on_full drop-oldest"),
                         ("/set markdown fa", "/set markdown false"), ("/unset top_k", "/unset sampler.top_k"),
                         ("/model builtin:", "/model builtin:smollm2-135m"), ("/model fold", "/model folder"),
                         ("/load kep", "/load kept"), ("/delete kep", "/delete kept"), ("/think fo", "/think fold"),
                         ("/help exi", "/help exit"), ("/save no", "/save no"),
                         ("no command: /und", "no command: /und"),
                         ):  # fmt: skip
        chat.ready()
        chat.send(begun + "\t")
        chat.until(lambda whole=whole: squeezed(chat.prompt).startswith(squeezed(f">>>{whole}")), whole)
        chat.send("\x15")
    chat.ready()
    chat.enter("something to remember")
    chat.send("\x1b[A")
    chat.line("something to remember")
    chat.send(" again\r")
    chat.until(lambda: len(said(mlxctl, "h")) == 4, "the second question")
    assert said(mlxctl, "h")[2] == "something to remember again"
    chat.ready()
    chat.send("\x04")
    chat.end()
    again = start()
    again.send("\x12to rem")
    again.see("something to remember again")
    again.send("\r")
    again.line("something to remember again")
    path = Path(mlxctl.env["XDG_STATE_HOME"]) / "mlxctl" / "chat_history"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_nothing_is_kept(start: Start, mlxctl: Program) -> None:
    """--no-save leaves nothing behind."""
    chat = start("--no-save")
    chat.enter("Hello")
    chat.see("not kept" if chat.width > 40 else "20 cached")
    chat.send("\x04")
    assert chat.end() == 0
    for variable in ("XDG_DATA_HOME", "XDG_STATE_HOME"):
        assert not (Path(mlxctl.env[variable]) / "mlxctl").exists()


def test_leaving(start: Start) -> None:
    """Ctrl-C on an empty line tells how; on a line that is written it drops it; q, /exit and Ctrl-D leave."""
    chat = start()
    chat.send("half a line\x03")
    chat.ready()
    chat.send("\x03")
    chat.see("Ctrl-D or /exit leaves")
    chat.enter("h")
    chat.see("/export FILE")
    chat.enter("/exot")
    chat.see("/exot: no such command; did you mean export?")
    chat.enter("/undo x")
    chat.see("expected a number")
    chat.enter("/undo")
    chat.see("nothing was asked yet")
    chat.enter("/usr/bin is a path")
    chat.see("6 tokens")
    chat.enter("r")
    chat.see("a new conversation")
    chat.send("q\r")
    assert chat.end() == 0


def test_stopping_an_answer(start: Start, mlxctl: Program) -> None:
    """Ctrl-C stops it, keeps what came, and the conversation goes on."""
    chat = start("--session", "c", "-m", "100000")
    chat.send("Go on\r")
    chat.until(lambda: chat.raw.count(b"\n") > 3 or len(chat.text) > 200, "some of the answer")
    chat.send("\x03")
    chat.see("stopped; what came is kept")
    chat.ready()
    assert kept(mlxctl, "c")["said"][1]["cut"] is True  # type: ignore[index]
    chat.enter("/set max_tokens 4")
    chat.enter("/continue")
    chat.enter("Next")
    assert len(said(mlxctl, "c")) == 4


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT, signal.SIGUSR1])
def test_told_to_end(number: int, start: Start, mlxctl: Program) -> None:
    """At the prompt: the terminal is as it was, and everything is kept."""
    chat = start("--session", "t")
    chat.enter("Hello")
    os.kill(chat.child.pid, number)
    assert chat.end() == 128 + number
    assert said(mlxctl, "t") == ["Hello", ""]
    assert chat.raw.count(b"\x1b[?2004l") >= chat.raw.count(b"\x1b[?2004h")  # no bracketed paste any more


def test_thinking(start: Start) -> None:
    """Shown, folded to a line, or hidden; asked for or not."""
    chat = start("-m", "20", model="moe")
    chat.enter("Hello")
    assert "Let me think" in chat.news
    chat.enter("/think hide")
    chat.enter("Hello")
    assert "think" not in chat.news.partition("Hello")[2].partition("cut at")[0].replace("/think", "")
    chat.enter("/think fold")
    chat.enter("Hello")
    chat.see("thought for")
    assert "Let me think" not in chat.news
    chat.enter("/think show")
    chat.enter("/think off")
    chat.enter("/template")
    chat.enter("Hello")
    assert "Let me think" not in chat.news.partition("Hello")[2]


def test_looking(start: Start, mlxctl: Program) -> None:
    """/tokens, /stats, /think and /copy."""
    chat = start("--session", "l")
    chat.enter("/stats")
    chat.see("nothing was answered yet")
    chat.enter("/copy")
    chat.see("there is no answer to copy")
    chat.enter("Hello")
    chat.enter("/tokens")
    chat.see("in the cache")
    chat.enter("/stats")
    chat.see("generation_tokens     6")
    chat.enter("/copy")
    chat.see("clipboard")
    handed = re.search(rb"\x1b\]52;c;([A-Za-z0-9+/=]*)", chat.raw)
    assert handed and base64.b64decode(handed[1]).decode() == kept(mlxctl, "l")["said"][1]["content"]  # type: ignore[index]
    chat.enter("/think off")
    chat.see("the chat template does not read 'enable_thinking'")
    chat.enter("Again")
    assert "does not read" not in chat.news
    chat.enter("/think aloud")
    chat.see("expected show, fold, hide, on, off")


def test_no_colours(start: Start) -> None:
    chat = start(NO_COLOR="1")
    chat.enter("Hello")
    assert b"\x1b[2m" not in chat.raw and b"\x1b[1m" not in chat.raw


def test_quick_to_begin_and_end(start: Start, mlxctl: Program) -> None:
    """Keys that come before the prompt does are not lost."""
    chat = start("--session", "q")
    chat.send("one\r")
    time.sleep(0.05)
    chat.send("/exit\r")
    assert chat.end() == 0
    assert said(mlxctl, "q") == ["one", ""]


def test_slashes(start: Start, mlxctl: Program) -> None:
    """A space before it makes a command text; a path is text; what others call the commands works too."""
    chat = start("--session", "s")
    for line in (" /help", "/etc/hosts is what?"):
        chat.enter(line)
    assert [text.strip() for text in said(mlxctl, "s")[::2]] == ["/help", "/etc/hosts is what?"]
    chat.enter("/help set")
    chat.see("/set KEY [VALUE]")
    chat.enter("/image note.txt")
    chat.see("no such file")
    (mlxctl.cwd / "note.txt").write_text("x")
    chat.enter("/image note.txt")
    chat.see("does not take images")
    chat.enter("Still there?")
    chat.enter("/continue")
    chat.enter("/set template.x NaN")
    chat.enter("/set template. x")
    chat.see("no such setting")
    chat.send("/bye\r")
    assert chat.end() == 0


def test_bytes_that_are_no_text(start: Start, mlxctl: Program) -> None:
    """A paste in another encoding is text with a mark in it."""
    editor = mlxctl.cwd / "editor"
    editor.write_text(EDITOR)
    editor.chmod(0o755)
    chat = start("--session", "l", EDITOR="./editor", VISUAL="")
    chat.child.send(b"/system x\xff\r")
    chat.see("the system prompt is set")
    chat.ready()
    chat.child.send(b"caf\xe9?\r")
    chat.until(lambda: len(said(mlxctl, "l")) == 2, "the question")
    assert said(mlxctl, "l")[0] == "caf\ufffd?"
    chat.ready()
    chat.child.send(b"\xff\x07")
    chat.line("edited words")
    chat.send("\r")
    chat.until(lambda: len(said(mlxctl, "l")) == 4, "the edited question")


def test_typing_while_the_model_loads(mlxctl: Program, tiny: Tiny) -> None:
    """Enter is Enter, and nothing is lost."""
    chat = Terminal(mlxctl, "chat", "--model", tiny("llama"), "-m", "6", "--session", "w")
    chat.see("loading")
    chat.send("hello\r")
    chat.until(lambda: said(mlxctl, "w")[:1] == ["hello"] if kept_path(mlxctl) else False, "the question")
    chat.ready()
    chat.send("\x04")
    assert chat.end() == 0


def kept_path(mlxctl: Program) -> list[Path]:
    return list((Path(mlxctl.env["XDG_DATA_HOME"]) / "mlxctl" / "sessions").glob("[!.]*.json"))


def test_recalled(start: Start) -> None:
    """Who goes on with a conversation sees where it stands."""
    chat = start("--session", "r")
    chat.see("a new session, r")
    chat.enter("What was said")
    chat.send("\x04")
    chat.end()
    again = start("-c")
    again.see("session r: 1 question so far")
    again.see("user: What was said")
    assert "0/2048" not in again.lines[-1]


def test_the_terminal_is_left_as_it_was(mlxctl: Program, tiny: Tiny) -> None:
    """After leaving, and after a stop and a return, keys are shown again."""
    shell = pexpect.spawn("bash", ["--norc", "-i"], env={**mlxctl.env, "TERM": "xterm", "PS1": "$ ",
                          "PROMPT_TOOLKIT_NO_CPR": "1"}, cwd=str(mlxctl.cwd), timeout=60, encoding="utf-8")  # fmt: skip
    shell.sendline(f"stty -a >before; {mlxctl.path} chat --model {tiny('llama')} -m 4; stty -a >after; echo do''ne")
    shell.expect("leaves")
    shell.expect(">>>")
    shell.send("hello\r")
    shell.expect("4 tokens")
    shell.send("\x04")
    shell.expect("done")
    shell.close(force=True)
    assert (mlxctl.cwd / "before").read_text() == (mlxctl.cwd / "after").read_text()


def test_a_terminal_that_goes_away(mlxctl: Program, tiny: Tiny) -> None:
    """Also without a signal the chat ends, rather than read nothing for ever."""
    ours, theirs = pty.openpty()
    chat = subprocess.Popen([mlxctl.path, "chat", "--model", tiny("llama")], stdin=theirs, stdout=theirs, stderr=theirs,
                            env={**mlxctl.env, "TERM": "xterm"}, cwd=mlxctl.cwd, start_new_session=True)  # fmt: skip
    os.close(theirs)
    seen = b""
    while b">>>" not in seen:
        seen += os.read(ours, 65536)
    os.close(ours)
    assert chat.wait(30) in (0, 129, 143)  # it may see the end of stdin first


def test_told_to_end_while_keys_are_read(start: Start) -> None:
    """Wherever the prompt is just then: in the middle of what it does with a key, too."""
    chat = start()
    chat.send("\x1b[200~" + "word " * 40000 + "\x1b[201~")
    chat.read(0.3)
    os.kill(chat.child.pid, signal.SIGTERM)
    assert chat.end() == 128 + signal.SIGTERM


def test_put_aside(mlxctl: Program, tiny: Tiny) -> None:
    """Ctrl-Z gives the shell its terminal back, at the prompt and in an answer; fg goes on there."""
    shell = pexpect.spawn("bash", ["--norc", "-i"], env={**mlxctl.env, "TERM": "xterm", "PS1": "$ ",
                          "PROMPT_TOOLKIT_NO_CPR": "1"}, cwd=str(mlxctl.cwd), timeout=60, encoding="utf-8")  # fmt: skip
    shell.sendline(f"stty -a >before; {mlxctl.path} chat --model {tiny('llama')} -m 1500 --session z")
    shell.expect("leaves")
    shell.expect(">>>")
    shell.send("half")
    shell.expect("half")
    shell.send("\x1a")
    shell.expect("Stopped")
    shell.sendline("stty -a >aside; fg")
    shell.expect(">>> ")
    shell.send(" a word\r")  # what was typed is there still
    shell.expect("a word")
    shell.expect(r"[a-z]{3}\r?\n?.*[a-z]{3}")
    shell.send("\x1a")
    shell.expect("Stopped")
    shell.sendline("stty -a >amid; echo ech''oed")
    shell.expect("echoed")
    shell.sendline("fg")
    shell.expect("chat --model")
    shell.send("typed in secret")  # while it answers
    shell.expect("1500 tokens")
    assert "typed in" not in shell.before.split("chat --model")[-1]
    shell.expect("typed in secret")
    shell.send("\x15\x04")
    shell.expect(r"\$ ")
    shell.close(force=True)
    assert said(mlxctl, "z")[:2] == ["half a word", ""]
    states = {name: (mlxctl.cwd / name).read_text() for name in ("before", "aside", "amid")}
    assert states["aside"] == states["amid"] == states["before"]


def test_markdown(start: Start, mlxctl: Program) -> None:
    """Rendered on a terminal, once; what is kept and exported is the text as it came."""
    chat = start("--markdown", "--session", "m", "-m", "60", model="heading")
    chat.enter("Hello")
    assert "# Let" not in chat.text and chat.text.count("Let me in") == 1
    assert any(chat.style("Let me in"))
    chat.enter("/export out.md")
    assert models.HEADING_REPLY in (mlxctl.cwd / "out.md").read_text()
    chat.enter("/set markdown false")
    chat.enter("Again")
    chat.see("# Let me in")


def test_resized(start: Start, mlxctl: Program) -> None:
    """Another size of the window, at the prompt and in an answer: the prompt is drawn for it, and nothing is lost."""
    chat = start("--session", "z", "-m", "1200")
    chat.send("half a line that is longer than a narrow window is wide")
    chat.see("window is wide")
    for rows, columns in ((30, 100), (8, 30), (24, 80)):
        chat.resize(rows, columns)
        chat.until(
            lambda: "windowiswide" in squeezed(chat.text.replace("... ", "")) and "no c" in chat.lines[-1], "the line"
        )
        assert all(len(line) <= columns for line in chat.lines)
    chat.send("\r")
    chat.until(lambda: len(chat.news) > 400, "some of the answer")
    chat.resize(12, 50)
    chat.see("1200 tokens")
    chat.ready()
    assert said(mlxctl, "z") == ["half a line that is longer than a narrow window is wide", ""]
    chat.enter("/tokens")
    chat.see("in the cache")


def test_a_line_is_edited(start: Start, mlxctl: Program) -> None:
    """The keys that people know from readline; Ctrl-R takes a line from before, Down goes back to what was begun."""
    chat = start("--session", "k", model="mamba")
    for line in ("first line", "second line"):
        chat.enter(line)
    keys = {"worl\x01Hello \x05d": "Hello world", "abc\x1b[D\x1b[DX": "aXbc", "one two\x17three": "one three",
            "one two\x1bbmy \x0b\x19\x19": "one my twotwo", "\x12first\r\x05!": "first line!",
            "begun\x1b[A\x1b[A\x1b[A\x1b[B!": "one my twotwo!", "漢字\x7f🙂é\x02x": "漢🙂xé"}  # fmt: skip
    for pressed, line in keys.items():
        before = len(said(mlxctl, "k"))
        chat.ready()
        chat.send(pressed)
        chat.line(line)
        chat.send("\r")
        chat.until(lambda before=before: len(said(mlxctl, "k")) == before + 2, line)
        assert said(mlxctl, "k")[-2] == line


def test_taken_back_and_removed(start: Start, mlxctl: Program, tiny: Tiny) -> None:
    """/undo takes back what /read brought; /delete removes another session, and no open one."""
    (mlxctl.cwd / "note.txt").write_text("The boat is blue.\n")
    chat = start("--session", "a")
    chat.enter("Hello")
    chat.enter("/read note.txt")
    chat.enter("/undo")
    chat.see("what was read is taken back")
    chat.enter("And you?")
    assert said(mlxctl, "a") == ["Hello", "", "And you?", ""]
    chat.enter("/branch b/c")
    chat.enter("/delete b/c")
    chat.see("it is open")
    chat.enter("/delete a")
    chat.see("session a is removed")
    chat.enter("/delete a")
    chat.see("there is none")
    folder = Path(mlxctl.env["XDG_DATA_HOME"]) / "mlxctl" / "sessions"
    assert {path.name for path in folder.glob("[!.]*")} == {"b%2Fc.json", "b%2Fc.safetensors"}
    other = Terminal(mlxctl, "chat", "--session", "d", "--model", tiny("llama"))
    other.ready()
    other.enter("/delete b/c")
    other.see("open in another chat")
    other.close()
    chat.enter('/set stop "a b\\n"')
    chat.see('generation.stop = ["a b\\n"]')
    chat.enter("/settings")
    chat.see("# set for this chat")


def test_colour_codes_in_a_paste(start: Start, mlxctl: Program) -> None:
    """Where the terminal does not bracket a paste, they are no keys of ours."""
    chat = start("--session", "p")
    chat.send("abc\x1b[31mdef\r")
    chat.until(lambda: len(said(mlxctl, "p")) == 2, "the question")
    assert said(mlxctl, "p")[0] == "abcdef"
    assert "Traceback" not in chat.text


def test_begun_answers(start: Start, mlxctl: Program) -> None:
    """What every answer begins with is shown, and counted once."""
    chat = start("--session", "p", "--prefill-response", "It is", model="spm")
    chat.enter("Which?")
    chat.see("It is")
    (answer,) = [one["content"] for one in kept(mlxctl, "p")["said"] if one["role"] == "assistant"]  # type: ignore[attr-defined]
    assert answer.startswith("It is")
    chat.enter("/template")
    assert chat.news.count("It is") == 1
    used = re.search(r"(\d+)/2048", chat.lines[-1])
    chat.enter("/continue")
    chat.enter("/regen")
    assert used and used[0] in chat.lines[-1]


def test_stopped_before_an_answer(start: Start, mlxctl: Program) -> None:
    """Ctrl-C while a long prompt is read: told how far it is, stopped soon, and the question stands ready again."""
    (mlxctl.cwd / "long.txt").write_text("word " * 200_000)
    chat = start("--session", "s", model="mamba")
    chat.enter("/read long.txt")
    chat.send("What?\r")
    chat.see("reading")
    chat.send("\x03")
    chat.see("stopped before an answer: nothing is changed")
    chat.line("What?")
    assert said(mlxctl, "s") == []
    chat.send("\x15")
    chat.enter("/undo")
    chat.see("what was read is taken back")


def test_a_narrow_terminal(start: Start) -> None:
    """One column is enough not to fail."""
    chat = start()
    chat.resize(50, 1)
    chat.send("/help\r")
    chat.send("/exit\r")
    assert chat.end() == 0


def test_nothing_is_kept_until_it_is_named(start: Start, mlxctl: Program) -> None:
    """--no-save: /branch and /load are refused; /save begins to keep, and /clear does not write over what it kept."""
    chat = start("--no-save")
    chat.enter("secret")
    chat.enter("/branch")
    chat.see("nothing is kept here")
    chat.enter("/load x")
    chat.see("nothing is kept here")
    assert kept_path(mlxctl) == []
    chat.enter("/save foo")
    chat.see("this chat is kept from now on, as foo")
    chat.enter("/clear")
    chat.enter("other talk")
    assert said(mlxctl, "foo") == ["secret", ""]
    assert len(kept_path(mlxctl)) == 2
