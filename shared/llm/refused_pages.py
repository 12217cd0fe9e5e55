"""Finds the pages whose text makes a provider refuse a request, and leaves them out of it."""

import json
import re
from collections.abc import Awaitable, Callable, Collection, Sequence
from dataclasses import replace
from typing import Any, Final

from shared.billing.resumable_call import CallLostError
from shared.database.engine import Database
from shared.database.statements import BoundQuery, CompiledStatement, Row
from shared.errors import PermanentError, VigilError
from shared.llm.answer_errors import AnswerError, LostAnswerError, NoAnswerError
from shared.llm.messages import ChatRequest, Message
from shared.llm.model_server import REFUSED_CONTENT, REFUSED_KEY, REFUSED_REQUEST
from shared.llm.paid_calls import RunJournal
from shared.tools import Json

SUBJECT: Final = "pages"
LEFT_OUT: Final = "left_out"
"""Key of an event: addresses of pages that are left out of requests with at least `since` messages."""
NOTE: Final = (
    "This page was left out, because the provider of the model refuses its text. Use other pages."
)
PROBE_TOKENS: Final = 16
_BLOCK: Final = re.compile(
    r"^## [^\n]*\nSource: (\S+)\n.*?(?=^## |^</|\Z)", re.MULTILINE | re.DOTALL
)
"""A page of a document; see `shared.graph.provenance.numbered_pages`."""
_BEFORE: Final = CompiledStatement(f"""
select distinct url
from (
  select events from calls where agent_id = :of_agent and model = :model order by started_at desc limit 2000
) as newest
cross join lateral jsonb_array_elements(coalesce(newest.events, '[]')) as event
cross join lateral jsonb_array_elements_text(coalesce(event -> '{LEFT_OUT}', '[]')) as url
""")


_OTHER_REASONS: Final = re.compile(
    r"context|length|too (?:long|large|many|big)|tokens?\b|schema|parameter|unsupported|not supported|quota|billing",
    re.IGNORECASE,
)
"""In a refusal that no page is the reason of."""
_NEUTRAL: Final = "Answer with OK."


def may_be_filtered(error: VigilError) -> bool:
    """Whether a text in the request may be the reason of a refusal whose words do not say so.

    A refused key may be none: providers also answer 403 to a request with a text that their filter refuses.
    """
    is_refusal = isinstance(error, PermanentError) and error.code in (REFUSED_REQUEST, REFUSED_KEY)
    return is_refusal and _OTHER_REASONS.search(str(error)) is None


def is_filtered(error: VigilError) -> bool:
    """Whether a filter of the provider refused the request or withheld its answer."""
    match error:
        case AnswerError() | NoAnswerError():
            return error.is_filtered
        case LostAnswerError():
            return error.unusable.is_filtered
        case PermanentError():
            return error.code == REFUSED_CONTENT
        case _:
            return False


class RefusedPages:
    """The pages that are left out of the requests of one run. What is left out is recorded, so that a resumed run sends the
    same requests.
    """

    def __init__(
        self,
        journal: RunJournal,
        database: Database,
        probe: Callable[[ChatRequest], Awaitable[Any]],
    ) -> None:
        """`probe` sends a request whose answer does not matter, which is recorded and paid for like others."""
        self._journal = journal
        self._database = database
        self._probe = probe
        self.since: dict[str, int] = {}
        """The pages by address, each with the number of messages of the first request without it."""

    def remember(self, event: Json) -> None:
        """Restores what an interrupted run has left out."""
        if LEFT_OUT in event:
            for url in event[LEFT_OUT]:
                self.since.setdefault(url, event["since"])
            self._journal.notes += event["repairs"]

    def without(self, request: ChatRequest) -> ChatRequest:
        """`request` without the pages, which their addresses and a note replace."""
        urls = {url for url, since in self.since.items() if len(request.messages) >= since}
        if not urls:
            return request
        return replace(request, messages=tuple(_without(each, urls) for each in request.messages))

    async def leave_out(self, request: ChatRequest, error: VigilError) -> bool:
        """Finds the pages because of which `request` was refused. Returns whether there are any."""
        pages = {
            url: text for url, text in _pages(request.messages).items() if url not in self.since
        }
        if not pages:
            return False
        params = {"of_agent": self._journal.lease.agent_id, "model": request.model}
        before = await self._database.run(BoundQuery(_BEFORE, params, _urls))
        found = [url for url in before if url in pages]
        is_sure = is_filtered(error)
        if not found and not is_sure and await self._is_refused(request, _NEUTRAL, is_sure=False):
            return False  # whatever the texts are

        async def is_refused(urls: list[str]) -> bool:
            text = "\n\n".join(pages[url] for url in urls)
            return await self._is_refused(request, text, is_sure=is_sure)

        found = found or await _search(list(pages), is_refused, is_sure=is_sure)
        if not found:
            return False
        self.since |= dict.fromkeys(found, len(request.messages))
        notes = [
            f"The provider refuses the text of {url}, which was left out: {error}" for url in found
        ]
        event = {
            "type": "repair",
            "key": f"{LEFT_OUT}/{len(self.since)}",
            "subject": SUBJECT,
            "repairs": notes,
        }
        self._journal.repair_count += len(notes)
        self._journal.notes += notes
        self._journal.add_event({**event, LEFT_OUT: found, "since": len(request.messages)})
        await self._journal.unit.commit_if_immediate()
        return True

    async def _is_refused(self, request: ChatRequest, text: str, *, is_sure: bool) -> bool:
        """Whether the provider refuses `text` alone, in a short request: by its filter, if it `is_sure` that it has one."""
        probe = ChatRequest(
            request.model,
            ({"role": "user", "content": text},),
            max_output_tokens=PROBE_TOKENS,
            options=request.options,
        )
        try:
            await self._probe(probe)
        except (AnswerError, PermanentError, CallLostError) as error:
            if is_filtered(error) or (not is_sure and may_be_filtered(error)):
                return True
            if isinstance(error, PermanentError):
                raise
        return False  # it was accepted, and its answer does not matter


