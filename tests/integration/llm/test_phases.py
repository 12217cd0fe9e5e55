"""Phases against a model that makes mistakes, over real HTTP."""

from typing import Any
from uuid import uuid4

import pytest
from pydantic import BaseModel, ConfigDict, SecretStr
from sqlalchemy import select, text

from services.api.resources.iterations import transcripts
from shared.billing.resumable_call import ResumableCall
from shared.database.engine import Database
from shared.database.statements import CompiledStatement
from shared.database.tables import Agent, Call, Interaction
from shared.database.transaction import Transaction
from shared.enums import Phase
from shared.errors import PermanentError, TransientError
from shared.llm.phase_run import PhaseRun
from shared.llm.pricing import read_prices
from shared.llm.provider import Model
from shared.llm.tool_loop import MAX_TOOL_ROUNDS, ToolLoop
from shared.llm.toolset import MAX_CALLS_AT_ONCE
from shared.runtime.providers import create_model
from shared.runtime.settings import Settings
from shared.schemas import base
from shared.schemas.base import RepairEvent
from shared.telemetry import tracing
from shared.tools import Arguments, Json, PaidTool, StateTool, Tool, ToolRefusalError
from shared.workflow.leases import Lease
from tests.support import claims
from tests.support.api.access import owner_access
from tests.support.claims import Claimed
from tests.support.factories import make_agent, make_iteration
from tests.support.observability.spans import kept_spans
from tests.support.phase_runs import request_structured
from tests.support.sandbox_control import Sandbox
from tests.support.sandbox_prices import SANDBOX_PRICES


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
        claim = await claims.claim(session, started.observe.id, "test")
    assert isinstance(claim, Claimed)
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
            owner_access(session, agent.owner_id), base.PageRequest(limit=9), run.interaction.id
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
            PaidTool("askOutside", "Costs.", Params, self._pay),
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
        await CompiledStatement("insert into written (value) values (:value)").run(
            session, {"value": params.value}
        )
        if params.value < 0:
            raise ToolRefusalError("nothing below zero is written")
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


async def test_a_refused_tool_call_is_rolled_back_and_the_others_are_kept(
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
