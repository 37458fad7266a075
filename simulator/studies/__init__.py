"""Studies: many sessions with common settings, and how they are run.

study: from axes to points. folder: a study in the sessions folder, and its points' sessions and status. checking:
checks and costs before anything runs. executor, point, sweep: one process per point, many points in order. on_ray,
ray_node, slurm: points on other machines. search, tuning: trials of hyper-parameters. board: a study's table.
selection: the sessions that the names on a command line select.
"""
