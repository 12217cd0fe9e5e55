"""From a mission to an agent: a name, six system prompts, and the types of its graph."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final

from sqlalchemy import func, update
from sqlalchemy.exc import IntegrityError
from sqlalchemy.ext.asyncio import AsyncSession

from services.assistant import built_in
from services.assistant.agent_schema import AgentConfiguration, AgentTypes
from services.assistant.prompts.configuration import (
    TYPES_MESSAGE,
    prefaced,
    system_prompt,
    user_message,
)
from services.assistant.repairing import read_configuration, read_types
from shared.agents import agents, configuration
from shared.agents.configuration import Wanted
from shared.database.tables import Agent, Step
from shared.database.text import error_text
from shared.enums import AgentStatus, Phase, PromptMaker
from shared.errors import PermanentError, RetrySoonError
from shared.graph import system_types, types
from shared.graph.scope import Scope
from shared.graph.validation import Validators
from shared.llm.phase_run import Model, PhaseRun
from shared.llm.repair import cut_text
from shared.llm.structured_output import UnusableAnswerError, response_format, structured_answer
from shared.runtime.step_runner import Outcome
from shared.tools import ToolRefusalError
from shared.workflow.leases import Lease

CONFIGURATION = "agent_configuration"
TYPES = "agent_types"
_REASON_CHARACTERS: Final = 400
SUPERSEDED: Final = {"superseded": True}
"""Something newer was asked for; what this step would make is not wanted any more."""


@dataclass(frozen=True)
class Made:
    """All that is made of a mission, by the model and by what is built in."""

    wanted: Wanted
    configuration: AgentConfiguration
    types: AgentTypes | None
    """None where the agent keeps those that it has."""
    built_in: tuple[str, ...] = ()
    """`prompts`, `types`: what the model gave nothing usable for."""
    fault: str | None = None
    """What the owner is told about that."""


@dataclass(frozen=True)
class Configure:
    model: Model

    async def __call__(self, lease: Lease, step: Step) -> Outcome:
        """Asks for name and prompts, then for the types that go with them.

        Where the model gives nothing usable, a new agent gets what is built in, and its owner is told. One that is ready
        keeps what it has: its prompts and types were better than those.
        """
        wanted = Wanted.model_validate(step.input)
        async with self.model.database.transaction() as session:
            agent = await agents.get(session, lease.agent_id)
            if step.id != configuration.newest_id(agent):
                return Outcome(SUPERSEDED)
            message = await _message(session, agent, wanted)
        asked = system_prompt(agent.interval_seconds)
        run = PhaseRun(self.model, lease, agent, Phase.CONFIGURATION, message, system_prompt=asked)
        made = await _made(run, wanted, is_ready=agent.status == AgentStatus.READY)
        result: dict[str, Any] = {
            "name": made.configuration.name,
            "node_types": len(made.types.node_types) if made.types else 0,
            "edge_types": len(made.types.edge_types) if made.types else 0,
            **run.repairs_told,
        }
        if made.built_in:
            result["built_in"] = list(made.built_in)

        async def write(session: AsyncSession) -> None:
            run.complete(session)
            attached = await agents.locked(session, lease.agent_id)
            if step.id == configuration.newest_id(attached):
                await _write(session, attached, made)
            else:
                result.update(SUPERSEDED)

        return Outcome(result, write)


async def _message(session: AsyncSession, agent: Agent, wanted: Wanted) -> str:
    scope = Scope(agent.owner_id, agent.id)
    known: list[types.NodeType | types.EdgeType] = [
        *await types.node_types(session, scope),
        *await types.edge_types(session, scope),
    ]
    existing = [
        f"{each.name}: {each.description}" for each in known if each.created_by != types.SYSTEM
    ]
    present = configuration.of_agent(agent)
    return user_message(
        wanted.mission,
        name=None if agent.name == wanted.provisional_name else agent.name,
        kept={phase: present[phase] for phase in wanted.keep if phase in present},
        existing=existing,
    )


async def _made(run: PhaseRun, wanted: Wanted, *, is_ready: bool) -> Made:
    """One conversation, so that the types fit the prompts.

    Raises UnusableAnswerError where the prompts cannot be used and the agent has some already.
    """
    first = await run.begin(response_format=response_format(AgentConfiguration, CONFIGURATION))
    unusable: dict[str, UnusableAnswerError] = {}
    try:
        configuration, conversation = await structured_answer(
            run,
            first,
            AgentConfiguration,
            name=CONFIGURATION,
            ends=False,
            read=partial(read_configuration, wanted.mission),
            subject="configuration",
        )
    except UnusableAnswerError as error:
        if is_ready:
            raise
        unusable["prompts"] = error
        configuration = built_in.configuration(wanted.mission)
        said = {"role": "assistant", "content": json.dumps({"name": configuration.name})}
        conversation = first.following(said)
    second = replace(
        conversation.following({"role": "user", "content": TYPES_MESSAGE}),
        response_format=response_format(AgentTypes, TYPES),
    )
    agent_types: AgentTypes | None
    try:
        agent_types, _ = await structured_answer(
            run, second, AgentTypes, name=TYPES, ends=False, read=read_types, subject="types"
        )
    except UnusableAnswerError as error:
        unusable["types"] = error
        agent_types = None if is_ready else built_in.types()
    return Made(
        wanted, configuration, agent_types, tuple(unusable), _fault(unusable, is_ready=is_ready)
    )


def _fault(unusable: Mapping[str, UnusableAnswerError], *, is_ready: bool) -> str | None:
    if not unusable:
        return None
    what = " and ".join(unusable)
    instead = f"it keeps the {what} it has" if is_ready else f"it uses Vigil's built-in {what}"
    reasons = "; ".join(cut_text(str(error), _REASON_CHARACTERS) for error in unusable.values())
    return error_text(
        f"The model's {what} for this agent could not be used, so {instead}: {reasons}. Try another model, or ask "
        "again: vigil agent configure"
    )


async def _write(session: AsyncSession, agent: Agent, made: Made) -> None:
    wanted = made.wanted
    name = agent.name
    if name == wanted.provisional_name:
        name = await _named(session, agent, made.configuration.name)
    new = prefaced(made.configuration.prompts, name=name, mission=wanted.mission)
    stay = {*wanted.keep, *await configuration.edited_since(session, agent, wanted.prompts_version)}
    changed = {phase: prompt for phase, prompt in new.items() if phase not in stay}
    await configuration.write(session, agent, changed, PromptMaker.CONFIGURATION)
    if made.types is not None:
        await _write_types(session, agent, made.types)
    agent.mission = wanted.mission
    agent.status = AgentStatus.READY
    agent.fault = made.fault
    agent.updated_at = func.clock_timestamp()
    await session.flush()


async def _named(session: AsyncSession, agent: Agent, wanted: str) -> str:
    """Gives the agent the name `wanted`, or one after it that is free."""
    name = await agents.free(session, agent.owner_id, wanted, but=agent.id)
    try:
        async with session.begin_nested():
            await session.execute(
                update(Agent)
                .where(Agent.id == agent.id)
                .values(name=name)
                .execution_options(synchronize_session=False)
            )
    except IntegrityError as error:
        # Nothing is paid for again: the next try takes the answers from the ledger, and sees who has the name.
        raise RetrySoonError(
            f"another agent was just named {name!r}", retry_in_seconds=0.0
        ) from error
    return name


async def _write_types(session: AsyncSession, agent: Agent, made: AgentTypes) -> None:
    """Those that exist stay as they are, in whatever case they are written: the graph stands on them.

    Raises PermanentError where there are too many already.
    """
    scope, validators, maker = Scope(agent.owner_id, agent.id), Validators(), Phase.CONFIGURATION
    called: dict[str, str] = {}
    await system_types.ensure(session, agent.id)
    try:
        for node in made.node_types:
            kept, _ = await types.create_node_type(
                session,
                scope,
                validators,
                name=node.name,
                description=node.description,
                properties_schema=node.json_schema,
                example_properties=node.example,
                created_by=maker,
            )
            called[node.name] = kept.name
        for edge in made.edge_types:
            await types.create_edge_type(
                session,
                scope,
                name=edge.name,
                description=edge.description,
                properties_schema=edge.json_schema,
                example_properties=edge.example,
                source_types=[called[each] for each in edge.source_types],
                target_types=[called[each] for each in edge.target_types],
                created_by=maker,
            )
    except ToolRefusalError as refusal:
        raise PermanentError("types_refused", str(refusal)) from refusal
