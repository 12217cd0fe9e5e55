"""Limits of size: the oldest is deleted before its time, and nothing that must be kept."""

from collections.abc import Mapping
from dataclasses import replace

import pytest
from sqlalchemy import select, text

from services.scheduler import pruning_sql
from services.scheduler.pruner import Pruner
from shared.database.engine import Database
from shared.database.tables import Iteration, Retention
from shared.enums import RetentionKind
from shared.runtime.settings import Settings
from shared.workflow.retention import MIN_DAYS, RetentionPolicy
from tests.support.factories import make_agent
from tests.support.retention.history import History, texts_of
from tests.support.retention.pruning import count_rows, find_faults, pruner, read_sums

MAKE_LETTERS = """
insert into dead_letters (id, service, subject, payload, code, error, attempts, stored_at)
select gen_random_uuid(), 'observer', 's', convert_to(repeat('x', 200), 'utf8'), 'c', 'e', 1,
  now() - make_interval(days => n) from generate_series(1, 100) as n
"""


@pytest.fixture
async def history(database: Database) -> History:
    return History(database, await make_agent(database))


def limited(database: Database, max_bytes: Mapping[RetentionKind, int]) -> Pruner:
    """One that deletes nothing because of its age."""
    return replace(pruner(database), policy=RetentionPolicy.of_days({}, max_bytes))


async def measure(database: Database, kind: RetentionKind) -> int:
    async with database.snapshot() as session:
        return int((await session.execute(pruning_sql.MEASURE, {"kind": kind})).scalar_one())


async def test_the_oldest_rows_are_deleted_until_the_others_fit(database: Database) -> None:
    async with database.transaction() as session:
        await session.execute(text(MAKE_LETTERS))
    whole = await measure(database, RetentionKind.DEAD_LETTERS)
    most = int(whole * 0.4)
    of_size = limited(database, {RetentionKind.DEAD_LETTERS: most})
    assert await of_size.prune(RetentionKind.DEAD_LETTERS) == 60
    async with database.snapshot() as session:
        oldest = await session.scalar(
            text("select max(extract(day from now() - stored_at)) from dead_letters")
        )
        row = await session.get_one(Retention, RetentionKind.DEAD_LETTERS)
    assert oldest == 40
    assert (row.days, row.max_bytes, row.last_rows) == (None, most, 60)
    assert row.bytes is not None
    assert row.bytes <= most
    assert await of_size.prune(RetentionKind.DEAD_LETTERS) == 0


async def test_nothing_is_deleted_that_is_younger_than_the_least_age(database: Database) -> None:
    async with database.transaction() as session:
        await session.execute(text(MAKE_LETTERS))
    of_size = limited(database, {RetentionKind.DEAD_LETTERS: 1})
    assert await of_size.prune(RetentionKind.DEAD_LETTERS) == 100 - int(MIN_DAYS - 1)


async def test_the_age_limit_holds_beside_the_limit_of_size(database: Database) -> None:
    async with database.transaction() as session:
        await session.execute(text(MAKE_LETTERS))
    for most in (1, 10**9):
        both = RetentionPolicy.of_days(
            {RetentionKind.DEAD_LETTERS: 90}, {RetentionKind.DEAD_LETTERS: most}
        )
        pruned = await replace(pruner(database), policy=both).prune(RetentionKind.DEAD_LETTERS)
        assert pruned == (99 if most == 1 else 0)


async def test_what_is_needed_is_kept_however_large_it_is(history: History) -> None:
    needed = await history.iterate()
    other = await history.iterate()
    await history.converse(1)
    await history.iterate()
    sums = await read_sums(history.database, history.agent)
    await history.fail_step(needed.id)
    await history.pass_days(5)
    young = await history.iterate()
    texts = await texts_of(history.database, needed.id), await texts_of(history.database, young.id)
    of_size = limited(history.database, dict.fromkeys(RetentionKind, 1))
    async with history.database.transaction() as session:
        await session.execute(text("update dead_letters set stored_at = now()"))
    sums = await read_sums(history.database, history.agent)
    for kind in RetentionKind:
        await of_size.prune(kind)
    assert texts == (
        await texts_of(history.database, needed.id),
        await texts_of(history.database, young.id),
    )
    async with history.database.snapshot() as session:
        assert await session.get(Iteration, other.id) is None
    await history.assert_texts_can_be_read()
    assert await read_sums(history.database, history.agent) == sums
    assert await find_faults(history.database, history.agent) == []


