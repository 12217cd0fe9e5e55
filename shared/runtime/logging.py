"""Structured logs: one line per event, with the agent, iteration and step that it belongs to."""

import logging
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import structlog

from shared.events.envelope import Event
from shared.events.models import IterationEvent, StepEvent
from shared.telemetry import tracing

# For commands, which do not configure logging: their standard output may be read by a program.
structlog.configure(logger_factory=lambda *_: structlog.PrintLogger(sys.stderr))


def configure(*, service: str, log_format: str, level: str) -> None:
    """Sends this process's logs, including those of libraries, to standard output."""
    shared: list[structlog.typing.Processor] = [
        structlog.contextvars.merge_contextvars,
        tracing.add_ids,
        structlog.stdlib.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
    ]
    renderer: structlog.typing.Processor = (
        structlog.processors.JSONRenderer()
        if log_format == "json"
        else structlog.dev.ConsoleRenderer(colors=sys.stdout.isatty())
    )
    structlog.configure(
        processors=[*shared, structlog.stdlib.ProcessorFormatter.wrap_for_formatter],
        logger_factory=structlog.stdlib.LoggerFactory(),
        cache_logger_on_first_use=False,
    )
    handler = logging.StreamHandler(sys.stdout)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=shared,
            processors=[
                structlog.stdlib.ProcessorFormatter.remove_processors_meta,
                structlog.processors.format_exc_info,
                renderer,
            ],
        )
    )
    logging.basicConfig(handlers=[handler], level=level.upper(), force=True)
    # Their request lines would duplicate our own.
    for chatty in ("httpx", "httpx2", "openai", "uvicorn.access", "nats"):
        logging.getLogger(chatty).setLevel(logging.WARNING)
    name_service(service)


def name_service(service: str) -> None:
    """Adds the service to what the current task logs from now on, and the tasks that it starts."""
    structlog.contextvars.bind_contextvars(service=service)


def logger(name: str) -> structlog.stdlib.BoundLogger:
    bound: structlog.stdlib.BoundLogger = structlog.stdlib.get_logger(name)
    return bound


@contextmanager
def log_context(event: Event) -> Iterator[None]:
    """Adds the ids of `event` to every line logged in this block."""
    fields = {
        "about": event.subject,
        "agent_id": str(event.agent_id),
    }
    if isinstance(event, IterationEvent):
        fields["iteration_id"] = str(event.iteration_id)
    if isinstance(event, StepEvent):
        fields["step_id"] = str(event.step_id)
    with structlog.contextvars.bound_contextvars(**fields):
        yield
