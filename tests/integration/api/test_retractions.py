"""Pages retracted and restored over HTTP, and how lists then show what rests on them."""

from uuid import uuid4

import httpx
import pytest

from shared.database.engine import Database
from shared.graph.scope import GraphScope
from shared.graph.validation import Validators
from shared.runtime.settings import Settings
from tests.support.api.clients import assert_problem
from tests.support.api.full_agent import AGENT, FullAgent, create_full_agent
from tests.support.api.rows import delete_pages, get_agent
from tests.support.api.serving import serve_api
from tests.support.api.signed_in import create_token
from tests.support.graph.agent_graph import AgentGraph
from tests.support.graph.retraction_graph import RetractionGraph
from tests.support.waiting import wait_until

PAGE, OTHER_PAGE = "https://false.example/page", "https://true.example/page"
RETRACTION = {"source": PAGE, "reason": "the paper took it back"}
RETRACTIONS = f"/agents/{AGENT}/retractions"


@pytest.fixture
async def full(database: Database) -> FullAgent:
    return await create_full_agent(database)


@pytest.fixture
async def retraction_graph(database: Database, full: FullAgent) -> RetractionGraph:
    """The full agent's node and edge rest on PAGE, as do its analysis and advice."""
    agent = await get_agent(database, AGENT)
    await delete_pages(database, agent)
    retraction_graph = RetractionGraph(
        AgentGraph(database, GraphScope(agent.owner_id, agent.id), Validators())
    )
    await retraction_graph.says(PAGE, {"summary": "It buys."}, node_id=full.node_id)
    await retraction_graph.says(PAGE, {}, edge_id=full.edge_id)
    return retraction_graph


async def _retract(api: httpx.AsyncClient, retraction_graph: RetractionGraph) -> str:
    response = await api.post(RETRACTIONS, json=RETRACTION)
    assert response.status_code == 201, response.text
    assert (response.json()["is_pending"], response.json()["left"]) == (True, 2)
    await retraction_graph.work_off()
    return str(response.json()["id"])


async def test_everything_that_rests_on_a_retracted_page_is_flagged(
    api: httpx.AsyncClient, retraction_graph: RetractionGraph, full: FullAgent
) -> None:
    retraction_id = await _retract(api, retraction_graph)
    nodes = (await api.get(f"/agents/{AGENT}/nodes")).json()["items"]
    flagged = {node["id"] for node in nodes if node["unsupported_since"]}
    assert flagged == {str(full.node_id)}
    edge = (await api.get(f"/agents/{AGENT}/edges/{full.edge_id}")).json()
    assert edge["unsupported_since"]
    assert str(full.analysis_id) in {conclusion["id"] for conclusion in edge["cited_by"]}
    for kind, conclusion_id in (("analyses", full.analysis_id), ("advice", full.advice_id)):
        conclusion = (await api.get(f"/agents/{AGENT}/{kind}/{conclusion_id}")).json()
        assert conclusion["doubted_since"]
    retraction = (await api.get(f"{RETRACTIONS}/{retraction_id}")).json()
    assert (retraction["is_pending"], retraction["left"], retraction["sources"]) == (False, 0, 1)
    assert (retraction["analyses"] > 0, retraction["advice"] > 0) == (True, True)
    items = (await api.get("/inbox")).json()["items"]
    assert [item["kind"] for item in items if PAGE in item["summary"]] == ["notice"]


async def test_restoring_a_page_removes_all_flags(
    api: httpx.AsyncClient, retraction_graph: RetractionGraph, full: FullAgent
) -> None:
    retraction_id = await _retract(api, retraction_graph)
    for _ in range(2):
        restored = await api.post(f"{RETRACTIONS}/{retraction_id}/restore")
        assert restored.status_code == 200
        assert restored.json()["restored_at"]
        await retraction_graph.work_off()
    node = (await api.get(f"/agents/{AGENT}/nodes/{full.node_id}")).json()
    assert node["unsupported_since"] is None
    assert node["properties"] == {"summary": "It buys."}
    analysis = (await api.get(f"/agents/{AGENT}/analyses/{full.analysis_id}")).json()
    assert analysis["doubted_since"] is None
    active = await api.get(RETRACTIONS, params={"active": True, "source": PAGE})
    assert active.json()["items"] == []
    restored_list = await api.get(RETRACTIONS, params={"active": False, "source": PAGE})
    assert [retraction["id"] for retraction in restored_list.json()["items"]] == [retraction_id]


