"""Configuring an agent from its mission: what the model may decide, and what remains when it fails."""

import json
from dataclasses import replace
from datetime import date
from typing import Any

import pytest
from jsonschema import Draft202012Validator
from sqlalchemy import select

from services.assistant import app as assistant_app
from services.assistant import default_configuration
from services.scheduler.scheduler import Ticker
from shared.agents import agents
from shared.agents import configuration as agent_configuration
from shared.database.engine import Database
from shared.database.tables import Agent, Call, DeadLetter, Interaction
from shared.enums import PROMPTED_PHASES, Phase
from shared.graph import types
from shared.llm.answer_errors import FailureKind
from shared.llm.structured_output import MAX_WITHOUT_ANSWER
from shared.runtime import step_runner as work_module
from shared.runtime.bus import Bus
from shared.runtime.middlewares import retry
from shared.runtime.providers import create_model
from shared.runtime.settings import Settings
from shared.workflow import dead_letters
from tests.support.assistant.configuration_answers import configuration, edge_type, node_type
from tests.support.assistant.configuration_answers import types as typed
from tests.support.configuring import (
    NAME,
    configuration_response,
    order_again,
    order_agent,
    reload_agent,
    step_of,
    types_of,
    wait_until_configured,
)
from tests.support.factories import MISSION, make_agent
from tests.support.phase_runs import first_messages
from tests.support.refusing_provider import RefusingProvider
from tests.support.running_services import ended_iteration, list_events, running_services
from tests.support.sandbox_control import Sandbox


@pytest.mark.usefixtures("assistant")
async def test_an_agent_is_configured_from_its_mission(
    database: Database, bus: Bus, sandbox_control: Sandbox
) -> None:
    agent_row, request = await order_agent(database)
    await bus.publish(request)
    step = await wait_until_configured(database, agent_row)
    agent = await reload_agent(database, agent_row)
    assert (agent.status, agent.fault, agent.name) == ("ready", None, NAME)
    prompts = agent_configuration.prompts_by_phase(agent)
    assert list(prompts) == list(PROMPTED_PHASES)
    assert len(set(prompts.values())) == 6
    # The messages of each phase have the mission.
    assert all(NAME in prompt and MISSION not in prompt for prompt in prompts.values())
    assert sandbox_control.billed()["llm"] == 2

    nodes, edges = await types_of(database, agent)
    assert {"AgentAnalysis", "AgentAdvice", "Country"} <= {node.name for node in nodes}
    assert "about" in {edge.name for edge in edges}
    system_types = [node.name for node in nodes if node.created_by == "system"]
    assert system_types == ["AgentAdvice", "AgentAnalysis"]
    all_types: list[types.NodeType | types.EdgeType] = [*nodes, *edges]
    for graph_type in (item for item in all_types if item.name != "about"):
        Draft202012Validator.check_schema(graph_type.properties_schema)
        Draft202012Validator(graph_type.properties_schema).validate(graph_type.example_properties)
        assert graph_type.properties_schema["properties"]
        assert graph_type.example_properties
    assert step.result == {"name": NAME, "node_types": len(nodes) - 2, "edge_types": len(edges) - 1}
    assert [event.subject for event in await list_events(bus)] == [
        "configuration.requested",
        "configuration.completed",
    ]


@pytest.mark.usefixtures("assistant")
async def test_an_agent_is_configured_on_its_archive_date(
    database: Database, bus: Bus, sandbox_control: Sandbox
) -> None:
    agent_row, request = await order_agent(database)
    async with database.transaction() as session:
        await session.update(Agent, agent_row.id, archive_date=date(2024, 3, 1))
    await bus.publish(request)
    await wait_until_configured(database, agent_row)
    async with database.transaction() as session:
        statement = select(Interaction).where(Interaction.phase == Phase.CONFIGURATION)
        [prompt] = await first_messages(session, statement)
    assert prompt.endswith("\n\nNow: 2024-03-01T23:59Z")


