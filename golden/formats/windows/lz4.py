"""LZ4 on 4 KiB windows (CSWAP+, §5.2.1): the block format of the `lz4` package, in our framing."""

from functools import partial
from typing import Any

from cdma.builds.extras import extra
from cdma.golden.formats.windows.block import BadBlock, BlockCodec


class Lz4(BlockCodec):
    """LZ4 at its default level; the layout is in `cdma.golden.formats.windows.block`."""

    def __init__(self, element_bytes: int = 4) -> None:
        with extra("formats"):
            import lz4.block as block
        super().__init__(
            "lz4", element_bytes, partial(_encode_block, block), partial(_decode_block, block)
        )


def _encode_block(block: Any, window: memoryview) -> bytes:
    return block.compress(window, store_size=False)


def _decode_block(block: Any, payload: memoryview, length: int) -> bytes:
    try:
        return block.decompress(payload, uncompressed_size=length)
    except block.LZ4BlockError as error:
        raise BadBlock(str(error)) from error
