"""The numbers of sessions, as the app draws them and as your own scripts can: torch is not needed.

    from htfl_sim.analysis import Feed, best_round, feed

    run = feed.read(Path("sessions/mu07"))   # one session now, also while another process runs it
    run.curves["accuracy"]                   # [rounds] mean test accuracy, 0…1
    best_round(run.curves["accuracy"])       # the highest, and its round
    Feed(folder).poll()                      # whether a live session has changed since

`simulator.results.analysis` has all of them, a module for each topic.
"""

from simulator.results.analysis import feed
from simulator.results.analysis.classes import class_counts, class_table, recalls
from simulator.results.analysis.clients import best_round, lowest_client
from simulator.results.analysis.feed import Feed

__all__ = ["Feed", "best_round", "class_counts", "class_table", "feed", "lowest_client", "recalls"]
