"""A new agent, paused, with the graph that a file holds."""

from uuid import UUID

import psycopg
from pydantic import BaseModel, ValidationError
from sqlalchemy.exc import DataError, DBAPIError, IntegrityError
from sqlalchemy.ext.asyncio import AsyncSession

from shared.graph.scope import Scope
from shared.graph.transfer.arriving import Arrival
from shared.graph.transfer.lines import Head
from shared.graph.transfer.reading import BadFileError, ExportedGraph, first_fault
from shared.store import agent_fields, agents, names, prompts
from shared.store.reading.configuring_shapes import PromptedPhase
from shared.store.tables import Agent
from shared.store.words import PROMPTED, AgentStatus, Phase, PromptMaker

_UNCONFIGURED = "it was exported before it had its prompts: `vigil agent configure` makes them"


class _Fields(BaseModel):
    """What the API checks as well when a person writes it."""

    mission: agent_fields.Mission
    interval_seconds: agent_fields.Interval
    models: agent_fields.Models
    prompts: dict[PromptedPhase, agent_fields.Prompt]


async def import_graph(
    session: AsyncSession, owner_id: UUID, exported: ExportedGraph, name: str | None
) -> Agent:
    """The new agent, of that name or of the first free one after the name it had.

    All of it is the session's transaction: where it raises, nothing is left behind. Raises BadFileError where the file
    cannot be trusted, or the owner has an agent of the name that was asked for.
    """
    head = exported.head()
    try:
        agent = await _make(session, owner_id, head, name)
        scope = Scope(owner_id, agent.id)
        await Arrival(session, scope, head.agent.id).take(exported.contents())
    except (psycopg.IntegrityError, psycopg.DataError, IntegrityError, DataError) as error:
        raise BadFileError(f"its rows do not go together: {_said(error)}") from error
    return agent


async def _make(session: AsyncSession, owner_id: UUID, head: Head, name: str | None) -> Agent:
    told = _checked(head)
    try:
        wanted = names.checked(name or head.agent.name)
    except ValueError as error:
        raise BadFileError(f"line 1: agent.name: {error}: give it another by --name") from error
    free = await names.free(session, owner_id, wanted)
    if name is not None and free != wanted:
        raise BadFileError(f"there is an agent of the name {wanted!r} already: give it another")
    agent = await agents.create(
        session,
        owner_id,
        name=free,
        mission=told.mission,
        interval_seconds=told.interval_seconds,
    )
    agent.active = False
    agent.models = {phase.value: model for phase, model in told.models.items()}
    given = {Phase(phase): prompt for phase, prompt in told.prompts.items()}
    await prompts.write(session, agent, given, PromptMaker.OWNER)
    is_ready = len(given) == len(PROMPTED)
    agent.status = AgentStatus.READY if is_ready else AgentStatus.FAILED
    agent.fault = None if is_ready else _UNCONFIGURED
    await session.flush()
    return agent


def _checked(head: Head) -> _Fields:
    told = head.agent
    try:
        return _Fields.model_validate(
            {
                "mission": told.mission,
                "interval_seconds": told.interval_seconds,
                "models": told.models,
                "prompts": told.prompts,
            }
        )
    except ValidationError as error:
        raise BadFileError(f"line 1: agent.{first_fault(error)}") from error


def _said(error: psycopg.Error | DBAPIError) -> str:
    return str(error.orig if isinstance(error, DBAPIError) else error).splitlines()[0]
