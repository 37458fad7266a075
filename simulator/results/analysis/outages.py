"""What happens to a session that its files do not tell, as events: an owner that dies or freezes, lost files."""

from checkpoints import now
from simulator.base.documents import Event
from simulator.results.analysis.run import SessionData


def outages(before: SessionData, after: SessionData, heard: str | None) -> tuple[Event, ...]:
    """What has happened between two looks at a session. heard: the time of its owner's last note."""
    found = []
    if after.error and (after.error, after.state) != (before.error, before.state):
        found.append(_gone(after) if after.state == "gone" else _event("unreadable", after, after.error))
    elif before.error and not after.error:
        found.append(_event("readable", after, "can be read again"))
    if after.state == "interrupted" and (before.state != "interrupted" or not before.document):
        found.append(_interrupted(after, None if before.document else heard))
    was, is_now = (run.silence is not None and run.silence.long for run in (before, after))
    if is_now and not was and after.silence is not None:
        found.append(
            _event("silent", after, f"no heartbeat of {_owner(after)} for {after.silence.seconds} s")
        )
    elif was and not is_now and after.live and before.silence is not None and not after.error:
        found.append(_event("heard", after, f"heartbeat again after {before.silence.seconds} s"))
    return tuple(found)


def _gone(run: SessionData) -> Event:
    return _event("gone", run, f"the folder {run.folder} was deleted or moved")


def _interrupted(run: SessionData, heard: str | None) -> Event:
    """An owner that died before the session was read has the time of its last note, but stands after all events."""
    reached = run.progress.get("round", 0)
    where = f"in round {reached}" if reached > run.round else f"after round {run.round}"
    event = _event("interrupted", run, f"{_owner(run)} ended without a stop {where}")
    if heard is not None:
        event["at"] = max([heard, *(each["at"] for each in run.events[-1:])])
    return event


def _owner(run: SessionData) -> str:
    pid = run.owner.get("pid")
    return "its process" if pid is None else f"process {pid}"


def _event(kind: str, run: SessionData, message: str) -> Event:
    return {"event": kind, "at": now(), "round": run.round, "message": message}
