"""The report of a model trial, computed from the records of an installation."""

import json
from collections.abc import Sequence
from datetime import timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any
from uuid import UUID, uuid5

import pytest

from cli.errors import BadInputError
from cli.render.console import THEME, SafeConsole
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
    InteractionEvent,
    InteractionResponse,
    RepairEvent,
    StepResponse,
    ToolCall,
    ToolResultEvent,
)
from shared.schemas.iterations import CallResponse
from shared.schemas.provenance import CheckedCounts
from tests.support.case_files import read_cases
from tests.support.responses import ID, START, edge, iteration, node, step

CASES = read_cases(__file__)

CHECK = FactCheck(
    [Country(("Ghana",), (StatedFact("Capital, name", "Accra"), StatedFact("Area, total", "9 km")))]
)
EMPTY = Recorded(None, None, (), (), (), (), None, 0.0)


def make_id(name: str) -> UUID:
    return uuid5(ID, name)


def make_run(
    parent: StepResponse, phase: str, *events: InteractionEvent, completed: bool = True
) -> InteractionResponse:
    return InteractionResponse(
        id=make_id(f"{parent.id} {phase}"),
        step_id=parent.id,
        phase=phase,
        model="m",
        system_prompt="",
        request={},
        events=list(events),
        created_at=START,
        completed_at=START if completed else None,
    )


