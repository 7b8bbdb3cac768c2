"""What components of the RTL tell of themselves."""

from typing import TypeVar

from amaranth.hdl import Fragment
from amaranth.lib import wiring

AnyComponent = TypeVar("AnyComponent", bound=wiring.Component)


def elaborated(component: AnyComponent) -> AnyComponent:
    """A component that can be built: what it tells is of hardware. Amaranth warns of one that is
    made and never elaborated."""
    Fragment.get(component, None)
    return component
