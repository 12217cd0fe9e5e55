"""How an agent is made, as a terminal shows it."""

import io
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from rich.console import Console

from cli.client.client import Client
from cli.client.target import Api
from cli.errors import AwayError, CommandError
from cli.render.agents import (
    describe_configuration,
    show_agent,
    show_agents,
    show_created,
    show_history,
    show_prompts,
    show_types,
)
from cli.render.console import THEME
from cli.watch import report_configuration, wait_until_configured
from shared.schemas.agents import ConfigurationDetails, PromptView, TypesView
from shared.schemas.base import AgentDetails, AnswerEvent, CallTotals, CountsView, InteractionView
from shared.schemas.graph import EdgeTypeDetails, NodeTypeDetails
from tests.support.cli.story import ID, START


def details(status: str = "ready", **values: Any) -> AgentDetails:
    known: dict[str, Any] = {
        "id": ID,
        "name": "Lithium [red]Eye",
        "mission": "Watch lithium",
        "fault": None,
        "interval_seconds": 300,
        "active": True,
        "models": {},
        "next_run_at": START,
        "run_requested_at": None,
        "suspended_until": None,
        "updated_at": START,
        "iterations_started": 0,
        "created_at": START,
        "last_iteration": None,
        "trouble": [],
        "prompts": {},
        "prompts_version": 0,
        "configuration": None,
    }
    return AgentDetails(status=status, **(known | values))


def configuration(
    status: str = "running", answers: int | None = None, **values: Any
) -> ConfigurationDetails:
    said = AnswerEvent(
        call_id=ID, message=None, finish_reason=None, input_tokens=None, output_tokens=None
    )
    interaction = None
    if answers is not None:
        interaction = InteractionView(
            id=ID,
            step_id=ID,
            phase="configuration",
            model="m",
            system_prompt="p",
            request={},
            events=[said] * answers,
            created_at=START,
            completed_at=None,
        )
    known: dict[str, Any] = {
        "step_id": ID,
        "error": None,
        "attempts": 0,
        "retry_at": None,
        "requested_at": START,
        "ended_at": START + timedelta(seconds=2) if status in ("completed", "failed") else None,
        "mission": "Watch lithium",
        "keep": [],
        "interaction": interaction,
    }
    return ConfigurationDetails(status=status, **(known | values))


class TalkingClient(Client):
    """An api that tells these one after the other; an error is raised."""

    def __init__(self, agent: AgentDetails, *told: ConfigurationDetails | AwayError) -> None:
        super().__init__(Api("http://127.0.0.1:1"))
        self._agent = agent
        self._told = iter(told)

    def configuration(self, reference: str) -> ConfigurationDetails:
        told = next(self._told)
        if isinstance(told, AwayError):
            raise told
        return told

    def agent(self, reference: str) -> AgentDetails:
        return self._agent

    def types(self, reference: str) -> TypesView:
        return TYPES


TYPES = TypesView(
    node_types=[
        NodeTypeDetails(
            name="Maker",
            description="Who makes batteries.",
            properties_schema={
                "type": "object",
                "properties": {
                    "summary": {"type": "string", "description": "One sentence."},
                    "stage": {"enum": ["new", "old"], "description": "How far it is."},
                },
                "required": ["summary"],
            },
            example_properties={"summary": "Makes [cells]."},
            created_by="configuration",
            created_at=START,
        )
    ],
    edge_types=[
        EdgeTypeDetails(
            name="buys",
            description="buys it",
            properties_schema={},
            example_properties={},
            created_by="system",
            created_at=START,
            source_types=["Maker"],
            target_types=[],
        )
    ],
)


@pytest.fixture
def console() -> Console:
    return Console(file=io.StringIO(), theme=THEME, width=120)


def shown(console: Console) -> str:
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


@pytest.mark.parametrize(
    ("found", "told"),
    [
        (configuration("pending"), "is waiting to be configured"),
        (configuration(answers=0), "its name and prompts"),
        (configuration(answers=1), "its types"),
        (configuration("pending", error="no answer"), "in trouble: no answer"),
    ],
)
def test_what_is_being_done_is_told_in_a_line(found: ConfigurationDetails, told: str) -> None:
    assert told in describe_configuration("Lithium", found)


def test_the_next_try_is_told() -> None:
    soon = datetime.now(UTC) + timedelta(minutes=5)
    assert "next try in 5 min" in describe_configuration(
        "Lithium", configuration("pending", error="no answer", retry_at=soon)
    )


