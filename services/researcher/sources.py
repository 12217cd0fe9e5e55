"""The pages that acquisition was brought, as construction may see them: where they are, never what stands in them."""

from collections.abc import Sequence

from shared.graph.proof.moments import published
from shared.graph.values import one_line
from shared.tools import Json

TITLE_CHARACTERS = 200


def told(pages: Sequence[Json]) -> str:
    """A line for each address, in the order in which they came, with its title and date where they are known."""
    titles: dict[str, str] = {}
    dates: dict[str, str] = {}
    for page in pages:
        url = str(page["url"])
        titles[url] = titles.get(url) or one_line(str(page.get("title") or ""))
        date = published(str(page.get("published_date") or ""))
        dates[url] = dates.get(url) or ("" if date is None else date.date().isoformat())
    return "\n".join(_line(url, title, dates[url]) for url, title in titles.items())


def _line(url: str, title: str, date: str) -> str:
    told = ", ".join(part for part in (title[:TITLE_CHARACTERS], date) if part)
    return f"- {one_line(url)}" + (f" ({told})" if told else "")
