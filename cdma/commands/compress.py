"""`cdma compress`: an .npy file to a .cz file."""

import shutil
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Annotated, Any

import numpy as np
import typer

from cdma import golden
from cdma.commands.bound_options import Bound, PowerOfTwo, tell_rounding
from cdma.commands.completers import among, named
from cdma.errors import UserError
from cdma.files import npy_pieces, open_input, read_npy_layout, shown_input
from cdma.golden import container
from cdma.golden.formats.lossy.power_of_two import rounded_down
from cdma.golden.formats.lossy.quantize import Quantize
from cdma.golden.formats.xc import elements as xc_elements
from cdma.golden.formats.xc.xc import Xc
from cdma.outputs import Force, open_atomically, require_outputs, shown_output

_ELEMENT_FORMATS = [known.name for known in xc_elements.ELEMENT_FORMATS]


def compress(
    source: Annotated[
        Path,
        typer.Argument(
            metavar="IN.npy", help="The array; - is the standard input.", show_default=False
        ),
    ],
    destination: Annotated[
        Path,
        typer.Argument(
            metavar="OUT.cz",
            help="The file to write; - is the standard output.",
            show_default=False,
        ),
    ],
    codec: Annotated[
        str,
        typer.Option(
            metavar="NAME",
            help=f"One of {', '.join(golden.codec_names())}.",
            autocompletion=named("codecs"),
        ),
    ] = golden.codec_names()[0],
    element_bytes: Annotated[
        int | None,
        typer.Option(
            metavar="4|2|1",
            autocompletion=among(4, 2, 1),
            help="Bytes that are zero or not as one; from the array's type when not given.",
            show_default=False,
        ),
    ] = None,
    rate: Annotated[
        int | None,
        typer.Option(metavar="BITS", help="zfp: bits per 4 values, 9 to 128.", show_default=False),
    ] = None,
    bound: Bound = None,
    power_of_two: PowerOfTwo = False,
    element_format: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help=f"xc: what elements are, {', '.join(_ELEMENT_FORMATS)}; "
            "from the array's type when not given, where uint16 is bf16 and uint8 e4m3.",
            autocompletion=named("element-formats"),
            show_default=False,
        ),
    ] = None,
    force: Force = False,
) -> None:
    """Compress the array in an .npy file with a golden model.

    The codecs zfp and quantize are lossy: the file holds another array of float32, close to this.
    xc takes the parameters that are best for the array; they are in the file. An array is
    compressed piece by piece: memory does not grow with it.
    """
    asked, not_finite = bound, list[int]()
    if power_of_two and bound is not None:
        bound = rounded_down(bound)
    options = {"rate": rate, "bound": bound}
    parameters = {name: value for name, value in options.items() if value is not None}
    # Before the file is read, which may take long.
    require_outputs([destination], inputs=[source], force=force)
    golden.codec(codec, 4 if element_bytes is None else element_bytes, **parameters)
    _check_options(codec, element_bytes, element_format, power_of_two)
    with open_input(source) as given, _seekable(given, twice=codec == Xc.name) as file:
        layout = read_npy_layout(file, source)
        try:
            container.check_array(layout.dtype, len(layout.shape))
        except TypeError as error:
            name = shown_input(source)
            raise UserError(f"{name} does not fit: {error}; reshape it or save a view") from error
        size = element_bytes or golden.element_bytes_of(layout.dtype)
        if codec == Xc.name:
            chosen: golden.Codec = _fitted(file, source, layout, element_format)
            size = chosen.element_bytes
            parameters = {name: getattr(chosen, name) for name in golden.codec_parameters(codec)}
        else:
            chosen = golden.codec(codec, size, **parameters)
        with open_atomically(destination, force=force) as packed:
            pieces = npy_pieces(file, source, layout)
            if codec == Quantize.name:
                pieces = _counted(pieces, layout.dtype, not_finite)
            file_bytes = container.write_file(packed, layout, pieces, chosen)
    ratio = f", {layout.nbytes / file_bytes:.2f}x" if layout.nbytes else ""
    typer.echo(
        f"{shown_output(destination)}: {layout.nbytes:,} bytes in {file_bytes:,}{ratio} "
        f"({how(codec, parameters, size)})",
        err=True,
    )
    tell_rounding(asked, bound)
    if sum(not_finite):
        typer.echo(f"values that are NaN or infinite, kept exactly: {sum(not_finite):,}", err=True)


def _counted(
    pieces: Iterator[bytes], dtype: np.dtype[Any], not_finite: list[int]
) -> Iterator[bytes]:
    """Hand on an array's pieces, and append how many values of each are NaN or infinite."""
    for piece in pieces:
        not_finite.append(int(np.count_nonzero(~np.isfinite(np.frombuffer(piece, dtype)))))
        yield piece


@contextmanager
def _seekable(file: IO[bytes], *, twice: bool) -> Iterator[IO[bytes]]:
    """A file that can be read twice, if it must be: a copy on the disk of a pipe."""
    if file.seekable() or not twice:
        yield file
        return
    with tempfile.TemporaryFile() as copy:
        shutil.copyfileobj(file, copy, container.PIECE_BYTES)
        copy.seek(0)
        yield copy


def _fitted(
    file: IO[bytes], source: Path, layout: container.Layout, element_format: str | None
) -> Xc:
    """XC with the parameters that are best for the array; the file is then where it was."""
    elements = xc_elements.element_format_for(layout.dtype, element_format)
    codec = Xc(elements.element_bytes, exponent_bits=elements.exponent_bits)
    begins = file.tell()
    histogram = codec.histogram(np.empty(0, np.uint8))
    for piece in npy_pieces(file, source, layout):
        histogram += codec.histogram(np.frombuffer(piece, np.uint8))
    file.seek(begins)
    return codec.fitted_to(histogram)


def _check_options(
    codec: str, element_bytes: int | None, element_format: str | None, power_of_two: bool
) -> None:
    """Refuse options of another codec."""
    if codec == Xc.name and element_bytes is not None:
        raise UserError("xc takes its elements from --element-format; leave --element-bytes out")
    if codec != Xc.name and element_format is not None:
        raise UserError(f"{codec} has no element format; leave --element-format out, or choose xc")
    if codec != Quantize.name and power_of_two:
        raise UserError(f"{codec} has no bound; leave --power-of-two out, or choose quantize")
    if element_format is not None:
        xc_elements.element_format(element_format)


def how(codec: str, parameters: Mapping[str, float], element_bytes: int) -> str:
    """Describe a codec in words: its name, its parameters, and its elements."""
    described = "".join(f", {name} {value:g}" for name, value in parameters.items())
    return f"{codec}{described}, elements of {element_bytes} B"
