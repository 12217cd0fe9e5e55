"""Agents, what they are made of, and what they do."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any
from urllib.parse import quote
from uuid import UUID

from cli.client.connection import Connection, agent_path
from shared.store.reading.configuring_shapes import (
    ConfigurationDetails,
    PromptsView,
    PromptView,
)
from shared.store.reading.shapes import (
    AgentDetails,
    AgentView,
    IterationDetails,
    IterationView,
)


class Agents(Connection):
    def agents(
        self, *, state: str | None = None, search: str | None = None, limit: int | None = None
    ) -> Iterable[AgentView]:
        """By name. Lists are read page by page, as far as they are looked at; `limit` None is all of them."""
        return self._pages(AgentView, "/agents", limit, state=state, search=search)

    def agent(self, reference: str) -> AgentDetails:
        return self._ask(AgentDetails, "GET", agent_path(reference))

    def create_agent(
        self,
        mission: str,
        *,
        name: str | None = None,
        interval_seconds: int | None = None,
        models: dict[str, str] | None = None,
        feedback_rounds: int | None = None,
    ) -> AgentDetails:
        wanted = {
            "mission": mission,
            "name": name,
            "interval_seconds": interval_seconds,
            "models": models,
            "feedback_rounds": feedback_rounds,
        }
        given = {key: value for key, value in wanted.items() if value is not None}
        return self._ask(AgentDetails, "POST", "/agents", json=given)

    def change_agent(
        self, reference: str, changes_of: Callable[[AgentDetails], dict[str, Any]]
    ) -> AgentDetails:
        """Changes it by what `changes_of` makes of it, only where nobody has changed it since."""
        path = agent_path(reference)
        read = self._send("GET", path)
        changes = changes_of(AgentDetails.model_validate_json(read.content))
        tag = {"If-Match": read.headers["etag"]}
        return self._ask(AgentDetails, "PATCH", path, json=changes, headers=tag)

    def order(self, reference: str, order: str) -> AgentDetails:
        """`pause`, `resume` or `run`."""
        return self._ask(AgentDetails, "POST", f"{agent_path(reference)}/{order}")

    def configure(
        self, reference: str, *, mission: str | None = None, keep: Sequence[str] = ()
    ) -> AgentDetails:
        wanted = {"keep": list(keep)} | ({"mission": mission} if mission else {})
        return self._ask(AgentDetails, "POST", f"{agent_path(reference)}/configure", json=wanted)

    def configuration(self, reference: str) -> ConfigurationDetails:
        return self._ask(ConfigurationDetails, "GET", f"{agent_path(reference)}/configuration")

    def prompts(self, reference: str) -> PromptsView:
        return self._ask(PromptsView, "GET", f"{agent_path(reference)}/prompts")

    def prompt_history(self, reference: str, *, phase: str | None = None) -> Iterable[PromptView]:
        """Every prompt that there was, the newest version first."""
        path = f"{agent_path(reference)}/prompts/history"
        return self._pages(PromptView, path, None, phase=phase)

    def edit_prompt(self, reference: str, phase: str, prompt: str, *, version: int) -> PromptsView:
        """Refused where the prompts are not of that `version` any more."""
        return self._ask(
            PromptsView,
            "PUT",
            f"{agent_path(reference)}/prompts/{quote(phase, safe='')}",
            json={"prompt": prompt},
            # What stands before the dot of the ETag that they were read with.
            headers={"If-Match": f'"{version}."'},
        )

    def delete_agent(self, reference: str) -> None:
        self._send("DELETE", agent_path(reference))

    def iterations(
        self, reference: str, limit: int | None = 20, *, status: str | None = None
    ) -> Iterable[IterationView]:
        path = f"{agent_path(reference)}/iterations"
        return self._pages(IterationView, path, limit, status=status)

    def iteration(self, iteration_id: UUID) -> IterationDetails:
        return self._ask(IterationDetails, "GET", f"/iterations/{iteration_id}")

    def iteration_numbered(self, reference: str, number: int) -> IterationDetails:
        return self._ask(IterationDetails, "GET", f"{agent_path(reference)}/iterations/{number}")
