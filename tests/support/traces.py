"""A collector of traces on loopback, and pictures of the traces that it has received."""

import json
import threading
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Final

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue

BAR_COLUMNS: Final = 60
ERROR: Final = 2
"""The code of the status of a failed span in OTLP."""


@dataclass(frozen=True)
class ReceivedSpan:
    """A span as it arrived. Ids are hexadecimal digits; times are nanoseconds since 1970."""

    trace_id: str
    span_id: str
    parent_id: str
    name: str
    service: str
    instance: str
    start: int
    end: int
    attributes: dict[str, Any]
    links: tuple[str, ...]
    error: str | None

    @property
    def attempt(self) -> int:
        return int(self.attributes["vigil.step.attempt"])


@dataclass
class Collector:
    """Receives spans by OTLP over HTTP. It answers with `status`."""

    url: str = ""
    status: int = 200
    spans: list[ReceivedSpan] = field(default_factory=list)
    requests: int = 0

    def trace(self, trace_id: str) -> list[ReceivedSpan]:
        """The spans of the trace in the order of their start; of two with the same id the last."""
        spans = {span.span_id: span for span in self.spans if span.trace_id == trace_id}
        return sorted(spans.values(), key=lambda span: span.start)

    def take(self, body: bytes) -> None:
        self.requests += 1
        if self.status == 200:
            request = ExportTraceServiceRequest.FromString(body)
            self.spans += [span for each in request.resource_spans for span in _read(each)]


@contextmanager
def running_collector() -> Iterator[Collector]:
    collector = Collector()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            assert self.path == "/v1/traces"
            collector.take(self.rfile.read(int(self.headers["content-length"])))
            self.send_response(collector.status)
            self.send_header("content-length", "0")
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        collector.url = f"http://127.0.0.1:{server.server_port}"
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        try:
            yield collector
        finally:
            server.shutdown()
            thread.join()


def orphans(spans: Sequence[ReceivedSpan]) -> list[str]:
    """Names of the spans whose parent is not among them."""
    ids = {span.span_id for span in spans}
    return [span.name for span in spans if span.parent_id and span.parent_id not in ids]


def draw(spans: Sequence[ReceivedSpan]) -> str:
    """A picture in text: one line a span, as a tree, with its service, its time and a bar."""
    start, end = min(span.start for span in spans), max(span.end for span in spans)
    scale = BAR_COLUMNS / max(end - start, 1)
    lines = []
    for depth, span in _tree(spans):
        left = int((span.start - start) * scale)
        width = max(1, round((span.end - span.start) * scale))
        bar = " " * left + ("x" if span.error else "=") * width
        links = f"  follows {', '.join(link[:6] for link in span.links)}" if span.links else ""
        error = f"  {span.error}" if span.error else ""
        milliseconds = (span.end - span.start) / 1e6
        lines.append(
            f"{'  ' * depth + span.name:<38.38} {span.service:<11} {span.span_id[:6]} {milliseconds:>7.0f} ms "
            f"|{bar:<{BAR_COLUMNS}.{BAR_COLUMNS}}|{links}{error}"
        )
    return "\n".join(lines) + "\n"


def as_jaeger(spans: Sequence[ReceivedSpan]) -> str:
    """The trace as Jaeger's query API gives it, which its page opens as a file."""
    processes = {f"{span.service}/{span.instance}": span for span in spans}
    of_process = {name: f"p{number}" for number, name in enumerate(processes, 1)}
    return json.dumps(
        {
            "data": [
                {
                    "traceID": spans[0].trace_id,
                    "spans": [
                        _jaeger_span(span, of_process[f"{span.service}/{span.instance}"])
                        for span in spans
                    ],
                    "processes": {
                        of_process[name]: {"serviceName": span.service, "tags": []}
                        for name, span in processes.items()
                    },
                }
            ]
        },
        indent=1,
    )


def _jaeger_span(span: ReceivedSpan, process: str) -> dict[str, Any]:
    parents = [("CHILD_OF", span.parent_id)] if span.parent_id else []
    references = [*parents, *(("FOLLOWS_FROM", link) for link in span.links)]
    tags = {**span.attributes, **({"error": True} if span.error else {})}
    return {
        "traceID": span.trace_id,
        "spanID": span.span_id,
        "operationName": span.name,
        "references": [
            {"refType": kind, "traceID": span.trace_id, "spanID": span_id}
            for kind, span_id in references
        ],
        "startTime": span.start // 1000,
        "duration": (span.end - span.start) // 1000,
        "tags": [{"key": key, "type": "string", "value": str(tag)} for key, tag in tags.items()],
        "processID": process,
    }


def _tree(spans: Sequence[ReceivedSpan]) -> Iterator[tuple[int, ReceivedSpan]]:
    ids = {span.span_id for span in spans}
    children = defaultdict(list)
    for span in spans:
        children[span.parent_id if span.parent_id in ids else ""].append(span)

    def walk(parent_id: str, depth: int) -> Iterator[tuple[int, ReceivedSpan]]:
        for span in sorted(children[parent_id], key=lambda child: child.start):
            yield depth, span
            yield from walk(span.span_id, depth + 1)

    return walk("", 0)


def _read(resource_spans: Any) -> Iterator[ReceivedSpan]:
    resource = _attributes(resource_spans.resource.attributes)
    for scope_spans in resource_spans.scope_spans:
        for span in scope_spans.spans:
            yield ReceivedSpan(
                span.trace_id.hex(),
                span.span_id.hex(),
                span.parent_span_id.hex(),
                span.name,
                resource["service.name"],
                resource["service.instance.id"],
                span.start_time_unix_nano,
                span.end_time_unix_nano,
                _attributes(span.attributes),
                tuple(link.span_id.hex() for link in span.links),
                span.status.message if span.status.code == ERROR else None,
            )


def _attributes(pairs: Any) -> dict[str, Any]:
    return {pair.key: _value(pair.value) for pair in pairs}


def _value(value: AnyValue) -> Any:
    kind = value.WhichOneof("value")
    if kind == "array_value":
        return [_value(item) for item in value.array_value.values]
    return None if kind is None else getattr(value, kind)
