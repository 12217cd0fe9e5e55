"""What was paid for is kept, whatever happens in between."""

import asyncio
from dataclasses import replace
from typing import Any

import pytest
from sqlalchemy import func, select, update
from sqlalchemy.ext.asyncio import AsyncSession

from shared.database.engine import Database
from shared.database.tables import Agent, Call, Source, Step
from shared.database.text import storable
from shared.enums import Phase
from shared.errors import TransientError
from shared.graph.provenance.sources import store_pages
from shared.graph.scope import GraphScope
from shared.llm.phase_run import PhaseRun
from shared.llm.tool_loop import ToolLoop
from shared.runtime.providers import create_model
from shared.runtime.settings import Settings
from shared.tools import Arguments, Json, PaidTool, StateTool, Tool
from shared.workflow import leases
from shared.workflow.leases import Claimed, Lease
from tests.support.levers import Sandbox
from tests.support.making import make_agent, make_iteration


@pytest.fixture
async def phase(sandbox_settings: Settings, database: Database) -> "PhaseMaker":
    agent = await make_agent(database)
    made = await make_iteration(database, agent)
    async with database.transaction() as session:
        claim = await leases.claim(session, made.observe.id, "test")
    assert isinstance(claim, Claimed)
    return PhaseMaker(sandbox_settings, database, claim.lease, agent)


class PhaseMaker:
    """Runs of one phase of one step, each as a worker that resumes it would make it."""

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

    def mend_prompt(self) -> None:
        self._agent.observer_system_prompt = "Better."


class Wanted(Arguments):
    value: str


class Shop:
    """A paid tool whose answer has keys in no order at all, and a free one; both fail on demand."""

    def __init__(self) -> None:
        self.paid: list[str] = []
        self.failing: set[str] = set()
        self.sell_now = asyncio.Event()
        self.sell_now.set()

    @property
    def tools(self) -> list[Tool]:
        return [
            PaidTool("buy", "Costs.", Wanted, self.buy),
            StateTool("note", "Writes.", Wanted, self._note),
        ]

    async def buy(self, wanted: Wanted) -> Json:
        if wanted.value in self.failing:
            raise TransientError("the shop is shut")
        await self.sell_now.wait()
        self.paid.append(wanted.value)
        return {"url": "u", "title": wanted.value, "score": 0.5, "big": [{"z": 1, "aa": 2}]}

    async def _note(self, _: Any, wanted: Wanted) -> Json:
        if wanted.value in self.failing:
            raise TransientError("the pen is dry")
        return {"noted": wanted.value, "id": 1}


def calls(*tool_calls: tuple[str, Any]) -> dict[str, Any]:
    return {"tool_calls": [{"name": name, "arguments": given} for name, given in tool_calls]}


async def test_a_run_that_is_resumed_late_sends_the_same_bytes_and_pays_nothing_again(
    phase: PhaseMaker, levers: Sandbox
) -> None:
    shop = Shop()
    levers.script(
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
    assert (shop.paid, levers.billed()["llm"]) == (["a"], 4)
    assert [result["noted"] for result in resumed.results_of("note")] == ["b", "c"]


async def test_a_first_call_under_way_is_found_again_whatever_is_known_by_now(
    phase: PhaseMaker,
) -> None:
    sent = await phase.run("The graph is empty.").begin()
    assert await phase.run("The graph has 3 nodes.").begin() == sent


async def test_who_has_a_step_retried_has_it_tried_with_what_is_known_now(
    phase: PhaseMaker, database: Database
) -> None:
    await phase.run("The graph is empty.").begin()
    phase.mend_prompt()
    async with database.transaction() as session:
        await session.execute(update(Step).values(retried_epoch=1, epoch=2))
    phase.lease = replace(phase.lease, epoch=2)
    mended = await phase.run("The graph has 3 nodes.").begin()
    assert [said["content"] for said in mended.messages] == ["Better.", "The graph has 3 nodes."]


async def test_what_an_answer_brings_is_kept_with_it_and_once(
    phase: PhaseMaker, levers: Sandbox, database: Database
) -> None:
    async def brought() -> list[str]:
        async with database.transaction() as session:
            return list(await session.scalars(select(Source.text)))

    async def keep(session: AsyncSession, answer: Json) -> None:
        pages = [{"url": answer["url"], "content": answer["title"]}]
        await store_pages(session, scope, {"results": pages})
        if killed:
            raise TransientError("killed amid the transaction")

    scope, killed, shop = phase.scope, True, Shop()
    note, buy = shop.tools[1], PaidTool("buy", "Costs.", Wanted, shop.buy, store=keep)
    levers.script(
        calls(("buy", {"value": "a"}), ("buy", {"value": "a"})),
        calls(("note", {"value": "b"})),
        {"content": "done"},
    )
    with pytest.raises(TransientError, match="killed"):
        await phase.loop(buy, note).run()
    assert await brought() == []
    killed, shop.failing = False, {"b"}
    with pytest.raises(TransientError, match="pen"):
        await phase.loop(buy, note).run()
    assert await brought() == ["a"]
    shop.failing = set()
    assert await phase.loop(buy, note).run() == "done"
    assert (await brought(), shop.paid) == (["a"], ["a", "a"])


async def test_calls_that_are_alike_are_paid_once_and_none_is_lost_by_another_that_fails(
    phase: PhaseMaker, levers: Sandbox
) -> None:
    shop = Shop()
    levers.script(
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


async def test_an_answer_that_comes_while_postgres_is_away_is_kept(
    phase: PhaseMaker, levers: Sandbox, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    levers.script({"content": "done"})
    away = iter([True, True])
    answered, transaction = asyncio.Event(), database.transaction
    complete = phase.model.provider.complete

    async def tell(request: Any, in_flight: Any, on_delta: Any) -> Any:
        answer = await complete(request, in_flight, on_delta)
        answered.set()
        return answer

    def unless_away() -> Any:
        if answered.is_set() and next(away, False):
            raise TransientError("PostgreSQL: away", counts=False)
        return transaction()

    monkeypatch.setattr(phase.model.provider, "complete", tell)
    monkeypatch.setattr(database, "transaction", unless_away)
    assert await phase.loop().run() == "done"
    assert levers.billed()["llm"] == 1
    assert next(away, None) is None, "it was away indeed"


async def test_what_no_column_can_hold_costs_no_second_call(
    phase: PhaseMaker, levers: Sandbox, database: Database
) -> None:
    shop = Shop()
    levers.script(calls(("buy", '{"value": "a\\u0000b"}')), {"content": "nul: \x00"})
    assert await phase.loop(*shop.tools).run() == "nul: "
    assert shop.paid == ["ab"]
    async with database.transaction() as session:
        open_calls = select(func.count()).where(Call.answered_at.is_(None))
        assert await session.scalar(open_calls) == 0


async def test_what_is_storable_comes_back_from_postgres_as_it_was(database: Database) -> None:
    said = {
        "b": [1e16, 1.5e300, -0.0, 0.1, 5.0, 7, float("nan")],
        "a\x00": "x\x00y\ud83d",
        "n": None,
    }
    kept = storable(said)
    async with database.transaction() as session:
        made = await make_iteration(database, await make_agent(database))
        step = await session.get_one(Step, made.observe.id)
        step.result = kept
    async with database.transaction() as session:
        back = (await session.get_one(Step, made.observe.id)).result
    assert repr(sorted((back or {}).items())) == repr(sorted(kept.items()))
