"""AxPROT, AxCACHE and AxUSER of each access are those of the ring that it is for."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from cdma.hw.dma.control.descriptor import Flag, Opcode
from tests.sim.machine.engine.bench import DEVICE_BASE, HOST_BASE
from tests.sim.machine.engine.cases import AREA_BYTES, SMALL, Shape
from tests.sim.machine.engine.rings import SHARE_BYTES, SLOTS, Owner, RingsBench, rings_config

RINGS = 3
USER_BITS = 5
PINS = ("valid", "ready", "addr", "prot", "cache", "user")
SHAPES = (
    Shape(opcode=Opcode.COMPRESS_OUT, length=1200, src=0xFC4, dst=0xF34, flags=Flag.VERIFY),
    Shape(opcode=Opcode.DECOMPRESS_IN, length=900, src=0xFC4, dst=0xF34),
    Shape(opcode=Opcode.COPY_OUT, length=700, src=0x44, dst=0xF34),
    Shape(opcode=Opcode.COPY_IN, length=800, src=0x24, dst=0xF34),
)


def addresses(waves: Path, port: str) -> Iterator[dict[str, int]]:
    """Pins of an address channel in each cycle in which an address was transferred."""
    text = waves.read_text()
    codes = {}
    for pin in PINS:
        # The top's own pins come before all others of that name.
        found = re.search(rf"\$var wire +\d+ (\S+) {port}{pin} ", text)
        assert found, f"{port}{pin} is not in the waves"
        codes[found[1]] = pin
    now = dict.fromkeys(PINS, 0)
    for moment in text.split("$enddefinitions $end", 1)[1].split("\n#"):
        lines = moment.split("\n")
        for line in lines[1:]:
            value, _, code = line.partition(" ") if line[:1] == "b" else (line[:1], "", line[1:])
            if code in codes:
                now[codes[code]] = int(value.lstrip("b"), 2)
        if now["valid"] and now["ready"]:
            yield dict(now)


def set_up(owner: Owner, *, prot: int, cache: int, user: int) -> None:
    registers = owner.engine.registers
    registers.write("CONTROL", enable=0)
    for bus, other in (("HOST_BUS", 0), ("DEVICE_BUS", 1)):
        registers.write(bus, prot=prot ^ other, arcache=cache ^ other, awcache=cache)
    registers.write("STREAM_ID", id=user)
    registers.write("WINDOW_LOCK", lock=1)
    registers.write("CONTROL", enable=1)


@pytest.mark.parametrize("stalls", [0.0, 0.3])
def test_every_address_goes_out_as_its_rings(stalls, tmp_path) -> None:
    waves = tmp_path / "rings.vcd"
    bench = RingsBench(
        RINGS,
        stalls=stalls,
        config=rings_config(RINGS, stream_id_bits=USER_BITS),
        waves=waves,
    )
    try:
        assert [o.engine.registers.read("STREAM_ID")["id"] for o in bench.owners] == [0, 1, 2]
        for owner in bench.owners:
            set_up(owner, prot=owner.ring + 1, cache=4 * owner.ring + 2, user=17 + owner.ring)
        loads = []
        for owner in bench.owners:
            jobs = [owner.job(shape, slot) for slot, shape in enumerate(SHAPES)]
            loads.append((owner, jobs, bench.submit(owner, jobs)))
        for owner in bench.owners:
            owner.engine.doorbell()
        for load in loads:
            bench.check(*load)
    finally:
        bench.close()

    memories = [f"m_axi_mem{unit}_" for unit in range(SMALL.units)]
    for port in ("m_axi_host_", *memories):
        in_device = port in memories
        base, share = (DEVICE_BASE, SLOTS * AREA_BYTES) if in_device else (HOST_BASE, SHARE_BYTES)
        for channel in ("ar", "aw"):
            seen = set()
            for pins in addresses(waves, port + channel):
                ring = (pins["addr"] - base) // share
                cache = (4 * ring + 2) ^ (in_device and channel == "ar")
                assert pins["prot"] == (ring + 1) ^ in_device, (port, channel, pins)
                assert pins["cache"] == cache, (port, channel, pins)
                assert pins["user"] == 17 + ring, (port, channel, pins)
                seen.add(ring)
            assert seen == set(range(RINGS)), f"{port}{channel}: {seen}"
