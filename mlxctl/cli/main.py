"""The command group, and the one place where errors become exit statuses."""

import os
import sys

import click

from mlxctl import __version__
from mlxctl.cli.app import App
from mlxctl.cli.lazy import LazyGroup
from mlxctl.cli.signals import Interrupted, exit_status
from mlxctl.errors import ExitStatus, MlxctlError, ProfileError, ReaderGone, ResourceError, first_line

# A command is the module of that name in this package; its line of help stands here, so that the list of commands
# can be shown without importing any.
COMMANDS = {
    "run": "Answer one prompt, streamed",
    "generate": "Do what mlx_lm.generate does, flag for flag",
    "chat": "Talk with a model",
    "cache": "Prompts that are processed once and used many times",
    "stats": "What past runs measured: tables, receipts, comparisons, charts",
    "bench": "Measure a model over prompt length, generation length and depth",
    "inspect-template": "What the model is handed, and what is wrong with it",
    "doctor": "What may be wrong with this machine and what is set up on it",
    "profile": "Named settings: list, show, write and check them",
    "completion": "Print the script that completes command lines in bash, zsh or fish",
}


@click.group(
    cls=LazyGroup, package="mlxctl.cli", lines=COMMANDS, context_settings={"help_option_names": ["-h", "--help"]}
)
@click.version_option(__version__, prog_name="mlxctl", message="%(prog)s %(version)s")
def group() -> None:
    """Run language models with MLX.

    The answer goes to stdout, everything else to stderr.
    """


def main() -> None:
    """Run the command line and leave with its exit status."""
    app = App.open()
    status = _run(app, sys.argv[1:])
    # Nothing waits in a buffer, a thread of the library may still be computing, and once transformers is imported
    # Python's own goodbye takes half a second.
    os._exit(status)


def _run(app: App, args: list[str]) -> int:
    try:
        status = group.main(args, prog_name="mlxctl", standalone_mode=False, obj=app)
        return int(status or 0)
    except click.exceptions.NoArgsIsHelpError as error:
        app.stderr.write(error.format_message() + "\n")
        return ExitStatus.USAGE
    except click.UsageError as error:
        return _usage(app, error)
    except MlxctlError as error:
        return _fault(app, error)
    except MemoryError:
        return _fault(app, ResourceError("out of memory"))
    except Interrupted as error:
        app.say(f"interrupted by {error.name}")
        return exit_status(error.name)
    except (KeyboardInterrupt, click.Abort):
        app.say("interrupted")
        return ExitStatus.INTERRUPTED
    except Exception as error:  # the one place where a fault of ours is caught
        return _ours(app, error)


def _usage(app: App, error: click.UsageError) -> int:
    path = error.ctx.command_path if error.ctx else "mlxctl"
    message = error.format_message()
    app.stderr.write(f"{path}: {message[:1].lower()}{message[1:].rstrip('.')}\nTry: {path} --help\n")
    return ExitStatus.USAGE


def _fault(app: App, error: MlxctlError) -> int:
    _trace(app, error)
    if isinstance(error, ReaderGone):
        return error.exit_status
    # Every line about a profile begins with its place, and nothing stands before it.
    (app.print_err if isinstance(error, ProfileError) else app.say)(error.message)
    if error.hint:
        app.print_err(f"  {error.hint}")
    return error.exit_status


def _ours(app: App, error: Exception) -> int:
    _trace(app, error)
    app.say(f"a fault of mlxctl itself: {type(error).__name__}: {first_line(error)}\n  MLXCTL_DEBUG=1 shows where")
    return ExitStatus.FAULT


def _trace(app: App, error: Exception) -> None:
    """The traceback, for those who ask for it."""
    if app.environ.get("MLXCTL_DEBUG", "0") not in ("", "0"):
        import traceback

        traceback.print_exception(error, file=app.stderr)
