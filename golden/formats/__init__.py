"""One module or folder per format, and the registry that finds a codec by name."""