def make_call(run: InteractionResponse, second: int = 0, **values: Any) -> CallResponse:
    defaults: dict[str, Any] = {
        "id": make_id(f"{run.id} {second} {values}"),
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
    return CallResponse(**(defaults | values))


def answer_event(*tools: str) -> AnswerEvent:
    return AnswerEvent(
        call_id=ID,
        tool_calls=[ToolCall(id="1", name=tool, arguments="{}") for tool in tools],
        message=None,
        finish_reason="stop",
        input_tokens=1,
        output_tokens=1,
    )


def tool_result(tool: str, error: str | None = None) -> ToolResultEvent:
    return ToolResultEvent(name=tool, result={"error": error} if error else {"id": "1"})


def make_configuration(
    status: str, interaction: InteractionResponse | None, parent: StepResponse
) -> ConfigurationDetails:
    return ConfigurationDetails(
        step_id=parent.id,
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


def make_records(
    runs: Sequence[InteractionResponse] = (),
    calls: Sequence[CallResponse] = (),
    steps: Sequence[StepResponse] = (),
    **overrides: Any,
) -> Recorded:
    details = iteration(*steps, interactions=list(runs))
    fields = {**vars(EMPTY), "iterations": [details], "calls": calls}
    return Recorded(**(fields | overrides))


def test_a_phase_report_counts_calls_tokens_and_time() -> None:
    query = step("query")
    run = make_run(query, "knowledge_acquisition")
    calls = [
        make_call(run, 0),
        make_call(run, 10, input_tokens=None, output_tokens=None),
        make_call(run, 20, answered_at=None),
        make_call(run, 30, kind="search"),
    ]
    by_name = {
        phase_report.phase: phase_report
        for phase_report in reports.phases_of(make_records([run], calls, [query]))
    }
    phase = by_name["knowledge_acquisition"]
    assert (phase.status, phase.runs, phase.completed, phase.failed) == ("worked", 1, 1, 0)
    assert (phase.calls, phase.input_tokens, phase.output_tokens) == (2, 100, 30)
    assert (phase.seconds, phase.tokens_per_second) == (20.0, 1.5)
    assert by_name["graph_construction"].status == "not reached"
    assert next(iter(by_name)) == "configuration"


def test_a_failed_step_is_a_failure_of_the_last_phase_it_reached() -> None:
    steps = [
        step("query", 0, "failed", error="no quotes"),
        step("query", 1, "failed", error="no model"),
        step("query", 2),
        step("query", 3, "running", error="is tried again"),
    ]
    runs = [
        make_run(steps[0], "knowledge_acquisition"),
        make_run(steps[0], "graph_construction", completed=False),
        make_run(steps[2], "knowledge_acquisition"),
        make_run(steps[2], "graph_construction"),
        make_run(steps[3], "knowledge_acquisition", completed=False),
    ]
    by_phase = {
        phase_report.phase: phase_report
        for phase_report in reports.phases_of(make_records(runs, (), steps))
    }
    acquisition, construction = by_phase["knowledge_acquisition"], by_phase["graph_construction"]
    assert (acquisition.runs, acquisition.completed, acquisition.failed) == (4, 2, 1)
    assert (acquisition.status, acquisition.errors) == (
        "partly failed",
        ["no model", "is tried again"],
    )
    assert (construction.runs, construction.completed, construction.failed) == (2, 1, 1)
    assert construction.errors == ["no quotes"]


def test_a_failed_configuration_without_an_interaction_is_one_failed_run() -> None:
    configure = step("configure")
    records = make_records(
        configuration=make_configuration("failed", None, configure), iterations=[]
    )
    phase = reports.phases_of(records)[0]
    assert (phase.status, phase.runs, phase.failed) == ("failed", 1, 1)
    assert phase.errors == ["it does not fit"]


def test_tools_are_counted_and_refusals_grouped_by_kind() -> None:
    query = step("query")
    no_quote = "evidence[{}].quote: it is not in https://x. Copy it, without omitting"
    run = make_run(
        query,
        "graph_construction",
        answer_event("addGraphNode", "addGraphNode", "addGraphEdge"),
        tool_result("addGraphNode"),
        tool_result("addGraphNode", no_quote.format(0)),
        tool_result(
            "addGraphEdge", "the arguments of addGraphEdge do not fit: sourceId: too short"
        ),
        answer_event("addGraphNode"),
        tool_result("addGraphNode", no_quote.format(7)),
    )
    tools = reports.tools_of([run])
    assert (tools.made, tools.refused) == (4, 3)
    assert [(tool.tool, tool.made, tool.refused) for tool in tools.by_tool] == [
        ("addGraphEdge", 1, 1),
        ("addGraphNode", 3, 2),
    ]
    assert [(refusal.kind, refusal.count) for refusal in tools.refusals] == [
        (refusal_kind(no_quote.format(0)), 2),
        ("the arguments of addGraphEdge do not fit: sourceId: too short", 1),
    ]
    assert tools.refusals[0].example.startswith("addGraphNode: evidence[0].quote")
    run_with_text_call = make_run(
        query, "knowledge_acquisition", answer_event(), tool_result("tavilySearch")
    )
    assert reports.tools_of([run_with_text_call]).made == 1


def test_refusals_are_grouped_by_their_wording() -> None:
    kind = refusal_kind("the moon 'Io' is full: wait 3 nights; then call again.")
    assert kind == refusal_kind("the moon 'Titan' is full: wait 12 nights; then call again.")
    assert kind == "the moon … is full: wait … nights"
    assert refusal_kind("There is no node type 'X'. There are: Y.") == "There is no node type …"


def test_repairs_by_code_are_counted_by_subject() -> None:
    configure = step("configure")
    run = make_run(
        configure,
        "configuration",
        RepairEvent(subject="types", repairs=["lower case", "one dropped"]),
        RepairEvent(subject="addGraphNode", repairs=["JSON repaired"]),
    )
    repairs = reports.repairs_of([run])
    assert (repairs.total, repairs.by_subject) == (3, {"types": 2, "addGraphNode": 1})
    assert repairs.examples[0] == "types: lower case"
    assert reports.repairs_of([]).total == 0


def count_structured(*repair_flags: bool, **options: Any) -> tuple[int, int, int]:
    """Return how many answers of one run were right at the first try, right after repair, and failed."""
    observe = step("observe", status=options.get("status", "completed"))
    run = make_run(
        observe, "observer", *options.get("events", ()), completed=options.get("completed", True)
    )
    calls = [
        make_call(
            run, number, request={"structured": True} | ({"asks_again": True} if is_repair else {})
        )
        for number, is_repair in enumerate(repair_flags)
    ]
    counts = reports.structured_of(make_records([run], calls, [observe]))
    return counts.first_try, counts.after_repair, counts.failed


def test_structured_answers_are_counted_as_first_try_after_repair_or_failed() -> None:
    assert count_structured(False) == (1, 0, 0)
    assert count_structured(False, False) == (2, 0, 0)
    assert count_structured(False, True) == (0, 1, 0)
    assert count_structured(False, True, False) == (1, 1, 0)
    assert count_structured(False, False, True, status="failed", completed=False) == (1, 0, 1)
    assert count_structured(False, True, status="failed", completed=False) == (0, 0, 1)
    assert count_structured(False, True, status="running", completed=False) == (0, 1, 0)
    code_repair = RepairEvent(subject="plan", repairs=["one query dropped"])
    assert count_structured(False, False, events=[code_repair]) == (1, 1, 0)
    tool_events = [answer_event("addGraphNode"), RepairEvent(subject="addGraphNode", repairs=["x"])]
    assert count_structured(False, events=tool_events) == (1, 0, 0)


def test_facts_are_checked_in_nodes_and_edges_but_not_in_conclusions() -> None:
    names = {"source_name": "Ghana", "target_name": "Volta"}
    area = edge("area", make_id("Ghana"), make_id("Volta"), properties={"figure": "9 km"}, **names)
    nodes = [
        node("Ghana", properties={"capital": "Accra", "outlook": "good"}),
        node("Republic", properties={"capital": "Kumasi"}),
        node("Conclusion on Ghana", "AgentAnalysis", properties={"capital": "Kumasi"}),
        node("Advice", "AgentAdvice", properties={}),
    ]
    records = make_records(nodes=nodes, edges=[area])
    facts = reports.facts_of(records, CHECK)
    assert (facts.right, facts.wrong, facts.not_checkable) == (1, 0, 3)
    wrong = reports.facts_of(
        make_records(nodes=[node("Ghana", properties={"capital": "Kumasi"})]), CHECK
    )
    assert (wrong.wrong, wrong.wrong_examples[0].stated) == (1, "Ghana — Capital, name: Accra")
    assert wrong.wrong_examples[0].written == "Kumasi"
    graph = reports.graph_of(records)
    assert (graph.nodes, graph.edges, graph.analyses, graph.advice) == (2, 1, 1, 1)


def verdict(**changes: Any) -> Verdict:
    """Return the verdict on an iteration that succeeds except for these changes."""
    query = step("query", status=changes.get("query", "completed"), error=changes.get("error"))
    observe = step("observe")
    configure = step("configure")
    state = changes.get("configuration", "completed")
    runs = [make_run(observe, "observer"), make_run(query, "graph_construction")]
    records = make_records(
        runs,
        [],
        [observe, query],
        configuration=make_configuration(
            state, make_run(configure, "configuration", completed=state == "completed"), configure
        ),
    )
    defaults = {
        "ended": "finished",
        "iterations_asked": 1,
        "iterations_completed": 1,
        "iterations_failed": 0,
        "seconds": 1,
        "time_limit_seconds": 9,
    }
    run = Run(**(defaults | changes.get("run", {})))
    return reports.verdict_of(
        run,
        reports.phases_of(records),
        reports.StructuredReport(
            first_try=2, after_repair=changes.get("after_repair", 0), failed=0
        ),
        reports.RepairReport(total=changes.get("repairs", 0), by_subject={}, examples=[]),
        GraphReport(nodes=5, edges=2, evidence=changes.get("evidence", 9), analyses=0, advice=0),
        reports.FactsReport(
            right=changes.get("right", 9),
            wrong=changes.get("wrong", 0),
            not_checkable=0,
            wrong_examples=[],
            right_examples=[],
        ),
        changes.get("verification"),
    )


BROKEN = reports.VerificationReport(
    holds=False, checked=CheckedCounts(), broken=1, in_doubt=0, breaks=[]
)
OUT_OF_TIME = {"ended": "time_limit", "iterations_completed": 0}


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({}, "usable: every phase that was reached worked"),
        ({"repairs": 2}, "usable with repairs: every phase worked"),
        ({"after_repair": 1}, "usable with repairs: every phase worked"),
        ({"configuration": "failed"}, "not usable: configuration failed"),
        ({"run": {"iterations_completed": 0, "iterations_failed": 1}}, "not usable: no iteration"),
        ({"evidence": 0}, "not usable: it wrote nothing with evidence"),
        ({"right": 2, "wrong": 9}, "not usable: most checkable facts"),
        ({"right": 0, "wrong": 1}, "usable: "),
        ({"verification": BROKEN}, "not usable: what it wrote cannot be verified"),
        ({"query": "failed", "error": "no"}, "usable in part: failures in graph_construction"),
        ({"run": OUT_OF_TIME}, "not finished: the time limit was reached"),
        ({"run": {"ended": "interrupted", "iterations_completed": 0}}, "not finished: it was"),
        ({"run": {"ended": "budget", "iterations_completed": 0}}, "not finished: the budget"),
        ({"run": {"iterations_asked": 0, "iterations_completed": 0}, "evidence": 0}, "usable: "),
    ],
)
def test_verdicts(changes: dict[str, Any], sentence: str) -> None:
    result = verdict(**changes)
    assert result.sentence.startswith(sentence), result
    assert result.is_good == (result.word in ("usable", "usable with repairs"))
    assert result.reasons


