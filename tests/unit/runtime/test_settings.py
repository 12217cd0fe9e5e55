"""Settings: values, unusable ones, providers and logging."""

import os
import subprocess
import sys
from collections.abc import Callable, Iterable
from datetime import timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any, Final, get_args

import pytest
from pydantic import ValidationError
from structlog.testing import capture_logs

from cli.config.providers import read_settings
from cli.errors import BadInputError
from cli.local.processes import open_log, tail
from services.api import app as api
from shared.runtime import process
from shared.runtime.credentials import build_database_url, build_nats_credentials
from shared.runtime.settings import MAX_NUMBER, Settings
from tests.support.case_files import read_cases
from tests.support.hostile import DATES, MANY_DIGITS, NUMBERS
from tests.support.running_services import BUILDERS
from tests.support.warm_processes import run_module

CASES = read_cases(__file__)


def test_secrets_are_read_from_several_directories(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own, shared = tmp_path / "own", tmp_path / "shared"
    for file, text in (
        (own / "vigil_nats_password", "for-nats"),
        (own / "vigil_database_password", "for-postgres\n"),
        (shared / "openai_api_key", "sk-from-file\n"),
        (shared / "tavily_api_key", "\n"),
    ):
        file.parent.mkdir(exist_ok=True)
        file.write_text(text)
    monkeypatch.setenv("VIGIL_SECRETS_DIR", f"{own}{os.pathsep}{shared}")
    settings = Settings()
    secrets = (settings.nats_password, settings.database_password, settings.openai_api_key)
    assert [secret and secret.get_secret_value() for secret in secrets] == [
        "for-nats",
        "for-postgres",
        "sk-from-file",
    ]
    assert settings.tavily_api_key is None
    assert "for-" not in repr(settings)


def test_the_environment_takes_precedence_over_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "openai_api_key").write_text("sk-from-file")
    monkeypatch.setenv("VIGIL_SECRETS_DIR", str(tmp_path))
    monkeypatch.setenv("OPENAI_API_KEY", "sk-from-environment")
    key = Settings().openai_api_key
    assert key is not None
    assert key.get_secret_value() == "sk-from-environment"


@pytest.mark.parametrize(
    ("environment", "sandboxed"), CASES["the_sandbox_replaces_providers_without_a_key_or_url"]
)
def test_the_sandbox_replaces_providers_without_a_key_or_url(
    environment: dict[str, str], sandboxed: list[str]
) -> None:
    settings = Settings.model_validate({**environment, "sandbox_url": "http://sandbox:8080/"})
    assert settings.sandboxed_providers == sandboxed
    assert (settings.model == "sandbox-reader") is ("model" in sandboxed)
    assert (settings.openai_base_url == "http://sandbox:8080/v1") is ("model" in sandboxed)
    assert (settings.tavily_base_url == "http://sandbox:8080") is ("search" in sandboxed)


def test_the_sandbox_makes_no_embeddings() -> None:
    values = {"sandbox_url": "http://sandbox:8080/"}
    assert Settings.model_validate(values).embedding_model is None
    with_model = {**values, "embedding_model": "text-embedding-3-small"}
    assert Settings.model_validate(with_model).embedding_model is None
    with_key = {**with_model, "openai_api_key": "sk-real"}
    assert Settings.model_validate(with_key).embedding_model == "text-embedding-3-small"


def test_without_a_sandbox_url_no_provider_is_replaced() -> None:
    settings = Settings()
    assert (settings.sandboxed_providers, settings.openai_base_url) == ([], None)


@pytest.mark.parametrize(("values", "url"), CASES["the_database_url_has_the_configured_user"])
def test_the_database_url_has_the_configured_user(values: dict[str, str], url: str) -> None:
    assert build_database_url(Settings.model_validate(values), "researcher") == url


def test_nats_credentials_are_those_of_the_service() -> None:
    credentials = build_nats_credentials(
        Settings.model_validate({"nats_password": "hidden"}), "researcher"
    )
    assert credentials.options() == {
        "inbox_prefix": "_INBOX_researcher",
        "user": "researcher",
        "password": "hidden",
    }
    assert "hidden" not in repr(credentials)
    assert "password" not in build_nats_credentials(Settings(), "researcher").options()


@pytest.mark.parametrize(
    ("value", "cap"),
    [
        (None, Decimal(5)),
        ("", Decimal(5)),
        ("none", None),
        ("None", None),
        ("0", Decimal(0)),
        ("2.5", Decimal("2.5")),
    ],
)
def test_agents_have_a_daily_cap_by_default(
    monkeypatch: pytest.MonkeyPatch, value: str | None, cap: Decimal | None
) -> None:
    if value is not None:
        monkeypatch.setenv("VIGIL_BUDGET_USD_PER_DAY", value)
    assert Settings().budget_usd_per_day == cap


@pytest.mark.parametrize("value", ["NaN", "-1", "much"])
def test_an_invalid_cap_is_refused(monkeypatch: pytest.MonkeyPatch, value: str) -> None:
    monkeypatch.setenv("VIGIL_BUDGET_USD_PER_DAY", value)
    with pytest.raises(ValidationError, match="budget_usd_per_day"):
        Settings()


def number_settings() -> list[str]:
    """Return the names of the settings that are numbers."""
    kinds = (int, float, Decimal)
    fields = Settings.model_fields.items()
    return [
        name
        for name, field in fields
        if field.annotation in kinds or set(get_args(field.annotation)) & set(kinds)
    ]


