"""Phases against a model that makes mistakes, is slow or cuts prompts, over real HTTP."""

import asyncio
import json
import socket
from dataclasses import dataclass, field
from decimal import Decimal
from functools import partial
from typing import Any
from uuid import uuid4

import pytest
from pydantic import BaseModel, ConfigDict, SecretStr
from sqlalchemy import select, text

from services.aggregator import deadlines as deadlines_module
from services.api.resources.agents import model as agents
from services.api.resources.iterations import model as iterations
from services.api.resources.iterations import transcripts
from services.observer import app as observer_app
from shared.billing import call_ledger, reservations
from shared.billing.resumable_call import ResumableCall
from shared.database.engine import Database
from shared.database.statements import CompiledStatement
from shared.database.tables import Agent, BudgetDay, Call, Interaction, Iteration
from shared.database.transaction import Transaction
from shared.enums import CallKind, IterationStatus, Phase
from shared.errors import PermanentError, TransientError
from shared.llm import provider as provider_module
from shared.llm.context_limit import CONTEXT_CUT, LimitedProvider
from shared.llm.ledgered_model import read_answer
from shared.llm.messages import ChatAnswer, ChatRequest, assistant_message, encode_json
from shared.llm.phase_run import PhaseRun
from shared.llm.pricing import read_prices
from shared.llm.provider import Model, OnDelta
from shared.llm.tool_loop import MAX_TOOL_ROUNDS, ToolLoop
from shared.llm.toolset import MAX_CALLS_AT_ONCE
from shared.llm.usage import parse_usage
from shared.runtime.bus import Bus
from shared.runtime.providers import create_model
from shared.runtime.settings import Settings
from shared.schemas import base
from shared.schemas.base import RepairEvent, RunningCall
from shared.schemas.iterations import NOTES_KEY, SERVER_NOTE, UNREAD_CALLS
from shared.telemetry import tracing
from shared.tools import Arguments, Json, PaidTool, StateTool, Tool, ToolRefusalError
from shared.web_search.client import SearchClient
from shared.workflow.leases import Lease
from tests.support import claims
from tests.support.api.access import owner_access
from tests.support.factories import make_agent, make_iteration
from tests.support.observability.spans import kept_spans
from tests.support.phase_runs import request_structured
from tests.support.running_services import ended_iteration, running_services
from tests.support.sandbox.server import running_app
from tests.support.sandbox_control import Sandbox
from tests.support.sandbox_prices import SANDBOX_PRICES
from tests.support.slow_server import SlowServer
from tests.support.steps import observer_is_idle, request_observe_step, running_service
from tests.support.waiting import wait_until


class Answer(BaseModel):
    model_config = ConfigDict(extra="forbid")

    answer: int


class Params(Arguments):
    value: int


@pytest.fixture
def model(sandbox_settings: Settings, database: Database) -> Model:
    return create_model(sandbox_settings, database)


@pytest.fixture
async def agent(database: Database) -> Agent:
    return await make_agent(database)


@pytest.fixture
async def lease(database: Database, agent: Agent) -> Lease:
    started = await make_iteration(database, agent)
    async with database.transaction() as session:
        claim = await claims.claimed(session, started.observe.id, "test")
    return claim.lease


def phase_run(model: Model, lease: Lease, agent: Agent) -> PhaseRun:
    return PhaseRun(model, lease, agent, Phase.OBSERVER, "What is six times seven?")


def scripted(**fields: Any) -> dict[str, Any]:
    return {"content": "", **fields}


def calls(*tool_calls: tuple[str, Any]) -> dict[str, Any]:
    return scripted(
        tool_calls=[{"name": name, "arguments": arguments} for name, arguments in tool_calls]
    )


async def list_calls(database: Database) -> list[Call]:
    async with database.transaction() as session:
        return list(await session.scalars(select(Call).order_by(Call.started_at)))


async def list_events(database: Database) -> list[Json]:
    async with database.transaction() as session:
        run: Interaction = (await session.scalars(select(Interaction))).one()
    return run.events


