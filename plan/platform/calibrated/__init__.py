"""Devices and links as `cdma calibrate` has timed and written them."""

import tomllib
from functools import cache
from pathlib import Path
from typing import Any


@cache
def calibrated_files() -> tuple[dict[str, Any], ...]:
    """The content of each file, with the tables `device` and `link`."""
    folder = Path(__file__).parent
    return tuple(
        tomllib.loads(file.read_text(encoding="utf-8")) for file in sorted(folder.glob("*.toml"))
    )
