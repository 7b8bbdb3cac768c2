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

In the mode "best-of-three", XC is a third code, for entries of bf16 that neither of the other two
makes smaller than they are: metadata 8, which is class 0 with ZVC's bit, is an entry of XC in the
96 B of class 6 (`cdma.golden.buddy.xc_entry`). Centre and pattern are the page's; a page without
them has entries of the other two codes only, as all pages have in the other modes.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from cdma.golden.buddy import xc_entry
from cdma.golden.formats.bpc import bpc
from cdma.golden.formats.interface import Array, CodecError, IntArray, as_bytes, zero_filled
from cdma.golden.formats.stream import LINE_BYTES, ByteArray, StreamStatus
from cdma.golden.formats.zvc import Zvc, decode_many

ENTRY_BYTES = LINE_BYTES
SIZES = (0, 8, 16, 32, 64, 80, xc_entry.KEPT_BYTES, 128)
"""Bytes that the classes take (Buddy Compression, §3.1)."""
SECTOR_BYTES = 32
"""Unit of reads and writes of memory, bytes (Buddy Compression, §3.2)."""
SECTORS = tuple(-(-size // SECTOR_BYTES) for size in SIZES)
METADATA_BITS = 4
ZVC_FLAG = 8
AS_IT_IS = 7
"""The class of entries that are kept as they are."""
XC_METADATA = 8
"""The metadata of entries of XC."""
XC_CLASS = SIZES.index(xc_entry.KEPT_BYTES)
"""The class whose size they take."""
BEST_OF_THREE = "best-of-three"
"""The mode that has entries of XC."""
MODES = ("best-of", "bpc", BEST_OF_THREE)
"""What compresses entries; the order is that of the controller's register."""

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
    mode : "best-of", "bpc" or "best-of-three"
        "best-of" chooses BPC or ZVC for each entry, whichever gives the smaller class; "bpc" always
        uses BPC, as in the paper. "best-of-three" is "best-of", with XC for entries that would be
        kept as they are and fit 96 B with it: none is of XC that another code makes as small.
    element_bytes : int
        4, 2 or 1: ZVC's element size. It is the same for all entries and not in the metadata. XC's
        elements are bf16 whatever it is.

    In all methods, `xc` are the ten bits of XC in a page's entry of the page table, for all entries
    or each, int64 (n,): the centre, and 256 · pattern. With centre 0 a page has no XC. Modes
    without XC take no notice of it.
    """

    def __init__(self, mode: str = "best-of", element_bytes: int = 4) -> None:
        if mode not in MODES:
            raise CodecError(f"unknown mode {mode!r} of entries; choose from {', '.join(MODES)}")
        self.mode = mode
        self._zvc = Zvc(element_bytes)
        self.element_bytes = self._zvc.element_bytes

    def metadata(self, array: Array, xc: npt.ArrayLike = 0) -> ByteArray:
        """Metadata of an array's entries, uint8 (entries,), without building what is kept."""
        code_bits = bpc.code_bits(array)
        by_bpc = classes_of(-(-code_bits // 8))
        # Nothing but zeros has a code this short.
        by_bpc[code_bits == _ALL_ZERO_BITS] = 0
        if self.mode == "bpc":
            return by_bpc
        by_zvc = classes_of(self._zvc.line_sizes(array))
        metadata = np.where(by_zvc < by_bpc, by_zvc | ZVC_FLAG, by_bpc).astype(np.uint8)
        has_xc = self._has_xc(metadata.size, xc)
        candidates = np.flatnonzero(has_xc & (metadata == AS_IT_IS))
        if candidates.size:
            entries = zero_filled(as_bytes(array), ENTRY_BYTES).reshape(-1, ENTRY_BYTES)
            parameters = np.broadcast_to(np.asarray(xc, np.int64), metadata.shape)
            fits = xc_entry.fits(entries[candidates], parameters[candidates])
            metadata[candidates[fits]] = XC_METADATA
        return metadata

    def encode(self, array: Array, xc: npt.ArrayLike = 0) -> tuple[ByteArray, ByteArray]:
        """Metadata, uint8 (entries,), and what is kept, uint8 (entries, 128), zeros behind it."""
        entries = zero_filled(as_bytes(array), ENTRY_BYTES).reshape(-1, ENTRY_BYTES)
        metadata = self.metadata(entries, xc)
        kept = np.zeros(entries.shape, np.uint8)
        as_it_is = metadata == AS_IT_IS
        kept[as_it_is] = entries[as_it_is]
        of_bpc = (metadata > 0) & (metadata < AS_IT_IS)
        kept[of_bpc] = bpc.encode_entries(entries[of_bpc]).data
        of_zvc = metadata > XC_METADATA
        sizes = self._zvc.line_sizes(entries[of_zvc])
        rows = np.zeros((sizes.size, ENTRY_BYTES), np.uint8)
        rows[np.arange(ENTRY_BYTES) < sizes[:, None]] = self._zvc.compress(entries[of_zvc])
        kept[of_zvc] = rows
        of_xc = metadata == XC_METADATA
        if of_xc.any():
            parameters = np.broadcast_to(np.asarray(xc, np.int64), metadata.shape)
            kept[of_xc] = xc_entry.encode(entries[of_xc], parameters[of_xc])
        return metadata, kept

    def classes(self, metadata: Array, xc: npt.ArrayLike = 0) -> ByteArray:
        """The size classes, 0 to 7, that entries of this metadata take, uint8 (n,)."""
        of_xc = (metadata == XC_METADATA) & self._has_xc(metadata.size, xc)
        return np.where(of_xc, XC_CLASS, metadata & (ZVC_FLAG - 1)).astype(np.uint8)

    def decode(self, metadata: Array, kept: Array, xc: npt.ArrayLike = 0) -> RestoredEntries:
        """Restore n entries of metadata uint8 (n,) from what is kept, uint8 (n, 128).

        What is in `kept` behind an entry's size is not looked at. The errors are, by entry and in
        this order,

        - BAD_TOKEN at 0: metadata that no entry of this mode and page has;
        - BAD_TOKEN at 0: an entry of XC that no compressor writes, but for the bytes behind it;
        - those of `cdma.golden.formats.bpc.decoder.decode_entries` and, but for LENGTH_MISMATCH and
          TRAILING_BYTES, `cdma.golden.formats.zvc_decoder.decode`, the class's size being all that
          there is;
        - LENGTH_MISMATCH at the code's end: the code of BPC or ZVC fits a lesser class;
        - NONZERO_FILL: a byte behind the code is not zero; offset: that byte.

        That the other codec, or any codec, would have made for a lesser class is not checked.
        """
        by_xc = (metadata == XC_METADATA) & self._has_xc(metadata.size, xc)
        classes = self.classes(metadata, xc)
        of_zvc = (metadata >= ZVC_FLAG) & ~by_xc
        valid = metadata < 2 * ZVC_FLAG
        valid &= ~of_zvc | ((self.mode != "bpc") & (classes > 0) & (classes < AS_IT_IS))
        sizes = _SIZES[classes]
        rows = np.where(np.arange(ENTRY_BYTES) < sizes[:, None], kept, 0).astype(np.uint8)
        status = np.where(valid, StreamStatus.OK, StreamStatus.BAD_TOKEN).astype(np.uint8)
        offset = np.zeros(metadata.size, np.int64)
        used = np.zeros(metadata.size, np.int64)
        data = np.zeros(kept.shape, np.uint8)

        coded = valid & (classes > 0) & (classes < AS_IT_IS)
        by_bpc, by_zvc = coded & ~of_zvc & ~by_xc, coded & of_zvc
        decoded = bpc.decode_entries(rows[by_bpc], sizes[by_bpc])
        status[by_bpc], offset[by_bpc] = decoded.status, decoded.offset
        used[by_bpc], data[by_bpc] = -(-decoded.bits // 8), decoded.data
        status[by_zvc], offset[by_zvc], used[by_zvc], data[by_zvc] = self._decode_zvc(
            rows[by_zvc], sizes[by_zvc]
        )
        if by_xc.any():
            parameters = np.broadcast_to(np.asarray(xc, np.int64), metadata.shape)
            status[by_xc], used[by_xc], data[by_xc] = xc_entry.decode(
                rows[by_xc], parameters[by_xc]
            )
            # The kind is no fill.
            rows[by_xc, xc_entry.KIND_BYTE] &= np.uint8(0xFF ^ xc_entry.KIND)
        sound = coded & (status == StreamStatus.OK)
        least = np.where(data.any(axis=1), classes_of(used), 0)
        too_large = sound & ~by_xc & (least < classes)
        tail_pad = (np.arange(ENTRY_BYTES) >= used[:, None]) & (rows != 0)
        filled = sound & ~too_large & tail_pad.any(axis=1)
        status[too_large] = StreamStatus.LENGTH_MISMATCH
        offset[too_large] = used[too_large]
        status[filled] = StreamStatus.NONZERO_FILL
        offset[filled] = tail_pad[filled].argmax(axis=1)
        data[too_large | filled] = 0
        data[metadata == AS_IT_IS] = rows[metadata == AS_IT_IS]
        return RestoredEntries(status=status, offset=offset, data=data)

    def _has_xc(self, count: int, xc: npt.ArrayLike) -> npt.NDArray[np.bool_]:
        """Tell which of so many entries are on pages with XC, bool (count,)."""
        here = (self.mode == BEST_OF_THREE) & xc_entry.has_xc(xc)
        return np.broadcast_to(here, (count,))

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
    """Bytes that entries of this metadata take, int64; `EntryCodec.classes` tells XC's before."""
    return _SIZES[metadata & (ZVC_FLAG - 1)]


def sectors_of(metadata: Array) -> IntArray:
    """Sectors of 32 B that entries of this metadata take, 0 to 4, int64; XC as in `sizes_of`."""
    return np.array(SECTORS)[metadata & (ZVC_FLAG - 1)]
