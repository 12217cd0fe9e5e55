"""The CLI commands that show and change agents, over a real socket."""

import asyncio
import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from structlog.testing import capture_logs
from typer.testing import CliRunner

from cli.app import build_app
from cli.commands.sources import describe_preview
from cli.errors import BadInputError, CommandError
from shared.database.engine import Database
from shared.runtime.settings import Settings
from shared.schemas.provenance import RetractionPreview
from tests.conftest import cloned
from tests.support.api.full_agent import AGENT, ANSWER_TEXT, FullAgent, create_full_agent
from tests.support.api.serving import serve_api
from tests.support.api.signed_in import create_token
from tests.support.engines import Postgres
from tests.support.forecast_terms import ADVICE_TERMS


class Vigil:
    """Runs the CLI in this process against an API with a full agent."""

    def __init__(self, url: str, token: str, full: FullAgent) -> None:
        self._api = ["--url", url, "--token", token]
        self.full = full

    def __call__(self, *arguments: str) -> str:
        result = CliRunner().invoke(build_app(), [*arguments, *self._api], catch_exceptions=False)
        assert result.exit_code == 0, result.output
        return result.output

    def json(self, *arguments: str) -> Any:
        return json.loads(self(*arguments, "--json"))


@contextmanager
def running(database_url: str) -> Iterator[Vigil]:
    settings = Settings(database_url=database_url)

    async def make() -> tuple[str, FullAgent]:
        database = Database(database_url, name="test")
        try:
            return await create_token(settings), await create_full_agent(database)
        finally:
            await database.close()

    token, full = asyncio.run(make())
    # Otherwise the log lines of the API would be mixed with the output of the command.
    with capture_logs(), serve_api(settings) as url:
        yield Vigil(url, token, full)


@pytest.fixture(scope="module")
def vigil(postgres: Postgres) -> Iterator[Vigil]:
    """For tests that change nothing."""
    with cloned(postgres) as url, running(url) as commands:
        yield commands


@pytest.fixture
def own_vigil(database_url: str) -> Iterator[Vigil]:
    """For a test that changes rows."""
    with running(database_url) as commands:
        yield commands


def test_the_graph_is_shown_in_every_view(vigil: Vigil) -> None:
    assert "Halden Cells —buys→ Lithium" in vigil("graph", AGENT)
    assert vigil.json("graph", AGENT)["counts"]["nodes"] == 8
    assert [node["name"] for node in vigil.json("graph", AGENT, "nodes", "--type", "Thing")] == [
        "Lithium",
        "Halden Cells",
    ]
    assert "Lithium" in vigil("graph", AGENT, "--search", "lith")
    assert [edge["type"] for edge in vigil.json("graph", AGENT, "edges", "lithium")] == ["buys"]
    assert "—buys→" in vigil("graph", AGENT, "edges", "--type", "buys")
    types = vigil("graph", AGENT, "types")
    assert "AgentAdvice" in types
    assert "one of BUY, SELL, HOLD" in types or "action: string" in types
    neighbours = vigil("graph", AGENT, "near", "Lithium", "--depth", "2")
    assert "Halden grows —about→ Halden Cells" in neighbours
    assert len(vigil.json("graph", AGENT, "near", str(vigil.full.node_id))["nodes"]) >= 2
    assert "No nodes match" in vigil("graph", AGENT, "--search", "nothing")


@pytest.mark.parametrize(
    ("arguments", "error", "words"),
    [
        (["graph", AGENT, "near"], BadInputError, "name the node"),
        (["graph", AGENT, "types", "Lithium"], BadInputError, "`types` takes no node"),
        (["graph", AGENT, "edges", "--search", "x"], BadInputError, "finds nodes"),
        (["graph", AGENT, "near", "Cobalt"], CommandError, "There is no node 'Cobalt'"),
        (["graph", AGENT, "near", "Hald"], CommandError, "more than one"),
        (["graph", AGENT, "--type", "None"], CommandError, "the node types are: AgentAdvice"),
        (["iteration", AGENT, "soon"], BadInputError, "neither the number nor the id"),
        (["iteration", AGENT, "9"], CommandError, "no iteration '9'"),
        (["agent", "edit", AGENT], BadInputError, "name at least one change"),
        (["agent", "edit", AGENT, "--archive-date", "May"], BadInputError, "'May' is no date"),
        (["agent", "edit", AGENT, "--archive-date", "2999-01-01"], CommandError, "in the future"),
        (["inbox", "mark"], BadInputError, "name an item"),
    ],
)
def test_invalid_arguments_fail_with_an_explanation(
    vigil: Vigil, arguments: list[str], error: type[Exception], words: str
) -> None:
    with pytest.raises(error, match=words):
        vigil(*arguments)


