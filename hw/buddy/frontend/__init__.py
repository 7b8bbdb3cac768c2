"""The subordinate port that the GPU drives, and the order of its accesses."""
