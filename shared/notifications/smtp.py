"""Mail: the server, the letter, and failures that can or cannot be retried."""

import asyncio
import ipaddress
import socket
import ssl
from dataclasses import dataclass
from email.errors import MessageError
from email.headerregistry import Address
from email.message import EmailMessage
from email.policy import SMTP
from email.utils import format_datetime, getaddresses, localtime, make_msgid
from typing import Final, Self
from urllib.parse import SplitResult, unquote, urlsplit

import aiosmtplib
from pydantic import SecretStr

from shared.database.text import error_text
from shared.errors import PermanentError, TransientError

SUBJECT_CHARACTERS = 200


def letter(
    *, sender: Address, to: Address, subject: str, text: str, message_id: str | None
) -> EmailMessage:
    message = EmailMessage(policy=SMTP)
    message["From"] = sender
    message["To"] = to
    message["Subject"] = _one_line(subject)
    message["Date"] = format_datetime(localtime())
    message["Message-ID"] = (
        f"<{message_id}@{sender.domain}>" if message_id else make_msgid(domain=sender.domain)
    )
    message["Auto-Submitted"] = "auto-generated"  # holiday notes do not answer it
    message.set_content(text)
    return message


def address(given: str) -> Address:
    """`name@host`, with or without a name before it. Raises PermanentError where it is no single address."""
    try:
        ((name, plain),) = getaddresses([given])
        found = Address(name, addr_spec=plain)
    except (MessageError, ValueError, IndexError) as error:
        raise _no_address(given) from error
    if not given.isprintable() or not found.username or not found.domain:
        raise _no_address(given)
    return found


def _no_address(given: str) -> PermanentError:
    return PermanentError("mail_address", f"{given!r} is no mail address: write name@host")


def _one_line(text: str) -> str:
    line = " ".join("".join(each if each.isprintable() else " " for each in text).split())
    return line if len(line) <= SUBJECT_CHARACTERS else f"{line[: SUBJECT_CHARACTERS - 1]}…"


SMTP_PORT: Final = 587
SMTPS_PORT: Final = 465


@dataclass(frozen=True)
class MailServer:
    host: str
    port: int
    user: str | None
    password: str | None
    tls_first: bool
    """TLS from the first byte (`smtps`)."""

    @classmethod
    def from_url(cls, url: str) -> Self:
        """Of `smtp://user:password@host:587` or `smtps://…`; user and password are percent-encoded.

        Raises PermanentError, which does not repeat the URL: it may hold a password.
        """
        try:
            parts = urlsplit(url.strip())
            return cls._from_parts(parts)
        except ValueError as error:
            raise PermanentError(
                "smtp_settings",
                "VIGIL_SMTP_URL cannot be read: write smtp://user:password@host:587 or smtps://…, "
                "with user and password percent-encoded",
            ) from error

    @classmethod
    def _from_parts(cls, parts: SplitResult) -> Self:
        if parts.scheme not in ("smtp", "smtps") or not parts.hostname:
            raise ValueError("neither smtp nor smtps, or no host")
        tls_first = parts.scheme == "smtps"
        return cls(
            host=parts.hostname,
            port=parts.port or (SMTPS_PORT if tls_first else SMTP_PORT),
            user=unquote(parts.username) if parts.username else None,
            password=unquote(parts.password or "") if parts.username else None,
            tls_first=tls_first,
        )

    @property
    def start_tls(self) -> bool | None:
        """Whether a plain connection must become TLS; None: where the server offers it.

        A password leaves this machine by TLS alone: whoever stood in between could take the offer away.
        """
        if self.tls_first:
            return False
        return True if self.user is not None and not self._is_here else None

    @property
    def _is_here(self) -> bool:
        try:
            return ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return self.host == "localhost"


ANSWER_SECONDS: Final = 15.0
"""Of the server, to any one command."""
SENDING_SECONDS: Final = 30.0
"""For one whole mail, from connecting to the goodbye: a server that answers each command late holds nobody for longer."""

LOGIN_CODES: Final = (530, 534, 535, 538)


class MailServerAwayError(TransientError):
    """The mail server gave no answer. The text names the server, so it is for the operator."""


