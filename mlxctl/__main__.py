"""`python -m mlxctl`."""

from mlxctl.cli.main import main

if __name__ == "__main__":
    main()
