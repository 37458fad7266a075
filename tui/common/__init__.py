"""What the commands and the app both need of the front: errors, settings, folders, and how things are written."""
