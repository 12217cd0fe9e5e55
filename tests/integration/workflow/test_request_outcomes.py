"""States of investigation requests: answered with elements, not found, or open; equal requests are one."""

from collections.abc import Sequence
from datetime import timedelta
from uuid import UUID, uuid4

import pytest
from sqlalchemy import func, select, text, update

from shared.database.engine import Database
from shared.database.pipelined import BoundStatement
from shared.database.tables import Agent, GraphNode, GraphNodeType, InvestigationRequest
from shared.enums import RequestState
from shared.workflow import investigations
from shared.workflow.investigations import Answer, MissingData, Requested
from shared.workflow.iterations import StartedIteration
from tests.support.factories import make_agent, make_iteration
from tests.support.table_rows import add

OBJECTIVE = "The copper output of Peru in 2025"
EQUAL = [
    "the copper output of Peru in 2025",
    "  The copper  output of Peru in 2025.",
    "Find out the copper output of Peru in 2025",
    "What is the copper output of Peru in 2025?",
    "The copper output of Peru in 2025!",
]
OTHER = ["The copper output of Peru in 2024", "The copper output of Chile in 2025"]


class Requests:
    def __init__(self, database: Database, agent: Agent, started: StartedIteration) -> None:
        self.database = database
        self.agent_id = agent.id
        self.started = started

    async def make(self, objective: str = OBJECTIVE) -> Requested:
        step = self.started.observe
        query = investigations.request(
            self.agent_id, self.started.iteration.id, step.id, MissingData(objective, "It lacks.")
        )
        return await self.database.run(query)

    async def stored(self) -> Sequence[InvestigationRequest]:
        async with self.database.transaction() as session:
            return (await session.scalars(select(InvestigationRequest))).all()

    async def state(self) -> RequestState:
        (request,) = await self.stored()
        return request.state

    async def shown(self) -> tuple[list[str], list[str]]:
        outstanding = await self.database.run(investigations.list_outstanding(self.agent_id))
        return (
            [each.objective for each in outstanding.open],
            [each.objective for each in outstanding.not_found],
        )

    async def mark_not_found(
        self, request: UUID, not_found: str | None = "No page has it."
    ) -> None:
        await self.database.run(investigations.mark_not_found(self.agent_id, {request: not_found}))

    async def answer(
        self, request: UUID, nodes: Sequence[UUID] = (), not_found: str | None = None
    ) -> None:
        query = investigations.mark_answered(
            self.agent_id,
            {request: Answer(nodes)},
            by=self.started.observe.id,
            not_found={request: not_found} if not_found else {},
        )
        await self.database.run(query)

    async def age(self, days: float) -> None:
        async with self.database.transaction() as session:
            age = timedelta(days=days)
            values = {
                name: getattr(InvestigationRequest, name) - age
                for name in ("not_found_at", "answered_at")
            }
            await session.execute(update(InvestigationRequest).values(**values))

    async def write_nodes(self, *names: str) -> list[UUID]:
        """Writes nodes of these names, each of a type of its own."""
        nodes = [
            GraphNode(id=uuid4(), agent_id=self.agent_id, type=name, name=name, properties={})
            for name in names
        ]
        async with self.database.transaction() as session:
            for name in names:
                values = {"description": "A type", "properties_schema": {}, "created_by": "test"}
                await session.insert(GraphNodeType, agent_id=self.agent_id, name=name, **values)
            await add(session, *nodes)
        return [node.id for node in nodes]

    async def delete_node(self, node_id: UUID) -> None:
        async with self.database.transaction() as session:
            await session.execute(text("delete from graph_nodes where id = :id"), {"id": node_id})

    async def read_page(self) -> None:
        async with self.database.transaction() as session:
            await session.execute(
                text("""
                insert into sources (id, agent_id, url, text, sha256, fetched_at, seal)
                values (gen_random_uuid(), :agent, 'https://example.org/new', 'x', '', clock_timestamp(), '')
                """),
                {"agent": self.agent_id},
            )


