"""What a request shows to be let in."""

from dataclasses import dataclass
from hashlib import sha256
from typing import Final
from uuid import UUID

from fastapi import Security, params
from fastapi.security import APIKeyCookie, HTTPBearer
from starlette.requests import HTTPConnection

from services.api.problems import UnknownCallerError
from shared.runtime.settings import Settings
from shared.store.secrets import digest_of, is_secret, is_token
from shared.store.words import CredentialKind

BEARER: Final = "bearer"
SESSION_SCHEME: Final = "session"
"""In the OpenAPI document."""
COOKIE: Final = "vigil_session"
HOST_COOKIE: Final = f"__Host-{COOKIE}"
"""Browsers take a cookie of such a name over TLS alone, and from this host alone: no neighbour can set it."""
_INSTALLATION_CHARACTERS: Final = 12


@dataclass(frozen=True)
class Shown:
    """The secret itself goes no further than this."""

    kind: CredentialKind
    digest: bytes


def cookie_name(settings: Settings, owner_id: UUID | None) -> str:
    """Of this installation's sessions. Cookies are shared by all ports of a host, so the name tells installations apart.

    The id of the owner is random, and made with the installation; None, before the database is there, gives a placeholder
    for the OpenAPI document.
    """
    prefix = HOST_COOKIE if settings.is_public_over_tls else COOKIE
    if owner_id is None:
        return f"{prefix}_<installation>"
    installation = sha256(f"cookie of {owner_id}".encode()).hexdigest()
    return f"{prefix}_{installation[:_INSTALLATION_CHARACTERS]}"


def shown(connection: HTTPConnection, cookie: str) -> Shown | None:
    """None where nothing is shown. A token comes before a session: it was put there on purpose.

    Raises UnknownCallerError where what is shown cannot be a credential, which costs no look at the database.
    """
    given = connection.headers.getlist("authorization")
    if given:
        return Shown(CredentialKind.TOKEN, digest_of(_token(given)))
    session = connection.cookies.get(cookie)
    if session is None:
        return None
    if not is_secret(session):
        raise UnknownCallerError("This session has ended: sign in again.")
    return Shown(CredentialKind.SESSION, digest_of(session))


def _token(given: list[str]) -> str:
    if len(given) > 1:
        raise UnknownCallerError("There are several Authorization headers: send one.")
    scheme, _, token = given[0].partition(" ")
    token = token.strip()
    if scheme.lower() != BEARER or not is_token(token):
        raise UnknownCallerError(
            "The Authorization header holds no token of Vigil: it reads `Bearer vgl_…`, "
            "and `vigil token create` makes one."
        )
    return token


def told_in_document(settings: Settings) -> list[params.Depends]:
    """Dependencies that tell in the OpenAPI document what has to be shown; who is let in is decided at the door."""
    bearer = HTTPBearer(scheme_name="token", bearerFormat="vgl_…", auto_error=False)
    name = cookie_name(settings, None)
    session = APIKeyCookie(name=name, scheme_name=SESSION_SCHEME, auto_error=False)
    return [Security(bearer), Security(session)]
