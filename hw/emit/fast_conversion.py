"""A faster conversion of Amaranth designs to RTLIL, with the same text.

Amaranth keeps a netlist as tuples of one object per bit, and looks at every bit in Python wherever
a tuple is made, sliced or resolved: about half of a conversion. The functions here do the same work
in the interpreter's own loops (`map`, `min`, slices of tuples). They stand in for Amaranth's for as
long as `fast_conversion` is open and are written so that each could replace its original upstream.

The internals they replace are those of `AMARANTH`; with any other version Amaranth's own run.
The garbage collector rests as well: a netlist is millions of objects without a cycle to collect,
and scanning them again and again takes longer than making them.
"""

import gc
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from importlib.metadata import version
from threading import Lock
from typing import Any

from amaranth.back import rtlil
from amaranth.hdl import _nir
from amaranth.hdl._ast import SignalDict

AMARANTH = ("0.5.9", "0.5.10")
"""The versions whose internals these functions know."""

_ZERO_ONE = (_nir.Net.from_const(0), _nir.Net.from_const(1))
_ONLY_NETS = frozenset({_nir.Net})


def _new(cls: type, nets: Any = ()) -> Any:
    """`Value.__new__`, which checks the type of each net in a generator."""
    if type(nets) is cls:
        return nets
    if isinstance(nets, _nir.Net):
        return tuple.__new__(cls, (nets,))
    value: Any = tuple.__new__(cls, nets)
    assert _ONLY_NETS.issuperset(map(type, value))
    return value


def _from_const(cls: type, value: int, width: int) -> Any:
    """`Value.from_const`, without a new object for each bit."""
    return tuple.__new__(cls, [_ZERO_ONE[(value >> bit) & 1] for bit in range(width)])


def _getitem(self: Any, index: Any) -> Any:
    """`Value.__getitem__`: what is cut out of a value needs no check."""
    if isinstance(index, slice):
        return tuple.__new__(_nir.Value, tuple.__getitem__(self, index))
    return tuple.__getitem__(self, index)


def _nets(first: int, width: int) -> Any:
    return tuple.__new__(_nir.Value, map(_nir.Net, range(first, first + width)))


def _add_value_cell(self: Any, width: int, cell: Any) -> Any:
    """`Netlist.add_value_cell`."""
    return _nets(self.add_cell(cell) << 16, width)


def _alloc_late_value(self: Any, signal: Any) -> Any:
    """`Netlist.alloc_late_value`."""
    self.last_late_net -= len(signal)
    value = _nets(self.last_late_net, len(signal))
    self.late_to_signal.update((net, (signal, bit)) for bit, net in enumerate(value))
    return value


def _resolve_value(self: Any, value: Any) -> Any:
    """`Netlist.resolve_value`: most values have nothing to resolve."""
    if min(value, default=0) >= 0:
        return value if type(value) is _nir.Value else _nir.Value(value)
    connections = self.connections
    resolved = []
    for net in value:
        while net < 0:
            net = connections[net]
        resolved.append(net)
    return tuple.__new__(_nir.Value, resolved)


def _check_comb_cycles(self: Any) -> None:
    """`Netlist.check_comb_cycles`: looks at whole cells first.

    If cells, taken as if every output depended on every input, form no cycle, then neither do bits.
    Where they do, Amaranth's own search by bits decides, and finds the words for the error.
    """
    if _has_cell_cycle(self):
        _ORIGINALS["check_comb_cycles"](self)


_CUT = (_nir.Top, _nir.SyncReadPort, _nir.Initial, _nir.AnyValue, _nir.Instance)
"""Cells of whose outputs none depends on an input in the same cycle."""


