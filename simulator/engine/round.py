"""One round, from the state before it, which stays, to the state after it and the ledger's record."""

import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import cached_property, partial
from types import MappingProxyType

import torch

from simulator import runners
from simulator.base import rng
from simulator.base.documents import Node
from simulator.base.errors import HtflError, is_of_memory
from simulator.base.record import Cka, Record
from simulator.base.tensors import Tensors, on_device
from simulator.config import Config
from simulator.data.federated import FederatedData
from simulator.engine import newcomers
from simulator.engine.client_states import Beginning, ClientStates, State, StateCache
from simulator.engine.collecting import Collected, at_once, on_the_clock
from simulator.engine.progress import (
    ClientDiverged,
    ClientStarted,
    ClientTrained,
    EvaluationStarted,
    Observer,
    RoundStarted,
    Warned,
    unobserved,
)
from simulator.engine.timing import Clock
from simulator.engine.wire import Wire
from simulator.methods import Method, Uplink
from simulator.methods.hooks import Hooks
from simulator.metrics import by_client, cka_matrices, evaluation, user_metrics
from simulator.metrics.evaluation import accuracy
from simulator.models.federation import Federation
from simulator.runners import (
    Decision,
    Gate,
    Job,
    Jobs,
    Listener,
    LocalUpdate,
    RoundInterrupted,
    Work,
    always_go,
    carry_out,
)
from simulator.runners.evaluation import Answers, Asked, answering, evaluate, operations
from simulator.runners.local import server_update
from simulator.selection import History, Selector
from simulator.training.client import shown_in
from simulator.training.flops import FlopCache
from simulator.training.precision import tf32_in_force
from simulator.training.trainer import TrainingContext, rate

LONGEST_REASON = 300
"""The maximum length of an error in a warning."""


@dataclass(frozen=True)
class Now:
    """Clients, data, and method as they are in a round."""

    federation: Federation
    data: FederatedData
    hooks: Hooks
    parts: Sequence[str]
    """The parts of the split whose metrics are recorded."""

    def at(self, round: int) -> "Now":
        """The same in another round."""
        federation = self.federation.at(round)
        if federation is self.federation:
            return self
        return Now(federation, self.data.at(round), self.hooks.at(round), self.parts)

    @cached_property
    def test_sizes(self) -> list[int]:
        """Test samples by client."""
        return [len(client.test) for client in self.data.clients]

    @cached_property
    def sizes(self) -> dict[str, list[int]]:
        """Samples by client, of each recorded part."""
        return {name: [len(client.part(name)) for client in self.data.clients] for name in self.parts}


def changed(before: Now, now: Now) -> tuple[list[int], list[int], list[int]]:
    """The clients that joined, that left, and that have other data, from one round to the next, ascending."""
    if before.federation is now.federation:
        return [], [], []
    were, are = before.federation.absent, now.federation.absent
    pairs = enumerate(zip(before.data.clients, now.data.clients, strict=True))
    return sorted(were - are), sorted(are - were), [client for client, (old, new) in pairs if old is not new]


