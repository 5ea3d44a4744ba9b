"""Results on a GPU equal those on the CPU."""
