"""The connection of a process to NATS."""

import asyncio
import re
from collections.abc import Iterable
from contextlib import suppress

from faststream.nats import NatsBroker
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
from shared.events.credentials import Credentials
from shared.events.envelope import Event
from shared.events.rejection import is_rejection
from shared.events.topology import STORE_FAULT, STREAM
from shared.runtime.background import cancel_and_wait
from shared.runtime.logging import logger
from shared.runtime.pull_subscriber import PullSubscriber
from shared.telemetry import tracing

PUBLISH_TIMEOUT_SECONDS = 10.0
STORE_RETRY_SECONDS = 3.0
"""Interval of retries of a message that was not stored, and the timeout of each."""
FLUSH_TIMEOUT_SECONDS = 2
RECONNECT_WAIT_SECONDS = 1
_CHECK_CREDENTIALS = "compare VIGIL_NATS_USER and the password with NATS's users.conf"
_VIOLATION = re.compile(
    r"permissions violation for (?P<verb>publish|subscription) to \"(?P<subject>[^\"]+)\"",
    re.IGNORECASE,
)

log = logger(__name__)


class Bus:
    """Publishes events, and provides the broker for subscriptions."""

    def __init__(
        self,
        url: str,
        *,
        name: str,
        credentials: Credentials | None = None,
        drain_seconds: float = 0.0,
    ) -> None:
        """Without `credentials` the client connects anonymously, and `name` names its inbox.

        At a stop, subscribers let their handlers finish for `drain_seconds`.
        """
        self._credentials = credentials or Credentials(name)
        self._logged_outage = False
        self._is_rejected = False
        self._closing = False
        self._forbidden_subjects: set[str] = set()
        self._store_fault: str | None = None
        self._store_check: asyncio.Task[None] | None = None
        self.broker = NatsBroker(
            url,
            name=f"vigil-{name}",
            # Forever: a client that gave up would run without receiving anything.
            max_reconnect_attempts=-1,
            reconnect_time_wait=RECONNECT_WAIT_SECONDS,
            error_cb=self._on_error,
            disconnected_cb=self._on_disconnect,
            reconnected_cb=self._on_reconnect,
            graceful_timeout=drain_seconds,
            # The router decodes, so that an unreadable message becomes a dead letter.
            apply_types=False,
            logger=None,
            inbox_prefix=self._credentials.inbox_prefix,
            security=_security(self._credentials),
        )

    async def connect(self) -> None:
        """Waits for NATS without limit. Raises PermanentError if NATS rejects this user."""
        try:
            await self.broker.connect()
        except NatsError as error:
            if not is_rejection(error):
                raise
            raise PermanentError(
                "refused", f"NATS rejects the user {self._credentials.user}"
            ) from error
        self._logged_outage = self._is_rejected = False

    @property
    def client(self) -> Client:
        return self.broker.connection

    @property
    def is_connected(self) -> bool:
        return bool(self.broker.config.connection_state) and self.client.is_connected

    @property
    def refusal(self) -> str | None:
        """Why NATS rejects this user now (its credentials were revoked), or None."""
        was_rejected = isinstance(self.client.last_error, AuthorizationError)
        if not self._is_rejected and not (self.client.is_closed and was_rejected):
            return None
        return f"NATS now rejects the user {self._credentials.user}; {_CHECK_CREDENTIALS}"

    @property
    def store_fault(self) -> str | None:
        """The reason why NATS, although connected, does not store messages; None if it does."""
        return self._store_fault if self.is_connected else None

    @property
    def jetstream(self) -> JetStreamContext:
        return self.client.jetstream(timeout=PUBLISH_TIMEOUT_SECONDS)

    async def publish(self, event: Event, *, resend: int = 0) -> None:
        """Returns when the stream has stored `event`; publishing the same event again stores it once.

        A `resend` above zero gets its own message id, so that NATS does not drop it as a duplicate. Raises
        TransientError, which uses up no attempt, if NATS does not confirm, and PermanentError if the event is too
        large.
        """
        message_id = f"{event.event_id}:r{resend}" if resend else str(event.event_id)
        await self.publish_bytes(event.subject, encode(event), message_id=message_id)

    async def publish_bytes(self, subject: str, payload: bytes, *, message_id: str) -> None:
        """Returns when the stream has stored `payload`. Raises as `publish` does."""
        try:
            await self._store(subject, payload, message_id, PUBLISH_TIMEOUT_SECONDS)
        except MaxPayloadError as error:
            raise PermanentError(
                "event_too_large", f"{subject} is too large for NATS: {error}"
            ) from error
        except (NatsError, APIError, TimeoutError) as error:
            # NATS reports a denied subject asynchronously, so here it looks like a timeout.
            forbidden = subject in self._forbidden_subjects
            why = f"{self._credentials.user} may not publish it" if forbidden else repr(error)
            if not forbidden and self.is_connected and self._store_check is None:
                retry = self._retry_until_stored(subject, payload, message_id)
                self._store_check = asyncio.create_task(retry)
            raise TransientError(f"NATS did not store {subject}: {why}", counts=False) from error

    async def _store(
        self, subject: str, payload: bytes, message_id: str, timeout_seconds: float
    ) -> None:
        await self.broker.publish(
            payload,
            subject,
            headers={
                "Nats-Msg-Id": message_id,
                "Content-Type": "application/json",
                **tracing.headers(),
            },
            stream=STREAM,
            timeout=timeout_seconds,
        )

    async def _retry_until_stored(self, subject: str, payload: bytes, message_id: str) -> None:
        """Publishes a message again until NATS stores it. Sets the fault while that fails, and removes it at the end.

        A server whose disk was full may refuse all messages until it is restarted, also when there is space again. An
        event may be published again: its id is the same, and handlers read its state from PostgreSQL.
        """
        try:
            while True:
                if await self._is_stored(subject, payload, message_id):
                    break
                await asyncio.sleep(STORE_RETRY_SECONDS)
            if self._store_fault is not None:
                log.info("NATS stores messages again")
        finally:
            # Also after an error of this message alone: another one that is not stored starts the next check.
            self._store_fault = self._store_check = None

    async def _is_stored(self, subject: str, payload: bytes, message_id: str) -> bool:
        try:
            await self._store(subject, payload, message_id, STORE_RETRY_SECONDS)
        except (NatsError, APIError, TimeoutError) as error:
            why = "it does not confirm them" if isinstance(error, TimeoutError) else str(error)
            if self.is_connected and self._store_fault is None:
                self._store_fault = f"{STORE_FAULT}: {why}"
                log.warning(self._store_fault)
            return False
        return True

    async def publish_all(self, events: Iterable[Event]) -> None:
        """Publishes in order and waits for all. Raises the error of the first event that was not stored."""
        tasks = (self.publish(event) for event in events)
        for error in await asyncio.gather(*tasks, return_exceptions=True):
            if error is not None:
                raise error

    async def close(self) -> None:
        """Flushes and closes the connection. May be called without one."""
        self._closing = True
        if self._store_check is not None:
            await cancel_and_wait(self._store_check)
        connection = self.broker.config.connection_state
        if connection:
            with suppress(NatsError, TimeoutError):  # the server is unavailable
                await self.client.flush(timeout=FLUSH_TIMEOUT_SECONDS)
            # The broker's own stop drains, which can wait half a minute for subscriptions without a reader.
            with suppress(OSError):  # the connection broke and is closed too
                await self.client.close()
        with suppress(ConnectionClosedError):
            await self.broker.stop()

    async def _on_error(self, error: Exception) -> None:
        is_disconnect = isinstance(error, StaleConnectionError | OSError)
        if violation := _VIOLATION.search(str(error)):
            self._log_forbidden(violation["verb"].lower(), violation["subject"])
        elif is_rejection(error):
            self._log_rejected(error)
        elif self.is_connected and not is_disconnect:
            log.warning("NATS reports an error", error=repr(error))  # for example a slow consumer
        # Called for every failed attempt to reconnect; log only the first.
        elif not self._logged_outage:
            self._logged_outage = True
            log.warning("waiting for NATS", error=repr(error))

    def forbids(self, prefix: str) -> bool:
        """Returns true if NATS has denied an operation on a subject with this prefix on this connection."""
        # The client reports subjects in lower case.
        return any(
            subject.lower().startswith(prefix.lower()) for subject in self._forbidden_subjects
        )

    def _log_forbidden(self, verb: str, subject: str) -> None:
        if subject in self._forbidden_subjects:
            return
        self._forbidden_subjects.add(subject)
        log.error(
            f"NATS denies an operation to {self._credentials.user}",
            verb=verb,
            subject=subject,
            do="after an upgrade, recreate users.conf with `vigil keys` and reload NATS",
        )

    def _log_rejected(self, error: Exception) -> None:
        self._is_rejected = True
        if not self._logged_outage:
            self._logged_outage = True
            log.error(
                f"NATS rejects the user {self._credentials.user}",
                error=repr(error),
                do=_CHECK_CREDENTIALS,
            )

    async def _on_disconnect(self) -> None:
        if not self._closing:
            log.warning("disconnected from NATS")

    async def _on_reconnect(self) -> None:
        self._logged_outage = self._is_rejected = False
        self._store_fault = None  # unknown until the next retry
        self._forbidden_subjects.clear()
        log.info("reconnected to NATS")
        for subscriber in self.broker.subscribers:
            if isinstance(subscriber, PullSubscriber):
                subscriber.forget_request()


def _security(credentials: Credentials) -> NatsSecurity | None:
    tls, first = credentials.tls, credentials.tls_first
    if credentials.password is not None:
        return NatsUserPassword(
            credentials.user, credentials.password, ssl_context=tls, tls_handshake_first=first
        )
    return NatsSecurity(ssl_context=tls, tls_handshake_first=first) if tls else None
