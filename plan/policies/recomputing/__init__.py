"""Policies that never use the link: what does not stay is computed again."""
