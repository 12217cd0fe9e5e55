"""Each cited number gives the very sentence that the model was shown with it, in the document and in evidence."""

import random
import re
from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Any, cast

import pytest
from sqlalchemy import func, select

from services.researcher.acquisition import Acquired, QueryContext, acquire
from shared.database.engine import Database
from shared.database.tables import Agent, Source
from shared.enums import StepKind
from shared.events.models import Query
from shared.graph.provenance import integrity
from shared.graph.provenance.evidence import MAX_QUOTES, EvidenceInput, verify_quotes
from shared.graph.provenance.sources import PASSAGES_KEY
from shared.llm.messages import ChatRequest
from shared.llm.provider import Model
from shared.runtime.providers import create_model
from shared.runtime.settings import Settings
from shared.urls import page_key
from shared.web_search.memory import SearchMemory
from tests.support.injection.victim import Victim, make_victim
from tests.support.random_research import (
    BARRED,
    SHOWN,
    Kills,
    RandomModel,
    RandomWeb,
    WorkerKilledError,
    shown_in,
)
from tests.support.seeds import first_seed, repeatable, seed_count
from tests.support.surveys import EMPTY_SURVEY, NOW
from tests.support.table_rows import change

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
    for index, seed in enumerate(range(first, first + (seed_count() or 12))):
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
