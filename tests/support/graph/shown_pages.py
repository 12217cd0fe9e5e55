"""Pages as a run has shown them to its model."""

from collections.abc import Sequence

from shared.graph.provenance.numbered_pages import NumberedPage, RunPages
from shared.tools import Json


def shown_pages(*pages: Json, question: str = "") -> Sequence[NumberedPage]:
    """The pages of one read, each shown as a whole unless it is long."""
    run_pages = RunPages(question)
    run_pages.show_reads({"results": list(pages), "failed": []})
    return run_pages.pages
