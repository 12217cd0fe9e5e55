"""Doubles: told, made one, made two again."""

from collections.abc import Iterable
from uuid import UUID

from cli.client.connection import Connection, agent_path
from shared.store.reading.merge_shapes import DoubleView, MergeView


class Merges(Connection):
    def doubles(self, agent: str, limit: int | None = 50) -> Iterable[DoubleView]:
        """Among the nodes touched last first."""
        return self._pages(DoubleView, f"{agent_path(agent)}/doubles", limit)

    def merges(self, agent: str, limit: int | None = 50) -> Iterable[MergeView]:
        """The newest first."""
        return self._pages(MergeView, f"{agent_path(agent)}/merges", limit)

    def merge(self, agent: str, *, kept: UUID, gone: UUID, reason: str) -> MergeView:
        given = {"kept": str(kept), "gone": str(gone), "reason": reason}
        return self._ask(MergeView, "POST", f"{agent_path(agent)}/merges", json=given)

    def undo_merge(self, agent: str, merge_id: UUID) -> MergeView:
        return self._ask(MergeView, "POST", f"{agent_path(agent)}/merges/{merge_id}/undo")
