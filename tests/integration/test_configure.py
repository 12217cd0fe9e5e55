"""From a mission to an agent: what the model makes of it, what it may not, and what stays when it fails."""

from collections.abc import AsyncIterator
from typing import Any

import pytest
from jsonschema import Draft202012Validator
from sqlalchemy import delete, select

from services.concierge.configure import Configure
from services.scheduler.tick import Ticker
from shared.graph import types
from shared.graph.scope import Scope
from shared.runtime.bus import Bus
from shared.runtime.model import model_of
from shared.runtime.settings import Settings
from shared.store import agents, configurations, dead_letters, leases, prompts
from shared.store.database import Database
from shared.store.leases import Claimed
from shared.store.tables import Agent, Call, DeadLetter, Interaction, Iteration, PromptVersion, Step
from shared.store.words import PROMPTED, Phase, PromptMaker
from tests.integration.cluster import ended_iteration, running, told
from tests.integration.configuring import configured, order_again, order_agent, reread, says
from tests.integration.levers import Sandbox
from tests.integration.making import MISSION, make_agent, make_ready
from tests.unit.concierge.making import configuration, node_type
from tests.unit.concierge.making import types as typed
from tests.waiting import until

NAME = "Battery Makers Lithium Supply"
"""What the sandbox makes of the mission."""


@pytest.fixture
def levers(sandbox: str) -> Sandbox:
    return Sandbox(sandbox)


@pytest.fixture
async def concierge(sandbox_settings: Settings) -> AsyncIterator[None]:
    async with running(sandbox_settings, ["concierge"]):
        yield


async def types_of(
    database: Database, agent: Agent
) -> tuple[list[types.NodeType], list[types.EdgeType]]:
    scope = Scope(agent.owner_id, agent.id)
    async with database.transaction() as session:
        return await types.node_types(session, scope), await types.edge_types(session, scope)


@pytest.mark.usefixtures("concierge")
async def test_an_agent_is_made_of_its_mission(
    database: Database, bus: Bus, levers: Sandbox
) -> None:
    ordered, asked = await order_agent(database)
    await bus.publish(asked)
    step = await configured(database, ordered)
    agent = await reread(database, ordered)
    assert (agent.status, agent.fault, agent.name) == ("ready", None, NAME)
    made = prompts.of_agent(agent)
    assert list(made) == list(PROMPTED)
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


