"""What vigil doctor says of agents, corpora, installed providers and outages."""

import asyncio
from collections.abc import Generator, Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from pydantic import SecretStr

from cli import doctor
from cli.config.providers import Providers
from cli.doctor import check_agent_corpora, check_installed_providers, examine
from cli.doctor_agents import (
    LATE,
    LONG,
    agent_problems,
    dead_letter_problem,
    server_problems,
)
from cli.findings import Finding, Verdict, good
from cli.local.data_directory import DataDirectory
from sandbox.corpus.registry import add_corpus
from shared.runtime.settings import ModelProvider, Settings, load_settings
from shared.schemas.base import ProviderOutage, ProvidersResponse
from shared.schemas.iterations import SERVER_NOTE, UNREAD_CALLS
from shared.schemas.operations import DeadLetterResponse
from tests.support import responses
from tests.support.cli.garbage_api import ANSWERS, answering
from tests.support.model_server import Connection, model_server
from tests.support.responses import START, agent

NOW = START
SECOND = timedelta(seconds=1)


def iteration(status: str, started_ago: timedelta) -> dict[str, Any]:
    return {
        "id": UUID(int=1),
        "agent_id": UUID(int=7),
        "number": 3,
        "why": "due",
        "status": status,
        "stage": "researching",
        "errors": [],
        "started_at": NOW - started_ago,
        "ended_at": None,
    }


TROUBLE = {
    "iteration_number": 3,
    "step": "query",
    "index": 0,
    "attempts": 2,
    "error": "the model server answered 500",
    "retry_at": None,
}
LATE_RUN = {"next_run_at": NOW - LATE - SECOND, "run_requested_at": None}
IDLE = {"next_run_at": NOW + SECOND, "run_requested_at": None}


@pytest.mark.parametrize(
    ("changes", "words", "has_fix"),
    [
        (IDLE, None, False),
        (LATE_RUN | {"status": "configuring"}, None, False),
        (IDLE | {"status": "failed", "fault": "401 from x"}, "configuration failed: 401 from x", True),
        (IDLE | {"status": "failed"}, "configuration failed", True),
        (LATE_RUN, "was due 2 min 1 s ago and has not started", True),
        (LATE_RUN | {"active": False}, None, False),
        (LATE_RUN | {"next_run_at": NOW - LATE}, None, False),
        (IDLE | {"run_requested_at": NOW - LATE - SECOND}, "was due", True),
        (IDLE | {"run_requested_at": NOW - LATE - SECOND, "last_iteration": iteration("completed", LATE)}, None, False),
        (LATE_RUN | {"suspended_until": NOW + SECOND}, "a budget is used up", False),
        (LATE_RUN | {"suspended_until": NOW - SECOND}, "was due", True),
        (LATE_RUN | {"last_iteration": iteration("running", SECOND)}, None, False),
        (LATE_RUN | {"last_iteration": iteration("running", LONG)}, "running for 15 min (researching)", False),
        (LATE_RUN | {"last_iteration": iteration("running", LONG), "trouble": [TROUBLE]}, "answered 500", True),
    ],
)  # fmt: skip
def test_what_is_wrong_with_an_agent(
    changes: dict[str, Any], words: str | None, has_fix: bool
) -> None:
    problems = list(agent_problems([agent("Zinc", **changes)], NOW))
    if words is None:
        assert problems == []
        return
    ((text, fix),) = problems
    assert text.startswith("Zinc: ")
    assert words in text
    assert bool(fix) == has_fix


def dead_letter(error: str, retry_requested: bool = False) -> DeadLetterResponse:
    return responses.dead_letter(error=error, retry_requested_at=NOW if retry_requested else None)


def test_every_agent_is_named() -> None:
    agents = [agent("Zinc", **LATE_RUN), agent("Tin", **IDLE), agent("Gold", status="failed")]
    assert [text.split(":")[0] for text, _ in agent_problems(agents, NOW)] == ["Zinc", "Gold"]


def test_dead_letters_are_counted_and_the_newest_is_shown() -> None:
    assert dead_letter_problem([], 50) is None
    assert dead_letter_problem([dead_letter("is retried", retry_requested=True)], 50) is None
    letters = [dead_letter("page too large"), dead_letter("older")]
    text, fix = dead_letter_problem(letters, 50) or ("", "")
    assert text == "2 dead letters; the newest, of the researcher: page too large"
    assert "vigil dead-letters" in fix
    more, _ = dead_letter_problem(letters, 2) or ("", "")
    assert more.startswith("2 or more dead letters")


def test_what_model_servers_lack_is_listed_once() -> None:
    unread = f"{SERVER_NOTE}m {UNREAD_CALLS}."
    other = f"{SERVER_NOTE}n reports no usage."
    agents = [agent(server_notes=[unread]), agent(server_notes=[unread, other]), agent()]
    assert [(text, bool(fix)) for text, fix in server_problems(agents)] == [
        (unread, True), (other, False),
    ]  # fmt: skip


