"""Operations of the workflow and of paid calls."""

from collections.abc import Mapping
from decimal import Decimal
from typing import Any, Final
from uuid import UUID, uuid4

import psycopg

from shared.agents import agents, contexts
from shared.billing import (
    budgets,
    call_ledger,
    embedding_cache,
    reservations,
    resumable_call,
    token_lengths,
)
from shared.billing.budgets import Caps
from shared.billing.call_ledger import Failure, Holding
from shared.database.statements import Batch, BoundQuery
from shared.database.transaction import Transaction
from shared.database.unit_of_work import UnitOfWork
from shared.enums import IterationStatus, Phase, Stage, StepKind
from shared.llm import phase_run_store
from shared.llm.phase_run_store import NewRun
from shared.workflow import (
    agent_clock,
    attention,
    dead_letters,
    investigations,
    iterations,
    leases,
    steps,
)
from shared.workflow.investigations import Answer, MissingData
from shared.workflow.iterations import StepChanges
from shared.workflow.leases import Lease, LeaseLostError
from shared.workflow.steps import Pauses
from tests.support.claims import AGENT_ROW
from tests.support.store_walk.operation import Again, Operation, Part
from tests.support.store_walk.world import ANSWER, INSIGHT, MAX_USD, QUERY, World, make_world

OTHER: Final = MissingData("Output of Mali", "It is lacking.")
_CONTEXT: Final = "what other runs share " * 20


async def _pay(world: World, transaction: Transaction) -> None:
    batch, row = Batch(), world.row("next")
    answers = [call_ledger.paid_answer(world.attempt, ANSWER, is_unbilled=False)]
    call_ledger.pay(batch, world.lease, answers, [row], {row["id"]: MAX_USD}, holding=Holding())
    await batch.execute(transaction)


async def _write_run(world: World, transaction: Transaction) -> None:
    run = NewRun(
        world.database,
        world.lease,
        Phase.VERIFICATION,
        model="m",
        system_prompt="",
        request={},
    )
    batch = Batch()
    run.write(batch)
    await batch.execute(transaction)


async def _write_run_with(world: World) -> None:
    run = NewRun(
        world.database,
        world.lease,
        Phase.VERIFICATION,
        model="m",
        system_prompt="",
        request={"messages": [{"role": "user", "content": f"{_CONTEXT}and more"}]},
        context=_CONTEXT,
    )
    # What the process remembers is not stored any more, so the first attempt is refused.
    lost = "another context"
    contexts.remember(world.database, world.agent_id, lost, contexts.in_full(lost))
    unit = UnitOfWork(world.database, leases.fence(world.lease))
    run.write_with(unit)
    await unit.commit()


async def _end_with(world: World, transaction: Transaction) -> None:
    batch = Batch()
    steps.end_with(batch, world.lease, {"a": 1})
    await batch.execute(transaction)


async def _open_run(world: World, transaction: Transaction) -> None:
    run = NewRun(
        world.database,
        world.lease,
        Phase.VERIFICATION,
        model="m",
        system_prompt="",
        request={"messages": [{"role": "user", "content": f"{_CONTEXT}and more"}]},
        context=_CONTEXT,
    )
    await run.open_or_resume(transaction)


async def _start_iterations(_: World, transaction: Transaction) -> None:
    due = await agents.list_due(10).execute(transaction)
    await iterations.start_iterations(due, deadline_seconds=600.0).execute(transaction)


async def _suspend(world: World, transaction: Transaction) -> None:
    await budgets.suspend_or_retry(transaction, world.agent_id, MAX_USD)


async def _forget(world: World, transaction: Transaction) -> None:
    reserved = await reservations.load_reserved(transaction, world.agent_id)
    await reservations.forget_agent(transaction, world.agent_id, reserved)


def _moved(world: World) -> BoundQuery[bool]:
    seen = world.iteration
    ended = seen._replace(
        status=IterationStatus.FAILED,
        stage=Stage.ENDED,
        errors=["no"],
        stage_changed_at=seen.stage_changed_at.replace(year=2030),
        ended_at=seen.stage_changed_at.replace(year=2030),
    )
    abandoned = world.query._replace(error="too late")
    added = iterations.new_step(seen, StepKind.ADVISE, 0, {"analysis_ids": []})
    return iterations.move(seen, ended, StepChanges(added=[added], abandoned=[abandoned]))


