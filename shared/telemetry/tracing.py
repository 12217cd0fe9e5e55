"""Traces of iterations, exported by OTLP over HTTP.

A trace is an iteration, or an agent task outside of one. Its id, the id of its root span and the ids of the spans of steps
are hashes of the ids in the database. So every process, also one that resumes the step of a killed one, puts its spans into
the same trace, even if an event was republished without a header.

The SDK samples, batches and sends. The spans are made and encoded here: the SDK takes five times the processor time.
Spans contain ids, names and figures; never prompts, answers, page text or addresses of receivers.
"""

import hashlib
import random
import re
import time
from collections.abc import Iterator, Mapping, MutableMapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from contextvars import ContextVar
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final, Literal, Protocol
from uuid import UUID

HEADER: Final = "traceparent"
"""The header of messages and webhooks, in the form of W3C Trace Context, level 1."""
MAX_ERROR_CHARS: Final = 300

_TRACEPARENT: Final = re.compile("00-(?P<trace>[0-9a-f]{32})-(?P<span>[0-9a-f]{16})-[0-9a-f]{2}")
_ENDPOINTS: Final = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT")
_PROTOCOLS: Final = ("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL")
_SUPPORTED_PROTOCOL: Final = "http/protobuf"

Kind = Literal["internal", "server", "client", "producer", "consumer"]
Value = str | bool | int | float | Sequence[str]
Attributes = Mapping[str, Value | None]
"""None stands for an attribute that is left out."""
NO_ATTRIBUTES: Final[Attributes] = {}


def trace_id_of(owner_id: UUID) -> str:
    """The id of the trace of an iteration, or of a step without iteration, as 32 hexadecimal digits.

    It is a hash, because samplers decide by the bits of a trace id, and some bits of a UUID are fixed.
    """
    return f"{_trace_id(owner_id):032x}"


def _trace_id(owner_id: UUID) -> int:
    return _hash(16, "trace", owner_id)


def _root_id(owner_id: UUID) -> int:
    return _hash(8, "root", owner_id)


def _step_span_id(step_id: UUID, epoch: int) -> int:
    return _hash(8, "step", step_id, epoch)


def _hash(size: int, *parts: object) -> int:
    text = "/".join(map(str, parts))
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=size).digest()) or 1


@dataclass(eq=False, slots=True)
class Span:
    """A span that is recorded when it ends."""

    name: str
    kind: Kind
    trace_id: int
    span_id: int
    parent_id: int | None
    attributes: dict[str, Value]
    links: Sequence[int] = ()
    """Spans of the same trace."""
    start_ns: int = field(default_factory=time.time_ns)
    end_ns: int | None = None
    error: str | None = None

    def add(self, attributes: Attributes) -> None:
        self.attributes.update(_given(attributes))

    def fail(self, error: BaseException | str) -> None:
        """Marks the span as failed.

        Of an exception only the code or the type: its message can quote an answer, a page or a row.
        """
        if isinstance(error, BaseException):
            error = str(getattr(error, "code", None) or type(error).__name__)
            self.attributes["error.type"] = error
        self.error = error[:MAX_ERROR_CHARS]

    def disown(self) -> None:
        """Gives the span an id of its own: another worker has the step, and its span has this id."""
        self.span_id = _random_id()


class Exporter(Protocol):
    """Takes finished spans. The one of the product hands them to the SDK."""

    def is_sampled(self, trace_id: int, name: str) -> bool: ...

    def export(self, span: Span) -> None: ...

    def shutdown(self) -> None: ...


@dataclass(slots=True)
class _Message:
    """The message that is being handled."""

    trace_id: int
    parent_id: int
    attributes: dict[str, Value]
    last_span_id: int = field(init=False)
    """The span that the events which follow are attributed to."""

    def __post_init__(self) -> None:
        self.last_span_id = self.parent_id

    def span(self, name: str, span_id: int, attributes: Attributes) -> Span:
        self.last_span_id = span_id
        given = self.attributes | _given(attributes)
        return Span(name, "consumer", self.trace_id, span_id, self.parent_id, given)


