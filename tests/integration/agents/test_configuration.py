"""Agents are configured, configured again, and given their contexts."""

import json
import random
from dataclasses import replace
from datetime import date
from hashlib import sha256
from typing import Any
from uuid import UUID

import pytest
from jsonschema import Draft202012Validator
from sqlalchemy import delete, select, text, update

from services.assistant import app as assistant_app
from services.assistant import default_configuration
from services.assistant.configure_agent import ConfigureHandler
from services.scheduler.scheduler import Ticker
from shared.agents import agents, contexts
from shared.agents import configuration as agent_configuration
from shared.agents.contexts import MAX_DEPTH, UnreadableContextError, load_texts
from shared.database.engine import Database
from shared.database.tables import (
    Agent,
    Call,
    Context,
    DeadLetter,
    Interaction,
    Iteration,
    PromptVersion,
)
from shared.database.unit_of_work import UnitOfWork
from shared.enums import PROMPTED_PHASES, Phase, PromptMaker
from shared.graph import types
from shared.llm import phase_run_store
from shared.llm.answer_errors import FailureKind
from shared.llm.phase_run_store import NewRun
from shared.llm.structured_output import MAX_WITHOUT_ANSWER
from shared.runtime import step_runner as work_module
from shared.runtime.bus import Bus
from shared.runtime.middlewares import retry
from shared.runtime.providers import create_model
from shared.runtime.settings import Settings
from shared.workflow import dead_letters, leases
from shared.workflow.leases import Lease
from tests.support import claims
from tests.support.assistant.configuration_answers import configuration, edge_type, node_type
from tests.support.assistant.configuration_answers import types as typed
from tests.support.claims import AGENT_ROW
from tests.support.configuring import (
    NAME,
    configuration_response,
    order_again,
    order_agent,
    reload_agent,
    step_is,
    step_of,
    types_of,
    wait_until_configured,
)
from tests.support.factories import MISSION, make_agent, make_iteration, make_ready
from tests.support.fences import EVERYONE
from tests.support.phase_runs import first_messages
from tests.support.refusing_provider import RefusingProvider
from tests.support.running_services import ended_iteration, list_events, running_services
from tests.support.sandbox_control import Sandbox
from tests.support.seeds import first_seed, repeatable
from tests.support.table_rows import change


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


@pytest.mark.usefixtures("assistant")
async def test_reconfiguring_keeps_the_name_the_types_and_the_chosen_prompts(
    database: Database, bus: Bus, sandbox_control: Sandbox
) -> None:
    agent_row, request = await order_agent(database)
    await bus.publish(request)
    await wait_until_configured(database, agent_row)
    before = await reload_agent(database, agent_row)
    nodes_before, edges_before = await types_of(database, before)
    new_mission = "Watch the copper mines of Chile and who buys from them"
    sandbox_control.script(configuration_response(contains='"agent_types"', content=typed()))
    await bus.publish(
        await order_again(database, before.id, mission=new_mission, keep=(Phase.OBSERVER,))
    )
    await wait_until_configured(database, agent_row)
    after = await reload_agent(database, agent_row)
    assert (after.name, after.mission, after.prompts_version) == (NAME, new_mission, 2)
    prompts_before, prompts_after = (
        agent_configuration.prompts_by_phase(before),
        agent_configuration.prompts_by_phase(after),
    )
    assert [
        phase for phase in PROMPTED_PHASES if prompts_before[phase] == prompts_after[phase]
    ] == [Phase.OBSERVER]
    assert NAME in prompts_after[Phase.CONVERSATION]
    nodes, edges = await types_of(database, after)
    assert {node.name for node in nodes_before} < {node.name for node in nodes}
    assert [node for node in nodes if node in nodes_before] == nodes_before
    assert [edge for edge in edges if edge in edges_before] == edges_before


