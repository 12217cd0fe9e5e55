"""Which providers are unavailable or limit requests, and how many steps wait for each."""

import re
from collections.abc import Collection, Sequence
from datetime import UTC, datetime
from typing import Any, Final
from uuid import UUID

from shared.agents.model_choice import provider_names
from shared.database.statements import CompiledStatement
from shared.database.transaction import Transaction
from shared.provider_limits.state import ProviderState
from shared.provider_limits.store import KNOWN_SECONDS
from shared.runtime.settings import Settings
from shared.schemas.base import ProviderOutage

_STATES: Final = CompiledStatement("""
select kind, name, state, cast(extract(epoch from clock_timestamp()) as double precision) as now
from provider_limits
where updated_at > clock_timestamp() - make_interval(secs => :known_seconds)
order by kind, name
""")
# The error of a step that waits names the provider.
_WAITING: Final = CompiledStatement("""
select count(*) from steps join agents on agents.id = steps.agent_id
where steps.status in ('pending', 'running') and waiting_since is not null
  and strpos(lower(steps.error), lower(:name)) > 0
  and (cast(:owner as uuid) is null or owner_id = :owner)
""")


_AGENTS: Final = CompiledStatement("""
select id, models from agents where cast(:owner as uuid) is null or owner_id = :owner
""")
_PROVIDER: Final = re.compile(r"the provider '([^']+)' at ")
"""In the name of a model server of VIGIL_PROVIDERS."""


async def read_outages(
    session: Transaction, owner_id: UUID | None, settings: Settings
) -> list[ProviderOutage]:
    """Counts the steps and agents of that owner, or of all if `owner_id` is None, and leaves out what no agent of an owner
    uses. Names a provider that limits requests only if steps wait for it.
    """
    rows = [
        (row, ProviderState.from_json(row.state))
        for row in await _STATES.rows(session, {"known_seconds": KNOWN_SECONDS})
    ]
    limited = [
        (row, state)
        for row, state in rows
        if state.unavailable_since is not None or state.restricts(row.now)
    ]
    if not limited:
        return []
    agents = await _AGENTS.rows(session, {"owner": owner_id})
    named = {*settings.providers, *(name for row, _ in rows if (name := _provider(row)))}
    outages: list[ProviderOutage] = []
    for row, state in limited:
        since = state.unavailable_since
        users = _users(row, agents, settings.model, named)
        waiting = await _WAITING.value(session, {"name": row.name, "owner": owner_id})
        if not waiting and (since is None or (owner_id is not None and not users)):
            continue
        next_at = state.paused_until if since is None else state.probe_at
        outages.append(
            ProviderOutage(
                kind=row.kind,
                name=row.name,
                is_unavailable=since is not None,
                is_quota=state.is_quota,
                since=_moment(state.first_limited_at or row.now if since is None else since),
                next_attempt_at=_moment(next_at) if next_at > row.now else None,
                error=state.error,
                waiting_steps=waiting,
                provider=_provider(row),
                agent_ids=users,
            )
        )
    return outages


def _provider(row: Any) -> str | None:
    match = _PROVIDER.match(row.name)
    return None if match is None else match[1]


def _users(row: Any, agents: Sequence[Any], default: str, named: Collection[str]) -> list[UUID]:
    """Ids of the agents that use the provider. All agents use the search service."""
    return [
        agent.id
        for agent in agents
        if row.kind == "search" or _provider(row) in provider_names(agent.models, default, named)
    ]


def _moment(seconds: float) -> datetime:
    return datetime.fromtimestamp(seconds, UTC)
