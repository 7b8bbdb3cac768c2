"""Errors of accesses to compressed memory, as the controller's registers report them."""

from dataclasses import dataclass

from cdma.hw.buddy.payloads import AccessStatus


@dataclass(frozen=True)
class AccessError:
    """The first access that failed since errors were cleared.

    Attributes
    ----------
    status : AccessStatus
        Why.
    write : bool
    address : int
        Logical address of the entry.
    """

    status: AccessStatus
    write: bool
    address: int

    def __str__(self) -> str:
        cause = self.status.name.lower().replace("_", " ")
        return f"{cause} in a {'write' if self.write else 'read'} at {self.address:#x}"
