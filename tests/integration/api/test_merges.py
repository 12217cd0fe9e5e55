"""Duplicates over HTTP: listed, merged, found under both ids, and merges undone."""

import re
from uuid import UUID, uuid4

import httpx
from sqlalchemy import text

from services.api.resources.graph.pages import SHOWN_DECISIONS
from shared.database.engine import Database
from shared.graph import elements
from shared.graph.provenance.evidence import EvidenceInput
from shared.graph.provenance.sources import store_pages
from shared.graph.scope import GraphScope
from shared.graph.validation import Validators
from tests.support.api.clients import assert_problem
from tests.support.api.full_agent import AGENT, FullAgent
from tests.support.api.rows import get_agent

ROOT = "http://127.0.0.1"
PATH = f"/agents/{AGENT}"
TEXT = "They bought 2024 tonnes."


async def _add_nodes(database: Database, *names: str) -> list[UUID]:
    agent = await get_agent(database, AGENT)
    scope, validators = GraphScope(agent.owner_id, agent.id), Validators()
    page = {"url": "https://press.example/makers", "title": ", ".join(names), "content": TEXT}
    async with database.transaction() as session:
        await store_pages(session, scope, {"results": [page]})
    node_ids = []
    for name in names:
        async with database.transaction() as session:
            node = await elements.add_node(
                session,
                scope,
                validators,
                type_name="Thing",
                name=name,
                properties={},
                evidence=[EvidenceInput(page["url"], TEXT)],
            )
        node_ids.append(node.id)
    return node_ids


async def test_duplicates_are_listed_merged_and_unmerged(
    api: httpx.AsyncClient, database: Database, full: FullAgent
) -> None:
    kept, merged, _ = await _add_nodes(
        database, "Vulcan Energy Resources", "Vulcan Energy Resource", "Orran"
    )
    duplicates = (await api.get(f"{PATH}/duplicates")).raise_for_status().json()
    (pair,) = duplicates["items"]
    assert {pair["node"]["id"], pair["other"]["id"]} == {str(kept), str(merged)}
    assert 0.55 <= pair["similarity"] < 1
    body = {"kept": str(kept), "merged": str(merged), "reason": " One  company. "}
    key = {"idempotency-key": "one"}
    response = await api.post(f"{PATH}/merges", json=body, headers=key)
    assert response.status_code == 201, response.text
    merge = response.json()
    assert (merge["kept_name"], merge["merged_name"], merge["reason"]) == (
        "Vulcan Energy Resources",
        "Vulcan Energy Resource",
        "One company.",
    )
    assert (merge["names"], merge["edges"], merge["dropped_edges"], merge["undone_at"]) == (
        1,
        0,
        0,
        None,
    )
    assert (await api.post(f"{PATH}/merges", json=body, headers=key)).json() == merge
    for node_id in (kept, merged):
        node = (await api.get(f"{PATH}/nodes/{node_id}")).raise_for_status().json()
        assert (node["id"], node["names"]) == (str(kept), ["Vulcan Energy Resource"])
        for path in ("edges", "neighbourhood"):
            (await api.get(f"{PATH}/nodes/{node_id}/{path}")).raise_for_status()
    assert (await api.get(f"{PATH}/duplicates")).json()["items"] == []
    assert (await api.get(f"{PATH}/merges")).json()["items"] == [merge]
    undone = (await api.post(f"{PATH}/merges/{merge['id']}/undo")).raise_for_status().json()
    assert undone["undone_at"] is not None
    assert (await api.post(f"{PATH}/merges/{merge['id']}/undo")).json() == undone
    assert (await api.get(f"{PATH}/merges/{merge['id']}")).json() == undone
    node = (await api.get(f"{PATH}/nodes/{merged}")).json()
    assert (node["id"], node["names"]) == (str(merged), [])


async def test_an_edge_between_merged_nodes_is_found_by_its_id_only(
    api: httpx.AsyncClient, full: FullAgent
) -> None:
    path = f"{PATH}/edges/{full.edge_id}"
    before = (await api.get(path)).raise_for_status().json()
    quotes = (await api.get(f"{path}/evidence")).raise_for_status().json()["items"]
    kept, merged = before["source_id"], before["target_id"]
    body = {"kept": kept, "merged": merged, "reason": "One thing."}
    merge = (await api.post(f"{PATH}/merges", json=body)).raise_for_status().json()
    assert merge["dropped_edges"] == 0

    history = (await api.get(path)).raise_for_status().json()
    assert (history["source_id"], history["target_id"]) == (kept, kept)
    assert history["properties"] == before["properties"]
    assert [each["quote"] for each in history["evidence"]["items"]] == [
        each["quote"] for each in quotes
    ]
    graph = (await api.get(f"{PATH}/graph")).raise_for_status().json()
    for listed in (
        graph["edges"],
        (await api.get(f"{PATH}/edges")).json()["items"],
        (await api.get(f"{PATH}/edges", params={"source_id": kept})).json()["items"],
        (await api.get(f"{PATH}/nodes/{kept}/edges")).json()["items"],
        (await api.get(f"{PATH}/nodes/{kept}/neighbourhood")).json()["edges"],
        (await api.get(f"{PATH}/nodes/{kept}")).json()["edges"]["items"],
    ):
        assert all(edge["source_id"] != edge["target_id"] for edge in listed)
    assert graph["counts"]["edges"] == len(graph["edges"])
    page = await api.get(
        f"{ROOT}/agents/{full.agent_id}/edges/{full.edge_id}",
        headers={"accept": "text/html"},
        follow_redirects=True,
    )
    assert page.url.path.endswith(history["id"])
    assert "nodes that have since been merged" in page.text

    (await api.post(f"{PATH}/merges/{merge['id']}/undo")).raise_for_status()
    assert (await api.get(path)).json() == before


