"""What people get to see of a page's text with its quotes marked, as frozen models."""

from typing import Literal
from uuid import UUID

from shared.store.reading.shapes import Json, View


class MarkView(View):
    """A quote within a page, and the node or edge that rests on it."""

    evidence_id: UUID
    first_byte: int
    end_byte: int
    kind: Literal["node", "edge"]
    thing_id: UUID
    type: str
    name: str
    claims: Json
    """Values by property; none where it says only that the thing is."""


class MarksView(View):
    """In the order of the text. `cut` says that more rests on the page than is told."""

    items: list[MarkView]
    cut: bool
