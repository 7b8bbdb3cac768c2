"""What gets swapped: captures of real activations, and how they were made."""

from cdma.sim.workload.capture import (
    Activation,
    Capture,
    CaptureError,
    capture_files,
    capture_names,
    load_capture,
)
from cdma.sim.workload.layouts import LAYOUTS, relayout
from cdma.sim.workload.recorder import Subject, record

__all__ = [
    "LAYOUTS",
    "Activation",
    "Capture",
    "CaptureError",
    "Subject",
    "capture_files",
    "capture_names",
    "load_capture",
    "record",
    "relayout",
]
