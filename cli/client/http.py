"""HTTP requests to the API: pages, event streams, downloads, and errors with readable messages."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import cached_property
from http import HTTPStatus
from types import TracebackType
from typing import Any, Final, Self, TypeVar
from urllib.parse import quote

import httpx
from httpx_sse import EventSource, ServerSentEvent, SSEError
from pydantic import TypeAdapter, ValidationError

from cli.client.reasons import reason
from cli.client.target import Api
from cli.errors import AwayError, BadInputError, CommandError
from shared.schemas.base import LARGEST_PAGE, Page, ResponseModel
from shared.tls import tls_context

TIMEOUT_SECONDS: Final = 30.0
"""Longer than the interval between two keep-alive signals of a running answer."""

_URL_ADVICE: Final = "write http://HOST:PORT or https://HOST"

T = TypeVar("T")
S = TypeVar("S", bound=ResponseModel)


class ApiError(CommandError):
    """The API refused the request; the message is its own."""


class NotFoundError(ApiError):
    """There is nothing at this path: no agent of that name, for example."""


class Connection:
    """Requests to one API. All raise ApiError if it refuses, and AwayError if it does not answer at the moment.

    `api` may be a function that looks it up; it is called at the first request.
    """

    def __init__(
        self, api: Api | Callable[[], Api], *, timeout_seconds: float = TIMEOUT_SECONDS
    ) -> None:
        self._target = api
        self._timeout_seconds = timeout_seconds

    @cached_property
    def _api(self) -> Api:
        return self._target if isinstance(self._target, Api) else self._target()

    @property
    def url(self) -> str:
        return self._api.url

    @cached_property
    def _http(self) -> httpx.Client:
        token = self._api.token
        try:
            return httpx.Client(
                base_url=f"{self.url}/api/v1",
                headers={} if token is None else {"Authorization": f"Bearer {token}"},
                timeout=self._timeout_seconds,
                # Without TLS there are no certificates to load, which takes 25 ms.
                verify=tls_context() if self.url.startswith("https:") else False,
                trust_env=False,
            )
        except httpx.InvalidURL as error:
            raise BadInputError(
                f"{self.url[:80]!r} is not the URL of an API: {_URL_ADVICE}"
            ) from error

    def close(self) -> None:
        if "_http" in self.__dict__:
            self._http.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def get(self, shape: type[T], path: str, **parameters: object) -> T:
        """Parameters that are None are left out, here and in `pages`, `stream` and `download`."""
        return self._parse(shape, self._send("GET", path, params=_present(parameters)))

    def pages(
        self, shape: type[S], path: str, limit: int | None = None, **filters: object
    ) -> Iterator[S]:
        """Yields up to `limit` items, or all; a page is requested when the one before is exhausted."""
        remaining, cursor = limit, None
        while remaining is None or remaining > 0:
            size = LARGEST_PAGE if remaining is None else min(remaining, LARGEST_PAGE)
            page = self.get(Page[shape], path, **filters, limit=size, cursor=cursor)  # type: ignore[valid-type]  # at run time only
            yield from page.items
            remaining = None if remaining is None else remaining - len(page.items)
            if (cursor := page.next) is None:
                return

    def post(self, shape: type[T], path: str, body: object = None) -> T:
        return self._parse(shape, self._send("POST", path, json=body))

    def put(self, shape: type[T], path: str, body: object, *, etag: str | None = None) -> T:
        """Refused if what is at `path` no longer has this `etag`."""
        return self._parse(shape, self._send("PUT", path, json=body, headers=_if_match(etag)))

    def patch(self, shape: type[T], path: str, body: object) -> T:
        return self._parse(shape, self._send("PATCH", path, json=body))

    def change(self, shape: type[T], path: str, changes_of: Callable[[T], dict[str, Any]]) -> T:
        """Sends the changes that `changes_of` returns for what is at `path`. Refused if it was changed meanwhile."""
        response = self._send("GET", path)
        changes = changes_of(self._parse(shape, response))
        if (etag := response.headers.get("etag")) is None:
            raise self.not_understood()
        headers = _if_match(etag)
        return self._parse(shape, self._send("PATCH", path, json=changes, headers=headers))

    def delete(self, path: str) -> None:
        self._send("DELETE", path)

    def _parse(self, shape: type[T], response: httpx.Response) -> T:
        try:
            return TypeAdapter(shape).validate_json(response.content)
        except ValidationError as error:
            raise self.not_understood() from error

    def not_understood(self) -> CommandError:
        """The error of an answer that is not as Vigil's API gives it."""
        from shared.version import vigil_version

        return CommandError(
            f"{self.url} did not respond like the API of Vigil {vigil_version()}: check the URL and the "
            "version that runs there"
        )

    def _send(self, method: str, path: str, **request: Any) -> httpx.Response:
        with self._translated_errors():
            response = self._http.request(method, path, **request)
        raise_for_status(self.url, response)
        return response

    def stream(
        self, path: str, *, last_event_id: str | None = None, **parameters: object
    ) -> Iterator[ServerSentEvent]:
        """Yields the server-sent events after `last_event_id` until the connection ends."""
        headers = {"Last-Event-ID": last_event_id} if last_event_id else {}
        with self._open(path, params=_present(parameters), headers=headers) as response:
            yield from EventSource(response).iter_sse()

    def download(self, path: str, **parameters: object) -> Iterator[bytes]:
        """Yields the body in chunks. Raises AwayError if it is cut off."""
        with self._open(path, params=_present(parameters)) as response:
            yield from response.iter_bytes()

    @contextmanager
    def _open(self, path: str, **request: Any) -> Iterator[httpx.Response]:
        with self._translated_errors(), self._http.stream("GET", path, **request) as response:
            if response.is_error:
                response.read()
                raise_for_status(self.url, response)
            yield response

    @contextmanager
    def _translated_errors(self) -> Iterator[None]:
        """Turns errors of httpx into errors of the command line."""
        try:
            yield
        except httpx.InvalidURL as error:
            raise CommandError(f"{self.url[:80]!r} is not a URL: {_URL_ADVICE}") from error
        except httpx.UnsupportedProtocol as error:
            raise CommandError(
                f"{self.url[:80]!r} is not the URL of an API: {_URL_ADVICE}"
            ) from error
        except (SSEError, UnicodeDecodeError, httpx.DecodingError, httpx.TooManyRedirects) as error:
            raise self.not_understood() from error
        except httpx.TransportError as error:
            raise AwayError(
                f"Vigil does not answer at {self.url}: {reason(error)}; check the URL and that Vigil is running"
            ) from error


