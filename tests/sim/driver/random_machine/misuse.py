"""Calls that a driver must refuse, each with one clear error, and without changing anything."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import TYPE_CHECKING, Any

import numpy as np

from cdma.hw.dma.control.descriptor import Opcode
from cdma.sim.driver import (
    CopyKind,
    DescriptorError,
    DoubleFreeError,
    DriverError,
    Engine,
    Memory,
    OutOfMemoryError,
    OverlapError,
    Span,
    UseAfterFreeError,
)

if TYPE_CHECKING:
    from tests.sim.driver.random_machine.player import Player

OUT, IN = CopyKind.DEVICE_TO_HOST, CopyKind.HOST_TO_DEVICE

Misuse = tuple[type[DriverError], Callable[[], Any]]


def misuses(player: Player, rng: Random) -> dict[str, Misuse]:
    """The calls that can be made now, by what is wrong with them."""
    engine: Any = player.engine
    found: dict[str, Misuse] = {
        "alloc of nothing": (DriverError, lambda: engine.host.alloc(0)),
        "alloc of a part of a byte": (DriverError, lambda: engine.host.alloc(1.5)),
        "alloc of a word": (DriverError, lambda: engine.host.alloc("64")),
        "alloc of less than nothing": (DriverError, lambda: engine.device.alloc(np.int64(-4))),
        "alloc of more than there is": (OutOfMemoryError, lambda: engine.host.alloc(1 << 40)),
        "alloc with an odd alignment": (DriverError, lambda: engine.host.alloc(4, alignment=3)),
        "alloc with no alignment": (DriverError, lambda: engine.host.alloc(4, alignment=None)),
        "alloc within a number": (DriverError, lambda: engine.host.alloc(4, within=4096)),
        "alloc at the ring": (
            OverlapError,
            lambda: engine.host.alloc(4, address=player.ring_base),
        ),
        "alloc at a word": (DriverError, lambda: engine.host.alloc(4, address="0")),
        "alloc behind the end": (
            OverlapError,
            lambda: engine.host.alloc(64, address=engine.host.end - 32),
        ),
        "free of nothing": (DriverError, lambda: engine.host.free(None)),
        "a second driver": (DriverError, lambda: Engine(player.machine)),
        "wait for nothing": (DriverError, lambda: engine.wait(None)),
        "wait for a number": (DriverError, lambda: engine.wait(0)),
        "a third throttle": (DriverError, lambda: engine.set_throttle(2, None)),
        "no throttle": (DriverError, lambda: engine.set_throttle(0, "none")),
        "raw field that is not there": (DescriptorError, lambda: engine.submit_raw({"no": 1})),
        "raw field that is too large": (
            DescriptorError,
            lambda: engine.submit_raw({"opcode": Opcode.FENCE, "tag": 1 << 32}),
        ),
        "raw field that is no number": (
            DescriptorError,
            lambda: engine.submit_raw({"opcode": Opcode.FENCE, "tag": "1"}),
        ),
        "raw descriptor that is none": (DriverError, lambda: engine.submit_raw(5)),
        "raw descriptor that is checked": (
            DescriptorError,
            lambda: engine.submit_raw({"opcode": 9}, checks=True),
        ),
        "copy of no buffers": (DriverError, lambda: engine.submit(0, 0, 4, OUT)),
    }
    if player.freed:
        gone = rng.choice(player.freed)
        memory = player.memories[gone.memory]
        found["second free"] = DoubleFreeError, lambda: memory.free(gone.buffer)
        found["look at what is free"] = UseAfterFreeError, lambda: gone.buffer.array
        found["copy of what is free"] = (
            UseAfterFreeError,
            lambda: engine.submit(gone.buffer, gone.buffer, 4, OUT),
        )
    devices = [piece for piece in player.pieces if piece.memory == "device"]
    hosts = [piece for piece in player.pieces if piece.memory == "host"]
    if devices and hosts:
        found |= _copies(player, rng.choice(devices).buffer, rng.choice(hosts).buffer)
    return found


def _copies(player: Player, device: Any, host: Any) -> dict[str, Misuse]:
    """Wrong copies between two buffers."""
    engine: Any = player.engine
    element = player.element_bytes
    line_codecs = [name for name in player.setup.config.codecs if name != "raw"]
    size = min(device.nbytes, host.nbytes)
    usual = {"nbytes": size, "codec": line_codecs[0]}
    strange = Memory("host", np.zeros(1 << 16, np.uint8), engine.host.base)
    stranger = strange.alloc(host.nbytes) if host.nbytes <= 1 << 16 else None

    def out(**changes: Any) -> Callable[[], Any]:
        arguments = {"dst": host, "src": device, "kind": OUT, **usual, **changes}
        return lambda: engine.submit(**arguments)

    def back(**changes: Any) -> Callable[[], Any]:
        arguments = {"dst": device, "src": host, "kind": IN, **usual, **changes}
        return lambda: engine.submit(**arguments)

    found: dict[str, Misuse] = {
        "span before its buffer": (DriverError, lambda: host.span(-1)),
        "span behind its buffer": (DriverError, lambda: host.span(0, host.nbytes + 1)),
        "span of a part of a byte": (DriverError, lambda: host.span(0.5)),
        "free in the other memory": (DoubleFreeError, lambda: engine.device.free(host)),
    }
    wrong: dict[str, Callable[[], Any]] = {
        "length 0": out(nbytes=0),
        "length -1": out(nbytes=-1),
        "length of a part": out(nbytes=size + 0.5),
        "length that is a word": out(nbytes=str(size)),
        "length that is true": out(nbytes=True),
        "length beyond the source": out(nbytes=device.nbytes + 1),
        "length beyond all": out(nbytes=1 << 32),
        "plain copy beyond the destination": out(codec=None, dst=host.span(0, size - 1)),
        "direction that is a word": out(kind="DEVICE_TO_HOST"),
        "the other direction": out(kind=IN),
        "unknown codec": out(codec="lz5"),
        "codec that is a number": out(codec=0),
        "codec that is a list": out(codec=[]),
        "other element size": out(element_bytes=3),
        "element size that is a word": out(element_bytes="4"),
        "element size of a copy": out(codec=None, element_bytes=element),
        "checksum on the way out": out(crc=1),
        "checksum that is too large": back(crc=1 << 32),
        "checksum that is a word": back(crc="0"),
        "stream of a part": back(stream_bytes=1.5),
        "stream of nothing": back(stream_bytes=0),
        "stream of less": back(stream_bytes=-1),
        "stream beyond the source": back(stream_bytes=host.nbytes + 1),
        "stream of a copy": back(codec=None, stream_bytes=1),
        "verification by number": out(verify=1),
        "verification of a copy": out(codec=None, verify=True),
        "verification on the way in": back(verify=True),
        "throttle class 2": out(throttle_class=2),
        "throttle class of a word": out(throttle_class="0"),
        "throttle class on the way in": back(throttle_class=1),
        "tag that is too large": out(tag=1 << 32),
        "negative tag": out(tag=-1),
        "tag that is a word": out(tag="a"),
        "unknown parameter": out(parameters={"nothing": 1}),
        "parameters that are a number": out(parameters=5),
        "parameters that are a list": out(parameters=[("centre", 1)]),
        "parameters of a copy": out(codec=None, parameters={"centre": 1}),
        "span made by hand": out(dst=Span(host, host.nbytes, 1 << 12)),
        "span made by hand before": out(dst=Span(host, -element, element)),
        "span of other numbers": out(dst=Span(host, 0.0, 4)),  # type: ignore[arg-type]
    }
    if stranger is not None:
        wrong["buffer of another machine"] = out(dst=stranger)
    for name, call in wrong.items():
        found[name] = DriverError, call
    return found
