"""A design that tests the zero-value codec by itself and tells over a UART: for boards."""
