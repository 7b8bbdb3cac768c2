"""Generated documents of the registers: HTML, a C header, a table in Markdown."""

import re
import tempfile
import zlib
from pathlib import Path

from peakrdl_cheader.c_standards import CStandard
from peakrdl_cheader.exporter import CHeaderExporter
from peakrdl_html import HTMLExporter

from cdma.hw.registers.map import (
    COMMON,
    Field,
    Kind,
    Register,
    RegisterSource,
    elaborated,
    in_page,
    pages,
    register_map,
)

_ROOT = Path(__file__).parents[2]


def write_html(folder: Path, source: RegisterSource) -> Path:
    """Write the registers' pages, to be read in a browser without a network.

    Parameters
    ----------
    folder
        Made if it does not exist.
    source

    Returns
    -------
    Path
        The page to begin with.

    Raises
    ------
    OSError
        If the folder cannot be written.
    """
    texts = [path.read_bytes() for path in sorted(source.path.parent.glob("*.rdl"))]
    sources = b"".join([*texts, COMMON.read_bytes(), repr(source.parameters).encode()])
    exporter = HTMLExporter(
        generate_source_links=False,
        # Browsers keep pages until this number changes; by default it is the time of day.
        user_context={"build_ts": zlib.crc32(sources)},
    )
    folder.mkdir(parents=True, exist_ok=True)
    exporter.export(elaborated(source), str(folder))
    index = folder / "index.html"
    # Formulas would come from another host, and there are none.
    text, count = re.subn(
        r"\s*<script [^>]*mathjax[^>]*>.*?</script>", "", index.read_text("utf-8"), flags=re.S
    )
    assert count == 2, "peakrdl-html's page looks other than expected"
    index.write_text(text, "utf-8")
    return index


def header_name(source: RegisterSource) -> str:
    """The file in which `c_header` is expected."""
    return f"{source.name}_registers.h"


def c_header(source: RegisterSource) -> str:
    """The registers for C and C++: a struct, masks, offsets and enumerations.

    Its names are those of the map, for example `CDMA_ENGINE__CONTROL_offset`,
    `CDMA_ENGINE__CONTROL__ENABLE_bm`, `_bp` (position), `_bw` (width) and `_reset`.
    """
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / header_name(source)
        CHeaderExporter().export(
            elaborated(source), str(path), std=CStandard.gnu11, reuse_typedefs=False
        )
        text = path.read_text("utf-8")
    # Every member is aligned by nature. Packed, compilers may access it byte by byte.
    text, count = re.subn(r"struct __attribute__ \(\(__packed__\)\)", "struct", text)
    assert count, "peakrdl-cheader's structs look other than expected"
    own = [*_c_offsets(source), *_c_enumerations(source)]
    head, footer, tail = text.rpartition("#ifdef __cplusplus\n}")
    return head.rstrip() + "\n\n" + "\n".join(own) + "\n\n" + footer + tail.rstrip() + "\n"


def _c_name(source: RegisterSource, register: Register) -> str:
    """As peakrdl-cheader has it: pages and pairs are levels of the hierarchy."""
    half = re.fullmatch(rf"(?:{register.group})_(LO|HI)", register.name, re.IGNORECASE)
    name = f"{register.group.upper()}__{half[1]}" if half else register.name
    if register.page:
        name = f"{register.page}__{name.removeprefix(f'{register.page}_')}"
    return f"{source.name.upper()}__{name}"


def _c_offsets(source: RegisterSource) -> list[str]:
    registers = register_map(source).values()
    defines = (f"#define {_c_name(source, r)}_offset {r.offset:#x}" for r in registers)
    return ["// Offsets in bytes; every register is to be accessed as 32 bits", *defines]


def _c_enumerations(source: RegisterSource) -> list[str]:
    lines = []
    for register in register_map(source).values():
        for field in register.fields.values():
            if field.meanings:
                name = f"{_c_name(source, register)}__{field.name.upper()}"
                lines += ["", f"// Values of {register.name}.{field.name}", f"enum {name} {{"]
                lines += [
                    f"    {name}__{meaning.name} = {meaning.value}," for meaning in field.meanings
                ]
                # C before C23 and C++ before C++11 take no comma behind the last one.
                lines[-1] = lines[-1].removesuffix(",")
                lines.append("};")
    return lines


