"""How NATS says that it does not accept a user."""

from nats.errors import AuthorizationError

_REFUSAL_TEXT = "authorization violation"


def is_rejection(error: BaseException) -> bool:
    """Whether `error` says that NATS rejects this user; the client reports that in several ways."""
    return _REFUSAL_TEXT in str(error).lower() or isinstance(error, AuthorizationError)
