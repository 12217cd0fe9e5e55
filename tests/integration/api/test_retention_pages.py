"""Pages and API after what is old was deleted: links lead to an explanation, and sums are the same."""

import re
from collections.abc import Sequence
from dataclasses import replace

import httpx
import pytest
from sqlalchemy import select, text, update

from services.api.app import build
from shared.database.engine import Database
from shared.database.tables import Call, Interaction
from shared.enums import AccessScope, RetentionKind
from shared.runtime.settings import Settings
from shared.schemas.operations import RetentionResponse
from shared.workflow.retention import RetentionPolicy
from tests.support.api.clients import create_anonymous_client
from tests.support.api.signed_in import create_token
from tests.support.factories import make_agent
from tests.support.retention.history import History
from tests.support.retention.pruning import prune_after, pruner

ROOT = "http://127.0.0.1"
TEXTS = (RetentionKind.TRANSCRIPTS, RetentionKind.CONTEXTS)
OPENS = re.compile(r'data-opens="((?:step|run|call|tool)-[^"]+|iteration|start)"')


@pytest.fixture
async def history(database: Database) -> History:
    history = History(database, await make_agent(database))
    for _ in range(2):
        await history.iterate(queries=2)
    return history


async def get(api: httpx.AsyncClient, path: str, status: int = 200) -> str:
    response = await api.get(f"{ROOT}{path}", headers={"accept": "text/html"})
    assert response.status_code == status, (path, response.text)
    return response.text


async def run_ids(history: History) -> Sequence[str]:
    async with history.database.snapshot() as session:
        return [str(each) for each in await session.scalars(select(Interaction.id))]


async def test_every_row_of_an_iteration_without_texts_can_be_opened(
    history: History, api: httpx.AsyncClient
) -> None:
    page = f"/agents/{history.agent.id}/iterations/1"
    before = await get(api, f"{page}?rows=all")
    keys = set(OPENS.findall(before))
    kinds = {key.partition("-")[0] for key in keys}
    assert {"run", "call", "step", "tool"} <= kinds
    assert "The transcript was deleted" not in before
    await prune_after(history.database, 31, *TEXTS)
    for key in sorted(keys):
        shown = await get(api, f"{page}?open={key}")
        assert "The transcript was deleted" in shown
        assert "kept for 30 days" in shown


async def test_the_page_of_a_phase_run_says_that_its_transcript_was_deleted(
    history: History, api: httpx.AsyncClient
) -> None:
    async with history.database.snapshot() as session:
        runs = list(
            await session.scalars(select(Interaction).where(Interaction.iteration_id.is_not(None)))
        )
    await prune_after(history.database, 31, *TEXTS)
    for run in runs:
        numbers = (1, 2)
        pages = [
            await api.get(
                f"{ROOT}/agents/{history.agent.id}/iterations/{number}/runs/{run.id}",
                headers={"accept": "text/html"},
            )
            for number in numbers
        ]
        shown = [page for page in pages if page.status_code == 200]
        assert len(shown) == 1
        assert "The transcript was deleted" in shown[0].text
        assert (await api.get(f"/interactions/{run.id}")).json()["request"] == {}
        assert (await api.get(f"/interactions/{run.id}/events")).json()["items"] == []


async def test_a_deleted_iteration_is_gone_and_says_why(
    history: History, api: httpx.AsyncClient
) -> None:
    [run_id, *_] = await run_ids(history)
    await prune_after(history.database, 31)
    page = f"/agents/{history.agent.id}/iterations/1"
    for path in (page, f"{page}?open=step-{run_id}", f"{page}/runs/{run_id}"):
        shown = await get(api, path, 410)
        assert "Iteration 1 was deleted because of its age" in shown
    problem = await api.get(f"/agents/{history.agent.id}/iterations/1")
    assert problem.status_code == 410
    assert "30 days" in problem.json()["detail"]
    assert "too large" not in problem.json()["detail"]
    async with history.database.transaction() as session:
        await session.execute(text("update retention set max_bytes = 1 where kind = 'iterations'"))
    problem = await api.get(f"/agents/{history.agent.id}/iterations/1")
    assert "or when all of them together are too large" in problem.json()["detail"]
    # One that never was is unknown, as before.
    assert (await api.get(f"/agents/{history.agent.id}/iterations/3")).status_code == 404
    for path in ("", "/iterations", "/settings", "/iterations/2"):
        await get(api, f"/agents/{history.agent.id}{path}")


