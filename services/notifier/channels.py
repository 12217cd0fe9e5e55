"""The channels: mail and webhooks."""

import asyncio
import socket
import time
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from http import HTTPStatus
from http.cookiejar import CookieJar, DefaultCookiePolicy
from typing import Final

import httpx

from services.notifier.delivery import Never, NotNow, Taken, Verdict
from services.notifier.payload import ItemData, Parcel, TrialData
from shared.errors import PermanentError, TransientError, VigilError
from shared.notifications import smtp
from shared.notifications.addresses import Address, parsed, refusal
from shared.notifications.smtp import Mailer, MailServerAwayError
from shared.notifications.webhooks import signed
from shared.retry_after import retry_after_seconds
from shared.version import vigil_version

OF_THE_MAIL: Final = ("mail_refused", "mail_address")
"""Codes of what no other attempt can mend; the others are the installation's trouble, and somebody may mend that."""
MAIL_OFF: Final = "mail_off"
UNSENT: Final = "this installation's mail server did not take the mail; the operator finds the reason in the notifier's log"


class MailSender:
    seconds = smtp.SENDING_SECONDS

    def __init__(self, by: Mailer) -> None:
        self._mailer = by

    async def send(self, parcel: Parcel) -> Verdict:
        try:
            await self._mailer.send(
                to=parcel.address,
                subject=subject(parcel.message.data),
                text=text(parcel.message.data),
                # The same at every attempt: who gets it twice sees one mail.
                message_id=str(parcel.delivery_id),
            )
        except MailServerAwayError as error:
            return NotNow(UNSENT, details=str(error))
        except TransientError as error:
            return NotNow(str(error))
        except PermanentError as error:
            if error.code in OF_THE_MAIL:
                return Never(str(error))
            return NotNow(str(error) if error.code == MAIL_OFF else UNSENT, details=str(error))
        return Taken()


def subject(data: ItemData | TrialData) -> str:
    return f"[{data.agent_name}] {data.title}" if isinstance(data, ItemData) else data.title


def text(data: ItemData | TrialData) -> str:
    """For people: what is advised, why, and where there is more."""
    parts = [data.summary]
    if isinstance(data, ItemData):
        parts.append(data.content or "")
        if data.confidence is not None:
            parts.append(f"Confidence: {data.confidence:.0%}")
        if data.horizon is not None:
            parts.append(f"Holds until: {data.horizon}")
        if data.invalidation is not None:
            parts.append(f"What would prove it wrong: {data.invalidation}")
        more = data.link or "vigil inbox"
        parts.append(f"--\n{data.agent_name}, an agent of Vigil. More: {more}")
    return "\n\n".join(part for part in parts if part) + "\n"


ADDRESSES_TRIED: Final = 3
"""Of a name that means several, where the first cannot be reached."""

Resolve = Callable[[str, int], Awaitable[Sequence[Address]]]


class RefusedAddressError(VigilError):
    """A webhook's name means an address that nothing is sent to."""


def resolver(slots: int) -> Resolve:
    """By the system. In threads of its own, twice as many as look-ups at the same time: a name server that does not
    answer keeps a thread for longer than an attempt lasts, and must hold up nobody else."""
    threads = ThreadPoolExecutor(2 * slots, thread_name_prefix="look-up")

    async def resolve(host: str, port: int) -> Sequence[Address]:
        loop = asyncio.get_running_loop()
        found = await loop.run_in_executor(
            threads, lambda: socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
        )
        addresses = [parsed(str(each[4][0])) for each in found]
        return [address for address in addresses if address is not None]

    return resolve


class CheckedTransport(httpx.AsyncBaseTransport):
    """Connects to the very addresses that were checked, by number: a name server that answers otherwise a moment later
    changes nothing. The certificate is checked against the name, as always."""

    def __init__(self, resolve: Resolve, *, private: bool) -> None:
        self._resolve = resolve
        self._private = private
        # A connection for each delivery: one that is kept would be closed by the other side just when it is needed.
        self._transport = httpx.AsyncHTTPTransport(
            verify=httpx.create_ssl_context(),  # heeds SSL_CERT_FILE
            limits=httpx.Limits(max_connections=None, max_keepalive_connections=0),
            trust_env=False,
        )

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Raises RefusedAddressError where the name means none that may be connected to."""
        addresses = await self._allowed(request.url)
        *others, last = addresses[:ADDRESSES_TRIED]
        for address in others:
            try:
                return await self._transport.handle_async_request(_sent_to(request, address))
            except (httpx.ConnectError, httpx.ConnectTimeout):
                continue
        return await self._transport.handle_async_request(_sent_to(request, last))

    async def aclose(self) -> None:
        await self._transport.aclose()

    async def _allowed(self, url: httpx.URL) -> Sequence[Address]:
        host = url.host
        port = url.port or {"https": 443, "http": 80}[url.scheme]
        try:
            found = await self._resolve(host, port)
        except (
            OSError,
            UnicodeError,
        ) as error:  # UnicodeError: no host name, as a label of 64 characters
            raise httpx.ConnectError(f"{host} cannot be looked up: {error}") from error
        refusals = {address: refusal(address, private=self._private) for address in found}
        allowed = [address for address, why in refusals.items() if why is None]
        if not allowed:
            told = ", ".join(f"{address} {why}" for address, why in refusals.items())
            raise RefusedAddressError(
                f"{host} may not be sent to: {told or 'it has no address'}. Where that is meant, the installation's"
                " setting VIGIL_WEBHOOK_PRIVATE allows private networks"
            )
        return allowed


def _sent_to(request: httpx.Request, address: Address) -> httpx.Request:
    """`request`, whose Host header names the receiver already, with its connection made to `address`."""
    return httpx.Request(
        request.method,
        request.url.copy_with(host=str(address)),
        headers=request.headers,
        stream=request.stream,
        extensions={**request.extensions, "sni_hostname": request.url.raw_host.decode("ascii")},
    )


ANSWER_SECONDS: Final = 10.0
"""From the look-up of the name to the head of the answer."""
CONNECT_SECONDS: Final = 3.0
LONGEST_WAIT_SECONDS: Final = 86_400.0
"""The longest wait that a receiver may ask for."""
UNREACHED: Final = (
    "the receiver was not reached, or did not answer in HTTP; the operator of this installation finds the reason"
    " in the notifier's log"
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
