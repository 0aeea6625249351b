"""The campaign: faults, a load through all APIs, and one checker of what clients saw (`make soak`)."""
