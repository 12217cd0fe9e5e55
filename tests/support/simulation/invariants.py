"""What must hold after every commit, and when all work is done."""

from collections import defaultdict
from collections.abc import Mapping
from typing import Any

from tests.support.simulation import script
from tests.support.simulation.bus import WORK, Bus, Message
from tests.support.simulation.database import Database, Key
from tests.support.simulation.graph import ENTITIES, VARIANTS, row_digest
from tests.support.simulation.provider import Provider, cost_of
from tests.support.simulation.rows import (
    COMPLETED,
    END_STAGE,
    ENDED,
    INSTALLATION,
    LEASE_SECONDS,
    Budget,
    Head,
    InFlight,
    InstallationDay,
    Iteration,
    Journal,
    Node,
    Paid,
    Slice,
    Step,
    fold,
    step_key,
)
from tests.support.simulation.scheduler import Scheduler, ViolationError


class Checker:
    """Follows all commits of a database."""

    def __init__(
        self, scheduler: Scheduler, database: Database, provider: Provider, bus: Bus
    ) -> None:
        self._scheduler = scheduler
        self._database = database
        self._provider = provider
        self._digests: dict[int, dict[int, int]] = defaultdict(lambda: {0: 0})
        """The digest of each agent's graph after each of its commits."""
        self._caps: dict[int, list[tuple[float, int]]] = defaultdict(list)
        database.on_commit = self._check_commit
        bus.on_acknowledge = self._check_acknowledgement

    def _check_acknowledgement(self, message: Message) -> None:
        if message.queue == WORK:
            step: Step = self._database.read(step_key(message.content))
            if step.status not in ENDED:
                raise ViolationError("the request of a step that has not ended is acknowledged")

    def _check_commit(self, before: Mapping[Key, Any], rows: Mapping[Key, Any]) -> None:
        graphs: dict[int, int] = defaultdict(int)
        heads: dict[int, Head] = {}
        for key, row in rows.items():
            match key[0]:
                case "step":
                    _check_step(before.get(key), row)
                case "iteration":
                    _check_iteration(before.get(key), row, rows, before)
                case "budget":
                    self._check_budget(int(key[1]), before.get(key), row)  # type: ignore[call-overload]
                case "slice":
                    _check_slice(row)
                case "installation":
                    self._check_installation(before.get(key), row)
                case "cap":
                    self._caps[key[1]].append((self._scheduler.now, row))  # type: ignore[index]
                case "node" | "name":
                    graphs[key[1]] ^= row_digest(key, before.get(key)) ^ row_digest(key, row)  # type: ignore[index]
                case "head":
                    heads[key[1]] = row  # type: ignore[index]
                case "answer":
                    self._check_answer(before.get(key), key, row)
        for agent in {*graphs, *heads}:
            self._check_graph(agent, heads.get(agent), graphs.get(agent, 0), before, rows)
        for key, row in rows.items():
            if key[0] == "context":
                self._check_digest(int(key[1]), int(key[2]), row)  # type: ignore[call-overload]
            elif key[0] == "run":
                step: Step = rows.get(step_key(key[1]), before.get(step_key(key[1])))  # type: ignore[arg-type]
                if step.graph_seq is not None and step.graph_seq != row.graph_seq:
                    raise ViolationError("a step was given another context than the pinned one")
                self._check_digest(step.agent, row.graph_seq, row.digest)

    def _check_graph(
        self,
        agent: int,
        head: Head | None,
        change: int,
        before: Mapping[Key, Any],
        rows: Mapping[Key, Any],
    ) -> None:
        """Each commit that changes a graph advances its head by one and lists in the journal what it changed."""
        old: Head = before.get(("head", agent)) or Head(0, 0)
        if head is None or head.seq != old.seq + 1:
            raise ViolationError(f"the graph of agent {agent} was changed without its head")
        digests = self._digests[agent]
        digests[head.seq] = digests[old.seq] ^ change
        journal: Journal | None = rows.get(("journal", agent, head.seq))
        changed = {key for key in rows if key[0] in ("node", "name") and key[1] == agent}
        if journal is not None and changed - set(journal.keys):
            raise ViolationError(f"the journal of agent {agent} leaves out a changed row")

    def _check_digest(self, agent: int, seq: int, digest: int) -> None:
        if self._digests[agent].get(seq) != digest:
            raise ViolationError(f"a context of agent {agent} at {seq} differs from a rebuilt one")

    def _check_answer(self, before: Paid | None, key: Key, row: Paid) -> None:
        if before is not None:
            raise ViolationError(f"{key} is answered twice")
        if (key[1], key[2], row.attempt) not in self._provider.sent:
            raise ViolationError(f"{key} has an answer to a call that was not sent")

    def _check_budget(self, agent: int, before: Budget | None, row: Budget) -> None:
        old = before or Budget(0, 0)
        if row.held < 0 or row.spent < old.spent:
            raise ViolationError(f"the budget of agent {agent} is settled twice")
        total = row.spent + row.held
        if total > old.spent + old.held and total > self._largest_cap(agent):
            raise ViolationError(f"the budget of agent {agent} is exceeded")

    def _check_installation(self, before: InstallationDay | None, row: InstallationDay) -> None:
        old = before or InstallationDay(0, 0)
        total = row.granted + row.spent
        if total > old.granted + old.spent and total > self._largest_cap(INSTALLATION):
            raise ViolationError("more is granted than the installation's cap allows")

    def _largest_cap(self, scope: int) -> int:
        """The largest cap that was in force within the duration of a lease: a lower one takes effect later."""
        largest, until = 0, None
        for at, cap in reversed(self._caps[scope]):
            if until is not None and until < self._scheduler.now - LEASE_SECONDS:
                break
            largest, until = max(largest, cap), at
        return largest

    def check_accounts(self) -> None:
        """What was billed is accounted for: by agent, by slice and by call."""
        held: dict[Key, int] = defaultdict(int)
        spent: dict[Key, int] = defaultdict(int)
        granted: dict[int, int] = defaultdict(int)
        recorded: set[tuple[int, int, int]] = set()
        in_flight: list[tuple[int, Step, InFlight]] = []
        rows = self._database.rows
        for key, row in rows.items():
            if key[0] == "step":
                in_flight += [(key[1], row, call) for call in row.in_flight]  # type: ignore[misc]
            elif key[0] in ("answer", "unknown"):
                step: Step = rows[step_key(key[1])]  # type: ignore[arg-type]
                recorded.add((key[1], key[2], row.attempt))  # type: ignore[arg-type]
                spent["budget", step.agent, row.day] += row.cost
                spent["slice", row.slice_id] += row.cost
                spent["day", row.day] += row.cost
                if key[0] == "answer" and row.cost != cost_of(key[2]):  # type: ignore[arg-type]
                    raise ViolationError(f"{key} is booked at a wrong cost")
        for id_, step, call in in_flight:
            recorded.add((id_, call.request, call.attempt))
            held["budget", step.agent, call.day] += call.reserved
            held["slice", call.slice_id] += call.reserved
            if step.status in ENDED:
                raise ViolationError(f"step {id_} has ended with calls in flight")
        if missing := self._provider.sent - recorded:
            raise ViolationError(f"calls that were sent are not recorded: {sorted(missing)[:3]}")
        used: dict[int, int] = defaultdict(int)
        for key, row in rows.items():
            if key[0] == "budget" and row != Budget(spent[key], held[key]):
                raise ViolationError(f"{key} is {row}, its calls are {spent[key]}, {held[key]}")
            if key[0] == "slice" and row is not None:
                if (row.spent, row.held) != (spent[key], held[key]):
                    raise ViolationError(f"{key} is {row}, its calls: {spent[key]}, {held[key]}")
                granted[row.day] += row.granted
                used[row.day] += row.spent
        for key, row in rows.items():
            if key[0] == "installation":
                day: int = key[1]  # type: ignore[assignment]
                if row.granted != granted[day] or row.spent + used[day] != spent["day", day]:
                    raise ViolationError(f"the slices of day {day} do not add up to {row}")

    def check_end(self, agents: int, iterations: int) -> None:
        """Everything is done, once."""
        rows = self._database.rows
        ended = [row for key, row in rows.items() if key[0] == "iteration"]
        if len(ended) != agents * iterations or any(row.stage != END_STAGE for row in ended):
            raise ViolationError("an iteration has not ended")
        evidence: dict[int, set[int]] = defaultdict(set)
        for key, row in rows.items():
            if key[0] == "node" and row is not None:
                self._check_node(row)
                ids = {item[0] for item in row.evidence}
                if ids & evidence[key[1]]:  # type: ignore[index]
                    raise ViolationError(f"two nodes of agent {key[1]} have the same evidence")
                evidence[key[1]] |= ids  # type: ignore[index]
        for key, row in rows.items():
            if key[0] == "step":
                self._check_ended_step(key[1], row, evidence[row.agent])  # type: ignore[arg-type]
        for agent in range(agents):
            self._check_names(agent)
        self.check_accounts()

    def _check_node(self, node: Node) -> None:
        if node != fold(node.evidence):
            raise ViolationError("a node's value does not follow from its evidence")

    def _check_ended_step(self, id_: int, step: Step, evidence: set[int]) -> None:
        if step.status not in ENDED:
            raise ViolationError(f"step {id_} has not ended")
        for part in script.rounds(id_):
            answers = [self._database.read(("answer", id_, request)) for request in part.requests]
            written = [fact.evidence_id in evidence for fact in part.facts]
            if step.status == COMPLETED and None in answers:
                raise ViolationError(f"step {id_} has completed without an answer")
            if any(is_there is not (None not in answers) for is_there in written):
                raise ViolationError(f"step {id_}: an answer and what it led to are not one write")

    def _check_names(self, agent: int) -> None:
        for entity in range(ENTITIES):
            nodes = {
                node_id
                for variant in range(VARIANTS)
                if (node_id := self._database.read(("name", agent, entity, variant))) is not None
            }
            if len(nodes) > 1:
                raise ViolationError(f"agent {agent} has several nodes for entity {entity}")
            for node_id in nodes:
                if self._database.read(("node", agent, node_id)) is None:
                    raise ViolationError(f"a name of entity {entity} leads to no node")


def _check_step(before: Step | None, row: Step) -> None:
    if before is None:
        return
    if row.epoch < before.epoch or row.seq < before.seq:
        raise ViolationError("a step went back to an earlier epoch or sequence")
    if before.status in ENDED and row.status != before.status:
        raise ViolationError("a step that had ended was changed")
    if row.epoch == before.epoch and row.write != before.write and row.seq != before.seq + 1:
        raise ViolationError("a step was written twice, or by two workers of one epoch")


def _check_iteration(
    before: Iteration | None, row: Iteration, rows: Mapping[Key, Any], committed: Mapping[Key, Any]
) -> None:
    if before is None:
        return
    if row.stage <= before.stage and row != before:
        raise ViolationError("an iteration went back to an earlier stage, or moved on twice")
    for id_ in row.step_ids:
        step: Step = rows.get(step_key(id_)) or committed[step_key(id_)]
        if step.kind < row.stage and step.status not in ENDED:
            raise ViolationError("an iteration moved on before all steps of the stage had ended")


def _check_slice(row: Slice | None) -> None:
    if row is not None and (row.held < 0 or row.free < 0):
        raise ViolationError(f"more is reserved from a slice than was granted: {row}")
