"""RTL for the simulator's own tests."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

ECHO = Path(__file__).parent / "machine" / "echo.sv"


@dataclass(frozen=True)
class Rtl:
    name: str
    text: str


@pytest.fixture(scope="session")
def echo() -> Callable[..., Rtl]:
    """Makes the device of `machine/echo.sv`."""

    def make(*, sector_bytes: int = 32, takes_crc: bool = False) -> Rtl:
        defines = [f"`define SECTOR_BYTES {sector_bytes}"]
        if takes_crc:
            defines.append("`define TAKES_CRC")
        return Rtl("echo", "\n".join([*defines, ECHO.read_text()]))

    return make
