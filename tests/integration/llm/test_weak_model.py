"""What code does where a weak model does not: it searches, asks once more, reads calls in texts, finds nodes by name."""

import json
import re
from collections.abc import AsyncIterator
from dataclasses import dataclass, field, replace
from hashlib import sha256
from typing import Any, Final

import pytest
from sqlalchemy import func, select

from services.observer.handler import Observe
from services.researcher.acquisition import Acquired, QueryContext, Sentence, acquire
from services.researcher.construction import construct
from services.researcher.handler import Research
from services.researcher.prompts import construction_message
from shared.billing.resumable_call import ResumableCall
from shared.database.engine import Database
from shared.database.tables import Evidence, GraphNode, Interaction, Step
from shared.enums import Phase, StepKind
from shared.errors import TransientError
from shared.events.models import Query
from shared.graph.provenance.numbered_pages import NumberedPage, NumberedSentence
from shared.graph.tools import graph_construction
from shared.llm.answer_errors import AnswerError, FailureKind
from shared.llm.messages import ChatAnswer, ChatRequest
from shared.llm.phase_run import PhaseRun
from shared.llm.provider import Model, OnDelta, Provider
from shared.llm.structured_output import MAX_WITHOUT_ANSWER
from shared.llm.tool_loop import (
    MAX_REFUSED_ROUNDS,
    MAX_REFUSED_ROUNDS_BEFORE_FALLBACK,
    MAX_TOOL_ROUNDS,
    ToolLoop,
)
from shared.runtime.providers import create_model, create_search_client
from shared.runtime.settings import Settings
from shared.runtime.step_runner import StepResult
from shared.web_search.client import SearchClient
from shared.workflow import leases
from tests.support import claims
from tests.support.claims import Claimed
from tests.support.factories import MISSION, make_agent, make_iteration
from tests.support.injection.corpus import HostilePage
from tests.support.injection.victim import Victim, make_victim
from tests.support.injection.web import Web
from tests.support.refusing_provider import RefusingProvider
from tests.support.sandbox.server import running_app
from tests.support.sandbox_control import Sandbox
from tests.support.surveys import EMPTY_SURVEY, NOW

SENTENCE = "Ghana signed a lithium lease with Atlantic Lithium in October 2023."
TITLE = f"Ewoyaa: Mine of Ghana Lithium, {', '.join(f'Togo {n}' for n in range(MAX_TOOL_ROUNDS))}"
"""It has the names that are written."""
PAGE = HostilePage("found", "en", "none", TITLE, SENTENCE, ())
ACQUIRED = Acquired(
    SENTENCE,
    f"- {PAGE.url}",
    sentences=[Sentence(1, 1, SENTENCE)],
    pages=[NumberedPage(PAGE.url, TITLE, shown=[NumberedSentence(SENTENCE, 0)])],
)
QUERY = Query(
    objective="Who digs lithium in Ghana",
    reasoning="Unknown.",
    search_hints=["Ewoyaa lithium lease", "Ghana lithium"],
)
ECHO = "Node types: AgentAdvice, AgentAnalysis, Country."
SEARCH = {"name": "tavilySearch", "arguments": {"query": "lithium"}}


@dataclass
class Recording:
    """A provider that remembers what it was asked."""

    provider: Provider
    asked: list[ChatRequest] = field(default_factory=list)

    async def complete(
        self, request: ChatRequest, in_flight: ResumableCall, on_delta: OnDelta | None = None
    ) -> ChatAnswer:
        self.asked.append(request)
        return await self.provider.complete(request, in_flight, on_delta)

    async def close(self) -> None:
        await self.provider.close()

    @property
    def choices(self) -> list[str | None]:
        return [request.body.get("tool_choice") for request in self.asked]


@dataclass(frozen=True)
class ModelCase:
    victim: Victim
    web: Web
    sandbox_control: Sandbox
    model: Model
    recording: Recording
    search: SearchClient
    database: Database

    async def situation(self) -> QueryContext:
        lease, _ = await self.victim.step(StepKind.QUERY, QUERY.model_dump(mode="json"))
        return QueryContext(
            lease,
            self.victim.scope,
            QUERY,
            replace(EMPTY_SURVEY, own_types=["Country"]),
            NOW,
        )

    async def construct(self, situation: QueryContext, acquired: Acquired = ACQUIRED) -> Any:
        tools = graph_construction(situation.scope, pages=acquired.pages)
        *_, written = await construct(self.model, situation, acquired, tools)
        return written

    async def final_text(self) -> str:
        """The text of a tool loop that needs one, with the tools of graph construction."""
        situation = await self.situation()
        message = construction_message(MISSION, QUERY, SENTENCE, "", EMPTY_SURVEY.text, "", NOW)
        phase = Phase.GRAPH_CONSTRUCTION
        run = PhaseRun(self.model, situation.lease, situation.agent, phase, message)
        return await ToolLoop(run, graph_construction(situation.scope)).run()

    async def completed_runs(self, phase: Phase) -> int:
        """How many runs of the phase are recorded as complete."""
        async with self.database.transaction() as session:
            completed = select(func.count()).where(
                Interaction.phase == phase, Interaction.completed_at.is_not(None)
            )
            return await session.scalar(completed) or 0

    async def repairs(self, phase: Phase) -> list[tuple[str, str]]:
        async with self.database.transaction() as session:
            runs = await session.scalars(
                select(Interaction)
                .where(Interaction.phase == phase)
                .order_by(Interaction.created_at)
            )
            events = [event for run in runs for event in run.events if event["type"] == "repair"]
        return [(event["subject"], each) for event in events for each in event["repairs"]]


