"""The runner: clients of a round go to actors longest first, and what they bring out comes back one by one.

An actor computes a client as the sequential runner does, from its state and payload alone, so the bits are those of
the runners in process, on whichever actor, and however often it had to be done again.
"""

import hashlib
import time
from collections import Counter, OrderedDict, deque
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from torch import Tensor

from simulator.errors import ConfigError
from simulator.methods.hooks import Hooks
from simulator.runners import base
from simulator.runners.base import (
    Decision,
    Gate,
    Job,
    LocalUpdate,
    Place,
    Question,
    Result,
    RoundInterrupted,
    Runner,
    always_go,
    nobody_told,
    register,
)
from simulator.runners.parallel import ParallelRunner
from simulator.runners.ray.parcels import Parcel, bytes_of
from simulator.sections import RuntimeConfig
from simulator.training.context import TrainingContext

if TYPE_CHECKING:
    from simulator.runners.ray.crew import Crew, Died, Member

ATTEMPTS = 3
"""So many actors may die at work on one client of a round."""
PAYLOADS = 32
"""Payloads that stay in the object store in case another client is sent the same; others are put again."""
PATIENCE = 5.0
"""Seconds without any actor after which that is said."""


@register("ray")
class RayRunner(Runner):
    """`workers` actors at most, each with one client at a time, on this machine or on a cluster's nodes."""

    within = False

    def __init__(self, context: TrainingContext, settings: RuntimeConfig) -> None:
        super().__init__(context, settings)
        self._settings = settings
        self._here = ParallelRunner(context, settings)
        """For what stays in this process."""
        self._crew: Crew | None = None
        self._seconds: dict[int, float] = {}
        """What each client took when it was last trained."""

    def open(self, hooks: Hooks, *, exact: bool = True) -> Sequence[Place]:
        if self._crew is None:
            self._crew = self._gathered(hooks, exact)
            self.workers = self._crew.ready
        return self._crew.places()

    def update(
        self,
        hooks: Hooks,
        round: int,
        jobs: Mapping[int, Job],
        done: Callable[[LocalUpdate], None],
        gate: Gate = always_go,
        begun: Callable[[int], None] = nobody_told,
        finished: Collection[int] = (),
    ) -> list[LocalUpdate]:
        self.open(hooks)

        def taken(client: int, update: LocalUpdate) -> LocalUpdate:
            device = self.context.federation.device
            if update.seconds is not None:
                self._seconds[client] = update.seconds
            return replace(
                update,
                client=self.info(client),
                tensors={name: tensor.to(device) for name, tensor in update.tensors.items()},
                uplink={name: tensor.to(device) for name, tensor in update.uplink.items()},
            )

        found = self._carry_out(
            round, jobs, self.longest_first(jobs), trained, taken, done=done, gate=gate, begun=begun
        )
        updates = [found[client] for client in jobs if client in found]
        if len(updates) < len(jobs):
            raise RoundInterrupted(updates)
        return updates

    def each(self, clients: Iterable[int], work: Callable[[int], Result]) -> list[Result]:
        return self._here.each(clients, work)

    def ask(
        self,
        hooks: Hooks,
        round: int,
        jobs: Mapping[int, Job],
        clients: Sequence[int],
        question: Question[Result],
    ) -> list[Result]:
        self.open(hooks)
        ordered = self.longest_first(clients)
        found = self._carry_out(round, jobs, ordered, question, lambda _, result: result)
        return [found[client] for client in clients]

    def close(self) -> None:
        self._here.close()
        if self._crew is not None:
            self._crew.close()
            self._crew = None

    def longest_first(self, clients: Iterable[int]) -> list[int]:
        """The clients in the order in which they are begun: by the time they took before, or are likely to take.

        Who was never timed is taken to need as long for each sample and parameter as those who were.
        """
        clients = list(clients)
        timed = [client for client in clients if client in self._seconds]
        weights = {client: self.weight(client) for client in clients}
        pace = sum(self._seconds[client] for client in timed) / max(
            sum(weights[client] for client in timed), 1
        )
        likely = {client: self._seconds.get(client, weights[client] * (pace or 1)) for client in clients}
        return sorted(clients, key=lambda client: (-likely[client], client))

    def _gathered(self, hooks: Hooks, exact: bool) -> "Crew":
        try:
            from simulator.runners.ray import cluster, crew
        except ImportError as missing:
            raise ConfigError(
                f"runner 'ray' needs Ray, which is not installed ({missing}): pip install 'htfl-sim[ray]'; or use "
                "--runner parallel, which gives the same bits."
            ) from missing
        from simulator.runners.ray.equipment import Equipment

        federation = self.context.federation
        equipment = Equipment.of(self.context, hooks, self._settings)
        on_gpu = federation.device.type == "cuda"
        needs = cluster.Needs(self.threads, int(on_gpu))
        wants, most = crew.Wants(self._settings.address, needs), self._settings.workers
        largest = 4 * sum(each.numel() for each in federation.architecture(federation.largest).parameters())
        pool = crew.Pool.borrow(wants, most, self.workers, largest)
        gathered = crew.Crew(pool, most, equipment, exact, self.say)
        try:
            gathered.gather()
        except BaseException:
            gathered.close()
            raise
        return gathered

    def _carry_out(
        self,
        round: int,
        jobs: Mapping[int, Job],
        ordered: Sequence[int],
        question: Question[Any],
        taken: Callable[[int, Any], Result],
        *,
        done: Callable[[Result], None] = lambda _: None,
        gate: Callable[[Sequence[Result], int], Decision] = always_go,
        begun: Callable[[int], None] = nobody_told,
    ) -> dict[int, Result]:
        """What came of the clients that the gate let in. A client whose actor died is begun again."""
        from simulator.runners.ray.crew import Died, reaching

        crew = self._crew
        assert crew is not None
        self.workers = max(crew.ready, 1)
        waiting, results, unheard = deque(ordered), dict[int, Result](), list[Result]()
        at_work: dict[Any, tuple[int, Member]] = {}
        payloads, deaths, lonely = _Payloads(crew.put), Counter[int](), _Lonely(self.say)
        try:
            with reaching(round):
                while waiting or at_work or unheard:
                    so_far = [results[client] for client in sorted(results)]
                    decision = gate(so_far, len(at_work) + len(unheard))
                    if decision == "leave":
                        waiting.clear()
                    crew.call()
                    lonely.look(crew.ready, bool(waiting) and not at_work)
                    while decision == "go" and waiting and (member := crew.free()) is not None:
                        client = waiting.popleft()
                        if not deaths[client]:
                            begun(client)
                        job = jobs[client]
                        sent = Parcel(job.tensors), payloads.put(job.payload)
                        at_work[crew.send(member, question, round, client, *sent)] = client, member
                    while unheard:  # told while the next clients already train
                        done(unheard.pop(0))
                    for ref in crew.wait(at_work, base.POLL_SECONDS) if waiting or at_work else ():
                        if crew.heed(ref):
                            continue
                        client, member = at_work.pop(ref)
                        answer = crew.answer(ref, member)
                        if isinstance(answer, Died):
                            deaths[client] += 1
                            self._told_of_death(answer, round, client, deaths[client])
                            waiting.appendleft(client)
                            continue
                        for note in answer.notes:
                            self.say_once(note)
                        results[client] = taken(client, answer.result)
                        unheard.append(results[client])
        finally:
            for _, member in at_work.values():  # of work that failed: what comes of the rest, nobody hears
                member.given -= 1
        return results

    def _told_of_death(self, death: "Died", round: int, client: int, times: int) -> None:
        what = f"the Ray actor on {death.node} died at work on {self.info(client)} in round {round}"
        if times >= ATTEMPTS:
            raise ConfigError(
                f"{what}, as {times - 1} before it ({death.reason}); the session is at its last checkpoint. Nodes may "
                "lack memory: use fewer --workers, or larger nodes, and resume it."
            )
        self.say(f"{what[0].upper()}{what[1:]}; the client is computed again.")


