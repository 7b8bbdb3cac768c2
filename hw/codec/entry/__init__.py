"""Buddy's entries: choosing among formats, checking, restoring."""
