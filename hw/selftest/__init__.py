"""A self-test of the zero-value codec for boards, which reports over a UART."""