async def test_a_node_shows_the_conclusions_that_cite_it(
    api: httpx.AsyncClient, retraction_graph: RetractionGraph, full: FullAgent
) -> None:
    node = (await api.get(f"/agents/{AGENT}/nodes/{full.analysis_id}")).json()
    assert str(full.advice_id) in {conclusion["id"] for conclusion in node["cited_by"]}


async def test_pages_are_listed_and_shown(
    api: httpx.AsyncClient, retraction_graph: RetractionGraph
) -> None:
    await _retract(api, retraction_graph)
    (page,) = (await api.get(f"/agents/{AGENT}/sources", params={"url": PAGE})).json()["items"]
    assert page["retraction_reason"] == RETRACTION["reason"]
    source = (await api.get(f"/agents/{AGENT}/sources/{page['id']}")).json()
    assert source["text"] == "A page."
    unretracted = await api.get(f"/agents/{AGENT}/sources", params={"retracted": False})
    assert unretracted.json()["items"] == []
    for reference in (page["id"], PAGE, f"{PAGE}/?utm_source=letter", "http://false.example/page"):
        (found,) = (await api.get(RETRACTIONS, params={"source": reference})).json()["items"]
        response = await api.post(RETRACTIONS, json={"source": reference, "reason": "again"})
        assert (response.json()["id"], found["site"]) == (found["id"], None)


async def test_a_repeated_retraction_returns_the_first(
    api: httpx.AsyncClient, retraction_graph: RetractionGraph
) -> None:
    retraction_id = await _retract(api, retraction_graph)
    response = await api.post(RETRACTIONS, json={**RETRACTION, "reason": "another reason"})
    assert response.status_code == 201
    assert (response.json()["id"], response.json()["reason"]) == (
        retraction_id,
        RETRACTION["reason"],
    )


async def test_unknown_pages_and_retractions_are_not_found(
    api: httpx.AsyncClient, full: FullAgent
) -> None:
    nowhere = {"source": "https://nowhere.example", "reason": "x"}
    assert_problem(await api.post(RETRACTIONS, json=nowhere), 404, "nowhere.example")
    assert_problem(await api.post(f"{RETRACTIONS}/{uuid4()}/restore"), 404)
    assert_problem(await api.get(f"{RETRACTIONS}/{uuid4()}"), 404)
    assert_problem(await api.get(f"/agents/{AGENT}/sources/{uuid4()}"), 404)
    assert_problem(await api.post(RETRACTIONS, json={**nowhere, "reason": " "}), 422)


async def test_a_site_is_barred_as_the_preview_says(
    api: httpx.AsyncClient, retraction_graph: RetractionGraph, full: FullAgent
) -> None:
    """And restored with all of its pages."""
    await retraction_graph.says("http://news.false.example/2", {}, node_id=full.node_id)
    of_agent = f"/agents/{AGENT}"
    preview = f"{RETRACTIONS}/preview"
    of_page = (await api.post(preview, json={"source": PAGE})).json()
    foreseen = (await api.post(preview, json={"site": "False.example"})).json()
    assert (of_page["pages"], of_page["unsupported"], of_page["site"]) == (1, 1, None)
    assert (foreseen["pages"], foreseen["sources"], foreseen["unsupported"]) == (2, 2, 2)
    assert (foreseen["site"], foreseen["url"]) == ("false.example", "false.example")
    # Nothing has happened yet.
    assert (await api.get(RETRACTIONS, params={"source": PAGE})).json()["items"] == []
    assert (await api.get(of_agent)).json()["barred_domains"] == []

    site = {"site": "false.example", "reason": "it was bought"}
    barred = (await api.post(RETRACTIONS, json=site)).json()
    assert (barred["site"], barred["url"], barred["sources"]) == (
        *("false.example", "false.example"),
        2,
    )
    await retraction_graph.work_off()
    assert (await api.get(of_agent)).json()["barred_domains"] == ["false.example"]
    assert len((await retraction_graph.state()).unsupported) == foreseen["unsupported"]
    done = (await api.get(f"{RETRACTIONS}/{barred['id']}")).json()
    assert (done["analyses"], done["advice"]) == (foreseen["analyses"], foreseen["advice"])
    (found,) = (await api.get(RETRACTIONS, params={"source": PAGE})).json()["items"]
    assert found["id"] == barred["id"]

    await api.post(f"{RETRACTIONS}/{barred['id']}/restore")
    await retraction_graph.work_off()
    assert (await api.get(of_agent)).json()["barred_domains"] == []
    state = await retraction_graph.state()
    assert (state.unsupported, state.doubted) == (frozenset(), frozenset())