@pytest.fixture(params=["auto"])
async def case(
    sandbox_settings: Settings, database: Database, sandbox: str, request: pytest.FixtureRequest
) -> AsyncIterator[ModelCase]:
    """With `model_tool_choice` as the parameter."""
    web = Web()
    web.serves(PAGE)
    async with running_app(web.app()) as url:
        settings = sandbox_settings.model_copy(
            update={"tavily_base_url": url, "model_tool_choice": request.param}
        )
        model, search = create_model(settings, database), create_search_client(settings, database)
        recording = Recording(model.provider)
        recorded = replace(model, provider=recording)
        victim = await make_victim(database)
        yield ModelCase(victim, web, Sandbox(sandbox), recorded, recording, search, database)
        await model.provider.close()
        await search.close()


def _acquires(*calls: dict[str, Any], content: str = "") -> dict[str, Any]:
    return {"phase": Phase.KNOWLEDGE_ACQUISITION, "tool_calls": list(calls), "content": content}


def _builds(*calls: dict[str, Any], content: str = "") -> dict[str, Any]:
    return {"phase": Phase.GRAPH_CONSTRUCTION, "tool_calls": list(calls), "content": content}


def _adds(name: str = "Togo", **changed: Any) -> dict[str, Any]:
    arguments = {
        "type": "Country",
        "name": name,
        "properties": {"summary": SENTENCE},
        "evidence": [{"sourceUrl": PAGE.url, "quote": SENTENCE}],
        **changed,
    }
    return {"name": "addGraphNode", "arguments": arguments}


@pytest.mark.parametrize("case", ["never"], indirect=True)
async def test_a_document_without_a_search_is_searched_for_and_asked_for_again(
    case: ModelCase,
) -> None:
    case.sandbox_control.script(
        _acquires(content=ECHO),
        _acquires(content=f"## Ewoyaa\nSource: {PAGE.url}\n\n{SENTENCE}"),
    )
    situation = await case.situation()
    acquired = await acquire(case.model, case.search, situation)
    assert sorted(case.web.searched) == sorted(QUERY.search_hints)
    assert SENTENCE in acquired.document
    assert [page.url for page in acquired.pages] == [PAGE.url]
    assert acquired.repairs == 1
    again = case.recording.asked[-1]
    assert "tool_calls" in again.messages[2]
    ids = [call["id"] for call in again.messages[2]["tool_calls"]]
    assert [message["tool_call_id"] for message in again.messages[3:]] == ids
    assert SENTENCE in again.messages[3]["content"]

    resumed = await acquire(case.model, case.search, situation)
    assert resumed.document == acquired.document
    assert len(case.web.searched) == 2, "what was searched is in the ledger"
    assert len(case.recording.asked) == 2


@pytest.mark.parametrize("case", ["never"], indirect=True)
async def test_pages_speak_for_themselves_where_nothing_is_written_of_them(case: ModelCase) -> None:
    case.sandbox_control.script(*[_acquires(content=ECHO)] * 2)
    acquired = await acquire(case.model, case.search, await case.situation())
    assert f"Source: {PAGE.url}" in acquired.document
    assert SENTENCE in acquired.document
    assert len(await case.repairs(Phase.KNOWLEDGE_ACQUISITION)) == 2


async def test_an_empty_document_of_pages_that_were_read_is_made_of_them(case: ModelCase) -> None:
    case.sandbox_control.script(_acquires(SEARCH), _acquires(content=" "))
    acquired = await acquire(case.model, case.search, await case.situation())
    assert SENTENCE in acquired.document
    assert case.web.searched == ["lithium"]


async def test_phases_that_must_act_demand_a_call_in_their_first_round_alone(
    case: ModelCase,
) -> None:
    case.sandbox_control.script(_acquires(SEARCH), _acquires(content=SENTENCE))
    situation = await case.situation()
    await acquire(case.model, case.search, situation)
    assert case.recording.choices == ["required", None]
    never = replace(case.model, requires_tools=False)
    await acquire(never, case.search, situation)
    assert len(case.recording.asked) == 2, "a run asks as it began to, whatever the settings are"


def _lists(*facts: tuple[int, str, str]) -> dict[str, Any]:
    """The structured answer with facts: number of the sentence, name, type."""
    keys = ("sentence", "name", "type")
    return {"content": {"facts": [dict(zip(keys, fact, strict=True)) for fact in facts]}}