async def test_transcripts_shrink_to_their_limit(history: History) -> None:
    for _ in range(20):
        await history.iterate()
        await history.pass_days(1)
    whole = await measure(history.database, RetentionKind.TRANSCRIPTS)
    of_size = limited(history.database, {RetentionKind.TRANSCRIPTS: whole // 2})
    assert await of_size.prune(RetentionKind.TRANSCRIPTS) > 0
    async with history.database.snapshot() as session:
        kept = select(Iteration.number).where(Iteration.transcripts_deleted_at.is_(None))
        numbers = list(await session.scalars(kept.order_by(Iteration.number)))
    assert numbers == list(range(numbers[0], 21))
    assert 9 <= len(numbers) <= 11
    left = await measure(history.database, RetentionKind.TRANSCRIPTS)
    assert whole * 0.4 < left < whole * 0.6


async def test_a_pass_is_due_for_a_kind_with_only_a_limit_of_size(database: Database) -> None:
    async with database.transaction() as session:
        await session.execute(text(MAKE_LETTERS))
    rows = await count_rows(database)
    await limited(database, {}).prune_due()
    assert (await count_rows(database))["dead_letters"] == rows["dead_letters"]
    await limited(database, {RetentionKind.DEAD_LETTERS: 1}).prune_due()
    assert (await count_rows(database))["dead_letters"] == 1
    async with database.snapshot() as session:
        measured = select(Retention.kind).where(Retention.bytes.is_not(None))
        assert list(await session.scalars(measured)) == [RetentionKind.DEAD_LETTERS]


@pytest.mark.parametrize("kind", RetentionKind)
async def test_each_kind_is_measured(history: History, kind: RetentionKind) -> None:
    await history.iterate()
    size = await measure(history.database, kind)
    has_rows = (RetentionKind.TRANSCRIPTS, RetentionKind.ITERATIONS, RetentionKind.CONTEXTS)
    assert (size > 0) == (kind in has_rows)
    async with history.database.snapshot() as session:
        oldest = await session.scalar(pruning_sql.OLDEST_SHARE[kind], {"share": 0.5})
    assert (oldest is not None) == (size > 0)


MAKE_NEWS = """
insert into news_items (id, agent_id, kind, url, title, state, found_at, decided_at)
select gen_random_uuid(), id, 'page', 'https://example.org/' || n, repeat('x', 100),
  case when decided then 'read' else 'open' end, now(), case when decided then now() end
from agents, generate_series(1, 100) as n, unnest(array[true, false]) as decided
"""


async def test_decided_news_counts_among_iterations(history: History) -> None:
    """The others are not deleted with them."""
    before = {kind: await measure(history.database, kind) for kind in RetentionKind}
    async with history.database.transaction() as session:
        await session.execute(text(MAKE_NEWS))
    grown = {kind: await measure(history.database, kind) - before[kind] for kind in RetentionKind}
    news = grown.pop(RetentionKind.ITERATIONS)
    assert 100 * 200 < news < 100 * 400
    assert set(grown.values()) == {0}


async def test_a_large_table_is_sampled(database: Database) -> None:
    """Of rows of the same size, a part of the blocks shows the size of all."""
    params = {"kind": RetentionKind.DEAD_LETTERS}
    many = MAKE_LETTERS.replace("generate_series(1, 100)", "generate_series(1, 20000)")
    async with database.transaction() as session:
        await session.execute(text(many))
        whole = (await session.execute(pruning_sql.MEASURE, params)).scalar_one()
        definition: str = (
            await session.execute(
                text("select pg_get_functiondef('retained_bytes(text)'::regprocedure)")
            )
        ).scalar_one()
        assert definition.count("4000.0") == 1
        await session.execute(text(definition.replace("4000.0", "200.0").replace(":", r"\:")))
        sampled = (await session.execute(pruning_sql.MEASURE, params)).scalar_one()
        await session.rollback()
    assert sampled != whole
    assert whole * 0.6 < sampled < whole * 1.4


def test_sizes_are_settings() -> None:
    assert Settings().retention_policy.max_bytes == {}
    settings = Settings.model_validate({"retention_pages_bytes": 5 * 10**9})
    assert settings.retention_policy.max_bytes == {RetentionKind.PAGES: 5 * 10**9}
    never = Settings.model_validate({"retention_pages_bytes": "never"})
    assert never.retention_policy.max_bytes == {}
    with pytest.raises(ValueError, match="give a number"):
        Settings.model_validate({"retention_pages_bytes": -1})
