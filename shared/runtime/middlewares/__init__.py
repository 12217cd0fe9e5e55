"""What happens to every message of a service around its handler: one middleware of FastStream in each module."""

from collections.abc import Awaitable, Callable
from typing import Any, Self

from faststream import BaseMiddleware, ContextRepo
from faststream.nats import NatsMessage

Next = Callable[[NatsMessage], Awaitable[Any]]


class ServiceMiddleware(BaseMiddleware[Any, Any]):
    """A middleware that keeps nothing for a message, so that one object serves all messages of a service.

    `msg` is a NatsMessage in all of them; FastStream's base class has no `in_progress`, and no delay for `nack`.
    """

    def __init__(self) -> None:
        """FastStream passes the message to `__call__`."""

    def __call__(self, msg: Any, /, *, context: ContextRepo) -> Self:
        return self


def delivery_count(message: NatsMessage) -> int:
    return int(message.raw_message.metadata.num_delivered)


def stream_sequence(message: NatsMessage) -> int:
    return int(message.raw_message.metadata.sequence.stream)
