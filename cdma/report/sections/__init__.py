"""Sections of the page, a module per command: what its JSON object shows, and in what order."""
