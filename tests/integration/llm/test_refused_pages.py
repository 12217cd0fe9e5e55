"""A page whose text the provider refuses is found with few requests, left out and named; the other pages are used."""

import json
from dataclasses import dataclass, field, replace
from typing import Any

import pytest
from pydantic import BaseModel, ConfigDict
from sqlalchemy import select, update

from shared.billing.resumable_call import ResumableCall
from shared.database.engine import Database
from shared.database.tables import Agent, Call, Interaction, Iteration
from shared.enums import IterationStatus, Phase
from shared.errors import PermanentError, TransientError
from shared.llm.answer_errors import AnswerError, FailureKind
from shared.llm.ledgered_model import read_last_answer
from shared.llm.messages import ORIGIN, ChatAnswer, ChatRequest, ToolCall, assistant_message
from shared.llm.model_server import REFUSED_CONTENT, REFUSED_KEY, REFUSED_REQUEST
from shared.llm.phase_run import PhaseRun
from shared.llm.provider import OnDelta
from shared.llm.structured_output import request_structured_answer, response_format
from shared.llm.tool_loop import ToolLoop
from shared.runtime.providers import create_model
from shared.runtime.settings import Settings
from shared.tools import Arguments, Json, PaidTool
from shared.workflow import steps
from shared.workflow.leases import Lease
from tests.support import claims
from tests.support.factories import make_agent, make_iteration

WORDS = "The prompt triggers the content management policy"
OTHER_WORDS = "the server answered 403: Forbidden (trace 7)"


class Search(Arguments):
    query: str


class Said(BaseModel):
    model_config = ConfigDict(extra="forbid")

    words: str


@dataclass
class FilteringProvider:
    """A model that searches so many times and answers; its provider refuses requests that contain one of the texts."""

    refused_texts: list[str]
    searches: int = 1
    text: str = "Done."
    withholds: bool = False
    """Whether the refusals have the status of an answer."""
    is_free: bool = False
    """Whether a withheld answer certainly costs nothing."""
    code: str = REFUSED_CONTENT
    refuses_after: int | None = None
    """After so many answers the provider refuses everything."""
    fails_after: int | None = None
    """After so many answers the process ends."""
    answered: list[ChatRequest] = field(default_factory=list)
    refused: list[ChatRequest] = field(default_factory=list)

    async def complete(
        self, request: ChatRequest, in_flight: ResumableCall, on_delta: OnDelta | None = None
    ) -> ChatAnswer:
        async with in_flight.attempt():
            is_over = self.refuses_after is not None and len(self.answered) >= self.refuses_after
            if is_over or any(text in json.dumps(request.body) for text in self.refused_texts):
                self.refused.append(request)
                if self.withholds:
                    raise AnswerError(
                        WORDS,
                        kind=FailureKind.NO_ANSWER,
                        is_filtered=True,
                        is_unbilled=self.is_free,
                    )
                words = WORDS if self.code == REFUSED_CONTENT else OTHER_WORDS
                raise PermanentError(self.code, words, is_unbilled=True)
            if self.fails_after is not None and len(self.answered) >= self.fails_after:
                raise TransientError("killed", is_unbilled=True)
            self.answered.append(request)
            results = sum(message["role"] == "tool" for message in request.messages)
            calls = []
            if request.tools and results < self.searches:
                calls = [
                    ToolCall(
                        f"call-{results}", "search", json.dumps({"query": f"number {results}"})
                    )
                ]
            return ChatAnswer(
                assistant_message(None if calls else self.text, calls), "stop", 10, 10
            )

    async def close(self) -> None:
        return

    @property
    def probes(self) -> int:
        return sum(not each.tools for each in (*self.answered, *self.refused))


