"""What every other room may use: errors, files, arguments, places, checkpoints."""