async def test_what_does_not_fit_is_sent_back_and_mended(
    database: Database, bus: Bus, levers: Sandbox, concierge: None
) -> None:
    reserved = typed(nodes=[*typed()["nodeTypes"], node_type("AgentAnalysis")])
    levers.script(
        says(content=configuration(name="Lithium")),
        says(content=configuration(name="Lithium Eye")),
        says(content=reserved),
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


@pytest.mark.parametrize(
    ("answers", "words"),
    [
        ([configuration(name="Lithium")] * 2, ["agent_configuration", "2 to 4", "asked twice"]),
        (["I would rather not."] * 2, ["agent_configuration", "asked twice"]),
        ([configuration(), typed(nodes=[]), typed(nodes=[])], ["agent_types", "0 node types"]),
    ],
)
async def test_what_cannot_be_mended_is_told_with_what_to_do(
    database: Database,
    bus: Bus,
    levers: Sandbox,
    concierge: None,
    answers: list[Any],
    words: list[str],
) -> None:
    levers.script(*(says(content=answer) for answer in answers))
    ordered, asked = await order_agent(database, active=True)
    await bus.publish(asked)
    assert (await configured(database, ordered)).status == "failed"
    agent = await reread(database, ordered)
    assert (agent.status, prompts.of_agent(agent)) == ("failed", {})
    assert agent.fault is not None
    assert agent.fault.startswith("The agent could not be made of its mission")
    assert all(word in agent.fault for word in (*words, "vigil agent configure"))
    assert await types_of(database, agent) == ([], [])
    assert await Ticker(database, deadline_seconds=600).tick() == []
    async with database.transaction() as session:
        (letter,) = await session.scalars(select(DeadLetter))
    assert (letter.actor, letter.code) == ("concierge", "invalid_answer")

    await bus.publish(await order_again(database, agent.id))
    assert (await configured(database, ordered)).status == "completed"
    mended = await reread(database, ordered)
    assert (mended.status, mended.fault) == ("ready", None)


async def test_a_dead_letter_that_is_retried_makes_the_agent(
    database: Database, bus: Bus, levers: Sandbox, sandbox_settings: Settings
) -> None:
    levers.faults({"kind": "status", "status": 401, "phase": "configuration"})
    ordered, asked = await order_agent(database)
    async with running(sandbox_settings, ["concierge", "scheduler"]):
        await bus.publish(asked)
        assert (await configured(database, ordered)).status == "failed"
        agent = await reread(database, ordered)
        assert agent.fault is not None
        assert "OPENAI_API_KEY" in agent.fault
        async with database.transaction() as session:
            (letter,) = await session.scalars(select(DeadLetter))
            await dead_letters.ask_for_retry(session, letter)
        await _step_of(database, ordered, "configure", "completed")
    assert (await reread(database, ordered)).status == "ready"


async def test_a_crash_between_the_answers_pays_for_none_again(
    database: Database, bus: Bus, levers: Sandbox, sandbox_settings: Settings
) -> None:
    levers.faults(
        {"kind": "status", "status": 503, "phase": "configuration", "contains": "Now the node"}
    )
    ordered, asked = await order_agent(database)
    hasty = sandbox_settings.model_copy(update={"resend_after_seconds": 0.5})
    async with running(hasty, ["concierge", "scheduler"]):
        await bus.publish(asked)
        assert (await configured(database, ordered)).status == "completed"
    assert levers.billed()["llm"] == 2
    assert levers.repeated() == 0


@pytest.mark.usefixtures("concierge")
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
    database: Database, bus: Bus, concierge: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    await make_agent(database, name=NAME)
    believed = iter([NAME, f"{NAME} 2"])

    async def free(*_: Any, **__: Any) -> str:
        return next(believed)

    monkeypatch.setattr("services.concierge.configure.names.free", free)
    ordered, asked = await order_agent(database)
    await bus.publish(asked)
    assert (await configured(database, ordered)).attempts == 0
    assert (await reread(database, ordered)).name == f"{NAME} 2"


@pytest.mark.usefixtures("concierge")
async def test_made_anew_it_keeps_its_name_its_types_and_what_is_to_stay(
    database: Database, bus: Bus
) -> None:
    ordered, asked = await order_agent(database)
    await bus.publish(asked)
    await configured(database, ordered)
    before = await reread(database, ordered)
    nodes_before, edges_before = await types_of(database, before)
    another = "Watch the copper mines of Chile and who buys from them"
    await bus.publish(
        await order_again(database, before.id, mission=another, keep=(Phase.OBSERVER,))
    )
    await configured(database, ordered)
    after = await reread(database, ordered)
    assert (after.name, after.mission, after.prompts_version) == (NAME, another, 2)
    then, now = prompts.of_agent(before), prompts.of_agent(after)
    assert [phase for phase in PROMPTED if then[phase] == now[phase]] == [Phase.OBSERVER]
    assert another in now[Phase.CONVERSATION]
    nodes, edges = await types_of(database, after)
    assert {each.name for each in nodes_before} < {each.name for each in nodes}
    assert [each for each in nodes if each in nodes_before] == nodes_before
    assert [each for each in edges if each in edges_before] == edges_before


async def test_what_its_owner_edits_meanwhile_stays(
    database: Database, bus: Bus, sandbox_settings: Settings
) -> None:
    agent = await make_agent(database, name="My watch")
    asked = await order_again(database, agent.id)
    async with database.transaction() as session:
        attached = await session.get_one(Agent, agent.id)
        mine = {Phase.OBSERVER: "Plan as I say."}
        await prompts.write(session, attached, mine, PromptMaker.OWNER)
    async with running(sandbox_settings, ["concierge"]):
        await bus.publish(asked)
        await configured(database, agent)
    made = prompts.of_agent(await reread(database, agent))
    assert made[Phase.OBSERVER] == "Plan as I say."
    assert MISSION in made[Phase.CONVERSATION]
    async with database.transaction() as session:
        kept = await session.execute(
            select(PromptVersion.version, PromptVersion.made_by, PromptVersion.phase)
        )
    assert {(row.version, row.made_by) for row in kept} == {
        (1, "configuration"),
        (2, "owner"),
        (3, "configuration"),
    }


async def test_only_what_was_asked_for_last_counts(
    database: Database, bus: Bus, levers: Sandbox, sandbox_settings: Settings
) -> None:
    agent = await make_agent(database, name="My watch")
    first = await order_again(database, agent.id, mission="Watch what nobody wants any more")
    last = await order_again(database, agent.id)
    async with running(sandbox_settings, ["concierge"]):
        await bus.publish(first)
        await bus.publish(last)
        await configured(database, agent)
        step = await _step(database, first.correlation_id, "completed")
    assert step.result == {"superseded": True}
    assert (await reread(database, agent)).mission == MISSION
    assert levers.billed()["llm"] == 2


async def test_what_was_asked_for_before_leaves_no_trace_even_if_it_ends_later(
    database: Database, sandbox_settings: Settings
) -> None:
    agent = await make_agent(database, name="My watch")
    first = await order_again(database, agent.id, mission="Watch what nobody wants any more")
    async with database.transaction() as session:
        claim = await leases.claim(session, first.correlation_id, "test")
    assert isinstance(claim, Claimed)
    outcome = await Configure(model_of(sandbox_settings, database))(claim.lease, claim.step)
    await order_again(database, agent.id)
    async with leases.leased_transaction(database, claim.lease) as session:
        assert outcome.write is not None
        await outcome.write(session)
        await configurations.failed(session, claim.step, "it failed besides")
    after = await reread(database, agent)
    assert outcome.result["superseded"] is True
    assert (after.mission, after.status, after.fault) == (MISSION, "ready", None)
    assert prompts.of_agent(after) == prompts.of_agent(agent)


async def test_an_agent_that_fails_to_be_made_anew_goes_on_as_it_is(
    database: Database, bus: Bus, levers: Sandbox, concierge: None
) -> None:
    agent = await make_agent(database)
    levers.script(*[says(content="No.")] * 2)
    await bus.publish(await order_again(database, agent.id))
    assert (await configured(database, agent)).status == "failed"
    after = await reread(database, agent)
    assert after.status == "ready"
    assert prompts.of_agent(after) == prompts.of_agent(agent)
    assert after.fault is not None
    assert "goes on with those it has" in after.fault


async def test_every_interaction_keeps_the_prompt_it_used(
    database: Database, sandbox_settings: Settings
) -> None:
    agent = await make_agent(database)
    async with running(sandbox_settings):
        await ended_iteration(database, agent, 1)
        async with database.transaction() as session:
            attached = await session.get_one(Agent, agent.id)
            edited = {Phase.OBSERVER: "You plan for the agent, and boldly."}
            await prompts.write(session, attached, edited, PromptMaker.OWNER)
            attached.run_requested_at = attached.created_at
        await ended_iteration(database, agent, 2)
    async with database.transaction() as session:
        rows = await session.execute(
            select(Iteration.number, Interaction.system_prompt)
            .join(Iteration, Iteration.id == Interaction.iteration_id)
            .where(Interaction.phase == Phase.OBSERVER)
            .order_by(Iteration.number)
        )
        used = [tuple(row) for row in rows]
        others = select(Interaction.system_prompt).where(Interaction.phase != Phase.OBSERVER)
        unchanged = set(await session.scalars(others))
    assert used == [
        (1, "You plan for the agent."),
        (2, "You plan for the agent, and boldly."),
    ]
    assert "You search for the agent." in unchanged


async def test_what_runs_goes_on_with_the_prompts_it_began_with(
    database: Database, bus: Bus, levers: Sandbox, sandbox_settings: Settings
) -> None:
    """Prompts are made anew while an Observer waits for its answer."""
    agent = await make_agent(database)
    levers.faults({"kind": "latency", "phase": "observer", "latency_seconds": 1.5})
    async with running(sandbox_settings):
        await _step_of(database, agent, "observe", "running")
        await bus.publish(await order_again(database, agent.id))
        assert (await configured(database, agent)).status == "completed"
        iteration = await ended_iteration(database, agent, 1)
    assert iteration.status == "completed"
    after = await reread(database, agent)
    async with database.transaction() as session:
        used = dict(
            (await session.execute(select(Interaction.phase, Interaction.system_prompt))).all()
        )
    assert used["observer"] == "You plan for the agent."
    assert used["knowledge_acquisition"] == prompts.of_agent(after)[Phase.KNOWLEDGE_ACQUISITION]
    assert MISSION in used["knowledge_acquisition"]


async def test_older_prompts_become_the_first_of_the_history(database: Database) -> None:
    """Those of an agent that was made before there was a history."""
    agent = await make_agent(database)
    async with database.transaction() as session:
        await session.execute(delete(PromptVersion))
        old = await session.get_one(Agent, agent.id)
        old.prompts_version = 0
        await prompts.write(session, old, {Phase.OBSERVER: "Anew."}, PromptMaker.OWNER)
    async with database.transaction() as session:
        rows = list(await session.scalars(select(PromptVersion).order_by(PromptVersion.version)))
    assert [row.version for row in rows] == [1] * 6 + [2]
    assert (rows[-1].prompt, rows[-1].made_by) == ("Anew.", "owner")


async def test_the_same_prompt_again_is_no_new_version(database: Database) -> None:
    agent = await make_agent(database)
    async with database.transaction() as session:
        attached = await session.get_one(Agent, agent.id)
        await make_ready(session, attached)
        assert attached.prompts_version == 1


async def test_an_agent_can_be_deleted_while_it_is_configured(
    database: Database, bus: Bus, levers: Sandbox, concierge: None
) -> None:
    levers.faults({"kind": "latency", "phase": "configuration", "latency_seconds": 0.5})
    ordered, asked = await order_agent(database)
    await bus.publish(asked)
    await _step_of(database, ordered, "configure", "running")
    async with database.transaction() as session:
        await agents.delete(session, ordered.id)
    async with database.transaction() as session:
        assert list(await session.scalars(select(Agent))) == []
        assert list(await session.scalars(select(Call))) == []


async def _step(database: Database, step_id: Any, status: str) -> Step:
    async def look() -> Step | None:
        async with database.transaction() as session:
            return await session.scalar(
                select(Step).where(Step.id == step_id, Step.status == status)
            )

    found = await until(look, what=f"the step to be {status}")
    assert found is not None
    return found


async def _step_of(database: Database, agent: Agent, kind: str, status: str) -> Step:
    async def look() -> Step | None:
        async with database.transaction() as session:
            wanted = select(Step).where(Step.agent_id == agent.id, Step.kind == kind)
            return await session.scalar(wanted.where(Step.status == status))

    found = await until(look, what=f"a step of kind {kind} to be {status}")
    assert found is not None
    return found