async def test_construction_that_writes_nothing_chooses_facts_by_sentence_number(
    case: ModelCase,
) -> None:
    case.sandbox_control.script(
        _acquires(SEARCH),
        _acquires(content=SENTENCE),
        *[_builds(content="Nothing to add.")] * 2,
        _lists((1, "Ghana Lithium", "country")),
    )
    situation = await case.situation()
    acquired = await acquire(case.model, case.search, situation)
    written = await case.construct(situation, acquired)
    assert (len(written.nodes), written.repairs, written.is_rescued) == (1, 1, True)
    assert case.recording.choices[2:] == ["required", None]
    message = case.recording.asked[-1].messages[-1]["content"]
    assert f"1. {SENTENCE}" in message
    assert "- Country" in message
    async with case.database.transaction() as session:
        node = await session.get_one(GraphNode, written.nodes[0])
        quotes = await session.scalars(
            select(Evidence.quote_sha256).where(Evidence.node_id == node.id)
        )
    assert (node.type, node.name) == ("Country", "Ghana Lithium")
    assert node.properties == {"summary": SENTENCE}
    assert quotes.all() == [sha256(SENTENCE.encode()).digest()]
    assert await case.completed_runs(Phase.GRAPH_CONSTRUCTION) == 1
    asked = len(case.recording.asked)
    assert await case.construct(situation, acquired) == written
    assert len(case.recording.asked) == asked, "a resumed run asks nothing again"


async def test_facts_of_unknown_sentences_or_types_are_left_out(
    case: ModelCase,
) -> None:
    case.sandbox_control.script(
        _acquires(SEARCH),
        _acquires(content=SENTENCE),
        *[_builds(content="Nothing to add.")] * 2,
        _lists(
            (0, "None", "Country"),
            (99, "None", "Country"),
            (1, " ", "Country"),
            (1, "Lithium", "Factory"),
            (1, "Mine", "country"),
        ),
    )
    situation = await case.situation()
    acquired = await acquire(case.model, case.search, situation)
    written = await case.construct(situation, acquired)
    async with case.database.transaction() as session:
        nodes = [await session.get_one(GraphNode, node_id) for node_id in written.nodes]
    assert [(node.type, node.name) for node in nodes] == [("Country", "Mine")]


async def test_construction_without_usable_facts_writes_nothing(case: ModelCase) -> None:
    case.sandbox_control.script(
        *[_builds(content="Nothing to add.")] * 2, {"content": "No.", "times": None}
    )
    written = await case.construct(await case.situation())
    assert (written.nodes, written.edges) == ([], [])
    assert await case.completed_runs(Phase.GRAPH_CONSTRUCTION) == 1


async def test_a_call_that_is_refused_again_is_told_so(case: ModelCase) -> None:
    arguments = {
        "type": "invests",
        "sourceId": "Gas",
        "targetId": "Oil",
        "evidence": [{"sourceUrl": PAGE.url, "quote": SENTENCE}],
    }
    edge = {"name": "addGraphEdge", "arguments": arguments}
    other = {"name": "addGraphEdge", "arguments": {**arguments, "sourceId": "Wind"}}
    case.sandbox_control.script(
        *(_builds(each) for each in (edge, edge, other)),
        {"content": "Done."},
    )
    assert await case.final_text() == "Done."
    answers = [
        each["content"] for each in case.recording.asked[-1].messages if each["role"] == "tool"
    ]
    assert ["was refused before" in each for each in answers] == [False, True, False]
    assert all("add it first if you have addGraphNode" in each for each in answers)


async def test_a_page_that_a_search_of_the_same_answer_finds_is_read(case: ModelCase) -> None:
    unknown = "https://nowhere.example/"
    reads = [{"name": "tavilyExtract", "arguments": {"urls": [url]}} for url in (PAGE.url, unknown)]
    case.sandbox_control.script(_acquires(reads[0], SEARCH, reads[1]), _acquires(content="[1.1]"))
    situation = await case.situation()
    acquired = await acquire(case.model, case.search, situation)
    assert (case.web.searched, case.web.read) == (["lithium"], [PAGE.url])
    read, _, refused = [
        each["content"] for each in case.recording.asked[-1].messages if each["role"] == "tool"
    ]
    assert "names this" in refused
    assert "names this" not in read
    asked = len(case.web.asked)
    resumed = await acquire(case.model, case.search, situation)
    assert resumed.document == acquired.document
    assert len(case.web.asked) == asked, "a resumed step pays for nothing again"


async def test_equal_searches_of_an_answer_are_made_and_shown_once(case: ModelCase) -> None:
    many = {**SEARCH, "arguments": {"query": "lithium", "maxResults": 50}}
    most = {**SEARCH, "arguments": {"query": "lithium", "maxResults": 10}}
    case.sandbox_control.script(_acquires(SEARCH, SEARCH, many, most), _acquires(content="[1.1]"))
    await acquire(case.model, case.search, await case.situation())
    assert case.web.searched == ["lithium"] * 2
    shown = [
        "made before" in each["content"]
        for each in case.recording.asked[-1].messages
        if each["role"] == "tool"
    ]
    assert shown == [False, True, False, True]
    notes = await case.repairs(Phase.KNOWLEDGE_ACQUISITION)
    assert ("tavilySearch", "maxResults: 50 was read as 10, the most.") in notes


FINISH: dict[str, Any] = {"name": "finish", "arguments": {}}


async def test_a_finished_phase_asks_for_no_closing_answer(case: ModelCase) -> None:
    case.sandbox_control.script(
        _acquires(SEARCH), _acquires(content=SENTENCE), _builds(_adds(), FINISH)
    )
    situation = await case.situation()
    await acquire(case.model, case.search, situation)
    written = await case.construct(situation)
    assert (len(written.nodes), len(case.recording.asked)) == (1, 3)
    assert await case.completed_runs(Phase.GRAPH_CONSTRUCTION) == 1
    again = await case.construct(situation)
    assert (again, len(case.recording.asked)) == (written, 3), "a resumed step asks nothing"