async def test_a_structured_response_is_parsed_and_recorded_with_its_tokens(
    model: Model, lease: Lease, agent: Agent, sandbox_control: Sandbox, database: Database
) -> None:
    sandbox_control.script(scripted(content={"answer": 42}))
    response = await request_structured(phase_run(model, lease, agent), Answer, name="shape")
    assert response == Answer(answer=42)
    [call] = await list_calls(database)
    assert call.answered_at is not None
    assert (call.input_tokens or 0) > 0
    assert (call.output_tokens or 0) > 0
    assert call.cost_usd == read_prices(SANDBOX_PRICES).tokens_usd(
        "sandbox-reader", call.input_tokens, call.output_tokens
    )
    assert call.cost_usd


async def test_the_cost_is_computed_from_the_configured_price(
    sandbox_settings: Settings,
    lease: Lease,
    agent: Agent,
    sandbox_control: Sandbox,
    database: Database,
) -> None:
    priced = sandbox_settings.model_copy(update={"prices": {"sandbox-reader": (2.0, 8.0)}})
    sandbox_control.script(scripted(content={"answer": 42}))
    await request_structured(
        phase_run(create_model(priced, database), lease, agent), Answer, name="shape"
    )
    [call] = await list_calls(database)
    tokens = (call.input_tokens or 0) * 2 + (call.output_tokens or 0) * 8
    assert float(call.cost_usd or 0) == pytest.approx(tokens / 1_000_000)


async def test_an_invalid_response_is_requested_once_more(
    model: Model, lease: Lease, agent: Agent, sandbox_control: Sandbox
) -> None:
    sandbox_control.script(
        scripted(content={"answer": "many"}), scripted(content='```json\n{"answer": 42}\n```')
    )
    assert await request_structured(phase_run(model, lease, agent), Answer, name="shape") == Answer(
        answer=42
    )
    assert sandbox_control.billed()["llm"] == 2


async def test_a_request_records_its_schema_and_whether_it_is_a_repetition(
    model: Model, lease: Lease, agent: Agent, sandbox_control: Sandbox, database: Database
) -> None:
    sandbox_control.script(scripted(content="no JSON at all"), scripted(content='{"answer": 42}'))
    await request_structured(phase_run(model, lease, agent), Answer, name="shape")
    first, again = [call.request for call in await list_calls(database)]
    assert (first["schema"], again["schema"]) == ("shape", "shape")
    assert ("asks_again" in first, again["asks_again"]) == (False, True)


async def test_a_repair_is_listed_among_the_events_of_its_run(
    model: Model, lease: Lease, agent: Agent, sandbox_control: Sandbox, database: Database
) -> None:
    sandbox_control.script(scripted(content='{"answer": 42}'))
    run = phase_run(model, lease, agent)
    await request_structured(run, Answer, name="shape")
    async with run.unit.transaction():
        run.add_event({"type": "repair", "subject": "plan", "repairs": ["One query dropped."]})
    async with database.transaction() as session:
        events = await transcripts.list_events(
            owner_access(session, agent.owner_id), base.PageRequest(limit=9), run.stored.id
        )
    assert [event.type for event in events.items] == ["answer", "repair"]
    assert events.items[1] == RepairEvent(subject="plan", repairs=["One query dropped."])


async def test_a_response_that_stays_invalid_is_a_permanent_error(
    model: Model, lease: Lease, agent: Agent, sandbox_control: Sandbox
) -> None:
    sandbox_control.script(scripted(content="no JSON at all", times=2))
    with pytest.raises(PermanentError, match="even after a correction") as error:
        await request_structured(phase_run(model, lease, agent), Answer, name="shape")
    assert error.value.code == "invalid_answer"


async def test_a_recorded_response_is_never_paid_for_again(
    model: Model, lease: Lease, agent: Agent, sandbox_control: Sandbox
) -> None:
    sandbox_control.script(scripted(content={"answer": 42}))
    for _ in range(3):
        response = await request_structured(phase_run(model, lease, agent), Answer, name="shape")
        assert response == Answer(answer=42)
    assert sandbox_control.billed()["llm"] == 1


