"""The floor: the reference iteration by hand in one asyncio process, without a bus and with one guarantee only.

Each answer is stored with its rows in one statement and commit before the next step uses it: 22 commits. There is no
takeover after a crash, no validation, and no graph query.
"""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, Final
from uuid import UUID, uuid4

from psycopg import AsyncConnection
from psycopg.types.json import Jsonb

from bench.loop import scripted_model
from bench.loop.scripted_model import Json, Query, Reference

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
create table floor.evidence (id uuid primary key, element_id uuid not null, source_url text not null, quote text not null);
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
    async def open(cls, url: str, delay_seconds: float = 0.0) -> "AsyncIterator[Floor]":
        """Connect; creates the schema `floor` in the database if it does not exist."""
        connections: asyncio.Queue[AsyncConnection[Any]] = asyncio.Queue()
        open_connections = [
            await AsyncConnection.connect(url, autocommit=True) for _ in range(CONNECTIONS)
        ]
        for connection in open_connections:
            connections.put_nowait(connection)
        result = await open_connections[0].execute("select to_regnamespace('floor')")
        if (await result.fetchone()) == (None,):
            await open_connections[0].execute(_SCHEMA)
        try:
            yield cls(connections, delay_seconds)
        finally:
            for connection in open_connections:
                await connection.close()

    async def run(self, agent_id: UUID) -> float:
        """Run one iteration; returns its seconds."""
        began = time.perf_counter()
        reference = Reference(agent_id, (uuid4(), uuid4()))
        iteration = _Iteration(self, uuid4(), reference)
        await self.commit(_START, (iteration.id, agent_id))
        await iteration.run()
        return time.perf_counter() - began

    async def wait_for_answer(self) -> None:
        if self._delay_seconds:
            await asyncio.sleep(self._delay_seconds)

    async def commit(self, statement: bytes, params: Any) -> None:
        connection = await self._connections.get()
        try:
            await connection.execute(statement, params)
        finally:
            self._connections.put_nowait(connection)


class _Iteration:
    def __init__(self, floor: Floor, iteration_id: UUID, reference: Reference) -> None:
        self._floor = floor
        self.id = iteration_id
        self._reference = reference

    async def run(self) -> None:
        plan = scripted_model.plan_for(self._reference, self.id.hex[:16])
        await self._record_answer("plan", plan)
        await asyncio.gather(*(self._query(item["objective"]) for item in plan["queries"]))
        await asyncio.gather(*(self._insight(item["observation"]) for item in plan["insights"]))
        await self._record_answer("advice", "That is all there is to it.")

    async def _query(self, objective: str) -> None:
        query = Query.parse(objective)
        await self._record_answer("search for", scripted_model.search_calls(query))
        page = {"id": str(uuid4()), "agent_id": str(self._reference.agent_id), "url": query.url}
        content = query.page["content"]
        await self._record_answer("search", query.page, sources=[page | {"text": content}])
        await self._record_answer("document", scripted_model.document_text(query))
        calls = scripted_model.write_calls(self._reference, query)
        await self._record_answer("write", calls, **self._rows(calls))
        await self._record_answer("written", "That is all there is to it.")

    async def _insight(self, observation: str) -> None:
        calls = scripted_model.conclusion_calls(self._reference, Query.parse(observation).key)
        await self._record_answer("conclude", calls, **self._rows(calls))
        await self._record_answer("concluded", "That is all there is to it.")

    async def _record_answer(self, place: str, answer: Any, **rows: list[Json]) -> None:
        await self._floor.wait_for_answer()
        rows_by_table = {table: Jsonb(rows.get(table, [])) for table in _ROWS}
        columns = {"id": uuid4(), "iteration_id": self.id, "place": place, "answer": Jsonb(answer)}
        await self._floor.commit(_JOURNAL, rows_by_table | columns)

    def _rows(self, calls: list[Json]) -> dict[str, list[Json]]:
        rows: dict[str, list[Json]] = {"nodes": [], "edges": [], "evidence": []}
        for arguments in scripted_model.parse_arguments(calls):
            element: Json = {"id": str(uuid4()), "agent_id": str(self._reference.agent_id)}
            if "sourceId" in arguments:
                ends = {"source_id": arguments["sourceId"], "target_id": arguments["targetId"]}
                element |= ends | {
                    "type": arguments["type"],
                    "properties": arguments.get("properties", {}),
                }
                rows["edges"].append(element)
            else:
                properties = arguments.get("properties") or {"content": arguments["content"]}
                element |= {
                    "type": arguments["type"],
                    "name": arguments["name"],
                    "properties": properties,
                }
                rows["nodes"].append(element)
            rows["evidence"] += [
                {
                    "id": str(uuid4()),
                    "element_id": element["id"],
                    "source_url": evidence["sourceUrl"],
                    "quote": evidence["quote"],
                }
                for evidence in arguments.get("evidence", [])
            ]
        return rows