def markdown(source: RegisterSource, configuration: str, command: str) -> str:
    """The map as a document.

    Parameters
    ----------
    source
        Of the configuration that the document is about.
    configuration
        What that is called.
    command
        What writes the document.
    """
    top = elaborated(source)
    about = " ".join((top.get_property("desc") or "").split())
    registers = [r for r in register_map(source).values() if not r.page]
    lines = [
        f"# Registers: {top.get_property('name')}",
        "",
        f"Generated from `{source.path.relative_to(_ROOT)}`; do not edit, but write it again:",
        "",
        "```",
        command,
        "```",
        "",
        about,
        "",
        f"Constants are those of {configuration}. What a field does:",
        "",
        *(f"- {kind.value}: {_KINDS[kind]}" for kind in Kind),
        "",
        "| offset | register | reset | |",
        "|---|---|---|---|",
        *(
            f"| `{r.offset:#05x}` | [`{r.name}`](#{r.name.lower()}) | `{r.reset:#x}` | {r.title} |"
            for r in registers
        ),
    ]
    for register in registers:
        lines += [
            "",
            f"## {register.name}",
            "",
            f"`{register.offset:#05x}`. {register.description}",
        ]
        lines += ["", "| bits | field | | reset | |", "|---|---|---|---|---|"]
        lines += [_row(field) for field in reversed(register.fields.values())]
        for field in register.fields.values():
            if field.meanings:
                lines += ["", f"| `{field.name}` | | |", "|---|---|---|"]
                lines += [f"| {m.value} | `{m.name}` | {m.description} |" for m in field.meanings]
    lines += _pages(source)
    return "\n".join(lines) + "\n"


def _pages(source: RegisterSource) -> list[str]:
    """The section about further pages, which have some of the first one's registers each."""
    first, *further = pages(source)
    if not further:
        return []
    registers = register_map(source)
    own = {
        page: {r.name.removeprefix(f"{page}_"): r for r in registers.values() if r.page == page}
        for page in further
    }
    names, *others = ([*own[page]] for page in further)
    assert all(other == names for other in others), "pages differ"
    shared = [r.name for r in registers.values() if r.page == first and r.name not in names]
    start = {page: registers[in_page(page, names[0])].offset for page in further}
    return [
        "",
        "## Pages",
        "",
        "Each page holds the registers of one ring, at the offsets that they have in the first; "
        "a register `X` of the page `RING1` is called `RING1_X` where pages are told apart.",
        "",
        "| page | from |",
        "|---|---|",
        f"| the first one, with all of the above | `{0:#06x}` |",
        *(f"| `{page}` | `{start[page]:#06x}` |" for page in further),
        "",
        "In every page: " + ", ".join(f"[`{name}`](#{name.lower()})" for name in names) + ".",
        "",
        "In the first page alone, as all rings share them: "
        + ", ".join(f"[`{name}`](#{name.lower()})" for name in shared)
        + ".",
    ]


_KINDS = {
    Kind.CONSTANT: "the same for ever.",
    Kind.STORED: "what software wrote last.",
    Kind.PULSE: "does something once; writing 0 does nothing.",
    Kind.EVENT: "set by hardware, which wins if both happen at once; writing 0 does nothing.",
    Kind.LOCK: "set by software, and then until the block is reset; writing 0 does nothing.",
    Kind.LIVE: "what hardware shows at the time of the read.",
    Kind.CAPTURED: "what hardware showed at the time of the error.",
    Kind.COUNTER: "the lower half of a 64-bit counter; reading it latches the upper half.",
    Kind.UPPER_HALF: "the upper half at the time of the last read of the lower one.",
    Kind.MAXIMUM: "the largest value since the counters were cleared.",
}


def _row(field: Field) -> str:
    high = field.low + field.width - 1
    bits = f"{high}:{field.low}" if field.width > 1 else f"{field.low}"
    reset = "" if field.kind is Kind.LIVE else f"`{field.reset:#x}`"
    return f"| {bits} | `{field.name}` | {field.kind.value} | {reset} | {field.description} |"