async def test_an_agent_runs_as_soon_as_it_is_configured(
    database: Database, bus: Bus, sandbox_settings: Settings
) -> None:
    agent_row, request = await order_agent(database, active=True)
    assert await Ticker(database, deadline_seconds=600).tick() == []
    async with running_services(sandbox_settings):
        await bus.publish(request)
        iteration = await ended_iteration(database, agent_row, 1)
    assert (iteration.status, iteration.why) == ("completed", "due")
    step = await wait_until_configured(database, agent_row)
    assert step.ended_at is not None
    assert step.ended_at <= iteration.started_at


async def test_a_response_that_cannot_be_repaired_is_requested_once_more(
    database: Database, bus: Bus, sandbox_control: Sandbox, assistant: None
) -> None:
    sandbox_control.script(
        configuration_response(content="I would call it Lithium Eye."),
        configuration_response(content=configuration(name="Lithium Eye")),
        configuration_response(content=typed(nodes=[])),
        configuration_response(content=typed()),
    )
    agent_row, request = await order_agent(database)
    await bus.publish(request)
    assert (await wait_until_configured(database, agent_row)).status == "completed"
    assert (await reload_agent(database, agent_row)).name == "Lithium Eye"
    nodes, _ = await types_of(database, agent_row)
    assert len(nodes) == 8
    (analysis,) = [node for node in nodes if node.name == "AgentAnalysis"]
    assert analysis.created_by == "system"
    assert sandbox_control.billed()["llm"] == 4
    async with database.transaction() as session:
        (interaction,) = await session.scalars(select(Interaction))
    assert (interaction.phase, len(interaction.events)) == ("configuration", 4)
    assert interaction.completed_at is not None


async def test_a_response_that_code_can_repair_is_not_requested_again(
    database: Database, bus: Bus, sandbox_control: Sandbox, assistant: None
) -> None:
    """Errors of a model with 1.5 billion parameters: capitals, a reserved name, five edge types, a broken list."""
    nodes = [
        node_type("lithium mine", properties=[{"name": "output_tonnes", "type": "float"}]),
        node_type("BATTERY MAKERS"),
        node_type("AgentAnalysis"),
        *typed()["nodeTypes"][:4],
    ]
    edges = [
        edge_type(
            "RECYCLED BY", sourceTypes=["LithiumMine"], targetTypes=["battery maker", "Moon"]
        ),
        edge_type("about"),
        *typed()["edgeTypes"][:4],
    ]
    types_json = json.dumps({"node_types": nodes, "edge_types": edges})
    sandbox_control.script(
        configuration_response(content=configuration(name="Lithium", observerSystemPrompt="Plan.")),
        configuration_response(content=f"Here are the types:\n```json\n{types_json[:-1]},}}\n```"),
    )
    agent_row, request = await order_agent(database)
    await bus.publish(request)
    step = await wait_until_configured(database, agent_row)
    assert (step.status, sandbox_control.billed()["llm"]) == ("completed", 2)
    agent = await reload_agent(database, agent_row)
    assert (agent.status, agent.fault, agent.name) == ("ready", None, "Lithium")
    assert default_configuration.PROMPTS[Phase.OBSERVER] in agent.observer_system_prompt
    assert agent.name in agent.observer_system_prompt
    stored_nodes, stored_edges = await types_of(database, agent)
    assert {"LithiumMine", "BatteryMakers"} < {node.name for node in stored_nodes}
    (recycled,) = [edge for edge in stored_edges if edge.name == "recycled_by"]
    assert (recycled.source_types, recycled.target_types) == (("LithiumMine",), ("BatteryMakers",))
    async with database.transaction() as session:
        (run,) = await session.scalars(select(Interaction))
    repairs = [event for event in run.events if event["type"] == "repair"]
    assert [event["subject"] for event in repairs] == ["configuration", "types"]
    repair_text = " ".join(repair for event in repairs for repair in event["repairs"])
    assert "The observer prompt was missing or too short; the built-in one is used." in repair_text
    assert "The node type AgentAnalysis is reserved and was left out." in repair_text
    assert step.result is not None
    assert step.result["repairs"] == sum(len(event["repairs"]) for event in repairs)


