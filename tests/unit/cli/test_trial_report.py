"""A trial's report, counted from what an installation has recorded."""

import json
from collections.abc import Sequence
from datetime import timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any
from uuid import UUID, uuid5

import pytest
from rich.console import Console

from cli.errors import BadInputError
from cli.render.console import THEME
from cli.render.trial import show_comparison, show_report
from cli.trial import report as reports
from cli.trial.facts import FactCheck
from cli.trial.preflight import Preflight, Probe, Server
from cli.trial.pricing import TrialPrice, output_limit, price_of, write_prices
from cli.trial.report import (
    CostReport,
    GraphReport,
    PriceReport,
    Recorded,
    Report,
    Run,
    Verdict,
    read_report,
    refusal_kind,
)
from cli.trial.run import MISSION, _without_secrets
from cli.verification import AgentVerified
from sandbox.corpus.factbook import Country, StatedFact
from shared.llm.pricing import ModelPrice, read_prices
from shared.schemas.agents import ConfigurationDetails
from shared.schemas.base import (
    AnswerEvent,
    EdgeView,
    InteractionEvent,
    InteractionView,
    NodeView,
    RepairEvent,
    StepView,
    ToolCall,
    ToolResultEvent,
)
from shared.schemas.iterations import CallView
from shared.schemas.provenance import CheckedView
from tests.support.cli.story import ID, START, iteration, step

CHECK = FactCheck(
    [Country(("Ghana",), (StatedFact("Capital, name", "Accra"), StatedFact("Area, total", "9 km")))]
)
NONE = Recorded(None, None, (), (), (), (), None, 0.0)


def named(what: str) -> UUID:
    return uuid5(ID, what)


def ran(
    of: StepView, phase: str, *events: InteractionEvent, completed: bool = True
) -> InteractionView:
    return InteractionView(
        id=named(f"{of.id} {phase}"),
        step_id=of.id,
        phase=phase,
        model="m",
        system_prompt="",
        request={},
        events=list(events),
        created_at=START,
        completed_at=START if completed else None,
    )


def called(run: InteractionView, second: int = 0, **values: Any) -> CallView:
    known: dict[str, Any] = {
        "id": named(f"{run.id} {second} {values}"),
        "iteration_id": ID,
        "step_id": run.step_id,
        "interaction_id": run.id,
        "kind": "llm",
        "phase": run.phase,
        "model": "m",
        "request": {"structured": False},
        "input_tokens": 100,
        "output_tokens": 30,
        "cost_usd": 0.1,
        "started_at": START + timedelta(seconds=second),
        "answered_at": START + timedelta(seconds=second + 10),
    }
    return CallView(**(known | values))


def answered(*tools: str) -> AnswerEvent:
    return AnswerEvent(
        call_id=ID,
        tool_calls=[ToolCall(id="1", name=tool, arguments="{}") for tool in tools],
        message=None,
        finish_reason="stop",
        input_tokens=1,
        output_tokens=1,
    )


def gave(tool: str, error: str | None = None) -> ToolResultEvent:
    return ToolResultEvent(name=tool, result={"error": error} if error else {"id": "1"})


def configured(
    status: str, interaction: InteractionView | None, of: StepView
) -> ConfigurationDetails:
    return ConfigurationDetails(
        step_id=of.id,
        status=status,
        error="it does not fit" if status == "failed" else None,
        attempts=1,
        retry_at=None,
        requested_at=START,
        ended_at=START,
        mission=MISSION,
        keep=[],
        interaction=interaction,
    )


def recorded(
    runs: Sequence[InteractionView] = (),
    calls: Sequence[CallView] = (),
    steps: Sequence[StepView] = (),
    **more: Any,
) -> Recorded:
    told = iteration(*steps, interactions=list(runs))
    known = {**vars(NONE), "iterations": [told], "calls": calls}
    return Recorded(**(known | more))


def node(name: str, kind: str = "Country", **properties: Any) -> NodeView:
    return NodeView(
        id=named(name),
        type=kind,
        name=name,
        properties=properties,
        created_at=START,
        updated_at=START,
    )