def report(**overrides: Any) -> Report:
    refused = Probe(works=False, detail="answered 400: sk-secret is wrong")
    price = PriceReport(input_usd=1, output_usd=2, source="fallback")
    phases = reports.phases_of(EMPTY)
    defaults: dict[str, Any] = {
        "made_at": START,
        "vigil_version": "1",
        "mission": MISSION,
        "server": reports.Server(url="http://host/v1", model="org/model:7b"),
        "preflight": Preflight(
            models=["m"], conversations={"A structured answer": refused}, seconds=1
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
        "structured": reports.structured_of(EMPTY),
        "graph": reports.graph_of(EMPTY),
        "facts": reports.facts_of(EMPTY, CHECK),
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
                checked=CheckedCounts(),
                broken=0,
                breaks=[],
                in_doubt=0,
                doubts=[],
            )
        ),
        "verdict": verdict(),
    }
    return Report(**(defaults | overrides))


def render(trial_report: Report) -> str:
    console = SafeConsole(theme=THEME, width=140, record=True, file=None, quiet=False)
    with console.capture() as captured:
        show_report(console, trial_report)
    return captured.get()


def test_a_report_can_be_saved_loaded_and_compared(tmp_path: Path) -> None:
    original = report()
    assert original.file_name == "vigil-model-report-org-model-7b-2026-01-31.json"
    file = tmp_path / original.file_name
    original.save(file)
    assert read_report(file) == original
    console = SafeConsole(theme=THEME, width=140)
    with console.capture() as output:
        show_comparison(console, [original, report(server=reports.Server(url=None, model="other"))])
    assert all(words in output.get() for words in ("org/model:7b", "other", "Facts", "Verdict"))


