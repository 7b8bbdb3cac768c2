"""`cdma value`: the engine's worth by network, device, link, memory and codec."""

from cdma.commands.value.command import value

__all__ = ["value"]