async def test_an_invalid_merge_is_rejected_with_a_reason(
    api: httpx.AsyncClient, database: Database, full: FullAgent
) -> None:
    one, other, third = await _add_nodes(database, "Halden", "Orran", "Vulcan")

    async def merge(kept: object, merged: object, reason: str = "x") -> httpx.Response:
        body = {"kept": str(kept), "merged": str(merged), "reason": reason}
        return await api.post(f"{PATH}/merges", json=body)

    assert_problem(await merge(one, one), 409, "Not merged", "both ids refer to 'Halden'")
    assert_problem(await merge(one, full.analysis_id), 409, "cannot be merged")
    unknown_id = uuid4()
    assert_problem(await merge(one, unknown_id), 404, str(unknown_id))
    assert_problem(await merge(unknown_id, one), 404, str(unknown_id))
    assert_problem(await merge(one, other, " "), 422, "reason: enter 1 to 500 characters")
    assert_problem(await merge(one, other, "\x00"), 422, "NUL")
    first = (await merge(one, other)).raise_for_status().json()
    second = (await merge(third, one)).raise_for_status().json()
    response = await api.post(f"{PATH}/merges/{first['id']}/undo")
    assert_problem(response, 409, "Not undone", second["id"], "undo it first")
    assert (await api.get(f"{PATH}/merges/{first['id']}")).json()["kept_name"] is None
    assert_problem(await api.post(f"{PATH}/merges/{uuid4()}/undo"), 404)
    assert_problem(await api.get(f"{PATH}/merges/{uuid4()}"), 404)


async def test_lists_of_duplicates_and_merges_are_paginated(
    api: httpx.AsyncClient, database: Database, full: FullAgent
) -> None:
    ids = await _add_nodes(
        database, *(f"Vulcan Energy {end}" for end in ("Resources", "Resource", "Resourced"))
    )
    for merged in ids[1:]:
        body = {"kept": str(ids[0]), "merged": str(merged), "reason": "x"}
        (await api.post(f"{PATH}/merges", json=body)).raise_for_status()
    for path, count in (("merges", 2), ("duplicates", 0)):
        items, cursor = [], None
        while True:
            params = {"limit": 1} | ({"cursor": cursor} if cursor else {})
            page = (await api.get(f"{PATH}/{path}", params=params)).raise_for_status().json()
            items += page["items"]
            if (cursor := page["next"]) is None:
                break
        assert len(items) == count


async def test_nodes_declared_distinct_are_no_duplicates_until_that_is_forgotten(
    api: httpx.AsyncClient, database: Database, full: FullAgent
) -> None:
    one, other, third = await _add_nodes(
        database, "Vulcan Energy Resources", "Vulcan Energy Resource", "Vulcan Energy Resourced"
    )

    async def candidates() -> set[frozenset[str]]:
        page = (await api.get(f"{PATH}/duplicates")).raise_for_status().json()
        return {frozenset((pair["node"]["id"], pair["other"]["id"])) for pair in page["items"]}

    distinct = frozenset((str(one), str(other)))
    others = {frozenset((str(one), str(third))), frozenset((str(other), str(third)))}
    assert await candidates() == {distinct, *others}
    key = {"Idempotency-Key": "distinct"}
    body = {"one": str(other), "other": str(one)}
    response = await api.post(f"{PATH}/distinct-pairs", json=body, headers=key)
    assert response.status_code == 201
    pair = response.json()
    assert {pair["one"]["name"], pair["other"]["name"]} == {
        "Vulcan Energy Resources",
        "Vulcan Energy Resource",
    }
    assert (await api.post(f"{PATH}/distinct-pairs", json=body, headers=key)).json() == pair
    assert await candidates() == others
    again = (await api.post(f"{PATH}/distinct-pairs", json=body)).raise_for_status().json()
    assert (again["id"], again["made_at"] > pair["made_at"]) == (pair["id"], True)
    assert (await api.get(f"{PATH}/distinct-pairs")).json()["items"] == [again]
    assert (await api.delete(f"{PATH}/distinct-pairs/{pair['id']}")).status_code == 204
    assert (await api.get(f"{PATH}/distinct-pairs")).json()["items"] == []
    assert await candidates() == {distinct, *others}
    assert_problem(await api.delete(f"{PATH}/distinct-pairs/{pair['id']}"), 404)


