"""Graphs: a process's copy of one, advanced by the journal, and answers that are resolved against it.

Names of one entity come in variants. A node is found by any variant; two nodes for one entity are an error that only
concurrent writers could make.
"""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from tests.support.simulation.database import Key, Statement, Transaction
from tests.support.simulation.rows import Head, Journal, Node, fold, mix

VARIANTS = 3
Changes = Mapping[Key, Any]
"""Changed rows of one graph; None is a deleted row."""


class Fact(NamedTuple):
    """One claim of an answer about an entity, under one variant of its name."""

    entity: int
    variant: int
    evidence_id: int
    as_of: int
    value: int


class Conclusion(NamedTuple):
    """A node without a name that others could use."""

    evidence_id: int


class View:
    """A process's copy of a graph. Valid only if its position is in the journal."""

    __slots__ = ("agent", "digest", "head", "rows")

    def __init__(self, agent: int) -> None:
        self.agent = agent
        self.clear()

    def clear(self) -> None:
        self.head = Head(0, 0)
        self.rows: dict[Key, Any] = {}
        self.digest = 0

    def advance(self, read: Callable[[Key], Any]) -> None:
        """Read what was changed since, in one statement."""
        head: Head = read(("head", self.agent)) or Head(0, 0)
        if head == self.head:
            return
        if self.head.seq and not self._is_in_journal(read):
            self.clear()
        for seq in range(self.head.seq + 1, head.seq + 1):
            journal: Journal | None = read(("journal", self.agent, seq))
            if journal is not None:
                self._set({key: read(key) for key in journal.keys})
        self.head = head

    def apply(self, changes: Changes, head: Head) -> None:
        """Advance by a commit of this process."""
        self._set(changes)
        self.head = head

    def _is_in_journal(self, read: Callable[[Key], Any]) -> bool:
        journal: Journal | None = read(("journal", self.agent, self.head.seq))
        return journal is not None and journal.chain == self.head.chain

    def _set(self, changes: Changes) -> None:
        for key, row in changes.items():
            self.digest ^= row_digest(key, self.rows.get(key)) ^ row_digest(key, row)
            if row is None:
                self.rows.pop(key, None)
            else:
                self.rows[key] = row


def row_digest(key: Key, row: Any) -> int:
    """The digest of a graph is the exclusive or of those of its rows."""
    if row is None:
        return 0
    return mix(*(part for part in key[1:] if isinstance(part, int)), hash(row))


def resolve(view: View, facts: tuple[Fact | Conclusion, ...]) -> Changes:
    """The rows that the facts change, if the graph is as in `view`."""
    changes: dict[Key, Any] = {}

    def read(key: Key) -> Any:
        return changes[key] if key in changes else view.rows.get(key)

    for fact in facts:
        if isinstance(fact, Conclusion):
            key: Key = ("node", view.agent, -fact.evidence_id)
            changes[key] = fold(frozenset({(fact.evidence_id, 0, 0)}))
            continue
        names: list[Key] = [("name", view.agent, fact.entity, i) for i in range(VARIANTS)]
        node_id = next((found for name in names if (found := read(name)) is not None), None)
        if node_id is None:
            node_id = fact.entity * VARIANTS + fact.variant
        changes[names[fact.variant]] = node_id
        node: Node | None = read(("node", view.agent, node_id))
        evidence = frozenset() if node is None else node.evidence
        item = (fact.evidence_id, fact.as_of, fact.value)
        changes["node", view.agent, node_id] = fold(evidence | {item})
    return {key: row for key, row in changes.items() if view.rows.get(key) != row}


def next_head(head: Head, changes: Changes) -> Head:
    return Head(head.seq + 1, mix(head.chain, head.seq, hash(tuple(changes.items()))))


def write_journal(transaction: Transaction, agent: int, head: Head, changes: Changes) -> None:
    """Advance the graph's head by one commit."""
    transaction.write(("head", agent), head)
    transaction.insert(("journal", agent, head.seq), Journal(tuple(changes), head.chain))


def merge_statement(agent: int, kept: int, merged: int, *, with_head: bool) -> Statement:
    """Merge one entity into another: its evidence moves, its names lead to the other's node."""

    def apply(transaction: Transaction) -> bool:
        head: Head = transaction.read(("head", agent)) or Head(0, 0)
        kept_id, merged_id = (_find(transaction, agent, entity) for entity in (kept, merged))
        if kept_id is None or merged_id is None or kept_id == merged_id:
            return False
        nodes = [transaction.read(("node", agent, node)) for node in (kept_id, merged_id)]
        changes: dict[Key, Any] = {
            ("node", agent, kept_id): fold(nodes[0].evidence | nodes[1].evidence),
            ("node", agent, merged_id): None,
        }
        for entity in range(ENTITIES):
            for variant in range(VARIANTS):
                if transaction.read(("name", agent, entity, variant)) == merged_id:
                    changes["name", agent, entity, variant] = kept_id
        for key, row in changes.items():
            transaction.write(key, row)
        if with_head:
            write_journal(transaction, agent, next_head(head, changes), changes)
        return True

    return Statement(apply, [("head", agent)] if with_head else ())


ENTITIES = 5


def _find(transaction: Transaction, agent: int, entity: int) -> int | None:
    for variant in range(VARIANTS):
        node_id: int | None = transaction.read(("name", agent, entity, variant))
        if node_id is not None:
            return node_id
    return None
