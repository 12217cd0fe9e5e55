"""`vigil doctor` describes the providers of the running installation, whatever the shell has set."""

from collections.abc import Mapping

import pytest

from cli.config.providers import Providers
from cli.doctor import check_installed_providers
from cli.findings import Finding, Verdict
from shared.runtime.settings import Settings, load_settings
from shared.schemas.base import ProvidersResponse
from tests.support.cli.garbage_api import ANSWERS, answering

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
