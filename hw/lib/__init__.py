"""Parts that any component uses: streams, buffers, memories, wide adders, codes."""
