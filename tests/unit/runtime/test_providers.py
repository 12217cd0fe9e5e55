"""Who says that the sandbox answers: those services that ask it, of what they ask."""

from collections.abc import Callable

import pytest
from structlog.testing import capture_logs

from services.api import app as api
from shared.runtime.settings import Settings
from tests.support.actors import BUILDERS

NOBODY: list[str] = []
MODEL = ["model"]


@pytest.mark.parametrize(
    ("service", "told"),
    [
        ("scheduler", NOBODY),
        ("observer", MODEL),
        ("researcher", ["model", "search"]),
        ("aggregator", NOBODY),
        ("analyzer", MODEL),
        ("adviser", MODEL),
        ("notifier", NOBODY),
        ("api", NOBODY),
    ],
)
def test_a_service_says_it_of_what_it_uses(service: str, told: list[str]) -> None:
    built: dict[str, Callable[[Settings], object]] = {**BUILDERS, "api": api.build}
    with capture_logs() as lines:
        built[service](Settings.model_validate({"sandbox_url": "http://sandbox:8080"}))
    assert [line["instead_of"] for line in lines if "sandbox" in line["event"]] == told


def test_with_keys_of_its_own_nothing_is_said() -> None:
    keys = {"openai_api_key": "sk-real", "tavily_api_key": "tvly-real"}
    settings = Settings.model_validate({**keys, "sandbox_url": "http://sandbox:8080"})
    with capture_logs() as lines:
        BUILDERS["researcher"](settings)
    assert lines == []
