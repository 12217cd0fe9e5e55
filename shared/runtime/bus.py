"""One process's way onto the bus."""

import asyncio
import re
from collections.abc import Iterable
from contextlib import suppress
from typing import Any

from faststream.nats import NatsBroker, NatsMessage
from faststream.nats.security import NatsSecurity, NatsUserPassword
from nats.aio.client import Client
from nats.errors import (
    AuthorizationError,
    ConnectionClosedError,
    MaxPayloadError,
    StaleConnectionError,
)
from nats.errors import Error as NatsError
from nats.js import JetStreamContext
from nats.js.errors import APIError

from shared.errors import PermanentError, TransientError
from shared.events.codec import encode
from shared.events.credentials import Credentials, is_refusal
from shared.events.envelope import Event
from shared.events.topology import STREAM
from shared.runtime.logging import logger

PUBLISH_TIMEOUT_SECONDS = 10.0
FLUSH_TIMEOUT_SECONDS = 2
RECONNECT_WAIT_SECONDS = 1
_COMPARE = "compare VIGIL_NATS_USER and the password with NATS's users.conf"
_VIOLATION = re.compile(
    r"permissions violation for (?P<verb>publish|subscription) to \"(?P<subject>[^\"]+)\"",
    re.IGNORECASE,
)

log = logger(__name__)