_CAPPED: Final = "update agents set budget_calls_per_day = 0 where id = :agent"
_SPENT: Final = (
    "update agents set budget_usd_per_day = 1 where id = :agent",
    "update budget_days set spent_usd = 0.9 where scope = :agent",
)
_SUSPENDED: Final = (
    "update agents set suspended_until = clock_timestamp() + interval '1 day' where id = :agent"
)
_WAITING: Final = "update steps set waiting_since = clock_timestamp() where kind = 'observe'"
_STALLED: Final = """
update iterations set started_at = started_at - interval '1 day', deadline_at = clock_timestamp() - interval '1 s'
where agent_id = :agent
"""
_ENDED: Final = "update iterations set ended_at = clock_timestamp() where agent_id = :agent"
_RETRIED: Final = (
    "update dead_letters set retry_requested_at = '2100-01-01T00:00:00Z'",
    "update steps set retry_requested_at = '2100-01-01T00:00:00Z' where status = 'failed'",
)
_MEASURED: Final = """
insert into calls (id, agent_id, iteration_id, step_id, interaction_id, kind, phase, model, request_hash, request,
  input_tokens)
select gen_random_uuid(), agent_id, iteration_id, step_id, interaction_id, kind, phase, model, number::text,
  '{"bytes": 5000}', 1000
from calls cross join generate_series(1, 20) as number
"""
_OLD_REQUEST: Final = "update investigation_requests set iteration_number = -20"
_NO_RESERVATION: Final = "update calls set reserved_usd = null, reserved_on = null"

_OPERATIONS: Final[Mapping[Any, Operation[World]]] = {
    # steps
    steps.end_with: Operation(_end_with, again=LeaseLostError),
    steps.end: Operation(lambda w, t: steps.end(t, w.lease, {"a": 1}), again=LeaseLostError),
    steps.fail: Operation(
        lambda w, t: steps.fail(t, w.lease, "no", attempts=2), again=LeaseLostError
    ),
    steps.release: Operation(
        lambda w, t: steps.release(t, w.lease, "no", attempts=1, rest_seconds=1.0),
        again=LeaseLostError,
    ),
    steps.wait: Operation(
        lambda w, t: steps.wait(t, w.lease, "away", pauses=Pauses()), again=LeaseLostError
    ),
    steps.wait_ending: Operation(query=lambda w: steps.wait_ending(w.lease), prepare=[_WAITING]),
    steps.insert_agent_task: Operation(
        lambda w, t: steps.insert_agent_task(
            t, w.agent_id, StepKind.CONVERSE, 1, {}, w.iteration.started_at
        ),
        again=psycopg.errors.UniqueViolation,
    ),
    # leases
    leases.claim_query: Operation(
        query=lambda w: leases.claim_query(
            Lease(w.query.id, w.iteration.id, w.agent_id, uuid4(), 1, "worker", 60.0, AGENT_ROW),
            w.iteration.started_at,
        ),
        again=LeaseLostError,
    ),
    leases.renewal: Operation(query=lambda w: leases.renewal(w.lease)),
    leases.reopen: Operation(lambda w, t: leases.reopen(t, w.failed.id), prepare=_RETRIED),
    # iterations
    iterations.move: Operation(query=_moved),
    iterations.plan_steps: Operation(
        query=lambda w: iterations.plan_steps(
            w.iteration, queries=[QUERY] * 3, insights=[INSIGHT], plan={"queries": 3}
        )
    ),
    iterations.start_iterations: Operation(_start_iterations),
    iterations.list_stalled: Operation(
        query=lambda w: iterations.list_stalled(60.0, look_again_seconds=5.0), prepare=[_STALLED]
    ),
    iterations.restart_deadlines: Operation(query=lambda w: iterations.restart_deadlines(6000.0)),
    iterations.note_ends_received: Operation(
        query=lambda w: iterations.note_ends_received([w.iteration.id]), prepare=[_ENDED]
    ),
    # dead letters
    dead_letters.store: Operation(
        lambda w, t: dead_letters.store(
            t, service="adviser", subject="s", payload=b"a", code="c", error="e", attempts=1
        )
    ),
    dead_letters.request_retries: Operation(
        lambda w, t: dead_letters.request_retries(t, [w.letter_id])
    ),
    dead_letters.discard: Operation(
        lambda w, t: dead_letters.discard(t, [w.letter_id]), prepare=_RETRIED
    ),
    dead_letters.delete_republished: Operation(
        lambda w, t: dead_letters.delete_republished(
            t, w.letter_id, w.iteration.started_at.fromisoformat("2100-01-01T00:00:00+00:00")
        ),
        prepare=_RETRIED,
    ),
    # investigation requests
    investigations.request: Operation(
        query=lambda w: investigations.request(w.agent_id, w.iteration.id, w.lease.step_id, OTHER)
    ),
    investigations.create_request: Operation(
        query=lambda w: investigations.create_request(
            w.agent_id, w.iteration.id, w.lease.step_id, OTHER
        )
    ),
    investigations.mark_answered: Operation(
        query=lambda w: investigations.mark_answered(
            w.agent_id, {w.request_id: Answer([UUID(int=1)])}, by=w.query.id
        )
    ),
    investigations.mark_not_found: Operation(
        query=lambda w: investigations.mark_not_found(w.agent_id, {w.request_id: "Not there."})
    ),
    investigations.drop_expired: Operation(
        query=lambda w: investigations.drop_expired(w.agent_id, 1), prepare=[_OLD_REQUEST]
    ),
    attention.record_end: Operation(
        query=lambda w: [
            attention.lock_agent(w.agent_id),
            attention.record_end(w.agent_id, ["no"]),
        ],
        prepare=[
            "update agents set interval_seconds = 60 where id = :agent",
            """insert into iterations (id, agent_id, number, why, status, stage, deadline_at, ended_at, errors)
            select gen_random_uuid(), :agent, number, 'due', 'failed', 'ended', clock_timestamp(), clock_timestamp(),
              '["no"]' from generate_series(2, 9) as number""",
        ],
    ),
    # budgets
    budgets.suspend_or_retry: Operation(_suspend, prepare=[_CAPPED]),
    budgets.resume_agents: Operation(
        lambda w, t: budgets.resume_agents(t, w.agent_id), prepare=[_SUSPENDED]
    ),
    budgets.spending_notices: Operation(
        query=lambda w: budgets.spending_notices(w.agent_id, w.attempt.day), prepare=_SPENT
    ),
    budgets.cap_agent: Operation(
        lambda w, t: budgets.cap_agent(t, w.agent_id, Caps(Decimal(1000), 1000)),
        prepare=[_SUSPENDED],
    ),
    budgets.cap_installation: Operation(
        lambda w, t: budgets.cap_installation(t, Caps(Decimal(1000), 1000)), prepare=[_SUSPENDED]
    ),
    # calls
    call_ledger.open_call: Operation(lambda w, t: call_ledger.open_call(t, w.row("new"))),
    call_ledger.record_reference: Operation(
        lambda w, t: call_ledger.record_reference(t, w.attempt.call_id, "ref")
    ),
    call_ledger.report_progress: Operation(
        lambda w, t: call_ledger.report_progress(w.database, w.attempt.call_id, 7),
        hides_errors=True,
    ),
    call_ledger.answer_queries: Operation(
        query=lambda w: call_ledger.answer_queries(w.attempt.call_id, ANSWER)
    ),
    call_ledger.append_events: Operation(
        query=lambda w: call_ledger.append_events(
            w.attempt.call_id, [{"type": "answer", "call_id": "1"}]
        )
    ),
    call_ledger.pay: Operation(_pay),
    call_ledger.fail_attempt: Operation(
        lambda w, t: call_ledger.fail_attempt(t, w.attempt, 1, Failure("bad", "no", ""))
    ),
    reservations.release_hold: Operation(
        query=lambda w: reservations.release_hold(w.lease.step_id)
    ),
    reservations.reserve: Operation(
        lambda w, t: reservations.reserve(t, w.agent_id, {w.attempt.call_id: MAX_USD}),
        again=Again.WRITES,
        prepare=[_NO_RESERVATION],
    ),
    reservations.release: Operation(lambda w, t: reservations.release(t, w.attempt)),
    reservations.closing_query: Operation(
        query=lambda w: reservations.closing_query(reservations.settled(w.attempt, Decimal("0.02")))
    ),
    reservations.write_off_call: Operation(
        lambda w, t: reservations.write_off_call(t, w.attempt.call_id)
    ),
    reservations.step_write_off: Operation(
        lambda w, t: reservations.step_write_off(w.lease.step_id).execute(t),
        prepare=["update steps set status = 'failed' where kind = 'observe'"],
    ),
    reservations.forget_agent: Operation(_forget, again=Again.WRITES),
    token_lengths.measuring: Operation(
        query=lambda w: token_lengths.measuring(w.agent_id), prepare=[_MEASURED]
    ),
    # phase runs
    NewRun.write: Operation(_write_run, again=psycopg.errors.UniqueViolation),
    NewRun.write_with: Operation(alone=_write_run_with, again=psycopg.errors.UniqueViolation),
    NewRun.open_or_resume: Operation(_open_run),
}

