"""Engines that proofs are of, by the width of their beats."""

from typing import Any

from cdma.hw.config import CodecConfig, EngineConfig
from tests.formal.lines import TINY


def codec_of(width: int) -> CodecConfig:
    """Codec with sectors of so many bytes; of 4, the tiny one."""
    return TINY if width == 4 else CodecConfig(sector_bytes=width, line_bytes=128)


def engine_of(width: int, **fields: Any) -> EngineConfig:
    """Engine whose ports have beats of so many bytes."""
    return EngineConfig(codec=codec_of(width), host_bytes=width, **fields)


HOSTS = {str(width): engine_of(width) for width in (4, 32, 64, 128)}
"""By the bytes of a beat."""
