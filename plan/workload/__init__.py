"""The workload: networks' graphs, their densities, and captures of real activations."""

from cdma.plan.workload.capture.capture import (
    Activation,
    Capture,
    CaptureError,
    capture_files,
    capture_names,
    load_capture,
)
from cdma.plan.workload.capture.recorder import Subject, record
from cdma.plan.workload.layouts import LAYOUTS, relayout

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