@dataclass
class Case:
    database: Database
    settings: Settings
    agent: Agent
    lease: Lease
    pages: list[Json]
    searched: int = 0
    result: Json = field(default_factory=dict)
    """The part of the step's result that the last run has."""

    async def ask(self, provider: FilteringProvider) -> tuple[str, PhaseRun]:
        """Begins the phase, or resumes it as another process."""

        async def search(_: Search, __: ResumableCall) -> Json:
            self.searched += 1
            return {"results": self.pages}

        model = create_model(self.settings, self.database, provider)
        run = PhaseRun(model, self.lease, self.agent, Phase.KNOWLEDGE_ACQUISITION, "Find it.")
        loop = ToolLoop(run, [PaidTool("search", "Searches.", Search, search, "search")])
        text = await loop.run()
        self.result = run.repair_summary
        return text, run

    async def begin_step(self) -> None:
        async with self.database.transaction() as session:
            await session.execute(update(Iteration).values(status=IterationStatus.COMPLETED))
        started = await make_iteration(self.database, self.agent)
        self.lease = await claimed(self.database, started.observe.id)

    async def takeover(self) -> None:
        async with self.database.transaction() as session:
            await steps.release(session, self.lease, "killed", attempts=0, rest_seconds=0)
        self.lease = await claimed(self.database, self.lease.step_id)

    async def repairs(self) -> list[str]:
        async with self.database.transaction() as session:
            runs = await session.scalars(select(Interaction).order_by(Interaction.created_at))
            events = [event for run in runs for event in run.events if event["type"] == "repair"]
        return [note for event in events for note in event["repairs"]]


async def claimed(database: Database, step_id: Any) -> Lease:
    async with database.transaction() as session:
        claim = await claims.claimed(session, step_id, "test")
    return claim.lease


def page(number: int) -> Json:
    return {
        "url": f"https://{number}.example/",
        "title": f"Page {number}",
        "content": f"[{number}.1] Sentence of page number-{number}-.",
    }


@pytest.fixture
async def case(settings: Settings, database: Database) -> Case:
    agent = await make_agent(database)
    started = await make_iteration(database, agent)
    lease = await claimed(database, started.observe.id)
    return Case(database, settings, agent, lease, [page(number) for number in range(8)])


@pytest.mark.parametrize("withholds", [False, True])
@pytest.mark.parametrize(
    ("refused", "most_probes"), [([0], 7), ([5], 7), ([7], 7), ([2, 3], 9), ([0, 7], 11)]
)
async def test_the_refused_pages_are_left_out_and_named(
    case: Case, refused: list[int], most_probes: int, *, withholds: bool
) -> None:
    provider = FilteringProvider([f"number-{number}-" for number in refused], withholds=withholds)
    text, run = await case.ask(provider)
    assert text == "Done."
    left_out = {f"https://{number}.example/" for number in refused}
    assert set(run.left_out) == left_out
    last = json.dumps(provider.answered[-1].body)
    for each in range(8):
        assert (f"number-{each}-" in last) == (each not in refused)
        assert f"https://{each}.example/" in last
    notes = await case.repairs()
    assert case.result == {"repairs": len(refused), "notes": notes}, "the owner reads it"
    assert len(notes) == len(refused)
    assert all(any(url in note for note in notes) for url in left_out)
    assert all(WORDS in note for note in notes)
    assert provider.probes <= most_probes
    assert case.searched == 1


@pytest.mark.parametrize("withholds", [False, True])
@pytest.mark.parametrize("is_structured", [False, True])
async def test_a_page_of_a_document_is_left_out_of_every_call(
    case: Case, *, is_structured: bool, withholds: bool
) -> None:
    """Also of calls without tools, such as structured answers and those of conversations."""
    document = "\n\n".join(
        f"## {each['title']}\nSource: {each['url']}\n\n{each['content']}" for each in case.pages
    )
    provider = FilteringProvider(["number-3-"], withholds=withholds, text='{"words": "Done."}')
    model = create_model(case.settings, case.database, provider)
    run = PhaseRun(model, case.lease, case.agent, Phase.OBSERVER, f"<pages>\n{document}\n</pages>")
    if is_structured:
        request = await run.begin(response_format=response_format(Said, "said"))
        said, _ = await request_structured_answer(run, request, Said, name="said")
        assert said.words == "Done."
    else:
        answer = (await run.model.answer(await run.begin(), read_last_answer)).answer
        assert answer.text == provider.text
    assert list(run.left_out) == ["https://3.example/"]
    last = json.dumps(provider.answered[-1].body)
    assert [number for number in range(8) if f"number-{number}-" not in last] == [3]
    assert "https://3.example/" in last
    assert len(run.notes) == 1


