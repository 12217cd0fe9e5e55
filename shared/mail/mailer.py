"""Sending mail, with its failures sorted into what may and what cannot be mended by another try."""

import asyncio
import socket
import ssl
from email.headerregistry import Address
from email.message import EmailMessage
from typing import Final

import aiosmtplib

from shared.errors import PermanentError, TransientError
from shared.mail.letter import address, letter
from shared.mail.server import MailServer
from shared.runtime.settings import Settings
from shared.store.storable import error_text

ANSWER_SECONDS: Final = 15.0
"""Of the server, to any one command."""
SENDING_SECONDS: Final = 30.0
"""For one whole mail, from connecting to the goodbye: a server that answers each command late holds nobody for longer."""

LOGIN_CODES: Final = (530, 534, 535, 538)


class MailServerAwayError(TransientError):
    """The mail server gave no answer. The text names the server, so it is for the operator."""


class Mailer:
    """Sends plain-text mails, each by a connection of its own."""

    def __init__(self, settings: Settings) -> None:
        """Raises PermanentError where the settings for mail cannot be used."""
        self._server: MailServer | None = None
        if settings.smtp_url is None:
            return
        self._server = MailServer.from_url(settings.smtp_url.get_secret_value())
        if settings.mail_from is None:
            raise PermanentError(
                "smtp_settings",
                "VIGIL_SMTP_URL is set and VIGIL_MAIL_FROM is not: name the address that mails come from",
            )
        self._sender: Address = address(settings.mail_from)

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