def test_a_phase_is_counted_with_its_calls_tokens_and_time() -> None:
    query = step("query")
    found = ran(query, "knowledge_acquisition")
    calls = [
        called(found, 0),
        called(found, 10, input_tokens=None, output_tokens=None),
        called(found, 20, answered_at=None),
        called(found, 30, kind="search"),
    ]
    by_name = {each.phase: each for each in reports.phases_of(recorded([found], calls, [query]))}
    phase = by_name["knowledge_acquisition"]
    assert (phase.status, phase.runs, phase.completed, phase.failed) == ("worked", 1, 1, 0)
    assert (phase.calls, phase.input_tokens, phase.output_tokens) == (2, 100, 30)
    assert (phase.seconds, phase.tokens_per_second) == (20.0, 1.5)
    assert by_name["graph_construction"].status == "not reached"
    assert next(iter(by_name)) == "configuration"


def test_a_failed_step_is_a_failure_of_the_phase_it_came_to() -> None:
    steps = [
        step("query", 0, "failed", error="no quotes"),
        step("query", 1, "failed", error="no model"),
        step("query", 2),
        step("query", 3, "running", error="is tried again"),
    ]
    runs = [
        ran(steps[0], "knowledge_acquisition"),
        ran(steps[0], "graph_construction", completed=False),
        ran(steps[2], "knowledge_acquisition"),
        ran(steps[2], "graph_construction"),
        ran(steps[3], "knowledge_acquisition", completed=False),
    ]
    found = {each.phase: each for each in reports.phases_of(recorded(runs, (), steps))}
    acquired, built = found["knowledge_acquisition"], found["graph_construction"]
    assert (acquired.runs, acquired.completed, acquired.failed) == (4, 2, 1)
    assert (acquired.status, acquired.errors) == ("partly failed", ["no model", "is tried again"])
    assert (built.runs, built.completed, built.failed) == (2, 1, 1)
    assert built.errors == ["no quotes"]


def test_a_failed_configuration_without_a_word_said_is_one_failed_run() -> None:
    of = step("configure")
    made = recorded(configuration=configured("failed", None, of), iterations=[])
    phase = reports.phases_of(made)[0]
    assert (phase.status, phase.runs, phase.failed) == ("failed", 1, 1)
    assert phase.errors == ["it does not fit"]


def test_tools_are_counted_and_refusals_grouped_by_kind() -> None:
    query = step("query")
    no_quote = "evidence[{}].quote: it does not stand in https://x. Copy it: without leaving out"
    run = ran(
        query,
        "graph_construction",
        answered("addGraphNode", "addGraphNode", "addGraphEdge"),
        gave("addGraphNode"),
        gave("addGraphNode", no_quote.format(0)),
        gave("addGraphEdge", "the arguments of addGraphEdge do not fit: sourceId: too short"),
        answered("addGraphNode"),
        gave("addGraphNode", no_quote.format(7)),
    )
    found = reports.tools_of([run])
    assert (found.made, found.refused) == (4, 3)
    assert [(each.tool, each.made, each.refused) for each in found.by_tool] == [
        ("addGraphEdge", 1, 1),
        ("addGraphNode", 3, 2),
    ]
    assert [(each.kind, each.count) for each in found.refusals] == [
        ("quote is not in the page, word for word", 2),
        ("arguments do not fit the tool's schema", 1),
    ]
    assert found.refusals[0].example.startswith("addGraphNode: evidence[0].quote")
    in_text = ran(query, "knowledge_acquisition", answered(), gave("tavilySearch"))
    assert reports.tools_of([in_text]).made == 1


def test_refusals_that_are_not_known_are_grouped_by_their_words() -> None:
    one = refusal_kind("the moon 'Io' is full: wait 3 nights; then call again.")
    assert one == refusal_kind("the moon 'Titan' is full: wait 12 nights; then call again.")
    assert one == "the moon … is full"
    assert refusal_kind("There is no node type 'X'. There are: Y.") == "type does not exist"


