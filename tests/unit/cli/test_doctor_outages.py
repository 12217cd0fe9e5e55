"""`vigil doctor` has one verdict for each provider: what the installation says of it, before its list of models."""

from collections.abc import Generator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from cli import doctor
from cli.doctor import examine
from cli.findings import Finding, Verdict, good
from shared.runtime.settings import ModelProvider, Settings
from shared.schemas.base import ProviderOutage, ProvidersResponse

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

    def running(*_: object) -> Generator[Finding, None, ProvidersResponse]:
        yield doctor._outage(reported)
        return installed

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
