"""Exports spans by OTLP, as the standard variables of OpenTelemetry say."""

import logging
import threading
from collections.abc import Mapping, Sequence
from typing import Any, Final, cast, get_args

from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.resource.v1 import resource_pb2
from opentelemetry.proto.trace.v1 import trace_pb2
from opentelemetry.sdk.resources import OTELResourceDetector, Resource
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExportResult
from opentelemetry.sdk.trace.sampling import Decision
from opentelemetry.trace import SpanContext, TraceFlags

from shared.telemetry.tracing import Kind, Span, Value
from shared.urls import strip_secrets
from shared.version import vigil_version

SHUTDOWN_SECONDS: Final = 2.0
"""How long a stopping process waits until the collector has accepted its last spans."""
NAMESPACE: Final = "vigil"
log = logging.getLogger(__name__)

_SAMPLED: Final = SpanContext(1, 1, is_remote=False, trace_flags=TraceFlags(TraceFlags.SAMPLED))
_HEADER_LOG: Final = logging.getLogger("opentelemetry.util.re")
_KINDS: Final = {
    kind: trace_pb2.Span.SpanKind.Value(f"SPAN_KIND_{kind.upper()}") for kind in get_args(Kind)
}
_FLAGS: Final = trace_pb2.SPAN_FLAGS_CONTEXT_HAS_IS_REMOTE_MASK
_FIELDS: Final = {
    str: "string_value",
    bool: "bool_value",
    int: "int_value",
    float: "double_value",
}


class OtlpExporter:
    """Batches spans and sends them in a thread of its own. Spans that the collector does not accept are dropped.

    Raises ValueError if a variable of OpenTelemetry has an impossible value.
    """

    def __init__(self, service: str, instance: str) -> None:
        attributes = {
            "service.namespace": NAMESPACE,
            "service.name": service,
            "service.version": vigil_version(),
            "service.instance.id": instance,
        }
        # The detector reads OTEL_RESOURCE_ATTRIBUTES and OTEL_SERVICE_NAME, which take precedence.
        self._resource = Resource.create(attributes).merge(OTELResourceDetector().detect())
        # The provider reads the sampler, and the processor the rest, from the environment.
        self._sampler = TracerProvider(shutdown_on_exit=False).sampler
        _HEADER_LOG.addFilter(_hide_header)
        self._processor = BatchSpanProcessor(_ReportingExporter(self._resource))

    @property
    def resource(self) -> Mapping[str, object]:
        """The attributes that all spans of this process share."""
        return self._resource.attributes

    def is_sampled(self, trace_id: int, name: str) -> bool:
        """Whether the spans of a trace are sampled: the same in every process with the same sampler."""
        decision = self._sampler.should_sample(None, trace_id, name).decision
        return decision is Decision.RECORD_AND_SAMPLE

    def export(self, span: Span) -> None:
        self._processor.on_end(_Finished(span))

    def shutdown(self) -> None:
        """Sends what waits, for SHUTDOWN_SECONDS at most."""
        thread = threading.Thread(target=self._processor.shutdown, daemon=True)
        thread.start()
        thread.join(SHUTDOWN_SECONDS)


class _Finished(ReadableSpan):
    """A span as the SDK batches it: sampled."""

    def __init__(self, span: Span) -> None:
        self._context = _SAMPLED
        self.span = span


class _ReportingExporter(OTLPSpanExporter):
    """Encodes the spans itself, and logs that the collector is away once, and not for every batch.

    The SDK's encoder hashes the resource for each span and makes two messages for each attribute: three times the
    processor time.
    """

    def __init__(self, resource: Resource) -> None:
        super().__init__()
        attributes = cast(Mapping[str, Value], resource.attributes)
        self._resource = trace_pb2.ResourceSpans(
            resource=resource_pb2.Resource(attributes=_attributes(attributes))
        )
        self._is_away = False
        self._address = strip_secrets(self._endpoint)
        logging.getLogger("opentelemetry.exporter").setLevel(logging.CRITICAL)
        # The SDK warns again and again that the queue is full.
        logging.getLogger("opentelemetry.sdk._shared_internal").setLevel(logging.ERROR)

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        is_away = not self._client.export(self._encode(spans)).success
        if is_away and not self._is_away:
            log.warning(
                "the collector of traces at %s accepts no spans; they are dropped", self._address
            )
        elif self._is_away and not is_away:
            log.info("the collector of traces at %s accepts spans again", self._address)
        self._is_away = is_away
        return SpanExportResult.FAILURE if is_away else SpanExportResult.SUCCESS

    def _encode(self, spans: Sequence[ReadableSpan]) -> bytes:
        encoded = ExportTraceServiceRequest(resource_spans=[self._resource])
        of_scope = encoded.resource_spans[0].scope_spans.add(
            scope={"name": NAMESPACE, "version": vigil_version()}
        )
        of_scope.spans.extend(_span(cast(_Finished, each).span) for each in spans)
        return bytes(encoded.SerializeToString())


def _span(span: Span) -> trace_pb2.Span:
    encoded = trace_pb2.Span(
        trace_id=span.trace_id.to_bytes(16),
        span_id=span.span_id.to_bytes(8),
        parent_span_id=b"" if span.parent_id is None else span.parent_id.to_bytes(8),
        name=span.name,
        kind=_KINDS[span.kind],
        start_time_unix_nano=span.start_ns,
        end_time_unix_nano=span.end_ns or 0,
        attributes=_attributes(span.attributes),
        flags=_FLAGS,
    )
    for link in span.links:
        encoded.links.add(trace_id=encoded.trace_id, span_id=link.to_bytes(8), flags=_FLAGS)
    if span.error is not None:
        encoded.status.code = trace_pb2.Status.STATUS_CODE_ERROR
        encoded.status.message = span.error
    return encoded


def _attributes(attributes: Mapping[str, Value]) -> list[Any]:
    return [{"key": name, "value": _value(value)} for name, value in attributes.items()]


def _value(value: Value) -> dict[str, Any]:
    # Members of enumerations are strings and numbers of other types.
    field = _FIELDS.get(type(value)) or next(
        (field for kind, field in _FIELDS.items() if isinstance(value, kind)), None
    )
    if field is not None:
        return {field: value}
    return {"array_value": {"values": list(map(_value, cast(Sequence[str], value)))}}


def _hide_header(record: logging.LogRecord) -> bool:
    """Replaces a message of the SDK that quotes a header, which can be a key."""
    record.msg, record.args = (
        "a header for the collector of traces is not NAME=VALUE; it is ignored",
        (),
    )
    return True
