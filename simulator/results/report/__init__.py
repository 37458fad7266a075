"""One page about some sessions, to send and to keep: a single HTML file that needs nothing else."""