def test_iterations_are_listed_and_one_is_shown(vigil: Vigil) -> None:
    assert [iteration["number"] for iteration in vigil.json("iterations", AGENT)] == [2, 1]
    assert [
        iteration["number"] for iteration in vigil.json("iterations", AGENT, "--limit", "1")
    ] == [2]
    completed = vigil("iterations", AGENT, "--status", "completed")
    assert ("completed" in completed, "observing" in completed) == (True, False)
    output = vigil("iteration", AGENT, "1", "--transcript")
    for words in (
        "#1",
        "Who buys lithium?",
        "observe",
        "→ tavilySearch",
        "← queryGraph",
        ANSWER_TEXT,
    ):
        assert words in output
    assert ANSWER_TEXT not in vigil("iteration", AGENT, "1")
    assert vigil.json("iteration", AGENT)["number"] == 2
    assert vigil.json("iteration", AGENT, str(vigil.full.ended_iteration_id))["number"] == 1


def test_conclusions_are_shown_in_full(vigil: Vigil) -> None:
    assert len(vigil.json("analyses", AGENT)) == 4
    output = vigil("advice", AGENT, "--limit", "1")
    assert all(words in output for words in ("Buy of Halden", "BUY, confidence 0.50", "newest 1"))
    assert "Halden grows" not in output, "no reader has compared the names of what it cites"
    for words in ("Valid until 20", ADVICE_TERMS["invalidation"]):
        assert words in output
        assert words in vigil("inbox")
    advice = vigil.json("advice", AGENT, str(vigil.full.advice_id))
    assert advice["id"] == str(vigil.full.advice_id)


def test_investigation_requests_are_listed(vigil: Vigil) -> None:
    output = vigil("investigations", AGENT)
    assert "open Who mines lithium?" in output
    assert "answered" in output
    assert "newest 1" in vigil("investigations", AGENT, "--limit", "1")
    (investigation,) = vigil.json("investigations", AGENT, "--open")
    assert (investigation["objective"], investigation["iteration_number"]) == (
        "Who mines lithium?",
        1,
    )


def test_the_inbox_is_read_and_marked(own_vigil: Vigil) -> None:
    item = str(own_vigil.full.item_id)
    assert len(own_vigil.json("inbox")) == 2
    assert item[:8] in own_vigil("inbox", "read", item)
    assert [row["id"] == item for row in own_vigil.json("inbox")] == [False]
    assert "unread" in own_vigil("inbox", "mark", item, "--unread")
    assert own_vigil.json("inbox", "mark", item)["read_at"] is not None
    assert own_vigil.json("inbox", "mark", item, "--unread")["read_at"] is None
    decided = own_vigil.json("inbox", "accept", item, "--reason", "As planned")
    assert (decided["outcome"], decided["feedback"]) == ("accepted", "As planned")
    assert "is dismissed" in own_vigil("inbox", "dismiss", item)
    assert "is open again" in own_vigil("inbox", "reopen", item)
    assert "returns 20" in own_vigil("inbox", "snooze", item, "--for", "2h")
    assert item not in own_vigil("inbox")
    assert own_vigil.json("inbox", "reopen", item)["snoozed_until"] is None
    assert "2 items marked as read" in own_vigil("inbox", "mark", "--all")
    assert "There is nothing new" in own_vigil("inbox")
    assert len(own_vigil.json("inbox", "--all")) == 2
    assert len(own_vigil.json("inbox", "--all", "--limit", "1")) == 1


