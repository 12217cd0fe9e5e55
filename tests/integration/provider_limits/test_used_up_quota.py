"""A used-up quota of the search service: nothing is planned or paid for until it answers again."""

import json
from datetime import timedelta

import pytest
from sqlalchemy import func, select, text, update

from services.observer import app as observer_app
from shared.database.engine import Database
from shared.database.tables import Call, ProviderLimit
from shared.enums import StepStatus
from shared.errors import QuotaUsedUpError, WaitForProviderError
from shared.llm.answer_errors import FailureKind
from shared.provider_limits import gate as gate_module
from shared.provider_limits.gate import ProviderGate
from shared.provider_limits.store import StateStore, search_quota
from shared.runtime.bus import Bus
from shared.runtime.settings import Settings
from tests.support.model_server import Connection, ModelStandIn, model_server
from tests.support.refusing_provider import RefusingProvider
from tests.support.search import search, search_client
from tests.support.steps import reload_step, request_observe_step, running_service
from tests.support.waiting import wait_until

KEY = "2" * 64
NAME = "the search service"
WORDS = "This request exceeds your plan's set usage limit"


class Plan:
    """A search service whose plan is used up until it is renewed."""

    def __init__(self) -> None:
        self.is_used_up = True

    async def respond(self, connection: Connection) -> None:
        await connection.head(432 if self.is_used_up else 200, kind="application/json")
        refusal = {"detail": {"error": WORDS}}
        await connection.send(json.dumps(refusal if self.is_used_up else {"results": []}).encode())


def make_gate(database: Database) -> ProviderGate:
    return ProviderGate(NAME, store=StateStore(database, "search", KEY, NAME))


async def test_one_refusal_stops_all_searches_and_an_hourly_look_goes_on_with_them(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = Plan()
    monkeypatch.setattr(gate_module, "QUOTA_WATCH_SECONDS", 0.05)
    monkeypatch.setattr(gate_module, "LOOK_SECONDS", 0.0)
    async with (
        model_server(plan.respond) as stand_in,
        search_client(stand_in, make_gate(database)) as client,
        search_client(stand_in, make_gate(database)) as another,
    ):
        with pytest.raises(QuotaUsedUpError):
            await search(client)
        await another._gate.look()
        for each in (client, another):
            with pytest.raises(WaitForProviderError, match=WORDS) as caught:
                await search(each)
            assert "its quota is used up" in str(caught.value)
            assert caught.value.is_quota
            assert 300 < (caught.value.retry_in_seconds or 0) <= 620
        assert len(stand_in.requests) == 1
        known = await StateStore(database, "search", KEY, NAME).read()
        assert known.state.probe_at - known.now == pytest.approx(3600, abs=60)
        await make_probe_due(database)
        await wait_until(lambda: has_requests(stand_in, 2), what="a probe")
        assert await database.run(search_quota()) is not None, "it was refused"
        plan.is_used_up = False
        await make_probe_due(database)

        async def is_over() -> bool:
            return await database.run(search_quota()) is None

        await wait_until(is_over, what="the end")
        assert len(stand_in.requests) == 3
        await search(another)


async def has_requests(stand_in: ModelStandIn, number: int) -> bool:
    return len(stand_in.requests) >= number


async def make_probe_due(database: Database) -> None:
    """As if the hour were over."""
    async with database.transaction() as session:
        statement = (
            "update provider_limits set state = state || '{\"probe_at\": 1}', version = version + 1"
        )
        await session.execute(text(statement))


async def test_no_plan_is_paid_for_while_no_search_is_possible(
    settings: Settings, database: Database, bus: Bus
) -> None:
    plan, provider = Plan(), RefusingProvider(FailureKind.NO_ANSWER)
    async with (
        model_server(plan.respond) as stand_in,
        search_client(stand_in, make_gate(database)) as client,
    ):
        with pytest.raises(QuotaUsedUpError):
            await search(client)
        step = await request_observe_step(database, bus)
        async with running_service(observer_app.build(settings, provider)):

            async def waits() -> bool:
                return (await reload_step(database, step)).waiting_since is not None

            await wait_until(waits, what="the step to wait")
    waiting = await reload_step(database, step)
    assert (waiting.status, waiting.attempts) == (StepStatus.PENDING, 0)
    assert waiting.error is not None
    assert "the search service answers no request, because its quota is used up" in waiting.error
    assert provider.attempts == 0
    async with database.transaction() as session:
        assert await session.scalar(select(func.count()).select_from(Call)) == 0


async def test_a_state_that_no_process_keeps_stops_no_plan(database: Database) -> None:
    """As after a change of the key: the row of the old one stays."""
    plan = Plan()
    async with (
        model_server(plan.respond) as stand_in,
        search_client(stand_in, make_gate(database)) as client,
    ):
        with pytest.raises(QuotaUsedUpError):
            await search(client)
    assert await database.run(search_quota()) is not None
    async with database.transaction() as session:
        old = func.clock_timestamp() - timedelta(minutes=10)
        await session.execute(update(ProviderLimit).values(updated_at=old))
    assert await database.run(search_quota()) is None