@pytest.fixture
def directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> DataDirectory:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    directory = DataDirectory(tmp_path / "data")
    directory.create()
    return directory


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "reports"
    folder.mkdir()
    (folder / "gold.md").write_text("# Gold\n\nGold is what Ghana exports.")
    return folder


def test_without_agents_of_their_own_corpus_there_is_nothing_to_say(
    directory: DataDirectory, folder: Path
) -> None:
    add_corpus(directory.corpora_file, folder, "anyone")  # of an agent that was deleted
    assert list(check_agent_corpora(directory, [agent("Gold"), agent("Zinc")])) == []


def test_a_folder_is_named_with_its_agents(directory: DataDirectory, folder: Path) -> None:
    corpus = add_corpus(directory.corpora_file, folder, "anyone")
    agents = [agent("Gold", corpus=corpus), agent("Zinc"), agent("Tin", corpus=corpus)]
    (finding,) = check_agent_corpora(directory, agents)
    assert (finding.name, finding.verdict) == ("corpus", Verdict.GOOD)
    assert finding.message == f"{folder}: 1 document, searched by Gold, Tin"


def test_a_folder_that_no_longer_exists_is_a_problem(
    directory: DataDirectory, folder: Path, tmp_path: Path
) -> None:
    corpus = add_corpus(directory.corpora_file, folder, "anyone")
    other = add_corpus(directory.corpora_file, tmp_path / "never-there", "anyone")
    folder.rename(tmp_path / "elsewhere")
    agents = [agent("Gold", corpus=corpus), agent("Zinc", corpus=other)]
    findings = list(check_agent_corpora(directory, agents))
    assert [finding.verdict for finding in findings] == [Verdict.BAD, Verdict.BAD]
    for finding, path, name in zip(
        findings, (folder, tmp_path / "never-there"), ("Gold", "Zinc"), strict=True
    ):
        assert str(path) in finding.message
        assert finding.message.endswith(f"searched by {name}")
        assert finding.fix == f"put the documents back into {path}"


def test_a_corpus_that_is_not_in_the_list_is_a_problem(directory: DataDirectory) -> None:
    (finding,) = check_agent_corpora(directory, [agent("Gold", corpus="reports-1234abcd")])
    assert finding.verdict is Verdict.BAD
    assert finding.message == (
        "the folder of reports-1234abcd, which Gold searches, is not in the list of corpora"
    )
    assert finding.fix


def test_a_damaged_list_is_a_problem(directory: DataDirectory) -> None:
    directory.corpora_file.write_text("{")
    (finding,) = check_agent_corpora(directory, [agent("Gold", corpus="reports-1234abcd")])
    assert finding.verdict is Verdict.BAD
    assert "cannot be read" in finding.message
    assert finding.fix == f"repair {directory.corpora_file}"


SHELLS: Mapping[str, Mapping[str, str]] = {
    "nothing": {},
    "keys": {"OPENAI_API_KEY": "k", "TAVILY_API_KEY": "t"},
    "other servers": {
        "OPENAI_BASE_URL": "http://127.0.0.1:1/v1",
        "OPENAI_API_KEY": "k",
        "TAVILY_API_KEY": "t",
        "TAVILY_BASE_URL": "http://127.0.0.1:1",
        "VIGIL_PROVIDERS": '{"other": {"base_url": "http://127.0.0.1:1/v1"}}',
        "OPENAI_MODEL": "other/model",
    },
}


def settings_of(shell: str, monkeypatch: pytest.MonkeyPatch) -> Settings:
    for name, value in SHELLS[shell].items():
        monkeypatch.setenv(name, value)
    return load_settings()


def findings(settings: Settings, installed: ProvidersResponse) -> dict[str, Finding]:
    answer = Providers.from_settings(settings, None)
    found = list(check_installed_providers(settings, answer, installed))
    assert len({each.name for each in found}) == len(found), "no subject has two lines"
    return {each.name: each for each in found}