def raise_for_status(url: str, response: httpx.Response) -> None:
    if response.status_code == HTTPStatus.SERVICE_UNAVAILABLE:
        raise AwayError(_detail(response))
    if response.status_code == HTTPStatus.UNAUTHORIZED:
        raise ApiError(
            f"{url} refuses access. {_detail(response).rstrip('.')}. Run `vigil login --url {url}` or set VIGIL_TOKEN."
        )
    if response.status_code == HTTPStatus.NOT_FOUND:
        raise NotFoundError(_detail(response))
    if response.is_error:
        raise ApiError(_detail(response))


def url_path(*parts: object) -> str:
    """`/agents/Lithium%20Watch/nodes`."""
    return "".join(f"/{quote(str(part), safe='')}" for part in parts)


def _present(parameters: Mapping[str, object]) -> dict[str, str]:
    return {name: str(value) for name, value in parameters.items() if value is not None}


def _if_match(etag: str | None) -> dict[str, str]:
    return {} if etag is None else {"If-Match": etag}


def _detail(response: httpx.Response) -> str:
    try:
        problem = response.json()
    except ValueError:
        problem = None
    if isinstance(problem, dict) and isinstance(problem.get("detail"), str):
        return str(problem["detail"])
    return f"{response.request.url} answers {response.status_code} {response.reason_phrase}"
