"""What an embedding search finds, and that without embeddings nothing changes."""

import pytest

from shared.graph.entity_resolution import merge_nodes
from shared.graph.entity_resolution.unmerge import undo_merge
from tests.support.embeddings.seeker import MAKER, QUESTION, Seeker, fill
from tests.support.factories import make_owner
from tests.support.sandbox_control import Sandbox


async def test_a_node_without_a_matching_word_is_found_by_its_vector(seeker: Seeker) -> None:
    await fill(seeker.world)
    assert await seeker.names() == []
    await seeker.embed()
    assert await (await seeker.next_step()).names() == ["Volta"]


async def test_without_embeddings_nothing_changes_and_no_call_is_made(
    seeker: Seeker, sandbox_control: Sandbox
) -> None:
    await fill(seeker.world)
    await seeker.embed()
    before = sandbox_control.billed()["embedding"]
    off = (await seeker.next_step()).without()
    assert await off.names() == []
    assert await (await off.next_step()).names("Volta") == ["Volta"]
    await off.embed()
    assert sandbox_control.billed()["embedding"] == before == 1
    assert len(await seeker.calls()) == 1


async def test_word_matches_come_before_near_vectors(seeker: Seeker) -> None:
    await fill(seeker.world)
    await seeker.world.node("Electrified Vehicles")
    await seeker.world.node("Electrified Rail", capital="No vehicles at all")
    await seeker.embed()
    names = await (await seeker.next_step()).names()
    assert names[:2] == ["Electrified Vehicles", "Electrified Rail"]
    assert names[2:] == ["Volta"]


async def test_nearer_nodes_come_first_and_their_number_is_limited(seeker: Seeker) -> None:
    for number in range(15):
        await seeker.world.node(f"Plant {number}", capital="electric vehicle parts and more")
    await seeker.world.node("Nearest", capital="electric vehicles")
    await seeker.embed()
    names = await (await seeker.next_step()).names()
    assert names[0] == "Nearest"
    assert len(names) == 10


async def test_type_and_time_filters_apply_to_near_nodes(seeker: Seeker) -> None:
    await fill(seeker.world)
    await seeker.world.node_type("Maker")
    await seeker.world.node("Electra", "Maker", capital=MAKER["capital"])
    await seeker.embed()
    later = await seeker.next_step()
    assert await later.names(nodeType="Maker") == ["Electra"]
    assert await (await later.next_step()).names(updatedSince="2100-01-01T00:00:00Z") == []


async def test_nodes_of_other_agents_are_never_found(seeker: Seeker, stranger: Seeker) -> None:
    await fill(stranger.world)
    await seeker.world.node("Togo")
    await stranger.embed()
    await seeker.embed()
    assert await (await seeker.next_step()).names() == []
    assert await (await stranger.next_step()).names() == ["Volta"]


async def test_nodes_supported_only_by_retracted_pages_are_not_found(seeker: Seeker) -> None:
    maker = await fill(seeker.world)
    await seeker.embed()
    await seeker.world.touch(maker, unsupported_since="2026-01-01T00:00:00Z")
    assert await (await seeker.next_step()).names() == []


async def test_a_merged_node_loses_its_vector_and_gets_one_again_after_undo(
    seeker: Seeker,
) -> None:
    world = seeker.world
    kept_id, merged_id = await world.node("Volta Trucks"), await fill(world)
    await seeker.embed()
    made_by = await make_owner(world.database)
    async with world.database.transaction() as session:
        merge = await merge_nodes(
            session,
            world.scope,
            kept_id=kept_id,
            merged_id=merged_id,
            reason="One.",
            made_by=made_by,
        )
    assert merge is not None
    assert merged_id not in await seeker.embedded()
    async with world.database.transaction() as session:
        await undo_merge(session, world.scope, merge.id)
    assert merged_id not in await seeker.embedded()
    await (await seeker.next_step()).embed()
    assert merged_id in await seeker.embedded()


async def test_a_repeated_query_is_not_paid_for_again(
    seeker: Seeker, sandbox_control: Sandbox
) -> None:
    await fill(seeker.world)
    await seeker.embed()
    for _ in range(3):
        seeker = await seeker.next_step()
        assert await seeker.names() == ["Volta"]
    assert sandbox_control.billed()["embedding"] == 2, "the nodes, and the question once"


async def test_the_same_query_twice_in_one_response_is_one_call(
    seeker: Seeker, sandbox_control: Sandbox
) -> None:
    await fill(seeker.world)
    await seeker.ask(QUESTION, QUESTION, "something else")
    assert sandbox_control.billed()["embedding"] == 2


@pytest.mark.parametrize("conditions", [{"nodeIds": []}, {"text": "", "nodeIds": []}])
async def test_a_query_without_text_makes_no_embedding_call(
    seeker: Seeker, sandbox_control: Sandbox, conditions: dict[str, object]
) -> None:
    maker = await fill(seeker.world)
    arguments = {**conditions, "nodeIds": [str(maker)]} if "text" not in conditions else conditions
    await seeker.ask(arguments.pop("text", QUESTION), **arguments)  # type: ignore[arg-type]
    assert sandbox_control.billed()["embedding"] == 0
