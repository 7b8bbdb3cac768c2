"""AlexNet with two groups and normalization, as in Caffe's model zoo (Krizhevsky et al. 2012)."""

from cdma.plan.workload.builder import Builder


def alexnet(net: Builder, dataset: str) -> None:
    """AlexNet at 227×227, as published.

    CIFAR's 32×32 pixels do not carry an 11×11 window of stride 4: there the first convolution is
    3×3 with stride 2 and the poolings are 2×2, a common adaptation, as no paper prints its own.
    """
    if dataset == "imagenet":
        x = net.input("data", 3, 227, 227)
        x = net.conv("conv1", x, 96, 11, stride=4)
        window, classes = 3, 1000
    else:
        x = net.input("data", 3, 32, 32)
        x = net.conv("conv1", x, 96, 3, stride=2, pad=1)
        window, classes = 2, 10
    x = net.relu("relu1", x)
    x = net.lrn("norm1", x)
    x = net.max_pool("pool1", x, window, 2)

    x = net.conv("conv2", x, 256, 5, pad=2, groups=2)
    x = net.relu("relu2", x)
    x = net.lrn("norm2", x)
    x = net.max_pool("pool2", x, window, 2)

    x = net.conv("conv3", x, 384, 3, pad=1)
    x = net.relu("relu3", x)
    x = net.conv("conv4", x, 384, 3, pad=1, groups=2)
    x = net.relu("relu4", x)
    x = net.conv("conv5", x, 256, 3, pad=1, groups=2)
    x = net.relu("relu5", x)
    x = net.max_pool("pool5", x, window, 2)

    for i in (6, 7):
        x = net.fc(f"fc{i}", x, 4096)
        x = net.relu(f"relu{i}", x)
        x = net.dropout(f"drop{i}", x)
    x = net.fc("fc8", x, classes)
    net.softmax("prob", x)
