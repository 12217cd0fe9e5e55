"""Authentication: every path but a few needs a credential, which is checked before anything else.

It stands before the routes, so that a route cannot forget to ask, and a body is not read for a stranger.
"""

import asyncio
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Collection
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from hashlib import sha256
from http import HTTPStatus
from time import monotonic
from typing import Final, Generic, TypeVar
from urllib.parse import unquote
from uuid import UUID

from fastapi import Security, params
from fastapi.security import APIKeyCookie, HTTPBearer
from sqlalchemy.ext.asyncio import AsyncSession
from starlette.datastructures import Headers
from starlette.requests import HTTPConnection
from starlette.types import ASGIApp, Receive, Scope, Send

from services.api.auth.owner import Owner
from services.api.http.problem_details import (
    ForbiddenError,
    ProblemError,
    TooManyError,
    UnknownCallerError,
    answer_to,
)
from shared.accounts import authentication
from shared.accounts.authentication import Caller
from shared.accounts.secrets import digest_of, is_secret, is_token
from shared.database.engine import Database
from shared.enums import AccessScope, CredentialKind
from shared.errors import TransientError
from shared.runtime.connection_limits import counted_as
from shared.runtime.logging import logger
from shared.runtime.settings import Settings

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


OWN: Final = "same-origin"
BY_HAND: Final = "none"
"""No page asked: the person did, by the address bar or a bookmark."""


def demand_own_page(headers: Headers) -> None:
    """Raises ForbiddenError unless the browser says that a page of this host asks."""
    site, origin = headers.get("sec-fetch-site"), headers.get("origin")
    if site == OWN or (site is None and origin is not None and is_own(origin, headers)):
        return
    told = "another page" if site or origin else "no page that names itself"
    raise ForbiddenError(
        "foreign-page",
        f"With a session this is taken from Vigil's own pages only, and {told} asks for it. Programs use a token.",
    )


def refuse_other_pages(headers: Headers) -> None:
    """For what needs no session yet: who is no browser may ask too, but no other page. Raises ForbiddenError."""
    if headers.get("sec-fetch-site") not in (None, OWN, BY_HAND):
        raise ForbiddenError("foreign-page", "Pages of others may not sign anybody in here.")


def is_own(origin: str, headers: Headers) -> bool:
    """Whether that Origin is the host that was asked."""
    return origin.partition("://")[2] == headers.get("host", "")


WINDOW_SECONDS: Final = 60.0
MOST_ADDRESSES: Final = 10_000
MOST_KNOWN: Final = 10_000
LOOKUP_SECONDS: Final = 0.01
"""Between two queries for credentials: at most 100 a second, of each kind, however many are shown."""

T = TypeVar("T")
Find = Callable[[AsyncSession, Collection[T]], Awaitable[set[T]]]
"""Of some keys, such as digests of credentials, those that are valid."""


class Attempts:
    """How many there were of each key, such as an address, in its present minute, or another time."""

    def __init__(
        self,
        limit: int,
        clock: Callable[[], float] = monotonic,
        *,
        window_seconds: float = WINDOW_SECONDS,
    ) -> None:
        self._limit = limit
        self._window_seconds = window_seconds
        self._clock = clock
        self._seen: OrderedDict[str, tuple[float, int]] = OrderedDict()

    def wait_seconds(self, address: str) -> float:
        """How long until the minute of a key that has reached the limit is over; 0 where it has not."""
        began, count = self._window(address)
        return 0.0 if count < self._limit else began + self._window_seconds - self._clock()

    def add(self, address: str) -> bool:
        """Whether this one is the first beyond the limit in its minute."""
        began, count = self._window(address)
        self._seen[address] = (began, count + 1)
        while len(self._seen) > MOST_ADDRESSES:
            self._seen.popitem(last=False)
        return count == self._limit

    def _window(self, address: str) -> tuple[float, int]:
        now = self._clock()
        began, count = self._seen.get(address, (now, 0))
        if now - began < self._window_seconds:
            return began, count
        del self._seen[address]
        return now, 0


