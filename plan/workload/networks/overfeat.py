"""OverFeat, the fast model (Sermanet et al. 2014, Table 1)."""

from cdma.plan.workload.builder import Builder


def overfeat(net: Builder, dataset: str) -> None:
    """OverFeat at 231×231, as published; its windows leave nothing of smaller images."""
    x = net.input("data", 3, 231, 231)
    x = net.conv("conv1", x, 96, 11, stride=4)
    x = net.relu("relu1", x)
    x = net.max_pool("pool1", x, 2, 2)
    x = net.conv("conv2", x, 256, 5)
    x = net.relu("relu2", x)
    x = net.max_pool("pool2", x, 2, 2)
    for i, channels in enumerate((512, 1024, 1024), 3):
        x = net.conv(f"conv{i}", x, channels, 3, pad=1)
        x = net.relu(f"relu{i}", x)
    x = net.max_pool("pool5", x, 2, 2)
    for i, neurons in ((6, 3072), (7, 4096)):
        x = net.fc(f"fc{i}", x, neurons)
        x = net.relu(f"relu{i}", x)
        x = net.dropout(f"drop{i}", x)
    x = net.fc("fc8", x, 1000)
    net.softmax("prob", x)