_READS: Final = {
    agent_clock.agent_clock,
    attention.find,
    attention.lock_agent,
    budgets.allows_in_phase,
    budgets.check_caps,
    budgets.load_status,
    budgets.lock_caps,
    budgets.today,
    call_ledger.find_resumable,
    dead_letters.get_retry_request,
    dead_letters.list_retry_requests,
    embedding_cache.find_vectors,
    investigations.count_requests,
    investigations.list_open_requests,
    investigations.list_outstanding,
    investigations.list_requests,
    investigations.objectives_of,
    iterations.database_time,
    iterations.load_for_join,
    leases.fence,
    leases.load,
    leases.retried_epoch,
    phase_run_store.load_requests,
    reservations.load_reserved,
    steps.get_step,
    steps.iteration_query,
    steps.list_plan,
    steps.list_steps,
}
_FRAMES: Final = {leases.leased_transaction, leases.run_while_renewing}
_STORES: Final = (
    steps,
    leases,
    iterations,
    dead_letters,
    investigations,
    attention,
    agent_clock,
    budgets,
    call_ledger,
    reservations,
    token_lengths,
    embedding_cache,
    resumable_call,
    phase_run_store,
)

WORKFLOW: Final = Part("workflow", make_world, _STORES, _OPERATIONS, _READS, _FRAMES)
