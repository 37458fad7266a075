"""Reading sessions without torch: what commands, the app, tables, figures and reports are made of.

    from simulator.results.analysis.feed import read
    run = read(Path("sessions/mu07"))           # also while another process runs it
    run.curves["accuracy"], run.curves.accuracy.of(3)  # [rounds], [rounds] of client 3
    reached(run.curves, 0.9)                    # what it took to get to 90 %

run, feed: a session at one moment, read once or as it grows. ledger, client_values: its rounds, as records and as
arrays. overview: listings and many sessions at once, each read no further than is asked. comparison, gain,
variance: several sessions, grouped by axes, over seeds (axes), with what a reader must know (caveats). measures:
the lines they are drawn as. The others compute one thing from sessions. Nothing here knows who reads it: no layout, no
colours, no rounding.
"""
