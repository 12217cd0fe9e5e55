"""Pages and evidence over HTTP."""

from hashlib import sha256
from uuid import uuid4

import httpx
import pytest
from sqlalchemy import func, update

from shared.database.engine import Database
from shared.database.tables import Source
from tests.support.api.clients import assert_problem
from tests.support.api.full_agent import AGENT, FullAgent, create_full_agent

OLDER, NEWER = ("https://press.example/2024", "https://press.example/2025")


@pytest.fixture
async def full(api: httpx.AsyncClient, database: Database) -> FullAgent:
    await api.get("/agents")  # creates the owner
    return await create_full_agent(database)


@pytest.fixture
def element_paths(full: FullAgent) -> list[str]:
    return [f"/agents/{AGENT}/nodes/{full.node_id}", f"/agents/{AGENT}/edges/{full.edge_id}"]


async def test_an_element_is_shown_with_its_evidence(
    api: httpx.AsyncClient, element_paths: list[str]
) -> None:
    for path in element_paths:
        element = (await api.get(path)).json()
        newer, older = element["evidence"]["items"]
        assert [newer["url"], older["url"]] == [NEWER, OLDER]
        assert older["quote"] == "bought 2024 tonnes – ½ of all."
        assert (older["first_byte"], older["end_byte"]) == (7, 7 + len(older["quote"].encode()))
        assert newer["claims"] == [{"property": "tonnes", "value": 2025, "holds": True}]
        assert older["claims"] == [{"property": "tonnes", "value": 2024, "holds": False}]
        assert element["properties"] == {"tonnes": 2025}
        assert element["agreement"] == {
            "tonnes": {"sites": ["press.example"], "barred": [], "others": []}
        }
        assert (older["retracted_at"], older["valid_from"]) == (None, None)
        page = (await api.get(f"{path}/evidence", params={"limit": 1})).json()
        rest = await api.get(f"{path}/evidence", params={"cursor": page["next"]})
        assert [*page["items"], *rest.json()["items"]] == [newer, older]


async def test_a_conclusion_has_no_evidence_of_its_own(
    api: httpx.AsyncClient, full: FullAgent
) -> None:
    analysis = (await api.get(f"/agents/{AGENT}/nodes/{full.analysis_id}")).json()
    assert analysis["evidence"] == {"items": [], "next": None}


async def test_no_claim_of_a_retracted_page_holds(
    api: httpx.AsyncClient, database: Database, element_paths: list[str]
) -> None:
    async with database.transaction() as session:
        await session.execute(
            update(Source)
            .where(Source.url == NEWER)
            .values(retracted_at=func.clock_timestamp(), retraction_reason="It was made up.")
        )
    for path in element_paths:
        newer, older = (await api.get(f"{path}/evidence")).json()["items"]
        assert newer["retracted_at"] is not None
        assert (newer["claims"][0]["holds"], older["claims"][0]["holds"]) == (False, True)


async def test_what_another_site_says_is_shown_beside_the_value(
    api: httpx.AsyncClient, database: Database, element_paths: list[str]
) -> None:
    async with database.transaction() as session:
        moved = update(Source).where(Source.url == OLDER)
        await session.execute(moved.values(url="https://other.example/2024"))
    for path in element_paths:
        element = (await api.get(path)).json()
        [other] = element["agreement"]["tonnes"]["others"]
        assert element["agreement"]["tonnes"]["sites"] == ["press.example"]
        assert (other["value"], other["sites"]) == (2024, ["other.example"])


async def test_a_site_that_is_barred_now_is_named_beside_the_value_that_it_supports(
    api: httpx.AsyncClient, full: FullAgent, element_paths: list[str]
) -> None:
    path = f"/agents/{AGENT}"
    for barred, shown in ((["press.example"], ["press.example"]), (["ads.press.example"], [])):
        changed = await api.patch(path, json={"barred_domains": barred})
        assert changed.status_code == 200, changed.text
        for element_path in element_paths:
            element = (await api.get(element_path)).json()
            assert element["properties"] == {"tonnes": 2025}
            assert element["agreement"]["tonnes"]["sites"] == ["press.example"]
            assert element["agreement"]["tonnes"]["barred"] == shown
        verification = (await api.get(f"/conclusions/{full.analysis_id}/verification")).json()
        assert verification["barred_sites"] == shown
        assert verification["sites"] == ([] if shown else ["press.example"])


async def test_the_text_of_a_page_is_shown_but_not_listed(
    api: httpx.AsyncClient, full: FullAgent
) -> None:
    path = f"/agents/{AGENT}/sources"
    sources = (await api.get(path, params={"retracted": False})).json()["items"]
    assert {source["url"] for source in sources} == {OLDER, NEWER}
    assert all("text" not in source for source in sources)
    filtered = (await api.get(path, params={"url": OLDER})).json()["items"]
    assert filtered == [source for source in sources if source["url"] == OLDER]
    source = (await api.get(f"{path}/{filtered[0]['id']}")).json()
    assert source["text"] == "Halden bought 2024 tonnes – ½ of all."
    assert source["sha256"] == sha256(source["text"].encode()).hexdigest()


async def test_unknown_pages_and_elements_are_not_found(
    api: httpx.AsyncClient, full: FullAgent
) -> None:
    for path in ("sources/{}", "nodes/{}/evidence", "edges/{}/evidence"):
        assert_problem(await api.get(f"/agents/{AGENT}/{path.format(uuid4())}"), 404)
