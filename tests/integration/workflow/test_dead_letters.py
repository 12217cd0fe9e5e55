"""Dead letters, and steps that are retried from them."""

import base64
import json
from collections.abc import AsyncIterator
from datetime import datetime, timedelta
from functools import partial
from itertools import pairwise
from typing import Any
from uuid import uuid4

import httpx
import pytest
from sqlalchemy import func, select, update

from services.aggregator.handler import Aggregate
from services.researcher.router import create_router
from services.scheduler import scheduler
from services.scheduler.dead_letter_retries import Retrier
from services.scheduler.reconciler import Reconciler
from shared import derived_events
from shared.database.engine import Database
from shared.database.tables import Agent, Call, Interaction, Iteration, Step
from shared.enums import IterationStatus, Stage, StepKind, StepStatus
from shared.errors import PermanentError, TransientError
from shared.events import codec
from shared.events.models import IterationStarted, QueryRequested
from shared.events.topology import STREAM
from shared.runtime import step_runner as work_module
from shared.runtime.bus import Bus
from shared.runtime.consumer import MessageConsumer
from shared.runtime.provision import provision_stream
from shared.runtime.settings import Settings
from shared.runtime.step_runner import MAX_CLAIMS, StepHandler, StepResult, step_consumer
from shared.workflow import dead_letters, iterations, leases, steps
from shared.workflow.iterations import IterationRow, StepRow
from shared.workflow.leases import AlreadyEnded
from tests.support import claims, table_rows
from tests.support.api.clients import assert_problem, create_client
from tests.support.claims import Claim, Claimed
from tests.support.factories import make_agent, make_iteration
from tests.support.processes import nothing
from tests.support.running_services import ended_iteration, running_services
from tests.support.sandbox_control import Sandbox
from tests.support.steps import observer, reload_step, running_service, status_is
from tests.support.stored_dead_letters import (
    MISPLACED,
    SUBJECT,
    UNKNOWN,
    UNREADABLE,
    future_version_payload,
    list_letters,
    publish_payload,
    request_retry,
    rows,
    stream_payloads,
    wait_for_letter,
    wait_until_none,
)
from tests.support.waiting import wait_until

QUERY = {"objective": "lithium", "reasoning": "why not", "search_hints": []}


async def fail_permanently(lease: leases.Lease, step: StepRow) -> StepResult:
    raise PermanentError("llm_key", "the key is wrong")


async def succeed(lease: leases.Lease, step: StepRow) -> StepResult:
    return StepResult({"nodes": 1, "edges": 0})


def researcher(settings: Settings, work: StepHandler) -> MessageConsumer:
    return step_consumer(
        "researcher",
        settings,
        Database(settings.database_url, name="r"),
        {StepKind.QUERY: work},
        create_router,
        concurrency=2,
    )


async def planned(database: Database) -> tuple[IterationRow, StepRow]:
    """A running iteration with one requested query."""
    start = await make_iteration(database, await make_agent(database))
    async with database.transaction() as session:
        claim = await claims.claimed(session, start.observe.id, "observer")
        iteration = start.iteration
        await iterations.plan_steps(iteration, queries=[QUERY], insights=[]).execute(session)
        await steps.end(session, claim.lease, {})
        (query,) = await steps.list_steps(session, iteration.id, StepKind.QUERY)
    return iteration, query


async def end_iteration(database: Database, iteration: Iteration | IterationRow) -> None:
    """End the iteration as the aggregator does if every query has failed."""
    async with database.transaction() as session:
        row = await session.get_one(Iteration, iteration.id)
        row = await table_rows.change(
            session, row, status=IterationStatus.FAILED, stage=Stage.ENDED
        )
        row = await table_rows.change(
            session, row, ended_at=await iterations.database_time(session)
        )


async def failed_query(
    database: Database,
    bus: Bus,
    settings: Settings,
    work: StepHandler = fail_permanently,
    *,
    ended: bool = True,
) -> StepRow:
    """A query that a worker has failed permanently; unless `ended` is false, its iteration has ended."""
    iteration, query = await planned(database)
    await bus.publish(derived_events.iteration_step_event(iteration, query))
    async with running_service(researcher(settings, work)):
        await wait_until(partial(status_is, database, query, StepStatus.FAILED), what="the failure")
    if ended:
        await end_iteration(database, iteration)
    return query


