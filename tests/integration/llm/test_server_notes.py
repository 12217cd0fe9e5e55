"""What the server of a model lacks is noted for the owner, by the run and by one that resumes it."""

from dataclasses import dataclass, field

import pytest

from shared.billing.resumable_call import ResumableCall
from shared.database.engine import Database
from shared.enums import Phase
from shared.llm.messages import ChatAnswer, ChatRequest, assistant_message
from shared.llm.phase_run import PhaseRun
from shared.llm.provider import OnDelta
from shared.llm.tool_loop import ToolLoop
from shared.runtime.providers import create_model
from shared.runtime.settings import Settings
from shared.schemas.iterations import NOTES_KEY, SERVER_NOTE, UNREAD_CALLS
from shared.tools import Arguments, Json, PaidTool
from tests.support import claims
from tests.support.claims import Claimed
from tests.support.factories import make_agent, make_iteration

CALL = '{"name": "search", "arguments": {"query": "lithium"}}'


class Search(Arguments):
    query: str


@dataclass
class WritingProvider:
    """A model that answers with one text."""

    text: str
    lacks_usage: bool = False
    thoughts: str = ""
    requests: list[ChatRequest] = field(default_factory=list)

    async def complete(
        self, request: ChatRequest, in_flight: ResumableCall, on_delta: OnDelta | None = None
    ) -> ChatAnswer:
        async with in_flight.attempt():
            self.requests.append(request)
            message = assistant_message(self.text, [])
            return ChatAnswer(
                message, "stop", 10, 10, lacks_usage=self.lacks_usage, thoughts=self.thoughts
            )

    async def close(self) -> None:
        return


async def search(_: Search, __: ResumableCall) -> Json:
    raise AssertionError("the text is no call")


@pytest.mark.parametrize(
    ("text", "is_noted"),
    [
        (f"I will call the tool now.\n{CALL}", True),
        (f"{CALL}\nI will call the tool now.\n{CALL}", True),
        ("I call [TOOL_CALLS] now.", True),
        ("I found nothing about lithium.", False),
        ('The page says {"name": "Ghana", "area": 1}.', False),
    ],
)
async def test_a_call_among_other_text_is_not_made_and_noted_once(
    settings: Settings, database: Database, text: str, is_noted: bool
) -> None:
    notes = await notes_of_two_runs(settings, database, WritingProvider(text))
    assert [each.startswith(SERVER_NOTE) and UNREAD_CALLS in each for each in notes] == [
        True
    ] * is_noted


async def test_that_a_server_reports_no_usage_is_noted_once(
    settings: Settings, database: Database
) -> None:
    provider = WritingProvider("I found nothing.", lacks_usage=True)
    [note] = await notes_of_two_runs(settings, database, provider)
    assert note.startswith(SERVER_NOTE)
    assert "reports no usage" in note


async def test_a_call_in_the_reasoning_of_an_empty_answer_is_noted_once(
    settings: Settings, database: Database
) -> None:
    thoughts = f"I should use the tool.\n<tool_call>\n{CALL}\n</tool_call>"
    [note] = await notes_of_two_runs(settings, database, WritingProvider("", thoughts=thoughts))
    assert UNREAD_CALLS in note


async def notes_of_two_runs(
    settings: Settings, database: Database, provider: WritingProvider
) -> list[str]:
    """The notes of a run, which are those of a run that resumes it."""
    agent = await make_agent(database)
    started = await make_iteration(database, agent)
    async with database.transaction() as session:
        claim = await claims.claim(session, started.observe.id, "test")
    assert isinstance(claim, Claimed)
    model = create_model(settings, database, provider)
    notes: list[list[str]] = []
    for _ in range(2):
        run = PhaseRun(model, claim.lease, agent, Phase.KNOWLEDGE_ACQUISITION, "Find it.")
        loop = ToolLoop(run, [PaidTool("search", "Searches.", Search, search, "search")])
        assert await loop.run() == provider.text
        notes.append(run.repair_summary.get(NOTES_KEY, []))
    assert len(provider.requests) == 1, "the second run resumes the first"
    assert notes[0] == notes[1]
    return notes[0]