async def test_a_prompt_edited_during_configuration_is_kept(
    database: Database, bus: Bus, sandbox_settings: Settings
) -> None:
    agent = await make_agent(database, name="My watch")
    request = await order_again(database, agent.id)
    async with database.transaction() as session:
        attached = await session.get_one(Agent, agent.id)
        edited = {Phase.OBSERVER: "Plan as I say."}
        await agent_configuration.store_prompts(session, attached, edited, PromptMaker.OWNER)
    async with running_services(sandbox_settings, ["assistant"]):
        await bus.publish(request)
        await wait_until_configured(database, agent)
    prompts = agent_configuration.prompts_by_phase(await reload_agent(database, agent))
    assert prompts[Phase.OBSERVER] == "Plan as I say."
    assert prompts[Phase.CONVERSATION] != agent.conversation_system_prompt
    assert agent.name in prompts[Phase.CONVERSATION]
    async with database.transaction() as session:
        versions = await session.execute(
            select(PromptVersion.version, PromptVersion.made_by, PromptVersion.phase)
        )
    assert {(row.version, row.made_by) for row in versions} == {
        (1, "configuration"),
        (2, "owner"),
        (3, "configuration"),
    }


async def test_only_the_latest_configuration_request_takes_effect(
    database: Database, bus: Bus, sandbox_control: Sandbox, sandbox_settings: Settings
) -> None:
    agent = await make_agent(database, name="My watch")
    first = await order_again(database, agent.id, mission="Watch what nobody wants any more")
    last = await order_again(database, agent.id)
    async with running_services(sandbox_settings, ["assistant"]):
        await bus.publish(first)
        await bus.publish(last)
        await wait_until_configured(database, agent)
        step = await step_is(database, first.correlation_id, "completed")
    assert step.result == {"superseded": True}
    assert (await reload_agent(database, agent)).mission == MISSION
    assert sandbox_control.billed()["llm"] == 2


async def test_a_superseded_configuration_changes_nothing_even_if_it_ends_later(
    database: Database, sandbox_settings: Settings
) -> None:
    agent = await make_agent(database, name="My watch")
    first = await order_again(database, agent.id, mission="Watch what nobody wants any more")
    async with database.transaction() as session:
        claim = await claims.claimed(session, first.correlation_id, "test")
    outcome = await ConfigureHandler(create_model(sandbox_settings, database))(
        claim.lease, claim.step
    )
    await order_again(database, agent.id)
    async with leases.leased_transaction(database, claim.lease) as session:
        assert outcome.write is not None
        await outcome.write(session)
        await agent_configuration.record_failure(session, claim.step, "it failed besides")
    after = await reload_agent(database, agent)
    assert outcome.result["superseded"] is True
    assert (after.mission, after.status, after.fault) == (MISSION, "ready", None)
    assert agent_configuration.prompts_by_phase(after) == agent_configuration.prompts_by_phase(
        agent
    )


async def test_a_failed_reconfiguration_leaves_the_agent_unchanged(
    database: Database, bus: Bus, sandbox_control: Sandbox, assistant: None
) -> None:
    agent = await make_agent(database)
    sandbox_control.script(*[configuration_response(content="No.")] * 2)
    await bus.publish(await order_again(database, agent.id))
    assert (await wait_until_configured(database, agent)).status == "failed"
    after = await reload_agent(database, agent)
    assert after.status == "ready"
    assert agent_configuration.prompts_by_phase(after) == agent_configuration.prompts_by_phase(
        agent
    )
    assert after.fault is not None
    assert "keeps its current ones" in after.fault


async def test_every_phase_run_stores_the_prompt_it_used(
    database: Database, sandbox_settings: Settings
) -> None:
    agent = await make_agent(database)
    async with running_services(sandbox_settings):
        await ended_iteration(database, agent, 1)
        async with database.transaction() as session:
            attached = await session.get_one(Agent, agent.id)
            edited = {Phase.OBSERVER: "You plan for the agent, and boldly."}
            await agent_configuration.store_prompts(session, attached, edited, PromptMaker.OWNER)
            attached = await change(session, attached, run_requested_at=attached.created_at)
        await ended_iteration(database, agent, 2)
    async with database.transaction() as session:
        rows = await session.execute(
            select(Iteration.number, Interaction.system_prompt)
            .join(Iteration, Iteration.id == Interaction.iteration_id)
            .where(Interaction.phase == Phase.OBSERVER)
            .order_by(Iteration.number)
        )
        used = [(number, prompt.rpartition("\n\n")[2]) for number, prompt in rows]
        others = select(Interaction.system_prompt).where(Interaction.phase != Phase.OBSERVER)
        unchanged = {prompt.rpartition("\n\n")[2] for prompt in await session.scalars(others)}
    assert used == [
        (1, "You plan for the agent."),
        (2, "You plan for the agent, and boldly."),
    ]
    assert "You search for the agent." in unchanged