def _has_cell_cycle(netlist: Any) -> bool:
    connections = netlist.connections

    def sources(index: int) -> Iterable[int]:
        cell = netlist.cells[index]
        if isinstance(cell, _CUT):
            return ()
        if isinstance(cell, _nir.FlipFlop):
            nets: Iterable[int] = (cell.clk, cell.arst)
        else:
            nets = cell.input_nets()
        found = set()
        for net in nets:
            while net < 0:
                net = connections[net]
            if net >= 2:
                found.add(net >> 16)
        return found

    done: set[int] = set()
    for start in range(len(netlist.cells)):
        if start in done:
            continue
        path = {start}
        stack = [(start, iter(sources(start)))]
        while stack:
            index, left = stack[-1]
            for source in left:
                if source in path:
                    return True
                if source not in done:
                    path.add(source)
                    stack.append((source, iter(sources(source))))
                    break
            else:
                stack.pop()
                path.remove(index)
                done.add(index)
    return False


def _sigspec(self: Any, *parts: Any) -> str:
    """`ModuleEmitter.sigspec`: late nets are resolved by then, so a net below 2 is a constant."""
    value: tuple[int, ...] = ()
    for part in parts:
        value += _nir.Value(part)
    nets = self.nets
    chunks = []
    begin, width = 0, len(value)
    while begin < width:
        end = begin + 1
        if value[begin] < 2:
            while end < width and value[end] < 2:
                end += 1
            bits = "".join("1" if net else "0" for net in reversed(value[begin:end]))
            chunks.append(f"{end - begin}'{bits}")
        else:
            wire, first = nets[value[begin]]
            bit = first + 1
            while end < width and value[end] >= 2 and nets[value[end]] == (wire, bit):
                end += 1
                bit += 1
            if bit == first + 1:
                chunks.append(f"{wire.name} [{first}]")
            else:
                chunks.append(f"{wire.name} [{bit - 1}:{first}]")
        begin = end
    if len(chunks) == 1:
        return chunks[0]
    return "{ " + " ".join(reversed(chunks)) + " }"


def rtlil_of(netlist: Any) -> str:
    """`rtlil.convert_fragment` of a netlist that is there already, without source lines."""
    empty = rtlil.EmptyModuleChecker(netlist)
    design = rtlil.Design(emit_src=False)
    names = SignalDict()
    for index, module in enumerate(netlist.modules):
        if empty.is_empty(index):
            continue
        builder = design.module(".".join(module.name), src_loc=module.src_loc)
        if index == 0:
            builder.attribute("top", 1)
        rtlil.ModuleEmitter(builder, netlist, module, names, empty_checker=empty).emit()
    return str(design)


_FAST: dict[tuple[type, str], Any] = {
    (_nir.Value, "__new__"): _new,
    (_nir.Value, "from_const"): classmethod(_from_const),
    (_nir.Value, "__getitem__"): _getitem,
    (_nir.Netlist, "add_value_cell"): _add_value_cell,
    (_nir.Netlist, "alloc_late_value"): _alloc_late_value,
    (_nir.Netlist, "resolve_value"): _resolve_value,
    (_nir.Netlist, "check_comb_cycles"): _check_comb_cycles,
    (rtlil.ModuleEmitter, "sigspec"): _sigspec,
}
_KNOWN = version("amaranth") in AMARANTH
_ORIGINALS: dict[str, Any] = {name: vars(owner)[name] for owner, name in _FAST}


class _Blocks:
    """Counts the open blocks: the first switches over, the last switches back."""

    def __init__(self) -> None:
        self.lock = Lock()
        self.open = 0
        self.collecting = False

    def enter(self) -> None:
        with self.lock:
            self.open += 1
            if self.open > 1:
                return
            self.collecting = gc.isenabled()
            gc.disable()
            if _KNOWN:
                for (owner, name), function in _FAST.items():
                    setattr(owner, name, function)

    def leave(self) -> None:
        with self.lock:
            self.open -= 1
            if self.open:
                return
            for owner, name in _FAST:
                setattr(owner, name, _ORIGINALS[name])
            if self.collecting:
                # What is left of a conversion is old: the next collection need not scan it as new.
                gc.freeze()
                gc.unfreeze()
                gc.enable()


_blocks = _Blocks()


@contextmanager
def fast_conversion() -> Iterator[None]:
    """Convert faster in this block. Blocks may be nested, and open in several threads at once."""
    _blocks.enter()
    try:
        yield
    finally:
        _blocks.leave()