_exporter: Exporter | None = None
_current: ContextVar[Span | None] = ContextVar("current_span", default=None)
_message: ContextVar[_Message | None] = ContextVar("current_message", default=None)
_NOTHING: Final = nullcontext(None)

SpanContext = AbstractContextManager[Span | None]
"""None, and nothing is recorded, where tracing is off or there is no trace."""


def is_requested(environ: Mapping[str, str]) -> bool:
    """Whether the standard variables ask for traces: an endpoint of OTLP is set, or `OTEL_TRACES_EXPORTER=otlp`.

    Raises ValueError for another exporter, or another protocol than OTLP over HTTP.
    """
    if environ.get("OTEL_SDK_DISABLED", "").strip().lower() == "true":
        return False
    exporter = environ.get("OTEL_TRACES_EXPORTER", "")
    if exporter not in ("", "otlp", "none"):
        raise ValueError(f"OTEL_TRACES_EXPORTER is {exporter!r}: Vigil knows otlp and none")
    if exporter == "none" or not (exporter or any(environ.get(name) for name in _ENDPOINTS)):
        return False
    for name in _PROTOCOLS:
        if (environ.get(name) or _SUPPORTED_PROTOCOL) != _SUPPORTED_PROTOCOL:
            raise ValueError(f"{name} is {environ[name]!r}: Vigil sends {_SUPPORTED_PROTOCOL} only")
    return True


def start(exporter: Exporter | None) -> None:
    """Turns tracing on in this process; off with None."""
    global _exporter
    _exporter = exporter


def stop() -> None:
    """Exports what has ended, and turns tracing off."""
    if _exporter is not None:
        _exporter.shutdown()
    start(None)


def current() -> Span | None:
    return _current.get()


def message(
    owner_id: UUID, header: str | None, subject: str, event_id: UUID, deliveries: int
) -> AbstractContextManager[None]:
    """The handling of a message of the trace of `owner_id`. Its spans are opened with `step` and `of_message`."""
    if _exporter is None:
        return _NOTHING
    trace_id = _trace_id(owner_id)
    if not _exporter.is_sampled(trace_id, subject):
        return _NOTHING
    match = _TRACEPARENT.fullmatch(header or "")
    is_parent_known = match is not None and int(match["trace"], 16) == trace_id
    # An event that the scheduler has republished from the state has no header.
    parent_id = int(match["span"], 16) if match and is_parent_known else _root_id(owner_id)
    attributes: dict[str, Value] = {
        "messaging.system": "nats",
        "messaging.destination.name": subject,
        "messaging.operation.type": "process",
        "messaging.message.id": str(event_id),
    }
    if deliveries > 1:
        attributes["vigil.message.deliveries"] = deliveries
    return _handling(_Message(trace_id, parent_id, attributes))


@contextmanager
def _handling(handled: _Message) -> Iterator[None]:
    token = _message.set(handled)
    try:
        yield
    finally:
        _message.reset(token)


def of_message(name: str, attributes: Attributes = NO_ATTRIBUTES) -> SpanContext:
    """A span of the handling of the current message. Events that the handler returns are attributed to it."""
    handled = _message.get()
    if handled is None:
        return _NOTHING
    return _recording(handled.span(name, _random_id(), attributes))


def step(
    kind: str, step_id: UUID, epoch: int, attributes: Attributes = NO_ATTRIBUTES
) -> SpanContext:
    """The span of one attempt of a step, with a link to the attempt before."""
    handled = _message.get()
    return (
        _NOTHING
        if handled is None
        else _recording(_step_span(handled, kind, step_id, epoch, attributes))
    )