async def test_operators_see_what_is_deleted_and_when(
    history: History, api: httpx.AsyncClient
) -> None:
    unknown = RetentionResponse.model_validate((await api.get("/retention")).json())
    assert {kind.is_known for kind in unknown.kinds} == {False}
    assert "Retention" in await get(api, "/operate")
    await history.pass_days(40)
    await pruner(history.database).prune_due()
    view = RetentionResponse.model_validate((await api.get("/retention")).json())
    kinds = {kind.kind: kind for kind in view.kinds}
    assert kinds.keys() == set(RetentionKind)
    of_iterations = kinds[RetentionKind.ITERATIONS]
    assert (of_iterations.days, of_iterations.all_rows, of_iterations.last_rows) == (30, 1, 1)
    assert of_iterations.pruned_at is not None
    assert of_iterations.next_at is not None
    assert {table.name for table in of_iterations.tables} == {
        "iterations",
        "news_items",
        "steps",
        "calls",
        "pinned_contexts",
    }
    assert all(table.bytes > 0 for table in of_iterations.tables)
    page = await get(api, "/operate")
    assert re.search(r'data-retention="iterations"[^>]*>.*?30 days', page, re.DOTALL)


async def test_operators_see_limits_of_size(history: History, api: httpx.AsyncClient) -> None:
    policy = RetentionPolicy.of_days({}, {RetentionKind.TRANSCRIPTS: 5 * 1024**3})
    await replace(pruner(history.database), policy=policy).prune_due()
    view = RetentionResponse.model_validate((await api.get("/retention")).json())
    kinds = {kind.kind: kind for kind in view.kinds}
    of_transcripts = kinds[RetentionKind.TRANSCRIPTS]
    assert (of_transcripts.days, of_transcripts.max_bytes) == (None, 5 * 1024**3)
    assert of_transcripts.bytes is not None
    assert of_transcripts.bytes > 0
    assert of_transcripts.next_at is not None
    of_pages = kinds[RetentionKind.PAGES]
    assert (of_pages.max_bytes, of_pages.bytes, of_pages.next_at) == (None, None, None)
    page = await get(api, "/operate")
    row = re.search(r'data-retention="transcripts".*?</tr>', page, re.DOTALL)
    assert row is not None
    assert re.search(r"ever.*at most 5\.0 GiB.*in rows", row.group(), re.DOTALL), row.group()


async def test_only_operators_see_it(database_url: str) -> None:
    settings = Settings(database_url=database_url)
    async with create_anonymous_client(build(settings)) as client:
        for scopes, status in (([AccessScope.READ, AccessScope.WRITE], 403), (AccessScope, 200)):
            token = await create_token(settings, scopes=scopes)
            headers = {"authorization": f"Bearer {token}"}
            assert (await client.get("/retention", headers=headers)).status_code == status


async def test_deleted_calls_are_shown_on_their_day(
    history: History, api: httpx.AsyncClient
) -> None:
    await history.pass_days(20)
    async with history.database.transaction() as session:
        await session.execute(update(Call).values(cost_usd=1))
    costs = f"/costs?agent={history.agent.id}&days=90"
    figures = re.compile(r'data-total="[\d.]+"|data-day="[^>]*')
    before, csv = await get(api, costs), await get(api, costs.replace("/costs?", "/costs.csv?"))
    assert any('data-value="0' not in each for each in figures.findall(before))
    await prune_after(history.database, 0, RetentionKind.ITERATIONS)
    assert figures.findall(await get(api, costs)) == figures.findall(before)
    assert await get(api, costs.replace("/costs?", "/costs.csv?")) == csv
