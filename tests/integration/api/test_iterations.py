"""Iterations over HTTP and on their pages: steps, traces, transcripts, the inbox and calls."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID, uuid4

import httpx
import pytest
from sqlalchemy import delete, func, select, update

from services.api.resources.iterations import model as iterations
from services.api.resources.iterations import transcripts
from services.api.resources.iterations.outcomes import build_strip
from shared.billing.budgets import SUSPENSION_WORDS
from shared.database.engine import Database
from shared.database.pagination import InvalidCursorError
from shared.database.tables import (
    Agent,
    Call,
    Evidence,
    GraphNodeType,
    Iteration,
    Step,
    ValidityBoundary,
)
from shared.enums import IterationStatus, Stage, StepStatus
from shared.graph import elements
from shared.graph.provenance.evidence import EvidenceInput
from shared.graph.provenance.sources import store_pages
from shared.graph.scope import GraphScope
from shared.graph.validation import Validators
from shared.runtime.settings import Settings
from shared.schemas.base import PageRequest
from shared.schemas.iterations import IterationGroup
from shared.telemetry.tracing import trace_id_of
from shared.workflow.iterations import StartedIteration
from tests.support.api.access import agent_access, is_missing, owner_access
from tests.support.api.clients import assert_problem, create_agent, create_client
from tests.support.api.full_agent import (
    AGENT,
    ANSWER_TEXT,
    PLAN,
    FullAgent,
    add_phase_run,
    create_full_agent,
    end_iteration,
)
from tests.support.api.rows import add_advice, get_agent, start_iteration
from tests.support.factories import make_agent, make_iteration
from tests.support.running_services import ended_iteration, running_services
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


async def test_each_tool_result_is_joined_with_its_call(database: Database) -> None:
    agent, run_id = await _create_agent_with_run(database)
    async with database.transaction() as session:
        first, last = await transcripts.list_answers(owner_access(session, agent.owner_id), run_id)
        assert await is_missing(transcripts.list_answers(owner_access(session, uuid4()), run_id))
    (tool_use,) = first.tool_uses
    assert (tool_use.name, tool_use.result, tool_use.has_ended) == (
        "tavilySearch",
        {"results": []},
        True,
    )
    assert tool_use.spent is not None
    assert (last.text, last.tool_uses, last.spent.input_tokens) == (ANSWER_TEXT, [], 7)


async def test_expired_calls_are_marked_and_the_rest_is_shown(
    database: Database, api: httpx.AsyncClient
) -> None:
    agent, run_id = await _create_agent_with_run(database)
    async with database.transaction() as session:
        await session.execute(update(Call).where(Call.agent_id == agent.id).values(answer=None))
    async with database.transaction() as session:
        first, last = await transcripts.list_answers(owner_access(session, agent.owner_id), run_id)
    assert not first.is_kept
    assert not last.is_kept
    assert [(tool_use.name, tool_use.result) for tool_use in first.tool_uses] == [
        ("tavilySearch", None),
        ("queryGraph", {"nodes": []}),
    ]
    page = await api.get(f"{ROOT}/agents/{agent.id}/iterations/1/runs/{run_id}")
    assert page.text.count("The answer is no longer stored.") == 2
    assert "This result is no longer stored." in page.text


async def test_an_iteration_has_the_costs_of_each_run(database: Database) -> None:
    agent, run_id = await _create_agent_with_run(database)
    async with database.transaction() as session:
        trace = await iterations.get_trace(agent_access(session, agent.owner_id, agent.id), 1)
    (run,) = trace.runs
    assert (run.id, run.event_count, run.spent.calls, run.spent.input_tokens) == (run_id, 4, 3, 14)
    # Two answered model calls for which the server reported no price.
    assert (run.spent.unpriced, trace.sums.spent.unpriced) == (2, 2)


async def test_a_different_value_of_a_later_page_supersedes_the_earlier(database: Database) -> None:
    agent = await _create_agent_with_type(database)
    first = await _run_iteration(database, agent, tonnes=5, year=2024)
    second = await _run_iteration(database, agent, tonnes=7, year=2025)
    async with database.transaction() as session:
        access = agent_access(session, agent.owner_id, agent.id)
        assert await iterations.list_superseded(access, first, limit=9) == []
        (superseded,) = await iterations.list_superseded(access, second, limit=9)
    assert (superseded.kind, superseded.name, superseded.property) == (
        "node",
        "Halden Cells",
        "tonnes",
    )
    assert (superseded.before, superseded.after) == (5, 7)


async def test_a_value_without_a_date_supersedes_one_of_its_own_page(database: Database) -> None:
    agent = await _create_agent_with_type(database)
    await _run_iteration(database, agent, tonnes=3, year=None, page="mirror")
    await _run_iteration(database, agent, tonnes=5, year=None)
    other = await _run_iteration(database, agent, tonnes=7, year=None)
    own = await _run_iteration(database, agent, tonnes=9, year=None, page="mirror")
    async with database.transaction() as session:
        access = agent_access(session, agent.owner_id, agent.id)
        assert await iterations.list_superseded(access, other, limit=9) == []
        (superseded,) = await iterations.list_superseded(access, own, limit=9)
    assert (superseded.before, superseded.after) == (3, 9)


async def test_only_a_value_that_was_in_force_is_superseded(database: Database) -> None:
    agent = await _create_agent_with_type(database)
    for tonnes, year in ((31, 2023), (17, 2025)):
        await _run_iteration(database, agent, tonnes=tonnes, year=year)
    # A page between both says the current value, or another one.
    again = await _run_iteration(database, agent, tonnes=17, year=2024)
    late = await _run_iteration(database, agent, tonnes=5, year=2024, page="late")
    newest = await _run_iteration(database, agent, tonnes=7, year=2026)
    equal = await _run_iteration(database, agent, tonnes=7, year=2027)
    async with database.transaction() as session:
        access = agent_access(session, agent.owner_id, agent.id)
        for iteration in (again, late, equal):
            assert await iterations.list_superseded(access, iteration, limit=9) == []
        (superseded,) = await iterations.list_superseded(access, newest, limit=9)
    assert (superseded.before, superseded.after) == (17, 7)


async def test_what_changed_is_that_of_the_last_day_or_of_the_newest_iteration(
    database: Database,
) -> None:
    agent = await _create_agent_with_type(database)
    numbers = [
        await _run_iteration(database, agent, tonnes=tonnes, year=year)
        for tonnes, year in ((3, 2023), (5, 2024), (7, 2025))
    ]
    async with database.transaction() as session:
        long_ago = datetime.now(UTC) - timedelta(days=3)
        for place, iteration_id in enumerate(numbers):
            ended = long_ago if place == 0 else datetime.now(UTC) - timedelta(hours=3 - place)
            values = {"ended_at": ended, "status": IterationStatus.COMPLETED}
            await session.execute(
                update(Iteration).where(Iteration.id == iteration_id).values(**values)
            )
    async with database.transaction() as session:
        access = agent_access(session, agent.owner_id, agent.id)
        lately = await iterations.working_lately(session, agent.id)
        assert [each.id for each in lately] == numbers[:0:-1]
        (changed,) = await iterations.list_superseded(access, *numbers[1:], limit=9)
        assert (changed.before, changed.after) == (3, 7)
        await session.execute(update(Iteration).values(ended_at=long_ago))
        [newest] = await iterations.working_lately(session, agent.id)
        assert newest.id == numbers[-1]


@pytest.mark.parametrize("page", ["iterations", "iterations/1", "settings"])
async def test_the_history_pages_of_a_full_agent_are_rendered(
    database: Database, api: httpx.AsyncClient, page: str
) -> None:
    await api.get("/agents")  # creates the owner
    full = await create_full_agent(database)
    response = await api.get(f"{ROOT}/agents/{full.agent_id}/{page}")
    assert response.status_code == 200, response.text
    assert AGENT in response.text
    assert (await api.get(f"{ROOT}/agents/{uuid4()}/{page}")).status_code == 404


async def _create_agent_with_run(database: Database) -> tuple[Agent, UUID]:
    agent = await make_agent(database, name=AGENT)
    started = await make_iteration(database, agent)
    run_id = await add_phase_run(database, started)
    return await get_agent(database, AGENT), run_id


async def _create_agent_with_type(database: Database) -> Agent:
    """Creates an agent with the node type Thing."""
    agent = await make_agent(database)
    async with database.transaction() as session:
        node_type = {"name": "Thing", "description": "Any thing", "created_by": "test"}
        await session.insert(
            GraphNodeType, agent_id=agent.id, properties_schema={"type": "object"}, **node_type
        )
    return agent


async def test_a_value_whose_day_has_come_since_the_last_iteration_has_changed(
    database: Database,
) -> None:
    agent = await _create_agent_with_type(database)
    first = await _run_iteration(database, agent, tonnes=5, year=2024)
    await _run_iteration(database, agent, tonnes=9, year=2025)
    async with database.transaction() as session:
        announced = Evidence.claims["tonnes"].as_integer() == 9
        moment = await session.scalar(select(func.clock_timestamp()))
        await session.execute(update(Evidence).where(announced).values(valid_from=moment))
        [evidence_id] = await session.scalars(select(Evidence.id).where(announced))
        await session.insert(
            ValidityBoundary, evidence_id=evidence_id, moment=moment, agent_id=agent.id, due_at=None
        )
    later: StartedIteration = await make_iteration(database, await get_agent(database, agent.name))
    await end_iteration(database, later)
    async with database.transaction() as session:
        access = agent_access(session, agent.owner_id, agent.id)
        assert await iterations.list_superseded(access, first, limit=9) == []
        (changed,) = await iterations.list_superseded(access, later.iteration.id, limit=9)
    assert (changed.name, changed.before, changed.after) == ("Halden Cells", 5, 9)


async def _run_iteration(
    database: Database, agent: Agent, *, tonnes: int, year: int | None, page: str = ""
) -> UUID:
    """Runs an iteration whose page, without a date if `year` is None, claims that number of tonnes; returns its id."""
    started: StartedIteration = await make_iteration(
        database, await get_agent(database, agent.name)
    )
    scope = GraphScope(agent.owner_id, agent.id, started.iteration.id, started.observe.id)
    url, text = f"https://press.example/{page}{year}", f"Halden Cells bought {tonnes} tonnes."
    dated = {} if year is None else {"published_date": f"{year}-01-01"}
    async with database.transaction() as session:
        await store_pages(session, scope, {"results": [{"url": url, "content": text, **dated}]})
        await elements.add_node(
            session,
            scope,
            Validators(),
            type_name="Thing",
            name="Halden Cells",
            properties={"tonnes": tonnes},
            evidence=[EvidenceInput(url, text)],
        )
    await end_iteration(database, started)
    return started.iteration.id


async def test_a_failing_step_is_shown_with_its_error(
    api: httpx.AsyncClient, database: Database
) -> None:
    await create_agent(api, name="Lithium")
    iteration = await start_iteration(database, "Lithium")
    async with database.transaction() as session:
        await session.execute(
            update(Step)
            .where(Step.iteration_id == iteration)
            .values(status=StepStatus.PENDING, error="no answer from the model server", attempts=2)
        )
    agent = (await api.get("/agents/lithium")).json()
    assert agent["last_iteration"]["status"] == "running"
    assert agent["last_iteration"]["stage"] == "observing"
    (trouble,) = agent["trouble"]
    assert (trouble["step"], trouble["attempts"]) == ("observe", 2)
    assert trouble["error"] == "no answer from the model server"


async def test_two_complete_iterations_can_be_read(
    api: httpx.AsyncClient, database: Database, sandbox_settings: Settings
) -> None:
    await create_agent(
        api, name="Batteries", mission="Watch battery makers and their lithium supply"
    )
    agent = await get_agent(database, "Batteries")
    # Without a bus the API publishes nothing: the reconciler does.
    settings = sandbox_settings.model_copy(update={"resend_after_seconds": 1.0})
    async with running_services(settings):
        await ended_iteration(database, agent, 1)
        await api.post("/agents/batteries/run")
        await ended_iteration(database, agent, 2)
    newest, oldest = (await api.get("/agents/batteries/iterations")).json()["items"]
    assert [newest["number"], oldest["number"]] == [2, 1]
    iteration = (await api.get(f"/iterations/{oldest['id']}")).json()
    assert iteration["plan"]["queries"]
    assert [step["kind"] for step in iteration["steps"]] == ["observe"] + ["query"] * (
        len(iteration["steps"]) - 1
    )
    phases = [interaction["phase"] for interaction in iteration["interactions"]]
    queries = len(iteration["steps"]) - 1
    assert phases == [
        "observer",
        *["knowledge_acquisition"] * queries,
        *["graph_construction"] * queries,
    ]
    answers = [
        event
        for interaction in iteration["interactions"]
        for event in interaction["events"]
        if event["type"] == "answer"
    ]
    assert all(event["message"]["role"] == "assistant" for event in answers)
    searches = [
        event
        for interaction in iteration["interactions"]
        for event in interaction["events"]
        if event["type"] == "tool_result" and event["name"] == "tavilySearch"
    ]
    assert all("results" in event["result"] for event in searches)
    assert searches
    assert iteration["calls"]["llm_calls"] == len(answers)
    assert iteration["calls"]["search_calls"] >= 1
    calls = (await api.get("/agents/batteries/calls/summary")).json()
    assert calls["totals"]["llm_calls"] > iteration["calls"]["llm_calls"]
    assert calls["totals"]["unpriced_calls"] == 0
    assert calls["totals"]["cost_usd"] > 0
    graph = (await api.get("/agents/batteries/graph")).json()
    assert len(graph["nodes"]) == graph["counts"]["nodes"] > 0
    assert sum(node_type["nodes"] for node_type in graph["node_types"]) == graph["counts"]["nodes"]
    assert sum(edge_type["edges"] for edge_type in graph["edge_types"]) == graph["counts"]["edges"]
    analyses = (await api.get("/agents/batteries/analyses")).json()["items"]
    assert analyses
    for analysis in analyses:
        assert analysis["citations"]
        assert all(citation["name"] for citation in analysis["citations"])
    assert (await api.delete("/agents/batteries")).status_code == 204


async def test_advice_is_added_to_the_inbox_and_marked_as_read_once(
    api: httpx.AsyncClient, database: Database
) -> None:
    agent = await create_agent(api, name="Lithium")
    await add_advice(database, await get_agent(database, "Lithium"))
    (item,) = (await api.get("/inbox", params={"unread": True})).json()["items"]
    assert (item["agent_name"], item["action"], item["read_at"]) == ("Lithium", "HOLD", None)
    read = (await api.post(f"/inbox/{item['id']}/read")).json()
    assert read["read_at"] is not None
    assert (await api.post(f"/inbox/{item['id']}/read")).json()["read_at"] == read["read_at"]
    assert (await api.get("/inbox", params={"unread": True})).json()["items"] == []
    assert len((await api.get("/inbox")).json()["items"]) == 1
    assert_problem(await api.post(f"/inbox/{uuid4()}/read"), 404)
    (advice,) = (await api.get(f"/agents/{agent['id']}/advice")).json()["items"]
    assert advice["word"] == "HOLD"
    assert [citation["type"] for citation in advice["citations"]] == ["AgentAnalysis"] * 2
    second, analysis = (await api.get(f"/agents/{agent['id']}/analyses")).json()["items"]
    assert [citation["name"] for citation in second["citations"]] == ["Lithium"]
    assert {(citation["kind"], citation["name"]) for citation in analysis["citations"]} == {
        ("node", "Halden Cells"),
        ("edge", "Halden Cells → Lithium"),
    }


async def test_the_events_of_an_interaction_are_joined_with_its_calls(
    api: httpx.AsyncClient, full: FullAgent
) -> None:
    path = f"/interactions/{full.interaction_id}"
    interaction = (await api.get(path)).json()
    assert (interaction["phase"], interaction["event_count"], interaction["system_prompt"]) == (
        "observer",
        4,
        "You plan.",
    )
    assert interaction["request"]["messages"][0]["content"] == "Plan."
    first_answer, search_result, query_result, last_answer = (
        await api.get(f"{path}/events")
    ).json()["items"]
    (call,) = first_answer["tool_calls"]
    assert (call["id"], call["name"], call["arguments"]) == ("t1", "tavilySearch", '{"query": "x"}')
    assert (first_answer["text"], last_answer["text"], last_answer["tool_calls"]) == (
        None,
        ANSWER_TEXT,
        [],
    )
    assert (search_result["tool_call_id"], search_result["result"]) == ("t1", {"results": []})
    assert (query_result["name"], query_result["result"]) == ("queryGraph", {"nodes": []})
    first_page = (await api.get(f"{path}/events", params={"limit": 3})).json()
    rest = await api.get(f"{path}/events", params={"limit": 3, "cursor": first_page["next"]})
    assert first_page["items"] == [first_answer, search_result, query_result]
    assert rest.json() == {"items": [last_answer], "next": None}
    for unknown_path in (f"/interactions/{uuid4()}", f"/interactions/{uuid4()}/events"):
        assert_problem(await api.get(unknown_path), 404)


async def test_an_iteration_is_found_by_its_number(api: httpx.AsyncClient, full: FullAgent) -> None:
    iteration = (await api.get(f"/agents/{AGENT}/iterations/1")).json()
    assert iteration == (await api.get(f"/iterations/{full.ended_iteration_id}")).json()
    assert (iteration["plan"], iteration["interactions"][0]["id"]) == (
        PLAN,
        str(full.interaction_id),
    )
    assert_problem(await api.get(f"/agents/{AGENT}/iterations/3"), 404, "3")
    for number in (0, 2**31, "x"):
        assert_problem(await api.get(f"/agents/{AGENT}/iterations/{number}"), 422, "number")


async def test_the_neighbourhood_of_a_node_is_limited_by_depth_and_size(
    api: httpx.AsyncClient, full: FullAgent
) -> None:
    """Lithium is linked to Halden Cells, which is linked to the analysis about it."""
    response = await api.get(
        f"/agents/{AGENT}/nodes", params={"search": "lithium", "type": "Thing"}
    )
    (metal,) = response.json()["items"]
    path = f"/agents/{AGENT}/nodes/{metal['id']}"
    assert [edge["type"] for edge in (await api.get(path)).json()["edges"]["items"]] == ["buys"]
    neighbourhood = (await api.get(f"{path}/neighbourhood")).json()
    assert [node["name"] for node in neighbourhood["nodes"]] == ["Lithium", "Halden Cells"]
    assert [edge["type"] for edge in neighbourhood["edges"]] == ["buys"]
    assert neighbourhood["cut"] is False
    two_steps = (await api.get(f"{path}/neighbourhood", params={"depth": 2})).json()
    assert [node["name"] for node in two_steps["nodes"]] == [
        "Lithium",
        "Halden Cells",
        "Halden grows",
    ]
    assert sorted(edge["type"] for edge in two_steps["edges"]) == ["about", "buys"]
    truncated = (await api.get(f"{path}/neighbourhood", params={"depth": 2, "limit": 2})).json()
    assert ([node["name"] for node in truncated["nodes"]], truncated["cut"]) == (
        ["Lithium", "Halden Cells"],
        True,
    )
    assert_problem(await api.get(f"{path}/neighbourhood", params={"depth": 3}), 422, "depth")
    for suffix in ("", "/edges", "/neighbourhood"):
        assert_problem(await api.get(f"/agents/{AGENT}/nodes/{uuid4()}{suffix}"), 404)


async def test_types_are_shown_with_their_schema(api: httpx.AsyncClient, full: FullAgent) -> None:
    advice = (await api.get(f"/agents/{AGENT}/node-types/AgentAdvice")).json()
    assert advice["created_by"] == "system"
    assert "action" in advice["properties_schema"]["properties"]
    assert advice["example_properties"]["action"] in ("BUY", "SELL", "HOLD")
    buys = (await api.get(f"/agents/{AGENT}/edge-types/buys")).json()
    assert (buys["source_types"], buys["target_types"]) == ([], [])
    for unknown_path in ("node-types/Nothing", "edge-types/nothing", f"edges/{uuid4()}"):
        assert_problem(await api.get(f"/agents/{AGENT}/{unknown_path}"), 404)


async def test_analyses_and_advice_have_separate_paths(
    api: httpx.AsyncClient, full: FullAgent
) -> None:
    analysis = (await api.get(f"/agents/{AGENT}/analyses/{full.analysis_id}")).json()
    assert analysis in (await api.get(f"/agents/{AGENT}/analyses")).json()["items"]
    assert_problem(await api.get(f"/agents/{AGENT}/advice/{full.analysis_id}"), 404)
    assert_problem(await api.get(f"/agents/{AGENT}/analyses/{full.node_id}"), 404)


async def test_inbox_items_are_marked_one_at_a_time_or_all_together(
    api: httpx.AsyncClient, full: FullAgent
) -> None:
    unread = {"unread": True}
    assert (await api.get(f"/inbox/{full.item_id}")).json()["read_at"] is None
    await api.post(f"/inbox/{full.item_id}/read")
    assert len((await api.get("/inbox", params=unread)).json()["items"]) == 1
    marked = await api.post(f"/inbox/{full.item_id}/unread")
    assert marked.json()["read_at"] is None
    assert (await api.post("/inbox/read")).json() == {"marked": 2}
    assert (await api.post("/inbox/read")).json() == {"marked": 0}
    assert (await api.get("/inbox", params=unread)).json()["items"] == []
    agent_items = await api.get("/inbox", params={"agent_id": str(full.agent_id)})
    no_items = await api.get("/inbox", params={"agent_id": str(uuid4())})
    assert (len(agent_items.json()["items"]), no_items.json()["items"]) == (2, [])
    for unknown_path in (f"/inbox/{uuid4()}/unread", f"/inbox/{uuid4()}/read"):
        assert_problem(await api.post(unknown_path), 404)
    assert_problem(await api.get(f"/inbox/{uuid4()}"), 404)


async def test_calls_are_listed_and_filtered(api: httpx.AsyncClient, full: FullAgent) -> None:
    path = f"/agents/{AGENT}/calls"
    calls = (await api.get(path)).json()["items"]
    assert {call["interaction_id"] for call in calls} >= {str(full.interaction_id)}
    searches = (await api.get(path, params={"kind": "search"})).json()["items"]
    assert [call["model"] for call in searches] == [None, None]
    assert (await api.get(path, params={"phase": "conversation"})).json()["items"] == []
    assert (await api.get(f"{path}/summary")).json()["totals"]["llm_calls"] == 4
    runs = (await api.get(f"/agents/{AGENT}/interactions", params={"phase": "observer"})).json()
    assert [run["event_count"] for run in runs["items"]] == [4, 4]