async def test_reconfiguring_in_the_middle_of_an_iteration(
    database: Database, bus: Bus, sandbox_settings: Settings
) -> None:
    """Earlier phases used the old prompts, later ones use the new; the iteration continues."""
    agent = await make_agent(database)
    async with running_services(sandbox_settings, ["scheduler", "observer", "assistant"]):
        await step_of(database, agent, "observe", "completed")
        await bus.publish(await order_again(database, agent.id))
        assert (await wait_until_configured(database, agent)).status == "completed"
    async with running_services(sandbox_settings):
        iteration = await ended_iteration(database, agent, 1)
    assert iteration.status == "completed"
    after = await reload_agent(database, agent)
    async with database.transaction() as session:
        rows = await session.execute(select(Interaction.phase, Interaction.system_prompt))
        used = dict(rows.all())
    assert used["observer"].endswith("\n\nYou plan for the agent.")
    assert used["knowledge_acquisition"].endswith(
        f"\n\n{agent_configuration.prompts_by_phase(after)[Phase.KNOWLEDGE_ACQUISITION]}"
    )


async def test_prompts_without_a_history_become_its_first_version(database: Database) -> None:
    """The agent was created before prompts had a history."""
    agent = await make_agent(database)
    async with database.transaction() as session:
        await session.execute(delete(PromptVersion))
        old = await session.get_one(Agent, agent.id)
        old = await change(session, old, prompts_version=0)
        await agent_configuration.store_prompts(
            session, old, {Phase.OBSERVER: "Anew."}, PromptMaker.OWNER
        )
    async with database.transaction() as session:
        rows = list(await session.scalars(select(PromptVersion).order_by(PromptVersion.version)))
    assert [row.version for row in rows] == [1] * 6 + [2]
    assert (rows[-1].prompt, rows[-1].made_by) == ("Anew.", "owner")


async def test_storing_an_unchanged_prompt_makes_no_new_version(database: Database) -> None:
    agent = await make_agent(database)
    async with database.transaction() as session:
        attached = await session.get_one(Agent, agent.id)
        attached = await make_ready(session, attached)
        assert attached.prompts_version == 1


class Runs:
    """Phase runs of one agent, each with a context of its own."""

    def __init__(self, database: Database, agent: Agent, step_id: UUID) -> None:
        self.database = database
        self.agent = agent
        self._step_id = step_id
        self.phases = list(Phase)
        """The phases that have not begun."""
        self.messages: dict[Phase, str] = {}

    @classmethod
    async def of(cls, database: Database, name: str = "Battery watch") -> "Runs":
        agent = await make_agent(database, name=name)
        return cls(database, agent, (await make_iteration(database, agent)).observe.id)

    async def begin(self, context: str, database: Database | None = None) -> None:
        """Begin the next run, in the pipeline that workers use. Each database object stands for a process."""
        database = database or self.database
        phase = self.phases.pop()
        self.messages[phase] = f"Mission\n{context}\nTask"
        lease = Lease(
            self._step_id, None, self.agent.id, self.agent.owner_id, 1, "test", 60, AGENT_ROW
        )
        run = NewRun(
            database,
            lease,
            phase,
            model="m",
            system_prompt="",
            request={"messages": [{"role": "user", "content": self.messages[phase]}], "tools": []},
            context=context,
        )
        unit = UnitOfWork(database, EVERYONE)
        run.write_with(unit)
        await unit.commit()

    async def check(self) -> None:
        """Every run is read back as it was."""
        async with self.database.transaction() as session:
            runs = list(await session.scalars(select(Interaction)))
            requests = await phase_run_store.load_requests(session, runs)
        assert {
            run.phase: requests[run.id]["messages"][0]["content"] for run in runs
        } == self.messages

    async def depths(self) -> list[int]:
        async with self.database.transaction() as session:
            return list(await session.scalars(select(Context.depth).order_by(Context.depth)))


