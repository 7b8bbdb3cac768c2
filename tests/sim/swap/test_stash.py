"""Bytes that wait in host memory."""

import numpy as np
import pytest

from cdma.sim.driver import Engine, TransferError
from cdma.sim.swap import Stash, StashError
from cdma.sim.swap import stash as stash_module
from tests.sim.machine.engine.model import ModelMachine


def sparse(nbytes, seed=0):
    rng = np.random.default_rng(seed)
    words = rng.integers(1, 2**32, -(-nbytes // 4), np.uint32)
    words[rng.random(words.size) < 0.6] = 0
    return words.view(np.uint8)[:nbytes]


@pytest.fixture
def engine():
    return Engine(ModelMachine())


@pytest.fixture
def free(engine):
    return engine.device.free_bytes, engine.host.free_bytes


def free_now(engine):
    return engine.device.free_bytes, engine.host.free_bytes


@pytest.mark.parametrize("codec", ["zvc", None])
@pytest.mark.parametrize("nbytes", [1, 1026, 70_000])
def test_comes_back_to_the_bit(engine, free, codec, nbytes):
    stash, array = Stash(engine), sparse(nbytes)
    stashed = stash.put(array, codec)
    assert engine.device.free_bytes == free[0]
    assert free[1] - engine.host.free_bytes == stashed.stream_bytes == stash.stream_bytes
    np.testing.assert_array_equal(stash.get(stashed), array)
    stash.drop(stashed)
    assert free_now(engine) == free
    assert (stash.nbytes, stash.stream_bytes) == (0, 0)


def test_a_stream_takes_the_room_that_it_needs(engine):
    stash = Stash(engine)
    stashed = stash.put(np.zeros(128 * 100, np.uint8), "zvc")
    assert stashed.stream_bytes == 400
    assert stashed.nbytes == 12_800


def test_large_arrays_go_in_pieces(engine, free, monkeypatch):
    monkeypatch.setattr(stash_module, "TRANSFER_BYTES", 4096)
    stash, array = Stash(engine), sparse(10_000)
    stashed = stash.put(array, "zvc")
    assert [piece.nbytes for piece in stashed.pieces] == [4096, 4096, 1808]
    np.testing.assert_array_equal(stash.get(stashed), array)
    stash.drop(stashed)
    assert free_now(engine) == free


def test_counts_what_moved(engine):
    stash = Stash(engine)
    first, second = stash.put(sparse(4096), "zvc"), stash.put(sparse(2048), None)
    stash.get(first)
    assert (stash.out.arrays, stash.out.nbytes) == (2, 6144)
    assert stash.out.stream_bytes == first.stream_bytes + 2048
    assert second.stream_bytes == 2048
    assert (stash.back.arrays, stash.back.nbytes) == (1, 4096)
    assert 0 < stash.back.cycles < stash.out.cycles


@pytest.mark.parametrize("codec", ["zvc", None])
def test_what_has_changed_at_the_host_does_not_come_back(engine, codec):
    stash = Stash(engine)
    stashed = stash.put(sparse(4096), codec)
    stashed.pieces[0].buffer.array[8] ^= 1
    with pytest.raises((StashError, TransferError)):
        stash.get(stashed)
    assert engine.device.free_bytes == engine.device.array.size


def test_no_room_at_the_host(engine, free):
    stash = Stash(engine)
    stashed = [stash.put(sparse(200_000, seed), None) for seed in range(4)]
    with pytest.raises(StashError, match=r"800000 bytes are out as 800000: .* more host_bytes"):
        stash.put(sparse(400_000), None)
    # Of a whole array that does not fit, nothing is left.
    assert engine.device.free_bytes == free[0]
    assert free[1] - engine.host.free_bytes == 800_000
    for k, one in enumerate(stashed):
        np.testing.assert_array_equal(stash.get(one), sparse(200_000, k))


def test_pieces_of_an_array_that_does_not_fit_are_given_back(engine, free, monkeypatch):
    monkeypatch.setattr(stash_module, "TRANSFER_BYTES", 65_536)
    with pytest.raises(StashError, match="host memory has no"):
        Stash(engine).put(np.ones(2 << 20, np.uint8), None)
    assert free_now(engine) == free


def test_no_room_on_the_device(engine):
    engine.device.alloc(engine.device.free_bytes - 4096)
    with pytest.raises(StashError, match="more device_bytes"):
        Stash(engine).put(sparse(8192), None)


def test_an_interrupted_transfer_is_freed_when_it_has_ended(engine, free, monkeypatch):
    stash = Stash(engine)
    wait = engine.wait

    def interrupted(transfer):
        raise KeyboardInterrupt

    monkeypatch.setattr(engine, "wait", interrupted)
    with pytest.raises(KeyboardInterrupt):
        stash.put(sparse(4096), "zvc")
    assert free_now(engine) != free
    monkeypatch.setattr(engine, "wait", wait)
    engine.wait_all()
    stash.drop(stash.put(sparse(128), "zvc"))
    assert free_now(engine) == free