class Bench:
    """A paid tool that records its calls, and one that writes to a table."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self.paid: list[int] = []
        self.break_at: int | None = None

    async def written(self) -> list[int]:
        """The committed values, in the order of their insertion."""
        async with self._database.transaction() as session:
            return list(await session.scalars(text("select value from written order by place")))

    @property
    def tools(self) -> list[Tool]:
        return [
            PaidTool("askOutside", "Costs.", Params, self._pay, "ask"),
            StateTool("writeDown", "Writes.", Params, self._apply),
        ]

    async def _pay(self, params: Params, _: ResumableCall) -> Json:
        self.paid.append(params.value)
        if params.value < 0:
            raise ToolRefusalError("value must not be below zero")
        return {"paid": params.value}

    async def _apply(self, session: Transaction, params: Params) -> Json:
        if params.value == self.break_at:
            raise TransientError("broke in the middle")
        if params.value < 0:
            raise ToolRefusalError("nothing below zero is written")
        await CompiledStatement("insert into written (value) values (:value)").run(
            session, {"value": params.value}
        )
        return {"wrote": params.value}


@pytest.fixture
async def bench(database: Database) -> Bench:
    async with database.transaction() as session:
        statement = (
            "create table written (place bigint generated always as identity, value integer)"
        )
        await session.execute(text(statement))
    return Bench(database)


async def test_a_resumed_loop_repeats_no_call_and_no_effect(
    model: Model,
    lease: Lease,
    agent: Agent,
    sandbox_control: Sandbox,
    database: Database,
    bench: Bench,
) -> None:
    sandbox_control.script(
        calls(("askOutside", {"value": 1}), ("askOutside", {"value": 2})),
        calls(*[("writeDown", {"value": value}) for value in (3, 4, 5)]),
        scripted(content="done"),
    )
    bench.break_at = 4
    with pytest.raises(TransientError, match="broke in the middle"):
        await ToolLoop(phase_run(model, lease, agent), bench.tools).run()
    assert await bench.written() == []
    bench.break_at = None
    resumed = ToolLoop(phase_run(model, lease, agent), bench.tools)
    assert await resumed.run() == "done"
    assert (sorted(bench.paid), await bench.written()) == ([1, 2], [3, 4, 5])
    assert sandbox_control.billed()["llm"] == 3
    assert resumed.results_of("writeDown") == [{"wrote": 3}, {"wrote": 4}, {"wrote": 5}]
    kinds = [event["type"] for event in await list_events(database)]
    assert (kinds.count("answer"), kinds.count("tool_result")) == (3, 5)


async def test_a_refused_tool_call_writes_nothing_and_the_others_are_kept(
    model: Model, lease: Lease, agent: Agent, sandbox_control: Sandbox, bench: Bench
) -> None:
    sandbox_control.script(
        calls(*[("writeDown", {"value": value}) for value in (3, -4, 5)]),
        calls(("writeDown", {"value": -6})),
        scripted(content="done"),
    )
    loop = ToolLoop(phase_run(model, lease, agent), bench.tools)
    assert await loop.run() == "done"
    assert await bench.written() == [3, 5]
    assert loop.results_of("writeDown") == [{"wrote": 3}, {"wrote": 5}]


async def test_invalid_tool_calls_return_errors_that_the_model_can_act_on(
    model: Model,
    lease: Lease,
    agent: Agent,
    sandbox_control: Sandbox,
    database: Database,
    bench: Bench,
) -> None:
    sandbox_control.script(
        calls(
            ("noSuchTool", {}),
            ("writeDown", "three of them"),
            ("writeDown", {"value": "x", "more": 1}),
            ("askOutside", {"value": -1}),
        ),
        scripted(content="sorry"),
    )
    assert await ToolLoop(phase_run(model, lease, agent), bench.tools).run() == "sorry"
    errors = [
        event["result"]["error"] for event in await list_events(database) if "result" in event
    ]
    assert "there is no tool 'noSuchTool' here, only: askOutside, writeDown" in errors
    assert any("Invalid JSON" in error for error in errors)
    assert any("value" in error and "more" in error for error in errors)
    search_results = [call.answer for call in await list_calls(database) if call.kind == "search"]
    assert search_results == [{"error": "value must not be below zero"}]


async def test_a_span_does_not_have_the_name_of_a_tool_that_the_model_invented(
    model: Model, lease: Lease, agent: Agent, sandbox_control: Sandbox, bench: Bench
) -> None:
    invented = "noSuchTool" * 500
    sandbox_control.script(
        calls((invented, {}), ("writeDown", {"value": 1})), calls((invented, {}))
    )
    sandbox_control.script(scripted(content="done"))
    with (
        kept_spans() as spans,
        tracing.message(uuid4(), None, "query.requested", uuid4(), 1),
        tracing.step("query", uuid4(), 1),
    ):
        await ToolLoop(phase_run(model, lease, agent), bench.tools).run()
    tools = [span.attributes for span in spans.all if span.name.startswith("execute_tool")]
    assert [each["vigil.tool.names"] for each in tools] == [["unknown", "writeDown"], ["unknown"]]
    assert spans.named("execute_tool unknown").attributes["gen_ai.tool.name"] == "unknown"
    assert "noSuchTool" not in repr(spans.all)


async def test_tool_calls_beyond_the_maximum_in_one_response_are_refused(
    model: Model,
    lease: Lease,
    agent: Agent,
    sandbox_control: Sandbox,
    database: Database,
    bench: Bench,
) -> None:
    sandbox_control.script(
        calls(
            *[("writeDown", {"value": n}) for n in range(200)],
            *[("askOutside", {"value": 1})] * 100,
        ),
        scripted(content="done"),
    )
    assert await ToolLoop(phase_run(model, lease, agent), bench.tools).run() == "done"
    assert await bench.written() == list(range(MAX_CALLS_AT_ONCE))
    assert bench.paid == []
    results = [event["result"] for event in await list_events(database) if "result" in event]
    errors = [result["error"] for result in results if "error" in result]
    assert len(errors) == 300 - MAX_CALLS_AT_ONCE
    assert set(errors) == {
        "only the first 128 tool calls of an answer are made, and this is a later one; make it again if it is still needed"
    }


async def test_tool_rounds_are_limited_and_the_model_answers_after_the_last(
    model: Model, lease: Lease, agent: Agent, sandbox_control: Sandbox, bench: Bench
) -> None:
    sandbox_control.script(*[calls(("writeDown", {"value": n})) for n in range(MAX_TOOL_ROUNDS)])
    sandbox_control.script(scripted(content="that is all"))
    loop = ToolLoop(phase_run(model, lease, agent), bench.tools)
    assert await loop.run() == "that is all"
    assert len(await bench.written()) == MAX_TOOL_ROUNDS


@pytest.mark.parametrize(
    ("changed", "code"),
    [({"openai_api_key": "wrong"}, "llm_key"), ({"model": "no-such-model"}, "llm_model")],
)
async def test_a_wrong_key_or_model_is_permanent_and_says_what_to_check(
    sandbox_settings: Settings,
    lease: Lease,
    agent: Agent,
    database: Database,
    changed: dict[str, str],
    code: str,
) -> None:
    changes = {
        key: SecretStr(value) if key.endswith("key") else value for key, value in changed.items()
    }
    wrong = create_model(sandbox_settings.model_copy(update=changes), database)
    with pytest.raises(PermanentError, match="Check") as error:
        await request_structured(phase_run(wrong, lease, agent), Answer, name="shape")
    assert error.value.code == code


async def test_an_unreachable_server_is_a_transient_error_that_names_it(
    sandbox_settings: Settings, lease: Lease, agent: Agent, database: Database
) -> None:
    settings = sandbox_settings.model_copy(update={"openai_base_url": "http://127.0.0.1:9/v1"})
    with pytest.raises(TransientError, match=r"127\.0\.0\.1:9"):
        await request_structured(
            phase_run(create_model(settings, database), lease, agent), Answer, name="shape"
        )


async def test_a_rate_limit_error_has_the_delay_that_the_server_asks_for(
    model: Model, lease: Lease, agent: Agent, sandbox_control: Sandbox
) -> None:
    # Longer than the SDK itself is willing to wait.
    sandbox_control.faults(
        {"kind": "status", "status": 429, "retry_after_seconds": 90, "always": True}
    )
    with pytest.raises(TransientError) as error:
        await request_structured(phase_run(model, lease, agent), Answer, name="shape")
    assert error.value.retry_in_seconds == 90


@pytest.mark.parametrize("kind", ["cut", "status"])
async def test_a_single_server_failure_is_retried(
    model: Model, lease: Lease, agent: Agent, sandbox_control: Sandbox, kind: str
) -> None:
    sandbox_control.faults({"kind": kind, "status": 500, "count": 1})
    sandbox_control.script(scripted(content={"answer": 42}, times=2))
    assert await request_structured(phase_run(model, lease, agent), Answer, name="shape") == Answer(
        answer=42
    )


CALL = '{"name": "search", "arguments": {"query": "lithium"}}'


class Search(Arguments):
    query: str


@dataclass
class WritingProvider:
    """A model that answers with one text."""

    text: str
    lacks_usage: bool = False
    thoughts: str = ""
    requests: list[ChatRequest] = field(default_factory=list)

    async def complete(
        self, request: ChatRequest, in_flight: ResumableCall, on_delta: OnDelta | None = None
    ) -> ChatAnswer:
        async with in_flight.attempt():
            self.requests.append(request)
            message = assistant_message(self.text, [])
            return ChatAnswer(
                message, "stop", 10, 10, lacks_usage=self.lacks_usage, thoughts=self.thoughts
            )

    async def close(self) -> None:
        return


async def search(_: Search, __: ResumableCall) -> Json:
    raise AssertionError("the text is no call")


@pytest.mark.parametrize(
    ("text", "is_noted"),
    [
        (f"I will call the tool now.\n{CALL}", True),
        (f"{CALL}\nI will call the tool now.\n{CALL}", True),
        ("I call [TOOL_CALLS] now.", True),
        ("I found nothing about lithium.", False),
        ('The page says {"name": "Ghana", "area": 1}.', False),
    ],
)
async def test_a_call_among_other_text_is_not_made_and_noted_once(
    settings: Settings, database: Database, text: str, is_noted: bool
) -> None:
    notes = await notes_of_two_runs(settings, database, WritingProvider(text))
    assert [each.startswith(SERVER_NOTE) and UNREAD_CALLS in each for each in notes] == [
        True
    ] * is_noted


async def test_that_a_server_reports_no_usage_is_noted_once(
    settings: Settings, database: Database
) -> None:
    provider = WritingProvider("I found nothing.", lacks_usage=True)
    [note] = await notes_of_two_runs(settings, database, provider)
    assert note.startswith(SERVER_NOTE)
    assert "reports no usage" in note


async def test_a_call_in_the_reasoning_of_an_empty_answer_is_noted_once(
    settings: Settings, database: Database
) -> None:
    thoughts = f"I should use the tool.\n<tool_call>\n{CALL}\n</tool_call>"
    [note] = await notes_of_two_runs(settings, database, WritingProvider("", thoughts=thoughts))
    assert UNREAD_CALLS in note


async def notes_of_two_runs(
    settings: Settings, database: Database, provider: WritingProvider
) -> list[str]:
    """The notes of a run, which are those of a run that resumes it."""
    agent = await make_agent(database)
    started = await make_iteration(database, agent)
    async with database.transaction() as session:
        claim = await claims.claimed(session, started.observe.id, "test")
    model = create_model(settings, database, provider)
    notes: list[list[str]] = []
    for _ in range(2):
        run = PhaseRun(model, claim.lease, agent, Phase.KNOWLEDGE_ACQUISITION, "Find it.")
        loop = ToolLoop(run, [PaidTool("search", "Searches.", Search, search, "search")])
        assert await loop.run() == provider.text
        notes.append(run.repair_summary.get(NOTES_KEY, []))
    assert len(provider.requests) == 1, "the second run resumes the first"
    assert notes[0] == notes[1]
    return notes[0]


PLAN = json.dumps(
    {"queries": [{"objective": "x", "reasoning": "", "searchHints": []}], "insights": []}
)


@dataclass
class StreamingProvider:
    """A provider whose one response grows under the control of the test."""

    characters: asyncio.Queue[int | None] = field(default_factory=asyncio.Queue)
    """Numbers of characters received so far; None ends the response."""

    async def complete(
        self, request: ChatRequest, in_flight: ResumableCall, on_delta: Any = None
    ) -> ChatAnswer:
        assert in_flight.report_progress is not None
        async with in_flight.attempt():
            while (received := await self.characters.get()) is not None:
                await in_flight.report_progress(received)
        return ChatAnswer(assistant_message(PLAN, []), "stop", 10, 10)

    async def close(self) -> None:
        return


async def test_the_progress_of_a_response_is_stored_and_shown(
    settings: Settings, database: Database, bus: Bus
) -> None:
    provider = StreamingProvider()
    step = await request_observe_step(database, bus)
    async with running_service(observer_app.build(settings, provider)):
        first = await wait_until(lambda: running_call(database), what="the call to be sent")
        assert first is not None
        assert first.received_chars is None, "the first token has not arrived"
        assert first.progressed_at is None
        assert (first.step_id, first.kind, first.phase) == (step.id, "llm", "observer")
        for characters in (10, 4_321):
            provider.characters.put_nowait(characters)
            latest = await wait_until(
                partial(call_of_size, database, characters), what="it to grow"
            )
            assert latest is not None
            assert latest.sent_at == first.sent_at
            assert latest.progressed_at is not None
            assert await running_calls_of_agent(database) == [latest]
        provider.characters.put_nowait(None)
        await wait_until(lambda: observer_is_idle(bus), what="the message to be acked")
    assert await running_call(database) is None
    async with database.transaction() as session:
        [call] = await session.scalars(select(Call))
    assert (call.attempts, call.received_chars) == (1, 4_321)


async def running_call(database: Database) -> RunningCall | None:
    """The iteration's running call, as the API shows it."""
    async with database.transaction() as session:
        agent = (await session.scalars(select(Agent))).one()
        iteration = (await session.scalars(select(Iteration))).one()
        details = await iterations.get_iteration(
            owner_access(session, agent.owner_id), iteration.id
        )
    return details.running_calls[0] if details.running_calls else None


