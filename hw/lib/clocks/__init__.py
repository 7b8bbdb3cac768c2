"""Between two clocks: registers in a row, and queues with Gray-coded pointers."""