@pytest.mark.parametrize("shell", SHELLS)
@pytest.mark.parametrize("answer", ["no JSON", "refused", "not found"])
def test_of_an_installation_with_keys(
    shell: str, answer: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with answering(ANSWERS[answer]) as url:
        installed = ProvidersResponse(
            model="big",
            model_server=f"{url}/v1",
            model_key_set=True,
            search_server=url,
            search_key_set=True,
        )
        found = findings(settings_of(shell, monkeypatch), installed)
    assert {name: each.verdict for name, each in found.items()} == dict.fromkeys(
        ("OPENAI_API_KEY", "TAVILY_API_KEY", "model server", "search service"), Verdict.GOOD
    )
    assert all("sandbox" not in each.message for each in found.values())
    assert url in found["model server"].message


@pytest.mark.parametrize("shell", SHELLS)
def test_of_an_installation_with_the_sandbox(shell: str, monkeypatch: pytest.MonkeyPatch) -> None:
    installed = ProvidersResponse(
        model="sandbox-reader",
        model_server="http://127.0.0.1:1/v1",
        model_key_set=True,
        search_server="http://127.0.0.1:1",
        search_key_set=True,
        model_is_sandbox=True,
        search_is_sandbox=True,
    )
    found = findings(settings_of(shell, monkeypatch), installed)
    assert len(found) == 4
    assert all("sandbox" in each.message for each in found.values())


@pytest.mark.parametrize("shell", SHELLS)
def test_a_server_that_does_not_answer_is_bad(shell: str, monkeypatch: pytest.MonkeyPatch) -> None:
    installed = ProvidersResponse(
        model="local",
        model_server="http://127.0.0.1:9/v1",
        model_key_set=False,
        search_server="http://127.0.0.1:9",
        search_key_set=True,
    )
    found = findings(settings_of(shell, monkeypatch), installed)
    assert "without a key" in found["OPENAI_API_KEY"].message
    for name in ("model server", "search service"):
        assert found[name].verdict == Verdict.BAD
        assert "http://127.0.0.1:9" in found[name].message


NAMES = ("model server", "provider c5", "provider c6", "search service")


def outage(kind: str, provider: str | None, *, is_quota: bool = False) -> ProviderOutage:
    return ProviderOutage.model_validate(
        {
            "kind": kind,
            "name": "it",
            "is_unavailable": True,
            "is_quota": is_quota,
            "since": datetime.now(UTC),
            "next_attempt_at": None,
            "error": "answered 500",
            "waiting_steps": 1,
            "provider": provider,
        }
    )


OUTAGES = {
    "model server": outage("model", None),
    "provider c5": outage("model", "c5"),
    "search service": outage("search", None, is_quota=True),
}


REFUSED = "query: Tavily refused the key: unknown key. Check TAVILY_API_KEY"


@pytest.mark.parametrize("shell", SHELLS)
def test_a_key_that_searches_are_refused_with_is_bad_although_the_server_answers(
    shell: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    last = {**iteration("failed", SECOND), "errors": [REFUSED]}
    agents = [agent("Zinc", last_iteration=last), agent("Tin")]
    with answering(ANSWERS["no JSON"]) as url:
        installed = ProvidersResponse(
            model="m",
            model_server=f"{url}/v1",
            model_key_set=True,
            search_server=url,
            search_key_set=True,
        )
        settings = settings_of(shell, monkeypatch)
        providers = Providers.from_settings(settings, None)
        found = [
            *doctor._view(doctor.ApiView(installed, agents, [])),
            *check_installed_providers(settings, providers, installed, agents),
        ]
    (search,) = [each for each in found if each.name == "search service"]
    assert (search.verdict, search.message) == (
        Verdict.BAD, f"in iteration 3 of Zinc: {REFUSED}",
    )  # fmt: skip
    assert "TAVILY_API_KEY" in search.fix


@pytest.mark.parametrize(
    ("status", "verdict", "words"),
    [
        (401, Verdict.BAD, "refuses the key in TAVILY_API_KEY"),
        (422, Verdict.GOOD, "answers"),
        (404, Verdict.BAD, "/search returned 404"),
    ],
)
async def test_the_key_is_checked_where_the_search_service_has_no_usage(
    status: int, verdict: Verdict, words: str
) -> None:
    async def respond(connection: Connection) -> None:
        await connection.head(404 if connection.path == "/usage" else status)
        connection.close()

    async with model_server(respond) as server:
        settings = Settings(tavily_base_url=server.url, tavily_api_key=SecretStr("k"))
        answering = Providers.from_settings(settings, None)
        found = await asyncio.to_thread(doctor.check_search_service, settings, answering)
    assert (found.verdict, words in found.message) == (verdict, True), found


@pytest.mark.parametrize(("away", "reported"), OUTAGES.items())
def test_a_provider_that_is_away_does_not_answer_beside(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, away: str, reported: ProviderOutage
) -> None:
    installed = ProvidersResponse(
        model="m",
        model_server="http://127.0.0.1:9/v1",
        model_key_set=False,
        search_server=None,
        search_key_set=False,
        outages=[reported],
    )

    def running(*_: object) -> Generator[Finding, None, doctor.ApiView]:
        yield doctor._outage(reported)
        return doctor.ApiView(installed, [], [])

    monkeypatch.setattr(doctor, "_running", running)
    monkeypatch.setattr(doctor, "check_model_server", lambda *_: good("model server", "answers"))
    monkeypatch.setattr(
        doctor, "check_search_service", lambda *_: good("search service", "answers")
    )
    monkeypatch.setattr(
        doctor, "check_named_provider", lambda _, name: good(f"provider {name}", "answers")
    )
    provider = ModelProvider(base_url="http://127.0.0.1:9/v1")
    settings = Settings(
        providers={"c5": provider, "c6": provider},
        model="m",
        openai_base_url=installed.model_server,
    )
    verdicts = [
        (each.name, each.verdict)
        for each in examine(settings, tmp_path, None, None)
        if each.name in NAMES
    ]
    expected = {name: Verdict.BAD if name == away else Verdict.GOOD for name in NAMES}
    assert dict(verdicts) == expected
    assert len(verdicts) == len(NAMES)
