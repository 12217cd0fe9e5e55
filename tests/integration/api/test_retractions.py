"""Pages retracted and restored over HTTP, and what lists then show of what rests on them."""

from uuid import uuid4

import httpx
import pytest

from shared.database.engine import Database
from shared.graph.scope import GraphScope
from shared.graph.validation import Validators
from shared.runtime.settings import Settings
from tests.support.api.asking import assert_problem
from tests.support.api.full import AGENT, Full, full_agent
from tests.support.api.rows import forget_pages, row_of
from tests.support.api.serving import served
from tests.support.api.signed_in import token_of
from tests.support.graph.library import Library
from tests.support.graph.world import World
from tests.support.waiting import until

PAGE, ANOTHER = "https://false.example/page", "https://true.example/page"
BECAUSE = {"source": PAGE, "reason": "the paper took it back"}
RETRACTIONS = f"/agents/{AGENT}/retractions"


@pytest.fixture
async def full(database: Database) -> Full:
    return await full_agent(database)


@pytest.fixture
async def library(database: Database, full: Full) -> Library:
    """The full agent's node and edge rest on PAGE, and so do its analysis and its advice."""
    agent = await row_of(database, AGENT)
    await forget_pages(database, agent)
    library = Library(World(database, GraphScope(agent.owner_id, agent.id), Validators()))
    await library.says(PAGE, {"summary": "It buys."}, node_id=full.node_id)
    await library.says(PAGE, {}, edge_id=full.edge_id)
    return library


async def _retracted(api: httpx.AsyncClient, library: Library) -> str:
    made = await api.post(RETRACTIONS, json=BECAUSE)
    assert made.status_code == 201, made.text
    assert (made.json()["is_pending"], made.json()["left"]) == (True, 2)
    await library.work_off()
    return str(made.json()["id"])


async def test_what_rests_on_it_is_shown_with_its_flag(
    api: httpx.AsyncClient, library: Library, full: Full
) -> None:
    made = await _retracted(api, library)
    nodes = (await api.get(f"/agents/{AGENT}/nodes")).json()["items"]
    flagged = {node["id"] for node in nodes if node["unsupported_since"]}
    assert flagged == {str(full.node_id)}
    edge = (await api.get(f"/agents/{AGENT}/edges/{full.edge_id}")).json()
    assert edge["unsupported_since"]
    assert str(full.analysis_id) in {each["id"] for each in edge["cited_by"]}
    for of_kind, conclusion in (("analyses", full.analysis_id), ("advice", full.advice_id)):
        told = (await api.get(f"/agents/{AGENT}/{of_kind}/{conclusion}")).json()
        assert told["doubted_since"]
    told = (await api.get(f"{RETRACTIONS}/{made}")).json()
    assert (told["is_pending"], told["left"], told["sources"]) == (False, 0, 1)
    assert (told["analyses"] > 0, told["advice"] > 0) == (True, True)
    notices = (await api.get("/inbox")).json()["items"]
    assert [item["kind"] for item in notices if PAGE in item["summary"]] == ["notice"]


async def test_restored_nothing_is_shown_any_more(
    api: httpx.AsyncClient, library: Library, full: Full
) -> None:
    made = await _retracted(api, library)
    for _ in range(2):
        restored = await api.post(f"{RETRACTIONS}/{made}/restore")
        assert restored.status_code == 200
        assert restored.json()["restored_at"]
        await library.work_off()
    node = (await api.get(f"/agents/{AGENT}/nodes/{full.node_id}")).json()
    assert node["unsupported_since"] is None
    assert node["properties"] == {"summary": "It buys."}
    told = (await api.get(f"/agents/{AGENT}/analyses/{full.analysis_id}")).json()
    assert told["doubted_since"] is None
    standing = await api.get(RETRACTIONS, params={"standing": True, "source": PAGE})
    assert standing.json()["items"] == []
    undone = await api.get(RETRACTIONS, params={"standing": False, "source": PAGE})
    assert [each["id"] for each in undone.json()["items"]] == [made]


async def test_the_node_tells_who_cites_it(
    api: httpx.AsyncClient, library: Library, full: Full
) -> None:
    node = (await api.get(f"/agents/{AGENT}/nodes/{full.analysis_id}")).json()
    assert str(full.advice_id) in {each["id"] for each in node["cited_by"]}


async def test_pages_are_listed_and_shown(api: httpx.AsyncClient, library: Library) -> None:
    await _retracted(api, library)
    (page,) = (await api.get(f"/agents/{AGENT}/sources", params={"url": PAGE})).json()["items"]
    assert page["retraction_reason"] == BECAUSE["reason"]
    shown = (await api.get(f"/agents/{AGENT}/sources/{page['id']}")).json()
    assert shown["text"] == "A page."
    others = await api.get(f"/agents/{AGENT}/sources", params={"retracted": False})
    assert others.json()["items"] == []
    by_id = await api.get(RETRACTIONS, params={"source": page["id"]})
    assert by_id.json()["items"] == []
    one = await api.post(RETRACTIONS, json={"source": page["id"], "reason": "this one"})
    assert one.json()["source_id"] == page["id"]


async def test_asked_twice_it_is_one(api: httpx.AsyncClient, library: Library) -> None:
    made = await _retracted(api, library)
    again = await api.post(RETRACTIONS, json={**BECAUSE, "reason": "another reason"})
    assert again.status_code == 201
    assert (again.json()["id"], again.json()["reason"]) == (made, BECAUSE["reason"])


async def test_what_is_not_there_is_told(api: httpx.AsyncClient, full: Full) -> None:
    nowhere = {"source": "https://nowhere.example", "reason": "x"}
    assert_problem(await api.post(RETRACTIONS, json=nowhere), 404, "nowhere.example")
    assert_problem(await api.post(f"{RETRACTIONS}/{uuid4()}/restore"), 404)
    assert_problem(await api.get(f"{RETRACTIONS}/{uuid4()}"), 404)
    assert_problem(await api.get(f"/agents/{AGENT}/sources/{uuid4()}"), 404)
    assert_problem(await api.post(RETRACTIONS, json={**nowhere, "reason": " "}), 422)


async def test_a_running_api_works_it_off(settings: Settings, library: Library, full: Full) -> None:
    shown = {"Authorization": f"Bearer {await token_of(settings)}"}
    # Left behind by a process before this one.
    left = await library.ask_retract(PAGE)
    with served(settings) as url:
        async with httpx.AsyncClient(base_url=f"{url}/api/v1", headers=shown) as api:

            async def is_done() -> bool:
                return not (await api.get(f"{RETRACTIONS}/{left}")).json()["is_pending"]

            await until(is_done, what="what was left behind to be done")
            assert full.analysis_id in await library.doubted()
            await library.says(ANOTHER, {"summary": "It buys."}, node_id=full.node_id)
            await library.says(ANOTHER, {}, edge_id=full.edge_id)
            await until(lambda: _nobody_doubts(library), what="the doubts to be lifted")
            await api.post(f"{RETRACTIONS}/{left}/restore")
            await until(is_done, what="the page to be restored")
    assert await library.doubted() == set()


async def _nobody_doubts(library: Library) -> bool:
    return not await library.doubted()
