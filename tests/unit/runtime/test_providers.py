"""Services log which of the providers they use are replaced by the sandbox."""

from collections.abc import Callable

import pytest
from structlog.testing import capture_logs

from services.api import app as api
from shared.runtime.settings import Settings
from tests.support.running_services import BUILDERS

NONE: list[str] = []
MODEL = ["model"]


@pytest.mark.parametrize(
    ("service", "providers"),
    [
        ("scheduler", NONE),
        ("observer", MODEL),
        ("researcher", ["model", "search"]),
        ("aggregator", NONE),
        ("analyzer", MODEL),
        ("adviser", MODEL),
        ("notifier", NONE),
        ("api", NONE),
    ],
)
def test_a_service_logs_the_sandboxed_providers_that_it_uses(
    service: str, providers: list[str]
) -> None:
    builders: dict[str, Callable[[Settings], object]] = {**BUILDERS, "api": api.build}
    with capture_logs() as lines:
        builders[service](Settings.model_validate({"sandbox_url": "http://sandbox:8080"}))
    assert [line["instead_of"] for line in lines if "sandbox" in line["event"]] == providers


def test_with_provider_keys_nothing_is_logged() -> None:
    keys = {"openai_api_key": "sk-real", "tavily_api_key": "tvly-real"}
    settings = Settings.model_validate({**keys, "sandbox_url": "http://sandbox:8080"})
    with capture_logs() as lines:
        BUILDERS["researcher"](settings)
    assert lines == []
