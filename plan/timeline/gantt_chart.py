"""A picture of plans on the timeline: three streams, and the memory below them."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from cdma.builds.extras import extra
from cdma.builds.pictures import encoded, literal, new_figure
from cdma.plan.timeline.errors import ScheduleError
from cdma.plan.timeline.trace import KINDS, STREAMS, Trace

COLORS = {
    "forward": "#4878a8",
    "backward": "#2c4a6e",
    "recompute": "#c44e52",
    "compress": "#dd9a3c",
    "decompress": "#e6c84a",
    "offload": "#5a9e6f",
    "prefetch": "#8c6bb1",
}

MEMORY_COLOR = "#b0b0b0"

TITLES = {"compute": "compute", "d2h": "to host", "h2d": "to device"}

GB = 1e9
_PANEL_INCHES = (0.9, 0.75)
_WIDTH_INCHES = 12


def gantt_chart(traces: Sequence[Trace], title: str = "", file_format: str = "png") -> bytes:
    """The picture as a file of one of `cdma.builds.pictures.FORMATS`.

    Below each other for each policy: its computation and copies, and the device's memory with its
    limit, all on one scale of time. The legend names every color and line.

    Parameters
    ----------
    traces : sequence of Trace
        Those that are infeasible are left out.
    title : str
    file_format : str

    Raises
    ------
    ScheduleError
        None of them is feasible.
    """
    drawn = [trace for trace in traces if trace.events]
    if not drawn:
        raise ScheduleError("no policy fits into the memory, so there is no picture; give it more")
    height = sum(_PANEL_INCHES) * len(drawn) + 1
    figure = new_figure(_WIDTH_INCHES, height)
    panels: Any = figure.subplots(
        2 * len(drawn), 1, sharex=True, squeeze=False, height_ratios=_PANEL_INCHES * len(drawn)
    )
    # Memory that is too little for a plan that was judged without a limit is in sight, too.
    highest = max(max(trace.peak_bytes, trace.memory_bytes) for trace in drawn) / GB
    for trace, streams, memory in zip(drawn, panels[::2, 0], panels[1::2, 0], strict=True):
        _draw_streams(streams, trace)
        _draw_memory(memory, trace)
        memory.set_ylim(0, 1.05 * highest)
    panels[-1, 0].set_xlabel("time since the step began, ms")
    panels[-1, 0].set_xlim(0, max(trace.seconds for trace in drawn) * 1e3)
    if title:
        figure.suptitle(literal(title), fontsize="medium")
    handles = _legend(drawn)
    figure.legend(
        handles=handles,
        loc="outside lower center",
        ncols=len(handles),
        fontsize="small",
        frameon=False,
    )
    return encoded(figure, file_format)


def _legend(drawn: Sequence[Trace]) -> list[Any]:
    """A handle for every kind of event that is there, for the memory, and for its limit."""
    with extra("plan"):
        from matplotlib.lines import Line2D
        from matplotlib.patches import Patch

    shown = {event.kind for trace in drawn for event in trace.events}
    return [
        *(Patch(color=COLORS[kind], label=kind) for kind in KINDS if kind in shown),
        Patch(color=MEMORY_COLOR, label="memory reserved"),
        Line2D([], [], color="black", linewidth=0.7, linestyle="--", label="memory limit"),
    ]


def _draw_streams(axes: Any, trace: Trace) -> None:
    for lane, stream in enumerate(STREAMS):
        for kind in KINDS:
            spans = [
                (event.start * 1e3, event.seconds * 1e3)
                for event in trace.events
                if event.stream == stream and event.kind == kind
            ]
            if spans:
                # Thin lines between them, so that neighbors can be told apart.
                axes.broken_barh(
                    spans,
                    (lane - 0.4, 0.8),
                    facecolor=COLORS[kind],
                    edgecolor="white",
                    linewidth=0.2,
                )
    axes.set_ylim(len(STREAMS) - 0.5, -0.5)
    axes.set_yticks(range(len(STREAMS)), [TITLES[stream] for stream in STREAMS], fontsize="x-small")
    axes.tick_params(bottom=False)
    axes.set_title(
        f"{literal(trace.policy)}: {trace.seconds * 1e3:.1f} ms",
        loc="left",
        fontsize="small",
        pad=2,
    )


def _draw_memory(axes: Any, trace: Trace) -> None:
    points = np.array(trace.memory)
    times, levels = points[:, 0] * 1e3, points[:, 1] / GB
    axes.fill_between(times, levels, step="post", color=MEMORY_COLOR, linewidth=0)
    axes.axhline(trace.memory_bytes / GB, color="black", linewidth=0.7, linestyle="--")
    axes.set_ylabel("memory, GB", fontsize="x-small")
    axes.tick_params(axis="y", labelsize="x-small")