class Bus:
    """Publishes events, and lends its broker to the actor's subscriptions."""

    def __init__(self, url: str, *, name: str, credentials: Credentials | None = None) -> None:
        """Without `credentials` none are shown, and `name` names the inbox."""
        self._credentials = credentials or Credentials(name)
        self._told_away = False
        self._refused = False
        self._closing = False
        self._forbidden: set[str] = set()
        self.broker = NatsBroker(
            url,
            name=f"vigil-{name}",
            # For ever: a client that gave up would spin, deaf to everything, until somebody notices.
            max_reconnect_attempts=-1,
            reconnect_time_wait=RECONNECT_WAIT_SECONDS,
            error_cb=self._on_error,
            disconnected_cb=self._on_disconnect,
            reconnected_cb=self._on_reconnect,
            # Parsing is `delivery`'s, so that what cannot be parsed is kept and not lost.
            decoder=_undecoded,
            apply_types=False,
            logger=None,
            inbox_prefix=self._credentials.inbox_prefix,
            security=_security(self._credentials),
        )

    async def connect(self) -> None:
        """Waits for NATS for as long as it takes. Raises PermanentError where NATS does not let this user in."""
        try:
            await self.broker.connect()
        except NatsError as error:
            if not is_refusal(error):
                raise
            raise PermanentError(
                "refused", f"NATS does not let {self._credentials.user} in"
            ) from error
        self._told_away = self._refused = False

    @property
    def inbox_prefix(self) -> bytes:
        """For subscribers, which have to be told it too."""
        return f"{self._credentials.inbox_prefix}.".encode()

    @property
    def client(self) -> Client:
        return self.broker.connection

    @property
    def is_connected(self) -> bool:
        return bool(self.broker.config.connection_state) and self.client.is_connected

    @property
    def refusal(self) -> str | None:
        """That NATS lets this user in no more, in words: its credentials were revoked. None where it does, or is away."""
        told_at_the_end = isinstance(self.client.last_error, AuthorizationError)
        if not self._refused and not (self.client.is_closed and told_at_the_end):
            return None
        return f"NATS does not let {self._credentials.user} in any more; {_COMPARE}"

    @property
    def jetstream(self) -> JetStreamContext:
        return self.client.jetstream(timeout=PUBLISH_TIMEOUT_SECONDS)

    async def publish(self, event: Event, *, resend: int = 0) -> None:
        """Returns when the stream has stored `event`; the same event published again is stored once.

        A `resend` above zero gets an id of its own, which the bus's memory of recent ids does not swallow.
        Raises TransientError, which uses up no attempt, when NATS does not confirm, and PermanentError when the event
        is too large for it.
        """
        message_id = f"{event.event_id}:r{resend}" if resend else str(event.event_id)
        headers = {"traceparent": event.traceparent} if event.traceparent else {}
        await self.publish_bytes(event.subject, encode(event), message_id=message_id, **headers)

    async def publish_bytes(
        self, subject: str, payload: bytes, *, message_id: str, **headers: str
    ) -> None:
        """Returns when the stream has stored `payload`, whatever it is. Raises as `publish` does."""
        try:
            await self.broker.publish(
                payload,
                subject,
                headers={
                    "Nats-Msg-Id": message_id,
                    "Content-Type": "application/json",
                    **headers,
                },
                stream=STREAM,
                timeout=PUBLISH_TIMEOUT_SECONDS,
            )
        except MaxPayloadError as error:
            raise PermanentError(
                "event_too_large", f"{subject} is too large for NATS: {error}"
            ) from error
        except (NatsError, APIError, TimeoutError) as error:
            # NATS says on another way than the answer's that it forbids, so that all there is here is silence.
            forbidden = subject in self._forbidden
            why = f"it forbids it to {self._credentials.user}" if forbidden else repr(error)
            raise TransientError(f"NATS did not store {subject}: {why}", counts=False) from error

    async def publish_all(self, events: Iterable[Event]) -> None:
        """Sent in their order, and waited for together. Raises what the first of them raises that was not stored."""
        published = (self.publish(event) for event in events)
        for outcome in await asyncio.gather(*published, return_exceptions=True):
            if outcome is not None:
                raise outcome

    async def stop_listening(self) -> None:
        """No further message is taken. First of all at a stop: one that came later would lie there until ack_wait."""
        for subscriber in self.broker.subscribers:
            subscriber.running = False
            subscription = getattr(subscriber, "subscription", None)
            if subscription is not None:
                subscriber.subscription = None  # type: ignore[attr-defined]  # its stop() must not do it again
                with suppress(NatsError):  # the connection is closed, and with it the subscription
                    await subscription.unsubscribe()

    async def close(self) -> None:
        """Sends what is left to send, and ends the connection. May be called without one."""
        self._closing = True
        await self.stop_listening()
        connection = self.broker.config.connection_state
        if connection:
            with suppress(
                NatsError, TimeoutError
            ):  # the server is away, and with it whoever would hear us
                await self.client.flush(timeout=FLUSH_TIMEOUT_SECONDS)
            # The broker's own stop drains, which can wait half a minute for subscriptions that nobody reads.
            with suppress(OSError):  # it broke on the way, and with that is closed too
                await self.client.close()
        with suppress(ConnectionClosedError):
            await self.broker.stop()

    async def _on_error(self, error: Exception) -> None:
        lost = isinstance(error, StaleConnectionError | OSError)
        if violation := _VIOLATION.search(str(error)):
            self._say_forbidden(violation["verb"].lower(), violation["subject"])
        elif is_refusal(error):
            self._say_refused(error)
        elif self.is_connected and not lost:
            log.warning("NATS complains", error=repr(error))  # of a slow consumer
        # Every failed attempt to reconnect comes by here; saying so once is enough.
        elif not self._told_away:
            self._told_away = True
            log.warning("waiting for NATS", error=repr(error))

    def _say_forbidden(self, verb: str, subject: str) -> None:
        self._forbidden.add(subject)
        log.error(
            f"NATS forbids this to {self._credentials.user}; nothing will come of it",
            verb=verb,
            subject=subject,
            do="make users.conf anew with `vigil keys` and reload NATS, where this version may do more than the last",
        )

    def _say_refused(self, error: Exception) -> None:
        self._refused = True
        if not self._told_away:
            self._told_away = True
            log.error(
                f"NATS does not let {self._credentials.user} in",
                error=repr(error),
                do=_COMPARE,
            )

    async def _on_disconnect(self) -> None:
        if not self._closing:
            log.warning("disconnected from NATS")

    async def _on_reconnect(self) -> None:
        self._told_away = self._refused = False
        log.info("reconnected to NATS")


def _security(credentials: Credentials) -> NatsSecurity | None:
    tls, first = credentials.tls, credentials.tls_first
    if credentials.password is not None:
        return NatsUserPassword(
            credentials.user, credentials.password, ssl_context=tls, tls_handshake_first=first
        )
    return NatsSecurity(ssl_context=tls, tls_handshake_first=first) if tls else None


async def _undecoded(message: NatsMessage) -> Any:
    return message
