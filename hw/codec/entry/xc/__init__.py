"""Entries of XC: lines of bf16 in three sectors, without a header."""
