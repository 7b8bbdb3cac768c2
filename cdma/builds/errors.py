"""Errors of building a library and of caching it."""


class BuildError(RuntimeError):
    """Sources cannot be turned into a library, as when a compiler is missing."""


class CacheError(BuildError):
    """The cache cannot be written."""
