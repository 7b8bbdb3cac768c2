"""Commands that are broken off: at any byte that they write, at any file that they touch."""
