"""The parameters of each tensor's next transfer: what the record of its last one recommends."""

from dataclasses import dataclass

from cdma.hw.codec.interface import LineCodec
from cdma.hw.codec.registry import line_codec
from cdma.hw.dma.control.descriptor import Opcode
from cdma.sim.driver.errors import DriverError
from cdma.sim.driver.ring.queue import Transfer


class TensorParameterError(DriverError):
    """Raised where parameters of one kind of data would be used for another: "cause; mend"."""


@dataclass
class _Entry:
    dtype: str
    parameters: dict[str, int]


class TensorParameters:
    """Keeps a codec's parameters by tensor, so that none has to be looked at before it is sent.

    The data of a tensor are much like those of the step before. So parameters that would suit those
    suit these; the engine finds them on the way, and its record returns them.

        parameters = tensors.parameters("fc1.weight", "bfloat16")
        transfer = engine.submit(host, device, nbytes, kind, codec, parameters=parameters)
        engine.wait(transfer)
        tensors.learn("fc1.weight", "bfloat16", transfer)

    A stream comes back with the parameters that it was made with, which the caller keeps beside it.

    Parameters
    ----------
    codec : str
        A name of `cdma.hw.codec.registry`. Of a codec without such a result, parameters stay the
        usual ones.
    """

    def __init__(self, codec: str) -> None:
        self.codec = codec
        self._line_codec: LineCodec = line_codec(codec)
        self._entries: dict[str, _Entry] = {}

    def __contains__(self, tensor: object) -> bool:
        """Return True for a tensor whose parameters a record has recommended."""
        return tensor in self._entries

    def parameters(self, tensor: str, dtype: str) -> dict[str, int]:
        """All parameters of a tensor's next transfer; the usual ones of one that is not known.

        Raises
        ------
        TensorParameterError
            The tensor is known with another type.
        """
        entry = self._entry(tensor, dtype)
        return self._line_codec.all_parameters(entry.parameters if entry else {})

    def learn(self, tensor: str, dtype: str, transfer: Transfer) -> bool:
        """Take what a transfer's record recommends, and return whether it recommends anything.

        It recommends nothing if the transfer failed, or had nothing but zeros to go by; parameters
        then stay as they are.

        Raises
        ------
        TensorParameterError
            The tensor is known with another type, or the transfer is none that compresses with the
            codec.
        DroppedError
            The transfer was dropped by a reset.
        """
        self._entry(tensor, dtype)
        fields = transfer.fields
        number = fields.get("codec", 0)
        if fields.get("opcode") != Opcode.COMPRESS_OUT or number != self._line_codec.number:
            raise TensorParameterError(
                f"{transfer} does not compress with {self.codec!r}, and so its record says nothing "
                f"of the parameters of {tensor!r}; give the transfer that took the tensor out"
            )
        if not transfer.done:
            raise TensorParameterError(
                f"{transfer} has no record yet; wait for it before {tensor!r} learns from it"
            )
        record = transfer.result()
        if not record.ok:
            return False
        result = self._line_codec.unpacked_result(record.result)
        found = self._line_codec.parameters_from_result(result)
        if found is None:
            return False
        self._entries[tensor] = _Entry(dtype, found)
        return True

    def forget(self, tensor: str) -> None:
        """Forget a tensor, which may then have another type; nothing happens if it is unknown."""
        self._entries.pop(tensor, None)

    def _entry(self, tensor: str, dtype: str) -> _Entry | None:
        entry = self._entries.get(tensor)
        if entry is not None and entry.dtype != dtype:
            raise TensorParameterError(
                f"the parameters of {tensor!r} are those of {entry.dtype}, not {dtype}; forget the "
                "tensor first, or give this one another name"
            )
        return entry