def test_repairs_by_code_are_counted_by_subject() -> None:
    configure = step("configure")
    run = ran(
        configure,
        "configuration",
        RepairEvent(subject="types", repairs=["lower case", "one dropped"]),
        RepairEvent(subject="addGraphNode", repairs=["JSON repaired"]),
    )
    found = reports.repairs_of([run])
    assert (found.total, found.by_subject) == (3, {"types": 2, "addGraphNode": 1})
    assert found.examples[0] == "types: lower case"
    assert reports.repairs_of([]).total == 0


def structured(*asks_again: bool, **how: Any) -> tuple[int, int, int]:
    """First try, after repair, failed: of one run with these calls, and how it ended."""
    of = step("observe", status=how.get("status", "completed"))
    run = ran(of, "observer", *how.get("events", ()), completed=how.get("completed", True))
    calls = [
        called(run, number, request={"structured": True} | ({"asks_again": True} if again else {}))
        for number, again in enumerate(asks_again)
    ]
    found = reports.structured_of(recorded([run], calls, [of]))
    return found.first_try, found.after_repair, found.failed


def test_structured_answers_at_first_try_after_repair_and_not_at_all() -> None:
    assert structured(False) == (1, 0, 0)
    assert structured(False, False) == (2, 0, 0)
    assert structured(False, True) == (0, 1, 0)
    assert structured(False, True, False) == (1, 1, 0)
    assert structured(False, False, True, status="failed", completed=False) == (1, 0, 1)
    assert structured(False, True, status="failed", completed=False) == (0, 0, 1)
    assert structured(False, True, status="running", completed=False) == (0, 1, 0)
    by_code = RepairEvent(subject="plan", repairs=["one query dropped"])
    assert structured(False, False, events=[by_code]) == (1, 1, 0)
    of_tool = [answered("addGraphNode"), RepairEvent(subject="addGraphNode", repairs=["x"])]
    assert structured(False, events=of_tool) == (1, 0, 0)


def test_facts_of_nodes_and_edges_but_not_of_conclusions() -> None:
    edge = EdgeView(
        id=named("edge"),
        type="area",
        source_id=named("Ghana"),
        source_name="Ghana",
        target_id=named("Volta"),
        target_name="Volta",
        properties={"figure": "9 km"},
        created_at=START,
        updated_at=START,
    )
    nodes = [
        node("Ghana", capital="Accra", outlook="good"),
        node("Republic", capital="Kumasi"),
        node("Conclusion on Ghana", "AgentAnalysis", capital="Kumasi"),
        node("Advice", "AgentAdvice"),
    ]
    made = recorded(nodes=nodes, edges=[edge])
    found = reports.facts_of(made, CHECK)
    assert (found.right, found.wrong, found.not_checkable) == (1, 0, 3)
    wrong = reports.facts_of(recorded(nodes=[node("Ghana", capital="Kumasi")]), CHECK)
    assert (wrong.wrong, wrong.wrong_examples[0].stated) == (1, "Ghana — Capital, name: Accra")
    assert wrong.wrong_examples[0].written == "Kumasi"
    graph = reports.graph_of(made)
    assert (graph.nodes, graph.edges, graph.analyses, graph.advice) == (2, 1, 1, 1)


def verdict(**how: Any) -> Verdict:
    """Of an iteration in which everything went well, but for what is given."""
    query = step("query", status=how.get("query", "completed"), error=how.get("error"))
    observe = step("observe")
    configure = step("configure")
    state = how.get("configuration", "completed")
    runs = [ran(observe, "observer"), ran(query, "graph_construction")]
    made = recorded(
        runs,
        [],
        [observe, query],
        configuration=configured(
            state, ran(configure, "configuration", completed=state == "completed"), configure
        ),
    )
    known = {
        "ended": "finished",
        "iterations_asked": 1,
        "iterations_completed": 1,
        "iterations_failed": 0,
        "seconds": 1,
        "time_limit_seconds": 9,
    }
    run = Run(**(known | how.get("run", {})))
    return reports.verdict_of(
        run,
        reports.phases_of(made),
        reports.StructuredReport(first_try=2, after_repair=how.get("after_repair", 0), failed=0),
        reports.RepairReport(total=how.get("repairs", 0), by_subject={}, examples=[]),
        GraphReport(nodes=5, edges=2, evidence=how.get("evidence", 9), analyses=0, advice=0),
        reports.FactsReport(
            right=how.get("right", 9),
            wrong=how.get("wrong", 0),
            not_checkable=0,
            wrong_examples=[],
            right_examples=[],
        ),
        how.get("verification"),
    )


