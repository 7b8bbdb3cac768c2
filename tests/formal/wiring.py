"""Proofs of what a block does between its components, which may do anything that is allowed."""

from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

from amaranth.hdl import Elaboratable, Module, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from cdma.hw.bus.axi import Axi4Signature
from cdma.hw.bus.burst import ReadRequest, WriteRequest
from tests.formal.bench import Bench, Contract, anything_at


def leave_out(component: Any) -> None:
    """Let Amaranth not warn that a component, with those that it has made, is not elaborated."""
    component._MustUse__used = True
    for part in vars(component).values():
        if isinstance(part, Elaboratable):
            leave_out(part)


class Shell(Elaboratable):
    """Stands in a block for a component that has been wired: drives its outputs as it likes.

    A `CutOut` takes a component's place before that, and has ports of its own.
    """

    def __init__(self, component: wiring.Component) -> None:
        self.component = component
        leave_out(component)

    def elaborate(self, platform) -> Module:
        m = Module()
        m.d.comb += anything_at(self.component, Out)
        return m


def streams(component: wiring.Component) -> Iterator[tuple[Any, Any, int, Any]]:
    """Direction, shape of payload, place in its array, and stream of each port that is a stream.

    The two channels of addresses of an AXI4 port are such streams, too.
    """
    for name, member in component.signature.members.items():
        if not member.is_signature:
            continue
        port = getattr(component, name)
        if isinstance(member.signature, stream.Signature):
            for place, one in enumerate(port if member.dimensions else [port]):
                yield member.flow, member.signature.members["payload"].shape, place, one
        elif isinstance(member.signature, Axi4Signature):
            bits = len(port.araddr)
            for prefix, shape in (("ar", ReadRequest(bits)), ("aw", WriteRequest(bits))):
                valid, address, beats = (
                    getattr(port, prefix + field) for field in ("valid", "addr", "len")
                )
                request = SimpleNamespace(address=address, beats=beats, owner=Signal(0))
                yield member.flow, shape, 0, SimpleNamespace(valid=valid, payload=request)


def open_block(
    bench: Bench, block: Any, contract_at: Callable[[Any, int, Any], Contract | None]
) -> Module:
    """Elaborate a block, whose inputs may be anything that keeps their contracts.

    The contracts of its outputs are asserted.

    Parameters
    ----------
    block
        Not elaborated before.
    contract_at
        Gives the contract of a stream by the shape of its payload, its place in its array, and the
        stream.
    """
    inside = block.elaborate(None)
    block._MustUse__used = True
    bench.subject = type(block).__name__
    for flow, shape, place, port in streams(block):
        contract = contract_at(shape, place, port)
        if contract is not None:
            state = bench.assume_item if flow is In else bench.assert_item
            state(port.valid, port.payload, contract)
    bench.m.d.comb += anything_at(block, In)
    return inside
