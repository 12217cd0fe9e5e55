"""The sandbox's control API, its corpora and the pages that they serve."""

import shutil
import subprocess
import sys
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest

from sandbox.corpus.registry import add_corpus
from sandbox.http import corpus_loader
from sandbox.http.pages import FEED_URL
from sandbox.settings import SandboxSettings
from shared.errors import TransientError
from shared.fetch.client import FetchClient, Fetched, FetchError, Gateway
from shared.fetch.feeds import parse_feed
from shared.fetch.pages import page_content
from shared.tools import ToolRefusalError
from shared.web_search.client import SearchClient
from tests.support.sandbox.server import (
    running_sandbox,
)
from tests.support.waiting import wait_until


async def test_the_sandbox_itself_has_no_controls(tmp_path: Path) -> None:
    (tmp_path / "a.md").write_text("Text.")
    async with (
        running_sandbox(SandboxSettings(port=0, corpus=str(tmp_path))) as url,
        httpx.AsyncClient() as client,
    ):
        assert (await client.get(f"{url}/control/meter")).status_code == 404
        assert (await client.post(f"{url}/control/reset")).status_code == 404


def test_an_unusable_corpus_ends_the_command(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "sandbox", "--port", "0", "--corpus", str(tmp_path)]
    process = subprocess.run(command, capture_output=True, text=True, timeout=20, check=False)
    assert process.returncode == 2
    assert f"sandbox: The corpus folder {tmp_path} is empty." in process.stderr


GOLD = "https://corpus.local/gold.md"
"""Each of the two corpora has another page at this address."""


@dataclass(frozen=True)
class Corpora:
    url: str
    registry: Path
    folder: Path
    name: str

    async def search(self, corpus: str | None) -> list[dict[str, Any]]:
        client = SearchClient(api_key="any", base_url=self.url, timeout_seconds=10)
        try:
            answer = await client.of_corpus(corpus).search(
                "exports of gold", max_results=5, topic=None, time_range=None
            )
        finally:
            await client.close()
        results: list[dict[str, Any]] = answer["results"]
        return results

    async def extract(self, corpus: str | None) -> str:
        client = SearchClient(api_key="any", base_url=self.url, timeout_seconds=10)
        try:
            (page,) = (await client.of_corpus(corpus).extract([GOLD]))["results"]
        finally:
            await client.close()
        return str(page["content"])

    async def fetch(self, corpus: str | None, url: str) -> bytes:
        gateway = Gateway(f"{self.url}/page")
        client = FetchClient(httpx.AsyncHTTPTransport(), gateway=gateway)
        try:
            body = (await client.of_corpus(corpus).fetch(url)).body
        finally:
            await client.close()
        assert body is not None
        return body


@pytest.fixture
async def corpora(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Corpora]:
    monkeypatch.setattr(corpus_loader, "CHECK_SECONDS", 0.0)
    own, other = tmp_path / "own", tmp_path / "other"
    for folder, country in ((own, "Ghana"), (other, "Peru")):
        folder.mkdir()
        (folder / "gold.md").write_text(f"# Gold\n\nGold is what {country} exports.")
    registry = tmp_path / "corpora.json"
    settings = SandboxSettings(port=0, corpus=str(own), registry=registry)
    async with running_sandbox(settings) as url:
        yield Corpora(url, registry, other, add_corpus(registry, other, "anyone"))


async def test_requests_are_answered_from_the_corpus_that_they_name(corpora: Corpora) -> None:
    for corpus, country in ((None, "Ghana"), (corpora.name, "Peru")):
        (hit,) = await corpora.search(corpus)
        assert (hit["url"], country in hit["content"]) == (GOLD, True)
        assert country in await corpora.extract(corpus)
        assert country.encode() in await corpora.fetch(corpus, GOLD)
        (entry,) = parse_feed(await corpora.fetch(corpus, FEED_URL), FEED_URL)
        assert entry.url == GOLD


async def test_a_corpus_that_changes_is_loaded_again(corpora: Corpora) -> None:
    assert len(await corpora.search(corpora.name)) == 1
    (corpora.folder / "more.md").write_text("# More gold\n\nChile has exports of gold.")
    assert len(await corpora.search(corpora.name)) == 2
    assert len(await corpora.search(None)) == 1


