"""Pages and evidence over HTTP, page checks, exports and verification."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, aclosing
from datetime import timedelta
from hashlib import sha256
from typing import Any
from uuid import uuid4

import httpx
import pytest
from sqlalchemy import func, select, update
from starlette.requests import ClientDisconnect

from services.api.resources.graph.exports import MAX_RUNNING, ExportResponse, Exports, Format
from shared.database.engine import Database
from shared.database.tables import Agent, Evidence, GraphNode, PageProbe, Source
from shared.enums import CheckFailure, ProbeKind
from shared.errors import TransientError
from shared.fetch.client import FetchError, UnsupportedTypeError
from shared.fetch.feeds import parse_feed
from shared.graph.conclusions import conclusions
from shared.graph.scope import GraphScope
from shared.graph.verification import journal
from tests.support.api.clients import assert_problem, create_agent
from tests.support.api.full_agent import AGENT, FullAgent
from tests.support.api.rows import delete_pages, get_agent
from tests.support.forecast_terms import ANALYSIS_TERMS
from tests.support.scheduling import ago

ROOT = "http://127.0.0.1"
OLDER, NEWER = ("https://press.example/2024", "https://press.example/2025")


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
        claim = {"property": "tonnes", "upcoming": False}
        assert newer["claims"] == [{**claim, "value": 2025, "holds": True}]
        assert older["claims"] == [{**claim, "value": 2024, "holds": False}]
        assert element["properties"] == {"tonnes": 2025}
        assert element["agreement"] == {
            "tonnes": {
                "sites": ["press.example"],
                "origins": [["press.example"]],
                "said_by": [],
                "barred": [],
                "others": [],
                "upcoming": [],
                "begins": None,
                "ended": None,
            }
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


async def test_the_page_of_a_node_shows_contested_and_upcoming_values(
    api: httpx.AsyncClient, database: Database, full: FullAgent
) -> None:
    path = f"/agents/{full.agent_id}/nodes/{full.node_id}"

    async def page() -> str:
        answer = await api.get(f"http://localhost{path}", headers={"accept": "text/html"})
        return " ".join(answer.raise_for_status().text.split())

    assert "Contested" not in await page()
    async with database.transaction() as session:
        await session.execute(
            update(Source).where(Source.url == OLDER).values(url="https://other.example/2024")
        )
        newest = select(func.max(Evidence.as_of)).scalar_subquery()
        await session.execute(update(Evidence).values(as_of=newest))
    text = await page()
    assert "Contested: 1 origin (other.example)" in text or "Contested: 1 origin (press" in text
    async with database.transaction() as session:
        later = func.statement_timestamp() + timedelta(days=40)
        older = select(Source.id).where(Source.url == "https://other.example/2024")
        of_older = Evidence.source_id.in_(older.scalar_subquery())
        await session.execute(update(Evidence).where(of_older).values(valid_from=later))
    text = await page()
    assert "Contested" not in text
    assert '<div class="upcoming"> <p>From ' in text
    assert "bought 2024 tonnes – ½ of all." in text
    assert "superseded claim" not in text


async def test_whose_words_a_value_is_stands_beside_it(
    api: httpx.AsyncClient, database: Database, full: FullAgent, element_paths: list[str]
) -> None:
    async with database.transaction() as session:
        name = (await session.get_one(GraphNode, full.node_id)).name
        speakers = {NEWER: "<b>Ada</b> Roe", OLDER: name}
        for url, speaker in speakers.items():
            pages = select(Source.id).where(Source.url == url)
            changed = update(Evidence).where(Evidence.source_id.in_(pages))
            await session.execute(changed.values(speaker=speaker))
    for path in element_paths:
        element = (await api.get(path)).json()
        newer, older = element["evidence"]["items"]
        assert (newer["speaker"], newer["speaker_id"]) == (speakers[NEWER], None)
        assert (older["speaker"], older["speaker_id"]) == (name, str(full.node_id))
        agreement = element["agreement"]["tonnes"]
        assert agreement["said_by"] == [speakers[NEWER]]
        assert agreement["others"][0]["said_by"] == [name]
        kind_and_id = path.removeprefix(f"/agents/{AGENT}")
        page = await api.get(
            f"{ROOT}/agents/{full.agent_id}{kind_and_id}", headers={"accept": "text/html"}
        )
        assert page.status_code == 200, page.text
        assert '<span class="speaker">&lt;b&gt;Ada&lt;/b&gt; Roe says</span>' in page.text
        assert "Only &lt;b&gt;Ada&lt;/b&gt; Roe says so." in page.text
        link = f'<a href="/agents/{full.agent_id}/nodes/{full.node_id}">{name}</a> says'
        assert link in page.text
        assert "<b>Ada" not in page.text


async def test_a_proof_names_the_speaker_beside_the_sentence(
    api: httpx.AsyncClient, database: Database, full: FullAgent
) -> None:
    agent = await get_agent(database, AGENT)
    async with database.transaction() as session:
        await session.execute(update(Evidence).values(speaker="Ada & Roe"))
        analysis_id = await conclusions.add_analysis(
            session,
            GraphScope(agent.owner_id, agent.id),
            name="It buys in 2025",
            kind="observation",
            summary="It buys.",
            content=f"Ada & Roe say that it bought 2025 of them [node:{full.node_id}].",
            **ANALYSIS_TERMS,
        )
    verification = (await api.get(f"/conclusions/{analysis_id}/verification")).json()
    assert verification["said_by"] == ["Ada & Roe"]
    assert {each["speaker"] for each in verification["evidence"]} == {"Ada & Roe"}
    [row] = verification["conclusions"][0]["proof"]
    assert (row["speaker"], row["origins"]) == ("Ada & Roe", 1)
    page = await api.get(
        f"{ROOT}/agents/{full.agent_id}/conclusions/{analysis_id}/chain",
        headers={"accept": "text/html"},
    )
    assert page.status_code == 200, page.text
    assert '<span class="speaker">Ada &amp; Roe says</span>' in page.text
    assert "All of it is what Ada &amp; Roe says." in page.text


async def test_a_site_that_is_barred_now_is_named_beside_the_value_that_it_supports(
    api: httpx.AsyncClient, database: Database, full: FullAgent, element_paths: list[str]
) -> None:
    path = f"/agents/{AGENT}"
    agent = await get_agent(database, AGENT)
    async with database.transaction() as session:
        analysis_id = await conclusions.add_analysis(
            session,
            GraphScope(agent.owner_id, agent.id),
            name="It buys in 2025",
            kind="observation",
            summary="It buys.",
            content=f"It bought 2025 of them [node:{full.node_id}].",
            **ANALYSIS_TERMS,
        )
    for barred, shown in ((["press.example"], ["press.example"]), (["ads.press.example"], [])):
        changed = await api.patch(path, json={"barred_domains": barred})
        assert changed.status_code == 200, changed.text
        for element_path in element_paths:
            element = (await api.get(element_path)).json()
            assert element["properties"] == {"tonnes": 2025}
            assert element["agreement"]["tonnes"]["sites"] == ["press.example"]
            assert element["agreement"]["tonnes"]["barred"] == shown
        verification = (await api.get(f"/conclusions/{analysis_id}/verification")).json()
        assert verification["barred_sites"] == shown
        assert verification["said_by"] == []
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


ERRORS = {
    "https://a.example/": "not reached: no response within 10 s",
    "https://b.example/feed": "unreadable: its feed cannot be read: <script>alert(1)</script>",
    "https://c.example/film": "unsupported type: its type 'video/mp4' is not supported",
    "https://d.example/": None,
}


async def test_pages_that_cannot_be_watched_are_shown_with_the_reason(
    api: httpx.AsyncClient, database: Database
) -> None:
    await create_agent(api, name="Lithium")
    await create_agent(api, name="Other")
    agent = await get_agent(database, "Lithium")
    async with database.transaction() as session:
        for url, error in ERRORS.items():
            kind = ProbeKind.FEED if "feed" in url else ProbeKind.PAGE
            values = {"failures": 0 if error is None else 3, "error": error, "checked_at": ago(60)}
            await session.insert(PageProbe, agent_id=agent.id, url=url, kind=kind, **values)
    every = (await api.get("/agents/Lithium/checks")).json()["items"]
    assert {each["url"]: each["error"] for each in every} == ERRORS
    for failed in (True, False):
        shown = (await api.get("/agents/Lithium/checks", params={"failed": failed})).json()["items"]
        assert all((each["error"] is not None) == failed for each in shown)
    assert (await api.get("/agents/Other/checks")).json()["items"] == []
    page = (await api.get(f"http://127.0.0.1/agents/{agent.id}/sources")).text
    assert "3 pages and feeds cannot be watched for changes" in page
    assert "not reached: no response within 10 s" in page
    assert "3 failures in a row" in page
    assert "<script>alert(1)" not in page
    assert "https://d.example/" not in page


@pytest.mark.parametrize("body", [b"", b"<html></html>", b"<rss", b"\xff\xfe", b'{"a": 1}'])
def test_a_feed_without_entries_to_read_is_unreadable(body: bytes) -> None:
    with pytest.raises(FetchError) as refusal:
        parse_feed(body, "https://b.example/feed")
    assert refusal.value.failure == CheckFailure.UNREADABLE


def test_failures_are_told_apart() -> None:
    assert FetchError("no response").failure == CheckFailure.NOT_REACHED
    assert UnsupportedTypeError("its type").failure == CheckFailure.UNSUPPORTED


async def test_elements_without_evidence_are_reported_as_unproven(
    api: httpx.AsyncClient, database: Database, full: FullAgent
) -> None:
    await delete_pages(database, await get_agent(database, AGENT))
    breaks, pages, params = list[Any](), list[Any](), {"limit": 3}
    while True:
        report = (await api.get(f"/agents/{AGENT}/verification", params=params)).json()
        breaks += report["breaks"]
        pages.append(report["checked"])
        if report["next"] is None:
            break
        params = {"limit": 3, "cursor": report["next"]}
    assert sum(page["sources"] for page in pages) == 0
    assert [sum(page[kind] > 0 for page in pages) for kind in ("nodes", "edges")] == [3, 1]
    assert sum(page["rows"] > 0 for page in pages) <= len(journal.TABLES)
    assert {fault["broken"] for fault in breaks} >= {"unproven"}
    chain = (await api.get(f"/conclusions/{full.advice_id}/verification")).json()
    assert chain["holds"] is False
    assert chain["conclusions"][0]["id"] == str(full.advice_id)
    assert_problem(await api.get(f"/conclusions/{full.node_id}/verification"), 404)
    for cursor in ("x", "WzEsInZlcmlmaWNhdGlvbiIsOSwiIl0"):
        response = await api.get(f"/agents/{AGENT}/verification", params={"cursor": cursor})
        assert_problem(response, 422, "cursor")


async def test_each_format_has_its_media_type(api: httpx.AsyncClient, full: FullAgent) -> None:
    for export_format, media_type in (
        ("jsonl", "application/x-ndjson"),
        ("graphml", "application/graphml+xml"),
        ("prov", "application/ld+json"),
    ):
        response = await api.get(f"/agents/{AGENT}/export", params={"format": export_format})
        assert response.status_code == 200
        assert response.headers["content-type"] == media_type
        assert "Halden Cells" in response.text
    assert_problem(await api.get(f"/agents/{AGENT}/export?format=csv"), 422, "format")
    assert_problem(await api.get("/agents/nobody/export"), 404)


async def test_the_number_of_running_exports_is_limited(
    database: Database, full: FullAgent
) -> None:
    async with database.transaction() as session:
        agent = await session.get_one(Agent, full.agent_id)
    exports, scope = Exports(database), GraphScope(agent.owner_id, agent.id)
    async with AsyncExitStack() as running:
        for _ in range(MAX_RUNNING):
            body = exports.of(scope, Format.PROV).body_iterator
            await running.enter_async_context(aclosing(body))  # type: ignore[type-var]  # a generator
            assert await anext(aiter(body))
        with pytest.raises(TransientError, match="already running, which is the maximum"):
            exports.of(scope, Format.JSONL)
    assert exports.of(scope, Format.JSONL)


@pytest.mark.parametrize("version", ["2.0", "2.4"])
async def test_an_export_ends_when_the_client_disconnects(version: str) -> None:
    """In both ways in which the server reports a disconnect."""
    started, ended = asyncio.Event(), asyncio.Event()

    async def chunks() -> AsyncIterator[bytes]:
        try:
            yield b"first"
            yield b"second"
            started.set()
            await asyncio.Event().wait()
        finally:
            ended.set()

    async def receive() -> dict[str, str]:
        await started.wait()
        return {"type": "http.disconnect"}

    async def send(message: Any) -> None:
        if version == "2.4" and message.get("body") == b"second":
            raise OSError("the connection is closed")

    response = ExportResponse(chunks(), media_type="text/plain")
    scope = {"type": "http", "asgi": {"spec_version": version}}
    try:
        await response(scope, receive, send)
    except ClientDisconnect:
        assert version == "2.4"
    assert ended.is_set()
