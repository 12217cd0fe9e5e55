"""A paid response is stored, whatever fails in between."""

import asyncio
from dataclasses import replace
from functools import partial
from typing import Any

import pytest
from sqlalchemy import func, select, update

from shared.billing.resumable_call import ResumableCall
from shared.database.engine import Database
from shared.database.tables import Agent, Call, Step
from shared.database.text import storable
from shared.enums import Phase
from shared.errors import TransientError
from shared.graph.scope import GraphScope
from shared.llm.phase_run import PhaseRun
from shared.llm.tool_loop import ToolLoop
from shared.runtime.providers import create_model
from shared.runtime.settings import Settings
from shared.tools import Arguments, Json, PaidTool, StateTool, Tool
from shared.workflow.leases import Lease
from tests.support import claims
from tests.support.claims import Claimed
from tests.support.factories import make_agent, make_iteration
from tests.support.sandbox_control import Sandbox
from tests.support.streams import eventually
from tests.support.table_rows import change, replaced


@pytest.fixture
async def phase(sandbox_settings: Settings, database: Database) -> "PhaseMaker":
    agent = await make_agent(database)
    started = await make_iteration(database, agent)
    async with database.transaction() as session:
        claim = await claims.claim(session, started.observe.id, "test")
    assert isinstance(claim, Claimed)
    return PhaseMaker(sandbox_settings, database, claim.lease, agent)


class PhaseMaker:
    """Makes runs of one phase of one step, each as a resuming worker would."""

    def __init__(self, settings: Settings, database: Database, lease: Lease, agent: Agent) -> None:
        self.model = create_model(settings, database)
        self.lease = lease
        self._agent = agent

    @property
    def scope(self) -> GraphScope:
        return GraphScope(self._agent.owner_id, self._agent.id, None, self.lease.step_id)

    def run(self, message: str = "Go on.") -> PhaseRun:
        return PhaseRun(self.model, self.lease, self._agent, Phase.OBSERVER, message)

    def loop(self, *tools: Tool) -> ToolLoop:
        return ToolLoop(self.run(), tools)

    def improve_prompt(self) -> None:
        self._agent = replaced(self._agent, observer_system_prompt="Better.")


class Item(Arguments):
    value: str


class Shop:
    """A paid tool whose response has unsorted keys, and a free one; both fail on demand."""

    def __init__(self) -> None:
        self.paid: list[str] = []
        self.failing: set[str] = set()
        self.sell_now = asyncio.Event()
        self.sell_now.set()

    @property
    def tools(self) -> list[Tool]:
        return [
            PaidTool("buy", "Costs.", Item, self.buy),
            StateTool("note", "Writes.", Item, self._note),
        ]

    async def buy(self, item: Item, _: ResumableCall) -> Json:
        if item.value in self.failing:
            raise TransientError("the shop is shut")
        await self.sell_now.wait()
        self.paid.append(item.value)
        return {"url": "u", "title": item.value, "score": 0.5, "big": [{"z": 1, "aa": 2}]}

    async def _note(self, _: Any, item: Item) -> Json:
        if item.value in self.failing:
            raise TransientError("the pen is dry")
        return {"noted": item.value, "id": 1}


def calls(*tool_calls: tuple[str, Any]) -> dict[str, Any]:
    return {
        "tool_calls": [{"name": name, "arguments": arguments} for name, arguments in tool_calls]
    }


async def test_results_are_in_call_order_whichever_call_ends_first(
    phase: PhaseMaker, sandbox_control: Sandbox
) -> None:
    """What follows from them would differ from run to run otherwise, also that of a resumed run."""

    async def buy(item: Item, _: ResumableCall) -> Json:
        if item.value == "first":
            await eventually(lambda: bool(loop.results_of("buy")), "the result of the second call")
        return {"bought": item.value}

    tool = PaidTool("buy", "Costs.", Item, buy)
    sandbox_control.script(
        calls(("buy", {"value": "first"}), ("buy", {"value": "second"})), {"content": "done"}
    )
    for _ in range(2):
        loop = phase.loop(tool)
        assert await loop.run() == "done"
        assert loop.results_of("buy") == [{"bought": "first"}, {"bought": "second"}]


async def test_a_resumed_run_sends_the_same_bytes_and_pays_nothing_twice(
    phase: PhaseMaker, sandbox_control: Sandbox
) -> None:
    shop = Shop()
    sandbox_control.script(
        calls(("buy", {"value": "a"})),
        calls(("note", {"value": "b"})),
        calls(("note", {"value": "c"})),
        {"content": "done"},
    )
    shop.failing = {"c"}
    with pytest.raises(TransientError, match="pen"):
        await phase.loop(*shop.tools).run()
    shop.failing = set()
    resumed = phase.loop(*shop.tools)
    assert await resumed.run() == "done"
    assert (shop.paid, sandbox_control.billed()["llm"]) == (["a"], 4)
    assert [result["noted"] for result in resumed.results_of("note")] == ["b", "c"]


