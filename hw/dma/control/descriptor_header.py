"""Descriptors and records for C and C++, from the fields in `cdma.hw.dma.control.descriptor`."""

from enum import IntEnum, IntFlag

from cdma.hw.codec.registry import compressing_codecs
from cdma.hw.dma.control.descriptor import (
    DESCRIPTOR_FIELDS,
    RECORD_FIELDS,
    Flag,
    Opcode,
    Status,
    TimeoutDetail,
    WindowDetail,
)
from cdma.hw.dma.limits import ENTRY_BYTES


def descriptor_header_name(engine_name: str) -> str:
    """The file in which `descriptor_header` is expected beside an engine's other files."""
    return f"{engine_name}_descriptors.h"


def _enumerations() -> list[tuple[str, list[tuple[str, int]]]]:
    """Names of the enumerations, each with the names and numbers of its members."""
    kinds: tuple[type[IntEnum] | type[IntFlag], ...] = (
        *(Opcode, Flag, Status),
        *(TimeoutDetail, WindowDetail),
    )
    found = [(kind.__name__, [(one.name or "", one.value) for one in kind]) for kind in kinds]
    codecs = [(entry.identifier.upper(), entry.number or 0) for entry in compressing_codecs()]
    return [found[0], ("Codec", codecs), *found[1:]]


def descriptor_header() -> str:
    """Structs of 64 B with the fields' names, and the numbers of the enumerations.

    They are the same for every engine, whatever its shape and name. So the guard is the same too,
    and a driver of two engines may include the headers of both.
    """
    lines = [
        "// Descriptors and completion records of the compressing DMA engine. Little-endian.",
        "#ifndef CDMA_ENGINE_DESCRIPTORS_H",
        "#define CDMA_ENGINE_DESCRIPTORS_H",
        "",
        "#include <stdint.h>",
    ]
    for kind, numbers in _enumerations():
        name = f"cdma_{_snake(kind)}"
        lines += ["", f"enum {name} {{"]
        members = [f"    {name.upper()}_{member} = {number}" for member, number in numbers]
        lines += [*(f"{member}," for member in members[:-1]), members[-1], "};"]
    for name, fields in (
        ("cdma_descriptor", DESCRIPTOR_FIELDS),
        ("cdma_record", RECORD_FIELDS),
    ):
        lines += ["", f"struct {name} {{", *(_member(*field) for field in fields), "};"]
        # An array of negative size where the compiler lays it out in another way.
        lines.append(f"typedef char {name}_size[sizeof(struct {name}) == {ENTRY_BYTES} ? 1 : -1];")
    return "\n".join([*lines, "", "#endif", ""])


def _member(name: str, size: int) -> str:
    return f"    uint{8 * size}_t {name};" if size <= 8 else f"    uint8_t {name}[{size}];"


def _snake(name: str) -> str:
    return "".join(f"_{c.lower()}" if c.isupper() else c for c in name).lstrip("_")
