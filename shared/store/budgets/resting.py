"""An agent that has used a budget up rests until the next day, and its owner is told why, once for each cap and day."""

from datetime import date
from decimal import Decimal
from typing import Final
from uuid import UUID

from sqlalchemy import text, update
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.ext.asyncio import AsyncSession

from shared.errors import PermanentError, RetrySoonError
from shared.store import ids
from shared.store.budgets.books import INSTALLATION
from shared.store.budgets.caps import Refusal, end_of
from shared.store.budgets.standings import in_the_way, today
from shared.store.budgets.words import notice_title, refused_in_words
from shared.store.tables import Agent, InboxItem
from shared.store.words import InboxKind

CODE: Final = "budget"
ASK_AGAIN_SECONDS: Final = 1.0
"""Where only what others have reserved is in the way, and may be free again when they have settled."""

# Any fixed number: whoever puts an agent to rest holds this advisory lock in share, whoever changes a cap holds it
# alone, so that none is put to rest by a cap that was raised meanwhile.
_CAPS_LOCK: Final = 0x7669_6275


class BudgetUsedUpError(PermanentError):
    """A cap has refused a call before it was sent. The agent rests; to retry the step by hand would mend nothing."""

    def __init__(self, message: str) -> None:
        super().__init__(CODE, message)


async def rest_or_wait(
    session: AsyncSession, agent_id: UUID, usd: Decimal, *, day: date | None = None
) -> BudgetUsedUpError | RetrySoonError:
    """What to raise, once `session` is committed, for a sending that could cost `usd` and was refused.

    BudgetUsedUpError where the cap stays in the way until the day ends: then the agent rests until that, and its owner
    is told. RetrySoonError where the call may be let through in a moment.
    """
    await session.execute(text("select pg_advisory_xact_lock_shared(:key)"), {"key": _CAPS_LOCK})
    day = day or await today(session)
    refused = await in_the_way(session, agent_id, usd, day=day)
    if refused is None or refused.passes:
        return RetrySoonError(
            "what calls under way may cost leaves nothing of the budget for another just now",
            retry_in_seconds=ASK_AGAIN_SECONDS,
        )
    await _rest(session, agent_id, refused)
    return BudgetUsedUpError(refused_in_words(refused))


async def lock_caps(session: AsyncSession) -> None:
    """Before a cap is changed: nobody is put to rest by it until the transaction ends."""
    await session.execute(text("select pg_advisory_xact_lock(:key)"), {"key": _CAPS_LOCK})


async def end_rest(session: AsyncSession, agent_id: UUID | None = None) -> None:
    """Wakes the agent, or all of them, where its own budget and the installation's leave something to spend today."""
    given = {"agent": agent_id, "day": await today(session), "installation": INSTALLATION}
    await session.execute(_END_REST, given)


async def _rest(session: AsyncSession, agent_id: UUID, refused: Refusal) -> None:
    resting = (
        update(Agent)
        .where(Agent.id == agent_id)
        .values(resting_until=end_of(refused.day))
        .returning(Agent.owner_id, Agent.name)
        .execution_options(synchronize_session=False)
    )
    for owner_id, name in await session.execute(resting):
        # Nothing said of what is there already, or it would ask for the right to read the inbox.
        await session.execute(
            insert(InboxItem)
            .values(
                id=ids.notice_id(agent_id, refused.cause, refused.day),
                owner_id=owner_id,
                agent_id=agent_id,
                kind=InboxKind.NOTICE,
                title=notice_title(name, refused),
                summary=refused_in_words(refused, name),
            )
            .on_conflict_do_nothing()
        )


_END_REST: Final = text("""
with room as (
  select agents.id,
    (coalesce(own.spent_usd + own.reserved_usd, 0) < agents.budget_usd_per_day) is not false
    and (coalesce(own.spent_calls + own.reserved_calls, 0) < agents.budget_calls_per_day) is not false
    and (coalesce(all_of.spent_usd + all_of.reserved_usd, 0) < whole.usd_per_day) is not false
    and (coalesce(all_of.spent_calls + all_of.reserved_calls, 0) < whole.calls_per_day) is not false
    as is_there
  from agents
  left join installation_budget as whole on true
  left join budget_days as own on own.scope = agents.id and own.day = :day
  left join budget_days as all_of on all_of.scope = :installation and all_of.day = :day
  where agents.resting_until is not null
    and (cast(:agent as uuid) is null or agents.id = cast(:agent as uuid))
)
update agents set resting_until = null from room where agents.id = room.id and room.is_there
""")