async def test_the_recorded_request_is_the_one_that_was_sent(case: Case) -> None:
    provider = FilteringProvider(["number-3-"], searches=2)
    await case.ask(provider)
    async with case.database.transaction() as session:
        hashes = {
            call.request_hash
            for call in await session.scalars(select(Call).where(Call.answered_at.is_not(None)))
            if call.model is not None
        }
    assert hashes == {recorded(request).call.hash for request in provider.answered}


def recorded(request: ChatRequest) -> ChatRequest:
    """`request` with the model of each call, which is recorded but not sent."""
    messages = (
        {**each, ORIGIN: request.model} if each.get("tool_calls") else each
        for each in request.messages
    )
    return replace(request, messages=tuple(messages))


@pytest.mark.parametrize("answers", range(1, 6))
async def test_a_resumed_run_repeats_no_answer(case: Case, answers: int) -> None:
    """Wherever the process ends: at a probe, and before or after the first answer without the page."""
    killed = FilteringProvider(["number-3-"], searches=2, fails_after=answers)
    with pytest.raises(TransientError, match="killed"):
        await case.ask(killed)
    await case.takeover()
    again = FilteringProvider(["number-3-"], searches=2)
    text, run = await case.ask(again)
    assert text == "Done."
    assert len(case.result["notes"]) == 1
    assert list(run.left_out) == ["https://3.example/"]
    repeated = {each.call.hash for each in killed.answered}
    assert not repeated & {each.call.hash for each in again.answered}
    assert case.searched == 2


async def test_the_next_step_looks_for_no_page_that_is_known(case: Case) -> None:
    first = FilteringProvider(["number-3-"])
    await case.ask(first)
    assert first.probes > 0
    await case.begin_step()
    second = FilteringProvider(["number-3-"])
    text, run = await case.ask(second)
    assert (text, second.probes) == ("Done.", 0)
    assert list(run.left_out) == ["https://3.example/"]
    assert len(second.refused) == 1


async def test_a_refusal_that_no_page_causes_is_an_error_with_the_words_of_the_provider(
    case: Case,
) -> None:
    provider = FilteringProvider(["Find it."])
    with pytest.raises(PermanentError, match=WORDS):
        await case.ask(provider)
    assert provider.probes == 0


@pytest.mark.parametrize("code", [REFUSED_REQUEST, REFUSED_KEY])
@pytest.mark.parametrize("refused", [[0], [7], [2, 3]])
async def test_pages_are_found_whatever_the_words_of_the_refusal(
    case: Case, refused: list[int], code: str
) -> None:
    provider = FilteringProvider([f"number-{number}-" for number in refused], code=code)
    text, run = await case.ask(provider)
    assert text == "Done."
    assert sorted(run.left_out) == [f"https://{number}.example/" for number in refused]
    assert all(OTHER_WORDS in note for note in case.result["notes"])


@pytest.mark.parametrize("is_free", [False, True])
async def test_a_failed_answer_is_assumed_at_its_maximum_unless_it_costs_nothing(
    case: Case, *, is_free: bool
) -> None:
    with pytest.raises(AnswerError, match=WORDS):
        await case.ask(FilteringProvider(["Find it."], withholds=True, is_free=is_free))
    async with case.database.transaction() as session:
        [call] = list(await session.scalars(select(Call)))
    assert len(call.failures) == 1
    assert (call.assumed_usd == 0) == is_free


@pytest.mark.parametrize("code", [REFUSED_REQUEST, REFUSED_KEY])
async def test_no_page_is_blamed_if_every_request_is_refused(case: Case, code: str) -> None:
    provider = FilteringProvider([], code=code, refuses_after=1)
    with pytest.raises(PermanentError, match="Forbidden"):
        await case.ask(provider)
    assert provider.probes == 1


async def test_an_answer_that_is_withheld_for_another_reason_is_an_error(case: Case) -> None:
    """The filter may have refused what the model wrote."""
    provider = FilteringProvider(['"role": "tool"'], withholds=True)
    with pytest.raises(AnswerError, match=WORDS):
        await case.ask(provider)
    assert provider.probes == 1
