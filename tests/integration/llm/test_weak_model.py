"""What code does where a weak model does not: it searches, asks once more, reads calls in texts, finds nodes by name."""

import json
from collections.abc import AsyncIterator
from dataclasses import dataclass, field, replace
from typing import Any

import pytest
from sqlalchemy import select

from services.observer.handler import Observe
from services.researcher.acquisition import Acquired, acquire
from services.researcher.construction import construct
from services.researcher.handler import Research
from services.researcher.query_context import QueryContext
from shared.billing.resumable_call import ResumableCall
from shared.database.engine import Database
from shared.database.tables import Interaction, Step
from shared.enums import Phase, StepKind
from shared.errors import PermanentError, TransientError
from shared.events.models import Query
from shared.graph.tools import graph_construction
from shared.llm.messages import ChatAnswer, ChatRequest
from shared.llm.model_server import REFUSED_REQUEST
from shared.llm.phase_run import Model
from shared.llm.provider import OnDelta, Provider
from shared.llm.tool_choice import OptionalToolChoice
from shared.llm.tool_loop import MAX_REFUSED_ROUNDS, MAX_TOOL_ROUNDS, REVIEWED_REFUSED_ROUNDS
from shared.runtime.providers import create_model, create_search_client
from shared.runtime.settings import Settings
from shared.runtime.step_runner import StepResult
from shared.web_search.client import SearchClient
from shared.workflow import leases
from shared.workflow.leases import Claimed
from tests.support.injection.corpus import HostilePage
from tests.support.injection.victim import Victim, make_victim
from tests.support.injection.web import Web
from tests.support.levers import Sandbox
from tests.support.making import MISSION, make_agent, make_iteration
from tests.support.sandbox.serving import running_app

SENTENCE = "Ghana signed a lithium lease with Atlantic Lithium in October 2023."
PAGE = HostilePage("found", "en", "none", "Ewoyaa", SENTENCE, ())
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
    refuses_tool_choice: bool = False
    asked: list[ChatRequest] = field(default_factory=list)

    async def complete(
        self, request: ChatRequest, in_flight: ResumableCall, on_delta: OnDelta | None = None
    ) -> ChatAnswer:
        self.asked.append(request)
        if self.refuses_tool_choice and request.tool_choice is not None:
            raise PermanentError(REFUSED_REQUEST, "tool_choice is not supported")
        return await self.provider.complete(request, in_flight, on_delta)

    async def close(self) -> None:
        await self.provider.close()

    @property
    def choices(self) -> list[str | None]:
        return [request.body.get("tool_choice") for request in self.asked]


@dataclass(frozen=True)
class Desk:
    victim: Victim
    web: Web
    levers: Sandbox
    model: Model
    recording: Recording
    search: SearchClient
    database: Database

    async def situation(self) -> QueryContext:
        lease, _ = await self.victim.step(StepKind.QUERY, QUERY.model_dump(mode="json"))
        return QueryContext(
            lease, self.victim.agent, self.victim.scope, QUERY, "An empty graph.", "Country"
        )

    async def construct(self, situation: QueryContext, document: str = SENTENCE) -> Any:
        acquired = Acquired(document, f"- {PAGE.url}")
        tools = graph_construction(situation.scope)
        _, written = await construct(self.model, situation, acquired, tools)
        return written

    async def repairs(self, phase: Phase) -> list[tuple[str, str]]:
        async with self.database.transaction() as session:
            runs = await session.scalars(select(Interaction).where(Interaction.phase == phase))
            events = [event for run in runs for event in run.events if event["type"] == "repair"]
        return [(event["subject"], each) for event in events for each in event["repairs"]]


@pytest.fixture
async def desk(sandbox_settings: Settings, database: Database, sandbox: str) -> AsyncIterator[Desk]:
    web = Web()
    web.serves(PAGE)
    async with running_app(web.app()) as url:
        settings = sandbox_settings.model_copy(update={"tavily_base_url": url})
        model, search = create_model(settings, database), create_search_client(settings)
        recording = Recording(model.provider)
        recorded = replace(model, provider=recording)
        victim = await make_victim(database)
        yield Desk(victim, web, Sandbox(sandbox), recorded, recording, search, database)
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


