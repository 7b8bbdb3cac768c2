"""Plain copies: lines as they are."""
