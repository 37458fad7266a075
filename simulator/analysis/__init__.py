"""What can be read off a session afterwards."""