BROKEN = reports.VerificationReport(
    holds=False, checked=CheckedView(), broken=1, in_doubt=0, breaks=[]
)
OUT_OF_TIME = {"ended": "time_limit", "iterations_completed": 0}


@pytest.mark.parametrize(
    ("how", "sentence"),
    [
        ({}, "usable: every phase that was reached worked"),
        ({"repairs": 2}, "usable with repairs: every phase worked"),
        ({"after_repair": 1}, "usable with repairs: every phase worked"),
        ({"configuration": "failed"}, "not usable: configuration failed"),
        ({"run": {"iterations_completed": 0, "iterations_failed": 1}}, "not usable: no iteration"),
        ({"evidence": 0}, "not usable: it wrote nothing with evidence"),
        ({"right": 2, "wrong": 9}, "not usable: most facts"),
        ({"right": 0, "wrong": 1}, "usable: "),
        ({"verification": BROKEN}, "not usable: what it wrote cannot be verified"),
        ({"query": "failed", "error": "no"}, "usable in part: failures in graph_construction"),
        ({"run": OUT_OF_TIME}, "not finished: the time limit was reached"),
        ({"run": {"ended": "interrupted", "iterations_completed": 0}}, "not finished: it was"),
        ({"run": {"ended": "budget", "iterations_completed": 0}}, "not finished: the budget"),
        ({"run": {"iterations_asked": 0, "iterations_completed": 0}, "evidence": 0}, "usable: "),
    ],
)
def test_verdicts(how: dict[str, Any], sentence: str) -> None:
    found = verdict(**how)
    assert found.sentence.startswith(sentence), found
    assert found.is_good == (found.word in ("usable", "usable with repairs"))
    assert found.reasons


def report(**changed: Any) -> Report:
    probe = Probe(works=True, detail="yes")
    price = PriceReport(input_usd=1, output_usd=2, source="fallback")
    phases = reports.phases_of(NONE)
    known: dict[str, Any] = {
        "made_at": START,
        "vigil_version": "1",
        "mission": MISSION,
        "server": reports.Server(url="http://host/v1", model="org/model:7b"),
        "preflight": Preflight(
            models=["m"],
            streaming=probe,
            tool_calls=probe,
            structured_output=Probe(works=False, detail="answered 400: sk-secret is wrong"),
            input_tokens=1,
            output_tokens=1,
            seconds=1,
        ),
        "run": Run(
            ended="finished",
            iterations_asked=1,
            iterations_completed=1,
            iterations_failed=0,
            seconds=60,
            time_limit_seconds=7200,
        ),
        "phases": phases,
        "tools": reports.tools_of([]),
        "repairs": reports.repairs_of([]),
        "structured": reports.structured_of(NONE),
        "graph": reports.graph_of(NONE),
        "facts": reports.facts_of(NONE, CHECK),
        "costs": CostReport(
            budget_usd=0.5,
            spent_usd=0.25,
            input_tokens=1000,
            output_tokens=10,
            price=price,
            output_limit_tokens=16_000,
        ),
        "verification": reports.verification_of(
            AgentVerified(
                agent_id=ID,
                name="a",
                holds=True,
                checked=CheckedView(),
                broken=0,
                breaks=[],
                in_doubt=0,
                doubts=[],
            )
        ),
        "verdict": verdict(),
    }
    return Report(**(known | changed))


def shown(reported: Report) -> str:
    console = Console(theme=THEME, width=140, record=True, file=None, quiet=False)
    with console.capture() as captured:
        show_report(console, reported)
    return captured.get()


