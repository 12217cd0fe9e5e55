"""Authentication middleware: every path except a few public ones needs a valid credential.

It runs before routing, so no route can forget the check, and no body of an unauthenticated client
is read.
"""

import asyncio
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Collection, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from hashlib import sha256
from http import HTTPStatus
from time import monotonic
from typing import Final, Generic, TypeVar
from urllib.parse import unquote, urlsplit
from uuid import UUID

from fastapi import Security, params
from fastapi.security import APIKeyCookie, HTTPBearer
from starlette.datastructures import Headers
from starlette.requests import HTTPConnection
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from services.api.auth.owner import BootstrapOwner
from services.api.http.problem_details import (
    ForbiddenError,
    ProblemError,
    TooManyError,
    UnknownCallerError,
    response_to,
)
from services.api.paths import is_public
from shared.accounts import authentication
from shared.accounts.authentication import Caller
from shared.accounts.credentials import MAX_SESSION_LIFETIME
from shared.accounts.secrets import hash_secret, is_secret, is_token
from shared.database.engine import Database
from shared.database.transaction import Transaction
from shared.enums import AccessScope, CredentialKind
from shared.errors import TransientError
from shared.runtime.connection_limits import address_group
from shared.runtime.logging import logger
from shared.runtime.settings import Settings

BEARER: Final = "bearer"
SESSION_SCHEME: Final = "session"
"""The name of the security scheme in the OpenAPI document."""
COOKIE: Final = "vigil_session"
HOST_COOKIE: Final = f"__Host-{COOKIE}"
"""Browsers accept a cookie with this prefix over TLS only and from this host only, so no
neighbouring host can set it.
"""
_INSTALLATION_CHARACTERS: Final = 12


@dataclass(frozen=True)
class PresentedCredential:
    """The credential that a request presents, as a digest. The secret itself is not passed on."""

    kind: CredentialKind
    digest: bytes


def cookie_name(settings: Settings, owner_id: UUID | None) -> str:
    """Returns the name of this installation's session cookie.

    All ports of a host share cookies. So the name is derived from the owner's id, which is random and unique to the
    installation, and from the URL of the API, in which copies of an installation differ. Without an id (no database yet)
    it returns a placeholder for the OpenAPI document.
    """
    if owner_id is None:
        return f"{_cookie_prefix(settings)}_<installation>"
    return _hashed_name(settings, f"cookie of {owner_id} at {settings.base_url}")


def former_cookie_name(settings: Settings, owner_id: UUID) -> str:
    """Returns the name that earlier versions gave the session cookie, the same at every URL. It still signs in."""
    return _hashed_name(settings, f"cookie of {owner_id}")


def _hashed_name(settings: Settings, text: str) -> str:
    installation = sha256(text.encode()).hexdigest()[:_INSTALLATION_CHARACTERS]
    return f"{_cookie_prefix(settings)}_{installation}"


def _cookie_prefix(settings: Settings) -> str:
    return HOST_COOKIE if settings.is_public_over_tls else COOKIE


def set_session_cookie(
    response: Response, settings: Settings, owner_id: UUID, secret: str, max_age: timedelta
) -> None:
    """Adds the session cookie of this installation to a response."""
    response.set_cookie(
        cookie_name(settings, owner_id),
        secret,
        max_age=int(max_age.total_seconds()),
        httponly=True,
        samesite="lax",
        secure=settings.is_public_over_tls,
    )


def presented_credential(
    connection: HTTPConnection, cookies: Sequence[str]
) -> PresentedCredential | None:
    """Returns the credential that the request presents, or None. A token has precedence over session cookies, and the
    first of these over the others.

    Raises UnknownCallerError where the value cannot be a credential, without a database query.
    """
    headers = connection.headers.getlist("authorization")
    if headers:
        return PresentedCredential(CredentialKind.TOKEN, hash_secret(_parse_bearer_token(headers)))
    session = next(
        (connection.cookies[name] for name in cookies if name in connection.cookies), None
    )
    if session is None:
        return None
    if not is_secret(session):
        raise UnknownCallerError("This session has ended: sign in again.")
    return PresentedCredential(CredentialKind.SESSION, hash_secret(session))


