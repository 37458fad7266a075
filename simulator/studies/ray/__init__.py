"""Points on Ray: each has an actor on a node, which watches a process like those of a local sweep.

backend: the cluster, whether its nodes give the same bits, and all points with the resources of each. node: the actor.
It works in the study's folder if its node shares that folder, else in a private one. remote_point: one point from start
to end, as the sweep sees it.
"""