def test_a_report_is_saved_read_again_and_compared(tmp_path: Path) -> None:
    made = report()
    assert made.file_name == "vigil-model-report-org-model-7b-2026-01-31.json"
    file = tmp_path / made.file_name
    made.save(file)
    assert read_report(file) == made
    console = Console(theme=THEME, width=140)
    with console.capture() as captured:
        show_comparison(console, [made, report(server=reports.Server(url=None, model="other"))])
    assert all(words in captured.get() for words in ("org/model:7b", "other", "Facts", "Verdict"))


def test_what_is_no_report_is_not_compared(tmp_path: Path) -> None:
    file = tmp_path / "report.json"
    for content, words in (
        ("[]", "is no report"),
        ("{", "is no report"),
        ('{"report_version": 1}', "is no report"),
        ('{"report_version": 99}', "of version 99"),
    ):
        file.write_text(content)
        with pytest.raises(BadInputError, match=words):
            read_report(file)
    with pytest.raises(BadInputError, match="cannot be read"):
        read_report(tmp_path / "none.json")


def test_a_shown_report_says_the_verdict_the_price_and_what_failed() -> None:
    told = shown(report())
    for words in ("usable", "FALLBACK price", "0.25", "JSON Schema", "no: answered 400", "60 s"):
        assert words in told, told


def test_a_key_is_never_in_a_report() -> None:
    hidden = _without_secrets(report(), Server("http://u:password@host/v1", "m", "sk-secret"))
    assert "sk-secret" not in hidden.model_dump_json()
    assert "*** is wrong" in hidden.preflight.structured_output.detail
    assert _without_secrets(report(), None) == report()


PRICES = read_prices()


@pytest.mark.parametrize(
    ("model", "url", "given", "source", "output"),
    [
        ("gpt-5.4-mini", "https://api.openai.com/v1", None, "listed", "4.50"),
        ("gpt-5.4-mini", "http://127.0.0.1:1/v1", None, "listed", "4.50"),
        ("local", "http://127.0.0.1:1/v1", None, "own_server", "0"),
        ("local", "http://localhost/v1", None, "own_server", "0"),
        ("local", "http://192.168.1.4:8000/v1", None, "own_server", "0"),
        ("local", "http://gpu.internal/v1", None, "own_server", "0"),
        ("some", "https://example.org/v1", None, "fallback", "30"),
        ("some", "https://93.184.216.34/v1", None, "fallback", "30"),
        ("some", "http://127.0.0.1/v1", "1.5, 2", "given", "2"),
    ],
)
def test_the_price_that_calls_are_counted_at(
    model: str, url: str, given: str | None, source: str, output: str
) -> None:
    found = price_of(PRICES, model, url, given)
    assert (found.source, found.price.output) == (source, Decimal(output))
    assert found.sentence()


@pytest.mark.parametrize("given", ["", "1", "a,b", "1,2,3", "-1,2", "NaN,1", "1e99,1"])
def test_what_is_no_price_is_refused(given: str) -> None:
    with pytest.raises(BadInputError, match="is no price"):
        price_of(PRICES, "m", "", given)


def test_an_answer_is_no_longer_than_the_budget_can_pay() -> None:
    fallback = price_of(PRICES, "some", "https://example.org", None).price
    assert output_limit(fallback, Decimal("0.50"), 16_000) == 6_666
    assert output_limit(fallback, Decimal("50"), 16_000) == 16_000
    free = ModelPrice(input=Decimal(0), output=Decimal(0))
    assert output_limit(free, Decimal("0.01"), 16_000) == 16_000
    with pytest.raises(BadInputError, match="--budget-usd"):
        output_limit(fallback, Decimal("0.01"), 16_000)


def test_the_trials_prices_are_a_list_that_vigil_reads(tmp_path: Path) -> None:
    file = tmp_path / "prices.toml"
    for name in ("gpt-5.5", 'a "quoted" näme'):
        priced = TrialPrice(PRICES.of_model(name), "listed")
        write_prices(file, PRICES, name, priced.price)
        read = read_prices(file)
        assert read.of_model(name) == PRICES.of_model(name)
        assert read.of_operation("research") == 0


def test_every_field_of_the_report_is_in_the_document() -> None:
    document = (Path(__file__).parents[3] / "docs/try-model.md").read_text()
    for field in json.loads(report().model_dump_json()):
        assert f"`{field}`" in document, field
