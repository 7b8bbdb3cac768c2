"""A block's registers in IP-XACT."""

from xml.etree.ElementTree import Element

from cdma.hw.emit.ip.xml import named, node
from cdma.hw.registers.file import DATA_BITS
from cdma.hw.registers.map import (
    PAGE_BYTES,
    Field,
    Kind,
    Register,
    RegisterSource,
    pages,
    register_map,
)

_ACCESS = {
    Kind.STORED: "read-write",
    Kind.PULSE: "write-only",
    Kind.EVENT: "read-write",
    Kind.LOCK: "read-write",
}
"""Kinds that software can write; the others are read-only."""

_STABLE = (Kind.CONSTANT, Kind.STORED, Kind.LOCK)
"""Kinds that only software changes, unless a signal clears them."""


def add_memory_map(component: Element, name: str, source: RegisterSource) -> None:
    """Append the memory map of the block's registers to its component, under a name.

    Each page is an address block; that of the map itself is called `registers`.
    """
    memory_map = named(node(component, "memoryMaps"), "memoryMap", name)
    for page in pages(source):
        own = [r for r in register_map(source).values() if r.page == page]
        base = own[0].offset // PAGE_BYTES * PAGE_BYTES
        block = named(memory_map, "addressBlock", page.lower() or "registers")
        node(block, "baseAddress", f"'h{base:x}")
        node(block, "range", f"'h{PAGE_BYTES:x}")
        node(block, "width", DATA_BITS)
        node(block, "usage", "register")
        for register in own:
            _add_register(block, register, base)
    node(memory_map, "addressUnitBits", 8)


def _add_register(block: Element, register: Register, base: int) -> None:
    added = named(block, "register", register.name, register.title, register.description)
    node(added, "addressOffset", f"'h{register.offset - base:x}")
    node(added, "size", DATA_BITS)
    for field in register.fields.values():
        _add_field(added, field)


def _add_field(register: Element, field: Field) -> None:
    added = named(register, "field", field.name, field.title, field.description)
    node(added, "bitOffset", field.low)
    if field.kind is not Kind.LIVE:
        node(node(node(added, "resets"), "reset"), "value", f"'h{field.reset:x}")
    node(added, "bitWidth", field.width)
    changes = field.kind not in _STABLE or field.clear is not None
    node(added, "volatile", str(changes).lower())
    node(added, "access", _ACCESS.get(field.kind, "read-only"))
    if field.meanings:
        values = node(added, "enumeratedValues")
        for meaning in field.meanings:
            value = named(values, "enumeratedValue", meaning.name, "", meaning.description)
            node(value, "value", f"'h{meaning.value:x}")
    if field.kind is Kind.EVENT:
        node(added, "modifiedWriteValue", "oneToClear")
    if field.kind is Kind.LOCK:
        node(added, "modifiedWriteValue", "oneToSet")
