"""What the model is asked in three missions, compared with golden files, and every context compared with one rebuilt."""

import difflib
import json
import os
import re
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from itertools import count
from pathlib import Path
from typing import Any, Final
from uuid import NAMESPACE_URL, uuid5

import pytest
from sqlalchemy import func, select

from shared.agents import agents
from shared.agents.contexts import hash_text, load_texts
from shared.database.engine import Database
from shared.database.statements import Batch
from shared.database.tables import Context, Interaction
from shared.enums import Phase, StepKind
from shared.graph.context import PinnedSurveys, pages_read
from shared.graph.context import survey as survey_module
from shared.llm.phase_run_store import load_requests
from tests.support.golden.golden_services import create_agent, running_services, settings_of
from tests.support.golden.missions import MISSIONS, GoldenMission
from tests.support.golden.recorded_services import (
    RecordedRequest,
    RecordedStep,
    Recording,
    fixed_clock,
)
from tests.support.paths import TESTS

UPDATE_VARIABLE: Final = "VIGIL_UPDATE_GOLDEN"
_FOLDER: Final = TESTS / "golden"
_MAX_DIFF_LINES: Final = 120
_TIME: Final = re.compile(r"\b\d{4}-\d\d-\d\dT\d\d:\d\d(?::\d\d(?:\.\d+)?)?(?:Z|[+-]\d\d:\d\d)")
_CALL_ID: Final = re.compile(r"\bcall_[0-9a-f]{24}\b")
"""The sandbox derives the ids of tool calls from the request, whose times differ in each run."""
_LONG_CHARS: Final = 100
_PIECE: Final = re.compile(rf'.{{{_LONG_CHARS},}}?[,.;:}}](?=[ "{{\[])|.+', re.DOTALL)
"""A part of a long line. It ends where a sentence or a JSON value does, so that a change moves few later parts."""


def golden_path(name: str) -> Path:
    return _FOLDER / f"{name}.json"


def compare_with_golden(name: str, requests: Sequence[RecordedRequest], *, updates: bool) -> None:
    """Compare the requests with the golden file of that name, or write it. Raises AssertionError with the differences."""
    path = golden_path(name)
    text = render(requests)
    if updates:
        path.write_text(text, encoding="utf-8")
        return
    stored = path.read_text(encoding="utf-8") if path.exists() else ""
    if text == stored:
        return
    lines = list(
        difflib.unified_diff(
            stored.splitlines(), text.splitlines(), "golden file", "recorded now", lineterm=""
        )
    )
    left_out = len(lines) - _MAX_DIFF_LINES
    more = f"\n... and {left_out} more lines" if left_out > 0 else ""
    differences = "\n".join(lines[:_MAX_DIFF_LINES])
    raise AssertionError(
        f"the requests differ from {path}; run with {UPDATE_VARIABLE}=1 to accept\n{differences}{more}"
    )


def render(requests: Sequence[RecordedRequest]) -> str:
    """The requests as pretty-printed JSON. Times are replaced, and the ids of tool calls numbered.

    What requests have in common is written once: declarations of tools and answer formats by their hash, and contexts by
    their number. A request that continues the conversation of the one before says how many messages it repeats, and
    contains the others.
    """
    declarations: dict[str, Any] = {}
    contexts: dict[str, str] = {}
    entries: list[Any] = []
    previous: RecordedRequest | None = None
    for recorded in requests:
        _, body = json.loads(recorded.request.call.canonical)
        messages = body.pop("messages")
        repeated = 0 if previous is None else _count_repeated(previous, recorded)
        entry = {"step": recorded.step.title, "phase": recorded.phase, **body}
        if "tools" in body:
            entry["tools"] = [
                _declare(declarations, tool["function"]["name"], tool) for tool in body["tools"]
            ]
        if (answer_format := body.get("response_format")) is not None:
            name = answer_format["json_schema"]["name"]
            entry["response_format"] = _declare(declarations, name, answer_format)
        if repeated:
            entry["repeated_messages"] = repeated
        survey = recorded.step.survey
        reference = contexts.setdefault(survey, f"context {len(contexts) + 1}")
        for message in messages:
            if message["role"] == "user":
                message["content"] = message["content"].replace(survey, f"[{reference}]")
        entries.append({**entry, "messages": messages[repeated:]})
        previous = recorded
    numbered = {reference: survey for survey, reference in contexts.items()}
    content = {"requests": entries, "contexts": numbered, "declarations": declarations}
    return json.dumps(_readable(content, {}), indent=1, ensure_ascii=False) + "\n"


def _count_repeated(previous: RecordedRequest, recorded: RecordedRequest) -> int:
    """The number of all previous messages, if the request begins with them; otherwise 0."""
    messages = previous.request.messages
    is_same_run = previous.step is recorded.step and previous.phase == recorded.phase
    begins_with_them = recorded.request.messages[: len(messages)] == messages
    return len(messages) if is_same_run and begins_with_them else 0


def _declare(declarations: dict[str, Any], name: str, declaration: Any) -> str:
    canonical = json.dumps(declaration, sort_keys=True).encode()
    key = f"{name} {sha256(canonical).hexdigest()[:12]}"
    declarations[key] = declaration
    return key


