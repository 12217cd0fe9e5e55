"""The list of pages: search, filters, and groups by site."""

from datetime import UTC, datetime, timedelta
from uuid import uuid4

import pytest

from services.api.resources.sources.model import ListedPage
from services.api.resources.sources.pages import SourceFilter, filter_pages, group_by_site

DAY = datetime(2026, 1, 1, tzinfo=UTC)


def page(
    url: str, title: str | None = None, *, quotes: int = 0, retracted: int = 0, days: int = 0
) -> ListedPage:
    return ListedPage(
        url=url,
        newest_id=uuid4(),
        title=title,
        published=None,
        fetched_at=DAY + timedelta(days=days),
        versions=2,
        retracted=retracted,
        quotes=quotes,
    )


ATLAS = page("https://www.atlas.example/a", "The atlas", quotes=3)
PRESS = page("https://press.example/100%25_of", "All of it", quotes=1, retracted=1, days=2)
NEWS = page("https://news.atlas.example/b", days=1)
CODE = page("javascript:alert(1)")
PAGES = [ATLAS, PRESS, NEWS, CODE]


@pytest.mark.parametrize(
    ("search", "state", "expected"),
    [
        ("", SourceFilter.ALL, PAGES),
        ("ATLAS", SourceFilter.ALL, [ATLAS, NEWS]),
        (" all of ", SourceFilter.ALL, [PRESS]),
        ("%25_", SourceFilter.ALL, [PRESS]),
        ("s_a", SourceFilter.ALL, []),
        ("", SourceFilter.USED, [ATLAS, PRESS]),
        ("", SourceFilter.UNUSED, [NEWS, CODE]),
        ("", SourceFilter.RETRACTED, [PRESS]),
        ("atlas", SourceFilter.RETRACTED, []),
    ],
)
def test_pages_are_found_by_a_part_of_address_or_title_and_by_state(
    search: str, state: SourceFilter, expected: list[ListedPage]
) -> None:
    assert filter_pages(PAGES, search, state) == expected


def test_pages_are_grouped_by_registrable_domain_with_their_share_of_all_quotes() -> None:
    sites = group_by_site(PAGES, all_quotes=4)
    assert [(site.name, site.quotes, site.share, site.retracted) for site in sites] == [
        ("atlas.example", 3, 0.75, 0),
        ("press.example", 1, 0.25, 1),
        ("javascript", 0, 0.0, 0),
    ]
    assert sites[0].pages == [ATLAS, NEWS]
    assert sites[0].fetched_at == NEWS.fetched_at


def test_without_quotes_no_site_has_a_share() -> None:
    assert [site.share for site in group_by_site([NEWS], all_quotes=0)] == [0.0]
