"""The terminal: signals that end a command, progress on stderr, and the tables of reports."""