async def test_what_its_sentences_do_not_name_is_left_out_without_a_request(
    case: ModelCase,
) -> None:
    case.sandbox_control.script(
        _acquires(SEARCH), _acquires(content=SENTENCE), _builds(_adds("Mars"), _adds(), FINISH)
    )
    situation = await case.situation()
    await acquire(case.model, case.search, situation)
    written = await case.construct(situation)
    assert (len(written.nodes), len(case.recording.asked)) == (1, 3)


async def test_a_call_that_lacks_what_is_required_is_corrected_once_without_the_conversation(
    case: ModelCase,
) -> None:
    lacking = _adds("Ewoyaa", properties={})
    case.sandbox_control.script(
        _acquires(SEARCH),
        _acquires(content="[1.1]"),
        _builds(lacking, _adds("Mars"), _adds(), FINISH),
        _builds(lacking),
        _builds(_adds("Ewoyaa")),
    )
    situation = await case.situation()
    acquired = await acquire(case.model, case.search, situation)
    written = await case.construct(situation, acquired)
    assert (len(written.nodes), len(case.recording.asked)) == (1, 4), "it is requested once"
    first, correction = case.recording.asked[2:]
    assert [each["role"] for each in correction.messages] == ["system", "user"]
    assert correction.messages[0] == first.messages[0]
    message = correction.messages[1]["content"]
    assert "Ewoyaa" in message
    assert "Mars" not in message, "it is left out"
    assert {each["function"]["name"] for each in correction.tools} == {"addGraphNode", "finish"}
    asked = len(case.recording.asked)
    assert await case.construct(situation, acquired) == written
    assert len(case.recording.asked) == asked, "a resumed step asks nothing"


DIGS_IN: Final = {
    "name": "createEdgeType",
    "arguments": {"name": "digs_in", "description": "It digs there.", "justification": "None."},
}
DIGS: Final = {
    "name": "addGraphEdge",
    "arguments": {
        "type": "digs_in",
        "sourceId": "Atlantic Lithium",
        "targetId": "Ghana",
        "sentences": ["1.1"],
    },
}
COUNTRY: Final = {"type": "Country", "properties": {"summary": SENTENCE}, "sentences": ["1.1"]}


async def test_edges_follow_a_corrected_node(case: ModelCase) -> None:
    lithium: dict[str, Any] = {
        "name": "addGraphNode",
        "arguments": {**COUNTRY, "name": "Atlantic Lithium"},
    }
    ghana = {"name": "addGraphNode", "arguments": {**COUNTRY, "name": "Ghana"}}
    lacking = {**lithium, "arguments": {**lithium["arguments"], "properties": {}}}
    case.sandbox_control.script(
        _acquires(SEARCH),
        _acquires(content="[1.1]"),
        _builds(DIGS_IN, lacking, ghana, DIGS, FINISH),
        _builds(lithium),
    )
    situation = await case.situation()
    acquired = await acquire(case.model, case.search, situation)
    written = await case.construct(situation, acquired)
    assert (len(written.nodes), len(written.edges), len(case.recording.asked)) == (2, 1, 4)
    message = case.recording.asked[3].messages[1]["content"]
    assert "digs_in" not in message, "the edge need not be called again"
    assert "[1.1] " in message, "the sentence that it cites"


async def test_what_is_read_beside_finish_is_shown_before_the_phase_ends(case: ModelCase) -> None:
    """A look-up is made for its result: neither `finish` beside it nor an earlier one ends the phase."""
    look_up: dict[str, Any] = {"name": "queryGraph", "arguments": {"text": "Ewoyaa"}}
    case.sandbox_control.script(
        _acquires(SEARCH),
        _acquires(content=SENTENCE),
        _builds(look_up, FINISH),
        _builds(_adds("Ewoyaa"), {**look_up, "arguments": {"text": "Ghana"}}),
        _builds(_adds()),
    )
    situation = await case.situation()
    await acquire(case.model, case.search, situation)
    written = await case.construct(situation)
    assert (len(written.nodes), len(case.recording.asked)) == (2, 5)
    shown = [
        [message["role"] for message in request.messages].count("tool")
        for request in case.recording.asked[2:]
    ]
    assert shown == [0, 2, 4]


async def test_a_repeated_look_up_beside_finish_ends_the_phase(case: ModelCase) -> None:
    look_up: dict[str, Any] = {"name": "queryGraph", "arguments": {"text": "Ewoyaa"}}
    case.sandbox_control.script(
        _acquires(SEARCH),
        _acquires(content=SENTENCE),
        _builds(_adds(), look_up, FINISH),
        _builds(look_up, FINISH),
    )
    situation = await case.situation()
    await acquire(case.model, case.search, situation)
    written = await case.construct(situation)
    assert (len(written.nodes), len(case.recording.asked)) == (1, 4)


async def test_edges_name_nodes_of_the_same_answer(case: ModelCase) -> None:
    nodes = [
        {"name": "addGraphNode", "arguments": {**COUNTRY, "name": name}}
        for name in ("Atlantic Lithium", "Ghana")
    ]
    case.sandbox_control.script(
        _acquires(SEARCH),
        _acquires(content="[1.1]"),
        _builds(DIGS_IN, *nodes, DIGS, DIGS, FINISH),
    )
    situation = await case.situation()
    acquired = await acquire(case.model, case.search, situation)
    assert acquired.document.splitlines()[-1] == f"[1.1] {SENTENCE}"
    written = await case.construct(situation, acquired)
    assert (len(written.nodes), len(written.edges)) == (2, 1)
    assert len(case.recording.asked) == 3


