"""What knowledge acquisition may read, whatever a page has it ask for."""

from collections.abc import Sequence

from shared.llm.sections import inside
from shared.search.named import refuse_unnamed
from shared.search.tools import TavilyExtract
from shared.tools import Arguments, Json


def reading(message: str, arguments: Arguments, earlier: Sequence[Json]) -> str | None:
    """A `shared.tools.Guard`: only pages that the mission, the query or the step's own searches name."""
    if not isinstance(arguments, TavilyExtract):
        return None
    given = f"{inside('mission', message)}\n{inside('query', message)}"
    return refuse_unnamed(arguments, given, earlier)