async def test_a_document_without_a_search_is_searched_for_and_asked_for_again(desk: Desk) -> None:
    desk.levers.script(
        _acquires(content=ECHO),
        _acquires(content=f"## Ewoyaa\nSource: {PAGE.url}\n\n{SENTENCE}"),
    )
    situation = await desk.situation()
    acquired = await acquire(desk.model, desk.search, situation)
    assert sorted(desk.web.searched) == sorted(QUERY.search_hints)
    assert SENTENCE in acquired.document
    assert PAGE.url in acquired.sources
    assert acquired.repairs == 1
    again = desk.recording.asked[-1]
    assert "tool_calls" in again.messages[2]
    ids = [call["id"] for call in again.messages[2]["tool_calls"]]
    assert [message["tool_call_id"] for message in again.messages[3:]] == ids
    assert SENTENCE in again.messages[3]["content"]

    resumed = await acquire(desk.model, desk.search, situation)
    assert resumed.document == acquired.document
    assert len(desk.web.searched) == 2, "what was searched is in the ledger"
    assert len(desk.recording.asked) == 2


async def test_pages_speak_for_themselves_where_nothing_is_written_of_them(desk: Desk) -> None:
    desk.levers.script(_acquires(content=ECHO), _acquires(content=ECHO))
    acquired = await acquire(desk.model, desk.search, await desk.situation())
    assert f"Source: {PAGE.url}" in acquired.document
    assert SENTENCE in acquired.document
    assert len(await desk.repairs(Phase.KNOWLEDGE_ACQUISITION)) == 2


async def test_an_empty_document_of_pages_that_were_read_is_made_of_them(desk: Desk) -> None:
    desk.levers.script(_acquires(SEARCH), _acquires(content=" "))
    acquired = await acquire(desk.model, desk.search, await desk.situation())
    assert SENTENCE in acquired.document
    assert desk.web.searched == ["lithium"]


async def test_phases_that_must_act_demand_a_call_in_their_first_round_alone(desk: Desk) -> None:
    desk.levers.script(_acquires(SEARCH), _acquires(content=SENTENCE))
    situation = await desk.situation()
    await acquire(desk.model, desk.search, situation)
    assert desk.recording.choices == ["required", None]
    never = replace(desk.model, requires_tools=False)
    await acquire(never, desk.search, situation)
    assert len(desk.recording.asked) == 2, "a run asks as it began to, whatever the settings are"


async def test_a_server_that_refuses_tool_choice_is_asked_without(desk: Desk) -> None:
    refusing = replace(desk.recording, refuses_tool_choice=True, asked=[])
    model = replace(desk.model, provider=OptionalToolChoice(refusing))
    desk.levers.script(_acquires(SEARCH), _acquires(content=SENTENCE))
    desk.levers.script(_builds(_adds()), _builds(content="Written."))
    situation = await desk.situation()
    await acquire(model, desk.search, situation)
    await replace(desk, model=model).construct(situation)
    assert refusing.choices == ["required", None, None, None, None]


async def test_construction_that_writes_nothing_is_told_once(desk: Desk) -> None:
    desk.levers.script(
        _acquires(SEARCH),
        _acquires(content=SENTENCE),
        _builds(content="Nothing to add."),
        _builds(_adds()),
        _builds(content="Togo was added."),
    )
    situation = await desk.situation()
    await acquire(desk.model, desk.search, situation)
    written = await desk.construct(situation)
    assert (len(written.nodes), written.repairs) == (1, 1)
    assert desk.recording.choices[2:] == ["required", "required", None]
    offered = [[tool["function"]["name"] for tool in each.tools] for each in desk.recording.asked]
    assert len(offered[2]) > 3
    assert offered[3:] == [["addGraphNode"]] * 2, "it cannot go wrong in another way"
    asked = len(desk.recording.asked)
    assert await desk.construct(situation) == written
    assert len(desk.recording.asked) == asked, "a resumed run goes the same way"


async def test_a_call_that_is_refused_again_is_told_so(desk: Desk) -> None:
    arguments = {
        "type": "invests",
        "sourceId": "Gas",
        "targetId": "Oil",
        "evidence": [{"sourceUrl": PAGE.url, "quote": SENTENCE}],
    }
    edge = {"name": "addGraphEdge", "arguments": arguments}
    other = {"name": "addGraphEdge", "arguments": {**arguments, "sourceId": "Wind"}}
    desk.levers.script(
        _acquires(SEARCH),
        _acquires(content=SENTENCE),
        *(_builds(each) for each in (edge, edge, other)),
        _builds(content="Done."),
        _builds(content="Really."),
    )
    situation = await desk.situation()
    await acquire(desk.model, desk.search, situation)
    await desk.construct(situation)
    told = [each["content"] for each in desk.recording.asked[-1].messages if each["role"] == "tool"]
    assert ["was refused before" in each for each in told] == [False, True, False]
    assert all("first call addGraphNode" in each for each in told)
    asked = len(desk.recording.asked)
    await desk.construct(situation)
    assert len(desk.recording.asked) == asked, "a resumed run goes the same way"


