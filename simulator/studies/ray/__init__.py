"""Points on Ray: each has an actor on some node, which attends to a process like those of a sweep here.

backend: the cluster, and what each point takes of it. consistency: whether its nodes give the same bits. node: the
actor. It works in the study's folder if its node shares that folder, else in a private one. remote_point: one point
from its start to its end, seen from the sweep. executor: all of them.
"""