class Known:
    """Digests of the credentials that were valid most recently."""

    def __init__(self) -> None:
        self._digests: OrderedDict[bytes, None] = OrderedDict()

    def __contains__(self, digest: bytes) -> bool:
        return digest in self._digests

    def add(self, digest: bytes) -> None:
        self._digests[digest] = None
        self._digests.move_to_end(digest)
        if len(self._digests) > MOST_KNOWN:
            self._digests.popitem(last=False)

    def discard(self, digest: bytes) -> None:
        self._digests.pop(digest, None)


@dataclass(eq=False)
class _Batch(Generic[T]):
    keys: set[T] = field(default_factory=set)
    task: "asyncio.Task[set[T]] | None" = None


class ValidityCheck(Generic[T]):
    """Whether credentials are valid: one query at a time, for all that have come while the one before was running."""

    def __init__(self, database: Database, find: Find[T]) -> None:
        self._database = database
        self._find = find
        self._running = asyncio.Lock()
        self._next: _Batch[T] | None = None
        self._free_at = 0.0

    async def is_valid(self, key: T) -> bool:
        """Raises TransientError where Postgres is away."""
        if self._next is None:
            self._next = _Batch()
            self._next.task = asyncio.create_task(self._look_up(self._next))
        batch = self._next
        batch.keys.add(key)
        assert batch.task is not None
        return key in await asyncio.shield(batch.task)

    async def _look_up(self, batch: _Batch[T]) -> set[T]:
        async with self._running:
            await asyncio.sleep(self._free_at - monotonic())
            self._next = None
            try:
                async with self._database.transaction() as session:
                    return await self._find(session, batch.keys)
            finally:
                self._free_at = monotonic() + LOOKUP_SECONDS


MOST_BAD_ATTEMPTS: Final = 60
"""Of one address, in a minute, before the answer is to wait."""
MOST_OF_CREDENTIAL: Final = 300
"""The same of one bad credential, from wherever it is shown."""
CALLER: Final = "vigil.caller"
"""Under which a request's ASGI scope holds the Caller."""
OPENED: Final = "vigil.opened"
"""And an Opened, where there is one."""
SAFE: Final = frozenset({"GET", "HEAD", "OPTIONS"})
POLICY_VIOLATION: Final = 1008

log = logger(__name__)


@dataclass(frozen=True)
class Opened:
    """A transaction that a route may take over, by `pop_all`; else it ends with the request."""

    session: AsyncSession
    ends: AsyncExitStack


