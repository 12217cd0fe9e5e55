"""The address of the mail server."""

import ipaddress
import re
from dataclasses import dataclass
from typing import Final, Self
from urllib.parse import SplitResult, unquote, urlsplit

from shared.errors import PermanentError

SMTP_PORT: Final = 587
SMTPS_PORT: Final = 465
_USER: Final = r"(?:[^\s/?#@%\\\[\]]|%[0-9a-fA-F]{2})*"
_ADDRESS: Final = re.compile(
    rf"smtps?://(?:{_USER}@)?(?:[\w.-]+|\[[0-9a-fA-F:.]+\])(?::[0-9]{{1,5}})?/?", re.IGNORECASE
)
"""Nothing that an unencoded password could turn into another host."""


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
        """Parses `smtp://user:password@host:587` or `smtps://…`; user and password are percent-encoded.

        Raises PermanentError, without the URL in its text: it may contain a password.
        """
        try:
            address = url.strip()
            if not _ADDRESS.fullmatch(address):
                raise ValueError("it is more than user, password, host and port")
            return cls._from_parts(urlsplit(address))
        except ValueError:
            # Without the cause: its text may contain a part of the password.
            raise PermanentError(
                "smtp_settings",
                "VIGIL_SMTP_URL cannot be read: write smtp://user:password@host:587 or smtps://…, and percent-encode the "
                "password, as `@` to %40, `/` to %2F, `#` to %23, `?` to %3F and `%` to %25",
            ) from None

    @classmethod
    def _from_parts(cls, parts: SplitResult) -> Self:
        if not parts.hostname:
            raise ValueError("there is no host")
        tls_first = parts.scheme == "smtps"
        return cls(
            host=parts.hostname,
            port=parts.port or (SMTPS_PORT if tls_first else SMTP_PORT),
            user=unquote(parts.username) if parts.username else None,
            password=unquote(parts.password or "") if parts.username else None,
            tls_first=tls_first,
        )

    @property
    def location(self) -> str:
        """Host and port."""
        return f"{f'[{self.host}]' if ':' in self.host else self.host}:{self.port}"

    @property
    def start_tls(self) -> bool | None:
        """Whether a plain connection must be upgraded to TLS; None: if the server offers it.

        A password is never sent to another machine without TLS: a man in the middle could remove the offer.
        """
        if self.tls_first:
            return False
        return True if self.user is not None and not self._is_local else None

    @property
    def _is_local(self) -> bool:
        try:
            return ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return self.host == "localhost"
