"""A scenario as the arrays that the timeline kernel reads."""

from collections.abc import Iterable, Sequence

import numpy as np

from cdma.plan.timeline.kernel import Floats, Ints, Options, ProblemArrays
from cdma.plan.timeline.memory import fixed_occupants, last_forward_uses
from cdma.plan.timeline.placement import Choice, Placement
from cdma.plan.timeline.scenario import Scenario


def problem_of(scenario: Scenario) -> ProblemArrays:
    """The arrays that no plan changes."""
    graph, stages = scenario.graph, scenario.stages
    producer = np.full(len(graph.tensors), -1, np.int32)
    last_forward = np.full(len(graph.tensors), -1, np.int32)
    for t, s in scenario.stage_of.items():
        producer[t] = s
    for t, s in last_forward_uses(scenario).items():
        last_forward[t] = s
    managed = np.full(len(graph.tensors), -1, np.int32)
    managed[list(graph.managed)] = np.arange(len(graph.managed))
    for t, tensor in enumerate(graph.tensors):
        if tensor.kind == "input":
            # Always there, though a layer in place may write over it.
            producer[t] = -1
    ending: list[list[int]] = [[] for _ in stages]
    for i, t in enumerate(graph.managed):
        ending[last_forward[t]].append(i)
    layers = [[graph.layers[i] for i in stage.layers] for stage in stages]
    scratch = np.array(
        [max(layer.workspace_bytes for layer in group) for group in layers], np.float64
    )
    forward = [scenario.layer_seconds(layer, backward=False) for group in layers for layer in group]
    backward = [scenario.layer_seconds(layer, backward=True) for group in layers for layer in group]
    return ProblemArrays(
        stages=len(stages),
        managed=len(graph.managed),
        duplex=scenario.link.duplex,
        capacity=float(scenario.memory_bytes),
        dram_bytes_per_s=scenario.device.dram_bytes_per_s,
        out_latency_s=scenario.copy_latency[0],
        in_latency_s=scenario.copy_latency[1],
        output=np.array([stage.output for stage in stages], np.int32),
        producer=producer,
        last_forward=last_forward,
        managed_of=managed,
        tensor_of=np.array(graph.managed, np.int32),
        tensor_bytes=np.array([tensor.nbytes for tensor in graph.tensors], np.float64),
        input_start=_starts(stage.inputs for stage in stages),
        input_list=_flat(stage.inputs for stage in stages),
        saved_start=_starts(stage.saved for stage in stages),
        saved_list=_flat(stage.saved for stage in stages),
        ending_start=_starts(ending),
        ending_list=_flat(ending),
        fixed_bytes=_fixed_bytes(scenario),
        scratch_bytes=scratch,
        layer_start=_starts(layers),
        forward_flop_s=np.array([flops for flops, _ in forward], np.float64),
        forward_memory_s=np.array([memory for _, memory in forward], np.float64),
        backward_flop_s=np.array([flops for flops, _ in backward], np.float64),
        backward_memory_s=np.array([memory for _, memory in backward], np.float64),
    )


def options_of(scenario: Scenario, choices: Sequence[Choice], throttle: str) -> Options:
    """The time, memory and traffic of each choice for each managed tensor."""
    tensors = scenario.graph.managed
    shape = (len(tensors), len(choices))
    names = (name for name in Options._fields if name not in ("options", "placement"))
    tables = {name: np.zeros(shape) for name in names}
    for i, t in enumerate(tensors):
        nbytes = scenario.graph.tensors[t].nbytes
        for o, choice in enumerate(choices):
            model = scenario.codec(choice)
            # Whole bytes, so that sums of them are exact.
            stream = float(np.ceil(scenario.stream_bytes(t, choice)))
            compressed_here = model is not None and model.where == "sm"
            if compressed_here:
                tables["held_bytes"][i, o] = stream
                tables["codec_s"][i, o] = scenario.codec_seconds(t, choice)
            if choice.placement is Placement.SWAP:
                out, back = scenario.copy_seconds(t, choice, throttle)
                moved = stream if compressed_here else nbytes
                tables["out_s"][i, o], tables["in_s"][i, o] = out, back
                tables["out_dram"][i, o] = moved / out
                tables["in_dram"][i, o] = moved / back
                tables["link_bytes"][i, o] = stream
    placements = np.array([int(choice.placement) for choice in choices], np.int32)
    return Options(options=len(choices), placement=np.tile(placements, (len(tensors), 1)), **tables)


def _fixed_bytes(scenario: Scenario) -> Floats:
    """Memory in each step that is no managed tensor's."""
    fixed = np.zeros(2 * len(scenario.stages))
    for occupant in fixed_occupants(scenario):
        fixed[occupant.first : occupant.last + 1] += occupant.nbytes
    return fixed


def _starts(lists: Iterable[Sequence[object]]) -> Ints:
    return np.concatenate([[0], np.cumsum([len(part) for part in lists])]).astype(np.int32)


def _flat(lists: Iterable[Sequence[int]]) -> Ints:
    return np.array([item for part in lists for item in part], np.int32)
