"""Training: the work of a client or the server in a round, and the training loop."""
