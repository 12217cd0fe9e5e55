"""The commands that look at agents, over a real socket."""

import asyncio
import json
from collections.abc import Iterator
from typing import Any

import pytest
from structlog.testing import capture_logs
from typer.testing import CliRunner

from cli.errors import BadInputError, CommandError
from cli.main import build_app
from shared.database.engine import Database
from shared.runtime.settings import Settings
from tests.support.api.full import AGENT, SAID, Full, full_agent
from tests.support.api.serving import served
from tests.support.api.signed_in import token_of
from tests.support.committing import COMMITTED


class Vigil:
    """The command in this process, on an api that serves a full agent."""

    def __init__(self, url: str, token: str, full: Full) -> None:
        self._api = ["--url", url, "--token", token]
        self.full = full

    def __call__(self, *arguments: str) -> str:
        told = CliRunner().invoke(build_app(), [*arguments, *self._api], catch_exceptions=False)
        assert told.exit_code == 0, told.output
        return told.output

    def json(self, *arguments: str) -> Any:
        return json.loads(self(*arguments, "--json"))


@pytest.fixture
def vigil(database_url: str) -> Iterator[Vigil]:
    settings = Settings(database_url=database_url)

    async def make() -> tuple[str, Full]:
        database = Database(database_url, name="test")
        try:
            return await token_of(settings), await full_agent(database)
        finally:
            await database.close()

    token, full = asyncio.run(make())
    # What the api logs would stand among what the command prints.
    with capture_logs(), served(settings) as url:
        yield Vigil(url, token, full)


def test_a_graph_is_looked_at_from_every_side(vigil: Vigil) -> None:
    assert "Halden Cells —buys→ Lithium" in vigil("graph", AGENT)
    assert vigil.json("graph", AGENT)["counts"]["nodes"] == 6
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
    near = vigil("graph", AGENT, "near", "Lithium", "--depth", "2")
    assert "Halden grows —about→ Halden Cells" in near
    assert len(vigil.json("graph", AGENT, "near", str(vigil.full.node_id))["nodes"]) >= 2
    assert "no such nodes" in vigil("graph", AGENT, "--search", "nothing")


@pytest.mark.parametrize(
    ("arguments", "error", "words"),
    [
        (["graph", AGENT, "near"], BadInputError, "name the node"),
        (["graph", AGENT, "types", "Lithium"], BadInputError, "not for `types`"),
        (["graph", AGENT, "edges", "--search", "x"], BadInputError, "finds nodes"),
        (["graph", AGENT, "near", "Cobalt"], CommandError, "no node is named"),
        (["graph", AGENT, "near", "Hald"], CommandError, "several"),
        (["graph", AGENT, "--type", "None"], CommandError, "there are: AgentAdvice"),
        (["iteration", AGENT, "soon"], BadInputError, "neither the number nor the id"),
        (["iteration", AGENT, "9"], CommandError, "no iteration '9'"),
        (["agent", "edit", AGENT], BadInputError, "say what to change"),
        (["inbox", "mark"], BadInputError, "name an item"),
    ],
)
def test_what_cannot_be_is_told(
    vigil: Vigil, arguments: list[str], error: type[Exception], words: str
) -> None:
    with pytest.raises(error, match=words):
        vigil(*arguments)


def test_iterations_are_listed_and_one_is_told(vigil: Vigil) -> None:
    assert [each["number"] for each in vigil.json("iterations", AGENT)] == [2, 1]
    assert [each["number"] for each in vigil.json("iterations", AGENT, "--limit", "1")] == [2]
    listed = vigil("iterations", AGENT, "--status", "completed")
    assert ("completed" in listed, "observing" in listed) == (True, False)
    told = vigil("iteration", AGENT, "1", "--said")
    for words in ("#1", "Who buys lithium?", "observe", "→ tavilySearch", "← queryGraph", SAID):
        assert words in told
    assert SAID not in vigil("iteration", AGENT, "1")
    assert vigil.json("iteration", AGENT)["number"] == 2
    assert vigil.json("iteration", AGENT, str(vigil.full.ended_iteration_id))["number"] == 1


def test_conclusions_are_told_in_full(vigil: Vigil) -> None:
    assert len(vigil.json("analyses", AGENT)) == 2
    told = vigil("advice", AGENT, "--limit", "1")
    assert all(words in told for words in ("Buy of Halden", "BUY, confidence 0.50", "newest 1"))
    assert "[Halden grows]" in told
    for words in ("Valid until 20", COMMITTED["invalidation"]):
        assert words in told
        assert words in vigil("inbox")
    one = vigil.json("advice", AGENT, str(vigil.full.advice_id))
    assert one["id"] == str(vigil.full.advice_id)


def test_what_was_lacking_is_listed(vigil: Vigil) -> None:
    told = vigil("investigations", AGENT)
    assert "open Who mines lithium?" in told
    assert "answered" in told
    assert "newest 1" in vigil("investigations", AGENT, "--limit", "1")
    (one,) = vigil.json("investigations", AGENT, "--open")
    assert (one["objective"], one["iteration_number"]) == ("Who mines lithium?", 1)


def test_the_inbox_is_read_and_marked(vigil: Vigil) -> None:
    item = str(vigil.full.item_id)
    assert len(vigil.json("inbox")) == 2
    assert item in vigil("inbox", "read", item)
    assert [each["id"] == item for each in vigil.json("inbox")] == [False]
    assert "unread" in vigil("inbox", "mark", item, "--unread")
    assert vigil.json("inbox", "mark", item)["read_at"] is not None
    assert vigil.json("inbox", "mark", item, "--unread")["read_at"] is None
    assert "2 items marked as read" in vigil("inbox", "mark", "--all")
    assert "Nothing new" in vigil("inbox")
    assert len(vigil.json("inbox", "--all")) == 2
    assert len(vigil.json("inbox", "--all", "--limit", "1")) == 1


def test_an_agent_is_changed(vigil: Vigil) -> None:
    vigil("agent", "edit", AGENT, "--name", "Other", "--interval", "2h", "--model", "observer=m")
    again = vigil.json("agent", "edit", "other", "--model", "conversation=n")
    assert (again["name"], again["interval_seconds"]) == ("Other", 7200)
    assert again["models"] == {"observer": "m", "conversation": "n"}
    assert again["feedback_rounds"] == 0
    edited = vigil.json("agent", "edit", "other", "--feedback-rounds", "2")
    assert edited["feedback_rounds"] == 2
    assert "2 rounds an iteration" in vigil("agent", "show", "other")
    reset = vigil.json("agent", "edit", "other", "--model", "observer=")
    assert reset["models"] == {"conversation": "n"}
    assert [each["name"] for each in vigil.json("agent", "list", "--search", "oth")] == ["Other"]
    assert vigil.json("agent", "list", "--state", "paused") == []
