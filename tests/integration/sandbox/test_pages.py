"""The sandbox serves its corpus as web pages and a feed, and follows a folder that changes."""

from pathlib import Path

import httpx
import pytest

from sandbox.http import corpus_loader
from sandbox.http.pages import FEED_URL
from sandbox.settings import SandboxSettings
from shared.fetch.client import Fetched
from shared.fetch.feeds import parse_feed
from shared.fetch.pages import page_content
from tests.support.sandbox.server import running_sandbox
from tests.support.waiting import wait_until

GOLD = "https://press.example/gold"


async def page(url: str, address: str, etag: str = "") -> httpx.Response:
    async with httpx.AsyncClient() as client:
        return await client.get(
            f"{url}/page", params={"url": address}, headers={"if-none-match": etag}
        )


async def test_a_document_is_a_page_that_declares_the_feed(url: str) -> None:
    answer = await page(url, GOLD)
    assert answer.status_code == 200
    assert "<p>Ghana exports gold. Togo has none.</p>" in answer.text
    content = page_content(Fetched(GOLD, answer.content, "text/html"))
    assert content.feeds == (FEED_URL,)
    unchanged = await page(url, GOLD, answer.headers["etag"])
    assert (unchanged.status_code, unchanged.content) == (304, b"")
    assert (await page(url, "https://press.example/none")).status_code == 404


async def test_the_feed_lists_the_documents(url: str) -> None:
    entries = parse_feed((await page(url, FEED_URL)).content, FEED_URL)
    assert [entry.title for entry in entries] == ["Gold", "Old gold"]
    assert entries[0].url == GOLD


async def test_a_changed_folder_is_loaded_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(corpus_loader, "CHECK_SECONDS", 0.0)
    document = tmp_path / "gold.md"
    head = f"---\nurl: {GOLD}\n---\n# Gold\n\n"
    document.write_text(head + "Ghana exports gold.")
    async with running_sandbox(SandboxSettings(port=0, corpus=str(tmp_path))) as url:
        before = await page(url, GOLD)
        (first,) = parse_feed((await page(url, FEED_URL)).content, FEED_URL)
        document.write_text(head + "Ghana exports 130 tonnes of gold.")

        async def changed() -> bool:
            return "130 tonnes" in (await page(url, GOLD, before.headers["etag"])).text

        await wait_until(changed, what="the sandbox serves the changed document")
        (second,) = parse_feed((await page(url, FEED_URL)).content, FEED_URL)
        assert (second.url, second.id == first.id) == (first.url, False)
        document.unlink()
        (tmp_path / "empty.md").write_text("")
        assert (await page(url, GOLD)).status_code == 200, "a corpus that cannot be loaded stays"
