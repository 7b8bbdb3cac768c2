"""Chunks of a KV cache out and back through the serde, with the engine's time for each.

    python examples/kv_cache/offload.py
    python examples/kv_cache/offload.py --kv keys_and_values.npy --elements fp16 --codec zvc

Without `--kv` the chunks are made up: keys whose channels have scales of their own, and values, of
normal numbers in bf16, 256 tokens and 1,024 channels in each.
"""

import argparse
import sys
from types import SimpleNamespace

import numpy as np
from engine_time import chunk_times
from serde import CODECS, ELEMENTS, Deserializer, Serializer

from cdma.builds.errors import BuildError
from cdma.golden.formats.bf16 import rounded_to_bf16

TOKENS, CHANNELS, LAYERS = 256, 1024, 2


def made_chunks():
    """Arrays of bf16 bits, uint16 (256, 1024), by name."""
    generator = np.random.default_rng(1)
    found = {}
    for layer in range(LAYERS):
        scales = {"keys": generator.lognormal(0, 1, CHANNELS), "values": 0.5}
        for name, scale in scales.items():
            numbers = generator.standard_normal((TOKENS, CHANNELS)) * scale
            found[f"layer {layer} {name}"] = rounded_to_bf16(numbers.astype(np.float32))
    return found


def chunks_of(path):
    """The rows of an array, each a chunk, by name."""
    array = np.load(path)
    return {f"{path} [{index}]": np.ascontiguousarray(row) for index, row in enumerate(array)}


def memory_obj(nbytes):
    """A buffer as the serving stack's allocator gives it."""
    return SimpleNamespace(byte_array=memoryview(bytearray(nbytes)))


def offload(chunk, serializer, deserializer):
    """Store a chunk and load it again; the bytes that were stored.

    Raises
    ------
    ValueError
        It is not what it was.
    """
    layout = SimpleNamespace(shapes=[chunk.shape], dtypes=[chunk.dtype])
    source = SimpleNamespace(byte_array=memoryview(chunk).cast("B"))
    stored = memory_obj(serializer.estimate_serialized_size(layout))
    size = serializer.serialize(source, stored)
    stored.byte_array = stored.byte_array[:size]
    loaded = memory_obj(chunk.nbytes)
    deserializer.deserialize(stored, loaded)
    if loaded.byte_array.tobytes() != chunk.tobytes():
        raise ValueError("a chunk came back changed; report it")
    return size


def main():
    parser = argparse.ArgumentParser(description="Store and load chunks of a KV cache.")
    parser.add_argument("--kv", metavar="FILE.npy", help="array whose rows are chunks")
    parser.add_argument("--elements", choices=list(ELEMENTS), default="bf16")
    parser.add_argument("--codec", choices=CODECS, default="xc")
    parser.add_argument("--config", default="v100_nvlink2", help="engine and machine")
    parser.add_argument("--link", default="pcie5x16")
    options = parser.parse_args()
    try:
        chunks = made_chunks() if options.kv is None else chunks_of(options.kv)
        serializer = Serializer(options.codec, options.elements)
        deserializer = Deserializer()
        print(f"{options.codec}, {options.elements}; times of the engine {options.config} at")
        print(f"{options.link} by the model of cdma.plan.engine_cost, in us")
        print(f"{'chunk':<24}{'bytes':>10}{'stored':>10}{'ratio':>7}", end="")
        print(f"{'store':>9}{'load':>9}{'copy':>9}{'back':>9}")
        for name, chunk in chunks.items():
            size = offload(chunk, serializer, deserializer)
            data = chunk.reshape(-1).view(np.uint8)
            times = chunk_times(data, serializer.codec_for(data), options.config, options.link)
            print(f"{name:<24}{data.size:>10,}{size:>10,}{data.size / size:>7.2f}", end="")
            for seconds in (times.store_s, times.load_s, times.copy_s, times.copy_back_s):
                print(f"{seconds * 1e6:>9.1f}", end="")
            print()
    except (BuildError, OSError, ValueError) as error:
        sys.exit(f"offload.py: {error}")


if __name__ == "__main__":
    main()