async def running_calls_of_agent(database: Database) -> list[RunningCall]:
    async with database.transaction() as session:
        agent = (await session.scalars(select(Agent))).one()
        details = await agents.get_agent(owner_access(session, agent.owner_id), agent.id)
    assert details is not None
    return details.running_calls


async def call_of_size(database: Database, characters: int) -> RunningCall | None:
    call = await running_call(database)
    return call if call is not None and call.received_chars == characters else None


async def test_a_response_continues_when_its_progress_cannot_be_stored() -> None:
    unreachable = Database("postgresql://nobody@127.0.0.1:1/none", name="away")
    await call_ledger.report_progress(unreachable, uuid4(), 10)
    await unreachable.close()


IMPATIENCE_SECONDS = 1.5
"""Less than one response takes: a limit on the length of a response or an iteration would end it."""


async def test_an_iteration_with_a_slow_server_completes_pays_once_and_shows_progress(
    sandbox_settings: Settings, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(deadlines_module, "CHECK_SECONDS", 0.1)
    monkeypatch.setattr(provider_module, "PROGRESS_SECONDS", 0.2)
    server = SlowServer()
    agent = await make_agent(database)
    async with running_app(server.app) as url:
        impatient = sandbox_settings.model_copy(
            update={
                "openai_base_url": f"{url}/v1",
                "llm_timeout_seconds": IMPATIENCE_SECONDS,
                "model_tool_choice": "never",
                "iteration_deadline_seconds": IMPATIENCE_SECONDS,
                "max_attempts": 1,
            }
        )
        async with running_services(
            impatient, ("scheduler", "observer", "researcher", "aggregator")
        ):
            chars = await wait_until(lambda: received_chars(database), what="an answer to grow")
            iteration = await ended_iteration(database, agent, 1, seconds=120)
    assert (iteration.status, iteration.errors) == (IterationStatus.COMPLETED, [])
    assert iteration.ended_at is not None
    assert (iteration.ended_at - iteration.started_at).total_seconds() > 3 * IMPATIENCE_SECONDS
    assert set(server.asked.values()) == {1}, "no request is repeated"
    # The model makes no search: its query is searched on its behalf, and the document is requested once more. No page
    # is found, so nothing is constructed.
    assert server.answered == len(server.asked) == 3
    async with database.transaction() as session:
        calls = list(await session.scalars(select(Call)))
        budget_days = list(await session.scalars(select(BudgetDay)))
    assert [call.attempts for call in calls] == [1] * 4
    assert {(day.spent_calls, day.reserved_calls) for day in budget_days} == {(4, 0)}
    assert chars > 0
    answers = [call for call in calls if call.kind == CallKind.LLM]
    assert all((call.received_chars or 0) > 100 for call in answers), "progress of each was stored"


async def received_chars(database: Database) -> int:
    """The number of characters shown of an incomplete response."""
    async with database.transaction() as session:
        is_started = (await session.scalars(select(Iteration.id))).first() is not None
    call = await running_call(database) if is_started else None
    return 0 if call is None else call.received_chars or 0


async def test_the_error_of_a_search_timeout_names_its_setting() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}"
        client = SearchClient(api_key="k", base_url=url, timeout_seconds=0.2)
        with pytest.raises(TransientError, match=r"0\.2 s \(VIGIL_SEARCH_TIMEOUT_SECONDS") as error:
            await client.search("lithium", max_results=1, topic=None, time_range=None)
        await client.close()
    assert not error.value.is_unbilled


