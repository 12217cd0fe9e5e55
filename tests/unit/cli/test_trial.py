"""The trial of a model: its checks before, its facts and its report."""

import asyncio
import json
import socket
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
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
from cli.trial.facts import FactCheck, Judgement, WrittenProperty, quantities, years
from cli.trial.preflight import (
    OPENAI_URL,
    Preflight,
    Probe,
    Server,
    UnreachableError,
    chosen_server,
    hold_conversations,
    preflight,
)
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
from sandbox.corpus.factbook import Country, StatedFact, countries
from shared.llm.pricing import ModelPrice, read_prices
from shared.runtime.settings import Settings
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
from tests.support.marks import slow
from tests.support.model_server import model_server
from tests.support.providers.quirk_server import QuirkServer
from tests.support.providers.quirks import Quirk, quirks
from tests.support.responses import ID, START, edge, iteration, node, step
from tests.support.scripted_server import (
    Answer,
    Reply,
    as_stream,
    completion,
    json_reply,
    serve_model,
)

CASES = read_cases(__file__)


GHANA = Country(
    ("Ghana", "Republic of Ghana", "Gold Coast"),
    (
        StatedFact("Real GDP (purchasing power parity) 2024", "$243.124 billion (2024 est.)"),
        StatedFact("Real GDP growth rate 2024", "5.7% (2024 est.)"),
        StatedFact("Real GDP growth rate 2023", "3.1% (2023 est.)"),
        StatedFact("GDP (official exchange rate)", "$82.825 billion (2024 est.)"),
        StatedFact("GDP - composition, by end use, imports of goods", "-34.1% (2024 est.)"),
        StatedFact("Electricity, imports", "48.449 million kWh (2023 est.)"),
        StatedFact("Area, total", "238,533 sq km"),
        StatedFact("Population, total", "35,302,943 (2024 est.)"),
        StatedFact("Capital, name", "Accra"),
        StatedFact("Industries", "mining, lumbering, light manufacturing, petroleum"),
        StatedFact("Petroleum, total petroleum production", "176,000 bbl/day (2023 est.)"),
    ),
)
TOGO = Country(
    ("Togo",),
    (StatedFact("Exports - partners", "UAE 40%, India 13%, Angola 13%, Cote d'Ivoire 3% (2023)"),),
)
GUINEA = Country(("Guinea",), (StatedFact("Capital, name", "Conakry"),))
GUINEA_BISSAU = Country(("Guinea-Bissau",), (StatedFact("Capital, name", "Bissau"),))
CHECK = FactCheck((GHANA, TOGO, GUINEA, GUINEA_BISSAU))

RIGHT, WRONG, NOT_CHECKABLE = Judgement.RIGHT, Judgement.WRONG, Judgement.NOT_CHECKABLE


@pytest.mark.parametrize(("subject", "name", "value", "judgement"), CASES["properties"])
def test_properties(subject: str, name: str, value: Any, judgement: str) -> None:
    found, stated = CHECK.check(WrittenProperty(subject, name, value))
    assert found == judgement, stated
    assert (stated is None) == (judgement == NOT_CHECKABLE)


def test_a_wrong_fact_is_shown_with_the_stated_value() -> None:
    _, stated = CHECK.check(WrittenProperty("Ghana", "gdp_usd", 8_282_500_000))
    assert stated == "Ghana — GDP (official exchange rate): $82.825 billion (2024 est.)"


def test_a_unit_or_a_year_may_be_a_separate_property() -> None:
    def judge(**properties: Any) -> Judgement:
        return CHECK.check(
            WrittenProperty("Ghana", "gdp_growth", properties["value"], siblings=properties)
        )[0]

    assert judge(value=5.7, year=2024) is RIGHT
    assert judge(value=5.7, year="2023") is WRONG
    assert judge(value=5.7) is RIGHT
    imports = {"unit": "million kWh"}
    fact = WrittenProperty("Ghana", "electricity_imports", 48.4, siblings=imports)
    assert CHECK.check(fact)[0] is RIGHT
    thousands = WrittenProperty(
        "Ghana", "electricity_imports", 48.4, siblings={"unit": "thousand kWh"}
    )
    assert CHECK.check(thousands)[0] is WRONG


@pytest.mark.parametrize(
    ("source", "type_name", "target", "value", "judgement"), CASES["properties_of_edges"]
)
def test_properties_of_edges(
    source: str, type_name: str, target: str, value: Any, judgement: str
) -> None:
    fact = WrittenProperty(source, "figure", value, about=type_name, other=target)
    assert CHECK.check(fact)[0] == judgement


def test_values_of_any_length_and_kind_are_checked_quickly() -> None:
    for value in ("9" * 100_000, "1,234," * 50_000, "((((" * 50_000, "−1e999", "NaN", 10**400):
        assert CHECK.check(WrittenProperty("Ghana", "gdp", value))[0] is not RIGHT


