"""The whole engine on two simulators, between memories that are not ours; and in the machine."""

import dataclasses

import numpy as np
import pytest

from cdma.hw.config import CodecConfig, EngineConfig, preset
from cdma.hw.dma.control.descriptor import RECORD_DTYPE
from cdma.hw.dma.control.registers import register_map
from cdma.sim.machine import Machine, MachineConfig
from cdma.sim.machine.build.rtl import generated_engine
from tests.hw.cocotb import simulate
from tests.hw.cocotb.engine.benches import EngineScenario, Run
from tests.hw.cocotb.engine.plans import PAGE, sweep_parts
from tests.sim.machine.engine.cases import SMALL

PARTS = sweep_parts(SMALL)
"""Of the sweep; all of them are for `make verify`."""

OTHERS = {
    "tiny": preset("tiny"),
    "one": EngineConfig(
        units=1, buffer_bytes=512, read_buffer_bytes=1024, write_bursts=1, split_lines=1
    ),
    "three-bytes": EngineConfig(
        codec=CodecConfig(element_bytes=1),
        units=3,
        buffer_bytes=4096,
        read_buffer_bytes=2048,
        write_bursts=2,
    ),
    "wide": EngineConfig(
        codec=CodecConfig(element_bytes=2, sector_bytes=128),
        units=2,
        host_bytes=128,
        buffer_bytes=1024,
        read_buffer_bytes=8192,
    ),
}


def sweep(part, stall):
    return Run(plan="sweep", arguments={"part": part}, stall=stall, seed=part + 1)


def mixed(count, longest, stall, seed=1):
    return Run(plan="mixed", arguments={"count": count, "longest": longest}, stall=stall, seed=seed)


def faulty(count, stall, seed=1):
    return Run(plan="faulty", arguments={"count": count}, stall=stall, seed=seed)


def run(engine_builds, simulator, bench, runs, folder, *, config=SMALL, **more):
    build = engine_builds(simulator, config, initial_values=not more.get("unknown"))
    scenario = EngineScenario(config=dataclasses.asdict(config), runs=tuple(runs), **more)
    simulate.run(build, bench, scenario, folder, module="tests.hw.cocotb.engine.benches")


@pytest.mark.verify
def test_every_length_comes_from_every_offset_to_every_offset(engine_builds, tmp_path):
    """The first part of the sweep; the others are `test_whole_sweep`'s."""
    run(engine_builds, "verilator", "transfers", [sweep(0, 0.3)], tmp_path)


@pytest.mark.verify
def test_interrupts_come_with_the_records_that_ask_for_them(engine_builds, tmp_path):
    runs = [Run(plan="interrupts", stall=stall) for stall in (0.0, 0.4)]
    run(engine_builds, "verilator", "interrupts", runs, tmp_path)


class Software:
    """A plan in the machine: no driver, just the ring."""

    def __init__(self, plan, machine):
        self.plan = plan
        self.machine = machine
        self.map = register_map()
        machine.device[:] = plan.device.before
        machine.host[:] = plan.host.before

    def write(self, name, **fields):
        register = self.map[name]
        word = sum(register.fields[field].put(value) for field, value in fields.items())
        self.machine.write_register(register.offset, word)

    def run(self):
        plan, count = self.plan, len(self.plan.steps)
        self.write("RING_BASE_LO", address=plan.ring_base % 2**32 >> 6)
        self.write("RING_BASE_HI", address=plan.ring_base >> 32)
        self.write("RING_SIZE", log2_entries=plan.log2_entries)
        self.write("CONTROL", enable=1)
        given = done = 0
        while done < count:
            while given < min(count, done + plan.entries):
                start = plan.slot(given) - plan.host.base
                descriptor = plan.packed(given)
                self.machine.host[start : start + len(descriptor)] = list(descriptor)
                given += 1
            self.write("RING_TAIL", index=given)
            self.machine.run(100)
            ended = self.machine.read_register(self.map["RING_DONE"].offset)
            assert ended >= done
            done = ended
            assert self.machine.cycles < 1_000_000
        self.machine.run_until_idle(10_000)


