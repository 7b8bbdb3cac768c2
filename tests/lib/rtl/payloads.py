"""Packets of bytes as beats and lines (`cdma.hw.codec.payloads`), made from the bytes alone."""

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from cdma.hw.codec.payloads import Truncation
from cdma.hw.config import CodecConfig
from tests.golden.formats.data import sparse_bytes

Payload = dict[str, Any]

CONFIGS = [CodecConfig(element_bytes=e, sector_bytes=s) for s in (32, 64, 128) for e in (4, 2, 1)]

FAST_CONFIGS = [
    CodecConfig(element_bytes=e, sector_bytes=s, latency="fast")
    for e, s in ((4, 32), (2, 64), (4, 128))
]
"""Of the same pipelines with a stage more."""


def config_id(config: CodecConfig) -> str:
    latency = "" if config.latency == "paper" else f"-{config.latency}"
    return f"E{config.element_bytes}-S{config.sector_bytes}{latency}"


def elements_of(config: CodecConfig, packet: bytes) -> list[int]:
    """The packet's elements, with zeros up to a whole line."""
    filled = packet + bytes(-len(packet) % config.line_bytes)
    return np.frombuffer(filled, f"<u{config.element_bytes}").tolist()


def lines_of(config: CodecConfig, packet: bytes) -> list[list[int]]:
    elements = elements_of(config, packet)
    return [elements[i : i + config.elements] for i in range(0, len(elements), config.elements)]


def line_with(config: CodecConfig, present: Iterable[int]) -> bytes:
    """A line with non-zero elements at the places in `present`."""
    line = np.zeros(config.elements, f"<u{config.element_bytes}")
    for place in present:
        # Every byte of a dense line differs from its neighbors.
        line[place] = int.from_bytes(
            bytes((place * config.element_bytes + b) % 255 + 1 for b in range(config.element_bytes))
        )
    return line.tobytes()


def sparse(config: CodecConfig, nbytes: int, density: float, seed: int) -> bytes:
    return sparse_bytes(seed, nbytes, density, config.element_bytes).tobytes()


def mixed_packet(config: CodecConfig, lines: int, seed: int) -> bytes:
    """Dense, empty and sparse lines in random order."""
    densities = np.random.default_rng(seed).choice([0, 0.03, 0.3, 0.6, 0.95, 1], lines)
    return b"".join(
        sparse(config, config.line_bytes, density, seed + i) for i, density in enumerate(densities)
    )


def sectors_of(config: CodecConfig, packet: bytes) -> list[Payload]:
    """`Sector`s; for a packet of no bytes the token that says so."""
    elements = elements_of(config, packet)
    lanes = config.lanes
    sectors: list[Payload] = [
        {"elements": elements[i : i + lanes], "last": 0, "empty": 0}
        for i in range(0, len(elements), lanes)
    ] or [{"empty": 1}]
    sectors[-1]["last"] = 1
    return sectors


def line_beats_of(config: CodecConfig, packet: bytes) -> list[Payload]:
    """`LineBeat`s of the compressed packet."""
    beats = []
    for line in lines_of(config, packet):
        nonzero = [element for element in line if element]
        mask = sum(1 << i for i, element in enumerate(line) if element)
        groups = [
            nonzero[i : i + config.lanes] for i in range(0, max(len(nonzero), 1), config.lanes)
        ]
        for i, group in enumerate(groups):
            beats.append(
                {
                    "mask": 0 if i else mask,
                    "elements": group,
                    "count": len(group),
                    "sol": i == 0,
                    "eol": i == len(groups) - 1,
                    "last": 0,
                    "empty": 0,
                    "truncation": Truncation.NONE,
                }
            )
    if not beats:
        beats = [{"sol": 1, "eol": 1, "empty": 1, "truncation": Truncation.NONE}]
    beats[-1]["last"] = 1
    return beats


def cut_line_beats(config: CodecConfig, packet: bytes, size: int) -> list[Payload]:
    """`LineBeat`s of the first `size` bytes of the compressed packet, if it is longer."""
    beats: list[Payload] = []
    position = 0
    for beat in line_beats_of(config, packet):
        if beat["sol"]:
            if size < position + config.mask_bytes:
                return [*beats, {"sol": 1, "eol": 1, "last": 1, "truncation": Truncation.MASK}]
            position += config.mask_bytes
        there = min(beat["count"], (size - position) // config.element_bytes)
        if there < beat["count"]:
            cut = {"count": there, "elements": beat["elements"][:there], "eol": 1, "last": 1}
            return [*beats, {**beat, **cut, "truncation": Truncation.PAYLOAD}]
        position += there * config.element_bytes
        beats.append(beat)
    return beats


def expanded_of(config: CodecConfig, packet: bytes) -> list[Payload]:
    """`ExpandedSector`s of the undamaged packet."""
    sectors: list[Payload] = []
    for sector in sectors_of(config, packet):
        if sector["empty"]:
            sectors.append({"sol": 1, "last": 1, "empty": 1})
            continue
        elements = sector["elements"]
        present = sum(1 << i for i, element in enumerate(elements) if element)
        sol = len(sectors) % config.sectors == 0
        sectors.append(
            {"elements": elements, "present": present, "sol": sol, "last": sector["last"]}
        )
    return sectors


def beats_of(packet: bytes, width: int) -> list[Payload]:
    """`Beat`s of a packet; `ReceivedBeat`s too, for what is not said is 0."""
    beats = [
        {"data": int.from_bytes(part, "little"), "size": len(part), "last": 0}
        for part in (packet[i : i + width] for i in range(0, max(len(packet), 1), width))
    ]
    beats[-1]["last"] = 1
    return beats


def packets_of(beats: Sequence[Payload], width: int) -> list[bytes]:
    """The packets in `Beat`s; only a packet's last beat may be partial, and bytes beyond are 0."""
    packets = []
    packet = b""
    for beat in beats:
        assert beat["last"] or beat["size"] == width, "a partial beat inside a packet"
        content = beat["data"].to_bytes(width, "little")
        assert not any(content[beat["size"] :]), "bytes beyond the size of the beat"
        packet += content[: beat["size"]]
        if beat["last"]:
            packets.append(packet)
            packet = b""
    assert not packet, "the last packet does not end"
    return packets