def _parse_bearer_token(headers: list[str]) -> str:
    if len(headers) > 1:
        raise UnknownCallerError("The request has several Authorization headers: send one.")
    scheme, _, token = headers[0].partition(" ")
    token = token.strip()
    if scheme.lower() != BEARER or not is_token(token):
        raise UnknownCallerError(
            "The Authorization header contains no Vigil token. Send `Bearer vgl_…`; "
            "`vigil token create` creates a token."
        )
    return token


def security_dependencies(session_cookie: str) -> list[params.Depends]:
    """Returns dependencies that declare the security schemes in the OpenAPI document.

    They check nothing: the middleware does.
    """
    bearer = HTTPBearer(scheme_name="token", bearerFormat="vgl_…", auto_error=False)
    session = APIKeyCookie(name=session_cookie, scheme_name=SESSION_SCHEME, auto_error=False)
    return [Security(bearer), Security(session)]


SAME_ORIGIN: Final = "same-origin"
USER_INITIATED: Final = "none"
"""`Sec-Fetch-Site` of requests from the address bar or a bookmark."""


def require_same_origin(headers: Headers, public_url: str) -> None:
    """Raises ForbiddenError unless the browser says that the request comes from a page of this host, or of `public_url`."""
    site, origin = headers.get("sec-fetch-site"), headers.get("origin")
    if site == SAME_ORIGIN or (
        site is None and origin is not None and is_same_origin(origin, headers, public_url)
    ):
        return
    origin_words = "another page" if site or origin else "an unknown page"
    raise ForbiddenError(
        "foreign-page",
        f"With a session, only Vigil's own pages can make changes, but {origin_words} sent this. Programs use a token.",
    )


def refuse_cross_site(headers: Headers) -> None:
    """Raises ForbiddenError for requests from pages of other sites.

    For endpoints that need no session: clients that are no browsers may call them.
    """
    if headers.get("sec-fetch-site") not in (None, SAME_ORIGIN, USER_INITIATED):
        raise ForbiddenError("foreign-page", "Pages from other sites cannot sign in users here.")


def is_same_origin(origin: str, headers: Headers, public_url: str) -> bool:
    """Returns whether `origin` is the host that the request was sent to, or `public_url`: a proxy may replace the host."""
    return origin.partition("://")[2] == headers.get("host", "") or origin == origin_of(public_url)


def origin_of(url: str) -> str:
    """Returns the origin of an HTTP URL as browsers write it: in lower case, without the default port."""
    parts = urlsplit(url.lower())
    is_default = parts.port == {"http": 80, "https": 443}.get(parts.scheme)
    netloc = parts.netloc.rpartition(":")[0] if is_default else parts.netloc
    return f"{parts.scheme}://{netloc}"


WINDOW_SECONDS: Final = 60.0
MAX_ADDRESSES: Final = 10_000
MAX_RECENT_CREDENTIALS: Final = 10_000
LOOKUP_SECONDS: Final = 0.01
"""The pause between two queries for credentials: at most 100 queries a second for each kind of credential."""

T = TypeVar("T")
FindValid = Callable[[Transaction, Collection[T]], Awaitable[set[T]]]
"""Returns the valid ones among the given keys, such as digests of credentials."""


class AttemptLimiter:
    """Counts attempts for each key, such as an address, in fixed windows of a minute or another duration."""

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
        """Returns the seconds until the window of `address` ends where it has reached the limit, else 0."""
        began, count = self._window(address)
        return 0.0 if count < self._limit else began + self._window_seconds - self._clock()

    def add(self, address: str) -> bool:
        """Counts an attempt. Returns whether it is the first one beyond the limit in its window."""
        began, count = self._window(address)
        self._seen[address] = (began, count + 1)
        while len(self._seen) > MAX_ADDRESSES:
            self._seen.popitem(last=False)
        return count == self._limit

    def _window(self, address: str) -> tuple[float, int]:
        now = self._clock()
        began, count = self._seen.get(address, (now, 0))
        if now - began < self._window_seconds:
            return began, count
        del self._seen[address]
        return now, 0


