"""A list that is told page by page, read to its end."""

from collections.abc import Callable
from typing import TypeVar

from shared.store.reading.page import Page

T = TypeVar("T")


def whole(read: Callable[[str | None], Page[T]]) -> list[T]:
    """All items of the pages that `read` gives for a cursor, None being the first."""
    page = read(None)
    found = list(page.items)
    while page.next is not None:
        page = read(page.next)
        found += page.items
    return found