def accepted_values(
    text: str, names: Iterable[str], monkeypatch: pytest.MonkeyPatch
) -> dict[str, Any]:
    """Sets all these settings to `text`. Returns the values of those that accept it."""
    variables = {name: f"VIGIL_{name.upper()}" for name in names}
    for variable in variables.values():
        monkeypatch.setenv(variable, text)
    try:
        settings = Settings()
    except ValidationError as error:
        for name in {str(each["loc"][0]) for each in error.errors()}:
            monkeypatch.delenv(variables.pop(name))
        settings = Settings()
    return {name: getattr(settings, name) for name in variables}


def fits(name: str, value: int | float | Decimal) -> bool:
    try:
        timedelta(seconds=float(value) if name.endswith("_seconds") else 0)
    except (OverflowError, ValueError):
        return False
    return -1 <= value <= MAX_NUMBER


def test_numbers_fit_timedeltas_and_database_columns(monkeypatch: pytest.MonkeyPatch) -> None:
    accepted = [
        (name, value, text)
        for text in (*NUMBERS, *DATES)
        for name, value in accepted_values(text, number_settings(), monkeypatch).items()
        if value is not None
    ]
    assert {name for name, _, _ in accepted} == set(number_settings())
    assert [each for each in accepted if not fits(*each[:2])] == []


@pytest.mark.parametrize(
    "prices",
    [
        '{"a": [NaN, 1]}',
        '{"a": [1e999, 1]}',
        '{"a": [-1, 1]}',
        '{"a": [1, 10001]}',
        f'{{"a": [{MANY_DIGITS}, 1]}}',
        '{"a":',
        "{}x",
    ],
)
def test_invalid_prices_are_refused_with_a_message(
    prices: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("VIGIL_PRICES", prices)
    with pytest.raises(BadInputError, match=r"(?i)prices"):
        read_settings()


def test_a_setting_nested_too_deeply_is_refused_with_a_message(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("VIGIL_PRICES", "[" * 100_000)
    with pytest.raises(BadInputError, match="recursion"):
        read_settings()


def test_a_service_exits_and_names_an_invalid_setting(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("VIGIL_CONNECTIONS", "many")
    with pytest.raises(SystemExit) as exit_:
        process.begin("observer")
    assert exit_.value.code == 2
    message = capsys.readouterr().err
    assert message.startswith("vigil observer: a setting in the environment is invalid: ")
    assert "VIGIL_CONNECTIONS: " in message
    assert "'many'" in message
    assert len(message.splitlines()) == 1


@pytest.mark.parametrize("given", ["key /dev/null", " /run/keys/tavily"])
def test_a_service_without_the_search_key_knows_that_there_is_one(
    monkeypatch: pytest.MonkeyPatch, given: str
) -> None:
    monkeypatch.setenv("VIGIL_SANDBOX_URL", "http://sandbox:8080")
    assert Settings().search_is_sandbox
    monkeypatch.setenv("VIGIL_SEARCH_GIVEN", " /dev/null")
    assert Settings().search_is_sandbox
    monkeypatch.setenv("VIGIL_SEARCH_GIVEN", given)
    settings = Settings()
    assert (settings.search_is_sandbox, settings.model_is_sandbox) == (False, True)


UNUSABLE: Final = CASES["unusable"]


@pytest.mark.parametrize(
    ("service", "settings", "named"), UNUSABLE, ids=lambda each: str(each)[:40]
)
def test_it_says_so_in_one_line(service: str, settings: dict[str, str], named: str) -> None:
    environment = {"PATH": os.environ["PATH"], "VIGIL_DATABASE_URL": "postgresql://127.0.0.1:1/x"}
    ended = run_module(f"services.{service}", [], environment | settings, timeout_seconds=60)
    assert (ended.returncode, "Traceback" in ended.stderr) == (2, False), ended.stderr
    [line] = ended.stderr.splitlines()
    assert line.startswith(f"vigil {service}: ")
    assert named in line


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


PROGRAM = "from shared.runtime.logging import logger; logger('any').warning('gone for a moment')"


def test_without_configuration_logs_go_to_standard_error() -> None:
    """A command's standard output may be read by a program."""
    process = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True)
    assert (process.returncode, process.stdout) == (0, "")
    assert "gone for a moment" in process.stderr


def test_a_log_is_appended_to(tmp_path: Path) -> None:
    path = tmp_path / "made" / "service.log"
    for line in (b"one\n", b"two\n"):
        with open_log(path) as log:
            log.write(line)
    assert path.read_bytes() == b"one\ntwo\n"


def test_a_large_log_is_rotated_and_one_old_log_is_retained(tmp_path: Path) -> None:
    path = tmp_path / "service.log"
    for content in (b"first", b"second", b"third"):
        with open_log(path, rotate_bytes=4) as log:
            log.write(content)
    assert path.read_bytes() == b"third"
    assert {file.name: file.read_bytes() for file in tmp_path.iterdir()} == {
        "service.log": b"third",
        "service.log.1": b"second",
    }


def test_the_tail_is_short_and_of_this_run_only(tmp_path: Path) -> None:
    path = tmp_path / "service.log"
    assert tail(path) == ""
    path.write_text("old\nnew\n")
    assert tail(path, since=4) == "new"
    path.write_text("x" * 10_000)
    assert len(tail(path)) == 2000