def test_a_file_that_is_not_a_report_is_rejected(tmp_path: Path) -> None:
    file = tmp_path / "report.json"
    for content, words in (
        ("[]", "is not a report"),
        ("{", "is not a report"),
        ('{"report_version": 2}', "is not a report"),
        ('{"report_version": 1}', "of version 1"),
        ('{"report_version": 99}', "of version 99"),
    ):
        file.write_text(content)
        with pytest.raises(BadInputError, match=words):
            read_report(file)
    with pytest.raises(BadInputError, match="cannot be read"):
        read_report(tmp_path / "none.json")


def test_a_rendered_report_contains_the_verdict_the_price_and_the_failures() -> None:
    output = render(report())
    for words in (
        "usable",
        "FALLBACK price",
        "0.25",
        "A structured answer",
        "no: answered 400",
        "1 min",
    ):
        assert words in output, output


def test_a_report_never_contains_a_key() -> None:
    clean_report = _without_secrets(report(), Server("http://u:password@host/v1", "m", "sk-secret"))
    assert "sk-secret" not in clean_report.model_dump_json()
    [probe] = clean_report.preflight.conversations.values()
    assert "*** is wrong" in probe.detail
    assert _without_secrets(report(), None) == report()


PRICES = read_prices()


@pytest.mark.parametrize(
    ("model", "url", "option", "source", "output"),
    CASES["the_price_depends_on_the_model_the_server_and_the_option"],
)
def test_the_price_depends_on_the_model_the_server_and_the_option(
    model: str, url: str, option: str | None, source: str, output: str
) -> None:
    trial_price = price_of(PRICES, model, url, option)
    assert (trial_price.source, trial_price.price.output) == (source, Decimal(output))
    assert trial_price.sentence()


@pytest.mark.parametrize("option", ["", "1", "a,b", "1,2,3", "-1,2", "NaN,1", "1e99,1"])
def test_an_invalid_price_is_rejected(option: str) -> None:
    with pytest.raises(BadInputError, match="is not a price"):
        price_of(PRICES, "m", "", option)


def test_the_output_limit_fits_the_budget() -> None:
    fallback = price_of(PRICES, "some", "https://example.org", None).price
    assert output_limit(fallback, Decimal("0.50"), 16_000) == 6_666
    assert output_limit(fallback, Decimal("50"), 16_000) == 16_000
    free = ModelPrice(input=Decimal(0), output=Decimal(0))
    assert output_limit(free, Decimal("0.01"), 16_000) == 16_000
    with pytest.raises(BadInputError, match="--budget-usd"):
        output_limit(fallback, Decimal("0.01"), 16_000)


def test_the_price_file_of_a_trial_can_be_read_back(tmp_path: Path) -> None:
    file = tmp_path / "prices.toml"
    for name in ("gpt-5.5", 'a "quoted" näme'):
        trial_price = TrialPrice(PRICES.of_model(name), "listed")
        write_prices(file, PRICES, name, trial_price.price)
        prices = read_prices(file)
        assert prices.of_model(name) == PRICES.of_model(name)
        assert prices.of_operation("research") == 0


def test_every_report_field_is_documented() -> None:
    document = (Path(__file__).parents[3] / "docs/try-model.md").read_text()
    for field in json.loads(report().model_dump_json()):
        assert f"`{field}`" in document, field
