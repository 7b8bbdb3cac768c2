"""Documents of IP-XACT as text."""

from cdma.hw.emit.ip.xml import NAMESPACE, named, node, root, text


def test_each_element_has_a_line_and_stands_below_its_parent():
    document = root("component")
    node(document, "name", "packer")
    named(node(document, "ports"), "port", "clk", description="The `clock`.")
    assert text(document).splitlines() == [
        '<?xml version="1.0" encoding="UTF-8"?>',
        f'<ipxact:component xmlns:ipxact="{NAMESPACE}">',
        "  <ipxact:name>packer</ipxact:name>",
        "  <ipxact:ports>",
        "    <ipxact:port>",
        "      <ipxact:name>clk</ipxact:name>",
        "      <ipxact:description>The clock.</ipxact:description>",
        "    </ipxact:port>",
        "  </ipxact:ports>",
        "</ipxact:component>",
    ]
