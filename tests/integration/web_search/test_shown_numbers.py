"""Each cited number gives the very sentence that the model was shown with it, in the document and in evidence."""

import json
import random
import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import Any, Final, cast

import pytest
from sqlalchemy import func, select

from services.researcher.acquisition import Acquired, QueryContext, acquire
from shared.billing.resumable_call import ResumableCall
from shared.database.engine import Database
from shared.database.tables import Agent, Source
from shared.enums import StepKind
from shared.events.models import Query
from shared.graph.provenance import integrity
from shared.graph.provenance.evidence import MAX_QUOTES, EvidenceInput, verify_quotes
from shared.graph.provenance.sources import PASSAGES_KEY
from shared.llm.messages import ChatAnswer, ChatRequest, ToolCall, assistant_message
from shared.llm.provider import Model, OnDelta
from shared.runtime.providers import create_model
from shared.runtime.settings import Settings
from shared.tools import Json, ToolRefusalError
from shared.urls import page_key
from shared.web_search.memory import SearchMemory
from tests.support.injection.victim import Victim, make_victim
from tests.support.seeds import first_seed, repeatable, seed_count
from tests.support.surveys import EMPTY_SURVEY, NOW
from tests.support.table_rows import change

SHOWN: Final = re.compile(r"^\[(\d+\.\d+)\] (.*)$")
BARRED: Final = "barred.example"
_ROUNDS: Final = 6


class WorkerKilledError(BaseException):
    """The worker ends here, without any of its handlers."""


@dataclass
class Kills:
    """Kills the worker before and after external calls, at random, until `left` is used up."""

    rng: random.Random
    left: int

    def may_kill(self) -> None:
        if self.left and self.rng.random() < 0.3:
            self.left -= 1
            raise WorkerKilledError


@dataclass
class RandomWeb:
    """Pages of a few lines to several thousand characters. Sentences are repeated within a page and on other pages."""

    rng: random.Random
    kills: Kills
    texts: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for site in ("one.example", "two.example", BARRED):
            for page in range(4):
                size = self.rng.choice((3, 30, 200))
                lines = [self._line(site, page, number) for number in range(size)]
                self.texts[f"https://{site}/{page}"] = "\n".join(lines)

    def _line(self, site: str, page: int, number: int) -> str:
        return self.rng.choice(
            (
                f"Lithium of {site} cost {number} dollars on page {page}.",
                f"It is {number}. Then it rained in Ghana for {page} days.",
                "Total: 5",
                f"## Part {number}",
                "See also [1.1] and [2.3].",
                f"Überall – “½” 鉄鋼 {number}",
            )
        )

    def of_corpus(self, _: str | None) -> "RandomWeb":
        return self

    def for_call(self, _: ResumableCall) -> "RandomWeb":
        return self

    async def search(self, query: str, *, max_results: int, **_: Any) -> Json:
        self.kills.may_kill()
        rng = random.Random(query)
        results = []
        for url in rng.sample(sorted(self.texts), max_results):
            lines = self.texts[url].splitlines()
            start = rng.randrange(len(lines))
            passage = "\n".join(["…", *lines[start : start + 4], "…", *lines[-1:]])
            passage = rng.choice((passage, passage, passage, " … ", ""))
            spelled = rng.choice((url, f"{url}/", url.replace("https", "http"), f"{url}#top"))
            results.append({"url": spelled, "title": f"Page {url}", "content": passage})
        self.kills.may_kill()
        return {"results": results}

    async def extract(self, urls: list[str]) -> Json:
        self.kills.may_kill()
        if any(url.endswith("#top") for url in urls) and len(urls) > 1:
            refusal = "the search service refused the request: #top"
            raise ToolRefusalError(refusal, is_unbilled=True)
        results, failed = [], []
        for url in urls:
            known = re.sub("^http:", "https:", url).partition("#")[0].rstrip("/")
            if (text := self.texts.get(known)) is None or known.endswith("/3"):
                failed.append({"url": url, "error": "it cannot be fetched"})
            else:
                results.append({"url": url, "title": None, "content": text})
        self.kills.may_kill()
        return {"results": results, "failed": failed}


