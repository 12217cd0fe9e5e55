"""The delivery channels: mail and webhooks."""

import asyncio
import time
from http import HTTPStatus
from http.cookiejar import CookieJar, DefaultCookiePolicy
from typing import Final

import httpx

from services.notifier.delivery import Accepted, PermanentFailure, TemporaryFailure, Verdict
from services.notifier.payload import ItemData, Parcel, TrialData
from shared.enums import PositionState
from shared.errors import PermanentError, TransientError
from shared.fetch.transport import RefusedAddressError
from shared.notifications import smtp
from shared.notifications.smtp import Mailer, MailServerUnavailableError
from shared.notifications.webhooks import signature_headers
from shared.retry_after import retry_after_seconds
from shared.telemetry import tracing
from shared.version import vigil_version

PERMANENT_MAIL_CODES: Final = ("mail_refused", "mail_address")
"""Codes of permanent errors of a mail itself; the others are problems of the installation, and may be fixed."""
MAIL_OFF: Final = "mail_off"
UNSENT: Final = (
    "this installation's mail server did not accept the email;"
    " the operator can find the reason in the notifier's log"
)


class MailSender:
    seconds = smtp.SENDING_SECONDS

    def __init__(self, mailer: Mailer) -> None:
        self._mailer = mailer

    async def send(self, parcel: Parcel) -> Verdict:
        try:
            await self._mailer.send(
                to=parcel.address,
                subject=subject(parcel.message.data),
                text=text(parcel.message.data),
                # The same at every attempt: who gets it twice sees one mail.
                message_id=str(parcel.delivery_id),
            )
        except MailServerUnavailableError as error:
            return TemporaryFailure(UNSENT, details=str(error))
        except TransientError as error:
            return TemporaryFailure(str(error))
        except PermanentError as error:
            if error.code in PERMANENT_MAIL_CODES:
                return PermanentFailure(str(error))
            return TemporaryFailure(
                str(error) if error.code == MAIL_OFF else UNSENT, details=str(error)
            )
        return Accepted()


def subject(data: ItemData | TrialData) -> str:
    return f"[{data.agent_name}] {data.title}" if isinstance(data, ItemData) else data.title


def text(data: ItemData | TrialData) -> str:
    """The text of a mail: what is advised, why, and where to read more."""
    parts = [data.summary]
    if isinstance(data, ItemData):
        if data.position is not None:
            stands = data.position.state is PositionState.STANDING
            # What no longer stands is said before what was advised.
            parts.insert(1 if stands else 0, data.position.sentence)
        parts.append(data.content or "")
        if data.confidence is not None:
            parts.append(f"Confidence: {data.confidence:.0%}")
        if data.horizon is not None:
            parts.append(f"Holds until: {data.horizon}")
        if data.invalidation is not None:
            parts.append(f"What would prove it wrong: {data.invalidation}")
        if data.checked is not None:
            parts.append(f"Checked when it was given: {data.checked}.")
        more = data.link or "vigil inbox"
        parts.append(f"--\n{data.agent_name}, an agent of Vigil. More: {more}")
    return "\n\n".join(part for part in parts if part) + "\n"


ANSWER_SECONDS: Final = 10.0
"""From the DNS lookup to the head of the response."""
CONNECT_SECONDS: Final = 3.0
MAX_RETRY_AFTER_SECONDS: Final = 86_400.0
"""The longest delay that a receiver may ask for."""
UNREACHED: Final = (
    "the receiver could not be reached or did not return a valid HTTP response; the operator of this installation can find"
    " the reason in the notifier's log"
)
"""One text for every attempt without a response: different texts would let users scan the hosts and ports of this
network.
"""


class WebhookSender:
    seconds = ANSWER_SECONDS

    def __init__(self, transport: httpx.AsyncBaseTransport) -> None:
        self._client = httpx.AsyncClient(
            transport=transport,
            timeout=httpx.Timeout(ANSWER_SECONDS, connect=CONNECT_SECONDS),
            follow_redirects=False,
            trust_env=False,
            # Cookies of one receiver must not be sent to another.
            cookies=CookieJar(DefaultCookiePolicy(allowed_domains=[])),
            headers={"user-agent": f"Vigil/{vigil_version()}", "content-type": "application/json"},
        )

    async def send(self, parcel: Parcel) -> Verdict:
        body = parcel.message.model_dump_json().encode()
        headers = signature_headers(str(parcel.delivery_id), int(time.time()), body, parcel.secrets)
        headers |= tracing.headers()
        try:
            async with asyncio.timeout(ANSWER_SECONDS):
                return await self._post(parcel.address, body, headers)
        except TimeoutError:
            return TemporaryFailure(UNREACHED, details=f"no answer within {ANSWER_SECONDS:g} s")
        except (RefusedAddressError, httpx.HTTPError, httpx.InvalidURL) as error:
            return TemporaryFailure(UNREACHED, details=str(error) or type(error).__name__)

    async def close(self) -> None:
        await self._client.aclose()

    async def _post(self, url: str, body: bytes, headers: dict[str, str]) -> Verdict:
        # Only the head of the response matters: its body, however long, is never read.
        async with self._client.stream("POST", url, content=body, headers=headers) as response:
            return classify_response(response.status_code, response.headers)


def classify_response(status_code: int, headers: httpx.Headers) -> Verdict:
    """According to Standard Webhooks: 2xx is accepted, 410 means gone for good, everything else is retried."""
    if HTTPStatus.OK <= status_code < HTTPStatus.MULTIPLE_CHOICES:
        return Accepted(status_code)
    reason = f"the receiver answered {status_code}{_phrase(status_code)}"
    if status_code == HTTPStatus.GONE:
        return PermanentFailure(f"{reason}: it refuses further deliveries", status_code, stops=True)
    if HTTPStatus.MULTIPLE_CHOICES <= status_code < HTTPStatus.BAD_REQUEST:
        reason = f"{reason}; redirects are not followed: add the final address as a destination"
    retry_after = retry_after_seconds(headers.get("retry-after"), at_most=MAX_RETRY_AFTER_SECONDS)
    return TemporaryFailure(reason, status_code, retry_after)


def _phrase(status_code: int) -> str:
    try:
        return f" {HTTPStatus(status_code).phrase}"
    except ValueError:
        return ""
