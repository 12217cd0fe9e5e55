"""What a search by meaning finds, and that without embeddings everything is as it was."""

import pytest

from shared.graph.entity_resolution import merge_nodes
from shared.graph.entity_resolution.unmerge import undo_merge
from tests.support.embeddings.seeker import MAKER, QUESTION, Seeker, fill
from tests.support.levers import Sandbox
from tests.support.making import make_owner


async def test_what_no_word_finds_is_found_by_its_meaning(seeker: Seeker) -> None:
    await fill(seeker.world)
    assert await seeker.names() == []
    await seeker.embed()
    assert await (await seeker.next_step()).names() == ["Volta"]


async def test_where_embeddings_are_off_nothing_changes_and_nothing_is_asked(
    seeker: Seeker, levers: Sandbox
) -> None:
    await fill(seeker.world)
    await seeker.embed()
    before = levers.billed()["embedding"]
    off = (await seeker.next_step()).without()
    assert await off.names() == []
    assert await (await off.next_step()).names("Volta") == ["Volta"]
    await off.embed()
    assert levers.billed()["embedding"] == before == 1
    assert len(await seeker.calls()) == 1


async def test_what_has_the_words_comes_before_what_is_near(seeker: Seeker) -> None:
    await fill(seeker.world)
    await seeker.world.node("Electrified Vehicles")
    await seeker.world.node("Electrified Rail", capital="No vehicles at all")
    await seeker.embed()
    names = await (await seeker.next_step()).names()
    assert names[:2] == ["Electrified Vehicles", "Electrified Rail"]
    assert names[2:] == ["Volta"]


async def test_nearer_nodes_come_first_and_no_more_than_a_few(seeker: Seeker) -> None:
    for number in range(15):
        await seeker.world.node(f"Plant {number}", capital="electric vehicle parts and more")
    await seeker.world.node("Nearest", capital="electric vehicles")
    await seeker.embed()
    names = await (await seeker.next_step()).names()
    assert names[0] == "Nearest"
    assert len(names) == 10


async def test_types_and_times_hold_for_what_is_near_too(seeker: Seeker) -> None:
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


async def test_what_rests_on_retracted_pages_alone_is_not_found(seeker: Seeker) -> None:
    maker = await fill(seeker.world)
    await seeker.embed()
    await seeker.world.touch(maker, unsupported_since="2026-01-01T00:00:00Z")
    assert await (await seeker.next_step()).names() == []


async def test_a_node_that_is_merged_away_goes_and_comes_back_with_a_vector(
    seeker: Seeker,
) -> None:
    world = seeker.world
    kept, gone = await world.node("Volta Trucks"), await fill(world)
    await seeker.embed()
    made_by = await make_owner(world.database)
    async with world.database.transaction() as session:
        made = await merge_nodes(
            session, world.scope, kept_id=kept, merged_id=gone, reason="One.", made_by=made_by
        )
    assert made is not None
    assert gone not in await seeker.embedded()
    async with world.database.transaction() as session:
        await undo_merge(session, world.scope, made.id)
    assert gone not in await seeker.embedded()
    await (await seeker.next_step()).embed()
    assert gone in await seeker.embedded()


async def test_a_question_that_was_asked_before_is_not_paid_for_again(
    seeker: Seeker, levers: Sandbox
) -> None:
    await fill(seeker.world)
    await seeker.embed()
    for _ in range(3):
        seeker = await seeker.next_step()
        assert await seeker.names() == ["Volta"]
    assert levers.billed()["embedding"] == 2, "the nodes, and the question once"


async def test_the_same_question_twice_in_one_breath_is_one_call(
    seeker: Seeker, levers: Sandbox
) -> None:
    await fill(seeker.world)
    await seeker.ask(QUESTION, QUESTION, "something else")
    assert levers.billed()["embedding"] == 2


@pytest.mark.parametrize("conditions", [{"nodeIds": []}, {"text": "", "nodeIds": []}])
async def test_no_text_is_no_question(
    seeker: Seeker, levers: Sandbox, conditions: dict[str, object]
) -> None:
    maker = await fill(seeker.world)
    given = {**conditions, "nodeIds": [str(maker)]} if "text" not in conditions else conditions
    await seeker.ask(given.pop("text", QUESTION), **given)  # type: ignore[arg-type]
    assert levers.billed()["embedding"] == 0
