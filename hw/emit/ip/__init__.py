"""A generated block as a folder for other flows: RTL, descriptions, constraints and a bench."""
