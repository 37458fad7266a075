"""What every other room stands on: errors, sections of a configuration, random streams, tensors, types of records."""