async def test_a_corpus_without_a_name_in_the_registry_is_refused(corpora: Corpora) -> None:
    for name in ("unknown", str(corpora.folder), "../other"):
        with pytest.raises(ToolRefusalError, match=r"no corpus .*vigil agent create --corpus"):
            await corpora.search(name)
        with pytest.raises(FetchError, match="400"):
            await corpora.fetch(name, GOLD)


async def test_the_sandbox_says_whether_it_has_a_corpus(corpora: Corpora) -> None:
    async with httpx.AsyncClient(base_url=corpora.url, verify=False) as client:
        assert (await client.get(f"/corpora/{corpora.name}")).status_code == 200
        assert (await client.get("/corpora/unknown")).status_code == 404
        corpora.registry.write_text("{")
        answer = await client.get(f"/corpora/{corpora.name}")
        assert answer.status_code == 503
        assert "cannot be read" in answer.json()["error"]["message"]


async def test_a_folder_that_is_away_is_read_when_it_is_back(
    corpora: Corpora, tmp_path: Path
) -> None:
    shutil.move(corpora.folder, tmp_path / "away")
    for _ in range(2):
        with pytest.raises(TransientError, match=r"503.*no corpus at"):
            await corpora.search(corpora.name)
    assert len(await corpora.search(None)) == 1
    shutil.move(tmp_path / "away", corpora.folder)
    assert len(await corpora.search(corpora.name)) == 1


async def test_a_damaged_registry_does_not_stop_the_own_corpus(corpora: Corpora) -> None:
    corpora.registry.write_text("{")
    with pytest.raises(TransientError, match=r"503.*cannot be read"):
        await corpora.search(corpora.name)
    assert len(await corpora.search(None)) == 1


GOLD_PAGE = "https://press.example/gold"


async def page(url: str, address: str, etag: str = "") -> httpx.Response:
    async with httpx.AsyncClient() as client:
        return await client.get(
            f"{url}/page", params={"url": address}, headers={"if-none-match": etag}
        )


async def test_a_document_is_a_page_that_declares_the_feed(url: str) -> None:
    answer = await page(url, GOLD_PAGE)
    assert answer.status_code == 200
    assert "<p>Ghana exports gold. Togo has none.</p>" in answer.text
    content = page_content(Fetched(GOLD_PAGE, answer.content, "text/html"))
    assert content.feeds == (FEED_URL,)
    unchanged = await page(url, GOLD_PAGE, answer.headers["etag"])
    assert (unchanged.status_code, unchanged.content) == (304, b"")
    assert (await page(url, "https://press.example/none")).status_code == 404


async def test_the_feed_lists_the_documents(url: str) -> None:
    entries = parse_feed((await page(url, FEED_URL)).content, FEED_URL)
    assert [entry.title for entry in entries] == ["Gold", "Old gold"]
    assert entries[0].url == GOLD_PAGE


async def test_a_changed_folder_is_loaded_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(corpus_loader, "CHECK_SECONDS", 0.0)
    document = tmp_path / "gold.md"
    head = f"---\nurl: {GOLD_PAGE}\n---\n# Gold\n\n"
    document.write_text(head + "Ghana exports gold.")
    async with running_sandbox(SandboxSettings(port=0, corpus=str(tmp_path))) as url:
        before = await page(url, GOLD_PAGE)
        (first,) = parse_feed((await page(url, FEED_URL)).content, FEED_URL)
        document.write_text(head + "Ghana exports 130 tonnes of gold.")

        async def changed() -> bool:
            return "130 tonnes" in (await page(url, GOLD_PAGE, before.headers["etag"])).text

        await wait_until(changed, what="the sandbox serves the changed document")
        (second,) = parse_feed((await page(url, FEED_URL)).content, FEED_URL)
        assert (second.url, second.id == first.id) == (first.url, False)
        document.unlink()
        (tmp_path / "empty.md").write_text("")
        assert (await page(url, GOLD_PAGE)).status_code == 200, (
            "a corpus that cannot be loaded stays"
        )
