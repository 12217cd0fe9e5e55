"""From a mission to an agent: what the model makes of it, what it may not, and what stays when it fails."""

import json
from dataclasses import dataclass, replace
from typing import Any

import pytest
from jsonschema import Draft202012Validator
from sqlalchemy import select

from services.assistant import app as assistant_app
from services.assistant import default_configuration
from services.scheduler.scheduler import Ticker
from shared.agents import agents
from shared.agents import configuration as agent_configuration
from shared.billing.resumable_call import ResumableCall
from shared.database.engine import Database
from shared.database.tables import Agent, Call, DeadLetter, Interaction
from shared.enums import PROMPTED_PHASES, Phase
from shared.graph import types
from shared.llm.answers import AnswerError, FailureKind
from shared.llm.messages import ChatAnswer, ChatRequest
from shared.llm.provider import OnDelta
from shared.llm.structured_output import MAX_WITHOUT_ANSWER
from shared.runtime import step_runner as work_module
from shared.runtime.bus import Bus
from shared.runtime.providers import create_model
from shared.runtime.settings import Settings
from shared.workflow import dead_letters
from tests.support.actors import ended_iteration, running, told
from tests.support.assistant.making import configuration, edge_type, node_type
from tests.support.assistant.making import types as typed
from tests.support.configuring import (
    NAME,
    configured,
    order_again,
    order_agent,
    reread,
    says,
    step_of,
    types_of,
)
from tests.support.levers import Sandbox
from tests.support.making import MISSION, make_agent


@pytest.mark.usefixtures("assistant")
async def test_an_agent_is_made_of_its_mission(
    database: Database, bus: Bus, levers: Sandbox
) -> None:
    ordered, asked = await order_agent(database)
    await bus.publish(asked)
    step = await configured(database, ordered)
    agent = await reread(database, ordered)
    assert (agent.status, agent.fault, agent.name) == ("ready", None, NAME)
    made = agent_configuration.prompts_by_phase(agent)
    assert list(made) == list(PROMPTED_PHASES)
    assert len(set(made.values())) == 6
    assert all(MISSION in prompt and NAME in prompt for prompt in made.values())
    assert levers.billed()["llm"] == 2

    nodes, edges = await types_of(database, agent)
    assert {"AgentAnalysis", "AgentAdvice", "BatteryMaker"} <= {each.name for each in nodes}
    assert "about" in {each.name for each in edges}
    by_maker = [each.name for each in nodes if each.created_by == "system"]
    assert by_maker == ["AgentAdvice", "AgentAnalysis"]
    every: list[types.NodeType | types.EdgeType] = [*nodes, *edges]
    for each in (one for one in every if one.name != "about"):
        Draft202012Validator.check_schema(each.properties_schema)
        Draft202012Validator(each.properties_schema).validate(each.example_properties)
        assert each.properties_schema["properties"]
        assert each.example_properties
    assert step.result == {"name": NAME, "node_types": len(nodes) - 2, "edge_types": len(edges) - 1}
    assert [event.subject for event in await told(bus)] == [
        "configuration.requested",
        "configuration.completed",
    ]


async def test_it_runs_by_itself_as_soon_as_it_is_ready(
    database: Database, bus: Bus, sandbox_settings: Settings
) -> None:
    ordered, asked = await order_agent(database, active=True)
    assert await Ticker(database, deadline_seconds=600).tick() == []
    async with running(sandbox_settings):
        await bus.publish(asked)
        iteration = await ended_iteration(database, ordered, 1)
    assert (iteration.status, iteration.why) == ("completed", "due")
    step = await configured(database, ordered)
    assert step.ended_at is not None
    assert step.ended_at <= iteration.started_at


async def test_what_cannot_be_repaired_is_sent_back_once(
    database: Database, bus: Bus, levers: Sandbox, assistant: None
) -> None:
    levers.script(
        says(content="I would call it Lithium Eye."),
        says(content=configuration(name="Lithium Eye")),
        says(content=typed(nodes=[])),
        says(content=typed()),
    )
    ordered, asked = await order_agent(database)
    await bus.publish(asked)
    assert (await configured(database, ordered)).status == "completed"
    assert (await reread(database, ordered)).name == "Lithium Eye"
    nodes, _ = await types_of(database, ordered)
    assert len(nodes) == 8
    (analysis,) = [each for each in nodes if each.name == "AgentAnalysis"]
    assert analysis.created_by == "system"
    assert levers.billed()["llm"] == 4
    async with database.transaction() as session:
        (interaction,) = await session.scalars(select(Interaction))
    assert (interaction.phase, len(interaction.events)) == ("configuration", 4)
    assert interaction.completed_at is not None


