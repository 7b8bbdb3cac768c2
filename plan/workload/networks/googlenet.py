"""GoogLeNet, the first Inception, with its two auxiliary classifiers (Szegedy et al. 2015)."""

from cdma.plan.workload.builder import Builder

# Table 1: channels of 1×1; 3×3's reduction and 3×3; 5×5's reduction and 5×5; pool's projection.
MODULES = {
    "3a": (64, 96, 128, 16, 32, 32),
    "3b": (128, 128, 192, 32, 96, 64),
    "4a": (192, 96, 208, 16, 48, 64),
    "4b": (160, 112, 224, 24, 64, 64),
    "4c": (128, 128, 256, 24, 64, 64),
    "4d": (112, 144, 288, 32, 64, 64),
    "4e": (256, 160, 320, 32, 128, 128),
    "5a": (256, 160, 320, 32, 128, 128),
    "5b": (384, 192, 384, 48, 128, 128),
}
AUXILIARY = {"4a": "loss1", "4d": "loss2"}


def googlenet(net: Builder, dataset: str) -> None:
    """GoogLeNet at 224×224, as in Caffe's model zoo."""
    x = net.input("data", 3, 224, 224)
    x = _relu_conv(net, "conv1/7x7_s2", x, 64, 7, stride=2, pad=3)
    x = net.max_pool("pool1/3x3_s2", x, 3, 2, ceil=True)
    x = net.lrn("pool1/norm1", x)
    x = _relu_conv(net, "conv2/3x3_reduce", x, 64, 1)
    x = _relu_conv(net, "conv2/3x3", x, 192, 3, pad=1)
    x = net.lrn("conv2/norm2", x)
    x = net.max_pool("pool2/3x3_s2", x, 3, 2, ceil=True)
    for place, channels in MODULES.items():
        x = _inception(net, f"inception_{place}", x, *channels)
        if place in AUXILIARY:
            _auxiliary(net, AUXILIARY[place], x)
        if place in ("3b", "4e"):
            x = net.max_pool(f"pool{int(place[0])}/3x3_s2", x, 3, 2, ceil=True)
    x = net.global_pool("pool5/7x7_s1", x)
    x = net.dropout("pool5/drop_7x7_s1", x, 0.4)
    net.softmax("loss3/loss3", net.fc("loss3/classifier", x, 1000))


def _inception(
    net: Builder,
    name: str,
    x: int,
    ones: int,
    reduce_threes: int,
    threes: int,
    reduce_fives: int,
    fives: int,
    projection: int,
) -> int:
    one = _relu_conv(net, f"{name}/1x1", x, ones, 1)
    three = _relu_conv(net, f"{name}/3x3_reduce", x, reduce_threes, 1)
    three = _relu_conv(net, f"{name}/3x3", three, threes, 3, pad=1)
    five = _relu_conv(net, f"{name}/5x5_reduce", x, reduce_fives, 1)
    five = _relu_conv(net, f"{name}/5x5", five, fives, 5, pad=2)
    pool = net.max_pool(f"{name}/pool", x, 3, 1, pad=1)
    pool = _relu_conv(net, f"{name}/pool_proj", pool, projection, 1)
    return net.concat(f"{name}/output", one, three, five, pool)


def _auxiliary(net: Builder, name: str, x: int) -> None:
    x = net.avg_pool(f"{name}/ave_pool", x, 5, 3)
    x = _relu_conv(net, f"{name}/conv", x, 128, 1)
    x = net.fc(f"{name}/fc", x, 1024)
    x = net.relu(f"{name}/relu_fc", x)
    x = net.dropout(f"{name}/drop_fc", x, 0.7)
    net.softmax(f"{name}/loss", net.fc(f"{name}/classifier", x, 1000))


def _relu_conv(
    net: Builder, name: str, x: int, channels: int, kernel: int, *, stride: int = 1, pad: int = 0
) -> int:
    head, _, tail = name.rpartition("/")
    x = net.conv(name, x, channels, kernel, stride=stride, pad=pad)
    return net.relu(f"{head}/relu_{tail}", x)
