"""Shared by the commands and the app: errors, settings, folders, and formatting."""
