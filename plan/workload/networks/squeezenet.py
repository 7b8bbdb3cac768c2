"""SqueezeNet 1.0: fire modules of 1×1 and 3×3 convolutions (Iandola et al. 2016, Table 1)."""

from cdma.plan.workload.builder import Builder

# Channels of the squeeze layer, and of each of the two expand layers.
FIRES = {
    2: (16, 64),
    3: (16, 64),
    4: (32, 128),
    5: (32, 128),
    6: (48, 192),
    7: (48, 192),
    8: (64, 256),
    9: (64, 256),
}


def squeezenet(net: Builder, dataset: str) -> None:
    """SqueezeNet at 227×227, as its authors train it.

    On CIFAR's 32×32 the first convolution is 3×3 with stride 1, as is common; all else is alike.
    """
    if dataset == "imagenet":
        x = net.input("data", 3, 227, 227)
        x = net.conv("conv1", x, 96, 7, stride=2)
        classes = 1000
    else:
        x = net.input("data", 3, 32, 32)
        x = net.conv("conv1", x, 96, 3, pad=1)
        classes = 10
    x = net.relu("relu_conv1", x)
    x = net.max_pool("pool1", x, 3, 2, ceil=True)
    for i, (squeeze, expand) in FIRES.items():
        x = _fire(net, f"fire{i}", x, squeeze, expand)
        if i in (4, 8):
            x = net.max_pool(f"pool{i}", x, 3, 2, ceil=True)
    x = net.dropout("drop9", x)
    x = net.conv("conv10", x, classes, 1)
    x = net.relu("relu_conv10", x)
    net.softmax("prob", net.global_pool("pool10", x))


def _fire(net: Builder, name: str, x: int, squeeze: int, expand: int) -> int:
    x = net.conv(f"{name}/squeeze1x1", x, squeeze, 1)
    x = net.relu(f"{name}/relu_squeeze1x1", x)
    small = net.conv(f"{name}/expand1x1", x, expand, 1)
    small = net.relu(f"{name}/relu_expand1x1", small)
    large = net.conv(f"{name}/expand3x3", x, expand, 3, pad=1)
    large = net.relu(f"{name}/relu_expand3x3", large)
    return net.concat(f"{name}/concat", small, large)