ENGLISH = "The refinery in Harjavalta produced 12 kilotonnes of nickel sulphate in 2025. "
CHINESE = "哈尔亚瓦尔塔精炼厂去年生产了一万二千吨硫酸镍。"
BYTES_PER_TOKEN = {ENGLISH: 4.1, CHINESE: 2.6}


@dataclass
class CountingProvider:
    """A model whose server counts and keeps tokens in its own way."""

    text: str
    usages: list[Any]
    """Tokens reported per token sent, or fields of the usage, for each answer."""
    sent: list[ChatRequest] = field(default_factory=list)

    async def complete(
        self, request: ChatRequest, in_flight: ResumableCall, on_delta: OnDelta | None = None
    ) -> ChatAnswer:
        async with in_flight.attempt():
            self.sent.append(request)
            tokens = len(encode_json(request.body)) / BYTES_PER_TOKEN[self.text]
            usage = self.usages[len(self.sent) - 1]
            fields = {
                "completion_tokens": 5,
                **(
                    usage(tokens)
                    if callable(usage)
                    else {"prompt_tokens": round(tokens * usage)}
                    if isinstance(usage, float)
                    else {"prompt_tokens": usage}
                ),
            }
            counted = parse_usage({"usage": fields})
            return ChatAnswer(
                assistant_message("Noted.", []),
                "stop",
                counted.input_tokens,
                counted.output_tokens,
                counted.cached_tokens,
                read_tokens=counted.read_tokens,
            )

    async def close(self) -> None:
        return


