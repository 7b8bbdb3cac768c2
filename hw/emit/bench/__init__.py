"""Self-checking benches of generated blocks, in SystemVerilog, with vectors from golden models."""