async def _search(
    urls: list[str],
    is_refused: Callable[[list[str]], Awaitable[bool]],
    *,
    is_sure: bool,
    is_known: bool = False,
) -> list[str]:
    """Those of `urls` that are refused. `is_known`: at least one is. Unless the reason `is_sure`, each is tried alone."""
    if not is_known and not await is_refused(urls):
        return []
    if len(urls) == 1:
        return urls
    first, second = urls[: len(urls) // 2], urls[len(urls) // 2 :]
    found = await _search(first, is_refused, is_sure=is_sure)
    return found + await _search(
        second, is_refused, is_sure=is_sure, is_known=is_sure and not found
    )


def _urls(rows: list[Row]) -> list[str]:
    return [row.url for row in rows]


def _pages(messages: Sequence[Message]) -> dict[str, str]:
    """Text by address, of results of tools and of documents."""
    texts: dict[str, list[str]] = {}

    def collect(page: Json) -> Json:
        if page != _replacement(page["url"]):
            texts.setdefault(page["url"], []).append(json.dumps(page, ensure_ascii=False))
        return page

    for message in messages:
        _with_pages(message, collect)
        for block in _blocks(message):
            if NOTE not in block[0]:
                texts.setdefault(block[1], []).append(block[0])
    return {url: "\n".join(parts) for url, parts in texts.items()}


def _without(message: Message, urls: Collection[str]) -> Message:
    def replace_page(page: Json) -> Json:
        return _replacement(page["url"]) if page["url"] in urls else page

    changed = _with_pages(message, replace_page)
    if not any(block[1] in urls for block in _blocks(changed)):
        return changed
    text = _BLOCK.sub(
        lambda block: (
            f"## Left out\nSource: {block[1]}\n\n{NOTE}\n\n" if block[1] in urls else block[0]
        ),
        changed["content"],
    )
    return {**changed, "content": text}


def _replacement(url: str) -> Json:
    return {"note": NOTE, "url": url}


def _blocks(message: Message) -> list[re.Match[str]]:
    content = message.get("content")
    is_document = message.get("role") == "user" and isinstance(content, str)
    return list(_BLOCK.finditer(content)) if is_document and content is not None else []


def _with_pages(message: Message, change: Callable[[Json], Json]) -> Message:
    """`message` with each page of a tool's result changed."""
    content = message.get("content")
    if message.get("role") != "tool" or not isinstance(content, str) or '"url"' not in content:
        return message
    try:
        result = json.loads(content)
    except ValueError:  # it was cut
        return message
    changed = _changed(result, change)
    if changed == result:
        return message
    return {**message, "content": json.dumps(changed, ensure_ascii=False, sort_keys=True)}


def _changed(value: Any, change: Callable[[Json], Json]) -> Any:
    if isinstance(value, list):
        return [_changed(each, change) for each in value]
    if not isinstance(value, dict):
        return value
    if isinstance(value.get("url"), str):
        return change(value)
    return {key: _changed(each, change) for key, each in value.items()}
