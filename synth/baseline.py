"""The committed figures of all components."""

import json
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

from cdma.builds.documents import refusal
from cdma.synth.errors import SynthError

GENERIC, ECP5 = "generic", "ecp5"
"""The targets that have committed figures: gates that come with the package, and an FPGA."""

BASELINES = {
    GENERIC: Path(__file__).with_name("baseline.json"),
    ECP5: Path(__file__).with_name("baseline_ecp5.json"),
}
"""What `cdma synth --json` printed of a target when the RTL was last changed on purpose: of the
generic one all components, of ECP5 those that are routed in minutes."""

Baseline = Mapping[tuple[str, str], Mapping[str, Any]]
"""Rows by component and configuration."""


@cache
def read_baseline(target: str = GENERIC, path: Path | None = None) -> Baseline:
    """The committed rows of a target, by component and configuration.

    Parameters
    ----------
    target
        One of `BASELINES`.
    path
        Another file than the committed one.

    Raises
    ------
    SynthError
        If the file is not there or not what `cdma synth --json` prints.
    """
    path = path or BASELINES[target]
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        refused = refusal(content, str(path), "synth")
        if refused is not None:
            raise SynthError(refused)
        return {(row["name"], row["config"]): row for row in content["components"]}
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise SynthError(
            f"{path} is no baseline ({error}); make one with: cdma synth --target {target} --json"
        ) from error
