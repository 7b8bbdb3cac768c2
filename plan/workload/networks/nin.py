"""Network in network: 1×1 convolutions behind every convolution (Lin et al. 2014)."""

from cdma.plan.workload.builder import Builder


def nin(net: Builder, dataset: str) -> None:
    """Network in Network as its authors' Caffe models: 224×224 for ImageNet, 32×32 for CIFAR."""
    if dataset == "imagenet":
        _imagenet(net)
    else:
        _cifar(net)


def _imagenet(net: Builder) -> None:
    x = net.input("data", 3, 224, 224)
    x = _relu_conv(net, "conv1", x, 96, 11, stride=4)
    x = _relu_conv(net, "cccp1", x, 96, 1)
    x = _relu_conv(net, "cccp2", x, 96, 1)
    x = net.max_pool("pool0", x, 3, 2, ceil=True)
    x = _relu_conv(net, "conv2", x, 256, 5, pad=2)
    x = _relu_conv(net, "cccp3", x, 256, 1)
    x = _relu_conv(net, "cccp4", x, 256, 1)
    x = net.max_pool("pool2", x, 3, 2, ceil=True)
    x = _relu_conv(net, "conv3", x, 384, 3, pad=1)
    x = _relu_conv(net, "cccp5", x, 384, 1)
    x = _relu_conv(net, "cccp6", x, 384, 1)
    x = net.max_pool("pool3", x, 3, 2, ceil=True)
    x = net.dropout("drop", x)
    x = _relu_conv(net, "conv4", x, 1024, 3, pad=1)
    x = _relu_conv(net, "cccp7", x, 1024, 1)
    x = _relu_conv(net, "cccp8", x, 1000, 1)
    net.softmax("prob", net.global_pool("pool4", x))


def _cifar(net: Builder) -> None:
    x = net.input("data", 3, 32, 32)
    x = _relu_conv(net, "conv1", x, 192, 5, pad=2)
    x = _relu_conv(net, "cccp1", x, 160, 1)
    x = _relu_conv(net, "cccp2", x, 96, 1)
    x = net.max_pool("pool1", x, 3, 2, ceil=True)
    x = net.dropout("drop3", x)
    x = _relu_conv(net, "conv2", x, 192, 5, pad=2)
    x = _relu_conv(net, "cccp3", x, 192, 1)
    x = _relu_conv(net, "cccp4", x, 192, 1)
    x = net.avg_pool("pool2", x, 3, 2, ceil=True)
    x = net.dropout("drop6", x)
    x = _relu_conv(net, "conv3", x, 192, 3, pad=1)
    x = _relu_conv(net, "cccp5", x, 192, 1)
    x = _relu_conv(net, "cccp6", x, 10, 1)
    net.softmax("prob", net.global_pool("pool3", x))


def _relu_conv(
    net: Builder, name: str, x: int, channels: int, kernel: int, *, stride: int = 1, pad: int = 0
) -> int:
    x = net.conv(name, x, channels, kernel, stride=stride, pad=pad)
    return net.relu(f"{name}.relu", x)
