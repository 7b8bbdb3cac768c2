"""What can go wrong while something is built."""


class BuildError(RuntimeError):
    """Sources cannot be turned into a library, as when a compiler is missing."""


class CacheError(BuildError):
    """The cache cannot be written."""