async def test_a_distinct_pair_is_a_candidate_again_when_one_has_another_name(
    api: httpx.AsyncClient, database: Database, full: FullAgent
) -> None:
    one, other = await _add_nodes(database, "Vulcan Energy Resources", "Vulcan Energy Resource")
    body = {"one": str(one), "other": str(other)}
    (await api.post(f"{PATH}/distinct-pairs", json=body)).raise_for_status()
    assert (await api.get(f"{PATH}/duplicates")).json()["items"] == []
    async with database.transaction() as session:
        await session.execute(
            text("update graph_nodes set name = 'Vulcan Energy Resources AG' where id = :id"),
            {"id": one},
        )
    (pair,) = (await api.get(f"{PATH}/duplicates")).json()["items"]
    assert {pair["node"]["name"], pair["other"]["name"]} == {
        "Vulcan Energy Resources AG",
        "Vulcan Energy Resource",
    }


async def test_a_distinct_pair_holds_after_a_merge_of_one_is_undone(
    api: httpx.AsyncClient, database: Database, full: FullAgent
) -> None:
    one, other, third = await _add_nodes(
        database, "Vulcan Energy Resources", "Vulcan Energy Resource", "Orran"
    )
    body = {"one": str(one), "other": str(other)}
    (await api.post(f"{PATH}/distinct-pairs", json=body)).raise_for_status()
    merging = {"kept": str(third), "merged": str(one), "reason": "x"}
    merge = (await api.post(f"{PATH}/merges", json=merging)).raise_for_status().json()
    (await api.post(f"{PATH}/merges/{merge['id']}/undo")).raise_for_status()
    assert (await api.get(f"{PATH}/duplicates")).json()["items"] == []


async def test_an_invalid_distinct_pair_is_rejected_with_a_reason(
    api: httpx.AsyncClient, database: Database, full: FullAgent
) -> None:
    (one,) = await _add_nodes(database, "Halden")

    async def declare(first: object, second: object) -> httpx.Response:
        body = {"one": str(first), "other": str(second)}
        return await api.post(f"{PATH}/distinct-pairs", json=body)

    unknown_id = uuid4()
    assert_problem(await declare(one, unknown_id), 404, str(unknown_id))
    assert_problem(await declare(unknown_id, one), 404, str(unknown_id))
    assert_problem(await declare(one, one), 409, "only nodes of the same type")
    assert_problem(await declare(one, full.analysis_id), 409, "only nodes of the same type")


async def test_the_page_of_duplicates_compares_the_two_nodes(
    api: httpx.AsyncClient, database: Database, full: FullAgent
) -> None:
    one, other = await _add_nodes(database, "Vulcan Energy Resources", "Vulcan Energy Resource")
    pages = f"{ROOT}/agents/{full.agent_id}"
    html = {"accept": "text/html"}
    for path in ("/duplicates", f"/duplicates?node={one}", f"/duplicates?node={other}"):
        page = (await api.get(f"{pages}{path}", headers=html)).raise_for_status().text
        assert page.count('class="panel pair"') == 1, path
        assert "Not the same" in page
    alone = await api.get(f"{pages}/duplicates?node={full.node_id}", headers=html)
    assert "No other node has a similar name" in alone.raise_for_status().text


async def test_the_review_is_linked_only_where_there_is_something(
    api: httpx.AsyncClient, database: Database, full: FullAgent
) -> None:
    pages = f"{ROOT}/agents/{full.agent_id}"

    async def is_linked() -> bool:
        page = await api.get(f"{pages}/graph", headers={"accept": "text/html"})
        return f'href="/agents/{full.agent_id}/duplicates"' in page.raise_for_status().text

    assert not await is_linked()
    one, other = await _add_nodes(database, "Vulcan Energy Resources", "Vulcan Energy Resource")
    assert await is_linked()
    body = {"one": str(one), "other": str(other)}
    (await api.post(f"{PATH}/distinct-pairs", json=body)).raise_for_status()
    assert await is_linked(), "the decision can be undone"


async def test_the_review_lists_all_decisions_page_by_page(
    api: httpx.AsyncClient, database: Database, full: FullAgent
) -> None:
    names = [f"Vulcan Energy {number}" for number in range(SHOWN_DECISIONS + 2)]
    first, *others = await _add_nodes(database, *names)
    for other in others:
        body = {"one": str(first), "other": str(other)}
        (await api.post(f"{PATH}/distinct-pairs", json=body)).raise_for_status()
    path, seen = f"{ROOT}/agents/{full.agent_id}/duplicates", 0
    while path:
        page = (await api.get(path)).raise_for_status().text
        seen += page.count("/forget")
        older = re.search(r'href="(\?distinct=[^"#]+)', page)
        path = f"{ROOT}/agents/{full.agent_id}/duplicates{older[1]}" if older else ""
    assert seen == len(others)
