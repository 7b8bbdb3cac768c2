"""Elements of IP-XACT documents (IEEE 1685-2014)."""

from xml.etree import ElementTree
from xml.etree.ElementTree import Element, SubElement

NAMESPACE = "http://www.accellera.org/XMLSchema/IPXACT/1685-2014"


def root(name: str) -> Element:
    """Return an element that a document begins with."""
    ElementTree.register_namespace("ipxact", NAMESPACE)
    return Element(_tag(name))


def node(parent: Element, tag: str, text: object = None, /, **attributes: object) -> Element:
    """Append an element to another; None is no text."""
    added = SubElement(parent, _tag(tag), {key: str(value) for key, value in attributes.items()})
    if text is not None:
        added.text = str(text)
    return added


def named(parent: Element, kind: str, name: str, title: str = "", description: str = "") -> Element:
    """Append an element that begins with a name, a title for people and a description."""
    added = node(parent, kind)
    node(added, "name", name)
    if title:
        node(added, "displayName", title)
    if description:
        node(added, "description", " ".join(description.replace("`", "").split()))
    return added


def text(document: Element) -> str:
    """Return the document, indented."""
    ElementTree.indent(document)
    body = ElementTree.tostring(document, encoding="unicode")
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{body}\n'


def _tag(name: str) -> str:
    return f"{{{NAMESPACE}}}{name}"
