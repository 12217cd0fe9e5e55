"""Answers of the search service that still hold: the same is not searched, and no page read, twice within a time."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Final
from uuid import UUID

from shared.database.engine import Database
from shared.database.statements import BoundQuery, CompiledStatement, Row
from shared.domains import DomainPreferences
from shared.enums import CallKind, Phase
from shared.tools import PUBLISHED_UNTIL_KEY, RECALLED_KEY, RETRACTED_KEY, Json

MAX_CALLS: Final = 500
"""Newest searches that are looked through."""

# Of one phase: conversations are shown other parts of the same answers.
_LATELY: Final = f"""
  and started_at > statement_timestamp() - :within and kind = '{CallKind.SEARCH}'
  and phase = '{Phase.KNOWLEDGE_ACQUISITION}' and answered_at is not null and request ->> 'tool' = :tool
  and not answer ? 'error' and not answer ? '{RECALLED_KEY}' and not answer ? '{RETRACTED_KEY}'
  and answer ->> '{PUBLISHED_UNTIL_KEY}' is not distinct from (
    select to_char(archive_date, 'YYYY-MM-DD') from agents where id = :of_agent)
"""
_OF_AGENT: Final = "agent_id = :of_agent"
# What an owner bars was left out of an answer; another corpus has other answers.
_OF_ALL: Final = """agent_id in (
  select other.id from agents as own join agents as other
    on other.barred_domains = own.barred_domains and other.corpus is not distinct from own.corpus
  where own.id = :of_agent)"""
_ANSWER: Final = CompiledStatement("select answer from calls where id = :of_call")
# A page that has changed since is read again.
_CHANGED: Final = CompiledStatement("""
select url from page_probes where agent_id = :of_agent and url = any(cast(:urls as text[])) and changed_at > :since
""")


def _requests(scope: str) -> CompiledStatement:
    return CompiledStatement(
        f"select id, request, answered_at from calls where {scope} {_LATELY} order by started_at desc limit {MAX_CALLS}"
    )


_REQUESTS: Final = {False: _requests(_OF_AGENT), True: _requests(_OF_ALL)}


@dataclass(frozen=True)
class SearchMemory:
    """Finds earlier answers of the search service to an agent, not older than `within`."""

    database: Database
    agent_id: UUID
    within: timedelta
    is_shared: bool = False
    """Answers to other agents of the installation count too."""

    async def search(
        self, tool: str, request: Mapping[str, Any], domains: DomainPreferences
    ) -> Json | None:
        """The answer to a search with the same words, in any order and case, and the same limits; None if there is none."""
        found = await self._find(tool, lambda earlier: _is_same(earlier, request))
        if found is None:
            return None
        answer = await self._answer(found.id)
        # The owner may have barred a site meanwhile.
        return {**answer, "results": domains.select(answer["results"])}

    async def pages(self, tool: str, urls: Sequence[str]) -> Json | None:
        """The pages at `urls`, from one earlier answer; None unless it has all of them and none has changed since."""
        wanted = set(urls)
        found = await self._find(tool, lambda earlier: wanted <= set(earlier.get("urls", ())))
        if found is None:
            return None
        changed = await self.database.run(
            BoundQuery(
                _CHANGED,
                {"of_agent": self.agent_id, "urls": list(urls), "since": found.answered_at},
                list,
            )
        )
        if changed:
            return None
        answer = await self._answer(found.id)
        pages = [page for page in answer["results"] if page["url"] in wanted]
        return {**answer, "results": pages} if len(pages) == len(wanted) else None

    async def _find(self, tool: str, is_match: Callable[[Mapping[str, Any]], bool]) -> Row | None:
        params = {"of_agent": self.agent_id, "within": self.within, "tool": tool}
        rows = await self.database.run(BoundQuery(_REQUESTS[self.is_shared], params, list))
        return next((row for row in rows if is_match(row.request)), None)

    async def _answer(self, call_id: UUID) -> Json:
        answer: Json = await self.database.run(
            BoundQuery(_ANSWER, {"of_call": call_id}, lambda rows: rows[0].answer)
        )
        return answer


def _is_same(earlier: Mapping[str, Any], request: Mapping[str, Any]) -> bool:
    if {**earlier, "query": ""} != {**request, "query": ""}:
        return False
    return _words(str(earlier.get("query"))) == _words(str(request.get("query")))


def _words(text: str) -> list[str]:
    return sorted(text.casefold().split())