@dataclass
class Case:
    database: Database
    settings: Settings
    agent: Agent
    lease: Lease

    def model(self, provider: Any) -> Model:
        return create_model(self.settings, self.database, provider)


@pytest.fixture
async def case(settings: Settings, database: Database) -> Case:
    agent = await make_agent(database)
    started = await make_iteration(database, agent)
    async with database.transaction() as session:
        claim = await claims.claimed(session, started.observe.id, "test")
    return Case(database, settings, agent, claim.lease)


async def ask(case: Case, provider: Any, text: str, tokens: list[int]) -> None:
    """A conversation whose messages are about so long."""
    model = case.model(provider)
    run = PhaseRun(model, case.lease, case.agent, Phase.OBSERVER, message(text, tokens[0]))
    request = await run.begin()
    for number in range(len(tokens)):
        answer = (await run.model.answer(request, read_answer)).answer
        if number + 1 < len(tokens):
            following = {"role": "user", "content": message(text, tokens[number + 1])}
            request = request.following(answer.message, following)


def message(text: str, tokens: int) -> str:
    return text * round(tokens * BYTES_PER_TOKEN[text] / len(text.encode()))


def cached(share: float, *names: str) -> Any:
    """A usage that counts the rest alone, and names what was read from the cache in one field or another."""

    def usage(tokens: float) -> dict[str, Any]:
        fields: dict[str, Any] = {"prompt_tokens": round(tokens * (1 - share))}
        count: Any = round(tokens * share)
        for name in reversed(names[1:]):
            count = {name: count}
        return {**fields, names[0]: count}

    return usage