def test_quantities_are_read_with_scale_unit_and_sign() -> None:
    (imports,) = quantities("-34.1% (2024 est.)")
    assert (float(imports.values[0]), imports.unit) == (-34.1, "percent")
    (gdp,) = quantities("$5.2B in 2023")
    assert (float(gdp.values[0]), gdp.unit) == (5.2e9, "currency")
    assert [quantity.values[0] for quantity in quantities("UAE 40%, India 13% (2023)")] == [40, 13]
    assert quantities("CO2 and G7") == []
    assert years("2,023 in FY 2022 (2021 est.)") == [2022, 2021]


@pytest.mark.parametrize("number", [8, *slow(60)])
def test_the_factbook_agrees_with_itself(number: int) -> None:
    """Check each value under its own label; none may be judged wrong."""
    all_countries = list(countries())
    check = FactCheck(all_countries)
    judgements = [
        check.check(WrittenProperty(country.names[0], fact.path, fact.text))[0]
        for country in all_countries[:number]
        for fact in country.facts
    ]
    assert judgements.count(WRONG) == 0
    assert judgements.count(RIGHT) > 0.7 * len(judgements)


KEY = "sk-this-is-the-key"
PAGE = b"<!doctype html><html><head><title>It works!</title></head></html>"


def usable_server(path: str, body: Mapping[str, Any]) -> Reply:
    if path.endswith("/models"):
        return json_reply({"data": [{"id": "m"}]})
    return as_stream("kestrel") if body.get("stream") else json_reply(completion("kestrel"))


def run_preflight(
    answer: Answer, model: str | None = "m", **seconds: float
) -> tuple[Preflight, str]:
    with serve_model(answer) as url:
        return asyncio.run(preflight(Server(url, model, KEY), **seconds))


def preflight_error(answer: Answer, model: str | None = "m", **seconds: float) -> str:
    with pytest.raises(UnreachableError) as raised:
        run_preflight(answer, model, **seconds)
    assert raised.value.exit_code == 2
    assert KEY not in str(raised.value)
    return str(raised.value)


def reply_to_chat(reply: Reply) -> Answer:
    return lambda path, body: usable_server(path, body) if path.endswith("/models") else reply


@pytest.mark.parametrize(
    ("reply", "words"),
    [
        (Reply(200, PAGE, "text/html"), ["web page titled 'It works!'", "usually ends in /v1"]),
        (Reply(200, b"[]"), ["answered 200: []"]),
        (Reply(200, b"null"), ["not a chat completions response"]),
        (Reply(200, b""), ["answered 200: nothing"]),
        (json_reply({"choices": []}), ["not a chat completions response"]),
        (json_reply({"error": "model exploded"}), ["model exploded"]),
        (json_reply({"error": {"message": f"wrong key {KEY}"}}, 401), ["401", "***", "--key-env"]),
        (json_reply({"detail": "no"}, 403), ["403", "--key-env"]),
        (json_reply({"error": {"message": "no model x"}}, 404), ["no model x", "--model: m"]),
        (json_reply({"error": {"message": "busy"}}, 503), ["503: busy", "See the server's log"]),
        (Reply(200, b"[" * 100_000), ["not a chat completions response"]),
    ],
)
def test_the_error_contains_the_server_reply_and_its_address(
    reply: Reply, words: list[str]
) -> None:
    error = preflight_error(reply_to_chat(reply), model="x")
    for word in (*words, "http://127.0.0.1:", "/v1/chat/completions"):
        assert word in error, error


def test_a_key_rejected_by_the_model_list_is_redacted() -> None:
    error = preflight_error(lambda *_: json_reply({"error": {"message": f"bad {KEY}"}}, 401))
    assert "/v1/models answered 401: bad ***" in error


def test_a_reasoning_model_may_reject_a_limit_of_one_token() -> None:
    def answer(path: str, body: Mapping[str, Any]) -> Reply:
        if body.get("max_completion_tokens") == 1:
            return json_reply(
                {"error": {"message": "max_tokens or model output limit was reached"}}, 400
            )
        return usable_server(path, body)

    assert run_preflight(answer)[0].conversations["A structured answer"].works