def without_cycles(plan, host):
    """The memory, zero where records have their cycles."""
    host = host.copy()
    offset = RECORD_DTYPE.fields["cycles"][1]
    for index in range(len(plan.steps)):
        start = plan.record_address(index) - plan.host.base + offset
        host[start : start + 8] = 0
    return host


@pytest.mark.verify
@pytest.mark.parametrize("stalls", [0.0, 0.3])
def test_machine_leaves_the_same_memories_as_the_simulation(engine_builds, stalls, tmp_path):
    runs = [mixed(40, 3000, stalls), faulty(2, stalls)]
    run(engine_builds, "verilator", "transfers", runs, tmp_path, save=str(tmp_path))
    environment = MachineConfig(channels=SMALL.units)
    for number, one in enumerate(runs):
        plan = one.make(SMALL)
        with Machine(
            generated_engine(SMALL),
            environment,
            device_bytes=len(plan.device.before),
            host_bytes=len(plan.host.before),
            device_base=plan.device.base,
            host_base=plan.host.base,
            stalls=stalls,
            seed=number,
        ) as machine:
            Software(plan, machine).run()
            plan.check(machine.device, machine.host)
            seen = np.load(tmp_path / f"{number}.npz")
            same = machine.device == seen["device"]
            # What failed may have left anything.
            assert (same | plan.device.anything).all()
            assert plan.device.anything.sum() < 10 * PAGE
            np.testing.assert_array_equal(
                without_cycles(plan, machine.host), without_cycles(plan, seen["host"])
            )


@pytest.mark.verify
def test_icarus_does_the_same_in_the_same_cycles(engine_builds, tmp_path):
    runs = [
        mixed(6, 600, 0.3),
        faulty(1, 0.0),
        Run(plan="sweep", arguments={"part": 0, "cells": 40}, stall=0.1),
    ]
    logs = []
    for simulator in ("verilator", "icarus"):
        log = tmp_path / f"{simulator}.log"
        run(engine_builds, simulator, "transfers", runs, tmp_path / simulator, log=str(log))
        logs.append(log.read_text().splitlines())
    verilator, icarus = logs
    assert len(verilator) > 1000
    assert verilator == icarus


@pytest.mark.verify
def test_no_output_is_unknown_after_reset(engine_builds, tmp_path):
    run(
        engine_builds,
        "icarus",
        "outputs_are_known_after_reset",
        [mixed(10, 400, 0.3)],
        tmp_path,
        unknown=True,
    )


@pytest.mark.verify
@pytest.mark.parametrize("first", range(0, PARTS, 4))
def test_whole_sweep(engine_builds, first, tmp_path):
    parts = range(first, min(first + 4, PARTS))
    runs = [sweep(part, stall) for part, stall in zip(parts, (0.0, 0.1, 0.5, 0.8), strict=False)]
    run(engine_builds, "verilator", "transfers", runs, tmp_path)


@pytest.mark.verify
@pytest.mark.parametrize("config", OTHERS.values(), ids=OTHERS)
def test_other_engines(engine_builds, config, tmp_path):
    runs = [sweep(0, 0.2), sweep(1, 0.5), mixed(60, 3000, 0.3), faulty(4, 0.3)]
    run(engine_builds, "verilator", "transfers", runs, tmp_path, config=config)


@pytest.mark.verify
@pytest.mark.parametrize("config", [OTHERS["tiny"]], ids=["tiny"])
def test_other_engines_on_icarus(engine_builds, config, tmp_path):
    runs = [
        Run(plan="sweep", arguments={"part": 0, "cells": 100}, stall=0.3),
        mixed(20, 300, 0.3),
        faulty(1, 0.3),
    ]
    for unknown in (True, False):
        run(
            engine_builds,
            "icarus",
            "outputs_are_known_after_reset",
            runs,
            tmp_path / str(unknown),
            config=config,
            unknown=unknown,
        )
