"""The base of all other rooms: errors, sections of a configuration, random streams, tensors, types of records."""
