"""Attributes of registers in Verilog, as the RTL's signals have them."""

from typing import Any


def attributes(netlist: Any) -> dict[tuple[int, ...], str]:
    """Return Verilog's attributes of the values of a module's signals, by their nets.

    Parameters
    ----------
    netlist
        Amaranth's, of one module.
    """
    return {
        tuple(map(int, nets)): f"(* {', '.join(_pairs(signal))} *)"
        for signal, nets in netlist.signals.items()
        if signal.attrs
    }


def names_with_attributes(netlist: Any) -> dict[str, str]:
    """Return the attributes by the names of signals, and of outputs with the same value."""
    found = attributes(netlist)
    names = {
        name: netlist.signals[signal] for signal, name in netlist.modules[0].signal_names.items()
    }
    names |= netlist.top.ports_o
    by_name = {name: found.get(tuple(map(int, nets))) for name, nets in names.items()}
    return {name: text for name, text in by_name.items() if text}


def _pairs(signal: Any) -> list[str]:
    return [f'{name} = "{value}"' for name, value in signal.attrs.items()]
