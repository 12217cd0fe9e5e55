"""Spans: to which trace and parent they belong, and what of them is exported."""

import random
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from uuid import UUID, uuid4

import pytest

from shared.telemetry import tracing
from shared.telemetry.tracing import HEADER, is_requested, trace_id_of
from tests.support.case_files import read_cases
from tests.support.observability.spans import Spans, kept_spans
from tests.support.seeds import first_seed, repeatable

CASES = read_cases(__file__)

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)


@pytest.fixture
def spans() -> Iterator[Spans]:
    with kept_spans() as kept:
        yield kept


@pytest.fixture
def iteration() -> UUID:
    return uuid4()


def test_nothing_is_recorded_where_tracing_is_off(iteration: UUID) -> None:
    with (
        tracing.message(iteration, None, "query.requested", uuid4(), 1),
        tracing.step("query", uuid4(), 1) as step,
        tracing.child("commit") as child,
        tracing.under_root(iteration, "deliver webhook") as delivery,
    ):
        assert (step, child, delivery) == (None, None, None)
        assert tracing.headers() == {}
        assert tracing.add_ids(None, "info", {}) == {}


def test_spans_are_nested(spans: Spans, iteration: UUID) -> None:
    step_id = uuid4()
    with (
        tracing.message(iteration, None, "query.requested", uuid4(), 1),
        tracing.step("query", step_id, 1, {"vigil.worker": "one", "vigil.agent.id": None}),
        tracing.child("chat gpt", "client") as chat,
    ):
        assert chat is not None
        chat.add({"gen_ai.usage.input_tokens": 12, "gen_ai.usage.output_tokens": None})
        with tracing.child("commit"):
            pass
    assert [span.name for span in spans.all] == ["commit", "chat gpt", "step query"]
    commit, chat, step = spans.all
    assert (commit.parent_id, chat.parent_id) == (chat.span_id, step.span_id)
    assert chat.attributes == {"gen_ai.usage.input_tokens": 12}
    assert step.attributes["vigil.worker"] == "one"
    assert "vigil.agent.id" not in step.attributes
    assert {f"{span.trace_id:032x}" for span in spans.all} == {trace_id_of(iteration)}


def test_a_span_without_a_trace_is_not_recorded(spans: Spans) -> None:
    with tracing.child("commit") as span, tracing.of_message("join") as join:
        assert (span, join) == (None, None)
    assert spans.all == []


def test_events_that_follow_are_attributed_to_the_span(spans: Spans, iteration: UUID) -> None:
    with tracing.message(iteration, None, "plan.produced", uuid4(), 1):
        with tracing.of_message("join") as join:
            assert join is not None
            inside = tracing.headers()
        assert (
            tracing.headers()
            == inside
            == {HEADER: f"00-{trace_id_of(iteration)}-{join.span_id:016x}-01"}
        )
    assert tracing.headers() == {}
    with (
        tracing.message(iteration, inside[HEADER], "insight.requested", uuid4(), 1),
        tracing.step("insight", uuid4(), 1),
    ):
        pass
    assert spans.named("step insight").parent_id == join.span_id


@pytest.mark.parametrize(
    "header",
    [None, "", "junk", "00-" + "1" * 32 + "-" + "2" * 16 + "-01", "01-" + "1" * 32, "00-xyz"],
    ids=["none", "empty", "junk", "of another trace", "another version", "short"],
)
def test_a_message_without_a_usable_header_hangs_below_the_root(
    spans: Spans, iteration: UUID, header: str | None
) -> None:
    with (
        tracing.message(iteration, header, "query.requested", uuid4(), 1),
        tracing.of_message("join"),
    ):
        pass
    tracing.root(iteration, "iteration", since=NOW, until=NOW + timedelta(seconds=3))
    root = spans.named("iteration")
    assert spans.named("join").parent_id == root.span_id
    assert root.parent_id is None
    assert root.end_ns is not None
    assert root.end_ns - root.start_ns == 3_000_000_000


def test_a_resumed_step_refers_to_the_lost_attempt(spans: Spans, iteration: UUID) -> None:
    step_id = uuid4()
    with (
        tracing.message(iteration, None, "query.requested", uuid4(), 2),
        tracing.step("query", step_id, 1),
    ):
        pass
    first = spans.all.pop()  # its worker dies before it can export the span
    with tracing.message(iteration, None, "query.requested", uuid4(), 2):
        tracing.lost_step("query", step_id, 1, worker="one", since=NOW, until=NOW)
        with tracing.step("query", step_id, 2):
            pass
    lost, second = spans.all
    assert (lost.span_id, second.links) == (first.span_id, [first.span_id])
    assert lost.attributes["error.type"] == "worker_lost"
    assert lost.error == "the worker was lost: its lease expired"
    assert second.attributes["vigil.message.deliveries"] == 2
    assert second.error is None