def test_an_agent_is_changed(own_vigil: Vigil) -> None:
    own_vigil(
        "agent", "edit", AGENT, "--name", "Other", "--interval", "2h", "--model", "observer=m"
    )
    agent = own_vigil.json("agent", "edit", "other", "--model", "conversation=n")
    assert (agent["name"], agent["interval_seconds"]) == ("Other", 7200)
    assert agent["models"] == {"observer": "m", "conversation": "n"}
    assert agent["feedback_rounds"] == 0
    edited = own_vigil.json("agent", "edit", "other", "--max-interval", "1d")
    assert edited["max_interval_seconds"] == 86_400
    assert "2 h to 1 d" in own_vigil("agent", "show", "other")
    edited = own_vigil.json("agent", "edit", "other", "--feedback-rounds", "2")
    assert edited["feedback_rounds"] == 2
    assert "2 rounds per iteration" in own_vigil("agent", "show", "other")
    edited = own_vigil.json("agent", "edit", "other", "--advice-from-one-analysis")
    assert edited["advice_from_one_analysis"] is True
    assert "may cite a single analysis" in own_vigil("agent", "show", "other")
    edited = own_vigil.json("agent", "edit", "other", "--advice-from-two-analyses")
    assert edited["advice_from_one_analysis"] is False
    words = ("--action", "WAIT=Change nothing.", "--action", "upgrade now=At once.")
    edited = own_vigil.json("agent", "edit", "other", *words)
    assert edited["actions"] == {"WAIT": "Change nothing.", "upgrade now": "At once."}
    assert "upgrade now: At once." in " ".join(own_vigil("agent", "show", "other").split())
    edited = own_vigil.json(
        "agent", "edit", "other", "--entailment-usd", "0.5", "--entailment-share", "0.2"
    )
    assert (edited["verification_usd_per_day"], edited["entailment_share"]) == (0.5, 0.2)
    assert "0.2 of new evidence" in own_vigil("agent", "show", "other")
    domains = ("--preferred-domains", "Reuters.com, ft.com", "--barred-domains", "press.example")
    edited = own_vigil.json("agent", "edit", "other", *domains)
    assert edited["preferred_domains"] == ["reuters.com", "ft.com"]
    assert edited["barred_domains"] == ["press.example"]
    shown = " ".join(own_vigil("agent", "show", "other").split())
    assert "Prefers reuters.com, ft.com" in shown
    assert "Bars press.example" in shown
    edited = own_vigil.json("agent", "edit", "other", "--preferred-domains", "")
    assert (edited["preferred_domains"], edited["barred_domains"]) == ([], ["press.example"])
    edited = own_vigil.json("agent", "edit", "other", "--archive-date", "2024-03-01")
    assert edited["archive_date"] == "2024-03-01"
    assert "works as if each day were 2024-03-01" in own_vigil("agent", "show", "other")
    edited = own_vigil.json("agent", "edit", "other", "--archive-date", "none")
    assert edited["archive_date"] is None
    assert "works as if" not in own_vigil("agent", "show", "other")
    reset = own_vigil.json("agent", "edit", "other", "--model", "observer=")
    assert reset["models"] == {"conversation": "n"}
    assert [agent["name"] for agent in own_vigil.json("agent", "list", "--search", "oth")] == [
        "Other"
    ]
    assert own_vigil.json("agent", "list", "--state", "paused") == []


def test_an_agent_is_created_with_an_archive_date(own_vigil: Vigil) -> None:
    arguments = ("agent", "create", "Watch the lithium of Ghana", "--name", "Past", "--no-wait")
    with pytest.raises(CommandError, match="cannot be in the future"):
        own_vigil(*arguments, "--archive-date", "2999-01-01")
    own_vigil(*arguments, "--archive-date", "2024-03-01")
    assert own_vigil.json("agent", "show", "Past")["archive_date"] == "2024-03-01"
    assert "works as if each day were 2024-03-01" in own_vigil("agent", "show", "Past")


def test_a_page_is_retracted_and_its_site_barred_and_restored(own_vigil: Vigil) -> None:
    reason = ("--agent", AGENT, "--reason", "bought")
    [page] = own_vigil.json("source", "list", AGENT, "--retracted")
    [earlier] = own_vigil.json("source", "restore", page["url"], "--agent", AGENT)
    assert earlier["restored_at"]
    [retracted] = own_vigil.json("source", "retract", page["id"], *reason)
    assert (retracted["site"], retracted["source_id"]) == (None, None)
    with pytest.raises(CommandError, match="did not confirm"):
        own_vigil("source", "bar", page["url"], *reason)
    assert own_vigil.json("agent", "show", AGENT)["barred_domains"] == []
    [barred] = own_vigil.json("source", "bar", page["url"], "--yes", *reason)
    assert (barred["site"], barred["sources"]) == ("example.org", 1)
    assert own_vigil.json("agent", "show", AGENT)["barred_domains"] == ["example.org"]
    assert "all pages of the site, which is barred" in own_vigil("source", "retractions", AGENT)
    # The page alone is restored, and stays retracted with its site.
    [restored] = own_vigil.json("source", "restore", page["url"], "--agent", AGENT)
    assert restored["id"] == retracted["id"]
    with pytest.raises(CommandError, match=r"with its site: .* `vigil source restore example\.org"):
        own_vigil("source", "restore", page["url"], "--agent", AGENT)
    assert own_vigil.json("source", "list", AGENT, "--of", page["url"])[0]["retracted_at"]
    [restored] = own_vigil.json("source", "restore", "Example.org", "--agent", AGENT)
    assert restored["id"] == barred["id"]
    assert own_vigil.json("agent", "show", AGENT)["barred_domains"] == []
    assert own_vigil.json("source", "list", AGENT, "--retracted") == []
    with pytest.raises(CommandError, match="There is no source"):
        own_vigil("source", "bar", "A title that no page has", *reason)
    preview = RetractionPreview(
        url="example.org",
        site="example.org",
        pages=2,
        sources=3,
        unsupported=1,
        changed=0,
        analyses=2,
        advice=1,
    )
    assert describe_preview(preview) == (
        "Of 2 pages of example.org in 3 versions, 1 fact would lose all support; 2 analyses would be in doubt;"
        " 1 piece of advice would be in doubt."
    )