class RecentlyValidCredentials:
    """Digests of the credentials that were valid most recently (LRU)."""

    def __init__(self) -> None:
        self._digests: OrderedDict[bytes, None] = OrderedDict()

    def __contains__(self, digest: bytes) -> bool:
        return digest in self._digests

    def add(self, digest: bytes) -> None:
        self._digests[digest] = None
        self._digests.move_to_end(digest)
        if len(self._digests) > MAX_RECENT_CREDENTIALS:
            self._digests.popitem(last=False)

    def discard(self, digest: bytes) -> None:
        self._digests.pop(digest, None)


@dataclass(eq=False)
class _Batch(Generic[T]):
    keys: set[T] = field(default_factory=set)
    task: "asyncio.Task[set[T]] | None" = None


class ValidityCheck(Generic[T]):
    """Checks credentials in batches: one query at a time, for all requests that arrived while the previous one ran."""

    def __init__(self, database: Database, find: FindValid[T]) -> None:
        self._database = database
        self._find = find
        self._running = asyncio.Lock()
        self._next: _Batch[T] | None = None
        self._free_at = 0.0

    async def is_valid(self, key: T) -> bool:
        """Raises TransientError while PostgreSQL is unavailable."""
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


MAX_BAD_ATTEMPTS: Final = 60
"""Of one address in a minute, before it has to wait."""
MAX_ATTEMPTS_PER_CREDENTIAL: Final = 300
"""Of one bad credential in a minute, from any address."""
CALLER: Final = "vigil.caller"
"""The key of the Caller in the ASGI scope of a request."""
SAFE_METHODS: Final = frozenset({"GET", "HEAD", "OPTIONS"})
POLICY_VIOLATION: Final = 1008

log = logger(__name__)


