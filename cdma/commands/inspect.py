"""`cdma inspect`: the contents of a .cz file."""

from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from cdma import golden
from cdma.commands.compress import how
from cdma.commands.decompress import damaged
from cdma.commands.json_option import AsJson, print_json
from cdma.files import open_input
from cdma.golden import container
from cdma.schemas import document


def inspect(
    source: Annotated[
        Path,
        typer.Argument(
            metavar="IN.cz",
            help="The compressed array; - is the standard input.",
            show_default=False,
        ),
    ],
    as_json: AsJson = False,
) -> None:
    """Tell what a .cz file holds, and check that it is whole; the stream is not decoded."""
    try:
        with open_input(source) as file:
            header = container.read_header(file)
            file_bytes = container.check_file(file, header)
    except (container.ContainerError, golden.StreamError) as error:
        raise damaged(source, error) from error
    facts = describe(header, file_bytes)
    if as_json:
        print_json(document("inspect", {"file": str(source), **facts}))
        return
    table = Table(title=Text(str(source)), show_header=False, title_justify="left")
    table.add_column(style="bold")
    table.add_column(overflow="fold")
    table.add_row("codec", how(header.codec, header.parameters, header.element_bytes))
    table.add_row("array", f"{header.dtype} {header.shape}, order {facts['order']}")
    table.add_row("bytes", f"{facts['bytes']:,}")
    table.add_row("stream", f"{facts['compressed_bytes']:,} bytes")
    table.add_row("file", f"{facts['file_bytes']:,} bytes")
    table.add_row("ratio", "–" if facts["ratio"] is None else f"{facts['ratio']:.3f}x")
    table.add_row("CRC-32", f"{header.crc32:08x}")
    Console().print(table)


def describe(header: container.Header, file_bytes: int) -> dict[str, Any]:
    """The JSON form of a header.

    Keys: codec, element_bytes, parameters (an object: rate, bound; empty for lossless codecs),
    dtype (as in .npy files), shape, order, bytes, compressed_bytes (the stream alone), file_bytes,
    ratio (bytes / compressed_bytes; null for an empty array) and crc32 (of the bytes in memory
    order of the array that the file holds, a number).
    """
    ratio = header.nbytes / header.stream_bytes if header.stream_bytes else None
    return {
        "codec": header.codec,
        "element_bytes": header.element_bytes,
        "parameters": dict(header.parameters),
        "dtype": header.dtype.str,
        "shape": list(header.shape),
        "order": header.order,
        "bytes": header.nbytes,
        "compressed_bytes": header.stream_bytes,
        "file_bytes": file_bytes,
        "ratio": ratio,
        "crc32": header.crc32,
    }
