"""A process's copy of a graph, advanced by the journal, equals a rebuilt one: also after the database was restored."""

from random import Random
from typing import Any

import pytest

from tests.support.simulation.database import Key
from tests.support.simulation.graph import Fact, View, next_head, resolve
from tests.support.simulation.rows import Head, Journal

AGENT = 1
SEEDS = 40


class History:
    """Commits of one graph, with backups that are restored now and then."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.rows: dict[Key, Any] = {}
        self._backups: list[dict[Key, Any]] = [{}]
        self._count = 0

    def commit(self) -> None:
        view = View(AGENT)
        view.advance(self.rows.get)
        self._count += 1
        entity, variant = self.random.randrange(5), self.random.randrange(3)
        fact = Fact(entity, variant, self._count, self.random.randrange(9), self._count)
        changes = resolve(view, (fact,))
        head = next_head(view.head, changes)
        self.rows.update(changes)
        self.rows["head", AGENT] = head
        self.rows["journal", AGENT, head.seq] = Journal(tuple(changes), head.chain)

    def backup_or_restore(self) -> bool:
        """Returns whether a backup was restored."""
        if self.random.random() < 0.5:
            self._backups.append(dict(self.rows))
            return False
        self.rows = dict(self.random.choice(self._backups))
        return True


def rebuilt(rows: dict[Key, Any]) -> View:
    view = View(AGENT)
    view.advance(rows.get)
    return view


@pytest.mark.parametrize("seed", range(SEEDS))
def test_an_advanced_view_equals_a_rebuilt_one(seed: int) -> None:
    history = History(seed)
    views = [View(AGENT) for _ in range(3)]
    restored = 0
    for _ in range(300):
        history.commit()
        if history.random.random() < 0.1:
            restored += history.backup_or_restore()
        for view in views:
            if history.random.random() < 0.3:
                view.advance(history.rows.get)
                expected = rebuilt(history.rows)
                assert (view.head, view.rows) == (expected.head, expected.rows)
                assert view.digest == expected.digest
    assert restored


def test_a_position_that_is_not_in_the_journal_is_found() -> None:
    """Without the comparison of the chain, a view would keep rows of commits that a restore has undone."""
    history = History(0)
    for _ in range(5):
        history.commit()
    backup = dict(history.rows)
    history.commit()
    view = rebuilt(history.rows)
    history.rows = backup
    history.commit()
    history.commit()
    assert view.head != Head(0, 0)
    journal: Journal = history.rows["journal", AGENT, view.head.seq]
    assert journal.chain != view.head.chain
    view.advance(history.rows.get)
    assert view.rows == rebuilt(history.rows).rows
