"""The pages that agents have read, and those that are not believed."""

from collections.abc import Iterable
from uuid import UUID

from cli.client.connection import Connection, agent_path
from shared.store.reading.evidence_shapes import SourceDetails, SourceView
from shared.store.reading.retraction_shapes import RetractionView


class Sources(Connection):
    def sources(
        self,
        agent: str,
        limit: int | None = 50,
        *,
        page_url: str | None = None,
        retracted: bool | None = None,
    ) -> Iterable[SourceView]:
        """Those fetched last first."""
        path = f"{agent_path(agent)}/sources"
        return self._pages(SourceView, path, limit, url=page_url, retracted=retracted)

    def source(self, agent: str, source_id: UUID) -> SourceDetails:
        return self._ask(SourceDetails, "GET", f"{agent_path(agent)}/sources/{source_id}")

    def retractions(
        self,
        agent: str,
        limit: int | None = 50,
        *,
        standing: bool | None = None,
        source: str | None = None,
    ) -> Iterable[RetractionView]:
        """The newest first; of that URL or source's id where it is given."""
        path = _retractions(agent)
        return self._pages(RetractionView, path, limit, standing=standing, source=source)

    def retraction(self, agent: str, retraction_id: UUID) -> RetractionView:
        return self._ask(RetractionView, "GET", f"{_retractions(agent)}/{retraction_id}")

    def retract(self, agent: str, source: str, because: str) -> RetractionView:
        given = {"source": source, "because": because}
        return self._ask(RetractionView, "POST", _retractions(agent), json=given)

    def restore(self, agent: str, retraction_id: UUID) -> RetractionView:
        return self._ask(RetractionView, "POST", f"{_retractions(agent)}/{retraction_id}/restore")


def _retractions(agent: str) -> str:
    return f"{agent_path(agent)}/retractions"
