"""Running what a model's author wrote, a template, in a process that may take only so much.

Jinja's sandbox keeps a template from the machine, but not from looping for ever, or from making a text of a hundred
gigabytes: that ends with a child process.
"""

import gc
import os
import resource
import select
import signal
import sys
import time
import warnings
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import asdict
from typing import Any

import msgspec

from mlxctl.engine.prompt.render import Rendered, render
from mlxctl.errors import ExitStatus, MlxctlError, ModelError, ResourceError, TemplateError, UsageError, first_line
from mlxctl.events import Message
from mlxctl.settings import Settings

_PATIENCE_S = 5.0  # templates take milliseconds
_MORE_MEMORY = 1_000_000_000  # bytes that a template may take beyond what the process has
_S, _BYTES = 1e-5, 400  # more of both for each character of a prompt, which is encoded there, too
_KINDS: dict[int, type[MlxctlError]] = {kind.exit_status: kind for kind in (UsageError, ModelError, TemplateError)}


class TooMuch(TemplateError):
    """It takes more time or memory than anybody's template needs."""


class Confined:
    """A child process that computes something of what this process knows, from the moment that this is made.

    work: returns plain data. what: whose template it is, for messages. given: characters of the prompt that the work is
    about. The child is a fork, so that nothing need be loaded again; it computes nothing but text.
    """

    def __init__(self, work: Callable[[], Any], what: str, given: int = 0) -> None:
        self._what = what
        self._seconds = _PATIENCE_S + _S * given
        self._ends = time.monotonic() + self._seconds
        self._gone = False  # whether the child was waited for: its number may be another's then
        self._reader, writer = os.pipe()
        before = os.environ.get("TOKENIZERS_PARALLELISM")
        os.environ["TOKENIZERS_PARALLELISM"] = "false"  # its threads do not come along
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", DeprecationWarning)  # there are threads, none of which is needed there
                self._child = os.fork()
        except OSError as error:
            os.close(self._reader)
            os.close(writer)
            raise ResourceError(f"no process can be begun to look at the chat template: {error.strerror}") from error
        finally:
            if before is None:
                del os.environ["TOKENIZERS_PARALLELISM"]
            else:
                os.environ["TOKENIZERS_PARALLELISM"] = before
        if self._child == 0:
            _compute(work, what, writer, self._seconds, _MORE_MEMORY + _BYTES * given)
        os.close(writer)

    def result(self, kind: type[Any]) -> Any:
        """What came of it, as data of a kind that msgspec knows. Raises what the work raised, and TemplateError where
        it took too much."""
        data = bytearray()
        try:
            while select.select([self._reader], [], [], max(self._ends - time.monotonic(), 0))[0]:
                piece = os.read(self._reader, 1 << 20)
                if not piece:
                    return self._read(bytes(data), kind)
                data += piece
        finally:
            self.close()
        raise self._endless()

    def _endless(self) -> "TooMuch":
        return TooMuch(f"the chat template of {self._what} does not come to an end within {self._seconds:.0f} s")

    def _died(self) -> TemplateError:
        """Why a child ended without a word."""
        _, status = os.waitpid(self._child, 0)
        self._gone = True
        number = os.WTERMSIG(status) if os.WIFSIGNALED(status) else 0
        if number in (signal.SIGXCPU, signal.SIGKILL):  # the limit of its time, which may have come before we looked
            return self._endless()
        if number in (0, signal.SIGABRT):  # it could not even tell
            return TooMuch(f"the chat template of {self._what} takes too much memory")
        name = signal.Signals(number).name
        return TemplateError(f"the chat template of {self._what} could not be looked at: its process ended by {name}")

    def close(self) -> None:
        """End the child, whatever it does."""
        if self._reader < 0:
            return
        os.close(self._reader)
        self._reader = -1
        if self._gone:
            return
        with suppress(ProcessLookupError):
            os.kill(self._child, signal.SIGKILL)
        with suppress(ChildProcessError):
            os.waitpid(self._child, 0)

    def _read(self, data: bytes, kind: type[Any]) -> Any:
        if not data:
            raise self._died()
        answer = msgspec.json.decode(data, type=_Answer)
        if answer.fault is None:
            return msgspec.json.decode(answer.result, type=kind)
        status, message, hint = answer.fault
        if status == ExitStatus.RESOURCES:
            raise TooMuch(f"the chat template of {self._what} takes too much memory")
        raise _KINDS.get(status, MlxctlError)(message, hint=hint)


class _Answer(msgspec.Struct):
    result: msgspec.Raw = msgspec.Raw(b"null")
    fault: tuple[int, str, str | None] | None = None


def confined(work: Callable[[], Any], what: str, kind: type[Any], given: int = 0) -> Any:
    """What `work` returns, computed in a child process under limits. See `Confined`."""
    return Confined(work, what, given).result(kind)


def render_confined(
    tokenizer: Any, messages: Sequence[Message], settings: Settings, *, suffix: bool = False
) -> Rendered:
    """What `render` returns, made in a child process: for commands that load no weights, and show what a model would be
    handed."""
    given = sum(len(str(message)) for message in messages)
    rendered: Rendered = confined(
        lambda: asdict(render(tokenizer, messages, settings, suffix=suffix)), settings.model_id, Rendered, given
    )
    return rendered


def _compute(work: Callable[[], Any], what: str, writer: int, seconds: float, memory: int) -> None:
    """The child's life. Whatever happens in it, it does not go on as a second parent."""
    try:
        gc.disable()  # it would touch, and so copy, every page that the two share
        nothing = os.open(os.devnull, os.O_RDWR)
        for stream in (0, 1, 2):  # whoever reads ours does not wait for this process
            os.dup2(nothing, stream)
        signal.set_wakeup_fd(-1)
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, signal.SIG_DFL)
        _limit(int(seconds) + 1, memory)
        data = _outcome(work, what)
        while data:
            data = data[os.write(writer, data) :]
    finally:
        os._exit(0)


def _outcome(work: Callable[[], Any], what: str) -> bytes:
    """What came of the work, or the fault that ended it, as the parent reads it."""
    try:
        return msgspec.json.encode(_Answer(msgspec.Raw(msgspec.json.encode(work()))))
    except MlxctlError as error:
        return _fault(error.exit_status, error.message, error.hint)
    except MemoryError:
        return _fault(ResourceError.exit_status, "", None)
    except BaseException as error:
        # What is computed here is the template's and the tokenizer's, and so is what is wrong with it.
        why = f"{type(error).__name__}: {first_line(ValueError(str(error)))}"
        return _fault(TemplateError.exit_status, f"the chat template of {what} cannot be looked at: {why}", None)


def _fault(status: int, message: str, hint: str | None) -> bytes:
    """A template may put half a character into its complaint."""
    whole = message.encode("utf-8", "replace").decode()
    return msgspec.json.encode(_Answer(fault=(int(status), whole, hint)))


def _limit(seconds: int, memory: int) -> None:
    """Let this process take so much time, and so many bytes more."""
    with suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    if sys.platform == "linux":  # elsewhere the limit is not kept, and time alone bounds it
        with suppress(ValueError, OSError), open("/proc/self/statm", encoding="ascii") as file:  # noqa: PTH123 read once
            now = int(file.read().split()[0]) * resource.getpagesize()
            resource.setrlimit(resource.RLIMIT_AS, (now + memory, now + memory))
