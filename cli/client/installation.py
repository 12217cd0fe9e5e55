"""The installation: what it is, what happens, what failed."""

from collections.abc import Iterable, Iterator, Mapping
from urllib.parse import quote

from httpx_sse import ServerSentEvent

from cli.client.connection import Connection, agent_path
from shared.store.reading.letter_shapes import DeadLetterDetails, DeadLetterView
from shared.store.reading.shapes import (
    AboutView,
    OutsideView,
)


class OfInstallation(Connection):
    def about(self) -> AboutView:
        return self._ask(AboutView, "GET", "/about")

    def outside(self) -> OutsideView:
        return self._ask(OutsideView, "GET", "/about/outside")

    def events(self, agent: str | None, parameters: Mapping[str, str]) -> Iterator[ServerSentEvent]:
        """Of one agent or of all, until the connection ends."""
        path = "/events" if agent is None else f"{agent_path(agent)}/events"
        return self._stream(path, params=parameters)

    def dead_letters(
        self, *, actor: str | None = None, limit: int | None = 50
    ) -> Iterable[DeadLetterView]:
        return self._pages(DeadLetterView, "/dead-letters", limit, actor=actor)

    def dead_letter(self, reference: str) -> DeadLetterDetails:
        return self._ask(DeadLetterDetails, "GET", _letter(reference))

    def retry(self, reference: str) -> DeadLetterView:
        return self._ask(DeadLetterView, "POST", f"{_letter(reference)}/retry")

    def discard(self, reference: str) -> None:
        self._send("DELETE", _letter(reference))


def _letter(reference: str) -> str:
    return f"/dead-letters/{quote(reference, safe='')}"