class AuthenticationMiddleware:
    def __init__(
        self,
        app: ASGIApp,
        *,
        owner: BootstrapOwner,
        database: Database,
        settings: Settings,
        places: RecentlyValidCredentials,
    ) -> None:
        self._app = app
        self._owner = owner
        self._database = database
        self._settings = settings
        self._places = places
        self._names: tuple[str, str] | None = None
        self._bad = AttemptLimiter(MAX_BAD_ATTEMPTS)
        self._bad_of_credential = AttemptLimiter(MAX_ATTEMPTS_PER_CREDENTIAL)
        self._known = RecentlyValidCredentials()
        self._checks = {
            kind: ValidityCheck(database, _valid_credentials_query(kind)) for kind in CredentialKind
        }

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "websocket":
            await send({"type": "websocket.close", "code": POLICY_VIOLATION})
            return
        app = self._app
        if scope["type"] == "http":
            try:
                _refuse_nul(scope)
                if not is_public(scope["path"]):
                    send = await self._let_in(scope, send)
            except (ProblemError, TransientError) as error:
                app = response_to(error)
        await app(scope, receive, send)

    async def _let_in(self, scope: Scope, send: Send) -> Send:
        """Authenticates the request, puts the Caller into `scope`, and returns the `send` to answer with."""
        own, former = await self._cookie_names()
        connection = HTTPConnection(scope)
        credential = presented_credential(connection, (own, former))
        if credential is None:
            raise UnknownCallerError(
                "A credential is missing: send a token (`Authorization: Bearer vgl_…`), or sign in with a browser.",
                is_shown=False,
            )
        is_safe = scope["method"] in SAFE_METHODS
        caller = scope[CALLER] = await self._find_caller(credential, address_of(connection))
        if caller.kind is CredentialKind.SESSION and not is_safe:
            require_same_origin(connection.headers, self._settings.base_url)
        require_scope(caller, AccessScope.READ if is_safe else AccessScope.WRITE)
        is_session = caller.kind is CredentialKind.SESSION and own not in connection.cookies
        # Only in answers to safe methods: signing out must leave no cookie behind.
        if is_session and former in connection.cookies and is_safe:
            return await self._renaming_cookie(former, connection.cookies[former], send)
        return send

    async def _find_caller(self, credential: PresentedCredential, address: str) -> Caller:
        """Returns the caller with this credential. Only one that is or was valid gets a query of its own.

        Raises UnknownCallerError and TooManyError.
        """
        kind, digest = credential.kind, credential.digest
        caller = None
        if digest in self._known or await self._checks[kind].is_valid(digest):
            async with self._database.connection() as session:
                caller = await authentication.authenticate(session, kind, digest)
                if caller is not None and caller.is_use_update_due:
                    await authentication.record_use(session, caller)
        if caller is None:
            self._known.discard(digest)
            raise self._refusal(credential, address)
        self._known.add(digest)
        self._places.add(address_digest(caller.user_id, address))
        return caller

    async def _cookie_names(self) -> tuple[str, str]:
        """Returns the name of the session cookie, and its former name."""
        if self._names is None:
            owner_id = await self._owner.id()
            self._names = (
                cookie_name(self._settings, owner_id),
                former_cookie_name(self._settings, owner_id),
            )
        return self._names

    async def _renaming_cookie(self, former: str, secret: str, send: Send) -> Send:
        """Returns a `send` that replaces a session cookie of the former name."""
        cookies = Response()
        owner_id = await self._owner.id()
        set_session_cookie(cookies, self._settings, owner_id, secret, MAX_SESSION_LIFETIME)
        cookies.delete_cookie(
            former, httponly=True, samesite="lax", secure=self._settings.is_public_over_tls
        )
        added = [(name, value) for name, value in cookies.raw_headers if name == b"set-cookie"]

        async def send_with_cookies(message: Message) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [*message.get("headers", ()), *added]
            await send(message)

        return send_with_cookies

    def _refusal(self, credential: PresentedCredential, address: str) -> ProblemError:
        """Counts the failed attempt and returns the error to answer with."""
        wait_seconds = 0.0
        for limiter, key in (
            (self._bad, address),
            (self._bad_of_credential, credential.digest.hex()),
        ):
            wait_seconds = max(wait_seconds, limiter.wait_seconds(key))
            if limiter.add(key) and limiter is self._bad:
                log.warning("too many invalid credentials from one address", address=address)
        if wait_seconds > 0:
            return TooManyError(
                "This credential is unknown, and there were too many attempts with unknown credentials.",
                wait_seconds,
            )
        return UnknownCallerError(
            "This credential is unknown: it was revoked, has expired, or never existed. "
            "Create a token with `vigil token create`, or sign in again."
        )


def _valid_credentials_query(kind: CredentialKind) -> FindValid[bytes]:
    async def find(session: Transaction, digests: Collection[bytes]) -> set[bytes]:
        return await authentication.find_valid_digests(session, kind, digests)

    return find


def address_of(connection: HTTPConnection) -> str:
    """Returns the client address that attempts are counted by."""
    return address_group(connection.client.host if connection.client else "")


def address_digest(user_id: UUID, address: str) -> bytes:
    """Returns the digest that is remembered for an address from which a user has signed in."""
    return hash_secret(f"{user_id} {address}")


def require_scope(caller: Caller, scope: AccessScope) -> None:
    """Raises ForbiddenError where the caller's credential does not have `scope`."""
    if scope not in caller.scopes:
        scopes = ", ".join(sorted(caller.scopes)) or "no scope"
        raise ForbiddenError(
            "insufficient-scope",
            f"This requires the scope {scope.value!r}; the credential has {scopes}.",
            headers={
                "WWW-Authenticate": f'Bearer realm="vigil", error="insufficient_scope", scope="{scope.value}"'
            },
        )


def _refuse_nul(scope: Scope) -> None:
    """Rejects paths and queries with NUL characters, which PostgreSQL cannot store."""
    if "\x00" in scope["path"] or "\x00" in unquote(scope["query_string"].decode("latin-1")):
        raise ProblemError(
            HTTPStatus.BAD_REQUEST, "nul", "The address contains the character NUL: leave it out."
        )