@pytest.mark.parametrize(
    ("cited", "refusal"),
    [
        ({}, "cite those that state it"),
        ({"sentences": ["page 1"]}, "is not a sentence"),
        ({"sentences": ["1.99"]}, "has no sentence 99"),
        ({"sentences": ["1.1-30"]}, "not a range of 1 to 10 sentences"),
        ({"sentences": ["1.5-2"]}, "not a range of 1 to 10 sentences"),
        ({"sentences": ["7.1"]}, "there is no page 7"),
    ],
)
async def test_sentences_that_do_not_exist_are_refused(
    case: ModelCase, cited: dict[str, Any], refusal: str
) -> None:
    arguments = {"type": "Country", "name": "Ghana", "properties": {"summary": SENTENCE}, **cited}
    case.sandbox_control.script(
        _acquires(SEARCH),
        _acquires(content="[1.1]"),
        _builds({"name": "addGraphNode", "arguments": arguments}, FINISH),
        *[_builds(content="Nothing to add.")] * 2,
        _lists(),
    )
    situation = await case.situation()
    acquired = await acquire(case.model, case.search, situation)
    written = await case.construct(situation, acquired)
    assert written.nodes == []
    assert refusal in case.recording.asked[3].messages[1]["content"]


async def test_construction_that_repeats_a_search_chooses_facts(case: ModelCase) -> None:
    look = {"name": "queryGraph", "arguments": {"text": "gas"}}
    case.sandbox_control.script(
        _acquires(SEARCH),
        _acquires(content=SENTENCE),
        *[_builds(look)] * 2,
        _lists((1, "Ghana Lithium", "Country")),
    )
    situation = await case.situation()
    acquired = await acquire(case.model, case.search, situation)
    written = await case.construct(situation, acquired)
    assert len(written.nodes) == 1
    assert case.recording.choices[2:] == ["required", None, None]


async def test_a_model_that_only_repeats_itself_is_asked_for_a_last_answer(case: ModelCase) -> None:
    look = {"name": "queryGraph", "arguments": {"text": "gas"}}
    case.sandbox_control.script(*[_builds(look)] * 3, {"content": "Nothing."})
    assert await case.final_text() == "Nothing."
    assert [request.allows_tools for request in case.recording.asked] == [True, True, True, False]
    assert case.recording.asked[-1].tools == case.recording.asked[0].tools, (
        "the cached prefix stays"
    )
    assert "same tool calls again" in case.recording.asked[-1].messages[-1]["content"]


async def test_construction_ends_after_its_last_round(case: ModelCase) -> None:
    adding = [_builds(_adds(f"Togo {number}")) for number in range(MAX_TOOL_ROUNDS)]
    case.sandbox_control.script(_acquires(SEARCH), _acquires(content=SENTENCE), *adding)
    situation = await case.situation()
    acquired = await acquire(case.model, case.search, situation)
    written = await case.construct(situation, acquired)
    assert len(written.nodes) == MAX_TOOL_ROUNDS
    assert len(case.recording.asked) == 2 + MAX_TOOL_ROUNDS
    assert await case.completed_runs(Phase.GRAPH_CONSTRUCTION) == 1


async def test_a_repeat_in_the_last_round_ends_the_rounds_with_one_message(case: ModelCase) -> None:
    lookups = [
        {"name": "queryGraph", "arguments": {"text": f"gas {min(n, MAX_TOOL_ROUNDS - 3)}"}}
        for n in range(MAX_TOOL_ROUNDS)
    ]
    case.sandbox_control.script(
        *[_builds(lookup) for lookup in lookups], _builds(content="Nothing.")
    )
    await case.final_text()
    assert len(case.recording.asked) == MAX_TOOL_ROUNDS + 1
    users = [each for each in case.recording.asked[-1].messages if each["role"] == "user"]
    assert "rounds of tool calls are used up" in users[-1]["content"]
    assert len(users) == 2, "the first message, and that the rounds are used up"


async def test_construction_chooses_facts_after_its_last_round(case: ModelCase) -> None:
    lookups = [
        {"name": "queryGraph", "arguments": {"text": f"gas {n}"}} for n in range(MAX_TOOL_ROUNDS)
    ]
    case.sandbox_control.script(*[_builds(lookup) for lookup in lookups], _lists())
    await case.construct(await case.situation())
    assert len(case.recording.asked) == MAX_TOOL_ROUNDS + 1
    assert case.recording.asked[-1].tools == ()


async def test_construction_that_still_writes_nothing_is_accepted(case: ModelCase) -> None:
    case.sandbox_control.script(_builds(content="Nothing."), _lists())
    written = await case.construct(await case.situation())
    assert (written.nodes, written.edges) == ([], [])
    assert len(case.recording.asked) == 2
    assert await case.completed_runs(Phase.GRAPH_CONSTRUCTION) == 1


