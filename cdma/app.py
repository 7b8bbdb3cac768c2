"""The commands. Each is a function in a module named for what it does.

A command's module is imported when the command is used, not for `cdma --help` or a completion: some
take a second.
"""

import sys
from collections.abc import Sequence
from importlib import import_module
from typing import Annotated, Any, cast

import typer
from typer.core import TyperCommand, TyperGroup

from cdma.terminal import command_line, progress

COMMANDS = {
    "board": "Build a bitstream with which a board compresses, decompresses and compares without "
    "end.",
    "capture": "Train a network and keep activations of a minibatch; needs PyTorch (pip install "
    "torch).",
    "compress": "Compress the array in an .npy file with a golden model.",
    "config": "List, show and check configurations: engines, machines, devices, links, networks.",
    "decompress": "Restore the array in a .cz file: type, shape, memory order and every bit that "
    "it holds.",
    "energy": "Energy per byte of tensor, from the activity of the mapped netlist.",
    "estimate": "Tell how long a network's tensors take to the host and back, and what limits "
    "them.",
    "generate": "Write a block as Verilog, with a JSON file that describes its ports.",
    "inspect": "Tell what a .cz file holds, and check that it is whole; the stream is not decoded.",
    "report": "Make a page of results: tables, pictures, timelines, configuration and versions.",
    "reproduce": "Compute every row of the papers' claims; exit status 1 if any does not hold.",
    "schedule": "Plan a network's training step by every policy, and run each plan on one "
    "timeline.",
    "swap": "Swap arrays out through the simulated RTL and back, and compare every bit.",
    "sweep": "Run a command for all combinations of its options' values, as a table.",
    "synth": "Map components to gates or to an FPGA: what they take, their depth and their clock.",
    "train": "Plan a PyTorch module's step within a memory, carry it out, and compare every bit.",
    "value": "Tell what the engine gains over the best plans without it, and behind which links.",
    "buddy": "Compressed memory with an overflow in buddy memory.",
}
"""Each command with the first paragraph of its docstring, as `cdma --help` shows it."""

# Typer publishes no name for the base of its usage errors (click's, or its own copy of click's).
UsageError = cast(type[typer.BadParameter], typer.BadParameter.__base__)
Abort = typer.Abort

app = typer.Typer(
    name="cdma",
    help="Generator of RTL for a compressing DMA engine, with golden models and simulator.",
    add_completion=False,
    pretty_exceptions_enable=False,
    # Plain help: the other is made by Rich, which takes two thirds of the time of `cdma --help`.
    rich_markup_mode=None,
)


def _print_version(wanted: bool) -> None:
    if wanted:
        from importlib.metadata import version

        typer.echo(f"cdma {version('cdma-rtl')}")
        raise typer.Exit


@app.callback()
def _common_options(
    show_version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_print_version, is_eager=True, help="Print the version and exit."
        ),
    ] = False,
) -> None:
    pass


class LazyCommand(TyperCommand):
    """A command of which only name and help are known until it is used."""

    def load(self) -> TyperCommand | TyperGroup:
        """Import the command's module and return the command."""
        found = getattr(import_module(f"cdma.commands.{self.name}"), str(self.name))
        if not isinstance(found, typer.Typer):
            alone = typer.Typer(add_completion=False)
            alone.command(self.name)(found)
            found = alone
        command = typer.main.get_command(found)
        command.name = self.name
        return cast(TyperCommand | TyperGroup, command)

    def get_short_help_str(self, limit: int = 0) -> str:
        # All of it, in as many lines as that takes.
        return super().get_short_help_str(10_000)

    def get_params(self, ctx: Any) -> list[Any]:
        return self.load().get_params(ctx)

    def make_context(self, *arguments: Any, **options: Any) -> Any:
        # The context's command is the loaded one, which the caller then invokes or completes.
        return self.load().make_context(*arguments, **options)


def root() -> TyperGroup:
    """`cdma` with all its commands."""
    group = cast(TyperGroup, typer.main.get_command(app))
    for name, text in COMMANDS.items():
        group.add_command(LazyCommand(name, help=text))
    return group


def run(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit status; raises what the command raises."""
    given = sys.argv[1:] if arguments is None else list(arguments)
    with progress.shown(), command_line.given(given):
        status = root().main(
            args=given,
            prog_name="cdma",
            standalone_mode=False,
        )
    return status if isinstance(status, int) else 0