@dataclass
class RandomModel:
    """A provider. What it answers depends on the request and its seed alone."""

    seed: int
    kills: Kills
    answered: dict[str, ChatAnswer] = field(default_factory=dict)
    requests: list[ChatRequest] = field(default_factory=list)

    async def complete(
        self, request: ChatRequest, in_flight: ResumableCall, on_delta: OnDelta | None = None
    ) -> ChatAnswer:
        async with in_flight.attempt():
            self.kills.may_kill()
            key = json.dumps(request.body, sort_keys=True)
            self.requests.append(request)
            rng = random.Random(f"{self.seed} {len(request.messages)}")
            self.answered[key] = answer = self._answer(request, rng)
            return answer

    async def close(self) -> None:
        return

    def _answer(self, request: ChatRequest, rng: random.Random) -> ChatAnswer:
        rounds = sum(message["role"] == "assistant" for message in request.messages)
        if not request.allows_tools or rng.random() < max(0.1, rounds / _ROUNDS):
            return ChatAnswer(assistant_message(self._document(request, rng), []), "stop")
        known = urls_in(request.messages)
        calls = []
        arguments: Json
        for _ in range(rng.randrange(1, 4)):
            if not known or rng.random() < 0.5:
                query = f"lithium {rng.randrange(4)}"
                name, arguments = "tavilySearch", {"query": query, "maxResults": rng.choice((2, 5))}
            else:
                strange = [f"https://{BARRED}/1", "https://never.example/named"]
                urls = rng.sample(known, min(len(known), rng.randrange(1, 4)))
                urls += rng.sample(strange, rng.randrange(0, 3))
                name, arguments = "tavilyExtract", {"urls": urls}
            calls.append(ToolCall("", name, json.dumps(arguments)))
        if rng.random() < 0.2:
            calls.append(ToolCall("", rng.choice(("tavilyExtract", "noSuchTool")), "{}"))
        if earlier := [m for m in request.messages if m.get("tool_calls")]:
            again = rng.choice(earlier)["tool_calls"][0]["function"]
            calls.append(ToolCall("", again["name"], again["arguments"]))
        return ChatAnswer(assistant_message(None, calls), "tool_calls")

    def _document(self, request: ChatRequest, rng: random.Random) -> str:
        numbers = sorted(shown_in([request]))
        cited = rng.sample(numbers, min(len(numbers), 12))
        cited += ["1.999", "99.1", "0.0"]
        lines = [f"[{number}]" if rng.random() < 0.7 else f"- So: [{number}]" for number in cited]
        return "\n".join(lines)


def urls_in(messages: Sequence[dict[str, Any]]) -> list[str]:
    """The addresses of the results that a model was shown."""
    results = [json.loads(each["content"]) for each in messages if each["role"] == "tool"]
    urls = [page["url"] for result in results for page in result.get("results", ())]
    return list(dict.fromkeys(urls))


def shown_in(requests: Sequence[ChatRequest]) -> dict[str, set[tuple[str, str]]]:
    """By number, the address and words that it was shown with in any of the requests."""
    shown: dict[str, set[tuple[str, str]]] = {}
    for request in requests:
        for message in request.messages:
            if message["role"] != "tool":
                continue
            for page in json.loads(message["content"]).get("results", ()):
                for line in page.get("content", "").split("\n"):
                    if match := SHOWN.match(line):
                        shown.setdefault(match[1], set()).add((page["url"], match[2]))
    return shown


QUERY = Query(objective="What lithium costs in Ghana", reasoning="Unknown.", search_hints=[])
_CITED = re.compile(r"\[(\d+\.\d+)\]")