def test_it_waits_through_an_api_that_is_away() -> None:
    said: list[str] = []
    client = TalkingClient(
        details(), AwayError("away"), configuration(answers=0), configuration("completed", 2)
    )
    with client:
        assert wait_until_configured(client, details("configuring"), said.append).status == "ready"
    assert said == ["waiting for the API", "configuring Lithium [red]Eye: its name and prompts"]


def test_it_ends_when_time_is_up() -> None:
    with TalkingClient(details("configuring")) as client:
        found = wait_until_configured(client, details("configuring"), lambda _: None, lambda: True)
    assert found.status == "configuring"


def test_what_was_made_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    ready = details(prompts=dict.fromkeys("abcdef", "…"))
    with TalkingClient(ready, configuration("completed", 2)) as client:
        report_configuration(client, details("configuring"), wait=True, as_json=False)
    told = capsys.readouterr().out
    assert "6 prompts, 1 node type, 1 edge type" in told
    assert 'vigil agent types "Lithium [red]Eye"' in told


def test_what_failed_is_told_with_what_to_do(capsys: pytest.CaptureFixture[str]) -> None:
    failed = details("failed", fault="No key. Ask again: vigil agent configure")
    with (
        TalkingClient(failed, configuration("failed", error="no key")) as client,
        pytest.raises(CommandError, match=r"No key\. Ask again"),
    ):
        report_configuration(client, details("configuring"), wait=True, as_json=False)
    assert capsys.readouterr().out == ""


def test_an_agent_with_built_in_prompts_is_told_of_as_made(
    capsys: pytest.CaptureFixture[str],
) -> None:
    ended = configuration("completed", 4)
    ready = details(
        prompts=dict.fromkeys("abcdef", "…"),
        fault="The model's prompts could not be used.",
        configuration=ended,
    )
    with TalkingClient(ready, ended) as client:
        report_configuration(client, details("configuring"), wait=True, as_json=False)
    told = capsys.readouterr()
    assert "6 prompts" in told.out
    assert "could not be used" in told.err


def test_who_does_not_wait_is_told_where_to_look(capsys: pytest.CaptureFixture[str]) -> None:
    with TalkingClient(details()) as client:
        report_configuration(client, details("configuring"), wait=False, as_json=False)
    assert f"vigil agent show {ID}" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("status", "word"), [("configuring", "configuring"), ("failed", "not configured")]
)
def test_agents_that_are_not_ready_say_so(console: Console, status: str, word: str) -> None:
    agent = details(status, fault="No key." if status == "failed" else None)
    show_agents(console, [agent])
    nothing = CountsView(nodes=0, edges=0, analyses=0, advice=0)
    show_agent(console, agent, nothing, CallTotals())
    told = shown(console)
    assert told.count(word) == 2
    assert ("No key." in told) is (status == "failed")


def test_an_agent_in_trouble_while_it_is_made_says_so(console: Console) -> None:
    trying = configuration("pending", error="no answer from the model")
    agent = details("configuring", configuration=trying)
    show_agent(console, agent, CountsView(nodes=0, edges=0, analyses=0, advice=0), CallTotals())
    assert "no answer from the model" in shown(console)


def test_types_are_shown_with_properties_and_example(console: Console) -> None:
    show_types(console, TYPES)
    told = shown(console)
    for words in (
        *("1 node type", "Maker", "Who makes batteries.", "summary*", "new | old"),
        *('{"summary": "Makes [cells]."}', "Maker → any", "(by system)"),
    ):
        assert words in told


@pytest.fixture
def versions() -> list[PromptView]:
    return [
        PromptView(
            phase="observer", version=2, made_by="owner", created_at=START, prompt="Plan [boldly]."
        ),
        PromptView(phase="observer", version=0, made_by=None, created_at=None, prompt="Plan."),
    ]


def test_prompts_are_shown_with_their_version(console: Console, versions: list[PromptView]) -> None:
    show_prompts(console, versions)
    told = shown(console)
    assert "Plan [boldly]." in told
    assert "version 2," in told
    assert "by owner" in told
    assert "version 0\n" in told


def test_a_history_of_nothing_says_so(console: Console) -> None:
    show_history(console, [])
    assert "never been changed" in shown(console)


def test_a_paused_agent_is_not_said_to_run(console: Console) -> None:
    show_created(console, details(active=False), TYPES)
    assert "it is paused" in shown(console)