def lost_step(
    kind: str, step_id: UUID, epoch: int, *, worker: str | None, since: datetime, until: datetime
) -> None:
    """Records the span of an attempt whose worker has died: it could not, but the parts that had ended refer to it."""
    handled = _message.get()
    if handled is None or _exporter is None:
        return
    span = _step_span(
        handled, kind, step_id, epoch, {"vigil.worker": worker, "error.type": "worker_lost"}
    )
    span.fail("the worker was lost: its lease expired")
    span.start_ns, span.end_ns = _nanoseconds(since), _nanoseconds(until)
    _exporter.export(span)


def _step_span(
    handled: _Message, kind: str, step_id: UUID, epoch: int, attributes: Attributes
) -> Span:
    of_step: dict[str, Value] = {
        "vigil.step.id": str(step_id),
        "vigil.step.kind": kind,
        "vigil.step.attempt": epoch,
    }
    span = handled.span(f"step {kind}", _step_span_id(step_id, epoch), {**of_step, **attributes})
    if epoch > 1:
        span.links = [_step_span_id(step_id, epoch - 1)]
    return span


def under_root(
    owner_id: UUID, name: str, kind: Kind = "internal", attributes: Attributes = NO_ATTRIBUTES
) -> SpanContext:
    """A span directly below the root of the trace of `owner_id`, outside of any message."""
    if _exporter is None:
        return _NOTHING
    trace_id = _trace_id(owner_id)
    if not _exporter.is_sampled(trace_id, name):
        return _NOTHING
    given = _given(attributes)
    return _recording(Span(name, kind, trace_id, _random_id(), _root_id(owner_id), given))


def root(
    owner_id: UUID,
    name: str,
    *,
    since: datetime,
    until: datetime,
    attributes: Attributes = NO_ATTRIBUTES,
    error: str | None = None,
) -> None:
    """Records the root of the trace of `owner_id`, which has ended. A second time it is the same span."""
    trace_id = _trace_id(owner_id)
    if _exporter is None or not _exporter.is_sampled(trace_id, name):
        return
    span = Span(name, "internal", trace_id, _root_id(owner_id), None, _given(attributes))
    span.start_ns, span.end_ns = _nanoseconds(since), _nanoseconds(until)
    if error is not None:
        span.fail(error)
    _exporter.export(span)


def child(
    name: str, kind: Kind = "internal", attributes: Attributes = NO_ATTRIBUTES
) -> SpanContext:
    """A span below the current one."""
    parent = _current.get()
    if parent is None:
        return _NOTHING
    given = _given(attributes)
    return _recording(Span(name, kind, parent.trace_id, _random_id(), parent.span_id, given))


def headers() -> dict[str, str]:
    """The headers of a message or request that is sent now; empty if it belongs to no trace."""
    span, handled = _current.get(), _message.get()
    if span is not None:
        trace_id, span_id = span.trace_id, span.span_id
    elif handled is not None:
        trace_id, span_id = handled.trace_id, handled.last_span_id
    else:
        return {}
    return {HEADER: f"00-{trace_id:032x}-{span_id:016x}-01"}


def add_ids(_: object, __: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    """A structlog processor: adds the ids of the current trace and span."""
    span, handled = _current.get(), _message.get()
    if span is not None:
        event["trace_id"], event["span_id"] = f"{span.trace_id:032x}", f"{span.span_id:016x}"
    elif handled is not None:
        event["trace_id"] = f"{handled.trace_id:032x}"
        event["span_id"] = f"{handled.last_span_id:016x}"
    return event


@contextmanager
def _recording(span: Span) -> Iterator[Span]:
    token = _current.set(span)
    try:
        yield span
    except BaseException as error:
        if span.error is None:
            span.fail(error)
        raise
    finally:
        _current.reset(token)
        span.end_ns = time.time_ns()
        if _exporter is not None:
            _exporter.export(span)


def _given(attributes: Attributes) -> dict[str, Value]:
    return {name: value for name, value in attributes.items() if value is not None}


def _nanoseconds(moment: datetime) -> int:
    return int(moment.timestamp() * 1e6) * 1000


def _random_id() -> int:
    return random.getrandbits(64) or 1
