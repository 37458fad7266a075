"""Sessions handed to other programs: tables, trackers' runs, and models that load without htfl-sim.

following: a session's rounds sent to a sink, also while they are run. sinks: those of csv_file and trackers by name;
each loads its library when it is made. program, weights: a client's model as plainly named safetensors and a Python
file that needs torch alone.
"""
