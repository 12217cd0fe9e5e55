"""Data of the pages of iterations: runs of quiet ones, outcomes, traces, details of a row."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID, uuid4

import httpx
import pytest
from sqlalchemy import delete, select

from services.api.resources.iterations import model as iterations
from services.api.resources.iterations import transcripts
from services.api.resources.iterations.outcomes import build_strip
from shared.billing.budgets import SUSPENSION_WORDS
from shared.database.engine import Database
from shared.database.pagination import InvalidCursorError
from shared.database.tables import Agent, Call, Iteration
from shared.enums import IterationStatus, Stage
from shared.runtime.settings import Settings
from shared.schemas.base import PageRequest
from shared.schemas.iterations import IterationGroup
from shared.telemetry.tracing import trace_id_of
from tests.support.api.access import agent_access, is_missing, owner_access
from tests.support.api.clients import create_client
from tests.support.api.full_agent import (
    AGENT,
    ANSWER_TEXT,
    FullAgent,
    add_phase_run,
    create_full_agent,
)
from tests.support.api.rows import get_agent
from tests.support.factories import make_agent, make_iteration
from tests.support.table_rows import change

ROOT = "http://127.0.0.1"
STARTED_AT = datetime(2026, 1, 1, tzinfo=UTC)
STOP = f"observe: the budget is reached. It is suspended {SUSPENSION_WORDS}; a higher budget resumes it immediately"
WORKED, QUIET, FAILED = IterationStatus.COMPLETED, IterationStatus.QUIET, IterationStatus.FAILED


async def _add_iterations(
    database: Database,
    agent: Agent,
    statuses: Sequence[IterationStatus],
    errors: Sequence[str] = (),
) -> None:
    """Adds iterations of these statuses, a minute apart, from number 1 on."""
    async with database.transaction() as session:
        for number, status in enumerate(statuses, 1):
            started_at = STARTED_AT + timedelta(minutes=number)
            await session.insert(
                Iteration,
                id=uuid4(),
                agent_id=agent.id,
                number=number,
                why="due",
                status=status,
                stage=Stage.ENDED,
                errors=list(errors) if status is FAILED else [],
                started_at=started_at,
                stage_changed_at=started_at,
                deadline_at=started_at,
                ended_at=started_at + timedelta(seconds=number),
            )


async def _list_groups(
    database: Database, agent: Agent, limit: int = 50
) -> list[list[IterationGroup]]:
    """Returns all pages."""
    pages, cursor = [], None
    async with database.transaction() as session:
        while True:
            page = await iterations.list_groups(
                agent_access(session, agent.owner_id, agent.id), PageRequest(limit, cursor)
            )
            pages.append(page.items)
            cursor = page.next
            if cursor is None:
                return pages


def _spans(groups: Sequence[IterationGroup]) -> list[tuple[int, int, int]]:
    return [(group.first, group.last, group.many) for group in groups]


async def test_consecutive_quiet_iterations_are_one_group(database: Database) -> None:
    agent = await make_agent(database)
    await _add_iterations(
        database, agent, [QUIET, QUIET, WORKED, QUIET, FAILED, WORKED, QUIET, QUIET, QUIET]
    )
    (groups,) = await _list_groups(database, agent)
    assert _spans(groups) == [(7, 9, 3), (6, 6, 1), (5, 5, 1), (4, 4, 1), (3, 3, 1), (1, 2, 2)]
    assert [group.iteration and group.iteration.status for group in groups] == [
        None,
        WORKED,
        FAILED,
        QUIET,
        WORKED,
        None,
    ]
    newest = groups[0]
    assert newest.started_at == STARTED_AT + timedelta(minutes=7)
    assert newest.ended_at == STARTED_AT + timedelta(minutes=9, seconds=9)


async def test_pages_of_groups_neither_repeat_nor_lose_an_iteration(database: Database) -> None:
    agent = await make_agent(database)
    await _add_iterations(database, agent, [QUIET, QUIET, QUIET, WORKED] * 12)
    pages = await _list_groups(database, agent, limit=3)
    assert [len(page) for page in pages] == [3] * 8
    # A run of quiet iterations is one row however long it is, so every page has others too.
    assert all(any(group.iteration is not None for group in page) for page in pages)
    spans = [span for page in pages for span in _spans(page)]
    numbers = [number for first, last, _ in spans for number in range(last, first - 1, -1)]
    assert numbers == list(range(48, 0, -1))
    assert sum(many for _, _, many in spans) == 48


async def test_only_quiet_iterations_are_one_group_and_deleted_ones_are_not_counted(
    database: Database,
) -> None:
    agent = await make_agent(database)
    await _add_iterations(database, agent, [QUIET] * 30)
    async with database.transaction() as session:
        await session.execute(
            delete(Iteration).where(Iteration.agent_id == agent.id, Iteration.number.in_([4, 5]))
        )
    (groups,) = await _list_groups(database, agent)
    assert _spans(groups) == [(1, 30, 28)]


async def test_groups_belong_to_the_owner_and_to_their_list(database: Database) -> None:
    agent = await make_agent(database)
    await _add_iterations(database, agent, [WORKED, WORKED])
    async with database.transaction() as session:
        page = await iterations.list_groups(agent_access(session, uuid4(), agent.id), PageRequest())
        assert page.items == []
        other = await iterations.list_iterations(
            agent_access(session, agent.owner_id, agent.id), PageRequest(limit=1)
        )
        with pytest.raises(InvalidCursorError):
            await iterations.list_groups(
                agent_access(session, agent.owner_id, agent.id), PageRequest(cursor=other.next)
            )


@pytest.mark.parametrize(
    ("errors", "is_stopped"),
    [
        ([STOP], True),
        ([STOP, STOP], True),
        ([STOP, "query: refused"], False),
        (["query: refused"], False),
        ([], False),
    ],
)
async def test_only_a_budget_stops_an_iteration(
    database: Database, errors: list[str], is_stopped: bool
) -> None:
    agent = await make_agent(database)
    await _add_iterations(database, agent, [WORKED, FAILED], errors)
    async with database.transaction() as session:
        owner, stranger = owner_access(session, agent.owner_id), owner_access(session, uuid4())
        outcomes = (await iterations.list_outcomes(owner, [agent.id], 9))[agent.id]
        assert (await iterations.list_outcomes(stranger, [agent.id], 9))[agent.id] == []
        [newest] = (await iterations.list_outcomes(owner, [agent.id], 1))[agent.id]
        of_budget, others = [
            await iterations.list_iterations(
                agent_access(session, agent.owner_id, agent.id),
                PageRequest(),
                status=FAILED,
                is_stopped=each,
            )
            for each in (True, False)
        ]
    assert [(each.number, each.is_stopped) for each in outcomes] == [(1, False), (2, is_stopped)]
    tones = [bar.outcome.tone for bar in build_strip(outcomes)]
    assert tones == ["good", "warn" if is_stopped else "bad"]
    assert newest.number == 2
    assert (len(of_budget.items), len(others.items)) == (is_stopped, not is_stopped)


async def test_a_trace_has_the_calls_with_the_tools_of_each_answer(database: Database) -> None:
    agent = await make_agent(database, name=AGENT)
    started = await make_iteration(database, agent)
    run_id = await add_phase_run(database, started)
    await _add_events(
        database,
        run_id,
        [
            {"type": "tool_result", "name": "addGraphNode", "key": "0", "result": {"nodeId": "n"}},
            {"type": "tool_result", "name": "addGraphNode", "key": "1", "result": {"error": "no"}},
            {"type": "repair", "subject": "addGraphNode", "repairs": ["a comma"]},
        ],
    )
    async with database.transaction() as session:
        trace = await iterations.get_trace(agent_access(session, agent.owner_id, agent.id), 1)
        assert await is_missing(iterations.get_trace(agent_access(session, uuid4(), agent.id), 1))
    first, search, last = trace.calls
    assert {call.interaction_id for call in trace.calls} == {run_id}
    assert [(tool.name, tool.uses, tool.refused) for tool in first.tools] == [("queryGraph", 1, 0)]
    assert (search.kind, search.tools) == ("search", [])
    assert [(tool.name, tool.uses, tool.refused) for tool in last.tools] == [("addGraphNode", 2, 1)]
    assert (first.repairs, last.repairs) == (0, 1)
    (step,) = trace.steps
    assert step.first_requested_at is not None


async def _add_events(database: Database, run_id: UUID, events: list[dict[str, Any]]) -> None:
    async with database.transaction() as session:
        calls = await session.scalars(
            select(Call).where(Call.interaction_id == run_id).order_by(Call.answered_at)
        )
        last = calls.all()[-1]
        await change(session, last, events=[*last.events, *events])


async def test_the_list_folds_quiet_iterations_and_filters(
    database: Database, api: httpx.AsyncClient
) -> None:
    await api.get("/agents")  # creates the owner
    agent = await make_agent(database, name=AGENT)
    await _add_iterations(database, agent, [FAILED, QUIET, QUIET, QUIET, WORKED], [STOP])
    address = f"{ROOT}/agents/{agent.id}/iterations"
    page = (await api.get(address)).text
    assert "<strong>3 quiet</strong> <span>2 to 4" in page
    assert [f'id="iteration-{number}"' in page for number in range(1, 6)] == [
        True,
        False,
        False,
        False,
        True,
    ]
    rows = (await api.get(f"{address}?first=2&last=4&part=quiet")).text
    assert [f'id="iteration-{number}"' in rows for number in range(1, 6)] == [
        False,
        True,
        True,
        True,
        False,
    ]
    stopped = (await api.get(f"{address}?status=stopped&part=rows")).text
    assert 'id="iteration-1"' in stopped
    assert "Daily budget reached" in stopped
    failed = (await api.get(f"{address}?status=failed&part=rows")).text
    assert "No failed iterations" in failed
    assert (await api.get(f"{address}?status=lost")).status_code == 422
    assert (await api.get(f"{address}?status=")).status_code == 200


async def test_each_row_of_a_waterfall_opens_its_details(
    database: Database, api: httpx.AsyncClient
) -> None:
    await api.get("/agents")  # creates the owner
    full = await create_full_agent(database)
    address = f"{ROOT}/agents/{full.agent_id}/iterations/1"
    keys = await _keys(database, full)
    page = (await api.get(address)).text
    assert [f'id="row-{key}"' in page for key in keys] == [True] * len(keys)
    for key in keys:
        details = await api.get(f"{address}?open={key}&part=details")
        assert details.status_code == 200, details.text
        assert "data-closes" in details.text
        whole = (await api.get(f"{address}?open={key}")).text
        assert details.text.strip() in whole
    last_answer = (await api.get(f"{address}?open={keys[-1]}&part=details")).text
    assert ANSWER_TEXT in last_answer
    assert "You plan." in last_answer


@pytest.mark.parametrize(
    "key", ["owner", "run-1", "step-{other}", "run-{other}", "call-{other}", "tool-{call}-7"]
)
async def test_what_is_no_row_of_the_iteration_is_not_found(
    database: Database, api: httpx.AsyncClient, key: str
) -> None:
    await api.get("/agents")  # creates the owner
    full = await create_full_agent(database)
    calls = [each for each in await _keys(database, full) if each.startswith("call-")]
    opened = key.format(other=full.node_id, call=calls[0].removeprefix("call-"))
    address = f"{ROOT}/agents/{full.agent_id}/iterations/1?open={opened}"
    assert (await api.get(address)).status_code == 404


async def test_a_call_of_another_iteration_is_not_found(
    database: Database, api: httpx.AsyncClient
) -> None:
    await api.get("/agents")  # creates the owner
    full = await create_full_agent(database)
    for key in (each for each in await _keys(database, full) if each not in ("iteration", "start")):
        address = f"{ROOT}/agents/{full.agent_id}/iterations/2?open={key}"
        assert (await api.get(address)).status_code == 404, key


async def _keys(database: Database, full: FullAgent) -> list[str]:
    """Returns the keys of the rows of the ended iteration, the last answer's last."""
    agent = await get_agent(database, AGENT)
    async with database.transaction() as session:
        trace = await iterations.get_trace(agent_access(session, agent.owner_id, full.agent_id), 1)
        first, search, last = trace.calls
        owner = owner_access(session, agent.owner_id)
        assert (await transcripts.find_call(owner, trace.id, last.id)).id == last.id
        assert await is_missing(
            transcripts.find_call(owner_access(session, uuid4()), trace.id, last.id)
        )
    return [
        "iteration",
        "start",
        f"step-{trace.steps[0].id}",
        f"run-{full.interaction_id}",
        f"call-{first.id}",
        f"tool-{first.id}-0",
        f"call-{search.id}",
        f"call-{last.id}",
    ]


async def test_an_iteration_names_its_trace(
    database: Database, database_url: str, api: httpx.AsyncClient
) -> None:
    agent = await make_agent(database)
    trace_id = trace_id_of((await make_iteration(database, agent)).iteration.id)
    details = await api.get(f"{ROOT}/api/v1/agents/{agent.id}/iterations/1")
    assert details.json()["trace_id"] == trace_id
    page = f"{ROOT}/agents/{agent.id}/iterations/1"
    assert "Trace</a>" not in (await api.get(page)).text
    where = "https://traces.example/t/{trace_id}"
    async with create_client(Settings(database_url=database_url, trace_url=where)) as client:
        assert f'href="https://traces.example/t/{trace_id}"' in (await client.get(page)).text
