"""Calibration: what layers, copies and codecs really take on a machine, as a device's fields."""
