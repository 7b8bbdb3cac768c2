"""`cdma completion`: what a shell must read to complete commands, options and names."""

from typing import Annotated

import typer

from cdma.app import COMPLETE
from cdma.commands.completers import among
from cdma.errors import UserError

SHELLS = ("bash", "zsh", "fish")


def completion(
    shell: Annotated[
        str,
        typer.Argument(
            metavar="|".join(SHELLS),
            help="Whose script is printed.",
            show_default=False,
            autocompletion=among(*SHELLS),
        ),
    ],
) -> None:
    """Print the script with which a shell completes commands, options and names.

    bash: cdma completion bash > ~/.local/share/bash-completion/completions/cdma

    zsh: cdma completion zsh > DIR/_cdma, in a folder of $fpath

    fish: cdma completion fish > ~/.config/fish/completions/cdma.fish
    """
    if shell not in SHELLS:
        raise UserError(f"there is no completion for {shell!r}; choose {', '.join(SHELLS)}")
    from typer.completion import get_completion_script

    typer.echo(get_completion_script(prog_name="cdma", complete_var=COMPLETE, shell=shell))
