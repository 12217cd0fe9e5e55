"""The floor: the reference iteration by hand in one asyncio process, without a bus and with one guarantee only.

Each answer is stored with its rows in one statement and commit before the next step uses it: 22 commits. There is no
takeover after a crash, no validation, and no graph query. The second floor asks model and search with the shipped clients,
and its tables have indexes for searches and evidence as Vigil's.
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
from shared.llm.messages import ChatRequest
from shared.llm.model_server import Limits, ModelServer, Stream
from shared.llm.provider import ChatProvider
from shared.web_search.client import SearchClient

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
_INDEXES: Final = """
create index on floor.nodes using gin (to_tsvector('simple', name), to_tsvector('simple', properties::text));
create index on floor.nodes (agent_id, name);
create index on floor.edges (source_id, target_id);
create index on floor.evidence (element_id);
create index on floor.evidence (source_url);
create unique index on floor.sources (agent_id, url);
"""
_TOOLS: Final = tuple(
    {"type": "function", "function": {"name": name, "parameters": {"type": "object"}}}
    for name in ("addGraphNode", "addGraphEdge")
)
_CONTEXT: Final = "Something is known already. " * 400
"""As long as the graph context of an agent."""
_SYSTEM_PROMPT: Final = {"role": "system", "content": "You know who supplies whom. " * 40}
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


class Clients:
    """The shipped clients of model and search."""

    def __init__(self, url: str, stream: Stream = "never") -> None:
        server = ModelServer(api_key="bench", base_url=f"{url}/v1", limits=Limits(), stream=stream)
        self._provider = ChatProvider(server)
        self._search = SearchClient(api_key="bench", base_url=url, timeout_seconds=10.0)

    async def ask(self, reference: Reference, key: str) -> None:
        """Ask for an answer as long as those of the script."""
        prompt = f"{reference.mission} key={key} {_CONTEXT}"
        request = ChatRequest(
            "m", (_SYSTEM_PROMPT, {"role": "user", "content": prompt}), _TOOLS, None, 1000
        )
        await self._provider.complete(request, _UnrecordedCall())  # type: ignore[arg-type]

    async def search(self, key: str) -> None:
        await self._search.search(f"key={key}", max_results=5, topic=None, time_range=None)

    async def close(self) -> None:
        await self._provider.close()
        await self._search.close()


class _UnrecordedCall:
    """A call that nobody resumes."""

    key = "floor"
    report_progress = None

    @asynccontextmanager
    async def attempt(self) -> AsyncIterator[None]:
        yield


class Floor:
    def __init__(
        self, connections: "asyncio.Queue[AsyncConnection[Any]]", clients: Clients | None
    ) -> None:
        self._connections = connections
        self.clients = clients

    @classmethod
    @asynccontextmanager
    async def open(cls, url: str, providers_url: str | None = None) -> "AsyncIterator[Floor]":
        """Connect, and make the schema `floor` in the database anew; the second floor if there are providers."""
        connections: asyncio.Queue[AsyncConnection[Any]] = asyncio.Queue()
        open_connections = [
            await AsyncConnection.connect(url, autocommit=True) for _ in range(CONNECTIONS)
        ]
        for connection in open_connections:
            connections.put_nowait(connection)
        await open_connections[0].execute("drop schema if exists floor cascade")
        await open_connections[0].execute(_SCHEMA)
        clients = None
        if providers_url is not None:
            await open_connections[0].execute(_INDEXES)
            clients = Clients(providers_url)
        try:
            yield cls(connections, clients)
        finally:
            if clients is not None:
                await clients.close()
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

    async def _insight(self, observation: str) -> None:
        calls = scripted_model.conclusion_calls(self._reference, Query.parse(observation).key)
        await self._record_answer("conclude", calls, **self._rows(calls))

    async def _record_answer(self, place: str, answer: Any, **rows: list[Json]) -> None:
        if self._floor.clients is not None:
            key = uuid4().hex[:16]
            if place == "search":
                await self._floor.clients.search(key)
            else:
                await self._floor.clients.ask(self._reference, key)
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
