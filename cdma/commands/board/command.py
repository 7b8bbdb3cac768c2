"""`cdma board`: a bitstream with which a board tests the codec by itself."""

from pathlib import Path
from typing import Annotated

import typer

from cdma.commands.board.report import json_of, print_report
from cdma.commands.completers import named
from cdma.commands.config_options import ENGINE_NAMES, METAVAR, paths_of
from cdma.commands.json_option import AsJson, print_json
from cdma.config import ENGINE, find
from cdma.hw.selftest.config import SelfTestConfig
from cdma.outputs import Force, claim_folder
from cdma.schemas import document
from cdma.synth.board.boards import board_names, find_board
from cdma.synth.components import CODEC_PRESET
from cdma.synth.fpga.bitstream import build_bitstream
from cdma.terminal.console import terminal


def board(
    name: Annotated[
        str,
        typer.Argument(
            metavar="BOARD",
            help=f"Of {', '.join(board_names())}.",
            show_default=False,
            autocompletion=named("boards"),
        ),
    ],
    config: Annotated[
        str,
        typer.Option(
            metavar=METAVAR,
            help=f"Whose codec is tested: {ENGINE_NAMES}.",
            autocompletion=named("presets"),
        ),
    ] = CODEC_PRESET,
    out: Annotated[
        Path, typer.Option(metavar="DIR", help="Where the bitstream and the tools' logs go.")
    ] = Path("build/board"),
    force: Force = False,
    as_json: AsJson = False,
) -> None:
    """Build a bitstream with which a board compresses, decompresses and compares without end.

    Takes minutes. It tells of each round over a serial port, 115200 baud.
    """
    chosen = find_board(name)
    found = find(ENGINE, config)
    tested = SelfTestConfig(codec=found.value.codec, clock_hz=chosen.clock_hz)
    folder = out / chosen.name
    claim_folder(folder, inputs=paths_of(found), force=force)
    typer.echo("Yosys, nextpnr and ecppack are at work; this takes minutes", err=True)
    built = build_bitstream(chosen, tested, folder)
    if as_json:
        print_json(document("board", json_of(chosen, found, tested, built)))
    else:
        print_report(terminal(), chosen, config, tested, built)