CUT: dict[str, tuple[str, list[int], list[Any]]] = {
    "first call": (ENGLISH, [4000], [0.4]),
    "a third": (ENGLISH, [3300], [1000]),
    "an eighth": (ENGLISH, [3300], [400]),
    "ratio is known": (ENGLISH, [700, 300, 300, 5000], [1.0, 1.0, 1.0, 0.45]),
    "conversation grows": (ENGLISH, [1500, 1200, 6000], [1.0, 1.0, 2048]),
    "requests of two lengths alike": (ENGLISH, [4000, 1500, 2500], [1.0, 2048, 2048]),
    "no part of the conversation": (
        ENGLISH,
        [1000, 500, 500, 2000, 6500],
        [1.0, 1.0, 1.0, 1.0, 4700],
    ),
    "Chinese": (CHINESE, [700, 300, 300, 5000], [1.0, 1.0, 1.0, 0.4]),
    "cache of a part": (
        ENGLISH,
        [4000],
        [lambda _: {"prompt_tokens": 900, "prompt_cache_hit_tokens": 600}],
    ),
}
WHOLE: dict[str, tuple[str, list[int], list[Any]]] = {
    "whole": (ENGLISH, [4000, 4000], [1.0, 1.0]),
    "more than half": (ENGLISH, [4000], [0.6]),
    "Chinese": (CHINESE, [4000, 2000], [1.0, 1.0]),
    "none": (ENGLISH, [4000], [lambda _: {}]),
    "zero": (ENGLISH, [4000], [0]),
    "constant": (ENGLISH, [4000], [10]),
    "short": (ENGLISH, [300], [0.3]),
    "cache apart, OpenAI": (
        ENGLISH,
        [4000],
        [cached(0.9, "prompt_tokens_details", "cached_tokens")],
    ),
    "cache apart, Anthropic": (ENGLISH, [4000], [cached(0.9, "cache_read_input_tokens")]),
    "cache apart, DeepSeek": (ENGLISH, [4000], [cached(0.9, "prompt_cache_hit_tokens")]),
    "cache left out": (ENGLISH, [4000, 1000, 1000], [1.0, 1000, 1000]),
    "cache left out of a grown one": (ENGLISH, [4000, 6000], [1.0, 6000]),
    "the same once more": (ENGLISH, [4000, 300], [1.0, 300]),
}


