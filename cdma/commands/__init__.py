"""The commands, one file or folder each: options, then the report that is printed or written."""
