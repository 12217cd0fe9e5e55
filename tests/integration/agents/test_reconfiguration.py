"""Reconfiguring an agent or editing its prompts: what changes, what stays, and what a running phase uses."""

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
from tests.support import claims
from tests.support.assistant.configuration_answers import types as typed
from tests.support.claims import Claimed
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
from tests.support.factories import MISSION, make_agent, make_ready
from tests.support.running_services import ended_iteration, running_services
from tests.support.sandbox_control import Sandbox
from tests.support.table_rows import change


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
        configuration.prompts_by_phase(before),
        configuration.prompts_by_phase(after),
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
        await configuration.store_prompts(session, attached, edited, PromptMaker.OWNER)
    async with running_services(sandbox_settings, ["assistant"]):
        await bus.publish(request)
        await wait_until_configured(database, agent)
    prompts = configuration.prompts_by_phase(await reload_agent(database, agent))
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
        claim = await claims.claim(session, first.correlation_id, "test")
    assert isinstance(claim, Claimed)
    outcome = await ConfigureHandler(create_model(sandbox_settings, database))(
        claim.lease, claim.step
    )
    await order_again(database, agent.id)
    async with leases.leased_transaction(database, claim.lease) as session:
        assert outcome.write is not None
        await outcome.write(session)
        await configuration.record_failure(session, claim.step, "it failed besides")
    after = await reload_agent(database, agent)
    assert outcome.result["superseded"] is True
    assert (after.mission, after.status, after.fault) == (MISSION, "ready", None)
    assert configuration.prompts_by_phase(after) == configuration.prompts_by_phase(agent)


async def test_a_failed_reconfiguration_leaves_the_agent_unchanged(
    database: Database, bus: Bus, sandbox_control: Sandbox, assistant: None
) -> None:
    agent = await make_agent(database)
    sandbox_control.script(*[configuration_response(content="No.")] * 2)
    await bus.publish(await order_again(database, agent.id))
    assert (await wait_until_configured(database, agent)).status == "failed"
    after = await reload_agent(database, agent)
    assert after.status == "ready"
    assert configuration.prompts_by_phase(after) == configuration.prompts_by_phase(agent)
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
            await configuration.store_prompts(session, attached, edited, PromptMaker.OWNER)
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
        f"\n\n{configuration.prompts_by_phase(after)[Phase.KNOWLEDGE_ACQUISITION]}"
    )


async def test_prompts_without_a_history_become_its_first_version(database: Database) -> None:
    """The agent was created before prompts had a history."""
    agent = await make_agent(database)
    async with database.transaction() as session:
        await session.execute(delete(PromptVersion))
        old = await session.get_one(Agent, agent.id)
        old = await change(session, old, prompts_version=0)
        await configuration.store_prompts(
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
