"""Devices, links, throttles and the rates of codecs."""
