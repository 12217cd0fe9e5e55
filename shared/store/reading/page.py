"""A page of a list that can grow: its shape for everybody, and nothing that needs a database."""

from dataclasses import dataclass
from typing import Final, Generic, TypeVar

from shared.store.reading.shapes import View

PAGE_SIZE: Final = 50
LARGEST_PAGE: Final = 200

T = TypeVar("T")


class Page(View, Generic[T]):
    """Some of a list in its order. `next`, given as `cursor`, asks for what follows; None is the end of the list."""

    items: list[T]
    next: str | None


@dataclass(frozen=True)
class Wanted:
    """Which page: the first, or the one after `cursor`."""

    limit: int = PAGE_SIZE
    cursor: str | None = None
