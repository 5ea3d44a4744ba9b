"""What a trained model can do: its scores, its comparison with others, its use elsewhere."""
