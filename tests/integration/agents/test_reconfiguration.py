"""An agent made anew, or its prompts edited: what changes, what stays, and what a phase that runs has of it."""

import pytest
from sqlalchemy import delete, select

from services.assistant.configure_agent import ConfigureHandler
from shared.agents import configuration
from shared.database.engine import Database
from shared.database.tables import Agent, Interaction, Iteration, PromptVersion
from shared.enums import PROMPTED_PHASES, Phase, PromptMaker
from shared.runtime.bus import Bus
from shared.runtime.providers import create_model
from shared.runtime.settings import Settings
from shared.workflow import leases
from shared.workflow.leases import Claimed
from tests.support.actors import ended_iteration, running
from tests.support.configuring import (
    NAME,
    configured,
    order_again,
    order_agent,
    reread,
    says,
    step_is,
    step_of,
    types_of,
)
from tests.support.levers import Sandbox
from tests.support.making import MISSION, make_agent, make_ready


@pytest.mark.usefixtures("assistant")
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
    then, now = configuration.prompts_by_phase(before), configuration.prompts_by_phase(after)
    assert [phase for phase in PROMPTED_PHASES if then[phase] == now[phase]] == [Phase.OBSERVER]
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
        await configuration.store_prompts(session, attached, mine, PromptMaker.OWNER)
    async with running(sandbox_settings, ["assistant"]):
        await bus.publish(asked)
        await configured(database, agent)
    made = configuration.prompts_by_phase(await reread(database, agent))
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
    async with running(sandbox_settings, ["assistant"]):
        await bus.publish(first)
        await bus.publish(last)
        await configured(database, agent)
        step = await step_is(database, first.correlation_id, "completed")
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
    outcome = await ConfigureHandler(create_model(sandbox_settings, database))(
        claim.lease, claim.step
    )
    await order_again(database, agent.id)
    async with leases.leased_transaction(database, claim.lease) as session:
        assert outcome.write is not None
        await outcome.write(session)
        await configuration.record_failure(session, claim.step, "it failed besides")
    after = await reread(database, agent)
    assert outcome.result["superseded"] is True
    assert (after.mission, after.status, after.fault) == (MISSION, "ready", None)
    assert configuration.prompts_by_phase(after) == configuration.prompts_by_phase(agent)


async def test_an_agent_that_fails_to_be_made_anew_goes_on_as_it_is(
    database: Database, bus: Bus, levers: Sandbox, assistant: None
) -> None:
    agent = await make_agent(database)
    levers.script(*[says(content="No.")] * 2)
    await bus.publish(await order_again(database, agent.id))
    assert (await configured(database, agent)).status == "failed"
    after = await reread(database, agent)
    assert after.status == "ready"
    assert configuration.prompts_by_phase(after) == configuration.prompts_by_phase(agent)
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
            await configuration.store_prompts(session, attached, edited, PromptMaker.OWNER)
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


async def test_made_anew_in_the_middle_of_an_iteration(
    database: Database, bus: Bus, sandbox_settings: Settings
) -> None:
    """What has run used the old prompts, what comes after them the new ones; the iteration goes on."""
    agent = await make_agent(database)
    async with running(sandbox_settings, ["scheduler", "observer", "assistant"]):
        await step_of(database, agent, "observe", "completed")
        await bus.publish(await order_again(database, agent.id))
        assert (await configured(database, agent)).status == "completed"
    async with running(sandbox_settings):
        iteration = await ended_iteration(database, agent, 1)
    assert iteration.status == "completed"
    after = await reread(database, agent)
    async with database.transaction() as session:
        rows = await session.execute(select(Interaction.phase, Interaction.system_prompt))
        used = dict(rows.all())
    assert used["observer"] == "You plan for the agent."
    assert (
        used["knowledge_acquisition"]
        == configuration.prompts_by_phase(after)[Phase.KNOWLEDGE_ACQUISITION]
    )
    assert MISSION in used["knowledge_acquisition"]


async def test_older_prompts_become_the_first_of_the_history(database: Database) -> None:
    """Those of an agent that was made before there was a history."""
    agent = await make_agent(database)
    async with database.transaction() as session:
        await session.execute(delete(PromptVersion))
        old = await session.get_one(Agent, agent.id)
        old.prompts_version = 0
        await configuration.store_prompts(
            session, old, {Phase.OBSERVER: "Anew."}, PromptMaker.OWNER
        )
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
