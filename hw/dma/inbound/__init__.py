"""Host memory to device memory: receive, split, expand, report."""
