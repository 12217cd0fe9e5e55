"""What must hold in every simulation, over the database, the bus and what was paid."""

from collections.abc import Sequence
from decimal import Decimal
from typing import Any, Final
from uuid import UUID

from sqlalchemy import select

from shared.database.engine import Database
from shared.database.tables import Agent, Iteration
from shared.database.transaction import Transaction
from shared.errors import PermanentError
from shared.events import models
from shared.events.codec import decode
from shared.graph.scope import GraphScope
from shared.graph.verification.verifier import check_page
from tests.support import budget_audit
from tests.support.canonical_graph import graph_fingerprint
from tests.support.chaos.evidence import (
    event_faults,
    state_faults,
    unanswered_faults,
)
from tests.support.simulation.clock import PROCESS
from tests.support.simulation.script import Payment
from tests.support.simulation.world import World

_REQUESTS: Final = (
    models.IterationStarted,
    models.QueryRequested,
    models.InsightRequested,
    models.AnalysisProduced,
)
_IS_STEP_REQUESTED: Final = "select requested_at is not null from steps where id = %s"
_IS_STEP_ENDED: Final = "select status in ('completed', 'failed') from steps where id = %s"
_IS_ITERATION_ENDED: Final = "select ended_at is not null from iterations where id = %s"
_PAID: Final = """
select (select coalesce(sum(spent_usd + reserved_usd), 0) from budget_days where scope = %(agent)s),
  exists (select from calls where id::text = %(key)s and answered_at is not null),
  exists (select from budget_days join agents on agents.id = scope
    where spent_usd + reserved_usd > budget_usd_per_day)
"""
_COSTS: Final = """
select id::text, coalesce(cost_usd, 0), assumed_usd, attempts = 1 and answered_at is not null
from calls where agent_id = %s and kind = 'llm'
"""
_SEARCH_COSTS: Final = """
select coalesce(sum(coalesce(cost_usd, 0) + assumed_usd), 0) from calls where agent_id = %s and kind = 'search'
"""
_ABOVE_CAP: Final = """
select scope, spent_usd + reserved_usd, budget_usd_per_day from budget_days join agents on agents.id = scope
where spent_usd + reserved_usd > budget_usd_per_day
"""
_ITEMS: Final = """
select (select count(*) from inbox_items where agent_id = %(agent)s and kind = 'advice'),
  (select count(*) from graph_nodes where agent_id = %(agent)s and type = 'AgentAdvice')
"""
_STEPS_WITHOUT_LETTER: Final = """
select steps.id, steps.error from steps left join dead_letters on dead_letters.step_id = steps.id
where steps.status = 'failed' and dead_letters.id is null and steps.error not like '%budget%'
"""
_LETTERS_WITHOUT_STEP: Final = """
select dead_letters.id from dead_letters join steps on steps.id = step_id where steps.status <> 'failed'
"""
_UNDISPATCHED: Final = "select count(*) from inbox_items where dispatched_at is null"


class Watch:
    """Checks each event when it is published, and each call when it is paid for."""

    def __init__(self, world: World) -> None:
        self.faults: list[str] = []
        self._world = world
        self._spent: dict[UUID, Decimal] = {}
        world.jetstream.watch = self._published
        world.script.watch = self._paid

    def _published(self, subject: str, payload: bytes) -> None:
        try:
            event = decode(payload)
        except PermanentError:
            return
        if isinstance(event, _REQUESTS):
            query, row_id = _IS_STEP_REQUESTED, event.step_id
        elif isinstance(event, models.IterationCompleted | models.IterationFailed):
            query, row_id = _IS_ITERATION_ENDED, event.iteration_id
        else:
            assert isinstance(event, models.StepEvent)
            query, row_id = _IS_STEP_ENDED, event.step_id
        if not self._is_true(query, row_id):
            self.faults.append(f"{subject} was published before its commit")

    def _paid(self, payment: Payment) -> None:
        spent = self._spent[payment.agent_id] = (
            self._spent.get(payment.agent_id, Decimal(0)) + payment.usd
        )
        params = {"agent": payment.agent_id, "key": payment.key}
        cursor = self._world.postgres.monitor.execute(_PAID, params)
        [(booked, is_finished, is_above_cap)] = cursor.fetchall()
        if spent > booked:
            self.faults.append(
                f"a call was paid for that no budget has reserved: ${spent} were paid,"
                f" ${booked} are spent or reserved"
            )
        if is_above_cap:
            self.faults += _above_cap(self._world)
        process = PROCESS.get()
        is_zombie = process is not None and process.was_frozen
        if is_finished and not is_zombie:
            self.faults.append("a finished call was paid for twice")

    def _is_true(self, query: str, row_id: object) -> bool:
        row = self._world.postgres.monitor.execute(query, [row_id]).fetchone()
        return bool(row and row[0])