async def test_construction_that_repeats_a_search_is_offered_add_graph_node_alone(
    desk: Desk,
) -> None:
    look = {"name": "queryGraph", "arguments": {"text": "gas"}}
    desk.levers.script(
        _acquires(SEARCH),
        _acquires(content=SENTENCE),
        *[_builds(look)] * 2,
        _builds(_adds()),
        _builds(content="Togo was added."),
    )
    situation = await desk.situation()
    acquired = await acquire(desk.model, desk.search, situation)
    assert acquired.quotable is not None
    assert acquired.quotable.url == PAGE.url
    tools = graph_construction(situation.scope)
    _, written = await construct(desk.model, situation, acquired, tools)
    assert (len(written.nodes), written.repairs) == (1, 1)
    assert desk.recording.choices[2:] == ["required", None, "required", None]
    third = desk.recording.asked[4]
    assert [tool["function"]["name"] for tool in third.tools] == ["addGraphNode"]
    example = json.loads(third.messages[-1]["content"].splitlines()[-1])
    assert example["type"] == "Country"
    assert example["evidence"] == [{"sourceUrl": PAGE.url, "quote": acquired.quotable.sentence}]
    asked = len(desk.recording.asked)
    _, again = await construct(desk.model, situation, acquired, tools)
    assert again == written
    assert len(desk.recording.asked) == asked, "a resumed run goes the same way"


async def test_a_model_that_only_repeats_itself_is_asked_for_its_last_words(desk: Desk) -> None:
    look = {"name": "queryGraph", "arguments": {"text": "gas"}}
    desk.levers.script(*[_builds(look)] * 3, _builds(content="Nothing."))
    written = await desk.construct(await desk.situation())
    assert written.nodes == []
    assert [bool(each.tools) for each in desk.recording.asked] == [True, True, True, False]
    assert "same tool calls again" in desk.recording.asked[-1].messages[-1]["content"]


async def test_a_repeat_in_the_last_round_ends_the_rounds_with_one_message(desk: Desk) -> None:
    lookups = [
        {"name": "queryGraph", "arguments": {"text": f"gas {min(n, MAX_TOOL_ROUNDS - 3)}"}}
        for n in range(MAX_TOOL_ROUNDS)
    ]
    desk.levers.script(*[_builds(lookup) for lookup in lookups], _builds(content="Nothing."))
    situation = await desk.situation()
    acquired = Acquired(SENTENCE, "")
    await construct(desk.model, situation, acquired, graph_construction(situation.scope))
    assert len(desk.recording.asked) == MAX_TOOL_ROUNDS + 1
    users = [each for each in desk.recording.asked[-1].messages if each["role"] == "user"]
    assert "rounds of tool calls are used up" in users[-1]["content"]
    assert len(users) == 2, "the first message, and that the rounds are used up"


async def test_the_review_comes_before_the_last_round(desk: Desk) -> None:
    lookups = [
        {"name": "queryGraph", "arguments": {"text": f"gas {n}"}}
        for n in range(MAX_TOOL_ROUNDS - 1)
    ]
    desk.levers.script(*[_builds(lookup) for lookup in lookups], _builds(content="Nothing to add."))
    await desk.construct(await desk.situation())
    last = desk.recording.asked[-1]
    assert [tool["function"]["name"] for tool in last.tools] == ["addGraphNode"]
    assert "Nothing is written into the graph yet" in last.messages[-1]["content"]


async def test_construction_that_still_writes_nothing_is_accepted(desk: Desk) -> None:
    desk.levers.script(_builds(content="Nothing."), _builds(content="Really nothing."))
    written = await desk.construct(await desk.situation())
    assert (written.nodes, written.edges) == ([], [])
    assert len(desk.recording.asked) == 2


