"""Claims a step as a worker does, at once."""

from collections.abc import Collection
from dataclasses import dataclass
from uuid import UUID

from sqlalchemy.ext.asyncio import AsyncSession

from shared.enums import StepKind, StepStatus
from shared.workflow import leases
from shared.workflow.iterations import StepRow
from shared.workflow.leases import (
    LEASE_SECONDS,
    AlreadyEnded,
    Lease,
    LeaseLostError,
    NotFound,
    Unavailable,
    WrongKind,
)


@dataclass(frozen=True)
class Claimed:
    lease: Lease
    step: StepRow


Claim = Claimed | AlreadyEnded | Unavailable | NotFound | WrongKind


async def claim(
    session: AsyncSession,
    step_id: UUID,
    owner: str,
    *,
    seconds: float = LEASE_SECONDS,
    kinds: Collection[StepKind] | None = None,
) -> Claim:
    """Claim the step for `owner`, if that is possible; after a retry was requested too."""
    while True:
        look = await leases.look(step_id, owner, seconds=seconds, kinds=kinds).answer(session)
        match look:
            case leases.RetryRequested():
                await leases.reopen(session, step_id)
            case leases.Claimable(lease, step, begun_at):
                try:
                    await leases.claim(lease, begun_at).answer(session)
                except LeaseLostError:
                    continue
                return Claimed(lease, step._replace(status=StepStatus.RUNNING))
            case rejection:
                return rejection