async def store_retry_request(database: Database) -> None:
    async with database.transaction() as session:
        (dead_letter,) = await rows(database)
        await dead_letters.request_retries(session, [dead_letter.id])


async def claim_step(database: Database, step: StepRow) -> Claim:
    async with database.transaction() as session:
        return await claims.claim(session, step.id, "worker")


def ago(seconds: float) -> Any:
    return func.clock_timestamp() - timedelta(seconds=seconds)


async def change(database: Database, step: StepRow, **values: Any) -> None:
    async with database.transaction() as session:
        await session.execute(update(Step).where(Step.id == step.id).values(**values))


FUTURE = b'{"type": "vigil.iteration.v2.started"}'
INVALID_MESSAGES = {
    "unreadable": (UNREADABLE, "unreadable_event", ["not an event", "Invalid JSON"]),
    "unknown": (
        UNKNOWN,
        "unknown_event",
        ["this version of Vigil", "does not know", "'vigil.nothing.v1.happened'", "upgrade"],
    ),
    "future": (
        FUTURE,
        "unknown_event",
        ["does not know version 2 of iteration.started", "upgrade, then retry"],
    ),
    "misplaced": (MISPLACED, "misplaced_event", ["vigil.plan.v1.produced", "wrong subject"]),
}


@pytest.fixture
async def api(settings: Settings) -> AsyncIterator[httpx.AsyncClient]:
    async with create_client(settings) as client:
        yield client


async def make_dead_letter(
    api: httpx.AsyncClient, bus: Bus, settings: Settings, payload: bytes
) -> Any:
    """The dead letter that an observer makes of `payload`."""
    await publish_payload(bus, payload)
    async with running_services(settings, ["observer"]):
        return await wait_for_letter(api)


@pytest.mark.parametrize("kind", INVALID_MESSAGES)
async def test_an_invalid_message_is_listed_and_shown_with_its_reason(
    settings: Settings, api: httpx.AsyncClient, bus: Bus, kind: str
) -> None:
    payload, code, words = INVALID_MESSAGES[kind]
    dead_letter = await make_dead_letter(api, bus, settings, payload)
    assert (dead_letter["code"], dead_letter["service"], dead_letter["subject"]) == (
        code,
        "observer",
        SUBJECT,
    )
    assert (dead_letter["attempts"], dead_letter["step"], dead_letter["refusal"]) == (1, None, None)
    assert [word for word in words if word not in dead_letter["error"]] == []
    details = (await api.get(f"/dead-letters/{dead_letter['id'][:8]}")).json()
    assert base64.urlsafe_b64decode(details["payload"]) == payload
    assert details["text"] == (None if kind == "unreadable" else payload.decode())
    assert {key: details[key] for key in dead_letter} == dead_letter


@pytest.mark.parametrize("kind", INVALID_MESSAGES)
async def test_a_retried_invalid_message_returns_and_can_be_discarded(
    settings: Settings, api: httpx.AsyncClient, bus: Bus, kind: str
) -> None:
    payload, code, _ = INVALID_MESSAGES[kind]
    first = await make_dead_letter(api, bus, settings, payload)
    await request_retry(api, first)

    async def is_back() -> Any:
        return [
            dead_letter
            for dead_letter in await list_letters(api)
            if dead_letter["stored_at"] != first["stored_at"]
        ]

    async with running_services(settings, ["observer", "scheduler"]):
        await wait_until(is_back, what="the dead letter to be stored again")
    again = await wait_for_letter(api)
    assert (again["id"], again["code"], again["attempts"]) == (first["id"], code, 1)
    assert again["retry_requested_at"] is None
    assert await stream_payloads(bus, SUBJECT) == [payload, payload]
    assert (await api.delete(f"/dead-letters/{first['id'][:8]}")).status_code == 204
    assert await list_letters(api) == []
    assert_problem(await api.get(f"/dead-letters/{first['id']}"), 404, first["id"])
    assert_problem(await api.delete(f"/dead-letters/{first['id']}"), 404)


