"""Random research: a web, a model that searches, reads and cites at random, and workers that are killed between calls."""

import json
import random
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from shared.billing.resumable_call import ResumableCall
from shared.llm.messages import ChatAnswer, ChatRequest, ToolCall, assistant_message
from shared.llm.provider import OnDelta
from shared.tools import Json, ToolRefusalError

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
            raise ToolRefusalError(refusal, unbilled=True)
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
