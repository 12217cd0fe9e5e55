"""Who may say and hear what on NATS, as plain values: exactly what the topology asks of each, the rest is denied."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final

from shared.events.topology import CONSUMERS, PUBLISHES, STREAM, subject_roots

API: Final = "api"
OPERATOR: Final = "operator"
MIGRATE: Final = "migrate"

# The inbox of any NATS client that was told no other; nobody of Vigil's has it.
_ANY_CLIENTS_INBOX: Final = "_INBOX.>"


@dataclass(frozen=True)
class Permissions:
    """Subjects of one NATS user. What `publish` and `hear` do not name is denied; `never` is denied in spite of them."""

    publish: tuple[str, ...]
    hear: tuple[str, ...]
    never: tuple[str, ...] = ()

    def as_nats(self) -> dict[str, object]:
        """As NATS's configuration has it."""
        publish: dict[str, list[str]] = {"allow": list(self.publish)}
        if self.never:
            publish["deny"] = list(self.never)
        return {"publish": publish, "subscribe": {"allow": list(self.hear)}}


def inbox_prefix(user: str) -> str:
    """Where answers to `user` arrive; nobody else may listen there."""
    return f"_INBOX_{user}"


def _inbox(user: str) -> str:
    return f"{inbox_prefix(user)}.>"


def _of_actor(actor: str) -> Permissions:
    """Says its own events, pulls on its own consumer, acks what it took from there."""
    return Permissions(
        publish=(
            *(event.subject for event in PUBLISHES[actor]),
            f"$JS.API.CONSUMER.INFO.{STREAM}.{actor}",
            f"$JS.API.CONSUMER.MSG.NEXT.{STREAM}.{actor}",
            f"$JS.ACK.{STREAM}.{actor}.>",
        ),
        hear=(_inbox(actor),),
    )


def _of_reader(user: str) -> Permissions:
    """Reads the stream back by consumers of its own; those of the actors it may look at, and not touch."""
    of_actors = [
        subject
        for actor in CONSUMERS
        for subject in (
            f"$JS.API.CONSUMER.MSG.NEXT.{STREAM}.{actor}",
            f"$JS.API.CONSUMER.CREATE.{STREAM}.{actor}",
            f"$JS.API.CONSUMER.CREATE.{STREAM}.{actor}.>",
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
        hear=(_inbox(user), *subject_roots()),
        never=tuple(of_actors),
    )


def _of_api() -> Permissions:
    """Reads the stream back, and says what people have ordered."""
    reader = _of_reader(API)
    ordered = (event.subject for event in PUBLISHES[API])
    return replace(reader, publish=(*reader.publish, *ordered))


def _of_operator() -> Permissions:
    """A person's user: reads as the api does, with any NATS client."""
    reader = _of_reader(OPERATOR)
    return Permissions(
        publish=(*reader.publish, "$JS.API.STREAM.NAMES", "$JS.API.STREAM.LIST"),
        hear=(*reader.hear, _ANY_CLIENTS_INBOX),
        never=reader.never,
    )


def _of_migrate() -> Permissions:
    """Makes stream and consumers, and brings them up to date. It cannot delete or purge the stream, nor say an event."""
    return Permissions(
        publish=(
            f"$JS.API.STREAM.INFO.{STREAM}",
            f"$JS.API.STREAM.CREATE.{STREAM}",
            f"$JS.API.STREAM.UPDATE.{STREAM}",
            *(
                f"$JS.API.CONSUMER.{verb}.{STREAM}.{actor}"
                for actor in CONSUMERS
                for verb in ("INFO", "DURABLE.CREATE", "DELETE")
            ),
        ),
        hear=(_inbox(MIGRATE),),
    )


PERMISSIONS: Final[Mapping[str, Permissions]] = {
    **{actor: _of_actor(actor) for actor in CONSUMERS},
    API: _of_api(),
    OPERATOR: _of_operator(),
    MIGRATE: _of_migrate(),
}
"""By user, which is the actor's name."""
