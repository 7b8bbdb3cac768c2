"""Networks of any depth, to see what grows with it."""

from cdma.plan.platform.device import device
from cdma.plan.platform.link import link
from cdma.plan.timeline.scenario import Scenario
from cdma.plan.workload.builder import Builder
from cdma.plan.workload.density import density
from cdma.plan.workload.graph import Graph


def repeated_blocks(count: int, memory_bytes: float = 3e8) -> Scenario:
    """So many blocks of two convolutions and a sum, three tensors to decide about in each."""
    net = Builder(8)
    x = net.input("data", 64, 56, 56)
    for i in range(count):
        a = net.bn(f"b{i}.bn", net.conv(f"b{i}.conv1", x, 64, 3, pad=1))
        b = net.conv(f"b{i}.conv2", net.relu(f"b{i}.relu1", a), 64, 3, pad=1)
        x = net.relu(f"b{i}.relu2", net.add(f"b{i}.add", b, x))
    table = net.table()
    graph = Graph(name="blocks", batch=8, tensors=table.tensors, layers=table.layers)
    return Scenario(
        graph=density.apply(graph, density.Declared({"relu": 0.5, "conv": 1.0})),
        device=device("h100"),
        link=link("pcie3x16"),
        memory_bytes=int(memory_bytes),
    )
