"""Simulated time: the devices of the clients, the seconds and joules of their work, and when they are available."""
