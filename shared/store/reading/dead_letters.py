"""Dead letters, as those see them who may.

A letter about a step is its agent's owner's. Operators, who look after the installation, see all of them; those that are
about no step nobody else sees.
"""

from sqlalchemy import Select, Text, cast, select, true
from sqlalchemy.ext.asyncio import AsyncSession

from shared.store.callers import Caller
from shared.store.dead_letters import wished
from shared.store.reading.keyset import Keyset, slice_of
from shared.store.reading.letter_shapes import DeadLetterDetails, DeadLetterView, LetterStepView
from shared.store.reading.page import Page, Wanted
from shared.store.retrying import FailedStep, refusal
from shared.store.tables import Agent, DeadLetter, Iteration, Step
from shared.store.words import IterationStatus, StepKind

_NEWEST = Keyset("dead letters", (DeadLetter.kept_at, DeadLetter.id))

_Visible = Select[DeadLetter, bool, Step, Iteration, Agent]
_Found = tuple[DeadLetter, bool, Step, Iteration, Agent]


async def seen_by(
    session: AsyncSession, caller: Caller, wanted: Wanted, *, actor: str | None = None
) -> Page[DeadLetterView]:
    """The newest first; of one actor where it is given."""
    statement = _visible(caller)
    if actor is not None:
        statement = statement.where(DeadLetter.actor == actor)
    found = await slice_of(session, statement, _NEWEST, wanted)
    return found.page(lambda *row: _view(row))


async def find(session: AsyncSession, caller: Caller, reference: str) -> list[DeadLetterDetails]:
    """Those whose id is or begins with `reference`: at most two, which is to say that it is ambiguous."""
    begins = cast(DeadLetter.id, Text).startswith(reference.strip().lower(), autoescape=True)
    rows = await session.execute(_visible(caller).where(begins).limit(2))
    return [_details((*row,)) for row in rows]


def _visible(caller: Caller) -> _Visible:
    return (
        select(DeadLetter, wished(), Step, Iteration, Agent)
        .outerjoin(Step, Step.id == DeadLetter.step_id)
        .outerjoin(Iteration, Iteration.id == Step.iteration_id)
        .outerjoin(Agent, Agent.id == Step.agent_id)
        .where(true() if caller.is_operator else Agent.owner_id == caller.user_id)
        .execution_options(populate_existing=True)
    )


def _details(row: _Found) -> DeadLetterDetails:
    payload = row[0].payload
    return DeadLetterDetails(**dict(_view(row)), payload=payload, text=_text(payload))


def _view(row: _Found) -> DeadLetterView:
    letter, is_wished, failed_step, iteration, agent = row
    step = _step(failed_step, iteration, agent)
    return DeadLetterView(
        id=letter.id,
        actor=letter.actor,
        subject=letter.subject,
        code=letter.code,
        error=letter.error,
        attempts=letter.attempts,
        created_at=letter.created_at,
        kept_at=letter.kept_at,
        retry_requested_at=letter.retry_requested_at if is_wished else None,
        refusal=refusal(letter.actor, letter.subject, letter.code, _failed(step)),
        step=step,
    )


def _step(
    step: Step | None, iteration: Iteration | None, agent: Agent | None
) -> LetterStepView | None:
    if step is None or iteration is None or agent is None:
        return None
    return LetterStepView(
        id=step.id,
        kind=step.kind,
        index=step.index,
        status=step.status,
        iteration_id=iteration.id,
        iteration_number=iteration.number,
        iteration_status=iteration.status,
        agent_id=agent.id,
        agent_name=agent.name,
    )


def _failed(step: LetterStepView | None) -> FailedStep | None:
    if step is None:
        return None
    return FailedStep(
        StepKind(step.kind),
        step.iteration_number,
        IterationStatus(step.iteration_status),
        step.agent_name,
    )


def _text(payload: bytes) -> str | None:
    try:
        return payload.decode()
    except UnicodeDecodeError:
        return None
