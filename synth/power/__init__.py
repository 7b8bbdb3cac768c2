"""Energy from switching activity."""