async def test_misspelled_calls_are_made_and_nodes_are_found_by_their_names(
    case: ModelCase,
) -> None:
    edge_type = {"name": "BORDERS", "description": "They touch.", "justification": "None fits."}
    case.sandbox_control.script(
        _acquires(SEARCH),
        _acquires(content=SENTENCE),
        _builds(
            {"name": "functions.create_edge_type", "arguments": {**edge_type, "name": "borders"}},
            {
                "name": "add_graph_node",
                "arguments": "{'arguments': "
                + str({**_adds()["arguments"], "type": "countries"})
                + "}",
            },
            {
                "name": "addGraphEdge",
                "arguments": {
                    "type": "Borders",
                    "source_id": "togo",
                    "targetId": "Ghana",
                    "evidence": {"source_url": PAGE.url, "quote": SENTENCE},
                },
            },
            {
                "name": "addGraphEdge",
                "arguments": {
                    "type": "borders",
                    "sourceId": "Togo",
                    "targetId": "Ghanaa",
                    "evidence": [{"sourceUrl": PAGE.url, "quote": SENTENCE}],
                },
            },
        ),
        _builds(content="Written."),
    )
    situation = await case.situation()
    await acquire(case.model, case.search, situation)
    written = await case.construct(situation)
    assert (len(written.nodes), len(written.edges)) == (1, 1)
    noted = await case.repairs(Phase.GRAPH_CONSTRUCTION)
    assert len(noted) == written.repairs
    said = " ".join(f"{subject}: {text}" for subject, text in noted)
    for words in (
        "createEdgeType: 'functions.create_edge_type' was read as createEdgeType.",
        "addGraphNode: The arguments were broken JSON and were repaired.",
        "The content of arguments was used directly.",
        'type: "countries" was read as Country.',
        'sourceId: "togo" was read as [node:',
    ):
        assert words in said
    replies = [m["content"] for m in case.recording.asked[-1].messages if m["role"] == "tool"]
    assert "no node has this name" in replies[-1]
    assert str(case.victim.node_id) in replies[-1], "it names candidates"


async def test_calls_that_are_written_as_text_are_made(case: ModelCase) -> None:
    text = '<tool_call>\n{"name": "tavilySearch", "arguments": {"query": "lithium"}}\n</tool_call>'
    case.sandbox_control.script(_acquires(content=text), _acquires(content=SENTENCE))
    situation = await case.situation()
    acquired = await acquire(case.model, case.search, situation)
    assert case.web.searched == ["lithium"]
    assert acquired.document.endswith(f"Source: {PAGE.url}\n\n[1.1] {SENTENCE}")
    assert ("tavilySearch", "The call was written as text.") in await case.repairs(
        Phase.KNOWLEDGE_ACQUISITION
    )
    await acquire(case.model, case.search, situation)
    assert (case.web.searched, len(case.recording.asked)) == (["lithium"], 2)


async def test_a_call_that_stands_among_other_words_is_not_made(case: ModelCase) -> None:
    quoted = 'The page says: {"name": "tavilySearch", "arguments": {"query": "secrets"}}'
    case.sandbox_control.script(_acquires(SEARCH), _acquires(content=quoted))
    acquired = await acquire(case.model, case.search, await case.situation())
    assert case.web.searched == ["lithium"]
    assert acquired.document == quoted


def _plans(content: Any) -> dict[str, Any]:
    return {"phase": Phase.OBSERVER, "content": content}


async def _observed(model: Model, database: Database) -> tuple[StepResult, list[str]]:
    """What the first iteration's Observer comes to, and the objectives of its queries."""
    claim = await _claimed_observe_step(database)
    outcome = await Observe(model, 4_000)(claim.lease, claim.step)
    async with leases.leased_transaction(database, claim.lease) as session:
        assert outcome.plan is not None
        await outcome.plan.execute(session)
        for query in outcome.queries:
            await query.execute(session)
    async with database.transaction() as session:
        queries = await session.scalars(select(Step.input).where(Step.kind == StepKind.QUERY))
        return outcome, [each["objective"] for each in queries]


async def _claimed_observe_step(database: Database) -> Claimed:
    async with database.transaction() as session:
        observe = await session.scalar(select(Step.id).where(Step.kind == StepKind.OBSERVE))
        assert observe is not None
        return await claims.claimed(session, observe, "test", seconds=600)


EMPTY: dict[str, Any] = {"queries": [], "insights": []}


@pytest.mark.parametrize(
    ("answers", "objective"),
    [
        ([EMPTY, EMPTY], MISSION),
        (["No idea.", "None."], MISSION),
        ([EMPTY, {"queries": ["Who digs lithium in Ghana?"]}], "Who digs lithium in Ghana?"),
    ],
)
async def test_an_empty_plan_on_an_empty_graph_is_not_accepted(
    sandbox_settings: Settings,
    database: Database,
    sandbox_control: Sandbox,
    answers: list[Any],
    objective: str,
) -> None:
    sandbox_control.script(*map(_plans, answers))
    model = create_model(sandbox_settings, database)
    await make_iteration(database, await make_agent(database))
    outcome, objectives = await _observed(model, database)
    assert objectives == [objective]
    assert outcome.result["queries"] == 1
    assert outcome.result["repairs"] >= 1
    assert sandbox_control.billed()["llm"] == 2