class Engine:
    """Carries out rounds of one method over one federation."""

    def __init__(self, config: Config, federation: Federation, data: FederatedData, method: Method) -> None:
        self._config = config
        self._federation = federation
        self._hooks = Hooks(method, federation)
        self._data = data
        self._now = Now(federation, data, self._hooks, evaluation.measured_parts(config.evaluation, data))
        """Clients and data of the round that is computed."""
        self._measures = user_metrics.measures(config.evaluation.metrics, federation.num_classes)
        self._by_class = evaluation.counts_classes(
            config.evaluation, len(federation.clients), federation.num_classes
        )
        self._answers = config.evaluation.model or method.answers
        self._compares = config.cka.model or self._answers
        wanted = None if config.cka.layers == "all" else config.cka.layers
        if config.cka.every or wanted:
            cka_matrices.common_layers(federation, wanted)  # refused now rather than when it is measured
        self._cka_every = self._usual_interval() if config.cka.every is None else config.cka.every
        context = TrainingContext(federation, data, FlopCache())
        self._runner = runners.get(config.runtime.runner)(context, config.runtime)
        self._observe: Observer = unobserved
        self.selector = Selector(config.selection, federation, config.training_seed)
        self.clock = None if config.system is None else Clock(config, federation, method, self.selector)

    def open(self, *, exact: bool = True) -> Sequence[Node]:
        """Start the other machines that compute clients, if there are any. Raises like `Runner.open`."""
        return self._runner.open(self._hooks, exact=exact)

    def initial_state(self) -> State:
        """The state before round 1. Each client's part is drawn on first use."""
        self._set_threads()
        beginning = self.beginning(self._federation.seed_of_draws(initial=True))
        for client in self._federation.of_each:
            beginning(client.id)  # so that models that cannot be drawn are refused before round 1
        clients = ClientStates(beginning, StateCache(self._config.runtime.cache))
        return State(0, on_device(self._hooks.init_server(), self._federation.device), clients, None)

    def beginning(self, models: int) -> Beginning:
        """How clients begin under this method, with models of the seed `models`."""
        return Beginning(self._federation, self._hooks, models)

    def take_over(self, state: State, before: Method) -> tuple[State, str]:
        """The state from which this method continues after `before`, and a sentence about the change.

        Client models stay, and all tensors if only settings change and they fit. Else the server takes what
        `Method.adopt` returns. Uplinks in flight are dropped if the method or its settings change.
        """
        self._set_threads()
        server = on_device(self._hooks.init_server(), self._federation.device)
        dropped = ""
        if state.in_flight and before.config != self._hooks.method.config:
            many = len(state.in_flight)
            dropped = f"; drops {many} uplink{'s' * (many > 1)} in flight"
            state = replace(state, in_flight=())
        was = Hooks(before, self._federation)
        if (
            before.name == self._hooks.name
            and _shapes(server) == _shapes(state.server)
            and all(
                _shapes(self._hooks.init_client(client)) == _shapes(was.init_client(client))
                for client in self._federation.clients
            )
        ):
            return state, "what it keeps stays as it is" + dropped
        adopted = self._hooks.adopt(state.server, server)
        states = state.clients.taken_over(self.beginning(state.clients.beginning.seed))
        return replace(state, server=server | adopted, clients=states), adoption(server, adopted) + dropped

    def round(
        self,
        state: State,
        observe: Observer,
        gate: Gate = always_go,
        finished: Mapping[int, LocalUpdate] = MappingProxyType({}),
        measure: Callable[[], bool] = lambda: False,
    ) -> State:
        """Round t = state.round + 1. Same state, same bits, whatever the number of workers.

        `gate` is asked between clients; `finished` are updates that are not computed again. `measure` is asked after
        evaluation, whether to measure CKA although it is not due. Raises RoundInterrupted with all finished updates.
        """
        with tf32_in_force(self._config.training.precision, self._federation.device):
            self._observe = observe
            return self._round(state, gate, finished, measure)

    def _round(
        self,
        state: State,
        gate: Gate,
        finished: Mapping[int, LocalUpdate],
        measure: Callable[[], bool],
    ) -> State:
        began = time.perf_counter()
        self._set_threads()
        t, known = state.round + 1, state.known
        joined, left, other_data = changed(self._now.at(state.round), now := self._enter(t))
        adds = self.clock is not None and self.clock.adds_differences
        wire = Wire(len(state.clients), self._config.wire, self._config.training_seed, t, keeps=adds)
        took = self._collect(t, state, wire, gate, finished)
        updates, participants, held = took.updates, took.participants, took.held
        collected = time.perf_counter()
        sound = [update for update in updates if not update.diverged]
        arrived = sorted([*took.used, *took.unused], key=lambda each: each.client.id)
        dropped = [each.client.id for each in arrived if wire.loses(each.client.id, each.dispatch)]
        payloads = {
            each.client.id: wire.up(each.client.id, each.update.uplink, each.dispatch, each.received)
            for each in arrived
            if each.client.id not in dropped
        }
        if adds:
            payloads |= {
                k: now.hooks.rebased(t, state.server, each.client, payloads[k], each.received)
                for each in took.used
                if (k := each.client.id) in payloads and each.dispatch < t
            }
        uplinks = [
            Uplink(each.client, payloads[each.client.id], took.weights.get(each.client.id, 1.0))
            for each in took.used
            if each.client.id in payloads
        ]
        (server, metrics), server_flops = server_update(
            now.hooks, self._runner.context, t, state.server, uplinks
        )
        clients = state.clients.after({each.client.id: each.update.tensors for each in arrived})
        trained = time.perf_counter()

        after = State(t, server, clients, None, known, took.flying)
        taught = known.trained.union(each.client.id for each in arrived)
        new = {*took.changed, *joined, *other_data}
        answers, tested = self._evaluate(after, taught, self._unmeasured(state.record), took.changed, new)
        cka = self._due_cka(after, taught, measure)
        self._tell()
        evaluated = time.perf_counter()

        before, only_changed, standing = state.record, self._config.records_changed, known.standing
        absent = now.federation.absent
        record: Record = {
            "round": t,
            "method": self._hooks.name,
            "participants": list(participants),
            "diverged": [update.client.id for update in updates if update.diverged],
            "accuracy": accuracy(
                evaluation.counts(answers),
                now.test_sizes,
                standing and standing["accuracy"],
                only_changed,
                absent,
            ),
            "loss": evaluation.losses(updates, None if only_changed else len(clients), before),
            "bytes": wire.traffic(before and before["bytes"], only_changed),
            "params": wire.params(),
            "flops": evaluation.operations(took.flops, server_flops),
            "cka": cka,
            "method_metrics": evaluation.phase_losses(sound) | metrics,
            "timing": {
                "seconds": evaluated - began - held,
                "train": trained - began - held,
                "server": trained - collected,
                "evaluate": evaluated - trained,
                "checkpoint": 0.0,
                "per_client": evaluation.seconds(updates, None if only_changed else len(clients)),
                "workers": self._runner.workers,
                "at": datetime.now(UTC).isoformat(timespec="seconds").replace("+00:00", "Z"),
            },
        }
        if now.sizes:
            record["evaluation"] = evaluation.part_metrics(
                answers, now.sizes, standing and standing["evaluation"], only_changed, absent, self._by_class
            )
        if joined or left or other_data:
            present = len(now.federation.present)
            record["timeline"] = {"joined": joined, "left": left, "data": other_data, "present": present}
        if only_changed:
            record["clients"] = len(clients)
        if self._config.wire.drop:
            record["dropped"] = dropped
        if self.clock is not None and took.ended is not None:
            measured = {k: evaluation.accuracy_of(parts["test"]) for k, parts in answers.items()}
            accuracies = by_client.known(standing and standing["accuracy"], measured, absent)
            record["time"] = self.clock.record(
                t, took.began, took.ended, took.landed, server_flops, accuracies, tested
            )
        newcomers.record(record, self._runner, now.hooks, after, self._config)
        if self._config.training.schedule != "constant":
            record["lr"] = rate(self._config.training, t, self._config.rounds)
        return replace(after, record=record)

    def _collect(
        self,
        t: int,
        state: State,
        wire: Wire,
        gate: Gate,
        finished: Mapping[int, LocalUpdate],
    ) -> Collected:
        """The uplinks of the round: on the clock if there is one, and else those of all participants at once."""

        def begin(participants: Sequence[int]) -> None:
            self._observe(RoundStarted(t, self._config.rounds, tuple(participants), tuple(finished)))

        train = partial(self._train, t, state, wire, gate)
        if self.clock is None:
            absent = self._now.federation.absent
            in_flight = [each for each in state.in_flight if each.client.id not in absent]
            drawn = self.participants(t, state.known.history)
            return at_once(t, in_flight, drawn, wire, begin, train, finished)
        began = state.record["time"]["ends"] if state.record and "time" in state.record else 0.0
        return on_the_clock(
            self.clock, t, began, state.known.history, state.in_flight, wire, begin, train, finished
        )

    def participants(self, round: int, known: History = MappingProxyType({})) -> tuple[int, ...]:
        """S^t without a clock: a share C of the present clients, by the run's selection, ascending."""
        present = self._federation.at(round).present_ids
        wanted = self._config.federation.participants_of(len(present))
        return self.selector.select(present, wanted, round, known)

    def _usual_interval(self) -> int:
        """The default number of rounds between measurements of CKA, from the cost of CKA and of training."""
        clients, settings = self._federation.clients, self._config
        test = sum(len(each.test) for each in self._data.clients)
        shown = min(len(clients), settings.cka.clients) * min(test, settings.cka.probe)
        of_all = sum(shown_in(client.samples, settings.training) for client in clients)
        return cka_matrices.interval(shown, of_all * settings.federation.participants / len(clients))

    def _due_cka(self, after: State, trained: Collection[int], asked: Callable[[], bool]) -> Cka | None:
        """CKA if it is due or requested. If it cannot be measured by default, the run continues with a warning."""
        every, by_default, t = self._cka_every, self._config.cka.every is None, after.round
        due = every and (t % every == 0 or (by_default and t == 1))
        if not due or not by_default:
            return self._cka(after, trained) if due or asked() else None
        try:
            if (found := self._cka(after, trained, cka_matrices.MEMORY))["order"]:
                return found
            reason = "no two clients have a layer in common."
        except Exception as error:
            if not isinstance(error, HtflError) and not is_of_memory(error):
                raise
            reason = " ".join(str(error).split())[:LONGEST_REASON]
        self._runner.say_once(f"CKA is not measured: {reason}")
        return None

    def _cka(self, state: State, trained: Collection[int], memory: int | None = None) -> Cka:
        """The similarity of the clients' models after a round, layer by layer, for the ledger. Raises ConfigError."""
        settings, now = self._config.cka, self._enter(state.round)
        aggregated = self._compares == "aggregated"
        layers, most = cka_matrices.compared(
            now.federation,
            self._config.training_seed,
            None if settings.layers == "all" else settings.layers,
            None if aggregated or settings.untrained else trained,
            settings.clients,
        )
        probe = cka_matrices.probe(self._data, self._config.training_seed, settings.probe)

        def tensors(client: int) -> Tensors:
            if not aggregated:
                return state.clients[client]
            info = now.federation.clients[client]
            payload = now.hooks.downlink(state.round + 1, state.server, info)
            job = Job(state.clients[client], payload)
            return answering(now.hooks, self._runner.context, info, state.round + 1, job).tensors()

        return cka_matrices.measure(
            self._runner.context, self._runner.each, tensors, layers, probe, settings.debiased, most, memory
        )

    def check_size(self) -> None:
        """Raise ConfigError where the CKA that the settings ask for would not fit into a round's record."""
        if not self._config.cka.every:
            return
        layers = None if self._config.cka.layers == "all" else self._config.cka.layers
        common = cka_matrices.common_layers(self._federation, layers)
        cka_matrices.check_size(common, len(self._federation.clients), self._config.cka.clients)

    def close(self) -> None:
        self._runner.close()

    def _train(
        self,
        t: int,
        state: State,
        wire: Wire,
        gate: Gate,
        participants: Sequence[int],
        finished: Mapping[int, LocalUpdate],
        limits: Mapping[int, int] = MappingProxyType({}),
    ) -> tuple[list[LocalUpdate], float]:
        """The participants' updates in client order, and the seconds for which the gate held all of them back."""
        hooks, clients = self._now.hooks, self._now.federation.clients

        def receives(k: int) -> Tensors:
            return wire.down(k, hooks.downlink(t, state.server, clients[k]))

        mine = {k: finished[k] for k in participants if k in finished and k not in limits}
        for k in mine:
            receives(k)  # what it was sent counts in this round
        done, whole = len(finished) - len(limits), len(finished.keys() | set(participants))
        held, since = 0.0, None

        def begin(client: int) -> None:
            self._observe(ClientStarted(t, client))

        def tell(update: LocalUpdate) -> None:
            nonlocal done
            done += 1
            loss = next(iter(update.losses.values()), None)
            self._observe(ClientTrained(t, update.client.id, done, whole, loss))
            if (phase := update.diverged) is not None:
                self._observe(ClientDiverged(t, update.client.id, phase))

        def kept(new: Sequence[LocalUpdate]) -> list[LocalUpdate]:
            return [*finished.values(), *([] if limits else new)]  # partial work follows from the whole

        def timed(updates: Sequence[LocalUpdate], running: int) -> Decision:
            nonlocal held, since
            self._tell()
            decision = gate(kept(updates), running)
            if decision == "hold" and not running:
                since = since or time.perf_counter()
            elif since is not None:
                held, since = held + time.perf_counter() - since, None
            return decision

        left_to_do = Jobs(
            [k for k in participants if k not in mine], lambda k: Job(state.clients[k], receives(k))
        )
        try:
            work = Work(hooks, t, left_to_do, mine, limits=limits)
            updates = carry_out(self._runner, work, Listener(timed, begin, tell))
        except RoundInterrupted as interrupted:
            raise RoundInterrupted(kept(interrupted.updates)) from None
        finally:
            self._tell()
        every = mine | {update.client.id: update for update in updates}
        return [every[client] for client in participants], held

    def _evaluate(
        self,
        after: State,
        trained: frozenset[int],
        unmeasured: bool,
        participants: tuple[int, ...],
        new: Collection[int],
    ) -> tuple[dict[int, dict[str, Answers]], dict[int, float]]:
        """The answers of evaluated clients, by default of the `new` ones, and their operations if they count."""
        t, settings, now = after.round, self._config.evaluation, self._now
        present = {each.id for each in now.federation.present}
        aggregated = self._answers == "aggregated"
        skips = self._config.skips_initial
        eligible = sorted(present.intersection(trained.union(participants)) if skips else present)
        if isinstance(settings.clients, int):
            number = min(settings.clients, len(eligible))
            draw = rng.numpy_stream(self._config.training_seed, "evaluate", t).choice(
                len(eligible), number, replace=False
            )
            chosen = sorted(eligible[each] for each in draw)
        elif settings.clients == "all" and (unmeasured or aggregated):
            chosen = list(eligible)
        elif settings.clients == "all":  # the others have not changed since they were last evaluated
            chosen = [client for client in eligible if client in new]
        else:
            chosen = [client for client in participants if client in present]
        self._observe(EvaluationStarted(t, len(chosen)))
        infos = now.federation.clients

        def job(k: int) -> Job:
            payload = now.hooks.downlink(t + 1, after.server, infos[k]) if aggregated else None
            return Job(after.clients[k], payload)

        # The payload is that of the next round.
        parts = ("test", *(name for name in now.parts if name != "test"))
        work = Work(now.hooks, t + aggregated, Jobs(chosen, job))
        asked = Asked(settings.batch_size, parts, dict(self._measures))
        answers = evaluate(self._runner, work, asked, received=aggregated)
        self._tell()
        counts = self.clock is not None and self.clock.system.count_evaluation
        return answers, operations(self._runner.context, work, answers) if counts else {}

    def _tell(self) -> None:
        """Pass the runner's notes to the observer."""
        for note in self._runner.take_notes():
            self._observe(Warned(note))

    def _unmeasured(self, before: Record | None) -> bool:
        """Whether there is no last record, or it lacks metrics that are measured now."""
        known = {} if before is None else before.get("evaluation", {})
        return before is None or any(
            name not in known
            or not self._measures.keys() <= known[name].get("metrics", {}).keys()
            or (self._by_class and "classes" not in known[name])
            for name in self._now.parts
        )

    def _enter(self, round: int) -> Now:
        """Compute with the clients and data of a round from now on."""
        if (now := self._now.at(round)) is not self._now:
            self._now = now
            self._runner.enter(round)
        return now

    def _set_threads(self) -> None:
        """Use as many threads on the server as for a client. Otherwise, sums could differ after a resume."""
        torch.set_num_threads(self._config.runtime.threads_per_client)


def adoption(server: Tensors, adopted: Tensors) -> str:
    """The parts that a method's server took over at a switch, in words."""
    taken = dict.fromkeys(name.split("/")[0] for name in adopted)
    missing = [name for name in server if name not in adopted]
    # If a part is taken over incompletely, its missing tensors have their full names: head/bias.
    fresh = dict.fromkeys(name if name.split("/")[0] in taken else name.split("/")[0] for name in missing)
    said = [f"takes over {', '.join(taken)}"] * bool(taken) + [f"starts {', '.join(fresh)} afresh"] * bool(
        fresh
    )
    return " and ".join(said) or "has nothing to take over"


def _shapes(tensors: Mapping[str, torch.Tensor]) -> dict[str, torch.Size]:
    return {name: tensor.shape for name, tensor in tensors.items()}
