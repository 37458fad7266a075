"""Studies: what many sessions have in common, and running them.

    from simulator.studies.study import Study
    study = Study(preset="{method}_htm5", over={"method": ("fedgh", "fedssa"), "seed": (0, 1, 2)})
    [point.name for point in study.points(Path("sessions"))]      # fedgh-s0, fedgh-s1, …

values, study, branching: from what is asked to its points. folder: a study in the sessions folder, and what may be
added to it. checking: refusing before anything runs. point, children, sweep: a process for every point, many one
after the other. status: how far each has got. cost: what they will take. shipped: the papers' case studies.
"""