async def test_a_resumed_first_call_keeps_its_request_though_the_graph_has_grown(
    phase: PhaseMaker,
) -> None:
    request = await phase.run("The graph is empty.").begin()
    assert await phase.run("The graph has 3 nodes.").begin() == request


async def test_a_resumed_first_call_keeps_the_form_that_fits_its_message(phase: PhaseMaker) -> None:
    def form_of(message: str) -> dict[str, Any]:
        return {"type": "json_schema", "json_schema": {"name": message.split()[-1]}}

    request = await phase.run("The graph is small").begin(response_format=form_of)
    resumed = await phase.run("The graph is large").begin(response_format=form_of)
    assert resumed.call.hash == request.call.hash


async def test_a_retried_step_uses_the_current_prompt_and_graph(
    phase: PhaseMaker, database: Database
) -> None:
    await phase.run("The graph is empty.").begin()
    phase.improve_prompt()
    async with database.transaction() as session:
        await session.execute(update(Step).values(retried_epoch=1, epoch=2))
    phase.lease = replace(phase.lease, epoch=2)
    request = await phase.run("The graph has 3 nodes.").begin()
    assert [message["content"] for message in request.messages] == [
        "Better.",
        "The graph has 3 nodes.",
    ]


async def test_identical_calls_are_paid_once_and_a_failure_loses_no_other_call(
    phase: PhaseMaker, sandbox_control: Sandbox
) -> None:
    shop = Shop()
    sandbox_control.script(
        calls(*(("buy", {"value": value}) for value in ("bad", "a", "a"))), {"content": "done"}
    )
    shop.failing = {"bad"}
    shop.sell_now.clear()
    asyncio.get_running_loop().call_later(0.2, shop.sell_now.set)
    with pytest.raises(TransientError, match="shut"):
        await phase.loop(*shop.tools).run()
    shop.failing = set()
    assert await phase.loop(*shop.tools).run() == "done"
    assert shop.paid == ["a", "bad"]


async def test_a_response_that_arrives_while_postgres_is_down_is_stored(
    phase: PhaseMaker, sandbox_control: Sandbox, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    sandbox_control.script({"content": "done"})
    failures = iter([True, True])
    response_received, transaction = asyncio.Event(), database.transaction
    write = database.write
    complete = phase.model.provider.complete

    async def complete_and_signal(request: Any, in_flight: Any, on_delta: Any) -> Any:
        answer = await complete(request, in_flight, on_delta)
        response_received.set()
        return answer

    def unless_away(begin: Any) -> Any:
        if response_received.is_set() and next(failures, False):
            raise TransientError("PostgreSQL: away", counts=False)
        return begin()

    monkeypatch.setattr(phase.model.provider, "complete", complete_and_signal)
    monkeypatch.setattr(database, "transaction", lambda: unless_away(transaction))
    monkeypatch.setattr(database, "write", lambda *args: unless_away(partial(write, *args)))
    assert await phase.loop().run() == "done"
    assert sandbox_control.billed()["llm"] == 1
    assert next(failures, None) is None, "PostgreSQL was down"


async def test_text_that_no_column_can_hold_causes_no_second_call(
    phase: PhaseMaker, sandbox_control: Sandbox, database: Database
) -> None:
    shop = Shop()
    sandbox_control.script(calls(("buy", '{"value": "a\\u0000b"}')), {"content": "nul: \x00"})
    assert await phase.loop(*shop.tools).run() == "nul: "
    assert shop.paid == ["ab"]
    async with database.transaction() as session:
        open_calls = select(func.count()).where(Call.answered_at.is_(None))
        assert await session.scalar(open_calls) == 0


async def test_storable_values_are_read_back_from_postgres_unchanged(database: Database) -> None:
    value = {
        "b": [1e16, 1.5e300, -0.0, 0.1, 5.0, 7, float("nan")],
        "a\x00": "x\x00y\ud83d",
        "n": None,
    }
    stored = storable(value)
    async with database.transaction() as session:
        started = await make_iteration(database, await make_agent(database))
        step = await session.get_one(Step, started.observe.id)
        step = await change(session, step, result=stored)
    async with database.transaction() as session:
        result = (await session.get_one(Step, started.observe.id)).result
    assert repr(sorted((result or {}).items())) == repr(sorted(stored.items()))