@pytest.mark.parametrize(
    ("answers", "built_in", "words"),
    [
        (
            ["I would rather not."] * 2,
            ["prompts"],
            ["agent_configuration", "even after a correction"],
        ),
        (
            [configuration(), typed(nodes=[]), "types " * 9],
            ["types"],
            ["agent_types", "no JSON"],
        ),
        (["No."] * 4, ["prompts", "types"], ["prompts and types", "agent_types"]),
    ],
)
async def test_unusable_responses_leave_a_working_agent_and_a_fault_for_its_owner(
    database: Database,
    bus: Bus,
    sandbox_control: Sandbox,
    assistant: None,
    answers: list[Any],
    built_in: list[str],
    words: list[str],
) -> None:
    sandbox_control.script(*(configuration_response(content=answer) for answer in answers))
    agent_row, request = await order_agent(database, active=True)
    await bus.publish(request)
    step = await wait_until_configured(database, agent_row)
    assert (step.status, (step.result or {})["built_in"]) == ("completed", built_in)
    agent = await reload_agent(database, agent_row)
    assert agent.status == "ready"
    assert agent.fault is not None
    assert "could not be used, so it uses Vigil's built-in" in agent.fault
    assert all(word in agent.fault for word in (*words, "vigil agent configure"))
    prompts = agent_configuration.prompts_by_phase(agent)
    assert list(prompts) == list(PROMPTED_PHASES)
    assert all(agent.name in prompt and MISSION not in prompt for prompt in prompts.values())
    nodes, edges = await types_of(database, agent)
    assert ("Organisation" in {node.name for node in nodes}) is ("types" in built_in)
    assert len(edges) > 3
    async with database.transaction() as session:
        assert list(await session.scalars(select(DeadLetter))) == []
        assert (await session.scalars(select(Interaction))).one().completed_at is not None

    await bus.publish(await order_again(database, agent.id))
    assert (await wait_until_configured(database, agent_row)).status == "completed"
    again = await reload_agent(database, agent_row)
    assert (again.status, again.fault) == ("ready", None)


@pytest.mark.parametrize(
    ("kind", "status"),
    [(FailureKind.NO_ANSWER, "completed"), (FailureKind.UNUSABLE, "failed")],
)
async def test_built_in_prompts_replace_a_refusing_model_but_not_a_broken_server(
    database: Database,
    bus: Bus,
    settings: Settings,
    monkeypatch: pytest.MonkeyPatch,
    kind: FailureKind,
    status: str,
) -> None:
    monkeypatch.setattr(work_module, "MIN_BACKOFF_SECONDS", 0.01)
    monkeypatch.setattr(retry, "MIN_DELAY_SECONDS", 0.01)
    provider = RefusingProvider(kind)
    monkeypatch.setattr(
        assistant_app,
        "create_model",
        lambda *args: replace(create_model(*args), provider=provider),
    )
    agent_row, request = await order_agent(database)
    async with running_services(settings, ["assistant"]):
        await bus.publish(request)
        step = await wait_until_configured(database, agent_row)
    assert step.status == status
    agent = await reload_agent(database, agent_row)
    assert agent.fault is not None
    assert "it has no time for this" in agent.fault
    is_of_model = kind is FailureKind.NO_ANSWER
    attempts = MAX_WITHOUT_ANSWER if is_of_model else settings.max_attempts
    built_in = ["prompts", "types"] if is_of_model else None
    assert (step.result or {}).get("built_in") == built_in
    async with database.transaction() as session:
        calls = list(await session.scalars(select(Call)))
    assert [len(call.failures or ()) for call in calls] == [attempts] * len(calls)
    assert provider.attempts == attempts * len(calls) == attempts * len(built_in or [1])