@contextmanager
def silent_server(after: bytes) -> Iterator[str]:
    """A server that accepts, sends `after` a byte at a time, and never ends."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        stop = threading.Event()

        def serve() -> None:
            connection, _ = listener.accept()
            with connection:
                for index in range(len(after)):
                    connection.sendall(after[index : index + 1])
                stop.wait()

        thread = threading.Thread(target=serve)
        thread.start()
        try:
            yield f"http://127.0.0.1:{listener.getsockname()[1]}/v1"
        finally:
            stop.set()
            thread.join()


@pytest.mark.parametrize(
    "after", [b"", b"HTTP/1.1 200 OK\r\nX: ", b"HTTP/1.1 200 OK\r\nContent-Length: 99\r\n\r\n{"]
)
def test_the_wait_for_a_silent_server_respects_the_timeout(after: bytes) -> None:
    started = time.monotonic()
    with silent_server(after) as url, pytest.raises(UnreachableError) as raised:
        asyncio.run(preflight(Server(url, "m"), reach_seconds=0.3))
    assert time.monotonic() - started < 5
    assert url in str(raised.value)
    assert "did not answer within" in str(raised.value)


def test_an_unanswered_conversation_is_reported() -> None:
    stop = threading.Event()

    def slow(path: str, body: Mapping[str, Any]) -> Reply:
        if "tools" in body:
            stop.wait(10)
        return usable_server(path, body)

    with serve_model(slow) as url:
        result, model = asyncio.run(preflight(Server(url, "m"), probe_seconds=0.5))
        stop.set()
    assert (result.models, model) == (["m"], "m")
    assert "no answer within" in result.conversations["Two turns of tools"].detail
    assert result.conversations["A structured answer"].works


def test_a_closed_port_is_unreachable() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    with pytest.raises(UnreachableError, match=f"http://127.0.0.1:{port}/v1 does not answer"):
        asyncio.run(preflight(Server(f"http://127.0.0.1:{port}/v1", "m")))


def test_a_single_model_is_chosen_and_several_require_the_option() -> None:
    assert run_preflight(usable_server, model=None)[1] == "m"
    two = json_reply({"data": [{"id": "a"}, {"id": "b"}]})
    assert "--model: it has a, b" in preflight_error(lambda *_: two, model=None)
    assert "--model: it lists none" in preflight_error(lambda *_: json_reply({}), model=None)


def test_server_and_key_come_from_the_settings_or_the_options(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name in ("OPENAI_API_KEY", "OPENAI_BASE_URL", "OPENAI_MODEL", "VIGIL_MODEL"):
        monkeypatch.delenv(name, raising=False)
    assert chosen_server(Settings(), None, None, None) is None
    with pytest.raises(BadInputError, match="no server is configured"):
        chosen_server(Settings(), None, "m", None)
    server = chosen_server(Settings(), "http://host/v1/", None, None)
    assert server == Server("http://host/v1", None, None)

    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    settings = Settings()
    assert chosen_server(settings, None, None, None) == Server(OPENAI_URL, settings.model, KEY)
    other_server = chosen_server(settings, "http://host/v1", "m", None)
    assert other_server == Server("http://host/v1", "m", None)  # does not get another server's key
    monkeypatch.setenv("OTHER_KEY", "sk-other")
    assert chosen_server(settings, "http://host/v1", "m", "OTHER_KEY") == Server(
        "http://host/v1", "m", "sk-other"
    )
    with pytest.raises(BadInputError, match="NO_SUCH_KEY, which is not set"):
        chosen_server(settings, None, None, "NO_SUCH_KEY")
    with pytest.raises(BadInputError, match="is not the URL of a server"):
        chosen_server(settings, "host:80", None, None)


def test_a_password_in_a_url_is_never_shown() -> None:
    server = Server("http://my-user:pass%2Fword@host:1/v1?key=secret", "m", KEY)
    assert server.shown_url == "http://host:1/v1"
    assert KEY not in repr(server)
    text = f"{KEY} my-user pass%2Fword pass/word key=secret host"
    assert server.without_secrets(text) == "*** *** *** *** *** host"
    short = Server("http://me:us@host/v1", "m", "a")
    assert short.without_secrets("me, us and a") == "me, us and a"


BY_NAME = {quirk.name: quirk for quirk in quirks()}


async def conversations_with(quirk: Quirk) -> tuple[dict[str, Probe], list[str]]:
    async with model_server(QuirkServer(quirk)) as stand_in:
        return await hold_conversations(Server(stand_in.url, "m", "sk-the-key"), "m")


@pytest.mark.parametrize(("name", "note"), CASES["what_a_server_needs_is_named"])
async def test_what_a_server_needs_is_named(name: str, note: str) -> None:
    probes, notes = await conversations_with(BY_NAME[name])
    assert [probe for probe in probes.values() if not probe.works] == []
    assert [each for each in notes if note in each], notes


async def test_a_server_that_refuses_the_second_turn_is_found_out() -> None:
    refusal = {"error": {"message": "no second turn for sk-the-key"}}
    rule = {"when": [{"path": "callers.role", "equals": "assistant"}], "body": refusal}
    probes, _ = await conversations_with(Quirk("q", "s", "d", "e", refuse=[rule]))
    works = {name: probe.works for name, probe in probes.items()}
    assert list(works.values()) == [False, False, False, True]
    [detail] = {probe.detail for probe in probes.values() if not probe.works}
    assert "no second turn for ***" in detail


async def test_a_server_that_calls_no_tool_is_found_out() -> None:
    quirk = Quirk("q", "s", "d", "e", answer={"written": "I do not know."})
    probes, _ = await conversations_with(quirk)
    assert not probes["Two turns of tools"].works


REPORTED = FactCheck(
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
    facts = reports.facts_of(records, REPORTED)
    assert (facts.right, facts.wrong, facts.not_checkable) == (1, 0, 3)
    wrong = reports.facts_of(
        make_records(nodes=[node("Ghana", properties={"capital": "Kumasi"})]), REPORTED
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
        ({"verification": BROKEN}, "not usable: what it wrote is broken"),
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
        "facts": reports.facts_of(EMPTY, REPORTED),
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