class Mailer:
    """Sends plain-text mails, each by a connection of its own."""

    def __init__(self, smtp_url: SecretStr | None, mail_from: str | None) -> None:
        """Raises PermanentError where the settings for mail cannot be used."""
        self._server: MailServer | None = None
        if smtp_url is None:
            return
        self._server = MailServer.from_url(smtp_url.get_secret_value())
        if mail_from is None:
            raise PermanentError(
                "smtp_settings",
                "VIGIL_SMTP_URL is set and VIGIL_MAIL_FROM is not: name the address that mails come from",
            )
        self._sender: Address = address(mail_from)

    @property
    def enabled(self) -> bool:
        """Whether there is a server to send by."""
        return self._server is not None

    async def send(
        self, *, to: str, subject: str, text: str, message_id: str | None = None
    ) -> None:
        """Returns when the server has taken the mail. `message_id` is the part of its Message-ID before the @.

        Raises TransientError for what may work later. PermanentError says by its code what another try cannot mend:
        `mail_off` (no server is set), `mail_address` (not one), `mail_refused` (this recipient or text),
        `smtp_login` and `smtp_settings` (the server refuses Vigil itself, until the settings are changed).
        """
        if self._server is None:
            raise PermanentError(
                "mail_off", "no mail can be sent: set VIGIL_SMTP_URL and VIGIL_MAIL_FROM"
            )
        message = letter(
            sender=self._sender,
            to=address(to),
            subject=subject,
            text=text,
            message_id=message_id,
        )
        try:
            await _send(self._server, message)
        except aiosmtplib.SMTPRecipientsRefused as error:
            raise _refused(error.recipients[0]) from error
        except aiosmtplib.SMTPResponseException as error:
            raise _refused(error) from error
        except aiosmtplib.SMTPNotSupported as error:
            raise PermanentError("smtp_settings", f"the mail server: {error}") from error
        except ssl.SSLCertVerificationError as error:
            raise _untrusted(self._server, error) from error
        except (aiosmtplib.SMTPException, OSError, TimeoutError) as error:
            if isinstance(error.__cause__, ssl.SSLCertVerificationError):
                raise _untrusted(self._server, error.__cause__) from error
            raise MailServerAwayError(
                f"no answer from the mail server at {self._server.host}:{self._server.port}: "
                f"{error_text(str(error) or repr(error))}"
            ) from error


async def _send(server: MailServer, message: EmailMessage) -> None:
    client = aiosmtplib.SMTP(
        hostname=server.host,
        port=server.port,
        username=server.user,
        password=server.password,
        use_tls=server.tls_first,
        start_tls=server.start_tls,
        timeout=ANSWER_SECONDS,
        local_hostname=socket.gethostname(),
    )
    taken = False
    try:
        async with asyncio.timeout(SENDING_SECONDS), client:
            await client.send_message(message)
            taken = True
    except TimeoutError:
        # Where the server has taken the mail, a slow goodbye must not have it sent twice; other failures there pass.
        if not taken:
            raise


def _refused(error: aiosmtplib.SMTPResponseException) -> PermanentError | TransientError:
    said = f"the mail server answered {error.code}: {error_text(str(error.message))}"
    if error.code < 500:
        return TransientError(said)
    if isinstance(error, aiosmtplib.SMTPAuthenticationError) or error.code in LOGIN_CODES:
        return PermanentError("smtp_login", f"{said}. Check user and password in VIGIL_SMTP_URL")
    if isinstance(error, aiosmtplib.SMTPSenderRefused):
        return PermanentError("smtp_settings", f"{said}. Check VIGIL_MAIL_FROM")
    if isinstance(error, aiosmtplib.SMTPRecipientRefused | aiosmtplib.SMTPDataError):
        return PermanentError("mail_refused", said)
    return PermanentError("smtp_settings", f"{said}. Check VIGIL_SMTP_URL")


def _untrusted(server: MailServer, error: ssl.SSLCertVerificationError) -> PermanentError:
    return PermanentError(
        "smtp_settings",
        f"the certificate of the mail server at {server.host} cannot be trusted: {error.verify_message}. "
        "Check the host in VIGIL_SMTP_URL, or name its CA by SSL_CERT_FILE",
    )