def test_an_attempt_that_lost_its_lease_gives_up_the_id(spans: Spans, iteration: UUID) -> None:
    step_id = uuid4()
    with tracing.message(iteration, None, "query.requested", uuid4(), 1):
        with tracing.step("query", step_id, 1) as slower:
            assert slower is not None
            slower.disown()
        with tracing.step("query", step_id, 1) as faster:
            assert faster is not None
    assert slower.span_id != faster.span_id


def test_errors_are_recorded_once_and_without_their_message(spans: Spans, iteration: UUID) -> None:
    def work() -> None:
        with tracing.step("query", uuid4(), 1), tracing.child("chat gpt"):
            raise LookupError("the model answered: a secret plan")

    with (
        tracing.message(iteration, None, "query.requested", uuid4(), 1),
        pytest.raises(LookupError),
    ):
        work()
    assert [span.attributes["error.type"] for span in spans.all] == ["LookupError"] * 2
    assert [span.error for span in spans.all] == ["LookupError"] * 2


def test_a_text_of_an_error_is_bounded(spans: Spans, iteration: UUID) -> None:
    tracing.root(iteration, "iteration", since=NOW, until=NOW, error="x" * 1000)
    assert [len(span.error or "") for span in spans.all] == [tracing.MAX_ERROR_CHARS]


def test_an_unsampled_trace_has_no_spans_and_no_header(spans: Spans, iteration: UUID) -> None:
    spans.unsampled.add(int(trace_id_of(iteration), 16))
    with (
        tracing.message(iteration, None, "query.requested", uuid4(), 1),
        tracing.step("query", uuid4(), 1) as step,
        tracing.under_root(iteration, "deliver webhook") as delivery,
    ):
        assert (step, delivery, tracing.headers()) == (None, None, {})
    tracing.root(iteration, "iteration", since=NOW, until=NOW)
    assert spans.all == []


def test_log_lines_carry_the_ids(spans: Spans, iteration: UUID) -> None:
    with tracing.message(iteration, None, "query.requested", uuid4(), 1):
        received = dict(tracing.add_ids(None, "info", {"event": "will retry"}))
        with tracing.step("query", uuid4(), 1) as step:
            assert step is not None
            working = dict(tracing.add_ids(None, "info", {"event": "ready"}))
    assert received["trace_id"] == working["trace_id"] == trace_id_of(iteration)
    assert working["span_id"] == f"{step.span_id:016x}"
    assert tracing.add_ids(None, "info", {}) == {}


def test_any_history_of_an_iteration_is_one_tree(spans: Spans) -> None:
    """Random hops, lost headers, deaths and redeliveries: every span but the root has a parent that was recorded."""
    seed = first_seed()
    with repeatable(seed):
        for number in range(50):
            walk(spans, random.Random(seed + number))


def walk(spans: Spans, chance: random.Random) -> None:
    spans.all.clear()
    iteration = uuid4()
    with tracing.under_root(iteration, "start iteration", "producer"):
        inboxes = [tracing.headers()]
    for _ in range(chance.randrange(1, 20)):
        header = chance.choice(inboxes).get(HEADER) if chance.random() < 0.8 else None
        step_id, deaths = uuid4(), chance.choice([0, 0, 0, 1, 3])
        for epoch in range(1, deaths + 2):
            with tracing.message(iteration, header, "query.requested", uuid4(), epoch):
                if epoch > 1:
                    tracing.lost_step("query", step_id, epoch - 1, worker="w", since=NOW, until=NOW)
                with tracing.step("query", step_id, epoch), tracing.child("chat gpt"):
                    pass
                inboxes.append(tracing.headers())
            if epoch <= deaths:
                spans.all.pop()  # the worker dies before the end of the step
    tracing.root(iteration, "iteration", since=NOW, until=NOW)
    ids = [span.span_id for span in spans.all]
    assert len(ids) == len(set(ids))
    assert {span.parent_id for span in spans.all} - {None} <= set(ids)
    assert {link for span in spans.all for link in span.links} <= set(ids)
    assert [span.name for span in spans.all if span.parent_id is None] == ["iteration"]
    assert {f"{span.trace_id:032x}" for span in spans.all} == {trace_id_of(iteration)}


@pytest.mark.parametrize(("environment", "expected"), CASES["the_standard_variables_turn_it_on"])
def test_the_standard_variables_turn_it_on(environment: dict[str, str], expected: bool) -> None:
    assert is_requested(environment) is expected


@pytest.mark.parametrize(("environment", "message"), CASES["what_it_cannot_do_is_an_error"])
def test_what_it_cannot_do_is_an_error(environment: dict[str, str], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        is_requested(environment)
