"""`python -m mlxctl`, and the console script."""

import sys


def main() -> None:
    """Run the command line; Ctrl-C in the first tenth of a second is no traceback either."""
    try:
        from mlxctl.cli.main import main as run

        run()
    except KeyboardInterrupt:
        sys.exit(130)


if __name__ == "__main__":
    main()