def _readable(value: Any, call_ids: dict[str, str]) -> Any:
    """The value with long texts as lists of their parts, and without what differs in each run."""
    match value:
        case str():
            text = _CALL_ID.sub(
                lambda found: call_ids.setdefault(found[0], f"call {len(call_ids) + 1}"),
                _TIME.sub("time", value),
            )
            is_long = len(text) > _LONG_CHARS or "\n" in text
            return list(_split(text)) if is_long else text
        case list():
            return [_readable(item, call_ids) for item in value]
        case dict():
            return {key: _readable(item, call_ids) for key, item in value.items()}
        case _:
            return value


def _split(text: str) -> Iterator[str]:
    for line in text.splitlines(keepends=True):
        yield from _PIECE.findall(line)


ITERATIONS: Final = 2
BETWEEN_ITERATIONS: Final = timedelta(days=30, hours=12)
"""So long, by the clock of the surveys, that what the first iteration found is stale in the second."""
PHASES: Final = set(Phase) - {Phase.CONFIGURATION, Phase.CONVERSATION}


@pytest.fixture(scope="session")
def updates_golden_files() -> bool:
    """Whether to write the golden files; read before the tests unset Vigil's environment variables."""
    return os.environ.get(UPDATE_VARIABLE) == "1"


@pytest.fixture
def fixed_ids(monkeypatch: pytest.MonkeyPatch) -> None:
    """The same ids of the user and the agent in every run. All other ids derive from them."""
    numbers = count(1)
    monkeypatch.setattr(
        agents, "uuid4", lambda: uuid5(NAMESPACE_URL, f"urn:vigil:golden:{next(numbers)}")
    )


@pytest.mark.usefixtures("fixed_ids")
@pytest.mark.parametrize("mission", MISSIONS, ids=lambda mission: mission.name)
async def test_requests_equal_the_golden_file_and_contexts_are_rebuilt(
    database: Database,
    database_url: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    updates_golden_files: bool,
    mission: GoldenMission,
) -> None:
    agent = await create_agent(database, mission)
    first_at = datetime.now(UTC)
    async with running_services(database, database_url, mission, tmp_path) as services:
        for number in range(ITERATIONS):
            clock = fixed_clock(first_at + number * BETWEEN_ITERATIONS)
            monkeypatch.setattr(survey_module, "agent_clock", clock)
            await services.run_iteration(agent)
        recording = services.recording
    assert {request.phase for request in recording.requests} == PHASES
    await check_sent_messages_are_stored(recording, database_url)
    await check_pinned_contexts(recording, database_url, settings_of(database_url).context_tokens)
    compare_with_golden(mission.name, recording.requests, updates=updates_golden_files)


@asynccontextmanager
async def another_process(database_url: str) -> AsyncIterator[Database]:
    """A database object that remembers no context."""
    opened = Database(database_url, name="another process")
    try:
        yield opened
    finally:
        await opened.close()


async def check_sent_messages_are_stored(recording: Recording, database_url: str) -> None:
    """Check that each phase run is restored as it was sent, with the context that was rebuilt for its step."""
    steps = {recorded.step.id: recorded for recorded in recording.steps}
    first_requests = {
        (sent.step.step.id, sent.phase): sent.request for sent in reversed(recording.requests)
    }
    async with another_process(database_url) as database, database.transaction() as session:
        runs = list(await session.scalars(select(Interaction)))
        restored = await load_requests(session, runs)
        keys = {(run.agent_id, run.context_sha256) for run in runs if run.context_sha256}
        contexts = await load_texts(session, keys)
        depth = await session.scalar(select(func.max(Context.depth)))
    assert {(run.step_id, run.phase) for run in runs} == first_requests.keys()
    for run in runs:
        assert run.step_id is not None
        request = first_requests[run.step_id, Phase(run.phase)]
        system, user = request.messages
        assert system == {"role": "system", "content": run.system_prompt}
        assert restored[run.id]["messages"] == [user]
        if run.phase == Phase.VERIFICATION:
            assert run.context_sha256 is None, "it reads texts, and no graph"
            continue
        assert run.context_sha256 is not None, f"a {run.phase} run has no context"
        survey = steps[run.step_id].survey
        is_search = run.phase == Phase.KNOWLEDGE_ACQUISITION
        assert (pages_read(survey) if is_search else survey) in user["content"]
        assert contexts[run.agent_id, run.context_sha256] == survey
        assert run.context_sha256 == hash_text(survey)
    assert depth, "no context was stored as a difference"


async def check_pinned_contexts(
    recording: Recording, database_url: str, context_tokens: int
) -> None:
    """Check the pinned context of each step, as another process reads it, and as one that read the earlier ones does."""
    for kind, least_contexts in ((StepKind.QUERY, ITERATIONS), (StepKind.INSIGHT, 1)):
        pinned_steps = [recorded for recorded in recording.steps if recorded.step.kind == kind]
        assert len({recorded.survey for recorded in pinned_steps}) >= least_contexts
        async with another_process(database_url) as remembering:
            await check_contexts_in_order(remembering, pinned_steps, context_tokens)
        for recorded in pinned_steps:
            async with another_process(database_url) as fresh:
                await check_contexts_in_order(fresh, [recorded], context_tokens)


async def check_contexts_in_order(
    database: Database, pinned_steps: Sequence[RecordedStep], context_tokens: int
) -> None:
    for recorded in pinned_steps:
        async with database.connection() as connection:
            survey = await PinnedSurveys().load(
                database,
                connection,
                recorded.scope,
                recorded.step,
                Batch(),
                token_budget=context_tokens,
                is_first=True,
            )
        assert survey.pinned_for is None, f"no context is pinned for {recorded.title}"
        assert survey.text == recorded.survey, f"another context is pinned for {recorded.title}"
