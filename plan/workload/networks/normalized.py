"""A convolution with batch normalization, as the networks since 2015 have it."""

from cdma.plan.workload.builder import Builder, Pair


def conv_bn(
    net: Builder,
    name: str,
    x: int,
    channels: int,
    kernel: Pair,
    *,
    stride: int = 1,
    pad: Pair = 0,
    groups: int = 1,
) -> int:
    """A convolution, whose bias the normalization makes superfluous, and the normalization."""
    x = net.conv(name, x, channels, kernel, stride=stride, pad=pad, groups=groups, bias=False)
    return net.bn(f"{name}.bn", x)


def conv_bn_relu(
    net: Builder,
    name: str,
    x: int,
    channels: int,
    kernel: Pair,
    *,
    stride: int = 1,
    pad: Pair = 0,
    groups: int = 1,
) -> int:
    """Add a convolution, its batch normalization and an in-place ReLU."""
    x = conv_bn(net, name, x, channels, kernel, stride=stride, pad=pad, groups=groups)
    return net.relu(f"{name}.relu", x)
