"""The phase `verification`: what it reads, pays and stores before a conclusion is stored, and of new evidence."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from functools import partial
from typing import Any, Final
from uuid import UUID, uuid4

import pytest
from pydantic import SecretStr
from sqlalchemy import select, text, update

from services.adviser.handler import Advise
from services.analyzer.handler import Analyze
from shared.agents import memories
from shared.database.engine import Database
from shared.database.tables import (
    Agent,
    Call,
    ConclusionVerdict,
    Doubt,
    EntailmentVerdict,
    Evidence,
    GraphNode,
    InboxItem,
    Interaction,
    Message,
    Step,
)
from shared.database.unit_of_work import UnitOfWork
from shared.enums import (
    ADVICE_TYPE,
    ANALYSIS_TYPE,
    Entailment,
    MemoryKind,
    Phase,
    StepKind,
    StepStatus,
)
from shared.errors import PermanentError, UnavailableError
from shared.failpoints import Failpoint
from shared.graph.conclusions.readings import NOT_READ
from shared.graph.provenance import readings
from shared.graph.provenance.evidence import EvidenceInput
from shared.graph.retraction.propagation import propagate_refusals
from shared.graph.scope import GraphScope
from shared.graph.verification.verifier import check_page
from shared.llm import paid_calls, toolset
from shared.llm.answer_errors import AnswerError, FailureKind
from shared.llm.ledgered_model import read_last_answer
from shared.llm.model_server import REFUSED_CONTENT
from shared.llm.phase_run import PhaseRun
from shared.llm.provider import Model
from shared.llm.verification import (
    MAX_OUTPUT_TOKENS,
    PROMPT_VERSION,
    Reader,
    read_sample,
    reader_model,
)
from shared.runtime.providers import create_model
from shared.runtime.settings import Settings
from shared.runtime.step_runner import StepResult
from shared.tools import Json
from shared.workflow import leases
from shared.workflow.iterations import StepRow
from shared.workflow.leases import Lease
from tests.support import claims
from tests.support.factories import make_iteration
from tests.support.graph.agent_graph import PAGE, AgentGraph, make_agent_graph
from tests.support.reading_model import ReadingModel, Verdicts, all_supported, failing
from tests.support.table_rows import add

INSIGHT: Final = {
    "observation": "They grow.",
    "relevant_node_ids": [],
    "synthesis_direction": "On.",
}
END: Final[tuple[str, Json]] = ("finish", {})
SPARE_USD: Final = "1"


class KilledError(Exception):
    """The process ends here."""


@dataclass
class ReadingCase:
    """An agent with two countries, and an iteration whose steps conclude something of them."""

    agent_graph: AgentGraph
    settings: Settings
    iteration_id: UUID
    ghana: UUID
    togo: UUID
    steps: int = 0

    @property
    def database(self) -> Database:
        return self.agent_graph.database

    @property
    def agent_id(self) -> UUID:
        return self.agent_graph.scope.agent_id

    async def change_agent(self, **values: Any) -> None:
        async with self.database.transaction() as session:
            await session.execute(update(Agent).where(Agent.id == self.agent_id).values(**values))

    async def step(self, kind: StepKind, step_input: Json) -> UUID:
        self.steps += 1
        async with self.database.transaction() as session:
            step = Step(
                id=uuid4(),
                iteration_id=self.iteration_id,
                agent_id=self.agent_id,
                kind=kind,
                index=self.steps,
                input=step_input,
                status=StepStatus.PENDING,
            )
            await add(session, step)
        return step.id

    async def claim(self, step_id: UUID) -> tuple[Lease, StepRow]:
        async with self.database.transaction() as session:
            await session.execute(
                text(
                    "update steps set lease_until = clock_timestamp() - interval '1 s' where id = :id"
                ),
                {"id": step_id},
            )
        async with self.database.transaction() as session:
            claimed = await claims.claimed(session, step_id, "test", seconds=600)
        unit = UnitOfWork(self.database, leases.fence(claimed.lease))
        return replace(claimed.lease, unit=unit), claimed.step

    async def analyze(self, model: ReadingModel, step_id: UUID | None = None) -> Json:
        step_id = step_id or await self.step(StepKind.INSIGHT, INSIGHT)
        lease, step = await self.claim(step_id)
        handler = Analyze(create_model(self.settings, self.database, model), 6_000)
        return await self._ended(lease, await handler(lease, step))

    async def advise(self, model: ReadingModel, analyses: Sequence[UUID]) -> Json:
        step_input = {"analysis_ids": [str(each) for each in analyses]}
        lease, step = await self.claim(await self.step(StepKind.ADVISE, step_input))
        handler = Advise(create_model(self.settings, self.database, model), 6_000)
        return await self._ended(lease, await handler(lease, step))

    async def _ended(self, lease: Lease, outcome: StepResult) -> Json:
        assert lease.unit is not None
        for query in outcome.queries:
            lease.unit.defer_query(query)
        await lease.unit.commit()
        return dict(outcome.result)

    def analysis(self, name: str = "Growth", content: str = "", **changes: Any) -> tuple[str, Json]:
        cited = f"[node:{self.ghana}]"
        arguments = {
            "name": name,
            "type": "pattern",
            "summary": "Ghana has a capital.",
            "content": content or f"Its capital is Accra {cited}.",
            "confidence": 0.5,
            "horizon": None,
        }
        return "addAgentAnalysisNode", arguments | changes

    async def conclusions(self, type_name: str = ANALYSIS_TYPE) -> dict[str, GraphNode]:
        async with self.database.transaction() as session:
            of_type = GraphNode.agent_id == self.agent_id, GraphNode.type == type_name
            nodes = await session.scalars(select(GraphNode).where(*of_type))
            return {node.name: node for node in nodes}

    async def sentences(self, name: str, type_name: str = ANALYSIS_TYPE) -> list[ConclusionVerdict]:
        node = (await self.conclusions(type_name))[name]
        async with self.database.transaction() as session:
            rows = await session.scalars(
                select(ConclusionVerdict)
                .where(ConclusionVerdict.conclusion_id == node.id)
                .order_by(ConclusionVerdict.number)
            )
            return list(rows)

    async def verdicts(self) -> list[EntailmentVerdict]:
        async with self.database.transaction() as session:
            of_agent = select(EntailmentVerdict).order_by(EntailmentVerdict.property)
            return list(await session.scalars(of_agent))

    async def calls(self, phase: Phase = Phase.VERIFICATION) -> list[Call]:
        async with self.database.transaction() as session:
            of_phase = Call.phase == phase, Call.agent_id == self.agent_id
            return list(await session.scalars(select(Call).where(*of_phase)))

    async def breaks(self) -> list[Any]:
        """What `vigil verify` finds broken."""
        found: list[Any] = []
        cursor: str | None = None
        while True:
            async with self.database.transaction() as session:
                page = await check_page(session, self.agent_graph.scope, cursor=cursor)
            found += page.breaks
            if (cursor := page.next) is None:
                return found


@pytest.fixture
async def case(database: Database, sandbox_settings: Settings) -> ReadingCase:
    agent_graph = await make_agent_graph(database)
    async with database.transaction() as session:
        agent = await session.get_one(Agent, agent_graph.scope.agent_id)
    started = await make_iteration(database, agent)
    ghana = await agent_graph.node("Ghana", capital="Accra")
    togo = await agent_graph.node("Togo", capital="Niamey")
    # The sandbox's key would say that no model reads. Here a script of the test answers.
    reading_case = ReadingCase(agent_graph, sandbox_settings, started.iteration.id, ghana, togo)
    await reading_case.change_agent(advice_from_one_analysis=True, budget_usd_per_day=None)
    return reading_case


async def test_a_supported_conclusion_is_stored_with_its_verdicts(case: ReadingCase) -> None:
    model = ReadingModel([[case.analysis(), END]])
    result = await case.analyze(model)
    assert len(result["analyses"]) == 1
    assert "left_out" not in result
    assert "not_read" not in result
    [call] = await case.calls()
    assert (call.answered_at is not None, call.reserved_on) == (True, None)
    rows = await case.sentences("Growth")
    assert [(row.number, row.sentence, row.kind, row.verdict) for row in rows] == [
        (1, "Growth", "states", "supported"),
        (2, "Ghana has a capital.", "states", "supported"),
        (3, "Its capital is Accra.", "states", "supported"),
    ]
    assert {(row.model, row.prompt_version, row.call_id) for row in rows} == {
        ("sandbox-reader", PROMPT_VERSION, call.id)
    }
    assert {
        each.property: (each.verdict, each.call_id, each.prompt_version)
        for each in await case.verdicts()
    } == dict.fromkeys(["summary", "capital"], ("supported", call.id, PROMPT_VERSION))
    [message] = model.read
    assert 'Country "Ghana": ' in message
    assert "»All that is written here of states" in message
    assert "2024-05-01" in message
    assert "4 [1] Its capital is Accra." in message
    assert await case.breaks() == []
    async with case.database.transaction() as session:
        runs = await session.scalars(
            select(Interaction).where(Interaction.phase == Phase.VERIFICATION)
        )
        [run] = list(runs)
    assert run.completed_at is not None


async def test_what_was_read_is_not_read_again(case: ReadingCase) -> None:
    await case.analyze(ReadingModel([[case.analysis(), END]]))
    model = ReadingModel([[case.analysis("Further"), END]])
    await case.analyze(model)
    [claim] = [line for line in model.read[0].splitlines() if line.startswith("1 ")]
    assert claim.startswith('1 (supported) Country "Ghana": '), "the claim has a verdict"
    assert "»All that is written here of states" in claim, "sentences are held against the quote"
    assert len(await case.verdicts()) == 2


async def test_all_conclusions_of_an_answer_are_read_in_one_call(case: ReadingCase) -> None:
    other = case.analysis(
        "Other", f"Niamey is a capital [node:{case.togo}].", summary="Togo has one."
    )
    model = ReadingModel([[case.analysis(), other, END]])
    result = await case.analyze(model)
    assert len(result["analyses"]) == 2
    assert len(model.read) == len(await case.calls()) == 1
    assert [row.verdict for row in await case.sentences("Other")] == ["supported"] * 3


async def _towns(case: ReadingCase, count: int) -> list[UUID]:
    """Nodes of pages of their own."""
    towns = []
    for number in range(count):
        page = {
            **PAGE,
            "url": f"https://towns.example/{number}",
            "content": f"Town {number} is a town.",
        }
        await case.agent_graph.store_search_results({"results": [page]})
        quoted = [EvidenceInput(page["url"], page["content"])]
        stored = await case.agent_graph.add_node(
            f"Town {number}", {"summary": page["content"]}, quoted
        )
        towns.append(stored.id)
    return towns


async def test_no_claim_is_taken_as_given_because_there_are_many(case: ReadingCase) -> None:
    towns = await _towns(case, 36)
    content = " ".join(f"It has town {n} [node:{town}]." for n, town in enumerate(towns))
    model = ReadingModel([[case.analysis("Towns", content), END]])
    await case.analyze(model)
    shown = [line for message in model.read for line in message.splitlines() if "»" in line]
    assert len(shown) == 36
    assert all("| " in line and "(supported)" not in line for line in shown)
    assert len(await case.verdicts()) == 36


async def test_what_is_too_large_for_one_request_is_read_in_several(
    case: ReadingCase, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("shared.tools.readings.MAX_LINES", 12)
    towns = await _towns(case, 12)
    content = " ".join(f"Here is town {n} [node:{town}]." for n, town in enumerate(towns))
    model = ReadingModel([[case.analysis("Towns", content), END]])
    await case.analyze(model)
    assert len(model.read) == len(await case.calls()) > 1
    assert [row.verdict for row in await case.sentences("Towns")] == ["supported"] * 14
    assert len(await case.verdicts()) == 12
    wrong = ReadingModel([[case.analysis("False", content), END]], failing("town 11"))
    assert (await case.analyze(wrong))["left_out"] == ["False"]
    assert await case.breaks() == []


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (
            lambda town: " ".join(f"Here is {n} [node:{town[0]}]." for n in range(40)),
            "has 42 sentences",
        ),
        (
            lambda town: "Here " + " ".join(f"[node:{each}]" for each in town[:13]) + ".",
            "cites 13 nodes",
        ),
        (
            lambda town: " ".join(
                f"Here is {n} [node:{town[n]}] [node:{town[40 - n]}]." for n in range(21)
            ),
            "It cites 41 nodes",
        ),
        (lambda town: f"Here {'and there ' * 100} is a town [node:{town[0]}].", "characters"),
    ],
    ids=["sentences", "citations of a sentence", "citations", "length"],
)
async def test_what_is_too_long_to_be_compared_is_refused(
    case: ReadingCase, content: Callable[[Sequence[UUID]], str], told: str
) -> None:
    towns = await _towns(case, 41)
    model = ReadingModel([[case.analysis("Towns", content(towns)), END], [END]])
    result = await case.analyze(model)
    assert result["analyses"] == []
    assert told in model.results[0]
    assert model.read == [], "it is not paid for"


async def test_what_fails_is_told_once_and_stored_when_it_is_rewritten(case: ReadingCase) -> None:
    wrong = case.analysis(content=f"Its capital grows fast [node:{case.ghana}].")
    model = ReadingModel(
        [[wrong, END], [case.analysis(), END]], failing("grows fast", "sc it is not said")
    )
    result = await case.analyze(model)
    assert "“Its capital grows fast.”: contradicted (it is not said)" in model.results[0]
    assert len(result["analyses"]) == 1
    assert "left_out" not in result
    assert (await case.conclusions())["Growth"].properties["content"].startswith("Its capital is")
    assert len(model.read) == 2


async def test_only_what_changed_is_read_again_and_all_verdicts_are_stored(
    case: ReadingCase,
) -> None:
    content = f"Togo is there [node:{case.togo}]. It is a state [node:{case.togo}]. Its capital {{}} [node:{case.ghana}]."
    wrong = case.analysis(content=content.format("grows fast"))
    right = case.analysis(content=content.format("is Accra"))
    model = ReadingModel([[wrong, END], [right, END]], failing("grows fast"))
    result = await case.analyze(model)
    assert len(result["analyses"]) == 1
    first, second = model.read
    assert "Togo is there." in first
    assert "Togo is there." not in second
    assert "It is a state." in second, "a pronoun can refer to it"
    assert "Its capital is Accra." in second
    correction = model.results[0]
    assert "grows fast" in correction
    assert 'Country "Ghana"' in correction, "what the sentence cites"
    texts = [row.sentence for row in await case.sentences("Growth")]
    assert {"Its capital is Accra.", "It is a state.", "Togo is there."} <= {*texts}
    assert len({row.call_id for row in await case.sentences("Growth")}) == 2


async def test_a_title_that_fails_needs_another_one(case: ReadingCase) -> None:
    wrong, right = case.analysis("Growth is fast"), case.analysis("Growth")
    model = ReadingModel([[wrong, END], [right, END]], failing("Growth is fast"))
    result = await case.analyze(model)
    assert "call again with another title" in model.results[0]
    assert len(result["analyses"]) == 1
    assert [*await case.conclusions()] == ["Growth"]


async def test_what_fails_twice_is_left_out_and_the_result_says_so(case: ReadingCase) -> None:
    wrong = case.analysis(content=f"Its capital grows fast [node:{case.ghana}].")
    still = case.analysis(content=f"Its capital grows fast, it seems [node:{case.ghana}].")
    rounds = [[wrong, END], [still, END], [still, END]]
    model = ReadingModel(rounds, failing("grows fast", "if"))
    model.verdicts = failing("grows fast", "id nothing says so")
    result = await case.analyze(model)
    assert result["analyses"] == []
    assert result["left_out"] == ["Growth"]
    assert await case.conclusions() == {}
    assert len(model.read) == 2, "a third attempt is not paid for"
    assert len(await case.verdicts()) == 2, "what was read of the claim is kept"


async def test_a_plausible_inference_is_stored_and_no_success(case: ReadingCase) -> None:
    model = ReadingModel([[case.analysis(), END]], failing("Its capital", "ip"))
    await case.analyze(model)
    assert [row.verdict for row in await case.sentences("Growth")][-1] == "plausible"


async def test_a_conclusion_on_a_contradicted_claim_is_left_out(case: ReadingCase) -> None:
    def contradicts(message: str) -> list[str]:
        return [
            line.replace(" s", " c the page says otherwise") if line.endswith(" s") else line
            for line in all_supported(message)
        ]

    model = ReadingModel([[case.analysis(), END], [case.analysis(), END]], contradicts)
    result = await case.analyze(model)
    assert result["left_out"] == ["Growth"]
    verdicts = await case.verdicts()
    assert {each.property for each in verdicts} == {"summary", "capital", ""}
    assert {each.verdict for each in verdicts} == {Entailment.CONTRADICTED}
    assert None not in {each.due_at for each in verdicts}, "what rests on it is to be doubted"


async def test_a_false_value_leaves_a_conclusion_on_another_one_and_returns_with_a_better_quote(
    case: ReadingCase,
) -> None:
    def verdicts(message: str) -> list[str]:
        others = [line for line in all_supported(message) if not line.endswith(" s")]
        return ["1 summary s", "1 capital n names no town", *others]

    content = f"Ghana is a state [node:{case.ghana}]."
    conclusion = case.analysis(content=content, summary="It is a state.")
    result = await case.analyze(ReadingModel([[conclusion, END]], verdicts))
    assert len(result["analyses"]) == 1
    read = {each.property: (each.verdict, each.reason) for each in await case.verdicts()}
    assert read == {
        "summary": ("supported", ""),
        "capital": ("not_stated", "names no town"),
    }
    await propagate_refusals(case.database)
    assert await case.breaks() == []
    async with case.database.transaction() as session:
        assert (await session.get_one(GraphNode, case.ghana)).properties == {"summary": "A state."}
        assert (await session.scalars(select(Doubt))).all() == [], "it was read with the value"
    page = {**PAGE, "url": "https://b.example/1", "content": "The capital of Ghana is Accra."}
    await case.agent_graph.store_search_results({"results": [page]})
    await case.agent_graph.add_node(
        "Ghana",
        {"summary": "A state.", "capital": "Accra"},
        [EvidenceInput(page["url"], page["content"])],
    )
    async with case.database.transaction() as session:
        assert (await session.get_one(GraphNode, case.ghana)).properties["capital"] == "Accra"
    assert await case.breaks() == []


@pytest.mark.parametrize(
    "answer",
    ["I do not know.", "", '{"verdicts": []}', '{"verdicts": ["all ss"]}', '{"claims": 1}'],
)
async def test_an_answer_without_verdicts_leaves_the_conclusion_unread(
    case: ReadingCase, answer: str
) -> None:
    result = await case.analyze(ReadingModel([[case.analysis(), END]], lambda _: answer))
    assert len(result["analyses"]) == 1
    assert result["not_read"]["count"] == 1
    assert await case.sentences("Growth") == []
    assert len(await case.calls()) == 1


@pytest.mark.parametrize(
    "error",
    [
        PermanentError(REFUSED_CONTENT, "a filter refuses the request", is_unbilled=True),
        AnswerError("it has no time for this", kind=FailureKind.NO_ANSWER),
        AnswerError("it broke off", kind=FailureKind.CUT_OFF),
        UnavailableError("it is away", is_unbilled=True),
        PermanentError("llm_key", "the key is refused", is_unbilled=True),
    ],
    ids=["filtered", "no answer", "cut off", "unavailable", "key"],
)
async def test_a_provider_that_does_not_read_loses_no_conclusion(
    case: ReadingCase, error: Exception
) -> None:
    result = await case.analyze(ReadingModel([[case.analysis(), END]], error=error))
    assert len(result["analyses"]) == 1
    assert result["not_read"] == {"count": 1, "why": str(error)} | (
        {"why": result["not_read"]["why"]} if isinstance(error, AnswerError) else {}
    )
    assert await case.sentences("Growth") == []


async def test_a_page_that_a_filter_refuses_leaves_the_others_read(case: ReadingCase) -> None:
    page = {**PAGE, "url": "https://other.example/states", "published_date": "2024-06-01"}
    await case.agent_graph.store_search_results({"results": [page]})
    quoted = [EvidenceInput(page["url"], page["content"])]
    mali = (await case.agent_graph.add_node("Mali", {"summary": "A state."}, quoted)).id

    def filters(message: str) -> list[str]:
        if "2024-06-01" in message:
            raise PermanentError(REFUSED_CONTENT, "a filter refuses it", is_unbilled=True)
        return all_supported(message)

    of_mali = case.analysis("Mali stands", f"It is a state [node:{mali}].")
    model = ReadingModel([[case.analysis(), of_mali, END]], filters)
    result = await case.analyze(model)
    assert len(result["analyses"]) == 2
    assert result["not_read"]["count"] == 1
    assert len(model.read) == 3, "the request, and each half of it"
    assert [row.verdict for row in await case.sentences("Growth")][-1] == "supported"
    assert {row.sentence for row in await case.sentences("Mali stands")}.isdisjoint(
        {"It is a state."}
    )
    assert [(each.property, each.verdict) for each in await case.verdicts()] == [
        (name, "supported") for name in ("capital", "summary")
    ]
    assert await case.breaks() == []


async def test_a_refusal_of_the_rules_is_told_as_it_is_beside_a_conclusion_that_is_read(
    case: ReadingCase,
) -> None:
    uncited = case.analysis("Uncited", "Its capital is Accra.")
    model = ReadingModel([[uncited, case.analysis()], [END]])
    result = await case.analyze(model)
    assert len(result["analyses"]) == 1
    assert "cite" in model.results[0]
    assert "Uncited" not in "".join(model.read)


async def test_a_used_up_budget_leaves_it_unread_and_suspends_nobody(case: ReadingCase) -> None:
    spending = ReadingModel([[case.analysis(), END]])
    lease, step = await case.claim(await case.step(StepKind.INSIGHT, INSIGHT))
    model = create_model(case.settings, case.database, spending)
    # Enough for the phase that concludes, and not for a reading besides.
    model = replace(
        model, max_output_tokens={**model.max_output_tokens, Phase.VERIFICATION: 10_000_000}
    )
    await case.change_agent(budget_usd_per_day=Decimal("5"))
    result = await case._ended(lease, await Analyze(model, 6_000)(lease, step))
    assert len(result["analyses"]) == 1
    assert "budget" in result["not_read"]["why"]
    assert spending.read == []
    async with case.database.transaction() as session:
        assert (await session.get_one(Agent, case.agent_id)).suspended_until is None


async def test_the_cap_of_the_phase_stops_it(case: ReadingCase) -> None:
    await case.change_agent(verification_usd_per_day=Decimal("0.000001"))
    model = ReadingModel([[case.analysis(), END], [case.analysis("More"), END]])
    result = await case.analyze(model)
    assert result["not_read"] == {"count": 1, "why": "the daily limit of readings is reached"}
    assert (model.read, await case.calls()) == ([], [])
    await case.change_agent(verification_usd_per_day=Decimal(SPARE_USD))
    assert "not_read" not in await case.analyze(ReadingModel([[case.analysis("Further"), END]]))


async def test_a_cap_of_0_turns_it_off(case: ReadingCase) -> None:
    await case.change_agent(verification_usd_per_day=Decimal(0))
    model = ReadingModel([[case.analysis(), END]])
    result = await case.analyze(model)
    assert (model.read, "not_read" in result) == ([], False)
    assert await case.sentences("Growth") == []


async def test_advice_is_read_against_analyses_and_what_they_cite(case: ReadingCase) -> None:
    await case.analyze(ReadingModel([[case.analysis(), END]]))
    [analysis] = (await case.conclusions()).values()
    advice = _advice(f"Wait, as its capital is Accra [node:{analysis.id}].")
    model = ReadingModel([[advice, END]])
    result = await case.advise(model, [analysis.id])
    assert len(result["advice"]) == 1
    assert 'Analysis "Growth": Ghana has a capital. Its capital is Accra.' in model.read[0]
    assert 'Country "Ghana": ' in model.read[0]
    assert [row.sentence for row in await case.sentences("Wait", ADVICE_TYPE)] == [
        "Wait",
        "Wait.",
        "Wait, as its capital is Accra.",
        "Another state takes the place of its capital.",
        "HOLD",
        'It is about "Ghana".',
    ]
    assert "(action) HOLD" in model.read[0]
    async with case.database.transaction() as session:
        [item] = await session.scalars(select(InboxItem).where(InboxItem.kind == "advice"))
        [message] = await session.scalars(select(Message))
    assert NOT_READ not in f"{item.summary}{message.content}"


async def test_advice_is_read_beside_the_advice_that_stands(case: ReadingCase) -> None:
    await case.analyze(ReadingModel([[case.analysis(), END]]))
    [analysis] = (await case.conclusions()).values()
    await case.advise(ReadingModel([[_advice(f"Wait [node:{analysis.id}]."), END]]), [analysis.id])
    name, arguments = _advice(f"Buy [node:{analysis.id}].")
    bought = (name, {**arguments, "name": "Buy", "action": "BUY", "summary": "Buy Togo."})
    subject = {"subject": [f"node:{case.togo}"]}
    other = case.analysis("Togo grows", f"Its capital is Niamey [node:{case.togo}].")
    await case.analyze(ReadingModel([[other, END]]))
    on_togo = (await case.conclusions())["Togo grows"]
    text = f"Buy Togo, as its capital is Niamey [node:{on_togo.id}] [node:{analysis.id}]."
    bought = (bought[0], {**bought[1], **subject, "content": text})
    model = ReadingModel(
        [[bought, END], [END]], failing("(action) BUY", "id it says the opposite of HOLD")
    )
    result = await case.advise(model, [analysis.id, on_togo.id])
    assert result["advice"] == []
    assert "<standing_advice>" in model.read[0]
    assert "<mission>" in model.read[0]
    assert 'HOLD on "Ghana": Wait. Wait.' in model.read[0]
    assert "“BUY”: does not follow" in model.results[0]


async def test_unread_advice_says_so_first(case: ReadingCase) -> None:
    analysis = await case.agent_graph.analysis(f"Accra [node:{case.ghana}].", "Growth")
    model = ReadingModel([[_advice(f"Wait [node:{analysis}]."), END]], lambda _: "")
    await case.advise(model, [analysis])
    async with case.database.transaction() as session:
        [item] = await session.scalars(select(InboxItem).where(InboxItem.kind == "advice"))
        [message] = await session.scalars(select(Message))
    assert item.summary.startswith(NOT_READ)
    assert message.content.split("\n\n")[1].startswith(NOT_READ)


async def test_the_adviser_is_shown_what_the_owner_holds_as_a_memory(case: ReadingCase) -> None:
    """There are no holdings beside the mission and memories."""
    async with case.database.transaction() as session:
        await memories.remember(session, case.agent_id, MemoryKind.FACT, "I hold 2,000 shares")
    analysis = await case.agent_graph.analysis(f"Accra [node:{case.ghana}].", "Growth")
    model = ReadingModel([[END]])
    await case.advise(model, [analysis])
    message = str(model.sent[0].messages[-1]["content"])
    assert "<memories>\n- fact: I hold 2,000 shares\n</memories>" in message


async def test_the_reason_of_a_review_is_read_against_what_it_cites_and_the_advice(
    case: ReadingCase,
) -> None:
    await case.analyze(ReadingModel([[case.analysis(), END]]))
    [analysis] = (await case.conclusions()).values()
    advise = _advice(f"Wait, as its capital is Accra [node:{analysis.id}].")
    [advice] = (await case.advise(ReadingModel([[advise, END]]), [analysis.id]))["advice"]
    stored = len(await case.sentences("Wait", ADVICE_TYPE))

    def review(because: str) -> tuple[str, Json]:
        reason = f"{because} [node:{analysis.id}]."
        return "reviewAdvice", {
            "advice": advice["id"],
            "review": "confirms",
            "because": reason,
            "confidence": None,
            "horizon": None,
        }

    wrong, right = review("Its capital is far"), review("Its 2 capitals make 1,000 people wait")
    model = ReadingModel([[wrong, END], [right, END]], failing("is far", "id nothing says so"))
    result = await case.advise(model, [analysis.id])
    assert "“Its capital is far.”: does not follow (nothing says so)" in model.results[0]
    assert [each["review"] for each in result["reviewed"]] == ["confirms"]
    assert "left_out" not in result
    first, second = model.read
    assert 'Analysis "Growth": ' in first
    assert 'Advice "Wait": Wait. Wait, as its capital is Accra.' in first
    assert "Its 2 capitals make 1,000 people wait." in second, "read, and not left to the rules"
    assert len(await case.sentences("Wait", ADVICE_TYPE)) == stored, "the advice has its own"
    unread = ReadingModel([[review("It has 5,432 people now"), END], [END]], lambda _: "")
    assert "reviewed" not in await case.advise(unread, [analysis.id])
    assert "nothing that this rests on says 5,432" in unread.results[0]


def _advice(content: str) -> tuple[str, Json]:
    return "addAgentAdviceNode", {
        "name": "Wait",
        "action": "HOLD",
        "summary": "Wait.",
        "content": content,
        "confidence": 0.5,
        "horizon": "3 months",
        "invalidation": "Another state takes the place of its capital.",
        "replaces": None,
        "subject": None,
    }


async def test_the_sandbox_reads_nothing(case: ReadingCase) -> None:
    """With its key, its answers are no reading."""
    model = create_model(case.settings, case.database)
    lease, _ = await case.claim(await case.step(StepKind.INSIGHT, INSIGHT))
    assert reader_model(lease.agent, model) is None
    assert not Reader(model, _main_run(model, lease)).is_on
    await model.provider.close()


def _main_run(model: Model, lease: Lease) -> PhaseRun:
    return PhaseRun(model, lease, lease.agent, Phase.ANALYSIS_GENERATION, "Begin.")


async def test_the_cheapest_configured_model_reads(case: ReadingCase) -> None:
    lease, _ = await case.claim(await case.step(StepKind.INSIGHT, INSIGHT))
    settings = case.settings.model_copy(
        update={
            "model": "gpt-5.4",
            "openai_api_key": SecretStr("a-key"),
            "prices_file": None,
        }
    )
    model = create_model(settings, case.database, ReadingModel([]))

    def chosen(**models: str) -> str | None:
        return reader_model(lease.agent._replace(models=models), model)

    assert chosen() == "gpt-5.4"
    assert chosen(observer="gpt-5.4-nano", conversation="gpt-5.4-mini") == "gpt-5.4-nano"
    assert chosen(observer="gpt-5.4-nano, then gpt-5.5") == "gpt-5.4-nano, then gpt-5.5"
    assert chosen(observer="gpt-5.5") == "gpt-5.4"
    assert chosen(observer="unknown") == "gpt-5.4"
    assert chosen(verification="gpt-5.5", observer="gpt-5.4-nano") == "gpt-5.5"
    assert chosen(entailment_check="gpt-5.5") == "gpt-5.5", "the name of earlier releases"
    assert model.max_output_tokens[Phase.VERIFICATION] == MAX_OUTPUT_TOKENS


@pytest.mark.parametrize("max_lines", [100, 2], ids=["one request", "several requests"])
async def test_kills_pay_for_no_answer_twice_and_part_no_verdict_from_its_conclusion(
    case: ReadingCase, monkeypatch: pytest.MonkeyPatch, max_lines: int
) -> None:
    """At each failpoint, and at each of its passes: what a killed process had not committed is lost."""
    monkeypatch.setattr("shared.tools.readings.MAX_LINES", max_lines)
    passes = _Passes()
    for module in (paid_calls, toolset):
        monkeypatch.setattr(module, "failpoint", passes)

    async def lose(*_: Any) -> None:
        return

    monkeypatch.setattr(UnitOfWork, "_commit_kept", lose)
    await case.analyze(_rewriting(case, "Undisturbed"))
    undisturbed = passes.count
    calls = len(await case.calls())
    assert calls == (2 if max_lines > 2 else 3)
    assert {*passes.seen} >= {
        Failpoint.CALL_UNSENT,
        Failpoint.CALL_ANSWERED,
        Failpoint.TOOL_APPLIED,
    }
    for place in range(1, undisturbed + 1):
        name = f"Growth {place}"
        step_id = await case.step(StepKind.INSIGHT, INSIGHT)
        passes.arm(place)
        with pytest.raises(KilledError):
            await case.analyze(_rewriting(case, name), step_id)
        passes.disarm()
        is_stored = name in await case.conclusions()
        assert not is_stored or len(await case.sentences(name)) == 3, place
        again = _rewriting(case, name)
        result = await case.analyze(again, step_id)
        assert len(result["analyses"]) == 1, place
        assert "left_out" not in result, place
        assert len(await case.sentences(name)) == 3, place
        of_step = [call for call in await case.calls() if call.step_id == step_id]
        assert len(of_step) == calls, (place, "the wrong one and the right one")
        assert all(call.answered_at for call in of_step), place
        unpaid = {call.id for call in of_step if call.attempts > 1}
        assert len(unpaid) <= (passes.killed_at in _LOSES_ANSWER), (place, passes.killed_at)
        async with case.database.transaction() as session:
            orphans = await session.scalars(
                select(ConclusionVerdict).where(
                    ConclusionVerdict.call_id.not_in([call.id for call in await case.calls()])
                )
            )
            assert list(orphans) == []
    assert await case.breaks() == []


_LOSES_ANSWER: Final = frozenset(
    {
        Failpoint.CALL_UNSENT,
        Failpoint.CALL_ANSWERED,
        Failpoint.CALL_RECORDED,
        Failpoint.TOOL_APPLIED,
    }
)
"""Where the newest answer is not committed: that one is requested again."""


def _rewriting(case: ReadingCase, name: str) -> ReadingModel:
    content = f"Its capital grows fast [node:{case.ghana}]. It is a state [node:{case.togo}]."
    wrong = case.analysis(name, content)
    return ReadingModel([[wrong, END], [case.analysis(name), END]], failing("grows fast"))


class _Passes:
    """In place of failpoints: counts passes, and ends the process at one of them."""

    def __init__(self) -> None:
        self.count = 0
        self.seen: list[Failpoint] = []
        self.killed_at: Failpoint | None = None
        self._place: int | None = None

    def arm(self, place: int) -> None:
        self.count, self._place = 0, place

    def disarm(self) -> None:
        self._place = None

    def __call__(self, point: Failpoint) -> None:
        self.count += 1
        self.seen.append(point)
        if self.count == self._place:
            self.killed_at = point
            raise KilledError(point)


async def test_a_sample_of_new_evidence_is_read_in_one_call(case: ReadingCase) -> None:
    found = await _read_sample(case, all_supported)
    assert found == {"supported": 4}, "two values of two nodes"
    [call] = await case.calls()
    assert {row.call_id for row in await case.verdicts()} == {call.id}
    assert await _read_sample(case, all_supported) == {}, "all have a verdict"


async def test_a_sample_says_what_stays_unread(case: ReadingCase) -> None:
    assert await _read_sample(case, lambda _: ["1 s"]) == {"supported": 2, "unread": 2}
    assert await _read_sample(case, lambda _: "no") == {"stopped": "the model gave no verdict"}


async def test_a_stranger_reads_none_of_it(case: ReadingCase, database: Database) -> None:
    stranger = await make_agent_graph(database, "stranger")
    scope = case.agent_graph.scope
    foreign = GraphScope(stranger.scope.owner_id, scope.agent_id, step_id=uuid4())
    assert await database.run(readings.new_evidence(foreign, 1.0)) is None


async def _read_sample(case: ReadingCase, verdicts: Verdicts) -> Json:
    """Has all evidence read, as that of one step."""
    lease, _ = await case.claim(await case.step(StepKind.INSIGHT, INSIGHT))
    async with case.database.transaction() as session:
        of_agent = Evidence.agent_id == case.agent_id
        await session.execute(update(Evidence).where(of_agent).values(step_id=lease.step_id))
    model = create_model(case.settings, case.database, ReadingModel([], verdicts))
    run = _main_run(model, lease)
    await run.model.answer(await run.begin([]), read_last_answer)
    scope = GraphScope.of(lease)
    found = await read_sample(
        Reader(model, run),
        readings.new_evidence(scope, 1.0),
        partial(readings.store_verdicts, scope),
    )
    assert lease.unit is not None
    await lease.unit.commit()
    return found
