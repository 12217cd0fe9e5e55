"""NATS permissions per user, as plain values: exactly what the topology needs; everything else is denied."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final

from shared.events.topology import CONSUMERS, PUBLISHES, STREAM, subject_roots

API: Final = "api"
OPERATOR: Final = "operator"
SCHEDULER: Final = "scheduler"
MIGRATE: Final = "migrate"

# The default inbox of NATS clients; no service of Vigil uses it.
_DEFAULT_INBOX: Final = "_INBOX.>"


@dataclass(frozen=True)
class Permissions:
    """Subjects of one NATS user. What `publish` and `subscribe` do not list is denied; `never` is always denied."""

    publish: tuple[str, ...]
    subscribe: tuple[str, ...]
    never: tuple[str, ...] = ()

    def as_nats(self) -> dict[str, object]:
        """In the form of the NATS configuration."""
        publish: dict[str, list[str]] = {"allow": list(self.publish)}
        if self.never:
            publish["deny"] = list(self.never)
        return {"publish": publish, "subscribe": {"allow": list(self.subscribe)}}


def inbox_prefix(user: str) -> str:
    """The prefix of subjects for replies to `user`; no other user may subscribe to it."""
    return f"_INBOX_{user}"


def _inbox(user: str) -> str:
    return f"{inbox_prefix(user)}.>"


def _service_permissions(service: str) -> Permissions:
    """Publishes its own events, pulls from its own consumer, and acks what it received."""
    return Permissions(
        publish=(
            *(event.subject for event in PUBLISHES[service]),
            f"$JS.API.CONSUMER.INFO.{STREAM}.{service}",
            f"$JS.API.CONSUMER.MSG.NEXT.{STREAM}.{service}",
            f"$JS.ACK.{STREAM}.{service}.>",
        ),
        subscribe=(_inbox(service),),
    )


def _reader_permissions(user: str) -> Permissions:
    """Reads the stream through its own consumers; may inspect the services' consumers, but not change them."""
    consumer_changes = [
        subject
        for service in CONSUMERS
        for subject in (
            f"$JS.API.CONSUMER.MSG.NEXT.{STREAM}.{service}",
            f"$JS.API.CONSUMER.CREATE.{STREAM}.{service}",
            f"$JS.API.CONSUMER.CREATE.{STREAM}.{service}.>",
        )
    ]
    return Permissions(
        publish=(
            "$JS.API.INFO",
            f"$JS.API.STREAM.INFO.{STREAM}",
            f"$JS.API.STREAM.MSG.GET.{STREAM}",
            f"$JS.API.DIRECT.GET.{STREAM}",
            f"$JS.API.DIRECT.GET.{STREAM}.>",
            f"$JS.API.CONSUMER.NAMES.{STREAM}",
            f"$JS.API.CONSUMER.LIST.{STREAM}",
            f"$JS.API.CONSUMER.INFO.{STREAM}.*",
            f"$JS.API.CONSUMER.CREATE.{STREAM}",
            f"$JS.API.CONSUMER.CREATE.{STREAM}.>",
            f"$JS.API.CONSUMER.MSG.NEXT.{STREAM}.*",
        ),
        subscribe=(_inbox(user), *subject_roots()),
        never=tuple(consumer_changes),
    )


def _api_permissions() -> Permissions:
    """Reads the stream, and publishes the events of user commands."""
    reader = _reader_permissions(API)
    command_subjects = (event.subject for event in PUBLISHES[API])
    return replace(reader, publish=(*reader.publish, *command_subjects))


def _scheduler_permissions() -> Permissions:
    """A service that also creates a stream or consumers that NATS has lost. Cannot update or delete the stream."""
    service = _service_permissions(SCHEDULER)
    creates = (
        f"$JS.API.STREAM.INFO.{STREAM}",
        f"$JS.API.STREAM.CREATE.{STREAM}",
        *(
            f"$JS.API.CONSUMER.{verb}.{STREAM}.{name}"
            for name in CONSUMERS
            for verb in ("INFO", "DURABLE.CREATE")
        ),
    )
    return replace(service, publish=tuple(dict.fromkeys((*service.publish, *creates))))


def _operator_permissions() -> Permissions:
    """A person's user: reads like the API, with any NATS client."""
    reader = _reader_permissions(OPERATOR)
    return Permissions(
        publish=(*reader.publish, "$JS.API.STREAM.NAMES", "$JS.API.STREAM.LIST"),
        subscribe=(*reader.subscribe, _DEFAULT_INBOX),
        never=reader.never,
    )


def _migrate_permissions() -> Permissions:
    """Creates and updates stream and consumers. Cannot delete or purge the stream, or publish events."""
    return Permissions(
        publish=(
            f"$JS.API.STREAM.INFO.{STREAM}",
            f"$JS.API.STREAM.CREATE.{STREAM}",
            f"$JS.API.STREAM.UPDATE.{STREAM}",
            *(
                f"$JS.API.CONSUMER.{verb}.{STREAM}.{service}"
                for service in CONSUMERS
                for verb in ("INFO", "DURABLE.CREATE", "DELETE")
            ),
        ),
        subscribe=(_inbox(MIGRATE),),
    )


PERMISSIONS: Final[Mapping[str, Permissions]] = {
    **{service: _service_permissions(service) for service in CONSUMERS},
    SCHEDULER: _scheduler_permissions(),
    API: _api_permissions(),
    OPERATOR: _operator_permissions(),
    MIGRATE: _migrate_permissions(),
}
"""By user, which is the name of the service."""
