"""Studies: many sessions with common settings, and how they are run.

    from simulator.studies.study import StudySpec
    study = StudySpec(preset="{method}_htm5", over={"method": ("fedgh", "fedssa"), "seed": (0, 1, 2)})
    planned = plan(Path("sessions/t3"), study)                    # an existing study must be the same
    [point.name for point in planned.points]                      # fedgh-s0, fedgh-s1, …
    check(planned.unbegun, planned.folder.parent, data_dir)       # raises if a method cannot run its models
    sweep(planned, Launch(data_dir), jobs=2).failed

study: from axes to points. folder: a study in the sessions folder, and its points' sessions and status. checking:
checks and costs before anything runs. executor, point, sweep: one process per point, many points in order. on_ray,
ray_node, slurm: points on other machines. search, tuning: trials of hyper-parameters. board: a study's table.
selection: the sessions that the names on a command line select.
"""
