"""`mlxctl completion`: the scripts that let a shell complete our command lines."""

import click

from mlxctl import paths
from mlxctl.cli.app import App

_FILES = {"bash": "mlxctl.bash", "zsh": "_mlxctl", "fish": "mlxctl.fish"}


@click.command()
@click.argument("shell", type=click.Choice(list(_FILES)))
@click.pass_obj
def command(app: App, shell: str) -> None:
    """Print the script that completes mlxctl's commands, flags and values at TAB.

    \b
    bash: add to ~/.bashrc
        eval "$(mlxctl completion bash)"
    zsh: add to ~/.zshrc, after compinit (or write it to a folder of $fpath as _mlxctl)
        source <(mlxctl completion zsh)
    fish: write it where fish looks
        mlxctl completion fish >~/.config/fish/completions/mlxctl.fish
    """
    app.stdout.write((paths.shipped_dir("completions") / _FILES[shell]).read_text(encoding="utf-8"))
