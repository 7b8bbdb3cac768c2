"""The map: the addresses that software relies on, and RDL that is refused."""

from collections import Counter
from dataclasses import replace

import pytest

from cdma.hw.config import EngineConfig
from cdma.hw.dma.control.descriptor import Status
from cdma.hw.dma.control.registers import register_map, register_source
from cdma.hw.registers.map import RegisterMapError, address_bits
from cdma.hw.registers.map import register_map as map_of

OFFSETS = {
    "ID": 0x000,
    "VERSION": 0x004,
    "CONFIG0": 0x008,
    "CONFIG1": 0x00C,
    "CONTROL": 0x010,
    "STATUS": 0x014,
    "RING_BASE_LO": 0x020,
    "RING_BASE_HI": 0x024,
    "RING_SIZE": 0x028,
    "RING_TAIL": 0x02C,
    "RING_HEAD": 0x030,
    "RING_DONE": 0x034,
    "IRQ_STATUS": 0x040,
    "IRQ_ENABLE": 0x044,
    "IRQ_COALESCE_COUNT": 0x048,
    "IRQ_COALESCE_CYCLES": 0x04C,
    "TIMEOUT_CYCLES": 0x050,
    "THROTTLE0_RATE": 0x060,
    "THROTTLE0_BURST": 0x064,
    "THROTTLE1_RATE": 0x068,
    "THROTTLE1_BURST": 0x06C,
    "ERROR_STATUS": 0x080,
    "ERROR_TAG": 0x084,
    "ERROR_ADDR_LO": 0x088,
    "ERROR_ADDR_HI": 0x08C,
    **{
        f"{window}_WINDOW_{end}_{half}": start + 8 * (end == "LAST") + 4 * (half == "HI")
        for window, start in (
            ("DESCRIPTOR", 0x090),
            ("RECORD", 0x0A0),
            ("HOST", 0x0B0),
            ("DEVICE", 0x0C0),
        )
        for end in ("BASE", "LAST")
        for half in ("LO", "HI")
    },
    "HOST_BUS": 0x0D0,
    "DEVICE_BUS": 0x0D4,
    "WINDOW_LOCK": 0x0D8,
    "PERF_CONTROL": 0x0F8,
}
WINDOWS = ("descriptor", "record", "host", "device")
COUNTERS = (
    "CYCLES_BUSY",
    "RAW_BYTES_OUT",
    "STREAM_BYTES_OUT",
    "RAW_BYTES_IN",
    "STREAM_BYTES_IN",
    "LINES_OUT",
    "LINES_IN",
    "HOST_WRITE_BEATS",
    "HOST_READ_BEATS",
    "STALL_NO_CREDIT",
    "STALL_THROTTLE",
    "STALL_DRAM",
    "STALL_HOST_WRITE",
    "STALL_HOST_READ",
    "RESERVATION_HIGH_WATER",
    "OUTSTANDING_HIGH_WATER",
)


def test_addresses_stay_as_software_knows_them():
    pairs = {
        f"{name}_{half}": 0x100 + 8 * number + 4 * (half == "HI")
        for number, name in enumerate(COUNTERS)
        for half in ("LO", "HI")
    }
    assert {name: r.offset for name, r in register_map().items()} == {**OFFSETS, **pairs}


def test_each_ring_has_a_page_of_what_is_its_own():
    """Ring r's registers lie at r * 0x1000, as ring 0's; the first page has one for all rings."""
    one, four = register_map(), register_map(EngineConfig(rings=4, stream_id_bits=4))
    first = {name: r.offset for name, r in four.items() if not r.page}
    alone = {name: r.offset for name, r in one.items()}
    assert first == alone | {"ALL_RINGS": 0x018, "STREAM_ID": 0x0DC}
    counters = {f"{name}_{half}" for name in COUNTERS for half in ("LO", "HI")}
    shared = {name for name in OFFSETS if name.startswith(("TIMEOUT", "THROTTLE", "PERF"))}
    own = {
        name: offset
        for name, offset in first.items()
        if name not in shared | counters and name != "ALL_RINGS"
    }
    for ring in (1, 2, 3):
        page = {
            name.removeprefix(f"RING{ring}_"): register
            for name, register in four.items()
            if register.page == f"RING{ring}"
        }
        assert {name: r.offset - 0x1000 * ring for name, r in page.items()} == own
        assert page["STREAM_ID"].reset == ring
        assert page["CONFIG0"].fields["last_ring"].reset == 3
        assert page["RING_SIZE"].fields["log2_entries"].closed == f"ring{ring}_setup_closed"
    assert len(four) == len(first) + 3 * len(own)


@pytest.mark.parametrize(("rings", "bits"), [(1, 12), (2, 13), (3, 14), (4, 14), (5, 15), (8, 15)])
def test_address_reaches_all_pages(rings, bits):
    assert address_bits(register_source(EngineConfig(rings=rings))) == bits


def test_page_that_is_none_is_refused(tmp_path):
    body = "addrmap { reg { field { sw = rw; hw = r; } f = 0; } R @ 0x0; } PAGE @ 0x800;"
    refuse(body, "PAGE must be a page of 4096 bytes", tmp_path)


