"""How a process shows NATS who it is."""

from dataclasses import dataclass, field
from ssl import SSLContext
from typing import Any

from nats.errors import AuthorizationError

from shared.events.permissions import inbox_prefix

_REFUSED = "authorization violation"


def is_refusal(error: BaseException) -> bool:
    """Whether NATS said by `error` that it does not let this user in; its client tells that in several ways."""
    return _REFUSED in str(error).lower() or isinstance(error, AuthorizationError)


@dataclass(frozen=True)
class Credentials:
    """`user` also names the inbox that answers arrive in. Without a password none is shown; without `tls` none is asked.

    `tls_first`: TLS from the first byte, rather than when the server's greeting, which is plain text, asks for it.
    """

    user: str
    password: str | None = field(default=None, repr=False)
    tls: SSLContext | None = None
    tls_first: bool = False

    @property
    def inbox_prefix(self) -> str:
        return inbox_prefix(self.user)

    def options(self) -> dict[str, Any]:
        """For `nats.connect`."""
        options: dict[str, Any] = {"inbox_prefix": self.inbox_prefix}
        if self.password is not None:
            options |= {"user": self.user, "password": self.password}
        if self.tls is not None:
            options |= {"tls": self.tls, "tls_handshake_first": self.tls_first}
        return options
