"""How the CLI shows the configuration of an agent."""

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
    show_prompts,
)
from cli.render.console import THEME, SafeConsole
from cli.render.graph import show_types
from cli.watch import report_configuration, wait_until_configured
from shared.schemas.agents import ConfigurationDetails, PromptResponse, TypesResponse
from shared.schemas.base import (
    AgentDetails,
    AnswerEvent,
    CallTotals,
    GraphCounts,
    InteractionResponse,
)
from shared.schemas.graph import EdgeTypeDetails, NodeTypeDetails
from tests.support.responses import ID, START, agent


def details(status: str = "ready", **values: Any) -> AgentDetails:
    defaults: dict[str, Any] = {"run_requested_at": None, "iterations_started": 0}
    return agent("Lithium [red]Eye", status=status, **(defaults | values))


def configuration(
    status: str = "running", answers: int | None = None, **values: Any
) -> ConfigurationDetails:
    answer = AnswerEvent(
        call_id=ID, message=None, finish_reason=None, input_tokens=None, output_tokens=None
    )
    interaction = None
    if answers is not None:
        interaction = InteractionResponse(
            id=ID,
            step_id=ID,
            phase="configuration",
            model="m",
            system_prompt="p",
            request={},
            events=[answer] * answers,
            created_at=START,
            completed_at=None,
        )
    defaults: dict[str, Any] = {
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
    return ConfigurationDetails(status=status, **(defaults | values))


class ScriptedClient(Client):
    """An API client that returns these configurations in order, or raises the error."""

    def __init__(self, agent: AgentDetails, *results: ConfigurationDetails | AwayError) -> None:
        super().__init__(Api("http://127.0.0.1:1"))
        self._agent = agent
        self._results = iter(results)

    def configuration(self, reference: str) -> ConfigurationDetails:
        result = next(self._results)
        if isinstance(result, AwayError):
            raise result
        return result

    def agent(self, reference: str) -> AgentDetails:
        return self._agent

    def types(self, reference: str) -> TypesResponse:
        return TYPES

    def is_sandbox(self) -> bool:
        return False


TYPES = TypesResponse(
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
    return SafeConsole(file=io.StringIO(), theme=THEME, width=120)


def output_of(console: Console) -> str:
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


@pytest.mark.parametrize(
    ("state", "expected"),
    [
        (configuration("pending"), "is waiting to be configured"),
        (configuration(answers=0), "its name and prompts"),
        (configuration(answers=1), "its types"),
        (configuration("pending", error="no answer"), "cannot be configured yet: no answer"),
    ],
)
def test_the_current_state_is_described_in_one_line(
    state: ConfigurationDetails, expected: str
) -> None:
    assert expected in describe_configuration("Lithium", state)


def test_the_time_of_the_next_attempt_is_shown() -> None:
    soon = datetime.now(UTC) + timedelta(minutes=5)
    assert "next attempt in 5 min" in describe_configuration(
        "Lithium", configuration("pending", error="no answer", retry_at=soon)
    )


def test_waiting_continues_while_the_api_is_unavailable() -> None:
    messages: list[str] = []
    client = ScriptedClient(
        details(), AwayError("away"), configuration(answers=0), configuration("completed", 2)
    )
    with client:
        assert (
            wait_until_configured(client, details("configuring"), messages.append).status == "ready"
        )
    assert messages == ["waiting for the API", "configuring Lithium [red]Eye: its name and prompts"]


def test_waiting_ends_at_the_deadline() -> None:
    with ScriptedClient(details("configuring")) as client:
        agent = wait_until_configured(client, details("configuring"), lambda _: None, lambda: True)
    assert agent.status == "configuring"


def test_a_completed_configuration_is_reported(capsys: pytest.CaptureFixture[str]) -> None:
    ready = details(prompts=dict.fromkeys("abcdef", "…"))
    with ScriptedClient(ready, configuration("completed", 2)) as client:
        report_configuration(client, details("configuring"), wait=True, as_json=False)
    output = capsys.readouterr().out
    assert "6 prompts, 1 node type, 1 edge type" in output
    assert 'vigil agent types "Lithium [red]Eye"' in output


def test_a_failed_configuration_is_reported_with_instructions(
    capsys: pytest.CaptureFixture[str],
) -> None:
    failed = details("failed", fault="No key. Ask again: vigil agent configure")
    with (
        ScriptedClient(failed, configuration("failed", error="no key")) as client,
        pytest.raises(CommandError, match=r"No key\. Ask again"),
    ):
        report_configuration(client, details("configuring"), wait=True, as_json=False)
    assert capsys.readouterr().out == ""


def test_an_agent_with_built_in_prompts_is_reported_as_configured(
    capsys: pytest.CaptureFixture[str],
) -> None:
    result = configuration("completed", 4)
    ready = details(
        prompts=dict.fromkeys("abcdef", "…"),
        fault="The model's prompts could not be used.",
        configuration=result,
    )
    with ScriptedClient(ready, result) as client:
        report_configuration(client, details("configuring"), wait=True, as_json=False)
    output = capsys.readouterr()
    assert "6 prompts" in output.out
    assert "could not be used" in output.err


def test_without_waiting_the_command_shows_where_to_look(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with ScriptedClient(details()) as client:
        report_configuration(client, details("configuring"), wait=False, as_json=False)
    output = capsys.readouterr().out
    assert 'vigil agent show "Lithium [red]Eye"' in output
    assert str(ID) not in output


@pytest.mark.parametrize(
    ("status", "word"), [("configuring", "configuring"), ("failed", "configuration failed")]
)
def test_an_agent_that_is_not_ready_is_shown_as_such(
    console: Console, status: str, word: str
) -> None:
    agent = details(status, fault="No key." if status == "failed" else None)
    show_agents(console, [agent])
    nothing = GraphCounts(nodes=0, edges=0, analyses=0, advice=0)
    show_agent(console, agent, nothing, CallTotals())
    output = output_of(console)
    assert output.count(word) == 2
    assert ("No key." in output) is (status == "failed")


def test_an_error_during_configuration_is_shown(console: Console) -> None:
    retry = configuration("pending", error="no answer from the model")
    agent = details("configuring", configuration=retry)
    show_agent(console, agent, GraphCounts(nodes=0, edges=0, analyses=0, advice=0), CallTotals())
    assert "no answer from the model" in output_of(console)


def test_types_are_shown_with_properties_and_example(console: Console) -> None:
    show_types(console, [*TYPES.node_types, *TYPES.edge_types])
    output = output_of(console)
    for words in (
        *("Maker", "Who makes batteries.", "summary: string", "one of new, old, optional"),
        *('{"summary": "Makes [cells]."}', "from Maker to any", "(by system)"),
    ):
        assert words in output


@pytest.fixture
def versions() -> list[PromptResponse]:
    return [
        PromptResponse(
            phase="observer", version=2, made_by="owner", created_at=START, prompt="Plan [boldly]."
        ),
        PromptResponse(phase="observer", version=0, made_by=None, created_at=None, prompt="Plan."),
    ]


def test_prompts_are_shown_with_their_version(
    console: Console, versions: list[PromptResponse]
) -> None:
    show_prompts(console, versions)
    output = output_of(console)
    assert "Plan [boldly]." in output
    assert "version 2," in output
    assert "by owner" in output
    assert "version 0\n" in output


def test_a_paused_agent_is_shown_as_paused(console: Console) -> None:
    show_created(console, details(active=False), TYPES)
    assert "it is paused" in output_of(console)
