"""Reading sessions without torch: what commands, the app, tables, figures and reports are made of.

    from simulator.results.analysis.feed import read
    run = read(Path("sessions/mu07"))           # also while another process runs it
    run.curves["accuracy"], run.curves.accuracy.of(3)  # [rounds], [rounds] of client 3
    reached(run.curves, 0.9)                    # what it took to get to 90 %

run, feed: a session at one moment, read once or as it grows. ledger, curves: its rounds, as records and as arrays.
quantiles, costs, clients, cka, milestones: what is computed from them. comparison, table: several
sessions, grouped by axes, over seeds (averages), beside what papers printed. measures: the lines they are drawn as.
selection: which sessions are meant; overview: reading many at once, each no further (totals) than a table takes.
summary, lineage: listings, which read only the end of each ledger. reproduction: the command lines that give a session
again. static_names: names of methods and model groups, from source text. Nothing here knows who reads it: no layout,
no colours, no rounding.
"""
