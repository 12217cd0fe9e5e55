"""What the api tells of pages, and of what rests on them."""

from hashlib import sha256
from uuid import uuid4

import httpx
import pytest
from sqlalchemy import func, update

from shared.database.engine import Database
from shared.database.tables import Source
from tests.support.api.asking import assert_problem
from tests.support.api.full import AGENT, Full, full_agent

OLDER, NEWER = ("https://press.example/2024", "https://press.example/2025")


@pytest.fixture
async def full(api: httpx.AsyncClient, database: Database) -> Full:
    await api.get("/agents")  # makes the owner
    return await full_agent(database)


@pytest.fixture
def things(full: Full) -> list[str]:
    return [f"/agents/{AGENT}/nodes/{full.node_id}", f"/agents/{AGENT}/edges/{full.edge_id}"]


async def test_what_a_thing_rests_on_is_told_with_its_quotes(
    api: httpx.AsyncClient, things: list[str]
) -> None:
    for path in things:
        told = (await api.get(path)).json()
        newer, older = told["evidence"]["items"]
        assert [newer["url"], older["url"]] == [NEWER, OLDER]
        assert older["quote"] == "bought 2024 tonnes – ½ of all."
        assert (older["first_byte"], older["end_byte"]) == (7, 7 + len(older["quote"].encode()))
        assert newer["claims"] == [{"property": "tonnes", "value": 2025, "holds": True}]
        assert older["claims"] == [{"property": "tonnes", "value": 2024, "holds": False}]
        assert told["properties"] == {"tonnes": 2025}
        assert (older["retracted_at"], older["valid_from"]) == (None, None)
        page = (await api.get(f"{path}/evidence", params={"limit": 1})).json()
        rest = await api.get(f"{path}/evidence", params={"cursor": page["next"]})
        assert [*page["items"], *rest.json()["items"]] == [newer, older]


async def test_a_conclusion_rests_on_no_page(api: httpx.AsyncClient, full: Full) -> None:
    told = (await api.get(f"/agents/{AGENT}/nodes/{full.analysis_id}")).json()
    assert told["evidence"] == {"items": [], "next": None}


async def test_of_a_retracted_page_nothing_holds(
    api: httpx.AsyncClient, database: Database, things: list[str]
) -> None:
    async with database.transaction() as session:
        await session.execute(
            update(Source)
            .where(Source.url == NEWER)
            .values(retracted_at=func.clock_timestamp(), retraction_reason="It was made up.")
        )
    for path in things:
        newer, older = (await api.get(f"{path}/evidence")).json()["items"]
        assert newer["retracted_at"] is not None
        assert (newer["claims"][0]["holds"], older["claims"][0]["holds"]) == (False, True)


async def test_pages_are_listed_without_their_text_and_told_with_it(
    api: httpx.AsyncClient, full: Full
) -> None:
    path = f"/agents/{AGENT}/sources"
    listed = (await api.get(path, params={"retracted": False})).json()["items"]
    assert {each["url"] for each in listed} == {OLDER, NEWER}
    assert all("text" not in each for each in listed)
    at_one = (await api.get(path, params={"url": OLDER})).json()["items"]
    assert at_one == [each for each in listed if each["url"] == OLDER]
    told = (await api.get(f"{path}/{at_one[0]['id']}")).json()
    assert told["text"] == "Halden bought 2024 tonnes – ½ of all."
    assert told["sha256"] == sha256(told["text"].encode()).hexdigest()


async def test_what_is_not_there_is_told(api: httpx.AsyncClient, full: Full) -> None:
    for path in ("sources/{}", "nodes/{}/evidence", "edges/{}/evidence"):
        assert_problem(await api.get(f"/agents/{AGENT}/{path.format(uuid4())}"), 404)
