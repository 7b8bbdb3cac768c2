"""The stored form of an entry of 128 B: size class, four bits of metadata, sectors.

Eight classes (Buddy Compression, §3.1), of 0, 8, 16, 32, 64, 80, 96 and 128 bytes, take three bits;
the fourth tells the codec. As a number, an entry's metadata is

    bits 2…0   the class, 0 to 7
    bit 3      0: BPC. 1: ZVC, in classes 1 to 6 only

and what is kept is, from the entry's first byte on:

    class 0    nothing: the entry is all zeros
    1 to 6     the code (BPC or ZVC of `cdma.golden.formats`), then zeros up to the class's size
    class 7    the entry as it is, whatever its code would be

An entry is in the least class that its code fits, and in class 0 only if it is all zeros. It is of
ZVC only where that makes for a lesser class. Two entries' metadata make a byte, the first entry's
in bits 3…0.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from cdma.golden.formats.bpc import bpc
from cdma.golden.formats.interface import Array, CodecError, IntArray, as_bytes, zero_filled
from cdma.golden.formats.stream import LINE_BYTES, ByteArray, StreamStatus
from cdma.golden.formats.zvc import Zvc, decode_many

ENTRY_BYTES = LINE_BYTES
SIZES = (0, 8, 16, 32, 64, 80, 96, 128)
"""Bytes that the classes take (Buddy Compression, §3.1)."""
SECTOR_BYTES = 32
"""Unit of reads and writes of memory, bytes (Buddy Compression, §3.2)."""
SECTORS = tuple(-(-size // SECTOR_BYTES) for size in SIZES)
METADATA_BITS = 4
ZVC_FLAG = 8
AS_IT_IS = 7
"""The class of entries that are kept as they are."""
MODES = ("best-of", "bpc")

_SIZES = np.array(SIZES)
_ALL_ZERO_BITS = 10


@dataclass(frozen=True, kw_only=True)
class RestoredEntries:
    """Outcomes of the decompression of n entries.

    Attributes
    ----------
    status : uint8 array (n,)
        Numbers of `StreamStatus`; see `EntryCodec.decode`.
    offset : int64 array (n,)
        The error's offset in bytes from the start of what is kept; 0 when OK.
    data : uint8 array (n, 128)
        The entries; zeros where there is an error.
    """

    status: npt.NDArray[np.uint8]
    offset: IntArray
    data: ByteArray


class EntryCodec:
    """Codec between entries and their stored form.

    Parameters
    ----------
    mode : "best-of" or "bpc"
        "best-of" chooses BPC or ZVC for each entry, whichever gives the smaller class; "bpc" always
        uses BPC, as in the paper.
    element_bytes : int
        4, 2 or 1: ZVC's element size. It is the same for all entries and not in the metadata.
    """

    def __init__(self, mode: str = "best-of", element_bytes: int = 4) -> None:
        if mode not in MODES:
            raise CodecError(f"unknown mode {mode!r} of entries; choose from {', '.join(MODES)}")
        self.mode = mode
        self._zvc = Zvc(element_bytes)
        self.element_bytes = self._zvc.element_bytes

    def metadata(self, array: Array) -> ByteArray:
        """Metadata of an array's entries, uint8 (entries,), without building what is kept."""
        code_bits = bpc.code_bits(array)
        by_bpc = classes_of(-(-code_bits // 8))
        # Nothing but zeros has a code this short.
        by_bpc[code_bits == _ALL_ZERO_BITS] = 0
        if self.mode == "bpc":
            return by_bpc
        by_zvc = classes_of(self._zvc.line_sizes(array))
        return np.where(by_zvc < by_bpc, by_zvc | ZVC_FLAG, by_bpc).astype(np.uint8)

    def encode(self, array: Array) -> tuple[ByteArray, ByteArray]:
        """Metadata, uint8 (entries,), and what is kept, uint8 (entries, 128), zeros behind it."""
        entries = zero_filled(as_bytes(array), ENTRY_BYTES).reshape(-1, ENTRY_BYTES)
        metadata = self.metadata(entries)
        kept = np.zeros(entries.shape, np.uint8)
        as_it_is = metadata == AS_IT_IS
        kept[as_it_is] = entries[as_it_is]
        of_bpc = (metadata > 0) & (metadata < AS_IT_IS)
        kept[of_bpc] = bpc.encode_entries(entries[of_bpc]).data
        of_zvc = metadata >= ZVC_FLAG
        sizes = self._zvc.line_sizes(entries[of_zvc])
        rows = np.zeros((sizes.size, ENTRY_BYTES), np.uint8)
        rows[np.arange(ENTRY_BYTES) < sizes[:, None]] = self._zvc.compress(entries[of_zvc])
        kept[of_zvc] = rows
        return metadata, kept

    def decode(self, metadata: Array, kept: Array) -> RestoredEntries:
        """Restore n entries of metadata uint8 (n,) from what is kept, uint8 (n, 128).

        What is in `kept` behind an entry's size is not looked at. The errors are, by entry and in
        this order,

        - BAD_TOKEN at 0: metadata that no entry of this mode has;
        - those of `cdma.golden.formats.bpc.decoder.decode_entries` and, but for LENGTH_MISMATCH and
          TRAILING_BYTES, `cdma.golden.formats.zvc_decoder.decode`, the class's size being all that
          there is;
        - LENGTH_MISMATCH at the code's end: the code fits a lesser class;
        - NONZERO_FILL: a byte behind the code is not zero; offset: that byte.

        That the other codec, or any codec, would have made for a lesser class is not checked.
        """
        classes = metadata & (ZVC_FLAG - 1)
        of_zvc = metadata >= ZVC_FLAG
        valid = metadata < 2 * ZVC_FLAG
        valid &= ~of_zvc | ((self.mode == "best-of") & (classes > 0) & (classes < AS_IT_IS))
        sizes = _SIZES[classes]
        rows = np.where(np.arange(ENTRY_BYTES) < sizes[:, None], kept, 0).astype(np.uint8)
        status = np.where(valid, StreamStatus.OK, StreamStatus.BAD_TOKEN).astype(np.uint8)
        offset = np.zeros(metadata.size, np.int64)
        used = np.zeros(metadata.size, np.int64)
        data = np.zeros(kept.shape, np.uint8)

        coded = valid & (classes > 0) & (classes < AS_IT_IS)
        by_bpc, by_zvc = coded & ~of_zvc, coded & of_zvc
        decoded = bpc.decode_entries(rows[by_bpc], sizes[by_bpc])
        status[by_bpc], offset[by_bpc] = decoded.status, decoded.offset
        used[by_bpc], data[by_bpc] = -(-decoded.bits // 8), decoded.data
        status[by_zvc], offset[by_zvc], used[by_zvc], data[by_zvc] = self._decode_zvc(
            rows[by_zvc], sizes[by_zvc]
        )
        sound = coded & (status == StreamStatus.OK)
        least = np.where(data.any(axis=1), classes_of(used), 0)
        too_large = sound & (least < classes)
        tail_pad = (np.arange(ENTRY_BYTES) >= used[:, None]) & (rows != 0)
        filled = sound & ~too_large & tail_pad.any(axis=1)
        status[too_large] = StreamStatus.LENGTH_MISMATCH
        offset[too_large] = used[too_large]
        status[filled] = StreamStatus.NONZERO_FILL
        offset[filled] = tail_pad[filled].argmax(axis=1)
        data[too_large | filled] = 0
        data[metadata == AS_IT_IS] = rows[metadata == AS_IT_IS]
        return RestoredEntries(status=status, offset=offset, data=data)

    def _decode_zvc(
        self, rows: ByteArray, sizes: IntArray
    ) -> tuple[ByteArray, IntArray, IntArray, ByteArray]:
        """Status, offset, length of the code and data of codes at the start of rows."""
        count = len(rows)
        mask_bytes = self._zvc.mask_bytes
        elements = np.bitwise_count(rows[:, :mask_bytes]).sum(axis=1, dtype=np.int64)
        used = mask_bytes + elements * self.element_bytes
        lengths = np.minimum(used, sizes)
        decoded = decode_many(
            rows[np.arange(ENTRY_BYTES) < lengths[:, None]],
            np.concatenate([[0], np.cumsum(lengths)]),
            np.full(count, ENTRY_BYTES),
            self.element_bytes,
        )
        data = np.zeros(rows.shape, np.uint8)
        sound = decoded.status == StreamStatus.OK
        bounds = decoded.data_offsets[:-1][sound, None] + np.arange(ENTRY_BYTES)
        data[sound] = decoded.data[bounds]
        return decoded.status, decoded.offset, used, data


def classes_of(nbytes: IntArray) -> ByteArray:
    """The least classes, 1 to 7, that codes of these many bytes fit, uint8; 7 if none."""
    return np.searchsorted(_SIZES[1:AS_IT_IS], nbytes).astype(np.uint8) + np.uint8(1)


def sizes_of(metadata: Array) -> IntArray:
    """Bytes that entries of this metadata take, int64."""
    return _SIZES[metadata & (ZVC_FLAG - 1)]


def sectors_of(metadata: Array) -> IntArray:
    """Sectors of 32 B that entries of this metadata take, 0 to 4, int64."""
    return np.array(SECTORS)[metadata & (ZVC_FLAG - 1)]
