"""The floor: the reference iteration as one asyncio process would do it by hand, with no bus and no other promise than one.

Every answer is journalled with the rows that were made of it, in one statement and commit, before anything is built on
it: 22 commits. Nobody takes over from it, nothing is checked, no graph is looked at.
"""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, Final
from uuid import UUID, uuid4

from psycopg import AsyncConnection
from psycopg.types.json import Jsonb

from bench.loop import script
from bench.loop.script import Json, Query, Reference

CONNECTIONS: Final = 16

_SCHEMA: Final = """
create schema floor;
create table floor.iterations (id uuid primary key, agent_id uuid not null, started_at timestamptz not null default now());
create table floor.journal (
    id uuid primary key, iteration_id uuid not null references floor.iterations, place text not null, answer jsonb not null,
    input_tokens int not null, output_tokens int not null, cost numeric not null,
    answered_at timestamptz not null default now()
);
create table floor.sources (id uuid primary key, agent_id uuid not null, url text not null, text text not null);
create table floor.nodes (
    id uuid primary key, agent_id uuid not null, type text not null, name text not null, properties jsonb not null,
    unique (agent_id, type, name)
);
create table floor.edges (
    id uuid primary key, agent_id uuid not null, type text not null, source_id uuid not null, target_id uuid not null,
    properties jsonb not null, unique (agent_id, type, source_id, target_id)
);
create table floor.evidence (id uuid primary key, thing_id uuid not null, source_url text not null, quote text not null);
"""
_ROWS: Final = ("sources", "nodes", "edges", "evidence")
_START: Final = b"insert into floor.iterations (id, agent_id) values (%s, %s)"
_JOURNAL: Final = (
    "with "
    + ", ".join(
        f"{table}_ as (insert into floor.{table}"
        f" select * from jsonb_populate_recordset(null::floor.{table}, %({table})s))"
        for table in _ROWS
    )
    + " insert into floor.journal (id, iteration_id, place, answer, input_tokens, output_tokens, cost)"
    " values (%(id)s, %(iteration_id)s, %(place)s, %(answer)s, 1000, 100, 0.001)"
).encode()


class Floor:
    def __init__(self, connections: "asyncio.Queue[AsyncConnection[Any]]", delay: float) -> None:
        self._connections = connections
        self._delay_seconds = delay

    @classmethod
    @asynccontextmanager
    async def of(cls, url: str, delay_seconds: float = 0.0) -> "AsyncIterator[Floor]":
        """In a schema of its own of that database, made where it is not there."""
        connections: asyncio.Queue[AsyncConnection[Any]] = asyncio.Queue()
        opened = [await AsyncConnection.connect(url, autocommit=True) for _ in range(CONNECTIONS)]
        for each in opened:
            connections.put_nowait(each)
        found = await opened[0].execute("select to_regnamespace('floor')")
        if (await found.fetchone()) == (None,):
            await opened[0].execute(_SCHEMA)
        try:
            yield cls(connections, delay_seconds)
        finally:
            for each in opened:
                await each.close()

    async def run(self, agent_id: UUID) -> float:
        """One iteration; its seconds."""
        began = time.perf_counter()
        reference = Reference(agent_id, (uuid4(), uuid4()))
        iteration = _Iteration(self, uuid4(), reference)
        await self.commit(_START, (iteration.id, agent_id))
        await iteration.go()
        return time.perf_counter() - began

    async def wait_for_an_answer(self) -> None:
        if self._delay_seconds:
            await asyncio.sleep(self._delay_seconds)

    async def commit(self, statement: bytes, given: Any) -> None:
        connection = await self._connections.get()
        try:
            await connection.execute(statement, given)
        finally:
            self._connections.put_nowait(connection)


class _Iteration:
    def __init__(self, floor: Floor, iteration_id: UUID, reference: Reference) -> None:
        self._floor = floor
        self.id = iteration_id
        self._reference = reference

    async def go(self) -> None:
        plan = script.plan_for(self._reference, self.id.hex[:16])
        await self._answered("plan", plan)
        await asyncio.gather(*(self._query(each["objective"]) for each in plan["queries"]))
        await asyncio.gather(*(self._insight(each["observation"]) for each in plan["insights"]))
        await self._answered("advice", "That is all there is to it.")

    async def _query(self, objective: str) -> None:
        query = Query.within(objective)
        await self._answered("search for", script.searches(query))
        page = {"id": str(uuid4()), "agent_id": str(self._reference.agent_id), "url": query.url}
        content = query.page["content"]
        await self._answered("search", query.page, sources=[page | {"text": content}])
        await self._answered("document", script.document(query))
        calls = script.writes(self._reference, query)
        await self._answered("write", calls, **self._rows(calls))
        await self._answered("written", "That is all there is to it.")

    async def _insight(self, observation: str) -> None:
        calls = script.concludes(self._reference, Query.within(observation).key)
        await self._answered("conclude", calls, **self._rows(calls))
        await self._answered("concluded", "That is all there is to it.")

    async def _answered(self, place: str, answer: Any, **rows: list[Json]) -> None:
        await self._floor.wait_for_an_answer()
        given = {table: Jsonb(rows.get(table, [])) for table in _ROWS}
        about = {"id": uuid4(), "iteration_id": self.id, "place": place, "answer": Jsonb(answer)}
        await self._floor.commit(_JOURNAL, given | about)

    def _rows(self, calls: list[Json]) -> dict[str, list[Json]]:
        rows: dict[str, list[Json]] = {"nodes": [], "edges": [], "evidence": []}
        for given in script.arguments_of(calls):
            thing: Json = {"id": str(uuid4()), "agent_id": str(self._reference.agent_id)}
            if "sourceId" in given:
                ends = {"source_id": given["sourceId"], "target_id": given["targetId"]}
                thing |= ends | {"type": given["type"], "properties": given.get("properties", {})}
                rows["edges"].append(thing)
            else:
                told = given.get("properties") or {"content": given["content"]}
                thing |= {"type": given["type"], "name": given["name"], "properties": told}
                rows["nodes"].append(thing)
            rows["evidence"] += [
                {
                    "id": str(uuid4()),
                    "thing_id": thing["id"],
                    "source_url": each["sourceUrl"],
                    "quote": each["quote"],
                }
                for each in given.get("evidence", [])
            ]
        return rows
