"""The front of htfl-sim: everything a person types or sees."""
