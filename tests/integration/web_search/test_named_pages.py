"""Only pages from search results and search hints are read, also by a resumed run."""

import pytest

from services.researcher.acquisition import acquire
from shared.enums import Phase
from tests.support.injection.corpus import HostilePage
from tests.support.injection.web import Web
from tests.support.researching import (
    Researcher,
    query_that_reads,
    reading,
    scripted,
    searching,
)

LINKING = HostilePage(
    "found", "en", "none", "Found", "Lithium, and a link: https://linked.example", ()
)
HINTED = "https://hinted.example/report"
QUERY = query_that_reads(HINTED)


@pytest.fixture
def web() -> Web:
    web = Web()
    web.serves(LINKING)
    return web


async def test_only_hinted_pages_and_results_of_an_earlier_round_are_read(
    researcher: Researcher,
) -> None:
    await researcher.run(
        [searching(), reading(LINKING.url)],
        [reading("https://linked.example")],
        [reading(LINKING.url), reading(HINTED)],
        document="Lithium.",
    )
    assert sorted(researcher.web.read) == sorted([LINKING.url, HINTED])


async def test_a_resumed_run_allows_the_same_pages(researcher: Researcher) -> None:
    """Its recorded search allows the same pages as before; no call is repeated or paid for twice."""
    context, control = await researcher.context(), researcher.control
    control.script(
        scripted(searching()),
        scripted(reading(LINKING.url)),
        scripted(reading("https://evil.example")),
    )
    control.script({"phase": Phase.KNOWLEDGE_ACQUISITION, "status": 401})
    with pytest.raises(Exception, match="scripted error"):
        await acquire(researcher.model, researcher.search, context)
    assert researcher.web.read == [LINKING.url]
    control.script(scripted(content="Lithium."))
    await acquire(researcher.model, researcher.search, context)
    assert researcher.web.read == [LINKING.url]
    assert researcher.web.searched == ["lithium"]
    assert control.repeated("llm") == 0