@pytest.mark.parametrize(("text", "tokens", "usages"), CUT.values(), ids=CUT)
async def test_an_answer_to_less_than_half_of_a_request_is_not_used(
    case: Case, text: str, tokens: list[int], usages: list[Any]
) -> None:
    provider = CountingProvider(text, usages)
    with pytest.raises(PermanentError, match="its context is about") as caught:
        await ask(case, provider, text, tokens)
    assert caught.value.code == CONTEXT_CUT
    assert "num_ctx" in str(caught.value)
    assert "VIGIL_MODEL_CONTEXT_TOKENS" in str(caught.value)
    assert len(provider.sent) == len(usages), "those before were used"
    async with case.database.transaction() as session:
        await reservations.release_hold(case.lease.step_id).execute(session)
        calls = list(await session.scalars(select(Call).order_by(Call.started_at)))
        days = list(await session.scalars(select(BudgetDay)))
    assert calls[-1].answer is None
    assert "its context is about" in calls[-1].failures[-1]["error"]
    assert {day.reserved_usd for day in days} == {Decimal(0)}, "it is booked as it was counted"


@pytest.mark.parametrize(("text", "tokens", "usages"), WHOLE.values(), ids=WHOLE)
async def test_no_way_to_count_what_was_read_is_taken_for_a_cut(
    case: Case, text: str, tokens: list[int], usages: list[Any]
) -> None:
    provider = CountingProvider(text, usages)
    await ask(case, provider, text, tokens)
    assert len(provider.sent) == len(usages)


async def test_what_was_left_out_on_purpose_is_no_cut(case: Case) -> None:
    """The request is longer than the context that the settings state."""
    provider = CountingProvider(ENGLISH, [1.0])
    await ask(
        case, LimitedProvider(provider, 3_000, "VIGIL_MODEL_CONTEXT_TOKENS"), ENGLISH, [20_000]
    )
    assert len(encode_json(provider.sent[0].body)) < 10_000
