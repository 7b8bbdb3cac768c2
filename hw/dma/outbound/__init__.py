"""Device memory to host memory: read, compress, buffer, drain, write."""