async def test_what_cannot_be_barred_is_refused_and_nothing_changes(
    api: httpx.AsyncClient, retraction_graph: RetractionGraph
) -> None:
    of_agent = f"/agents/{AGENT}"
    await api.patch(of_agent, json={"preferred_domains": ["news.false.example"]})
    refused = await api.post(RETRACTIONS, json={"site": "false.example", "reason": "bought"})
    assert_problem(refused, 409, "news.false.example")
    for site in ("co.uk", "https://false.example/", "127.0.0.1", "", "a b"):
        body = {"site": site, "reason": "bought"}
        assert_problem(await api.post(RETRACTIONS, json=body), 422)
        assert_problem(await api.post(f"{RETRACTIONS}/preview", json={"site": site}), 422)
    both = {"site": "other.example", "source": PAGE, "reason": "bought"}
    assert_problem(await api.post(RETRACTIONS, json=both), 422)
    assert_problem(await api.post(RETRACTIONS, json={"reason": "bought"}), 422)
    assert_problem(await api.post(f"{RETRACTIONS}/preview", json={}), 422)
    nowhere = {"source": "https://nowhere.example"}
    assert_problem(await api.post(f"{RETRACTIONS}/preview", json=nowhere), 404)
    domains = [f"site{number}.example" for number in range(50)]
    await api.patch(of_agent, json={"barred_domains": domains, "preferred_domains": []})
    refused = await api.post(RETRACTIONS, json={"site": "false.example", "reason": "bought"})
    assert_problem(refused, 409, "50 domains")
    # It is barred already.
    body = {"site": "site1.example", "reason": "bought"}
    assert (await api.post(RETRACTIONS, json=body)).status_code == 201
    assert (await api.get(of_agent)).json()["barred_domains"] == domains
    assert (await retraction_graph.state()).unsupported == frozenset()


async def test_a_running_api_completes_pending_retractions(
    settings: Settings, retraction_graph: RetractionGraph, full: FullAgent
) -> None:
    headers = {"Authorization": f"Bearer {await create_token(settings)}"}
    # Left by an earlier process.
    retraction_id = await retraction_graph.ask_retract(PAGE)
    with serve_api(settings) as url:
        async with httpx.AsyncClient(
            base_url=f"{url}/api/v1", headers=headers, verify=False
        ) as api:

            async def is_done() -> bool:
                return not (await api.get(f"{RETRACTIONS}/{retraction_id}")).json()["is_pending"]

            await wait_until(is_done, what="the retraction to be done")
            assert full.analysis_id in await retraction_graph.doubted()
            await retraction_graph.says(OTHER_PAGE, {"summary": "It buys."}, node_id=full.node_id)
            await retraction_graph.says(OTHER_PAGE, {}, edge_id=full.edge_id)
            await wait_until(
                lambda: _has_no_doubts(retraction_graph), what="the doubts to be lifted"
            )
            await api.post(f"{RETRACTIONS}/{retraction_id}/restore")
            await wait_until(is_done, what="the page to be restored")
    assert await retraction_graph.doubted() == set()


async def _has_no_doubts(retraction_graph: RetractionGraph) -> bool:
    return not await retraction_graph.doubted()
