"""Sending by HTTP: signed, to a checked address, and whatever the receiver answers is sorted."""

import asyncio
import time
from http import HTTPStatus
from http.cookiejar import CookieJar, DefaultCookiePolicy
from typing import Final

import httpx

from services.courier.network import RefusedAddressError
from services.courier.parcel import Parcel
from services.courier.verdict import Never, NotNow, Taken, Verdict
from shared.retry_after import retry_after_seconds
from shared.version import vigil_version
from shared.webhooks.signing import signed

ANSWER_SECONDS: Final = 10.0
"""From the look-up of the name to the head of the answer."""
CONNECT_SECONDS: Final = 3.0
LONGEST_WAIT_SECONDS: Final = 86_400.0
"""The longest wait that a receiver may ask for."""
UNREACHED: Final = (
    "the receiver was not reached, or did not answer in HTTP; the operator of this installation finds the reason"
    " in the courier's log"
)
"""One text for every attempt without an answer. A text for each cause would let any user list the hosts and open ports
of this machine's network."""


class WebhookSender:
    seconds = ANSWER_SECONDS

    def __init__(self, transport: httpx.AsyncBaseTransport) -> None:
        self._client = httpx.AsyncClient(
            transport=transport,
            timeout=httpx.Timeout(ANSWER_SECONDS, connect=CONNECT_SECONDS),
            follow_redirects=False,
            trust_env=False,
            # What one receiver sets must not come to another's eyes.
            cookies=CookieJar(DefaultCookiePolicy(allowed_domains=[])),
            headers={"user-agent": f"Vigil/{vigil_version()}", "content-type": "application/json"},
        )

    async def send(self, parcel: Parcel) -> Verdict:
        body = parcel.message.model_dump_json().encode()
        headers = signed(str(parcel.delivery_id), int(time.time()), body, parcel.secrets)
        try:
            async with asyncio.timeout(ANSWER_SECONDS):
                return await self._posted(parcel.address, body, headers)
        except TimeoutError:
            return NotNow(UNREACHED, details=f"no answer within {ANSWER_SECONDS:g} s")
        except (RefusedAddressError, httpx.HTTPError, httpx.InvalidURL) as error:
            return NotNow(UNREACHED, details=str(error) or type(error).__name__)

    async def close(self) -> None:
        await self._client.aclose()

    async def _posted(self, url: str, body: bytes, headers: dict[str, str]) -> Verdict:
        # The head of the answer says all: its body, however long, is never read.
        async with self._client.stream("POST", url, content=body, headers=headers) as answer:
            return judged(answer.status_code, answer.headers)


def judged(status_code: int, headers: httpx.Headers) -> Verdict:
    """By the specification: 2xx is taken, 410 is gone for good, and all the rest is tried again."""
    if HTTPStatus.OK <= status_code < HTTPStatus.MULTIPLE_CHOICES:
        return Taken(status_code)
    said = f"the receiver answered {status_code}{_phrase(status_code)}"
    if status_code == HTTPStatus.GONE:
        return Never(f"{said}: it wants no more", status_code, stops=True)
    if HTTPStatus.MULTIPLE_CHOICES <= status_code < HTTPStatus.BAD_REQUEST:
        said = f"{said}; redirects are not followed: make a destination of the final address"
    asked = retry_after_seconds(headers.get("retry-after"), at_most=LONGEST_WAIT_SECONDS)
    return NotNow(said, status_code, asked)


def _phrase(status_code: int) -> str:
    try:
        return f" {HTTPStatus(status_code).phrase}"
    except ValueError:
        return ""