async def test_what_code_can_repair_costs_no_second_answer_and_is_recorded(
    database: Database, bus: Bus, levers: Sandbox, assistant: None
) -> None:
    """As a model of 1.5 billion parameters answered: capitals, a reserved name, five edge types, a broken list."""
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
    written = json.dumps({"node_types": nodes, "edge_types": edges})
    levers.script(
        says(content=configuration(name="Lithium", observerSystemPrompt="Plan.")),
        says(content=f"Here are the types:\n```json\n{written[:-1]},}}\n```"),
    )
    ordered, asked = await order_agent(database)
    await bus.publish(asked)
    step = await configured(database, ordered)
    assert (step.status, levers.billed()["llm"]) == ("completed", 2)
    agent = await reread(database, ordered)
    assert (agent.status, agent.fault, agent.name) == ("ready", None, "Lithium")
    assert default_configuration.PROMPTS[Phase.OBSERVER] in agent.observer_system_prompt
    assert MISSION in agent.observer_system_prompt
    made_nodes, made_edges = await types_of(database, agent)
    assert {"LithiumMine", "BatteryMakers"} < {each.name for each in made_nodes}
    (recycled,) = [each for each in made_edges if each.name == "recycled_by"]
    assert (recycled.source_types, recycled.target_types) == (("LithiumMine",), ("BatteryMakers",))
    async with database.transaction() as session:
        (run,) = await session.scalars(select(Interaction))
    noted = [event for event in run.events if event["type"] == "repair"]
    assert [event["subject"] for event in noted] == ["configuration", "types"]
    said = " ".join(each for event in noted for each in event["repairs"])
    assert "The observer prompt was missing or too short; the built-in one is used." in said
    assert "The node type AgentAnalysis is the system's own and was left out." in said
    assert step.result is not None
    assert step.result["repairs"] == sum(len(event["repairs"]) for event in noted)


@pytest.mark.parametrize(
    ("answers", "built", "words"),
    [
        (["I would rather not."] * 2, ["prompts"], ["agent_configuration", "asked twice"]),
        (
            [configuration(), typed(nodes=[]), "types " * 9],
            ["types"],
            ["agent_types", "no JSON"],
        ),
        (["No."] * 4, ["prompts", "types"], ["prompts and types", "agent_types"]),
    ],
)
async def test_nonsense_leaves_an_agent_that_works_and_tells_its_owner(
    database: Database,
    bus: Bus,
    levers: Sandbox,
    assistant: None,
    answers: list[Any],
    built: list[str],
    words: list[str],
) -> None:
    levers.script(*(says(content=answer) for answer in answers))
    ordered, asked = await order_agent(database, active=True)
    await bus.publish(asked)
    step = await configured(database, ordered)
    assert (step.status, (step.result or {})["built_in"]) == ("completed", built)
    agent = await reread(database, ordered)
    assert agent.status == "ready"
    assert agent.fault is not None
    assert "could not be used, so it uses Vigil's built-in" in agent.fault
    assert all(word in agent.fault for word in (*words, "vigil agent configure"))
    made = agent_configuration.prompts_by_phase(agent)
    assert list(made) == list(PROMPTED_PHASES)
    assert all(MISSION in prompt and agent.name in prompt for prompt in made.values())
    nodes, edges = await types_of(database, agent)
    assert ("Organisation" in {each.name for each in nodes}) is ("types" in built)
    assert len(edges) > 3
    async with database.transaction() as session:
        assert list(await session.scalars(select(DeadLetter))) == []
        assert (await session.scalars(select(Interaction))).one().completed_at is not None

    await bus.publish(await order_again(database, agent.id))
    assert (await configured(database, ordered)).status == "completed"
    again = await reread(database, ordered)
    assert (again.status, again.fault) == ("ready", None)


@pytest.mark.parametrize(
    ("kind", "status"),
    [(FailureKind.NO_ANSWER, "completed"), (FailureKind.UNUSABLE, "failed")],
)
async def test_a_model_that_only_refuses_leaves_what_is_built_in_and_a_broken_server_does_not(
    database: Database,
    bus: Bus,
    settings: Settings,
    monkeypatch: pytest.MonkeyPatch,
    kind: FailureKind,
    status: str,
) -> None:
    monkeypatch.setattr(work_module, "MIN_BACKOFF_SECONDS", 0.01)
    provider = Refusing(kind)
    monkeypatch.setattr(
        assistant_app,
        "create_model",
        lambda *given: replace(create_model(*given), provider=provider),
    )
    ordered, asked = await order_agent(database)
    async with running(settings, ["assistant"]):
        await bus.publish(asked)
        step = await configured(database, ordered)
    assert step.status == status
    agent = await reread(database, ordered)
    assert agent.fault is not None
    assert "it has no time for this" in agent.fault
    is_of_model = kind is FailureKind.NO_ANSWER
    each = MAX_WITHOUT_ANSWER if is_of_model else settings.max_attempts
    built = ["prompts", "types"] if is_of_model else None
    assert (step.result or {}).get("built_in") == built
    async with database.transaction() as session:
        calls = list(await session.scalars(select(Call)))
    assert [len(call.failures or ()) for call in calls] == [each] * len(calls)
    assert provider.attempts == each * len(calls) == each * len(built or [1])


