"""What a GPU must give: the results of the CPU."""
