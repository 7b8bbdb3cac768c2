"""Boards and the design that tests itself on them."""