@pytest.fixture
async def runs(database: Database) -> Runs:
    return await Runs.of(database)


def lines(first: int, last: int) -> str:
    return "\n".join(
        f"- [node:{UUID(bytes=sha256(bytes([number])).digest()[:16])}] a line of the graph"
        for number in range(first, last)
    )


async def test_a_context_is_stored_as_its_difference_from_the_last_one(runs: Runs) -> None:
    for number in range(4):
        await runs.begin(lines(number, 200 + number))
    await runs.check()
    assert await runs.depths() == [0, 1, 2, 3]
    async with runs.database.transaction() as session:
        sizes = await session.scalars(
            text("select octet_length(data) from contexts order by depth")
        )
        full, *differences = sizes
    assert max(differences) < full / 5


async def test_the_same_context_is_stored_once(runs: Runs) -> None:
    for _ in range(3):
        await runs.begin(lines(0, 50))
    await runs.check()
    assert await runs.depths() == [0]


async def test_a_chain_of_differences_has_an_end(database: Database) -> None:
    agent = await make_agent(database)
    for number in range(2 * MAX_DEPTH + 3):
        stored = contexts.as_difference(database, agent.id, lines(number, 100 + number))
        assert stored.depth == number % (MAX_DEPTH + 1)
        contexts.remember(database, agent.id, lines(number, 100 + number), stored)


async def test_a_context_whose_base_has_disappeared_is_stored_in_full(runs: Runs) -> None:
    """As after PostgreSQL was restored from a backup while the service kept running."""
    await runs.begin(lines(0, 100))
    async with runs.database.transaction() as session:
        await session.execute(delete(Interaction))
        await session.execute(delete(Context))
    runs.messages.clear()
    await runs.begin(lines(1, 101))
    await runs.begin(lines(1, 101))
    await runs.check()
    assert await runs.depths() == [0]


async def test_a_changed_context_is_reported(runs: Runs) -> None:
    await runs.begin(lines(0, 100))
    await runs.begin(lines(1, 101))
    async with runs.database.transaction() as session:
        data = contexts.compress(lines(5, 105))
        await session.execute(update(Context).where(Context.depth == 0).values(data=data))
        keys = [
            (row.agent_id, row.sha256)
            for row in await session.execute(select(Context.agent_id, Context.sha256))
        ]
        for key in keys:
            with pytest.raises(UnreadableContextError, match="missing or was changed"):
                await load_texts(session, [key])
        with pytest.raises(UnreadableContextError):
            await load_texts(session, [(runs.agent.id, b"unknown")])


async def test_random_runs_of_several_processes_are_read_back(
    database: Database, database_url: str
) -> None:
    seed = first_seed()
    chance = random.Random(seed)
    processes = [database, *(Database(database_url, name=f"process {n}") for n in range(2))]
    with repeatable(seed):
        agents = [await Runs.of(database, f"Agent {number}") for number in range(3)]
        while any(runs.phases for runs in agents):
            runs = chance.choice([each for each in agents if each.phases])
            start = chance.randrange(5)
            await runs.begin(lines(start, start + chance.randrange(60)), chance.choice(processes))
        async with database.transaction() as session:
            stored = list(await session.scalars(select(Interaction)))
            requests = await phase_run_store.load_requests(session, stored)
        for runs in agents:
            assert {
                run.phase: requests[run.id]["messages"][0]["content"]
                for run in stored
                if run.agent_id == runs.agent.id
            } == runs.messages
    for process in processes[1:]:
        await process.close()