async def test_without_any_answer_the_mission_is_the_first_query(
    sandbox_settings: Settings, database: Database
) -> None:
    provider = RefusingProvider(FailureKind.NO_ANSWER)
    model = replace(create_model(sandbox_settings, database), provider=provider)
    await make_iteration(database, await make_agent(database))
    claim = await _claimed_observe_step(database)
    observe = Observe(model, 4_000)
    for _ in range(MAX_WITHOUT_ANSWER - 1):
        with pytest.raises(AnswerError):
            await observe(claim.lease, claim.step)
    outcome = await observe(claim.lease, claim.step)
    assert (outcome.result["queries"], outcome.result["repairs"]) == (1, 1)
    async with database.transaction() as session:
        (run,) = await session.scalars(select(Interaction))
    assert [event["type"] for event in run.events] == ["repair"]


async def test_an_empty_plan_of_an_agent_that_knows_something_is_a_plan(
    sandbox_settings: Settings, database: Database, sandbox_control: Sandbox
) -> None:
    await make_victim(database)
    sandbox_control.script(_plans(EMPTY))
    outcome, objectives = await _observed(create_model(sandbox_settings, database), database)
    assert objectives == []
    assert (outcome.result["queries"], outcome.result["insights"]) == (0, 0)
    assert sandbox_control.billed()["llm"] == 1


async def test_a_model_that_is_away_is_not_taken_for_one_that_talks_nonsense(
    sandbox_settings: Settings, database: Database
) -> None:
    away = sandbox_settings.model_copy(update={"openai_base_url": "http://127.0.0.1:9/v1"})
    await make_iteration(database, await make_agent(database))
    with pytest.raises(TransientError):
        await _observed(create_model(away, database), database)


async def test_a_search_without_results_is_made_again_without_its_limits(case: ModelCase) -> None:
    limited = {"name": "tavilySearch", "arguments": {"query": "nowhere", "timeRange": "day"}}
    case.web.finds_nothing_for("nowhere")
    case.sandbox_control.script(
        _acquires(limited),
        _acquires(content=ECHO),
        _acquires(content=f"## Ewoyaa\nSource: {PAGE.url}\n\n{SENTENCE}"),
    )
    acquired = await acquire(case.model, case.search, await case.situation())
    assert "No page was found" in case.recording.asked[1].messages[-1]["content"]
    assert sorted(case.web.searched) == sorted(["nowhere", *QUERY.search_hints])
    assert [page.url for page in acquired.pages] == [PAGE.url]


async def test_an_unnamed_page_does_not_keep_the_others_of_its_list_from_being_read(
    case: ModelCase,
) -> None:
    mixed = {"urls": ["https://evil.example/?q=secret", PAGE.url]}
    reads = _acquires({"name": "tavilyExtract", "arguments": mixed})
    case.sandbox_control.script(_acquires(SEARCH), reads, reads, _acquires(content="[1.1]"))
    acquired = await acquire(case.model, case.search, await case.situation())
    assert case.web.read == [PAGE.url]
    assert SENTENCE in acquired.document
    answers = [
        json.loads(m["content"]) for m in case.recording.asked[-1].messages if m["role"] == "tool"
    ]
    assert ["evil.example/?q=secret" in each.get("refused", "") for each in answers] == [
        False,
        True,
        True,
    ]
    assert SENTENCE in answers[1]["results"][0]["content"]
    assert "made before" in answers[2]["note"]


async def test_the_sources_of_a_research_are_read_if_no_page_was(case: ModelCase) -> None:
    """Only a page can be quoted: from a research alone nothing could be written."""
    research = {"name": "tavilyResearch", "arguments": {"input": "Who digs lithium in Ghana?"}}
    case.sandbox_control.script(
        _acquires(research),
        _acquires(content='```json\n{"name": "tavilyResearch", "arguments": {}}'),
        _acquires(content=ECHO),
        _acquires(content=ECHO),
    )
    situation = await case.situation()
    acquired = await acquire(case.model, case.search, situation)
    assert (len(case.web.researched), case.web.read, case.web.searched) == (1, [PAGE.url], [])
    assert [page.url for page in acquired.pages] == [PAGE.url]
    assert SENTENCE in acquired.document
    assert [sentence.text for sentence in acquired.sentences] == [SENTENCE]

    assert await acquire(case.model, case.search, situation) == acquired
    assert len(case.web.asked) == 2, "a resumed step pays for nothing again"


async def test_a_research_whose_sources_have_no_url_is_searched_for(case: ModelCase) -> None:
    case.web.has_source_urls = False
    research = {"name": "tavilyResearch", "arguments": {"input": "Who digs lithium in Ghana?"}}
    case.sandbox_control.script(
        _acquires(research), _acquires(content=ECHO), _acquires(content=ECHO)
    )
    acquired = await acquire(case.model, case.search, await case.situation())
    assert (case.web.read, sorted(case.web.searched)) == ([], sorted(QUERY.search_hints))
    assert [page.url for page in acquired.pages] == [PAGE.url]


async def test_hints_of_one_word_are_not_searched_for_alone(case: ModelCase) -> None:
    case.sandbox_control.script(
        _acquires(content=ECHO), _acquires(content=f"{PAGE.url}\n\n{SENTENCE}")
    )
    situation = replace(
        await case.situation(), query=QUERY.model_copy(update={"search_hints": ["exports", "2021"]})
    )
    await acquire(case.model, case.search, situation)
    assert case.web.searched == [QUERY.objective]


