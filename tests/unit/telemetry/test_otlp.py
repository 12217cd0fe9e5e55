"""The export of spans to a collector."""

import gc
import logging
import threading
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from functools import partial
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from uuid import UUID, uuid4

import pytest
from opentelemetry.sdk.trace.export import BatchSpanProcessor

from shared.enums import IterationStatus
from shared.runtime import process
from shared.runtime.settings import Settings
from shared.telemetry import otlp, tracing
from shared.telemetry.otlp import OtlpExporter
from shared.telemetry.tracing import trace_id_of
from shared.version import vigil_version
from tests.support import traces
from tests.support.traces import Collector
from tests.support.waiting import wait_for

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)


@pytest.fixture
def collector(monkeypatch: pytest.MonkeyPatch) -> Iterator[Collector]:
    with traces.running_collector() as running:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", running.url)
        monkeypatch.setenv("OTEL_BSP_SCHEDULE_DELAY", "20")
        yield running


@pytest.fixture(autouse=True)
def _patient(monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> None:
    """The stop waits until all spans are exported, however busy the machine is."""
    if "hangs" not in request.node.name:
        monkeypatch.setattr(otlp, "SHUTDOWN_SECONDS", 30.0)


@pytest.fixture(autouse=True)
def _stopped() -> Iterator[None]:
    """No exporter is left, not even as garbage: the SDK starts a thread of each in every child that is forked. A child with
    two threads cannot enter a user namespace, which PostgreSQL needs in later tests that run as root.
    """
    yield
    tracing.stop()
    wait_for(no_exporter, "the end of all exporters")


def no_exporter() -> bool | None:
    gc.collect()
    return not any(isinstance(each, BatchSpanProcessor) for each in gc.get_objects()) or None


def start() -> None:
    tracing.start(OtlpExporter("researcher", "worker-1"))


def has_requests(collector: Collector, number: int) -> bool | None:
    return collector.requests >= number or None


def record_iteration(iteration: UUID) -> None:
    tracing.root(
        iteration, "iteration", since=NOW, until=NOW, attributes={"vigil.iteration.number": 7}
    )


def test_spans_arrive_whole(collector: Collector) -> None:
    start()
    iteration, step_id = uuid4(), uuid4()
    with (
        tracing.message(iteration, None, "query.requested", uuid4(), 1),
        tracing.step("query", step_id, 2, {"vigil.worker": "w"}),
        tracing.child("chat gpt", "client", {"gen_ai.response.finish_reasons": ["stop"]}) as chat,
    ):
        assert chat is not None
        chat.fail("no answer")
    record_iteration(iteration)
    tracing.stop()
    spans = {span.name: span for span in collector.spans}
    assert spans.keys() == {"chat gpt", "step query", "iteration"}
    assert traces.orphans(collector.spans) == []
    assert {span.trace_id for span in collector.spans} == {trace_id_of(iteration)}
    assert {(span.service, span.instance) for span in collector.spans} == {
        ("researcher", "worker-1")
    }
    assert spans["chat gpt"].attributes["gen_ai.response.finish_reasons"] == ["stop"]
    assert (spans["chat gpt"].error, spans["step query"].error) == ("no answer", None)
    assert len(spans["step query"].links) == 1
    assert spans["iteration"].attributes == {"vigil.iteration.number": 7}


def test_attributes_arrive_as_they_are(collector: Collector) -> None:
    start()
    attributes: dict[str, tracing.Value | None] = {
        "text": "Zürich",
        "member": IterationStatus.COMPLETED,
        "status": HTTPStatus.OK,
        "yes": True,
        "no": False,
        "large": 2**53 + 1,
        "half": 0.5,
        "list": ["a", IterationStatus.FAILED],
        "tuple": ("stop",),
        "nothing": [],
        "left out": None,
    }
    tracing.root(uuid4(), "iteration", since=NOW, until=NOW, attributes=attributes)
    tracing.stop()
    [span] = collector.spans
    del attributes["left out"]
    assert span.attributes == {**attributes, "tuple": ["stop"]}
    assert type(span.attributes["yes"]) is bool


def test_a_name_of_the_service_can_be_set(
    collector: Collector, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OTEL_SERVICE_NAME", "vigil-researcher")
    start()
    record_iteration(uuid4())
    tracing.stop()
    assert [span.service for span in collector.spans] == ["vigil-researcher"]


def test_the_sampler_decides_by_trace(
    collector: Collector, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ids of iterations have fixed bits; a sampler that saw them would take all traces or none."""
    monkeypatch.setenv("OTEL_TRACES_SAMPLER", "traceidratio")
    monkeypatch.setenv("OTEL_TRACES_SAMPLER_ARG", "0.25")
    start()
    iterations = [uuid4() for _ in range(1000)]
    for iteration in iterations:
        record_iteration(iteration)
        with (
            tracing.message(iteration, None, "plan.produced", uuid4(), 1),
            tracing.of_message("join"),
        ):
            pass
    tracing.stop()
    of_name = {
        name: {span.trace_id for span in collector.spans if span.name == name}
        for name in ("iteration", "join")
    }
    assert of_name["iteration"] == of_name["join"]
    assert 150 < len(of_name["join"]) < 350


def test_a_collector_that_is_away_is_logged_once(
    collector: Collector, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, logger=otlp.log.name)
    collector.status = 400
    start()
    for number in range(1, 4):
        record_iteration(uuid4())
        wait_for(partial(has_requests, collector, number), "a batch")
    collector.status = 200
    record_iteration(uuid4())
    wait_for(lambda: len(collector.spans) or None, "a batch that is accepted")
    tracing.stop()
    assert [record.levelname for record in caplog.records] == ["WARNING", "INFO"]
    assert collector.url in caplog.records[0].getMessage()
    assert "accepts no spans" in caplog.records[0].getMessage()


def test_a_full_queue_is_not_logged(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:1")
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_TIMEOUT", "1")
    monkeypatch.setenv("OTEL_BSP_MAX_QUEUE_SIZE", "4")
    monkeypatch.setenv("OTEL_BSP_MAX_EXPORT_BATCH_SIZE", "2")
    start()
    for _ in range(200):
        record_iteration(uuid4())
    tracing.stop()
    assert [record for record in caplog.records if record.name != otlp.log.name] == []


def test_a_collector_that_hangs_does_not_delay_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    released = threading.Event()

    class Hanging(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            released.wait(60)
            self.send_response(200)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Hanging) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", f"http://127.0.0.1:{server.server_port}")
        start()
        record_iteration(uuid4())
        began = time.monotonic()
        tracing.stop()
        assert time.monotonic() - began < otlp.SHUTDOWN_SECONDS + 5
        released.set()
        server.shutdown()


def test_resource_attributes_of_the_environment_take_precedence(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("OTEL_RESOURCE_ATTRIBUTES", "service.namespace=prod,team=a")
    exporter = OtlpExporter("observer", "one")
    exporter.shutdown()
    assert exporter.resource["service.namespace"] == "prod"
    assert exporter.resource["team"] == "a"
    assert exporter.resource["service.name"] == "observer"


def test_the_resource_names_the_version() -> None:
    exporter = OtlpExporter("observer", "worker-2")
    assert exporter.resource["service.version"] == vigil_version()
    assert exporter.resource["service.namespace"] == "vigil"
    exporter.shutdown()


def test_an_empty_name_of_the_service_is_as_none(
    collector: Collector, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OTEL_SERVICE_NAME", "")
    start()
    record_iteration(uuid4())
    tracing.stop()
    assert [span.service for span in collector.spans] == ["researcher"]


def test_secrets_of_the_collector_are_not_logged(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "junk://ada:secret@127.0.0.1:1")
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_HEADERS", "api-key secret")
    monkeypatch.setenv("OTEL_BSP_SCHEDULE_DELAY", "20")
    start()
    record_iteration(uuid4())
    tracing.stop()
    assert "junk://127.0.0.1:1/v1/traces accepts no spans" in caplog.text
    assert "a header for the collector of traces is not NAME=VALUE" in caplog.text
    assert "secret" not in caplog.text


@pytest.mark.parametrize(
    ("variable", "value"),
    [
        ("OTEL_BSP_MAX_QUEUE_SIZE", "-5"),
        ("OTEL_BSP_MAX_EXPORT_BATCH_SIZE", "100000"),
        ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://[::1"),
    ],
)
def test_a_service_refuses_impossible_variables(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    variable: str,
    value: str,
) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:1")
    monkeypatch.setenv(variable, value)
    with pytest.raises(SystemExit) as end:
        process._start_tracing("researcher", Settings())
    assert end.value.code == 2
    assert capsys.readouterr().err.startswith("vigil researcher: tracing: ")
