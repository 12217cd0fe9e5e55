"""A mail server on loopback that stores messages and gives configurable replies."""

import asyncio
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from email import message_from_bytes
from email.message import EmailMessage
from email.policy import default
from typing import Any

from aiosmtpd.smtp import SMTP, AuthResult, Envelope, LoginPassword, Session

ACCEPTED = "250 OK"


@dataclass(frozen=True)
class Mail:
    sender: str
    recipients: list[str]
    message: EmailMessage
    over_tls: bool

    @property
    def text(self) -> str:
        return str(self.message.get_content())


@dataclass
class SmtpServer:
    """aiosmtpd calls its `handle_…` methods."""

    address: str = ""
    mails: list[Mail] = field(default_factory=list)
    logins: list[tuple[str, str]] = field(default_factory=list)
    answer_to_recipient: str = ACCEPTED
    answer_to_text: str = ACCEPTED
    answer_to_text_seconds: float = 0.0
    lets_in: bool = True

    async def handle_RCPT(  # noqa: N802
        self, server: SMTP, session: Session, envelope: Envelope, address: str, options: list[str]
    ) -> str:
        if self.answer_to_recipient == ACCEPTED:
            envelope.rcpt_tos.append(address)
        return self.answer_to_recipient

    async def handle_DATA(self, server: SMTP, session: Session, envelope: Envelope) -> str:  # noqa: N802
        await asyncio.sleep(self.answer_to_text_seconds)
        if self.answer_to_text == ACCEPTED:
            assert isinstance(envelope.content, bytes)
            assert envelope.mail_from is not None
            message = message_from_bytes(envelope.content, policy=default)
            assert isinstance(message, EmailMessage)
            mail = Mail(envelope.mail_from, envelope.rcpt_tos, message, session.ssl is not None)
            self.mails.append(mail)
        return self.answer_to_text

    def let_in(
        self, server: SMTP, session: Session, envelope: Envelope, mechanism: str, credentials: Any
    ) -> AuthResult:
        assert isinstance(credentials, LoginPassword)
        self.logins.append((credentials.login.decode(), credentials.password.decode()))
        return AuthResult(success=self.lets_in, handled=self.lets_in)


@asynccontextmanager
async def run_smtp_server(
    *, tls: ssl.SSLContext | None = None, tls_first: bool = False, **options: Any
) -> AsyncIterator[SmtpServer]:
    """With `tls` it offers STARTTLS, or with `tls_first` implicit TLS."""
    box = SmtpServer()
    loop = asyncio.get_running_loop()
    if tls_first:
        options["auth_require_tls"] = False  # it does not see the TLS around it
    server = await loop.create_server(
        lambda: SMTP(
            box,
            loop=loop,
            hostname="postbox",
            tls_context=None if tls_first else tls,
            authenticator=box.let_in,
            **options,
        ),
        "127.0.0.1",
        0,
        ssl=tls if tls_first else None,
    )
    host, port = server.sockets[0].getsockname()
    box.address = f"{host}:{port}"
    try:
        yield box
    finally:
        server.close()
        await server.wait_closed()
