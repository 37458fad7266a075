"""Points on Ray: each has an actor on some node, which attends to a process like those of a sweep here.

place: the cluster, and what each point takes of it. alike: whether its nodes give the same bits. node: the actor, in
the study's folder where its node shares that, else in a private one. errand: one point from its start to its end, seen
from the sweep. carrier: all of them.
"""
