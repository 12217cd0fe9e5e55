"""Mail: the message, the server, and which failures are temporary."""

import asyncio
import socket
import ssl
from email.errors import MessageError
from email.headerregistry import Address
from email.message import EmailMessage
from email.policy import SMTP
from email.utils import format_datetime, getaddresses, localtime, make_msgid
from typing import Final

import aiosmtplib
from pydantic import SecretStr

from shared.database.text import error_text
from shared.errors import PermanentError, TransientError
from shared.notifications.mail_server import MailServer

MAX_SUBJECT_CHARS = 200


def build_message(
    *, sender: Address, to: Address, subject: str, text: str, message_id: str | None
) -> EmailMessage:
    """A plain-text mail."""
    message = EmailMessage(policy=SMTP)
    message["From"] = sender
    message["To"] = to
    message["Subject"] = _one_line(subject)
    message["Date"] = format_datetime(localtime())
    message["Message-ID"] = (
        f"<{message_id}@{sender.domain}>" if message_id else make_msgid(domain=sender.domain)
    )
    message["Auto-Submitted"] = "auto-generated"  # prevents automatic replies
    message.set_content(text)
    return message


def parse_address(text: str) -> Address:
    """Parses `name@host`, with an optional display name. Raises PermanentError if it is not a single address."""
    try:
        ((name, plain),) = getaddresses([text])
        parsed = Address(name, addr_spec=plain)
    except (MessageError, ValueError, IndexError) as error:
        raise _invalid_address(text) from error
    if not text.isprintable() or not parsed.username or not parsed.domain:
        raise _invalid_address(text)
    return parsed


def _invalid_address(text: str) -> PermanentError:
    return PermanentError("mail_address", f"{text!r} is not an email address: write name@host")


def _one_line(text: str) -> str:
    line = " ".join(
        "".join(character if character.isprintable() else " " for character in text).split()
    )
    return line if len(line) <= MAX_SUBJECT_CHARS else f"{line[: MAX_SUBJECT_CHARS - 1]}…"


ANSWER_SECONDS: Final = 15.0
"""Timeout of the server's response to one command."""
SENDING_SECONDS: Final = 30.0
"""Timeout of one mail from connect to quit: limits a server that answers each command late."""

LOGIN_CODES: Final = (530, 534, 535, 538)


class MailServerUnavailableError(TransientError):
    """The mail server did not respond. The text names the server, so it is only for the operator."""


class Mailer:
    """Sends plain-text mail, each over a connection of its own."""

    def __init__(self, smtp_url: SecretStr | None, mail_from: str | None) -> None:
        """Raises PermanentError if the mail settings are invalid."""
        self._server: MailServer | None = None
        if smtp_url is None:
            return
        self._server = MailServer.from_url(smtp_url.get_secret_value())
        if mail_from is None:
            raise PermanentError(
                "smtp_settings",
                "VIGIL_SMTP_URL is set but VIGIL_MAIL_FROM is not: set the address that email is sent from",
            )
        self._sender: Address = parse_address(mail_from)

    @property
    def enabled(self) -> bool:
        """Whether a mail server is configured."""
        return self._server is not None

    async def send(
        self, *, to: str, subject: str, text: str, message_id: str | None = None
    ) -> None:
        """Returns when the server has accepted the mail. `message_id` is the part of its Message-ID before the @.

        Raises TransientError if a retry may work, else PermanentError with a code: `mail_off` (no server is
        configured), `mail_address` (invalid), `mail_refused` (this recipient or text), `smtp_login` and `smtp_settings`
        (the server rejects Vigil itself until the settings are changed).
        """
        if self._server is None:
            raise PermanentError(
                "mail_off", "no email can be sent: set VIGIL_SMTP_URL and VIGIL_MAIL_FROM"
            )
        message = build_message(
            sender=self._sender,
            to=parse_address(to),
            subject=subject,
            text=text,
            message_id=message_id,
        )
        try:
            await _send(self._server, message)
        except aiosmtplib.SMTPRecipientsRefused as error:
            raise _refusal_error(error.recipients[0]) from error
        except aiosmtplib.SMTPResponseException as error:
            raise _refusal_error(error) from error
        except aiosmtplib.SMTPNotSupported as error:
            raise PermanentError("smtp_settings", f"the mail server: {error}") from error
        except ssl.SSLCertVerificationError as error:
            raise _untrusted(self._server, error) from error
        except (aiosmtplib.SMTPException, OSError, TimeoutError) as error:
            if isinstance(error.__cause__, ssl.SSLCertVerificationError):
                raise _untrusted(self._server, error.__cause__) from error
            raise MailServerUnavailableError(
                f"no answer from the mail server at {self._server.location}: "
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
    is_accepted = False
    try:
        async with asyncio.timeout(SENDING_SECONDS), client:
            await client.send_message(message)
            is_accepted = True
    except TimeoutError:
        # If the server has accepted the mail, a timeout of QUIT must not cause a second one.
        if not is_accepted:
            raise


def _refusal_error(error: aiosmtplib.SMTPResponseException) -> PermanentError | TransientError:
    reason = f"the mail server answered {error.code}: {error_text(str(error.message))}"
    if error.code < 500:
        return TransientError(reason)
    if isinstance(error, aiosmtplib.SMTPAuthenticationError) or error.code in LOGIN_CODES:
        return PermanentError(
            "smtp_login", f"{reason}. Check the user and password in VIGIL_SMTP_URL"
        )
    if isinstance(error, aiosmtplib.SMTPSenderRefused):
        return PermanentError("smtp_settings", f"{reason}. Check VIGIL_MAIL_FROM")
    if isinstance(error, aiosmtplib.SMTPRecipientRefused | aiosmtplib.SMTPDataError):
        return PermanentError("mail_refused", reason)
    return PermanentError("smtp_settings", f"{reason}. Check VIGIL_SMTP_URL")


def _untrusted(server: MailServer, error: ssl.SSLCertVerificationError) -> PermanentError:
    return PermanentError(
        "smtp_settings",
        f"the certificate of the mail server at {server.host} cannot be trusted: {error.verify_message}. "
        "Check the host in VIGIL_SMTP_URL, or set SSL_CERT_FILE to its CA certificate",
    )
