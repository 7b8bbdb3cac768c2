"""Parts that any component uses: streams, buffers, wide adders, checksums, error correction."""
