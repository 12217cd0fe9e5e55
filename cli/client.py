"""The api, as the commands use it."""

from collections.abc import Sequence
from http import HTTPStatus
from types import TracebackType
from typing import Any, Final, Self, TypeVar
from urllib.parse import quote
from uuid import UUID

import httpx
from pydantic import TypeAdapter

from cli.errors import AwayError, CommandError
from shared.store.reading.configuring_shapes import (
    ConfigurationDetails,
    PromptsView,
    PromptView,
    TypesView,
)
from shared.store.reading.page import Page
from shared.store.reading.shapes import (
    AboutView,
    AgentDetails,
    AgentView,
    CallsView,
    ConclusionView,
    DeadLetterDetails,
    DeadLetterView,
    GraphView,
    InboxItemView,
    IterationDetails,
    IterationView,
)

TIMEOUT_SECONDS: Final = 30.0

T = TypeVar("T")


class ApiError(CommandError):
    """The api said no; its own words."""


class Client:
    """Every call raises ApiError where the api refuses, and AwayError where it cannot answer now."""

    def __init__(self, url: str) -> None:
        self.url = url
        self._http = httpx.Client(
            base_url=f"{url}/api/v1", timeout=TIMEOUT_SECONDS, trust_env=False
        )

    def about(self) -> AboutView:
        return self._ask(AboutView, "GET", "/about")

    def agents(self) -> list[AgentView]:
        return self._ask(list[AgentView], "GET", "/agents")

    def agent(self, reference: str) -> AgentDetails:
        return self._ask(AgentDetails, "GET", _agent(reference))

    def create_agent(
        self,
        mission: str,
        *,
        name: str | None = None,
        interval_seconds: int | None = None,
        models: dict[str, str] | None = None,
    ) -> AgentDetails:
        wanted = {
            "mission": mission,
            "name": name,
            "interval_seconds": interval_seconds,
            "models": models,
        }
        given = {key: value for key, value in wanted.items() if value is not None}
        return self._ask(AgentDetails, "POST", "/agents", json=given)

    def order(self, reference: str, order: str) -> AgentDetails:
        """`pause`, `resume` or `run`."""
        return self._ask(AgentDetails, "POST", f"{_agent(reference)}/{order}")

    def configure(
        self, reference: str, *, mission: str | None = None, keep: Sequence[str] = ()
    ) -> AgentDetails:
        wanted = {"keep": list(keep)} | ({"mission": mission} if mission else {})
        return self._ask(AgentDetails, "POST", f"{_agent(reference)}/configure", json=wanted)

    def configuration(self, reference: str) -> ConfigurationDetails:
        return self._ask(ConfigurationDetails, "GET", f"{_agent(reference)}/configuration")

    def prompts(self, reference: str) -> PromptsView:
        return self._ask(PromptsView, "GET", f"{_agent(reference)}/prompts")

    def prompt_history(
        self, reference: str, *, phase: str | None = None, cursor: str | None = None
    ) -> Page[PromptView]:
        wanted = {"phase": phase, "cursor": cursor}
        params = {key: value for key, value in wanted.items() if value is not None}
        path = f"{_agent(reference)}/prompts/history"
        return self._ask(Page[PromptView], "GET", path, params=params)

    def edit_prompt(self, reference: str, phase: str, prompt: str, *, version: int) -> PromptsView:
        """Refused where the prompts are not of that `version` any more."""
        return self._ask(
            PromptsView,
            "PUT",
            f"{_agent(reference)}/prompts/{quote(phase, safe='')}",
            json={"prompt": prompt},
            headers={"If-Match": f'"{version}"'},
        )

    def types(self, reference: str) -> TypesView:
        return self._ask(TypesView, "GET", f"{_agent(reference)}/types")

    def delete_agent(self, reference: str) -> None:
        self._send("DELETE", _agent(reference))

    def iterations(self, reference: str, limit: int = 20) -> list[IterationView]:
        path = f"{_agent(reference)}/iterations"
        return self._ask(list[IterationView], "GET", path, params={"limit": limit})

    def iteration(self, iteration_id: UUID) -> IterationDetails:
        return self._ask(IterationDetails, "GET", f"/iterations/{iteration_id}")

    def graph(self, reference: str, *, type_name: str | None = None, limit: int = 100) -> GraphView:
        params = {"limit": limit} | ({"type": type_name} if type_name else {})
        return self._ask(GraphView, "GET", f"{_agent(reference)}/graph", params=params)

    def analyses(self, reference: str, limit: int = 100) -> list[ConclusionView]:
        path = f"{_agent(reference)}/analyses"
        return self._ask(list[ConclusionView], "GET", path, params={"limit": limit})

    def advice(self, reference: str, limit: int = 100) -> list[ConclusionView]:
        path = f"{_agent(reference)}/advice"
        return self._ask(list[ConclusionView], "GET", path, params={"limit": limit})

    def calls(self, reference: str) -> CallsView:
        return self._ask(CallsView, "GET", f"{_agent(reference)}/calls")

    def inbox(self, *, unread: bool) -> list[InboxItemView]:
        return self._ask(list[InboxItemView], "GET", "/inbox", params={"unread": unread})

    def mark_read(self, item_id: UUID) -> InboxItemView:
        return self._ask(InboxItemView, "POST", f"/inbox/{item_id}/read")

    def dead_letters(
        self, *, actor: str | None = None, before: UUID | None = None, limit: int = 50
    ) -> list[DeadLetterView]:
        wanted = {"actor": actor, "before": before, "limit": limit}
        params = {key: str(value) for key, value in wanted.items() if value is not None}
        return self._ask(list[DeadLetterView], "GET", "/dead-letters", params=params)

    def dead_letter(self, reference: str) -> DeadLetterDetails:
        return self._ask(DeadLetterDetails, "GET", _letter(reference))

    def retry(self, reference: str) -> DeadLetterView:
        return self._ask(DeadLetterView, "POST", f"{_letter(reference)}/retry")

    def discard(self, reference: str) -> None:
        self._send("DELETE", _letter(reference))

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

    def _ask(self, shape: type[T], method: str, path: str, **request: Any) -> T:
        return TypeAdapter(shape).validate_json(self._send(method, path, **request).content)

    def _send(self, method: str, path: str, **request: Any) -> httpx.Response:
        try:
            answer = self._http.request(method, path, **request)
        except httpx.InvalidURL as error:
            raise CommandError(f"{self.url!r} is no URL: {error}") from error
        except httpx.UnsupportedProtocol as error:
            raise CommandError(f"{self.url!r} is no URL of an api: {error}") from error
        except httpx.TransportError as error:
            raise AwayError(
                f"no Vigil answers at {self.url}: {str(error) or type(error).__name__}"
            ) from error
        if answer.status_code == HTTPStatus.SERVICE_UNAVAILABLE:
            raise AwayError(_detail(answer))
        if answer.is_error:
            raise ApiError(_detail(answer))
        return answer


def _agent(reference: str) -> str:
    return f"/agents/{quote(reference, safe='')}"


def _letter(reference: str) -> str:
    return f"/dead-letters/{quote(reference, safe='')}"


def _detail(answer: httpx.Response) -> str:
    try:
        told = answer.json()
    except ValueError:
        told = None
    if isinstance(told, dict) and isinstance(told.get("detail"), str):
        return str(told["detail"])
    return f"{answer.request.url} answers {answer.status_code} {answer.reason_phrase}"
