"""JSON documents of commands: their heads, and the schemas that they are valid against.

`shapes` declares the keys of every document, `registry` names the schemas, `json_schema` turns them
into JSON Schema, and `reference` into a page. `document` puts the head before what a command found.
"""

from cdma.schemas.document import document
from cdma.schemas.registry import SCHEMAS, Schema

__all__ = ["SCHEMAS", "Schema", "document"]