async def test_an_event_of_a_newer_version_is_handled_after_an_upgrade(
    settings: Settings,
    api: httpx.AsyncClient,
    database: Database,
    bus: Bus,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    started = await make_iteration(database, await make_agent(database))
    await make_dead_letter(api, bus, settings, future_version_payload(started))
    dead_letter = await wait_for_letter(api)
    monkeypatch.setitem(codec._BY_TYPE, "vigil.iteration.v2.started", IterationStarted)
    await request_retry(api, dead_letter)
    async with (
        running_service(observer(settings, nothing)),
        running_services(settings, ["scheduler"]),
    ):
        await wait_until(
            partial(status_is, database, started.observe, StepStatus.COMPLETED), what="the step"
        )
        await wait_until_none(api)


async def test_dead_letters_are_listed_newest_first_page_by_page_and_by_service(
    api: httpx.AsyncClient, database: Database
) -> None:
    for number in range(5):
        await _store(database, b"%d" % number, service="observer" if number % 2 else "adviser")
    dead_letters, cursor = [], None
    while True:
        params = {"limit": 2} | ({"cursor": cursor} if cursor else {})
        page = (await api.get("/dead-letters", params=params)).json()
        dead_letters += page["items"]
        if (cursor := page["next"]) is None:
            break
    errors = [dead_letter["error"] for dead_letter in dead_letters]
    assert errors == ["error 4", "error 3", "error 2", "error 1", "error 0"]
    of_observer = await list_letters(api, service="observer")
    assert [dead_letter["error"] for dead_letter in of_observer] == ["error 3", "error 1"]
    await _store(database, b"1", service="observer")
    assert (await list_letters(api))[0]["error"] == "error 1", (
        "a repeated failure moves to the front"
    )
    assert_problem(await api.get("/dead-letters", params={"cursor": "x"}), 422, "not a cursor")
    assert_problem(await api.get("/dead-letters", params={"limit": 0}), 422, "limit")


async def test_an_id_may_be_abbreviated_to_a_unique_prefix(
    api: httpx.AsyncClient, database: Database
) -> None:
    # Of seventeen ids, two begin with the same hexadecimal digit.
    for number in range(17):
        await _store(database, b"%d" % number)
    ids = sorted(dead_letter["id"] for dead_letter in await list_letters(api))
    twin_id = next(first for first, second in pairwise(ids) if first[0] == second[0])
    assert_problem(await api.get(f"/dead-letters/{twin_id[0]}"), 409, "Several", twin_id[0])
    assert_problem(
        await api.delete(f"/dead-letters/{twin_id[0]}"), 409, "more characters of the id"
    )
    response = await api.get(f"/dead-letters/{twin_id[:18].upper()}")
    assert response.json()["id"] == twin_id
    for wrong in ("zzz", "%", "_" * 8, str(uuid4())):
        assert_problem(await api.get(f"/dead-letters/{wrong}"), 404, wrong)
    assert len(await list_letters(api)) == 17


async def test_a_message_without_a_consumer_is_not_retried(
    api: httpx.AsyncClient, database: Database
) -> None:
    """Otherwise a service could use a dead letter to publish an event that it may not publish itself."""
    await _store(database, b"{}", subject="analysis.produced", service="researcher")
    dead_letter = await wait_for_letter(api)
    assert "no researcher of this version consumes analysis.produced" in dead_letter["refusal"]
    answer = await api.post(f"/dead-letters/{dead_letter['id']}/retry")
    assert_problem(answer, 409, "analysis.produced", "discard it")
    assert [row.retry_requested_at for row in await rows(database)] == [None]


async def test_a_retry_requested_twice_is_stored_once(
    api: httpx.AsyncClient, database: Database
) -> None:
    await _store(database, b"{}")
    first = await request_retry(api, await wait_for_letter(api))
    assert await request_retry(api, first) == first
    requested_at = datetime.fromisoformat(first["retry_requested_at"])
    assert [row.retry_requested_at for row in await rows(database)] == [requested_at]


async def _store(
    database: Database, payload: bytes, *, service: str = "observer", subject: str = SUBJECT
) -> None:
    async with database.transaction() as session:
        await dead_letters.store(
            session,
            service=service,
            subject=subject,
            payload=payload,
            code="unreadable_event",
            error=f"error {payload.decode()}",
            attempts=1,
        )


# The publication of an iteration's end is independent of its retries.
PUBLICATION_COLUMNS = {
    Iteration.__table__.c[name]
    for name in ("end_published_at", "end_republish_count", "end_republished_at")
}
ALL_BUT_ADVISER = ("scheduler", "observer", "researcher", "aggregator", "analyzer")


@pytest.fixture(autouse=True)
def _soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """Makes the scheduler poll more often and the workers back off for less time."""
    monkeypatch.setattr(scheduler, "RECONCILE_SECONDS", 0.05)
    monkeypatch.setattr(work_module, "MIN_BACKOFF_SECONDS", 0.01)


async def test_a_retried_query_runs_and_its_ended_iteration_is_unchanged(
    sandbox_settings: Settings,
    api: httpx.AsyncClient,
    database: Database,
    bus: Bus,
    sandbox_control: Sandbox,
) -> None:
    plan = {
        "queries": [
            {"objective": name, "reasoning": "why not", "searchHints": ["lithium"]}
            for name in ("Who buys lithium?", "Who sells lithium?")
        ],
        "insights": [],
    }
    sandbox_control.script({"phase": "observer", "content": plan})
    fault = {"kind": "status", "status": 401, "phase": "knowledge_acquisition", "nth": 1}
    sandbox_control.faults(fault)
    agent = await make_agent(database)
    async with running_services(sandbox_settings, ALL_BUT_ADVISER):
        before = await ended_iteration(database, agent, 1)
        assert before.status == IterationStatus.COMPLETED
        assert ["401" in error for error in before.errors] == [True]
        dead_letter = await wait_for_letter(api)
        assert (dead_letter["code"], dead_letter["service"], dead_letter["refusal"]) == (
            "llm_key",
            "researcher",
            None,
        )
        assert (dead_letter["step"]["kind"], dead_letter["step"]["status"]) == ("query", "failed")
        assert dead_letter["step"]["agent_name"] == agent.name
        details = (await api.get(f"/dead-letters/{dead_letter['id']}")).json()
        assert "s lithium?" in details["text"]
        await request_retry(api, dead_letter)
        step = await _step(database, dead_letter["step"]["id"])
        await wait_until(partial(status_is, database, step, StepStatus.COMPLETED), what="the query")
        await wait_until_none(api)
    done = await reload_step(database, step)
    assert (done.error, done.attempts) == (None, 0)
    assert done.result is not None
    assert done.result["nodes"] > 0
    after = await ended_iteration(database, agent, 1)
    for column in set(Iteration.__table__.columns) - PUBLICATION_COLUMNS:
        assert getattr(after, column.name) == getattr(before, column.name), column.name
    assert len(await stream_payloads(bus, "query.completed")) == 2
    assert len(await stream_payloads(bus, "iteration.completed")) == 1


async def test_a_step_that_fails_again_becomes_a_dead_letter_again(
    settings: Settings, api: httpx.AsyncClient, database: Database, bus: Bus
) -> None:
    async def fail_always(lease: leases.Lease, step: StepRow) -> StepResult:
        raise TransientError("the server is away")

    settings = settings.model_copy(update={"max_attempts": 2})
    query = await failed_query(database, bus, settings, fail_always)
    first = await wait_for_letter(api)
    assert (first["code"], first["attempts"]) == ("attempts_used_up", 2)
    await request_retry(api, first)

    async def is_back() -> Any:
        return [
            dead_letter
            for dead_letter in await list_letters(api)
            if dead_letter["stored_at"] > first["stored_at"]
        ]

    async with (
        running_service(researcher(settings, fail_always)),
        running_services(settings, ["scheduler"]),
    ):
        (again,) = await wait_until(is_back, what="the dead letter to come back")
        await wait_until(partial(_is_only_one, api), what="the old dead letter to be deleted")
    assert (again["attempts"], again["retry_requested_at"]) == (2, None)
    assert again["step"]["id"] == str(query.id)
    step = await reload_step(database, query)
    assert (step.status, step.attempts, step.epoch) == (StepStatus.FAILED, 2, 4)
    await request_retry(api, again)
    async with (
        running_service(researcher(settings, succeed)),
        running_services(settings, ["scheduler"]),
    ):
        await wait_until(
            partial(status_is, database, query, StepStatus.COMPLETED), what="the query"
        )
        await wait_until_none(api)


async def test_a_retry_uses_the_current_model_setting(
    sandbox_settings: Settings, api: httpx.AsyncClient, database: Database, sandbox_control: Sandbox
) -> None:
    """A phase that never got a response is restarted with the current settings."""
    query = {"objective": "lithium", "reasoning": "why not", "searchHints": []}
    sandbox_control.script({"phase": "observer", "content": {"queries": [query], "insights": []}})
    agent = await make_agent(database)
    await _set_models(database, agent, knowledge_acquisition="gpt-wrong")
    async with running_services(sandbox_settings, ALL_BUT_ADVISER):
        await ended_iteration(database, agent, 1)
        dead_letter = await wait_for_letter(api)
    assert dead_letter["code"] == "llm_model"
    await _set_models(database, agent)
    async with running_services(sandbox_settings, ALL_BUT_ADVISER):
        await request_retry(api, dead_letter)
        step = await _step(database, dead_letter["step"]["id"])
        await wait_until(partial(status_is, database, step, StepStatus.COMPLETED), what="the query")
    async with database.transaction() as session:
        call_models = select(Call.model).where(
            Call.step_id == step.id, Call.answered_at.is_not(None)
        )
        assert set(await session.scalars(call_models)) - {None} == {"sandbox-reader"}
        run_models = select(Interaction.model).where(Interaction.step_id == step.id)
        assert set(await session.scalars(run_models)) == {"sandbox-reader"}


async def test_a_step_is_not_retried_while_its_iteration_runs(
    settings: Settings, api: httpx.AsyncClient, database: Database, bus: Bus
) -> None:
    """The join has counted the step as failed; it would wait for it again or miss it."""
    query = await failed_query(database, bus, settings, ended=False)
    dead_letter = await wait_for_letter(api)
    answer = await api.post(f"/dead-letters/{dead_letter['id']}/retry")
    assert_problem(
        answer, 409, "iteration 1 of Battery watch is still running", "when the iteration has"
    )
    assert (await reload_step(database, query)).retry_requested_at is None
    assert isinstance(await claim_step(database, query), AlreadyEnded)
    async with database.transaction() as session:
        iteration = await session.get_one(Iteration, query.iteration_id)
    await end_iteration(database, iteration)
    assert (await wait_for_letter(api))["refusal"] is None
    await request_retry(api, dead_letter)


async def test_an_observe_step_is_not_retried_and_the_error_says_what_to_do(
    settings: Settings, api: httpx.AsyncClient, database: Database, bus: Bus
) -> None:
    started = await make_iteration(database, await make_agent(database))
    await bus.publish(derived_events.iteration_step_event(started.iteration, started.observe))
    consumer = observer(settings, fail_permanently)
    async with running_service(consumer), running_services(settings, ["aggregator"]):
        await ended_iteration(database, await _agent_of(database, started.iteration), 1)
    dead_letter = await wait_for_letter(api)
    answer = await api.post(f"/dead-letters/{dead_letter['id']}/retry")
    assert_problem(answer, 409, "without a plan", '`vigil run "Battery watch"`')


async def test_a_failure_of_a_stored_response_is_not_retried(
    settings: Settings, api: httpx.AsyncClient, database: Database, bus: Bus
) -> None:
    async def fail_without_document(lease: leases.Lease, step: StepRow) -> StepResult:
        raise PermanentError("empty_answer", "knowledge acquisition ended without a document")

    await failed_query(database, bus, settings, fail_without_document)
    dead_letter = await wait_for_letter(api)
    answer = await api.post(f"/dead-letters/{dead_letter['id']}/retry")
    assert_problem(answer, 409, "response is stored", "vigil run")


async def test_only_the_agents_owner_can_access_a_steps_dead_letter(
    settings: Settings, api: httpx.AsyncClient, database: Database, bus: Bus
) -> None:
    await failed_query(database, bus, settings)
    dead_letter = await wait_for_letter(api)
    async with create_client(settings, user="stranger") as other:
        assert await list_letters(other) == []
        for send in (other.get, other.delete):
            assert_problem(await send(f"/dead-letters/{dead_letter['id']}"), 404)
        assert_problem(await other.post(f"/dead-letters/{dead_letter['id']}/retry"), 404)
    assert await wait_for_letter(api) == dead_letter


async def test_discarding_a_dead_letter_discards_its_retry(
    settings: Settings, api: httpx.AsyncClient, database: Database, bus: Bus
) -> None:
    query = await failed_query(database, bus, settings)
    dead_letter = await request_retry(api, await wait_for_letter(api))
    assert (await api.delete(f"/dead-letters/{dead_letter['id']}")).status_code == 204
    assert await Retrier(database, bus).list_requests() == []
    assert isinstance(await claim_step(database, query), AlreadyEnded)
    assert (await reload_step(database, query)).error == "the key is wrong"


async def _is_only_one(api: httpx.AsyncClient) -> bool:
    return len(await list_letters(api)) == 1


async def _step(database: Database, step_id: str) -> Step:
    async with database.transaction() as session:
        return (await session.scalars(select(Step).where(Step.id == step_id))).one()


async def _agent_of(database: Database, iteration: IterationRow) -> Agent:
    async with database.transaction() as session:
        return await session.get_one(Agent, iteration.agent_id)


async def _set_models(database: Database, agent: Agent, **models: str) -> None:
    async with database.transaction() as session:
        await session.execute(update(Agent).where(Agent.id == agent.id).values(models=models))


GRACE_SECONDS = 15.0


async def test_a_retry_whose_publish_fails_is_repeated(
    settings: Settings, database: Database, bus: Bus
) -> None:
    query = await failed_query(database, bus, settings)
    await store_retry_request(database)
    retrier = Retrier(database, bus)
    (letter_id,) = await retrier.list_requests()
    await bus.jetstream.delete_stream(STREAM)
    with pytest.raises(TransientError, match=r"did not store query\.requested"):
        await retrier.publish(letter_id)
    assert await retrier.list_requests() == [letter_id]
    await provision_stream(settings)
    await retrier.publish(letter_id)
    assert (await retrier.list_requests(), await rows(database)) == ([], [])
    (payload,) = await stream_payloads(bus, "query.requested")
    assert json.loads(payload)["step_id"] == str(query.id)


async def test_a_kill_between_publishing_and_deleting_publishes_once_more(
    settings: Settings, database: Database, bus: Bus, monkeypatch: pytest.MonkeyPatch
) -> None:
    query = await failed_query(database, bus, settings)
    await store_retry_request(database)
    retrier = Retrier(database, bus)
    (letter_id,) = await retrier.list_requests()

    async def kill(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(dead_letters, "delete_republished", kill)
        with pytest.raises(KeyboardInterrupt):
            await retrier.publish(letter_id)
    assert len(await rows(database)) == 1
    await retrier.publish(letter_id)
    assert await rows(database) == []
    async with running_service(researcher(settings, succeed)):
        await wait_until(
            partial(status_is, database, query, StepStatus.COMPLETED), what="the query"
        )
    assert (await reload_step(database, query)).epoch == 2


async def test_a_failure_before_the_dead_letter_is_deleted_is_not_lost(
    settings: Settings, database: Database, bus: Bus
) -> None:
    await failed_query(database, bus, settings)
    await store_retry_request(database)
    (dead_letter,) = await rows(database)
    assert dead_letter.retry_requested_at is not None
    async with database.transaction() as session:
        await dead_letters.store(
            session,
            service=dead_letter.service,
            subject=dead_letter.subject,
            payload=dead_letter.payload,
            code="another",
            error="failed again",
            attempts=7,
            step_id=dead_letter.step_id,
        )
    async with database.transaction() as session:
        await dead_letters.delete_republished(
            session, dead_letter.id, dead_letter.retry_requested_at
        )
        assert await dead_letters.list_retry_requests(10).execute(session) == []
    (row,) = await rows(database)
    assert (row.code, row.error, row.attempts) == ("another", "failed again", 7)


async def test_a_failed_step_is_claimed_only_after_a_retry_request(
    settings: Settings, database: Database, bus: Bus
) -> None:
    query = await failed_query(database, bus, settings)
    assert isinstance(await claim_step(database, query), AlreadyEnded)
    await store_retry_request(database)
    claim = await claim_step(database, query)
    assert isinstance(claim, Claimed)
    assert (claim.step.attempts, claim.step.error) == (0, None)
    assert (await reload_step(database, query)).retry_at is None
    assert (claim.step.ended_at, claim.lease.epoch) == (None, 2)
    async with database.transaction() as session:
        await steps.fail(session, claim.lease, "no better", attempts=1)
    second_claim = await claim_step(database, query)
    assert isinstance(second_claim, AlreadyEnded)
    assert second_claim.step.error == "no better"


async def test_claims_before_a_retry_do_not_count(
    settings: Settings, database: Database, bus: Bus
) -> None:
    query = await failed_query(database, bus, settings)
    await change(database, query, epoch=MAX_CLAIMS + 1)
    await store_retry_request(database)
    async with (
        running_service(researcher(settings, succeed)),
        running_services(settings, ["scheduler"]),
    ):
        await wait_until(
            partial(status_is, database, query, StepStatus.COMPLETED), what="the query"
        )


async def test_a_retry_lost_by_the_bus_is_republished(
    settings: Settings, database: Database, bus: Bus
) -> None:
    query = await failed_query(database, bus, settings)
    reconciler = Reconciler(database, resend_after_seconds=GRACE_SECONDS)
    await change(database, query, requested_at=ago(3600), ended_at=ago(3500))
    assert await reconciler.find_missed() == [], "no retry is requested"
    await store_retry_request(database)
    assert await reconciler.find_missed() == [], "the request is too recent"
    await change(database, query, retry_requested_at=ago(GRACE_SECONDS + 1))
    (row,) = await reconciler.find_missed()
    (event,) = await reconciler.events(row)
    assert isinstance(event, QueryRequested)
    assert (event.step_id, row.number) == (query.id, 1)
    await reconciler.count(row)
    assert await reconciler.find_missed() == []
    claim = await claim_step(database, query)
    assert isinstance(claim, Claimed)
    await change(database, query, requested_at=ago(3600))
    assert await reconciler.find_missed() == [], "its lease runs"
    await change(database, query, lease_until=ago(5))
    (second_row,) = await reconciler.find_missed()
    assert await reconciler.events(second_row) == [event]


async def test_the_end_of_a_retried_step_does_not_change_its_iteration(
    settings: Settings, database: Database, bus: Bus
) -> None:
    aggregate = Aggregate(database)
    query = await failed_query(database, bus, settings)
    async with database.transaction() as session:
        (failure,) = await derived_events.events_after_step(
            session, await steps.get_step(session, query.id)
        )
    subjects = [event.subject for event in await aggregate(failure)]
    assert subjects == ["iteration.failed"], "a redelivered event gives the same end"
    await store_retry_request(database)
    claim = await claim_step(database, query)
    assert isinstance(claim, Claimed)
    assert [event.subject for event in await aggregate(failure)] == subjects, "during the retry too"
    async with database.transaction() as session:
        completed = await steps.end(session, claim.lease, {"nodes": 1, "edges": 0})
        (success,) = await derived_events.events_after_step(session, completed)
    before = await _iteration(database, query)
    assert await aggregate(success) == []
    after = await _iteration(database, query)
    assert (after.status, after.stage, after.errors) == (before.status, before.stage, before.errors)


async def _iteration(database: Database, step: StepRow) -> Iteration:
    async with database.transaction() as session:
        return await session.get_one(Iteration, step.iteration_id)