class Door:
    def __init__(
        self,
        app: ASGIApp,
        *,
        owner: Owner,
        database: Database,
        settings: Settings,
        places: Known,
        is_open: Callable[[str], bool],
    ) -> None:
        self._app = app
        self._owner = owner
        self._database = database
        self._settings = settings
        self._places = places
        self._is_open = is_open
        self._bad = Attempts(MOST_BAD_ATTEMPTS)
        self._bad_of_credential = Attempts(MOST_OF_CREDENTIAL)
        self._known = Known()
        self._checks = {kind: ValidityCheck(database, _finder(kind)) for kind in CredentialKind}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "websocket":
            await send({"type": "websocket.close", "code": POLICY_VIOLATION})
            return
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        async with AsyncExitStack() as opened:
            answer = self._app
            try:
                _demand_storable(scope)
                if not self._is_open(scope["path"]):
                    await self._let_in(scope, opened)
            except (ProblemError, TransientError) as error:
                await opened.aclose()
                answer = answer_to(error)
            await answer(scope, receive, send)

    async def _let_in(self, scope: Scope, opened: AsyncExitStack) -> None:
        """Puts the Caller into `scope`, and for safe methods the transaction in which that was found out, for the route
        to go on in: to begin another would take as long again. Others read a body first, for as long as whoever sends it
        likes, and keep nothing open; nor does one in which the use was noted, whose row others would wait for.
        """
        cookie = cookie_name(self._settings, await self._owner.id())
        connection = HTTPConnection(scope)
        credential = await self._checked(connection, cookie)
        async with AsyncExitStack() as looking:
            session = await looking.enter_async_context(self._database.transaction())
            caller = await self._caller(session, credential, connection, scope["method"])
            scope[CALLER] = caller
            if caller.is_unnoted:
                await authentication.note_use(session, caller)
            elif scope["method"] in SAFE:
                opened.push_async_exit(looking.pop_all())
                scope[OPENED] = Opened(session, opened)

    async def _checked(self, connection: HTTPConnection, cookie: str) -> Shown:
        """What was shown, where it is or was valid; only then it is given a transaction of its own."""
        credential = shown(connection, cookie)
        if credential is None:
            raise UnknownCallerError(
                "This asks for a credential: a token (`Authorization: Bearer vgl_…`) or a browser that is signed in.",
                is_shown=False,
            )
        known = credential.digest in self._known
        if not known and not await self._checks[credential.kind].is_valid(credential.digest):
            raise self._refusal(credential, address_of(connection))
        return credential

    async def _caller(
        self,
        session: AsyncSession,
        credential: Shown,
        connection: HTTPConnection,
        method: str,
    ) -> Caller:
        caller = await authentication.recognise(session, credential.kind, credential.digest)
        if caller is None:
            self._known.discard(credential.digest)
            raise self._refusal(credential, address_of(connection))
        self._known.add(credential.digest)
        self._places.add(place_of(caller.user_id, address_of(connection)))
        if caller.kind is CredentialKind.SESSION and method not in SAFE:
            demand_own_page(connection.headers)
        demand(caller, AccessScope.READ if method in SAFE else AccessScope.WRITE)
        return caller

    def _refusal(self, credential: Shown, address: str) -> ProblemError:
        """Counts the attempt."""
        wait_seconds = 0.0
        for counted, key in (
            (self._bad, address),
            (self._bad_of_credential, credential.digest.hex()),
        ):
            wait_seconds = max(wait_seconds, counted.wait_seconds(key))
            if counted.add(key) and counted is self._bad:
                log.warning("too many bad credentials from one address", address=address)
        if wait_seconds > 0:
            return TooManyError(
                "This credential is not known, and too many such attempts were made.", wait_seconds
            )
        return UnknownCallerError(
            "This credential is not known: it was revoked, has expired, or never was. "
            "Make another with `vigil token create`, or sign in again."
        )


def _finder(kind: CredentialKind) -> Find[bytes]:
    async def find(session: AsyncSession, digests: Collection[bytes]) -> set[bytes]:
        return await authentication.find_valid(session, kind, digests)

    return find


def address_of(connection: HTTPConnection) -> str:
    """What the attempts of a request are counted by."""
    return counted_as(connection.client.host if connection.client else "")


def place_of(user_id: UUID, address: str) -> bytes:
    """What is remembered of an address that a user has come in from."""
    return digest_of(f"{user_id} {address}")


def demand(caller: Caller, scope: AccessScope) -> None:
    """Raises ForbiddenError where the caller's credential does not allow that."""
    if scope not in caller.scopes:
        allowed = ", ".join(sorted(caller.scopes)) or "nothing"
        raise ForbiddenError(
            "insufficient-scope",
            f"This needs the scope {scope.value!r}, and the credential that was shown allows {allowed}.",
            headers={
                "WWW-Authenticate": f'Bearer realm="vigil", error="insufficient_scope", scope="{scope.value}"'
            },
        )


def _demand_storable(scope: Scope) -> None:
    """PostgreSQL holds no NUL: what asks for one cannot be there, and need not be looked for."""
    if "\x00" in scope["path"] or "\x00" in unquote(scope["query_string"].decode("latin-1")):
        raise ProblemError(
            HTTPStatus.BAD_REQUEST, "nul", "The address holds the character NUL: leave it out."
        )