async def test_a_ready_agent_keeps_its_types_when_the_new_ones_are_unusable(
    database: Database, bus: Bus, sandbox_control: Sandbox, assistant: None
) -> None:
    agent = await make_agent(database)
    sandbox_control.script(
        configuration_response(content=configuration()),
        configuration_response(content="No.", times=2),
    )
    await bus.publish(await order_again(database, agent.id))
    assert (await wait_until_configured(database, agent)).status == "completed"
    after = await reload_agent(database, agent)
    assert after.fault is not None
    assert "it keeps the types it has" in after.fault
    assert agent_configuration.prompts_by_phase(after) != agent_configuration.prompts_by_phase(
        agent
    )


async def test_retrying_the_dead_letter_configures_the_agent(
    database: Database, bus: Bus, sandbox_control: Sandbox, sandbox_settings: Settings
) -> None:
    sandbox_control.faults({"kind": "status", "status": 401, "phase": "configuration"})
    agent_row, request = await order_agent(database)
    async with running_services(sandbox_settings, ["assistant", "scheduler"]):
        await bus.publish(request)
        assert (await wait_until_configured(database, agent_row)).status == "failed"
        agent = await reload_agent(database, agent_row)
        assert agent.fault is not None
        assert "OPENAI_API_KEY" in agent.fault
        async with database.transaction() as session:
            (letter,) = await session.scalars(select(DeadLetter))
            await dead_letters.request_retries(session, [letter.id])
        await step_of(database, agent_row, "configure", "completed")
    assert (await reload_agent(database, agent_row)).status == "ready"


async def test_a_failure_between_two_responses_repeats_no_paid_call(
    database: Database, bus: Bus, sandbox_control: Sandbox, sandbox_settings: Settings
) -> None:
    sandbox_control.faults(
        {"kind": "status", "status": 503, "phase": "configuration", "contains": "Now the node"}
    )
    agent_row, request = await order_agent(database)
    impatient = sandbox_settings.model_copy(update={"resend_after_seconds": 0.5})
    async with running_services(impatient, ["assistant", "scheduler"]):
        await bus.publish(request)
        assert (await wait_until_configured(database, agent_row)).status == "completed"
    assert sandbox_control.billed()["llm"] == 2
    assert sandbox_control.repeated() == 0


@pytest.mark.usefixtures("assistant")
async def test_an_agent_gets_the_name_its_owner_chose_or_a_free_one(
    database: Database, bus: Bus
) -> None:
    orders = [
        await order_agent(database),
        await order_agent(database),
        await order_agent(database, name="My watch"),
        await order_agent(database, owner="another"),
    ]
    for _, request in orders:
        await bus.publish(request)
    for agent_row, _ in orders:
        await wait_until_configured(database, agent_row)
    names = [(await reload_agent(database, agent_row)).name for agent_row, _ in orders]
    assert sorted(names[:2]) == [NAME, f"{NAME} 2"]
    assert names[2:] == ["My watch", NAME]


async def test_a_name_taken_just_before_the_write_is_replaced_by_another(
    database: Database, bus: Bus, assistant: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    await make_agent(database, name=NAME)
    free_names = iter([NAME, f"{NAME} 2"])

    async def find_free_name(*_: Any, **__: Any) -> str:
        return next(free_names)

    monkeypatch.setattr("services.assistant.configure_agent.agents.find_free_name", find_free_name)
    agent_row, request = await order_agent(database)
    await bus.publish(request)
    assert (await wait_until_configured(database, agent_row)).attempts == 0
    assert (await reload_agent(database, agent_row)).name == f"{NAME} 2"


async def test_an_agent_can_be_deleted_while_it_is_configured(
    database: Database, bus: Bus, sandbox_control: Sandbox, assistant: None
) -> None:
    sandbox_control.faults({"kind": "latency", "phase": "configuration", "latency_seconds": 0.5})
    agent_row, request = await order_agent(database)
    await bus.publish(request)
    await step_of(database, agent_row, "configure", "running")
    async with database.transaction() as session:
        await agents.delete_agent(session, agent_row.id)
    async with database.transaction() as session:
        assert list(await session.scalars(select(Agent))) == []
        assert list(await session.scalars(select(Call))) == []
