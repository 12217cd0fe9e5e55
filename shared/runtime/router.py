"""The router of a service: FastStream's, with the consumer and the events that the topology gives the service."""

from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Any, get_args, get_type_hints

from faststream import AckPolicy, AsyncAPI, FastStream
from faststream._internal.endpoint.subscriber.call_item import CallsCollection
from faststream.nats import JStream, NatsBroker, NatsMessage, NatsRouter, PullSub
from faststream.nats.broker.registrator import NatsRegistrator
from faststream.nats.subscriber.config import (
    NatsSubscriberConfig,
    NatsSubscriberSpecificationConfig,
)
from faststream.nats.subscriber.specification import NatsSubscriberSpecification
from faststream.specification.schema import Message, SubscriberSpec

from shared.errors import PermanentError
from shared.events.codec import decode
from shared.events.envelope import Event
from shared.events.stream_admin import consumer_config
from shared.events.topology import CONSUMERS, PUBLISHES, STREAM
from shared.runtime.pull_subscriber import PullSubscriber

EventHandler = Callable[[Any], Awaitable[Sequence[Event]]]
"""Commits what the event requires, and returns the events that follow from the committed state."""


class ServiceRouter(NatsRouter):
    """One subscriber, at the durable consumer of the service, for all events that the service receives."""

    def __init__(self, service: str, slots: int = 1) -> None:
        """At most `slots` messages are handled at the same time."""
        super().__init__()
        self._service = service
        self._slots = slots
        for event in PUBLISHES[service]:
            self.publisher(
                event.subject,
                schema=event,
                title=f"{service}.sends.{event.subject}",
                description=event.__doc__,
            )

    @property
    def publishers(self) -> list[Any]:
        """In the order of their subjects, so that the document is the same in every run."""
        return sorted(super().publishers, key=lambda publisher: publisher.specification.name)

    def subscriber(self) -> PullSubscriber:  # type: ignore[override]  # the topology has the arguments
        """Decorates the handler: an EventHandler, whose parameter has the type of the event."""
        consumer = CONSUMERS[self._service]
        calls: CallsCollection[Any] = CallsCollection()
        config: Any = self.config
        title = f"{self._service}.receives"
        specification = _Specification(
            _outer_config=config,
            calls=calls,
            specification_config=NatsSubscriberSpecificationConfig(
                subject="",
                queue=None,
                filter_subjects=consumer.subjects,
                title_=title,
                description_=None,
            ),
        )
        subscriber = PullSubscriber(
            NatsSubscriberConfig(
                subject="",
                sub_config=consumer_config(consumer),
                extra_options={"durable": consumer.service},
                no_reply=True,
                _outer_config=config,
                _ack_policy=AckPolicy.NACK_ON_ERROR,
            ),
            specification,
            calls,
            queue="",
            pull_sub=PullSub(),
            stream=JStream(STREAM, declare=False),
            slots=self._slots,
        )
        super(NatsRegistrator, self).subscriber(subscriber)
        return subscriber.add_call(parser_=None, decoder_=_decode, dependencies_=())


class _Specification(NatsSubscriberSpecification):
    """Gives the channel of each subject the event of that subject; FastStream gives all of them to each."""

    def get_schema(self) -> dict[str, SubscriberSpec]:
        (call,) = self.calls
        accepted = get_type_hints(call.handler._declared_call)["event"]
        events = {event.subject: event for event in get_args(accepted) or (accepted,)}
        assert set(events) == set(self.subjects), f"{call.name} must accept {self.subjects}"
        schema = {}
        for channel in super().get_schema().values():
            name = f"{self.config.title_}.{channel.address}"
            payload = events[str(channel.address)].model_json_schema()
            channel.operation.message = Message(title=f"{name}:Message", payload=payload)
            schema[name] = channel
        return schema


async def _decode(message: NatsMessage) -> Event:
    """Raises PermanentError, also for an event on another subject than its own."""
    event = decode(message.raw_message.data)
    if event.subject != message.raw_message.subject:
        raise PermanentError(
            "misplaced_event",
            f"{event.type} was published on the wrong subject; find the program that publishes it",
        )
    return event


def documented(routers: Iterable[ServiceRouter]) -> FastStream:
    """An application for `faststream docs gen`, with the events that these routers receive and publish."""
    document = AsyncAPI(
        title="Vigil events",
        version="1",
        description=f"The events that Vigil's services exchange, on the JetStream stream {STREAM}.",
    )
    return FastStream(NatsBroker(routers=routers), specification=document)
