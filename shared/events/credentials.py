"""NATS credentials of a process."""

from dataclasses import dataclass, field
from ssl import SSLContext
from typing import Any

from shared.events.permissions import inbox_prefix


@dataclass(frozen=True)
class Credentials:
    """`user` also names the inbox for replies. Without a password, none is sent; without `tls`, TLS is not used.

    `tls_first`: TLS from the first byte, instead of after the server's greeting, which is plain text.
    """

    user: str
    password: str | None = field(default=None, repr=False)
    tls: SSLContext | None = None
    tls_first: bool = False

    @property
    def inbox_prefix(self) -> str:
        return inbox_prefix(self.user)

    def options(self) -> dict[str, Any]:
        """Arguments for `nats.connect`."""
        options: dict[str, Any] = {"inbox_prefix": self.inbox_prefix}
        if self.password is not None:
            options |= {"user": self.user, "password": self.password}
        if self.tls is not None:
            options |= {"tls": self.tls, "tls_handshake_first": self.tls_first}
        return options