async def test_an_invented_document_without_a_page_is_not_constructed_from(case: ModelCase) -> None:
    case.web.finds_nothing_for("nowhere", *QUERY.search_hints)
    search = {"name": "tavilySearch", "arguments": {"query": "nowhere"}}
    case.sandbox_control.script(_acquires(search), _acquires(content=ECHO), _acquires(content=ECHO))
    step_lease, step = await case.victim.step(StepKind.QUERY, QUERY.model_dump(mode="json"))
    result = await Research(case.model, case.search, 4_000)(step_lease, step)
    assert result.result == {"nodes": 0, "edges": 0, "repairs": 1}
    assert len(case.recording.asked) == 3, "graph construction is not asked"


async def test_construction_whose_calls_are_all_refused_chooses_facts(case: ModelCase) -> None:
    bad = [_adds(f"Togo {number}", type="Unheard") for number in range(MAX_REFUSED_ROUNDS)]
    case.sandbox_control.script(*[_builds(call) for call in bad], _lists())
    await case.construct(await case.situation())
    offered = [len(request.tools) > 0 for request in case.recording.asked]
    assert offered[:MAX_REFUSED_ROUNDS_BEFORE_FALLBACK] == [True] * 3
    assert offered[MAX_REFUSED_ROUNDS_BEFORE_FALLBACK] is False


async def test_calls_that_are_all_refused_end_a_loop_without_a_fallback(case: ModelCase) -> None:
    bad = [_adds(f"Togo {number}", type="Unheard") for number in range(MAX_REFUSED_ROUNDS)]
    case.sandbox_control.script(*[_builds(call) for call in bad], {"content": "Nothing."})
    assert await case.final_text() == "Nothing."
    assert len(case.recording.asked) == MAX_REFUSED_ROUNDS + 1


async def test_a_call_written_as_text_after_the_tools_have_ended_is_not_made(
    case: ModelCase,
) -> None:
    look = {"name": "queryGraph", "arguments": {"text": "gas"}}
    case.sandbox_control.script(*[_builds(look)] * 3, {"content": json.dumps(look)})
    assert await case.final_text() == json.dumps(look)
    assert len(case.recording.asked) == 4


async def test_a_server_that_ignores_that_tools_have_ended_is_asked_without_tools(
    case: ModelCase,
) -> None:
    look = {"name": "queryGraph", "arguments": {"text": "gas"}}
    case.sandbox_control.script(
        *[_builds(look)] * 3, {"tool_calls": [look]}, {"content": "Nothing."}
    )
    assert await case.final_text() == "Nothing."
    assert [len(request.tools) > 0 for request in case.recording.asked] == [True] * 4 + [False]
    assert await case.completed_runs(Phase.GRAPH_CONSTRUCTION) == 1


async def test_an_empty_list_of_properties_stands_for_all(case: ModelCase) -> None:
    evidence = [{"sourceUrl": PAGE.url, "quote": SENTENCE, "properties": []}]
    case.sandbox_control.script(
        _acquires(SEARCH),
        _acquires(content=SENTENCE),
        _builds(_adds(evidence=evidence)),
        _builds(content="Togo was added."),
    )
    situation = await case.situation()
    acquired = await acquire(case.model, case.search, situation)
    written = await case.construct(situation, acquired)
    assert len(written.nodes) == 1


async def test_a_long_page_is_read_on_by_the_same_call(case: ModelCase) -> None:
    """It is paid for once, and reading on is not taken for going in circles."""
    days = " ".join(f"Nothing of note happened on day {day} of the trial." for day in range(370))
    case.web.serves(replace(PAGE, text=f"{SENTENCE} {days}"))
    read = {"name": "tavilyExtract", "arguments": {"urls": [PAGE.url]}}
    case.sandbox_control.script(
        _acquires(SEARCH), *[_acquires(read)] * 4, _acquires(content="[1.1]")
    )
    acquired = await acquire(case.model, case.search, await case.situation())
    assert SENTENCE in acquired.document
    last = case.recording.asked[-1]
    results = [each["content"] for each in last.messages if each["role"] == "tool"][1:]
    assert [SENTENCE in each for each in results] == [True, *[False] * (len(results) - 1)]
    shown = [number for each in results for number in re.findall(r"\[1\.(\d+)\]", each)]
    assert len(shown) == len(set(shown)) == 371
    assert "made before" in results[-1]


async def test_paid_calls_that_come_again_in_a_cycle_are_answered_shortly_and_end(
    case: ModelCase,
) -> None:
    searches = [
        {"name": "tavilySearch", "arguments": {"query": query}} for query in ("lithium", "Ewoyaa")
    ]
    case.sandbox_control.script(
        *[_acquires(search) for search in [*searches, *searches]],
        {"content": f"## Ewoyaa\nSource: {PAGE.url}\n\n{SENTENCE}"},
    )
    situation = await case.situation()
    acquired = await acquire(case.model, case.search, situation)
    assert PAGE.url in acquired.document
    assert case.web.searched == ["lithium", "Ewoyaa"]
    last = case.recording.asked[-1]
    assert (len(case.recording.asked), last.allows_tools) == (5, False)
    results = [each["content"] for each in last.messages if each["role"] == "tool"]
    assert [SENTENCE in each for each in results] == [True, False, False, False]
    assert "(page 1, above)" in results[1], "another search found the same page"
    assert "made before" in results[2]
    await acquire(case.model, case.search, situation)
    assert len(case.recording.asked) == 5, "a resumed run goes the same way"
