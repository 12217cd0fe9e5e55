"""The connection to an api: asked, answered, and what goes wrong told in words."""

from collections.abc import Iterator
from contextlib import contextmanager
from http import HTTPStatus
from types import TracebackType
from typing import Any, Final, Self, TypeVar
from urllib.parse import quote

import httpx
from httpx_sse import EventSource, ServerSentEvent
from pydantic import TypeAdapter

from cli.client.target import Api
from cli.errors import AwayError, BadInputError, CommandError
from shared.schemas.base import LARGEST_PAGE, Page, View

TIMEOUT_SECONDS: Final = 30.0
"""More than the pause between two signs of life of an answer that goes on."""

T = TypeVar("T")
S = TypeVar("S", bound=View)


class ApiError(CommandError):
    """The api said no; its own words."""


class Connection:
    """Every call raises ApiError where the api refuses, and AwayError where it cannot answer now."""

    def __init__(self, api: Api) -> None:
        self.url = api.url
        shown = {} if api.token is None else {"Authorization": f"Bearer {api.token}"}
        try:
            self._http = httpx.Client(
                base_url=f"{api.url}/api/v1",
                headers=shown,
                timeout=TIMEOUT_SECONDS,
                trust_env=False,
            )
        except httpx.InvalidURL as error:
            raise BadInputError(f"{api.url[:80]!r} is no URL of an api: {error}") from error

    def close(self) -> None:
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

    def _pages(
        self, shape: type[S], path: str, limit: int | None, **filters: object
    ) -> Iterator[S]:
        """Each page is asked for when the one before it has been read to its end."""
        given = {name: str(value) for name, value in filters.items() if value is not None}
        left, cursor = limit, None
        while left is None or left > 0:
            size = LARGEST_PAGE if left is None else min(left, LARGEST_PAGE)
            params = given | {"limit": str(size)} | ({"cursor": cursor} if cursor else {})
            page = self._ask(Page[shape], "GET", path, params=params)  # type: ignore[valid-type]  # at run time only
            yield from page.items
            left = None if left is None else left - len(page.items)
            if (cursor := page.next) is None:
                return

    def _ask(self, shape: type[T], method: str, path: str, **request: Any) -> T:
        return TypeAdapter(shape).validate_json(self._send(method, path, **request).content)

    def _send(self, method: str, path: str, **request: Any) -> httpx.Response:
        with self._answered():
            answer = self._http.request(method, path, **request)
        raise_for(self.url, answer)
        return answer

    def _stream(self, path: str, **request: Any) -> Iterator[ServerSentEvent]:
        """What the api sends, until the connection ends."""
        with self._answered(), self._http.stream("GET", path, **request) as answer:
            if answer.is_error:
                answer.read()
                raise_for(self.url, answer)
            yield from EventSource(answer).iter_sse()

    def _download(self, path: str, **request: Any) -> Iterator[bytes]:
        """The answer in pieces. Raises AwayError where it breaks off."""
        with self._answered(), self._http.stream("GET", path, **request) as answer:
            if answer.is_error:
                answer.read()
                raise_for(self.url, answer)
            yield from answer.iter_bytes()

    @contextmanager
    def _answered(self) -> Iterator[None]:
        """Makes errors of what is done within."""
        try:
            yield
        except httpx.InvalidURL as error:
            raise CommandError(f"{self.url!r} is no URL: {error}") from error
        except httpx.UnsupportedProtocol as error:
            raise CommandError(f"{self.url!r} is no URL of an api: {error}") from error
        except httpx.TransportError as error:
            raise AwayError(
                f"no Vigil answers at {self.url}: {str(error) or type(error).__name__}"
            ) from error


def raise_for(url: str, answer: httpx.Response) -> None:
    if answer.status_code == HTTPStatus.SERVICE_UNAVAILABLE:
        raise AwayError(_detail(answer))
    if answer.status_code == HTTPStatus.UNAUTHORIZED:
        raise ApiError(
            f"{url} does not let us in. {_detail(answer)} Then `vigil login --url {url}`, "
            "or give the token by VIGIL_TOKEN."
        )
    if answer.is_error:
        raise ApiError(_detail(answer))


def agent_path(reference: str) -> str:
    return f"/agents/{quote(reference, safe='')}"


def _detail(answer: httpx.Response) -> str:
    try:
        told = answer.json()
    except ValueError:
        told = None
    if isinstance(told, dict) and isinstance(told.get("detail"), str):
        return str(told["detail"])
    return f"{answer.request.url} answers {answer.status_code} {answer.reason_phrase}"