@dataclass
class Refusing:
    """A provider whose every answer is paid for and of no use."""

    kind: FailureKind
    attempts: int = 0

    async def complete(
        self, request: ChatRequest, in_flight: ResumableCall, on_delta: OnDelta | None = None
    ) -> ChatAnswer:
        async with in_flight.attempt():
            self.attempts += 1
            raise AnswerError("it has no time for this", kind=self.kind)

    async def close(self) -> None:
        return


async def test_types_that_cannot_be_used_leave_a_ready_agent_those_it_has(
    database: Database, bus: Bus, levers: Sandbox, assistant: None
) -> None:
    agent = await make_agent(database)
    levers.script(says(content=configuration()), says(content="No.", times=2))
    await bus.publish(await order_again(database, agent.id))
    assert (await configured(database, agent)).status == "completed"
    after = await reread(database, agent)
    assert after.fault is not None
    assert "it keeps the types it has" in after.fault
    assert agent_configuration.prompts_by_phase(after) != agent_configuration.prompts_by_phase(
        agent
    )


async def test_a_dead_letter_that_is_retried_makes_the_agent(
    database: Database, bus: Bus, levers: Sandbox, sandbox_settings: Settings
) -> None:
    levers.faults({"kind": "status", "status": 401, "phase": "configuration"})
    ordered, asked = await order_agent(database)
    async with running(sandbox_settings, ["assistant", "scheduler"]):
        await bus.publish(asked)
        assert (await configured(database, ordered)).status == "failed"
        agent = await reread(database, ordered)
        assert agent.fault is not None
        assert "OPENAI_API_KEY" in agent.fault
        async with database.transaction() as session:
            (letter,) = await session.scalars(select(DeadLetter))
            await dead_letters.request_retry(session, letter)
        await step_of(database, ordered, "configure", "completed")
    assert (await reread(database, ordered)).status == "ready"


async def test_a_crash_between_the_answers_pays_for_none_again(
    database: Database, bus: Bus, levers: Sandbox, sandbox_settings: Settings
) -> None:
    levers.faults(
        {"kind": "status", "status": 503, "phase": "configuration", "contains": "Now the node"}
    )
    ordered, asked = await order_agent(database)
    hasty = sandbox_settings.model_copy(update={"resend_after_seconds": 0.5})
    async with running(hasty, ["assistant", "scheduler"]):
        await bus.publish(asked)
        assert (await configured(database, ordered)).status == "completed"
    assert levers.billed()["llm"] == 2
    assert levers.repeated() == 0


@pytest.mark.usefixtures("assistant")
async def test_names_are_the_owners_word_or_free(database: Database, bus: Bus) -> None:
    made = [
        await order_agent(database),
        await order_agent(database),
        await order_agent(database, name="My watch"),
        await order_agent(database, owner="another"),
    ]
    for _, asked in made:
        await bus.publish(asked)
    for ordered, _ in made:
        await configured(database, ordered)
    names = [(await reread(database, ordered)).name for ordered, _ in made]
    assert sorted(names[:2]) == [NAME, f"{NAME} 2"]
    assert names[2:] == ["My watch", NAME]


async def test_a_name_that_is_taken_in_the_last_instant_is_tried_again(
    database: Database, bus: Bus, assistant: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    await make_agent(database, name=NAME)
    believed = iter([NAME, f"{NAME} 2"])

    async def free(*_: Any, **__: Any) -> str:
        return next(believed)

    monkeypatch.setattr("services.assistant.configure_agent.agents.find_free_name", free)
    ordered, asked = await order_agent(database)
    await bus.publish(asked)
    assert (await configured(database, ordered)).attempts == 0
    assert (await reread(database, ordered)).name == f"{NAME} 2"


async def test_an_agent_can_be_deleted_while_it_is_configured(
    database: Database, bus: Bus, levers: Sandbox, assistant: None
) -> None:
    levers.faults({"kind": "latency", "phase": "configuration", "latency_seconds": 0.5})
    ordered, asked = await order_agent(database)
    await bus.publish(asked)
    await step_of(database, ordered, "configure", "running")
    async with database.transaction() as session:
        await agents.delete_agent(session, ordered.id)
    async with database.transaction() as session:
        assert list(await session.scalars(select(Agent))) == []
        assert list(await session.scalars(select(Call))) == []
