"""What is computed afterwards from the models of a kept checkpoint."""
