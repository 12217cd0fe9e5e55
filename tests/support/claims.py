"""Claims a step as a worker does, at once."""

from collections.abc import Collection
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final
from uuid import UUID

from shared.database.transaction import Transaction
from shared.durations import LEASE_SECONDS
from shared.enums import PROMPTED_PHASES, StepKind, StepStatus
from shared.workflow import leases
from shared.workflow.agent_row import AgentRow
from shared.workflow.iterations import StepRow
from shared.workflow.leases import (
    AlreadyEnded,
    Lease,
    LeaseLostError,
    NotFound,
    Unavailable,
    WrongKind,
)

AGENT_ROW: Final = AgentRow(
    mission="Watch batteries.",
    models={},
    advice_from_one_analysis=False,
    actions={},
    verification_usd_per_day=None,
    entailment_share=0.0,
    preferred_domains=(),
    barred_domains=(),
    corpus=None,
    archive_date=None,
    **dict.fromkeys([f"{phase}_system_prompt" for phase in PROMPTED_PHASES], ""),
    loaded_at=datetime(2026, 5, 1, tzinfo=UTC),
)
"""The agent of a lease that a test makes itself."""


@dataclass(frozen=True)
class Claimed:
    lease: Lease
    step: StepRow


Claim = Claimed | AlreadyEnded | Unavailable | NotFound | WrongKind


async def claim(
    session: Transaction,
    step_id: UUID,
    owner: str,
    *,
    seconds: float = LEASE_SECONDS,
    kinds: Collection[StepKind] | None = None,
) -> Claim:
    """Claim the step for `owner`, if that is possible; after a retry was requested too."""
    while True:
        loaded = await leases.load(step_id, owner, seconds=seconds, kinds=kinds).execute(session)
        match loaded:
            case leases.RetryRequested():
                await leases.reopen(session, step_id)
            case leases.Claimable(lease, step, begun_at):
                try:
                    await leases.claim_query(lease, begun_at).execute(session)
                except LeaseLostError:
                    continue
                return Claimed(lease, step._replace(status=StepStatus.RUNNING))
            case rejection:
                return rejection


async def claimed(
    session: Transaction, step_id: UUID, owner: str, *, seconds: float = LEASE_SECONDS
) -> Claimed:
    """Claim the step for `owner`, which must be possible."""
    result = await claim(session, step_id, owner, seconds=seconds)
    assert isinstance(result, Claimed), result
    return result