@pytest.fixture
async def requests(database: Database) -> Requests:
    agent = await make_agent(database)
    return Requests(database, agent, await make_iteration(database, agent))


async def test_equal_requests_are_one(requests: Requests) -> None:
    first = await requests.make()
    for _ in range(20):
        for objective in EQUAL:
            assert (await requests.make(objective)).id == first.id
    assert len(await requests.stored()) == 1
    for objective in OTHER:
        assert (await requests.make(objective)).id != first.id
    assert await requests.shown() == ([*reversed(OTHER), OBJECTIVE], [])


@pytest.mark.parametrize("has_own_id", [False, True])
async def test_equal_requests_of_an_older_version_become_one(
    requests: Requests, *, has_own_id: bool
) -> None:
    """It stored each request, with an id of its own."""
    stored = {(await requests.make(objective)).id for objective in OTHER}
    old = [uuid4() for _ in EQUAL]
    async with requests.database.transaction() as session:
        for request_id, objective in zip(old, EQUAL, strict=True):
            await session.insert(
                InvestigationRequest,
                id=request_id,
                agent_id=requests.agent_id,
                iteration_id=requests.started.iteration.id,
                iteration_number=1,
                step_id=requests.started.observe.id,
                objective=objective,
                reasoning="It lacks.",
                search_hints=[],
            )
    kept = {(await requests.make()).id} if has_own_id else set(old)
    open_requests = await requests.database.run(
        investigations.list_open_requests(requests.agent_id)
    )
    assert len(open_requests) == 1 + len(OTHER)
    assert len((await requests.shown())[0]) == 1 + len(OTHER)
    repetitions = [each for request in open_requests for each in request.repeated_by]
    await requests.database.run(investigations.drop_expired(requests.agent_id, 1, repetitions))
    left = {each.id for each in await requests.stored() if each.state == RequestState.OPEN}
    assert len(left - stored) == 1
    assert left - stored <= kept


async def test_an_answered_request_names_what_was_written_and_stays_answered(
    requests: Requests,
) -> None:
    request, node = (await requests.make()).id, (await requests.write_nodes("Codelco"))[0]
    await requests.answer(request, [node])
    again = await requests.make(EQUAL[0])
    assert (again.is_open, again.answered_with) == (False, {"nodes": [str(node)], "edges": []})
    await requests.mark_not_found(request)
    assert await requests.state() == RequestState.ANSWERED
    assert await requests.shown() == ([], [])


OPENED_AGAIN = pytest.mark.parametrize(
    ("days", "has_read", "is_open"),
    [(0, True, False), (0.5, True, False), (2, False, False), (2, True, True)],
)


@OPENED_AGAIN
async def test_what_was_answered_is_opened_again_a_day_later_if_a_page_was_read_since(
    requests: Requests, days: float, *, has_read: bool, is_open: bool
) -> None:
    request, node = (await requests.make()).id, (await requests.write_nodes("Codelco"))[0]
    await requests.answer(request, [node])
    await requests.age(days)
    if has_read:
        await requests.read_page()
    for _ in range(2):
        again = await requests.make()
        assert (again.id, again.is_open) == (request, is_open)
    assert await requests.shown() == ([OBJECTIVE] if is_open else [], [])
    await requests.answer(request, [node])
    assert await requests.state() == RequestState.ANSWERED


async def test_a_request_is_opened_again_at_once_if_nothing_is_left_of_its_answer(
    requests: Requests,
) -> None:
    request = (await requests.make()).id
    nodes = await requests.write_nodes("Codelco", "Antamina")
    await requests.answer(request, nodes)
    await requests.delete_node(nodes[0])
    assert not (await requests.make()).is_open
    await requests.delete_node(nodes[1])
    again = await requests.make()
    assert (again.id, again.is_open, again.answered_with) == (request, True, None)
    assert await requests.shown() == ([OBJECTIVE], [])


