"""Which watched pages and feeds could not be checked, and why: in the API, on the page of sources, and in words."""

import httpx
import pytest

from shared.database.engine import Database
from shared.database.tables import PageProbe
from shared.enums import CheckFailure, ProbeKind
from shared.fetch.client import FetchError, UnsupportedTypeError
from shared.fetch.feeds import parse_feed
from tests.support.api.clients import create_agent
from tests.support.api.rows import get_agent
from tests.support.scheduling import ago

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
