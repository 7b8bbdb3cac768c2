"""Time that cdma's engine takes for a chunk, by the closed form that its RTL is held to.

Nothing is simulated here: `cdma.plan.engine_cost` computes the cycles from the bytes of every line.
docs/guide/swap/estimate.md says how far that is from the RTL, and `cdma swap` runs the RTL.
"""

from dataclasses import dataclass, replace

from cdma.plan.engine_cost.setup import Setup


@dataclass(frozen=True)
class ChunkTimes:
    """Seconds of a chunk alone, from doorbell to record.

    Attributes
    ----------
    store_s, load_s : float
        To the host and back, compressed by the engine.
    copy_s, copy_back_s : float
        The same as plain copies.
    """

    store_s: float
    load_s: float
    copy_s: float
    copy_back_s: float


def chunk_times(data, codec, config="v100_nvlink2", link="pcie5x16"):
    """The engine's times for a chunk, uint8 (bytes,).

    Parameters
    ----------
    data : uint8 array (bytes,)
        At least one byte.
    codec : cdma.golden.Codec
        ZVC or XC, as `Serializer.codec_for` gives it.
    config, link : str
        Engine and machine, and the link between them, by the names of `cdma list`.

    Raises
    ------
    ConfigError, LinkError, EstimateError
        There is no such engine or link, or the chunk is empty.
    ValueError
        The codec is XC of other elements than bf16, which the engine does not have.
    """
    if codec.name == "xc" and (codec.element_bytes, codec.exponent_bits) != (2, 8):
        raise ValueError("the engine's XC takes bf16; choose these elements, or zvc")
    setup = Setup.named(config, link)
    # The engine's granule: XC has lines of any number of bytes, whatever its elements are.
    granule = 1 if codec.name == "xc" else codec.element_bytes
    shape = replace(setup.engine.codec, element_bytes=granule)
    setup = replace(setup, engine=replace(setup.engine, codec=shape)).with_codec(codec.name)
    lines = codec.line_sizes(data).tolist()

    def compressed(way):
        return setup.cost(data.size, sum(lines), way, lines=lines).seconds

    def plain(way):
        return setup.cost(data.size, data.size, way, compressed=False).seconds

    return ChunkTimes(compressed("out"), compressed("in"), plain("out"), plain("in"))
