"""What carries out the work of the clients: one small interface, and a file for each way to do it."""