def trained(runner: Runner, hooks: Hooks, round: int, client: int, job: Job) -> LocalUpdate:
    """A question: what the client brings out of a round."""
    [update] = runner.update(hooks, round, {client: job}, lambda _: None)
    return update


class _Payloads:
    """What clients are sent, in the object store: equal payloads once."""

    def __init__(self, put: Callable[[Parcel], Any]) -> None:
        self._put = put
        self._kept: OrderedDict[bytes, Any] = OrderedDict()

    def put(self, payload: Mapping[str, Tensor] | None) -> Any:
        """Where an actor finds it; None for no payload."""
        if payload is None:
            return None
        digest = hashlib.sha256()
        for name, tensor in payload.items():
            digest.update(f"{name} {tensor.dtype} {list(tensor.shape)} ".encode())
            digest.update(bytes_of(tensor).data)
        key = digest.digest()
        if key not in self._kept:
            self._kept[key] = self._put(Parcel(payload))
        self._kept.move_to_end(key)
        while len(self._kept) > PAYLOADS:
            self._kept.popitem(last=False)
        return self._kept[key]


class _Lonely:
    """Says that no actor is left, and that there are some again."""

    def __init__(self, say: Callable[[str], None]) -> None:
        self._say = say
        self._since: float | None = None
        self._said = False

    def look(self, ready: int, needed: bool) -> None:
        """Look whether actors are ready, where any are needed."""
        now = time.monotonic()
        if ready or not needed:
            if self._said and ready:
                self._say(f"The Ray cluster has room again: {ready} actors are ready, and the run goes on.")
                self._said = False
            self._since = None
        elif self._since is None:
            self._since = now
        elif not self._said and now - self._since > PATIENCE:
            self._say(
                "The Ray cluster has no room left for a single client: the run waits until it has. A stop keeps the "
                "clients that are done."
            )
            self._said = True