@OPENED_AGAIN
async def test_what_was_not_found_is_opened_again_a_day_later_if_a_page_was_read_since(
    requests: Requests, days: float, *, has_read: bool, is_open: bool
) -> None:
    request = (await requests.make()).id
    await requests.mark_not_found(request)
    assert await requests.state() == RequestState.NOT_FOUND
    assert await requests.shown() == ([], [OBJECTIVE])
    await requests.age(days)
    if has_read:
        await requests.read_page()
    again = await requests.make()
    assert (again.id, again.is_open, again.not_found) == (request, is_open, "No page has it.")
    assert await requests.shown() == (([OBJECTIVE], []) if is_open else ([], [OBJECTIVE]))
    if is_open:
        await requests.mark_not_found(request)
        assert await requests.state() == RequestState.NOT_FOUND


async def test_another_query_can_answer_what_one_did_not_find(requests: Requests) -> None:
    request = (await requests.make()).id
    await requests.mark_not_found(request, None)
    await requests.answer(request)
    assert await requests.state() == RequestState.ANSWERED


async def test_an_expired_request_is_opened_again_when_it_is_repeated(requests: Requests) -> None:
    request = (await requests.make()).id
    async with requests.database.transaction() as session:
        values = {"dropped_at": func.clock_timestamp()}
        await session.execute(update(InvestigationRequest).values(**values))
    assert await requests.state() == RequestState.DROPPED
    assert (await requests.make()).is_open
    assert (await requests.state(), await requests.shown()) == (
        RequestState.OPEN,
        ([OBJECTIVE], []),
    )
    assert (await requests.stored())[0].id == request


async def test_requests_of_an_iteration_are_found_without_reading_those_of_others(
    requests: Requests,
) -> None:
    await requests.make()
    query = investigations.list_requests(requests.started.iteration.id)
    async with requests.database.connection() as connection:
        fill = BoundStatement(
            b"""
            insert into investigation_requests
              (id, agent_id, iteration_number, objective, reasoning, search_hints)
            select gen_random_uuid(), $1, 1, 'other ' || place, '', '[]' from generate_series(1, 20000) as place
            """,
            (requests.agent_id,),
        )
        await connection.run_together([fill])
        await connection.run_together([BoundStatement(b"analyze investigation_requests", ())])
        sql, values = query.statement.bind(query.params)
        (plan,) = await connection.run_together([BoundStatement(b"explain " + sql, values)])
    assert "Seq Scan on investigation_requests" not in "\n".join(row[0] for row in plan.tuples())


@pytest.mark.parametrize(
    ("days", "has_read", "is_open"),
    [(0, True, False), (0.5, True, False), (2, False, False), (2, True, True)],
)
async def test_what_is_answered_in_part_is_opened_again_as_what_was_not_found(
    requests: Requests, days: float, *, has_read: bool, is_open: bool
) -> None:
    request, missing = (await requests.make()).id, "The output of gold."
    (node,) = await requests.write_nodes("Codelco")
    await requests.answer(request, [node], missing)
    assert await requests.state() == RequestState.ANSWERED
    outstanding = await requests.database.run(investigations.list_outstanding(requests.agent_id))
    assert [(each.objective, each.not_found) for each in outstanding.partial] == [
        (OBJECTIVE, missing)
    ]
    assert (outstanding.open, outstanding.not_found) == ([], [])
    await requests.age(days)
    if has_read:
        await requests.read_page()
    again = await requests.make()
    assert (again.is_open, again.not_found) == (is_open, missing)
    assert await requests.shown() == (([OBJECTIVE] if is_open else []), [])
    if is_open:
        await requests.answer(request, [node])
        (stored,) = await requests.stored()
        assert (stored.state, stored.not_found) == (RequestState.ANSWERED, None)
        assert not (await requests.make()).is_open
