"""Which providers are unavailable or limit requests, and how many steps wait for each."""

from datetime import UTC, datetime
from typing import Final
from uuid import UUID

from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncSession

from shared.provider_limits.state import ProviderState
from shared.provider_limits.store import KNOWN_SECONDS
from shared.schemas.base import ProviderOutage

_STATES: Final = text("""
select kind, name, state, cast(extract(epoch from clock_timestamp()) as double precision) as now
from provider_limits
where updated_at > clock_timestamp() - make_interval(secs => :known_seconds)
order by kind, name
""")
# The error of a step that waits names the provider.
_WAITING: Final = text("""
select count(*) from steps join agents on agents.id = steps.agent_id
where steps.status in ('pending', 'running') and waiting_since is not null
  and strpos(lower(steps.error), lower(:name)) > 0
  and (cast(:owner as uuid) is null or owner_id = :owner)
""")


async def read_outages(session: AsyncSession, owner_id: UUID | None) -> list[ProviderOutage]:
    """Counts the steps of that owner, or of all if `owner_id` is None. Names a provider that limits requests only if steps
    wait for it.
    """
    outages: list[ProviderOutage] = []
    for row in await session.execute(_STATES, {"known_seconds": KNOWN_SECONDS}):
        state = ProviderState.from_json(row.state)
        since = state.unavailable_since
        if since is None and not state.restricts(row.now):
            continue
        waiting = await session.scalar(_WAITING, {"name": row.name, "owner": owner_id}) or 0
        if since is None and not waiting:
            continue
        next_at = state.paused_until if since is None else state.probe_at
        outages.append(
            ProviderOutage(
                kind=row.kind,
                name=row.name,
                is_unavailable=since is not None,
                since=_moment(state.first_limited_at or row.now if since is None else since),
                next_attempt_at=_moment(next_at) if next_at > row.now else None,
                error=state.error,
                waiting_steps=waiting,
            )
        )
    return outages


def _moment(seconds: float) -> datetime:
    return datetime.fromtimestamp(seconds, UTC)
