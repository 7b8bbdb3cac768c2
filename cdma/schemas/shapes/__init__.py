"""Keys of every document, as `TypedDict`s: what is declared here is what `cdma schema` shows.

A class's docstring is its description in the schema, and `Annotated[type, "text"]` a key's. Units
are in the keys' names.
"""
