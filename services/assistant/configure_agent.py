"""Configures an agent from its mission: a name, six system prompts, and the types of its graph."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final

from psycopg.errors import IntegrityError
from sqlalchemy import func, update

from services.assistant import default_configuration
from services.assistant.agent_schema import AgentConfiguration, AgentTypes
from services.assistant.answer_repair import repair_configuration, repair_types
from services.assistant.prompts.configuration import (
    TYPES_MESSAGE,
    system_prompt,
    user_message,
    with_preface,
)
from shared.agents import agents, configuration
from shared.agents.configuration import ConfigurationInput
from shared.database.tables import Agent
from shared.database.text import error_text
from shared.database.transaction import Transaction
from shared.enums import AgentStatus, Phase, PromptMaker
from shared.errors import PermanentError, RetrySoonError
from shared.graph import system_types, types
from shared.graph.scope import GraphScope
from shared.graph.validation import Validators, one_line
from shared.llm.messages import now_line
from shared.llm.phase_run import PhaseRun
from shared.llm.provider import Model
from shared.llm.repair import cut_text
from shared.llm.structured_output import (
    UnusableAnswerError,
    request_structured_answer,
    response_format,
)
from shared.runtime.step_runner import StepResult
from shared.tools import ToolRefusalError
from shared.workflow.agent_clock import agent_clock
from shared.workflow.iterations import StepRow
from shared.workflow.leases import Lease

CONFIGURATION = "agent_configuration"
TYPES = "agent_types"
_REASON_CHARACTERS: Final = 400
SUPERSEDED: Final = {"superseded": True}
"""The result where a newer configuration was requested meanwhile."""


@dataclass(frozen=True)
class NewAgentConfiguration:
    """A configuration, from the model and from the defaults."""

    request: ConfigurationInput
    configuration: AgentConfiguration
    types: AgentTypes | None
    """None where the agent keeps its present types."""
    built_in: tuple[str, ...] = ()
    """The parts (`prompts`, `types`) that the model gave nothing usable for."""
    fault: str | None = None
    """The notice to the owner about that."""


@dataclass(frozen=True)
class ConfigureHandler:
    model: Model

    async def __call__(self, lease: Lease, step: StepRow) -> StepResult:
        """Requests name and prompts, then the types that go with them.

        Where the model gives nothing usable, a new agent gets the defaults, and its owner a notice.
        An agent that is ready keeps its prompts and types, which are better than the defaults.
        """
        request = ConfigurationInput.model_validate(step.input)
        async with self.model.database.transaction() as transaction:
            agent = await agents.get_agent(transaction, lease.agent_id)
            if step.id != configuration.newest_step_id(agent):
                return StepResult(SUPERSEDED)
            message = await _message(transaction, agent, request)
        prompt = system_prompt(agent.interval_seconds, agent.actions)
        run = PhaseRun(self.model, lease, agent, Phase.CONFIGURATION, message, system_prompt=prompt)
        new = await _request_configuration(run, request, is_ready=agent.status == AgentStatus.READY)
        result: dict[str, Any] = {
            "name": new.configuration.name,
            "node_types": len(new.types.node_types) if new.types else 0,
            "edge_types": len(new.types.edge_types) if new.types else 0,
            **run.repair_summary,
        }
        if new.built_in:
            result["built_in"] = list(new.built_in)

        async def write(transaction: Transaction) -> None:
            run.complete()
            locked_agent = await agents.lock_agent(transaction, lease.agent_id)
            if step.id == configuration.newest_step_id(locked_agent):
                await _write_configuration(transaction, locked_agent, new)
            else:
                result.update(SUPERSEDED)

        return StepResult(result, write=write)


async def _message(transaction: Transaction, agent: Agent, request: ConfigurationInput) -> str:
    scope = GraphScope(agent.owner_id, agent.id)
    existing_types: list[types.NodeType | types.EdgeType] = [
        *await types.list_node_types(transaction, scope),
        *await types.list_edge_types(transaction, scope),
    ]
    existing = [
        f"{item.name}: {one_line(item.description)}"
        for item in existing_types
        if item.created_by != types.SYSTEM_CREATOR
    ]
    present = configuration.prompts_by_phase(agent)
    message = user_message(
        request.mission,
        name=None if agent.name == request.provisional_name else agent.name,
        prompts_to_keep={phase: present[phase] for phase in request.keep if phase in present},
        existing=existing,
        corpus=agent.corpus,
    )
    return f"{message}\n\n{now_line((await agent_clock(agent.id).execute(transaction)).now)}"


async def _request_configuration(
    run: PhaseRun, request: ConfigurationInput, *, is_ready: bool
) -> NewAgentConfiguration:
    """Requests both in one conversation with the model, so that the types fit the prompts.

    Raises UnusableAnswerError where the prompts are unusable and the agent has prompts already.
    """
    first = await run.begin(response_format=response_format(AgentConfiguration, CONFIGURATION))
    unusable: dict[str, UnusableAnswerError] = {}
    try:
        configuration, conversation = await request_structured_answer(
            run,
            first,
            AgentConfiguration,
            name=CONFIGURATION,
            parse=partial(repair_configuration, request.mission),
            subject="configuration",
        )
    except UnusableAnswerError as error:
        if is_ready:
            raise
        unusable["prompts"] = error
        configuration = default_configuration.default_configuration(request.mission)
        answer_message = {"role": "assistant", "content": json.dumps({"name": configuration.name})}
        conversation = first.following(answer_message)
    second = replace(
        conversation.following({"role": "user", "content": TYPES_MESSAGE}),
        response_format=response_format(AgentTypes, TYPES),
    )
    agent_types: AgentTypes | None
    try:
        agent_types, _ = await request_structured_answer(
            run, second, AgentTypes, name=TYPES, parse=repair_types, subject="types"
        )
    except UnusableAnswerError as error:
        unusable["types"] = error
        agent_types = None if is_ready else default_configuration.default_types()
    return NewAgentConfiguration(
        request,
        configuration,
        agent_types,
        tuple(unusable),
        _fault_message(unusable, is_ready=is_ready),
    )


def _fault_message(unusable: Mapping[str, UnusableAnswerError], *, is_ready: bool) -> str | None:
    if not unusable:
        return None
    subjects = " and ".join(unusable)
    instead = (
        f"it keeps the {subjects} it has" if is_ready else f"it uses Vigil's built-in {subjects}"
    )
    reasons = "; ".join(cut_text(str(error), _REASON_CHARACTERS) for error in unusable.values())
    return error_text(
        f"The model's {subjects} for this agent could not be used, so {instead}: {reasons}. Try another model, or "
        "configure the agent again: vigil agent configure"
    )


async def _write_configuration(
    transaction: Transaction, agent: Agent, configuration_result: NewAgentConfiguration
) -> None:
    request = configuration_result.request
    name = agent.name
    if name == request.provisional_name:
        name = await _set_name(transaction, agent, configuration_result.configuration.name)
    new = with_preface(configuration_result.configuration.prompts, name=name)
    stay = {
        *request.keep,
        *await configuration.phases_edited_since(transaction, agent, request.prompts_version),
    }
    changed_prompts = {phase: prompt for phase, prompt in new.items() if phase not in stay}
    await configuration.store_prompts(
        transaction, agent, changed_prompts, PromptMaker.CONFIGURATION
    )
    if configuration_result.types is not None:
        await _write_types(transaction, agent, configuration_result.types)
    await transaction.update(
        Agent,
        agent.id,
        mission=request.mission,
        status=AgentStatus.READY,
        fault=configuration_result.fault,
        updated_at=func.clock_timestamp(),
    )
    await agents.end_backoff(agent.id).execute(transaction)


async def _set_name(transaction: Transaction, agent: Agent, preferred: str) -> str:
    """Gives the agent the name `preferred`, or the first free one derived from it."""
    name = await agents.find_free_name(transaction, agent.owner_id, preferred, excluded_id=agent.id)
    try:
        async with transaction.savepoint():
            await transaction.execute(update(Agent).where(Agent.id == agent.id).values(name=name))
    except IntegrityError as error:
        # Nothing is paid again: the retry takes the responses from the ledger, and sees that the
        # name is taken.
        raise RetrySoonError(
            f"another agent was just given the name {name!r}", retry_in_seconds=0.0
        ) from error
    return name


async def _write_types(transaction: Transaction, agent: Agent, new_types: AgentTypes) -> None:
    """Writes the types. Existing ones, whatever their case, stay as they are, because the graph
    uses them.

    Raises PermanentError where the agent has too many types.
    """
    scope, validators, maker = (
        GraphScope(agent.owner_id, agent.id),
        Validators(),
        Phase.CONFIGURATION,
    )
    stored_names: dict[str, str] = {}
    await system_types.ensure_system_types(transaction, agent.id)
    try:
        for node in new_types.node_types:
            stored_type, _ = await types.create_node_type(
                transaction,
                scope,
                validators,
                name=node.name,
                description=node.description,
                properties_schema=node.json_schema,
                example_properties=node.example,
                created_by=maker,
            )
            stored_names[node.name] = stored_type.name
        for edge in new_types.edge_types:
            await types.create_edge_type(
                transaction,
                scope,
                name=edge.name,
                description=edge.description,
                properties_schema=edge.json_schema,
                example_properties=edge.example,
                source_types=[stored_names[source_type] for source_type in edge.source_types],
                target_types=[stored_names[target_type] for target_type in edge.target_types],
                created_by=maker,
            )
    except ToolRefusalError as refusal:
        raise PermanentError("types_refused", str(refusal)) from refusal