async def research(
    model: Model, victim: Victim, web: RandomWeb, *, index: int, is_remembered: bool
) -> Acquired:
    """A query, which goes on after each kill where its lease left off."""
    lease, _ = await victim.step(StepKind.QUERY, QUERY.model_dump(mode="json"), index=index)
    context = QueryContext(lease, victim.scope, QUERY, EMPTY_SURVEY, NOW)
    within = timedelta(hours=1) if is_remembered else timedelta()
    memory = SearchMemory(victim.database, victim.agent.id, within)
    while True:
        try:
            return await acquire(model, cast(Any, web), context, memory)
        except WorkerKilledError:
            continue


def check_document(acquired: Acquired, requests: Sequence[ChatRequest], written: str) -> None:
    """`written` is the model's document."""
    shown = shown_in(requests)
    for number, as_shown in shown.items():
        assert len({(page_key(url), words) for url, words in as_shown}) == 1, number
    pages = {
        number.partition(".")[0]: page_key(url) for number in shown for url, _ in shown[number]
    }
    assert len(set(pages.values())) == len(pages), "two numbers for one page"
    words = {number: each for number in shown for _, each in shown[number]}
    lines = [match for line in acquired.document.split("\n") if (match := SHOWN.match(line))]
    filled_in = {match[1]: match[2] for match in lines}
    assert filled_in == {
        number: words[number] for number in _CITED.findall(written) if number in words
    }
    in_memory = {
        f"{page_number}.{number}": (page_key(page.url), text)
        for page_number, page in enumerate(acquired.pages, 1)
        for number, text in enumerate(page.sentences, 1)
    }
    assert in_memory == {
        number: (pages[number.partition(".")[0]], text) for number, text in words.items()
    }


async def check_evidence(victim: Victim, acquired: Acquired) -> None:
    """Each sentence that was shown is found in a stored text of its page."""
    inputs = [
        EvidenceInput(page.url, sentence.text, (), start_byte=sentence.start_byte)
        for page in acquired.pages
        for sentence in page.shown
    ]
    async with victim.database.transaction() as session:
        for start in range(0, len(inputs), MAX_QUOTES):
            some = inputs[start : start + MAX_QUOTES]
            quotes = await verify_quotes(session, victim.scope, {}, some)
            for entry, quote in zip(some, quotes, strict=True):
                assert quote.quote_sha256 == integrity.sha256(entry.quote)
                assert page_key(quote.page.url) == page_key(entry.source_url)


async def check_versions(database: Database) -> None:
    """A page has its whole text once, and passages only where it was not read before."""
    has_passages = func.coalesce(Source.reading[PASSAGES_KEY].as_boolean(), False)
    async with database.transaction() as session:
        rows = (await session.execute(select(Source.url, has_passages, Source.text))).all()
    whole = [url for url, is_part, _ in rows if not is_part]
    assert len(whole) == len(set(whole))
    assert len({(url, text) for url, _, text in rows}) == len(rows)
    assert not [url for url, _, _ in rows if BARRED in url]


@pytest.mark.parametrize("is_remembered", [False, True])
async def test_every_number_gives_the_sentence_that_was_shown(
    sandbox_settings: Settings, database: Database, is_remembered: bool
) -> None:
    victim = await make_victim(database)
    async with database.transaction() as session:
        agent = await session.get_one(Agent, victim.agent.id)
        agent = await change(session, agent, barred_domains=[BARRED])
    real = create_model(sandbox_settings, database)
    first = first_seed()
    for index, seed in enumerate(range(first, first + (seed_count() or 6))):
        with repeatable(seed):
            rng = random.Random(seed)
            kills = Kills(rng, rng.randrange(6))
            web = RandomWeb(random.Random(first), kills)
            provider = RandomModel(seed, kills)
            model = replace(real, provider=provider)
            acquired = await research(model, victim, web, index=index, is_remembered=is_remembered)
            assert len(provider.requests) == len(provider.answered), "paid twice"
            written = [answer.text for answer in provider.answered.values()][-1]
            check_document(acquired, provider.requests, written)
            await check_evidence(victim, acquired)
    await check_versions(database)
    await real.provider.close()
