"""What an embedding search finds, and that without embeddings nothing changes."""

import pytest

from shared.graph.entity_resolution import merge_nodes
from shared.graph.entity_resolution.merge import undo_merge
from tests.support.embeddings.embedding_case import MAKER, QUESTION, EmbeddingCase, fill
from tests.support.factories import make_owner
from tests.support.sandbox_control import Sandbox


async def test_a_node_without_a_matching_word_is_found_by_its_vector(
    embedding_case: EmbeddingCase,
) -> None:
    await fill(embedding_case.agent_graph)
    assert await embedding_case.names() == []
    await embedding_case.embed()
    assert await (await embedding_case.next_step()).names() == ["Volta"]


async def test_without_embeddings_nothing_changes_and_no_call_is_made(
    embedding_case: EmbeddingCase, sandbox_control: Sandbox
) -> None:
    await fill(embedding_case.agent_graph)
    await embedding_case.embed()
    before = sandbox_control.billed()["embedding"]
    off = (await embedding_case.next_step()).without()
    assert await off.names() == []
    assert await (await off.next_step()).names("Volta") == ["Volta"]
    await off.embed()
    assert sandbox_control.billed()["embedding"] == before == 1
    assert len(await embedding_case.calls()) == 1


async def test_word_matches_come_before_near_vectors(embedding_case: EmbeddingCase) -> None:
    await fill(embedding_case.agent_graph)
    await embedding_case.agent_graph.node("Electrified Vehicles")
    await embedding_case.agent_graph.node("Electrified Rail", capital="No vehicles at all")
    await embedding_case.embed()
    names = await (await embedding_case.next_step()).names()
    assert names[:2] == ["Electrified Vehicles", "Electrified Rail"]
    assert names[2:] == ["Volta"]


async def test_nearer_nodes_come_first_and_their_number_is_limited(
    embedding_case: EmbeddingCase,
) -> None:
    for number in range(15):
        await embedding_case.agent_graph.node(
            f"Plant {number}", capital="electric vehicle parts and more"
        )
    await embedding_case.agent_graph.node("Nearest", capital="electric vehicles")
    await embedding_case.embed()
    names = await (await embedding_case.next_step()).names()
    assert names[0] == "Nearest"
    assert len(names) == 10


async def test_type_and_time_filters_apply_to_near_nodes(embedding_case: EmbeddingCase) -> None:
    await fill(embedding_case.agent_graph)
    await embedding_case.agent_graph.node_type("Maker")
    await embedding_case.agent_graph.node("Electra", "Maker", capital=MAKER["capital"])
    await embedding_case.embed()
    later = await embedding_case.next_step()
    assert await later.names(nodeType="Maker") == ["Electra"]
    assert await (await later.next_step()).names(updatedSince="2100-01-01T00:00:00Z") == []


async def test_nodes_of_other_agents_are_never_found(
    embedding_case: EmbeddingCase, stranger: EmbeddingCase
) -> None:
    await fill(stranger.agent_graph)
    await embedding_case.agent_graph.node("Togo")
    await stranger.embed()
    await embedding_case.embed()
    assert await (await embedding_case.next_step()).names() == []
    assert await (await stranger.next_step()).names() == ["Volta"]


async def test_nodes_supported_only_by_retracted_pages_are_not_found(
    embedding_case: EmbeddingCase,
) -> None:
    maker = await fill(embedding_case.agent_graph)
    await embedding_case.embed()
    await embedding_case.agent_graph.touch(maker, unsupported_since="2026-01-01T00:00:00Z")
    assert await (await embedding_case.next_step()).names() == []


async def test_a_merged_node_loses_its_vector_and_gets_one_again_after_undo(
    embedding_case: EmbeddingCase,
) -> None:
    agent_graph = embedding_case.agent_graph
    kept_id, merged_id = await agent_graph.node("Volta Trucks"), await fill(agent_graph)
    await embedding_case.embed()
    made_by = await make_owner(agent_graph.database)
    async with agent_graph.database.transaction() as session:
        merge = await merge_nodes(
            session,
            agent_graph.scope,
            kept_id=kept_id,
            merged_id=merged_id,
            reason="One.",
            made_by=made_by,
        )
    assert merge is not None
    assert merged_id not in await embedding_case.embedded()
    async with agent_graph.database.transaction() as session:
        await undo_merge(session, agent_graph.scope, merge.id)
    assert merged_id not in await embedding_case.embedded()
    await (await embedding_case.next_step()).embed()
    assert merged_id in await embedding_case.embedded()


async def test_a_repeated_query_is_not_paid_for_again(
    embedding_case: EmbeddingCase, sandbox_control: Sandbox
) -> None:
    await fill(embedding_case.agent_graph)
    await embedding_case.embed()
    for _ in range(3):
        embedding_case = await embedding_case.next_step()
        assert await embedding_case.names() == ["Volta"]
    assert sandbox_control.billed()["embedding"] == 2, "the nodes, and the question once"


async def test_the_same_query_twice_in_one_response_is_one_call(
    embedding_case: EmbeddingCase, sandbox_control: Sandbox
) -> None:
    await fill(embedding_case.agent_graph)
    await embedding_case.ask(QUESTION, QUESTION, "something else")
    assert sandbox_control.billed()["embedding"] == 2


@pytest.mark.parametrize("conditions", [{"nodeIds": []}, {"text": "", "nodeIds": []}])
async def test_a_query_without_text_makes_no_embedding_call(
    embedding_case: EmbeddingCase, sandbox_control: Sandbox, conditions: dict[str, object]
) -> None:
    maker = await fill(embedding_case.agent_graph)
    arguments = {**conditions, "nodeIds": [str(maker)]} if "text" not in conditions else conditions
    await embedding_case.ask(arguments.pop("text", QUESTION), **arguments)  # type: ignore[arg-type]
    assert sandbox_control.billed()["embedding"] == 0
