"""Parameters by tensor: those of the last record, and none of another type, codec or transfer."""

import pytest

from cdma.hw.codec.registry import line_codec
from cdma.hw.dma.control.descriptor import Opcode, Status
from cdma.sim.driver import CompletionRecord, DroppedError, TensorParameterError, TensorParameters
from cdma.sim.driver.ring.queue import Transfer

XC = line_codec("xc")
VALID = 1 << 10


def transfer_with(result, *, codec="xc", opcode=Opcode.COMPRESS_OUT, status=Status.OK):
    transfer = Transfer(7, {"opcode": int(opcode), "codec": line_codec(codec).number or 0})
    transfer.record = CompletionRecord(
        status=status,
        detail=0,
        tag=0,
        src_done=0,
        out_size=0,
        fault_address=0,
        crc32=0,
        index=7,
        cycles=0,
        result=result,
    )
    return transfer


def test_tensor_has_the_usual_parameters_until_a_record_recommends_others():
    tensors = TensorParameters("xc")
    assert tensors.parameters("w", "bfloat16") == {"centre": 126, "pattern": 0}
    assert "w" not in tensors
    assert tensors.learn("w", "bfloat16", transfer_with(119 | 2 << 8 | VALID))
    assert "w" in tensors
    assert tensors.parameters("w", "bfloat16") == {"centre": 119, "pattern": 2}
    assert tensors.parameters("v", "bfloat16") == {"centre": 126, "pattern": 0}
    assert tensors.learn("w", "bfloat16", transfer_with(0 | 1 << 8 | VALID))
    assert tensors.parameters("w", "bfloat16") == {"centre": 0, "pattern": 1}


@pytest.mark.parametrize(
    "transfer",
    [transfer_with(0), transfer_with(119 | VALID, status=Status.WRITE_ERROR)],
    ids=["nothing but zeros", "failed"],
)
def test_record_without_a_recommendation_leaves_what_there_is(transfer):
    tensors = TensorParameters("xc")
    tensors.learn("w", "bfloat16", transfer_with(119 | VALID))
    assert not tensors.learn("w", "bfloat16", transfer)
    assert tensors.parameters("w", "bfloat16") == {"centre": 119, "pattern": 0}


def test_parameters_of_another_type_are_refused_both_ways():
    tensors = TensorParameters("xc")
    tensors.learn("w", "bfloat16", transfer_with(119 | VALID))
    with pytest.raises(TensorParameterError, match="'w' are those of bfloat16, not float16; forg"):
        tensors.parameters("w", "float16")
    with pytest.raises(TensorParameterError, match="'w' are those of bfloat16, not float16; forg"):
        tensors.learn("w", "float16", transfer_with(15 | VALID))
    tensors.forget("w")
    assert tensors.learn("w", "float16", transfer_with(15 | VALID))
    tensors.forget("nobody")


@pytest.mark.parametrize(
    "transfer",
    [
        transfer_with(119 | VALID, codec="zvc"),
        transfer_with(119 | VALID, codec="quantize"),
        transfer_with(119 | VALID, opcode=Opcode.DECOMPRESS_IN),
        transfer_with(119 | VALID, codec="raw", opcode=Opcode.COPY_OUT),
    ],
    ids=["zvc", "quantize", "way in", "copy"],
)
def test_record_of_another_codec_is_refused(transfer):
    tensors = TensorParameters("xc")
    message = r"descriptor 7 .* does not compress with 'xc', .*; give the transfer that took"
    with pytest.raises(TensorParameterError, match=message):
        tensors.learn("w", "bfloat16", transfer)
    assert "w" not in tensors


def test_transfer_without_a_record_is_refused():
    transfer = Transfer(7, {"opcode": int(Opcode.COMPRESS_OUT), "codec": XC.number})
    tensors = TensorParameters("xc")
    with pytest.raises(TensorParameterError, match="has no record yet; wait for it before 'w'"):
        tensors.learn("w", "bfloat16", transfer)
    transfer.dropped = True
    with pytest.raises(DroppedError):
        tensors.learn("w", "bfloat16", transfer)


def test_codecs_whose_records_recommend_nothing_keep_the_usual_parameters():
    tensors = TensorParameters("zvc")
    assert not tensors.learn("w", "float32", transfer_with(0, codec="zvc"))
    assert tensors.parameters("w", "float32") == {}
