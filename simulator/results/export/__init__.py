"""Sessions handed to other programs: tables, trackers' runs, and models that load without htfl-sim."""