def check_bus(world: World, poison: Sequence[bytes]) -> list[str]:
    faults = [f"left open: {message}" for message in world.jetstream.open_messages()]
    stored = {bytes(payload) for (payload,) in _rows(world, "select payload from dead_letters")}
    faults += ["an unreadable message has no dead letter" for each in poison if each not in stored]
    faults += [
        f"a failed step has no dead letter: {error}"
        for _, error in _rows(world, _STEPS_WITHOUT_LETTER)
    ]
    faults += [
        "the dead letter of a step that did not fail is left"
        for _ in _rows(world, _LETTERS_WITHOUT_STEP)
    ]
    [(undispatched,)] = _rows(world, _UNDISPATCHED)
    if undispatched:
        faults.append(f"{undispatched} inbox items were not dispatched")
    return faults


async def check_agent(
    session: Transaction, world: World, agent: Agent, *, with_events: bool
) -> list[str]:
    """Describes every violated invariant of the agent's iterations, events, effects, journal and costs."""
    faults: list[str] = []
    published = [
        (decode(each.payload), each.payload)
        for each in world.jetstream.published
        if each.is_stored and str(agent.id).encode() in each.payload
    ]
    for iteration in await session.scalars(
        select(Iteration).where(Iteration.agent_id == agent.id).order_by(Iteration.number)
    ):
        found = await state_faults(session, iteration)
        if with_events:
            found += await event_faults(session, published, iteration)
            found += await unanswered_faults(session, iteration)
        faults += [f"iteration {iteration.number}: {fault}" for fault in found]
    faults += await _journal_faults(session, agent)
    [(items, advice)] = world.postgres.monitor.execute(_ITEMS, {"agent": agent.id}).fetchall()
    if items != advice:
        faults.append(f"{advice} pieces of advice are {items} times in the inbox")
    return [f"{agent.name}: {fault}" for fault in [*faults, *_money_faults(world, agent.id)]]


async def check_budgets(session: Transaction, world: World) -> list[str]:
    faults = await budget_audit.faults(session) + await budget_audit.spending_faults(session)
    if reserved := await budget_audit.reserved(session):
        faults.append(f"{reserved} reservations are left")
    return faults + _above_cap(world)


async def fingerprint(database: Database, agent: Agent) -> str:
    async with database.snapshot() as session:
        return await graph_fingerprint(session, GraphScope(agent.owner_id, agent.id))


async def _journal_faults(session: Transaction, agent: Agent) -> list[str]:
    """As `vigil verify` finds them."""
    faults: list[str] = []
    cursor: str | None = None
    while True:
        page = await check_page(session, GraphScope(agent.owner_id, agent.id), cursor=cursor)
        faults += [f"verification: {each}" for each in page.breaks]
        if page.next is None:
            return faults
        cursor = page.next


def _money_faults(world: World, agent_id: UUID) -> list[str]:
    """Each answered request is in the ledger: with its cost if it was recorded, else within what is assumed."""
    paid: dict[str, Decimal] = {}
    searched = Decimal(0)
    for payment in world.script.payments:
        if payment.agent_id != agent_id:
            continue
        if payment.key.startswith("search"):
            searched += payment.usd
        else:
            paid[payment.key] = paid.get(payment.key, Decimal(0)) + payment.usd
    faults = []
    rows = {key: tuple(row) for key, *row in _rows(world, _COSTS, agent_id)}
    for key, usd in paid.items():
        cost, assumed, is_simple = rows.get(key, (Decimal(0), Decimal(0), False))
        if cost + assumed < usd or (is_simple and cost + assumed != usd):
            faults.append(f"${usd} were paid for a call with ${cost} and ${assumed} in the ledger")
    faults += [
        f"the ledger has ${cost} for a call that was not paid for"
        for key, (cost, *_) in rows.items()
        if cost and key not in paid
    ]
    [(booked,)] = _rows(world, _SEARCH_COSTS, agent_id)
    if booked < searched:
        faults.append(f"${searched} were paid for searches, the ledger has ${booked}")
    ledger = booked + sum(cost + assumed for cost, assumed, _ in rows.values())
    if not world.faults.counts and ledger != searched + sum(paid.values()):
        faults.append("without faults, the ledger differs from what was paid")
    return faults


def _above_cap(world: World) -> list[str]:
    return [
        f"${usd} are spent or reserved of a cap of ${cap}"
        for _, usd, cap in _rows(world, _ABOVE_CAP)
    ]


def _rows(world: World, query: str, *args: Any) -> list[tuple[Any, ...]]:
    return world.postgres.monitor.execute(query, args or None).fetchall()