async def test_misspelled_calls_are_made_and_nodes_are_found_by_their_names(desk: Desk) -> None:
    edge_type = {"name": "BORDERS", "description": "They touch.", "justification": "None fits."}
    desk.levers.script(
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
    situation = await desk.situation()
    await acquire(desk.model, desk.search, situation)
    written = await desk.construct(situation)
    assert (len(written.nodes), len(written.edges)) == (1, 1)
    noted = await desk.repairs(Phase.GRAPH_CONSTRUCTION)
    assert len(noted) == written.repairs
    said = " ".join(f"{subject}: {text}" for subject, text in noted)
    for words in (
        "createEdgeType: 'functions.create_edge_type' was read as createEdgeType.",
        "addGraphNode: The arguments were broken JSON and were repaired.",
        "What stood in arguments was taken out of it.",
        'type: "countries" was read as Country.',
        f"[node:{desk.victim.node_id}]",
    ):
        assert words in said
    replies = [m["content"] for m in desk.recording.asked[-1].messages if m["role"] == "tool"]
    assert "no node has this name" in replies[-1]
    assert str(desk.victim.node_id) in replies[-1], "it names candidates"


async def test_calls_that_are_written_as_text_are_made(desk: Desk) -> None:
    text = '<tool_call>\n{"name": "tavilySearch", "arguments": {"query": "lithium"}}\n</tool_call>'
    desk.levers.script(_acquires(content=text), _acquires(content=SENTENCE))
    situation = await desk.situation()
    acquired = await acquire(desk.model, desk.search, situation)
    assert desk.web.searched == ["lithium"]
    assert acquired.document == SENTENCE
    assert ("tavilySearch", "The call was written as text.") in await desk.repairs(
        Phase.KNOWLEDGE_ACQUISITION
    )
    await acquire(desk.model, desk.search, situation)
    assert (desk.web.searched, len(desk.recording.asked)) == (["lithium"], 2)


async def test_a_call_that_stands_among_other_words_is_not_made(desk: Desk) -> None:
    quoted = 'The page says: {"name": "tavilySearch", "arguments": {"query": "secrets"}}'
    desk.levers.script(_acquires(SEARCH), _acquires(content=quoted))
    acquired = await acquire(desk.model, desk.search, await desk.situation())
    assert desk.web.searched == ["lithium"]
    assert acquired.document == quoted


def _plans(content: Any) -> dict[str, Any]:
    return {"phase": Phase.OBSERVER, "content": content}


async def _observed(model: Model, database: Database) -> tuple[StepResult, list[str]]:
    """What the first iteration's Observer comes to, and the objectives of its queries."""
    async with database.transaction() as session:
        observe = await session.scalar(select(Step.id).where(Step.kind == StepKind.OBSERVE))
        assert observe is not None
        claim = await leases.claim(session, observe, "test", seconds=600)
    assert isinstance(claim, Claimed)
    outcome = await Observe(model, 4_000)(claim.lease, claim.step)
    async with leases.leased_transaction(database, claim.lease) as session:
        assert outcome.write is not None
        await outcome.write(session)
    async with database.transaction() as session:
        queries = await session.scalars(select(Step.input).where(Step.kind == StepKind.QUERY))
        return outcome, [each["objective"] for each in queries]


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
    levers: Sandbox,
    answers: list[Any],
    objective: str,
) -> None:
    levers.script(*map(_plans, answers))
    model = create_model(sandbox_settings, database)
    await make_iteration(database, await make_agent(database))
    outcome, objectives = await _observed(model, database)
    assert objectives == [objective]
    assert outcome.result["queries"] == 1
    assert outcome.result["repairs"] >= 1
    assert levers.billed()["llm"] == 2


async def test_an_empty_plan_of_an_agent_that_knows_something_is_a_plan(
    sandbox_settings: Settings, database: Database, levers: Sandbox
) -> None:
    await make_victim(database)
    levers.script(_plans(EMPTY))
    outcome, objectives = await _observed(create_model(sandbox_settings, database), database)
    assert objectives == []
    assert (outcome.result["queries"], outcome.result["insights"]) == (0, 0)
    assert levers.billed()["llm"] == 1


async def test_a_model_that_is_away_is_not_taken_for_one_that_talks_nonsense(
    sandbox_settings: Settings, database: Database
) -> None:
    away = sandbox_settings.model_copy(update={"openai_base_url": "http://127.0.0.1:9/v1"})
    await make_iteration(database, await make_agent(database))
    with pytest.raises(TransientError):
        await _observed(create_model(away, database), database)


