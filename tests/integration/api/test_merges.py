"""Doubles over HTTP: told, made one, found under both ids, made two again."""

from uuid import UUID, uuid4

import httpx
import pytest

from shared.database.engine import Database
from shared.graph import nodes
from shared.graph.provenance.evidence import EvidenceInput
from shared.graph.scope import GraphScope
from shared.graph.validation import Validators
from tests.support.api.asking import assert_problem
from tests.support.api.full import AGENT, Full, full_agent
from tests.support.api.rows import row_of

PATH = f"/agents/{AGENT}"


@pytest.fixture
async def full(api: httpx.AsyncClient, database: Database) -> Full:
    await api.get("/agents")  # makes the owner
    return await full_agent(database)


async def _added(database: Database, *names: str) -> list[UUID]:
    agent = await row_of(database, AGENT)
    scope, validators = GraphScope(agent.owner_id, agent.id), Validators()
    found = []
    for name in names:
        async with database.transaction() as session:
            added = await nodes.add_node(
                session,
                scope,
                validators,
                type_name="Thing",
                name=name,
                properties={},
                grounds=[EvidenceInput("https://press.example/2024", "Halden bought 2024 tonnes")],
            )
        found.append(added.id)
    return found


async def test_doubles_are_told_made_one_and_two_again(
    api: httpx.AsyncClient, database: Database, full: Full
) -> None:
    kept, gone, _ = await _added(
        database, "Vulcan Energy Resources", "Vulcan Energy Resource", "Orran"
    )
    told = (await api.get(f"{PATH}/duplicates")).raise_for_status().json()
    (pair,) = told["items"]
    assert {pair["node"]["id"], pair["other"]["id"]} == {str(kept), str(gone)}
    assert 0.55 <= pair["similarity"] < 1
    given = {"kept": str(kept), "merged": str(gone), "reason": " One  company. "}
    key = {"idempotency-key": "one"}
    answer = await api.post(f"{PATH}/merges", json=given, headers=key)
    assert answer.status_code == 201, answer.text
    made = answer.json()
    assert (made["kept_name"], made["merged_name"], made["reason"]) == (
        "Vulcan Energy Resources",
        "Vulcan Energy Resource",
        "One company.",
    )
    assert (made["names"], made["edges"], made["dropped_edges"], made["undone_at"]) == (
        1,
        0,
        0,
        None,
    )
    assert (await api.post(f"{PATH}/merges", json=given, headers=key)).json() == made
    for asked in (kept, gone):
        node = (await api.get(f"{PATH}/nodes/{asked}")).raise_for_status().json()
        assert (node["id"], node["names"]) == (str(kept), ["Vulcan Energy Resource"])
        for path in ("edges", "neighbourhood"):
            (await api.get(f"{PATH}/nodes/{asked}/{path}")).raise_for_status()
    assert (await api.get(f"{PATH}/duplicates")).json()["items"] == []
    assert (await api.get(f"{PATH}/merges")).json()["items"] == [made]
    undone = (await api.post(f"{PATH}/merges/{made['id']}/undo")).raise_for_status().json()
    assert undone["undone_at"] is not None
    assert (await api.post(f"{PATH}/merges/{made['id']}/undo")).json() == undone
    assert (await api.get(f"{PATH}/merges/{made['id']}")).json() == undone
    node = (await api.get(f"{PATH}/nodes/{gone}")).json()
    assert (node["id"], node["names"]) == (str(gone), [])


async def test_what_cannot_be_merged_is_refused_in_words(
    api: httpx.AsyncClient, database: Database, full: Full
) -> None:
    one, other, third = await _added(database, "Halden", "Orran", "Vulcan")

    async def merge(kept: object, gone: object, reason: str = "x") -> httpx.Response:
        given = {"kept": str(kept), "merged": str(gone), "reason": reason}
        return await api.post(f"{PATH}/merges", json=given)

    assert_problem(await merge(one, one), 409, "Not merged", "both ids refer to 'Halden'")
    assert_problem(await merge(one, full.analysis_id), 409, "cannot be merged")
    nobody = uuid4()
    assert_problem(await merge(one, nobody), 404, str(nobody))
    assert_problem(await merge(nobody, one), 404, str(nobody))
    assert_problem(await merge(one, other, " "), 422, "reason: it has 0 characters")
    assert_problem(await merge(one, other, "\x00"), 422, "NUL")
    first = (await merge(one, other)).raise_for_status().json()
    second = (await merge(third, one)).raise_for_status().json()
    refused = await api.post(f"{PATH}/merges/{first['id']}/undo")
    assert_problem(refused, 409, "Not undone", second["id"], "undo it first")
    assert (await api.get(f"{PATH}/merges/{first['id']}")).json()["kept_name"] is None
    assert_problem(await api.post(f"{PATH}/merges/{uuid4()}/undo"), 404)
    assert_problem(await api.get(f"{PATH}/merges/{uuid4()}"), 404)


async def test_lists_of_doubles_and_merges_are_pages(
    api: httpx.AsyncClient, database: Database, full: Full
) -> None:
    ids = await _added(
        database, *(f"Vulcan Energy {end}" for end in ("Resources", "Resource", "Resourced"))
    )
    for gone in ids[1:]:
        given = {"kept": str(ids[0]), "merged": str(gone), "reason": "x"}
        (await api.post(f"{PATH}/merges", json=given)).raise_for_status()
    for listed, count in (("merges", 2), ("duplicates", 0)):
        found, cursor = [], None
        while True:
            params = {"limit": 1} | ({"cursor": cursor} if cursor else {})
            page = (await api.get(f"{PATH}/{listed}", params=params)).raise_for_status().json()
            found += page["items"]
            if (cursor := page["next"]) is None:
                break
        assert len(found) == count
