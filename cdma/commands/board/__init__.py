"""`cdma board`: a self-testing bitstream, and its report."""