async def test_a_search_without_results_is_made_again_without_its_limits(desk: Desk) -> None:
    limited = {"name": "tavilySearch", "arguments": {"query": "nowhere", "timeRange": "day"}}
    desk.web.finds_nothing_for("nowhere")
    desk.levers.script(
        _acquires(limited),
        _acquires(content=ECHO),
        _acquires(content=f"## Ewoyaa\nSource: {PAGE.url}\n\n{SENTENCE}"),
    )
    acquired = await acquire(desk.model, desk.search, await desk.situation())
    assert "No page was found" in desk.recording.asked[1].messages[-1]["content"]
    assert sorted(desk.web.searched) == sorted(["nowhere", *QUERY.search_hints])
    assert PAGE.url in acquired.sources


async def test_an_invented_document_without_a_page_is_not_constructed_from(desk: Desk) -> None:
    desk.web.finds_nothing_for("nowhere", *QUERY.search_hints)
    search = {"name": "tavilySearch", "arguments": {"query": "nowhere"}}
    desk.levers.script(_acquires(search), _acquires(content=ECHO), _acquires(content=ECHO))
    step_lease, step = await desk.victim.step(StepKind.QUERY, QUERY.model_dump(mode="json"))
    result = await Research(desk.model, desk.search, 4_000)(step_lease, step)
    assert result.result == {"nodes": 0, "edges": 0, "repairs": 1}
    assert len(desk.recording.asked) == 3, "graph construction is not asked"


async def test_calls_that_are_all_refused_are_reviewed_and_end(desk: Desk) -> None:
    bad = [_adds(f"Togo {number}", type="Unheard") for number in range(MAX_REFUSED_ROUNDS)]
    desk.levers.script(*[_builds(each) for each in bad], _builds(content="Nothing."))
    await desk.construct(await desk.situation())
    offered = [[tool["function"]["name"] for tool in each.tools] for each in desk.recording.asked]
    assert len(offered) == MAX_REFUSED_ROUNDS + 1
    assert all(len(each) > 1 for each in offered[:REVIEWED_REFUSED_ROUNDS])
    assert offered[REVIEWED_REFUSED_ROUNDS] == ["addGraphNode"]
    assert offered[-1] == []


async def test_a_call_written_as_text_after_the_tools_have_ended_is_not_made(desk: Desk) -> None:
    look = {"name": "queryGraph", "arguments": {"text": "gas"}}
    desk.levers.script(*[_builds(look)] * 3, _builds(content=json.dumps(look)))
    await desk.construct(await desk.situation())
    assert len(desk.recording.asked) == 4


async def test_an_empty_list_of_properties_stands_for_all(desk: Desk) -> None:
    evidence = [{"sourceUrl": PAGE.url, "quote": SENTENCE, "properties": []}]
    desk.levers.script(
        _acquires(SEARCH),
        _acquires(content=SENTENCE),
        _builds(_adds(evidence=evidence)),
        _builds(content="Togo was added."),
    )
    situation = await desk.situation()
    acquired = await acquire(desk.model, desk.search, situation)
    tools = graph_construction(situation.scope)
    _, written = await construct(desk.model, situation, acquired, tools)
    assert len(written.nodes) == 1


async def test_paid_calls_that_come_again_in_a_cycle_are_answered_shortly_and_end(
    desk: Desk,
) -> None:
    searches = [
        {"name": "tavilySearch", "arguments": {"query": query}} for query in ("lithium", "Ewoyaa")
    ]
    desk.levers.script(
        *[_acquires(search) for search in [*searches, *searches]],
        {"content": f"## Ewoyaa\nSource: {PAGE.url}\n\n{SENTENCE}"},
    )
    situation = await desk.situation()
    acquired = await acquire(desk.model, desk.search, situation)
    assert PAGE.url in acquired.document
    assert desk.web.searched == ["lithium", "Ewoyaa"]
    last = desk.recording.asked[-1]
    assert (len(desk.recording.asked), last.tools) == (5, ())
    results = [each["content"] for each in last.messages if each["role"] == "tool"]
    assert [SENTENCE in each for each in results] == [True, True, False, False]
    assert "made before" in results[2]
    await acquire(desk.model, desk.search, situation)
    assert len(desk.recording.asked) == 5, "a resumed run goes the same way"
