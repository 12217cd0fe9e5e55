"""One refused address does not refuse the list: the others are read, and it is named with its reason."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from typing import Any, Final, cast

import pytest

from shared.billing.resumable_call import ResumableCall
from shared.domains import DomainPreferences
from shared.errors import TransientError, UnavailableError
from shared.tools import Json, PaidTool, ToolRefusalError
from shared.web_search.tools import (
    KnownOfPages,
    TavilyExtract,
    TavilySearch,
    knowledge_acquisition,
)
from tests.support.model_server import make_resumable_call

GOOD: Final = "https://good.example/1"
REASONS: Final[Mapping[str, str]] = {
    "https://barred.example/1": "owner bars barred.example",
    "https://retracted.example/1": "owner has retracted this page (invented)",
    "https://malformed.example/1": "the search service refused the request",
    "https://failing.example/1": "it answered 503",
    "https://silent.example/1": "the search service has no text of this page",
    "https://empty.example/1": "the search service has no text of this page",
    "https://moved.example/1": "owner bars barred.example",
}
BARRED: Final = DomainPreferences(barred=("barred.example",))


@dataclass
class Service:
    """A search service that refuses, fails or forgets the pages whose addresses say so."""

    requests: list[list[str]] = field(default_factory=list)
    is_away: bool = False
    is_away_after: int | None = None
    """Number of requests that it answers or refuses before."""

    def for_call(self, _: ResumableCall) -> "Service":
        return self

    async def extract(self, urls: list[str]) -> Json:
        self.requests.append(urls)
        if self.is_away:
            raise TransientError("it is away")
        if self.is_away_after is not None and len(self.requests) > self.is_away_after:
            raise UnavailableError("it limits requests")
        if any("malformed" in url for url in urls):
            refusal = "the search service refused the request: malformed"
            raise ToolRefusalError(refusal, is_unbilled=True)
        results = [
            {"url": url, "content": "" if "empty" in url else f"The text of {url}."}
            for url in urls
            if "failing" not in url and "silent" not in url
        ]
        for page in results:
            page["url"] = page["url"].replace("moved.example", "barred.example")
        failed = [{"url": url, "error": "it answered 503"} for url in urls if "failing" in url]
        return {"results": results, "failed": failed}

    async def search(self, _: str, **__: Any) -> Json:
        return {"results": [{"url": url, "content": "A passage."} for url in (GOOD, *REASONS)]}


async def look_up(urls: Sequence[str]) -> KnownOfPages:
    return KnownOfPages(
        {url: "invented" for url in urls if "retracted" in url},
        {url: "2026-11-20" for url in urls if "dated" in url},
    )


def tools(service: Service) -> list[PaidTool[Any]]:
    found = knowledge_acquisition(cast(Any, service), domains=BARRED, look_up=look_up)
    return cast(list[PaidTool[Any]], found[:2])


async def read(service: Service, *urls: str) -> Json:
    return await tools(service)[1].call(TavilyExtract(urls=list(urls)), make_resumable_call())


@pytest.mark.parametrize(
    ("url", "place"), [*product(REASONS, (0, 1, 2))], ids=lambda value: str(value)
)
async def test_the_other_pages_of_the_list_are_read(url: str, place: int) -> None:
    urls = [f"{GOOD}/a", f"{GOOD}/b"]
    urls.insert(place, url)
    answer = await read(Service(), *urls)
    assert [page["url"] for page in answer["results"]] == [f"{GOOD}/a", f"{GOOD}/b"]
    named = {each["url"]: each["error"] for each in answer["failed"]}
    assert any(REASONS[url] in error for error in named.values()), named
    assert not {*named} & {f"{GOOD}/a", f"{GOOD}/b"}


async def test_each_refused_page_is_named_with_its_reason() -> None:
    urls = [*REASONS][:4]
    answer = await read(Service(), GOOD, *urls)
    assert [page["url"] for page in answer["results"]] == [GOOD]
    assert {
        each["url"]: REASONS[each["url"]] in each["error"] for each in answer["failed"]
    } == dict.fromkeys(urls, True)


@pytest.mark.parametrize("urls", [[*REASONS][:1], [*REASONS][:2], [*REASONS][:3], [*REASONS][2:3]])
async def test_a_list_of_refused_pages_alone_is_refused_and_costs_nothing(urls: list[str]) -> None:
    with pytest.raises(ToolRefusalError) as refusal:
        await read(Service(), *urls)
    assert refusal.value.is_unbilled
    assert all(REASONS[url] in str(refusal.value) for url in urls)


async def test_a_list_that_nothing_is_wrong_with_is_one_request() -> None:
    service = Service()
    await read(service, GOOD, f"{GOOD}/b")
    assert service.requests == [[GOOD, f"{GOOD}/b"]]


async def test_an_outage_is_no_refusal() -> None:
    with pytest.raises(TransientError, match="away"):
        await read(Service(is_away=True), GOOD, f"{GOOD}/b")


@pytest.mark.parametrize("answered", [0, 1, 2])
async def test_pages_that_were_read_before_an_outage_are_kept(answered: int) -> None:
    service = Service(is_away_after=1 + answered)
    urls = [f"{GOOD}/a", f"{GOOD}/b", "https://malformed.example/1"]
    if not answered:
        with pytest.raises(UnavailableError):
            await read(service, *urls)
        return
    answer = await read(service, *urls)
    assert [page["url"] for page in answer["results"]] == urls[:answered]
    assert [each["url"] for each in answer["failed"]] == urls[answered:]
    assert all("limits requests" in each["error"] for each in answer["failed"])


async def test_a_search_leaves_out_what_the_owner_bars_and_names_what_was_retracted() -> None:
    answer = await tools(Service())[0].call(TavilySearch(query="lithium"), make_resumable_call())
    found = {page["url"] for page in answer["results"]}
    assert found == {GOOD, *REASONS} - {*[*REASONS][:2]}
    [named] = answer["retracted"]
    assert named["url"] == "https://retracted.example/1"
    assert "invented" in named["error"]


async def test_pages_without_a_date_have_the_known_one() -> None:
    answer = await read(Service(), f"{GOOD}/dated", GOOD)
    assert [page.get("published_date") for page in answer["results"]] == ["2026-11-20", None]
