"""What an experiment is: a recipe, its steps, and what this machine makes of it. Starts nothing."""
