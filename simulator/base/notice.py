"""What a watcher tells, as a record and an event have it."""

from typing_extensions import TypedDict

from checkpoints.schema import Many, Natural, Text


class Notice(TypedDict):
    """What a watcher noticed after a round."""

    watcher: Text
    """name of the watcher"""
    message: Text
    """what it noticed, in words"""
    clients: Many[Natural]
    """the clients that it noticed, ascending; none for watchers of the mean"""
