"""Host software without RTL: workloads, costs, timelines, policies and searches."""
