"""LZ4 on 4 KiB windows (CSWAP+, §5.2.1): the block format of the `lz4` package, in our framing."""

import lz4.block

from cdma.golden.formats.windows.block import BadBlock, BlockCodec


class Lz4(BlockCodec):
    """LZ4 at its default level; the layout is in `cdma.golden.formats.windows.block`."""

    def __init__(self, element_bytes: int = 4) -> None:
        super().__init__("lz4", element_bytes, _encode_block, _decode_block)


def _encode_block(window: memoryview) -> bytes:
    return lz4.block.compress(window, store_size=False)


def _decode_block(payload: memoryview, length: int) -> bytes:
    try:
        return lz4.block.decompress(payload, uncompressed_size=length)
    except lz4.block.LZ4BlockError as error:
        raise BadBlock(str(error)) from error
