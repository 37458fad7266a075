"""Studies: what many sessions have in common, and running them.

    from simulator.studies.study import StudySpec
    study = StudySpec(preset="{method}_htm5", over={"method": ("fedgh", "fedssa"), "seed": (0, 1, 2)})
    planned = plan(Path("sessions/t3"), study)                    # or what is there, which must be the same
    [point.name for point in planned.points]                      # fedgh-s0, fedgh-s1, …
    check(planned.unbegun, planned.folder.parent, data_dir)       # raises where a method cannot run its models
    sweep(planned, Launch(data_dir), jobs=2).failed

values, study, branching: from what is asked to its points. folder: a study in the sessions folder, and what may be
added to it. checking: refusing before anything runs. point, children, sweep: a process for every point, many one after
the other. status: how far each has got. cost: what they will take. shipped: the papers' case studies. selection: which
sessions a command line's names mean.
"""
