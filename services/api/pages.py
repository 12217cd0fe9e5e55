"""Lists that can grow are told page by page.

A route takes `paging: Paging`, hands it to a reader that ends in `shared.store.reading.keyset.slice_of`, and returns a
`Page`. A cursor that is none is told by `BadCursorError`, which `services.api.problems` makes a problem.
"""

from typing import Annotated

from fastapi import Depends, Query

from shared.store.reading.page import LARGEST_PAGE, PAGE_SIZE, Page, Wanted

__all__ = ["Page", "Paging"]


def _paging(
    limit: Annotated[
        int, Query(ge=1, le=LARGEST_PAGE, description="How many to tell at most")
    ] = PAGE_SIZE,
    cursor: Annotated[
        str | None,
        Query(description="`next` of the page before; without it, the list from its beginning"),
    ] = None,
) -> Wanted:
    return Wanted(limit, cursor)


Paging = Annotated[Wanted, Depends(_paging)]