def test_bits_stay_as_software_knows_them():
    places = {
        register: {name: (f.low, f.width) for name, f in register_map()[register].fields.items()}
        for register in (
            *("CONTROL", "STATUS", "IRQ_STATUS", "IRQ_ENABLE", "PERF_CONTROL"),
            *("HOST_BUS", "DEVICE_BUS", "WINDOW_LOCK"),
        )
    }
    bus = {"prot": (0, 3), "arcache": (4, 4), "awcache": (8, 4)}
    events = {"done": (0, 1), "error": (1, 1), "ring_error": (2, 1)}
    assert places == {
        "CONTROL": {"enable": (0, 1), "abort": (1, 1), "reset": (2, 1)},
        "STATUS": {
            "idle": (0, 1),
            "aborting": (1, 1),
            "ring_error": (2, 1),
            "resetting": (3, 1),
        },
        "IRQ_STATUS": events,
        "IRQ_ENABLE": events,
        "PERF_CONTROL": {"clear": (0, 1), "freeze": (1, 1)},
        "HOST_BUS": bus,
        "DEVICE_BUS": bus,
        "WINDOW_LOCK": {"lock": (0, 1)},
    }


def test_windows_are_open_after_reset_and_accesses_non_secure():
    registers = register_map()
    for name in ("DESCRIPTOR", "RECORD", "HOST", "DEVICE"):
        high = 0xFF if name == "DEVICE" else 0xFFFF_FFFF
        resets = [
            registers[f"{name}_WINDOW_{end}_{half}"].reset
            for end in ("BASE", "LAST")
            for half in ("LO", "HI")
        ]
        assert resets == [0, 0, 0xFFFF_F000, high]
    for name in ("HOST_BUS", "DEVICE_BUS"):
        # Unprivileged, non-secure data; normal memory that is not buffered.
        assert registers[name].values(registers[name].reset) == {
            "prot": 0b010,
            "arcache": 0b0010,
            "awcache": 0b0010,
        }
    assert registers["WINDOW_LOCK"].reset == 0


def test_what_the_ring_and_the_windows_are_closes_with_them():
    by_signal = {
        signal: {
            r.group
            for r in register_map().values()
            for field in r.fields.values()
            if field.closed == signal
        }
        for signal in ("setup_closed", "windows_closed")
    }
    assert by_signal == {
        "setup_closed": {"ring_base", "ring_size"},
        "windows_closed": {
            *(f"{name}_window_{end}" for name in WINDOWS for end in ("base", "last")),
            *("host_bus", "device_bus"),
        },
    }


def test_statuses_are_those_of_the_completion_record():
    field = register_map()["ERROR_STATUS"].fields["status"]
    assert {m.name: m.value for m in field.meanings} == {s.name: s.value for s in Status}


def test_every_register_and_field_is_described_and_none_overlap():
    for register in register_map().values():
        assert register.title, register.name
        assert register.description, register.name
        bits = Counter(
            bit
            for field in register.fields.values()
            for bit in range(field.low, field.low + field.width)
        )
        assert set(bits.values()) == {1}, register.name
        assert max(bits) < 32
        for field in register.fields.values():
            assert field.title, f"{register.name}.{field.name}"
            assert field.description, f"{register.name}.{field.name}"


def test_fields_are_put_into_words_and_found_in_them():
    field = register_map()["CONFIG0"].fields["element_bytes"]
    assert field.put(0xA) == 0xA_0000
    assert field.get(0xFFF5_FFFF) == 5
    with pytest.raises(ValueError, match="element_bytes must have 4 bits, not 0x10"):
        field.put(16)


REFUSED = {
    "R.f is of no kind": [
        "field { sw = rw; hw = rw; } f = 0;",
        "field { sw = rw; hw = r; onwrite = wclr; hwset; } f = 0;",
        # Software would win, and an event be lost.
        "field { sw = rw; hw = r; onwrite = woclr; hwset; } f = 0;",
        "field { sw = rw; hw = r; onwrite = woclr; hwset; precedence = hw; } f[2] = 0;",
        "field { sw = rw; hw = r; onwrite = woset; } f[2] = 0;",
        "field { sw = rw; hw = r; onwrite = woset; swwel = setup_closed; } f = 0;",
        "field { sw = rw; hw = r; swwe = setup_closed; } f = 0;",
    ],
    "R must be refused as a whole": [
        "field { sw = rw; hw = r; swwel = setup_closed; } f = 0; field { sw = rw; hw = r; } g = 0;"
    ],
    "R.f needs a signal for we": ["field { sw = r; hw = w; we; } f = 0;"],
}


@pytest.mark.parametrize(
    ("message", "field"), [(message, field) for message, all_ in REFUSED.items() for field in all_]
)
def test_rdl_that_the_rtl_could_not_obey_is_refused(message, field, tmp_path):
    refuse(f"reg {{ {field} }} R @ 0x0;", message, tmp_path)


def test_regfile_that_is_no_pair_is_refused(tmp_path, monkeypatch):
    body = "regfile { reg { field { sw = rw; hw = r; } f = 0; } A @ 0x0; } PAIR @ 0x0;"
    refuse(body, "PAIR must be a pair of LO and HI", tmp_path)


BLOCK = """
    default regwidth = 32;
    default sw = r;
    default hw = na;
    signal { activehigh; } setup_closed;
"""


def refuse(body, message, folder):
    source = register_source()
    text = source.path.read_text()
    head = text[: text.index('    `include "engine.rdl"')]
    refused = folder / "refused.rdl"
    refused.write_text(f"{head}\n{BLOCK}\n{body}\n}};\n")
    with pytest.raises(RegisterMapError, match=message):
        map_of(replace(source, path=refused))
