"""Short ids of nodes and edges, which models read and write in place of UUIDs: `n17`, `e4`.

The elements of an agent are numbered when a model is first shown them. They keep their numbers, so that the beginning of a
prompt stays the same from run to run, and a number is not used again.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final
from uuid import UUID

from shared.database.statements import (
    Batch,
    BoundQuery,
    CompiledStatement,
    Executor,
    Row,
    uuid_array,
)
from shared.graph.scope import OWNED_AGENT_ID_SQL, GraphScope

_UUID: Final = r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}"
_SHOWN: Final = re.compile(rf"\[(?:node|edge):({_UUID})\]|({_UUID})", re.IGNORECASE)
_SHORT: Final = r"([ne])(\d{1,9})"
_REFERENCE: Final = re.compile(
    rf"\s*[\[<\"'`]?\s*(?:(?:node|edge|id)\s*:\s*)?{_SHORT}\s*[\]>\"'`]?\s*"
)
_CITED: Final = re.compile(
    rf"\[\s*(?:(?:node|edge)\s*:\s*)?{_SHORT}((?:\s*[,;]\s*(?:(?:node|edge)\s*:\s*)?[ne]\d{{1,9}})*)\s*\]"
)
_ONE: Final = re.compile(rf"(?<![\w-]){_SHORT}(?!\w)")
_KINDS: Final = {"n": "node", "e": "edge"}
_MAX_ATTEMPTS: Final = 5

# Rows are added under the agent's lock: concurrent inserts, whose order differs in the two unique keys, would deadlock. The
# statement does not see what another run adds while it waits for the lock: it adds nothing then, and has to be repeated.
_NUMBERS: Final = CompiledStatement(f"""
    with known as (
        select element_id, kind, number from element_numbers
        where agent_id = {OWNED_AGENT_ID_SQL} and element_id = any(cast(:ids as uuid[]))
    ), given as (
        select id, place, case
            when exists (select from graph_nodes where id = given.id and (agent_id = {OWNED_AGENT_ID_SQL}) is true) then 'n'
            when exists (select from graph_edges where id = given.id and (agent_id = {OWNED_AGENT_ID_SQL}) is true) then 'e'
        end as kind
        from unnest(cast(:ids as uuid[])) with ordinality given (id, place)
        where id not in (select element_id from known)
    ), locked as materialized (
        select pg_advisory_xact_lock(hashtextextended('numbers ' || cast(:of_agent as text), 0))
        from (select from given where kind is not null limit 1) any_given
    ), fresh as (
        insert into element_numbers (agent_id, number, element_id, kind)
        select {OWNED_AGENT_ID_SQL},
            (select coalesce(max(number), 0) from element_numbers where agent_id = {OWNED_AGENT_ID_SQL})
            + row_number() over (order by place), id, kind
        from locked cross join given where kind is not null
        on conflict do nothing
        returning element_id, kind, number
    )
    select element_id, kind, number, true as is_numbered from known
    union all select element_id, kind, number, true from fresh
    union all select id, kind, 0, false from given
      where kind is not null and id not in (select element_id from fresh)
    """)
_ELEMENTS: Final = CompiledStatement(f"""
    select kind, number, element_id from element_numbers
    where agent_id = {OWNED_AGENT_ID_SQL} and number = any(cast(:numbers as int[]))
    """)


@dataclass(eq=False)
class ShortIds:
    """The short ids that a run shows to its model."""

    scope: GraphScope
    _short: dict[UUID, str] = field(default_factory=dict)
    _elements: dict[str, UUID] = field(default_factory=dict)

    async def store_numbers(self, transaction: Executor, texts: Iterable[str]) -> None:
        """Numbers the nodes and edges whose UUIDs are in `texts`. Other UUIDs are left alone."""
        unknown = self._without_number(_ids_in(texts))
        for _ in range(_MAX_ATTEMPTS):
            if not unknown:
                return
            unknown = await self._numbering(unknown).execute(transaction)

    def number_with(self, batch: Batch, texts: Iterable[str], ids: Iterable[UUID]) -> None:
        """Numbers with `batch` what is in `texts`, and then the elements `ids`. What another run numbers at the same moment
        is left to `store_numbers`.
        """
        if unknown := self._without_number([*_ids_in(texts), *ids]):
            batch.add(self._numbering(unknown))

    def _numbering(self, ids: Sequence[UUID]) -> BoundQuery[list[UUID]]:
        """Numbers elements; returns those that another run has numbered at the same moment."""

        def read(rows: Sequence[Row]) -> list[UUID]:
            self._add(row for row in rows if row.is_numbered)
            return [row.element_id for row in rows if not row.is_numbered]

        return BoundQuery(_NUMBERS, {**self.scope.sql_params, "ids": uuid_array(ids)}, read)

    def _without_number(self, ids: Iterable[UUID]) -> list[UUID]:
        return [each for each in dict.fromkeys(ids) if each not in self._short]

    async def load(self, transaction: Executor, texts: Iterable[str]) -> None:
        """Looks up the short ids in `texts`, which were shown before."""
        numbers = {int(match[2]) for text in texts for match in _ONE.finditer(text)}
        values = {**self.scope.sql_params, "numbers": sorted(numbers)}
        self._add(await _ELEMENTS.rows(transaction, values))

    def shorten(self, text: str) -> str:
        """`text` with short ids in place of the UUIDs that are numbered: `[n17]` for `[node:UUID]`, `n17` for a bare one."""

        def replace(match: re.Match[str]) -> str:
            short = self._short.get(UUID(match[1] or match[2]))
            if short is None:
                return match[0]
            return f"[{short}]" if match[1] else short

        return _SHOWN.sub(replace, text)

    def expand(self, text: str) -> str:
        """`text` with `[node:UUID]` in place of `[n17]`, and `[edge:UUID]` in place of `[e4]`; `[n1, n2]` becomes two.

        One that was not shown gets a UUID that no element has, `[node:00000000-0000-0000-0000-000000000077]` for `[n77]`, so
        that its citation is marked as that of a missing element.
        """

        def expand_one(match: re.Match[str]) -> str:
            element_id = self._elements.get(match[0]) or f"{UUID(int=0)}"[:-12] + match[2].zfill(12)
            return f"[{_KINDS[match[1]]}:{element_id}]"

        return _CITED.sub(lambda match: " ".join(map(expand_one, _ONE.finditer(match[0]))), text)

    def unknown(self, text: str) -> list[str]:
        """The short ids that `text` cites and that were not shown."""
        cited = [each[0] for part in _CITED.finditer(text) for each in _ONE.finditer(part[0])]
        return [each for each in dict.fromkeys(cited) if each not in self._elements]

    def find(self, reference: str) -> UUID | None:
        """The element that `reference` is the UUID or the short id of; None if it was not shown."""
        if (match := _SHOWN.search(reference)) is not None:
            return UUID(match[1] or match[2])
        match = _REFERENCE.fullmatch(reference)
        return None if match is None else self._elements.get(f"{match[1]}{match[2]}")

    def _add(self, rows: Iterable[Row]) -> None:
        for row in rows:
            short = f"{row.kind}{row.number}"
            self._short[row.element_id] = short
            self._elements[short] = row.element_id


def _ids_in(texts: Iterable[str]) -> list[UUID]:
    return [UUID(match[1] or match[2]) for text in texts for match in _SHOWN.finditer(text)]


def number_in(reference: str) -> int | None:
    """The number of the short id that `reference` is, bare or in brackets; None if it is none."""
    match = _REFERENCE.fullmatch(reference)
    return None if match is None else int(match[2])


def elements_query(scope: GraphScope, numbers: Iterable[int]) -> BoundQuery[dict[int, UUID]]:
    """The elements of these numbers."""

    def read(rows: Sequence[Row]) -> dict[int, UUID]:
        return {row.number: row.element_id for row in rows}

    return BoundQuery(_ELEMENTS, {**scope.sql_params, "numbers": sorted(set(numbers))}, read)
