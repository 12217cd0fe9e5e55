"""The mail server that the settings name."""

import ipaddress
from dataclasses import dataclass
from typing import Final, Self
from urllib.parse import SplitResult, unquote, urlsplit

from shared.errors import PermanentError

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
