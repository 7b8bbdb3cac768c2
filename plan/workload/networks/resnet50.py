"""ResNet-50: bottlenecks with shortcuts (He et al. 2016, Table 1).

As in torchvision and most trainings since: a stage's stride is in its first 3×3 convolution.
"""

from cdma.plan.workload.builder import Builder
from cdma.plan.workload.networks.normalized import conv_bn, conv_bn_relu

STAGES = ((64, 3), (128, 4), (256, 6), (512, 3))


def resnet50(net: Builder, dataset: str) -> None:
    """ResNet-50 at 224×224. On CIFAR's 32×32 the first convolution is 3×3 with stride 1, and no
    pooling follows, as is common."""
    if dataset == "imagenet":
        x = net.input("data", 3, 224, 224)
        x = conv_bn_relu(net, "conv1", x, 64, 7, stride=2, pad=3)
        x = net.max_pool("pool1", x, 3, 2, pad=1)
        classes = 1000
    else:
        x = net.input("data", 3, 32, 32)
        x = conv_bn_relu(net, "conv1", x, 64, 3, pad=1)
        classes = 10
    for stage, (channels, blocks) in enumerate(STAGES, 2):
        for i in range(blocks):
            stride = 2 if stage > 2 and i == 0 else 1
            x = _bottleneck(net, f"res{stage}{'abcdef'[i]}", x, channels, stride)
    x = net.global_pool("pool5", x)
    net.softmax("prob", net.fc("fc", x, classes))


def _bottleneck(net: Builder, name: str, x: int, channels: int, stride: int) -> int:
    branch = conv_bn_relu(net, f"{name}.conv1", x, channels, 1)
    branch = conv_bn_relu(net, f"{name}.conv2", branch, channels, 3, stride=stride, pad=1)
    branch = conv_bn(net, f"{name}.conv3", branch, 4 * channels, 1)
    if net.shape(x) != net.shape(branch):
        x = conv_bn(net, f"{name}.shortcut", x, 4 * channels, 1, stride=stride)
    return net.relu(f"{name}.relu", net.add(f"{name}.add", branch, x))
