"""Whether what agents say can be proved, and all of it to take away."""

from collections.abc import Iterator
from uuid import UUID

from cli.client.connection import Connection, agent_path
from shared.store.reading.proof_shapes import VerificationPage, VerificationView


class Proof(Connection):
    def verification(self, conclusion_id: UUID) -> VerificationView:
        return self._ask(VerificationView, "GET", f"/conclusions/{conclusion_id}/verification")

    def verification_pages(self, agent: str, rows: int) -> Iterator[VerificationPage]:
        """All that the agent knows, looked at so many rows at a time."""
        cursor: str | None = None
        while True:
            params = {"limit": str(rows)} | ({"cursor": cursor} if cursor else {})
            path = f"{agent_path(agent)}/verification"
            page = self._ask(VerificationPage, "GET", path, params=params)
            yield page
            if (cursor := page.next) is None:
                return

    def export(self, agent: str, wanted: str) -> Iterator[bytes]:
        """All that the agent knows, in pieces; `wanted` is the format."""
        return self._download(f"{agent_path(agent)}/export", params={"format": wanted})
