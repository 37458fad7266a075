"""A synchronous round on any runner: every client finishes before the round ends, unless the gate ends it early."""

from collections import deque
from collections.abc import Iterable, Sequence

from simulator.runners import base
from simulator.runners.base import Listener, LocalUpdate, RoundInterrupted, Runner, Work


def carry_out(runner: Runner, work: Work, listener: Listener | None = None) -> list[LocalUpdate]:
    """The updates of all clients of `work.jobs`, in client order.

    Asks the gate before each portion starts. Raises RoundInterrupted with the finished updates when the gate ends the
    round before all clients have started.
    """
    listener = listener or Listener()
    runner.open(work.hooks)
    alone = [[client] for client in work.jobs]
    waiting = deque[Sequence[int]](alone if work.limits else runner.portions(list(work.jobs), work.finished))
    running = 0
    begun = set[int]()
    found, unheard = list[Sequence[LocalUpdate]](), list[LocalUpdate]()

    def announce() -> None:
        while unheard:
            listener.done(unheard.pop(0))

    try:
        while waiting or running:
            # The gate answers for a pause. Announce earlier finished clients before the pause.
            decision = listener.gate(_in_order(found), running + len(unheard))
            if decision == "leave":
                waiting.clear()
            while decision == "go" and waiting and runner.has_room(waiting[0]):
                portion = waiting.popleft()
                for client in portion:
                    if client not in begun:
                        begun.add(client)
                        listener.begun(client)
                running += len(portion)
                runner.start(work, portion)
            announce()  # while the next clients already train
            if not (waiting or running) or (finished := runner.next_finished(base.POLL_SECONDS)) is None:
                continue
            running -= len(finished.updates) + sum(map(len, finished.again))
            waiting.extendleft(reversed(finished.again))
            if finished.updates:
                found.append(finished.updates)
                unheard.extend(finished.updates)
                if runner.computes_here(finished.updates):
                    announce()  # nothing else runs meanwhile
        announce()
    finally:
        runner.settle()
    updates = _in_order(found)
    if len(updates) < len(work.jobs):
        # A diverged client is trained again. It must find its portion whole, or the bits would differ.
        whole = [each for each in found if len(each) == 1 or not any(update.diverged for update in each)]
        raise RoundInterrupted(_in_order(whole))
    return updates


def _in_order(portions: Iterable[Sequence[LocalUpdate]]) -> list[LocalUpdate]:
    return sorted((update for portion in portions for update in portion), key=lambda update: update.client.id)
