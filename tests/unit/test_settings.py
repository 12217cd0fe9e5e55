"""Settings: secrets from files, the sandbox where nobody else is named, and how the engines are reached."""

import os
from pathlib import Path

import pytest

from shared.runtime.credentials import credentials_of
from shared.runtime.database_url import database_url_of
from shared.runtime.settings import Settings


def test_secrets_are_read_from_files_of_several_directories(
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
    found = (settings.nats_password, settings.database_password, settings.openai_api_key)
    assert [each and each.get_secret_value() for each in found] == [
        "for-nats",
        "for-postgres",
        "sk-from-file",
    ]
    assert settings.tavily_api_key is None
    assert "for-" not in repr(settings)


def test_the_environment_comes_before_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "openai_api_key").write_text("sk-from-file")
    monkeypatch.setenv("VIGIL_SECRETS_DIR", str(tmp_path))
    monkeypatch.setenv("OPENAI_API_KEY", "sk-from-environment")
    key = Settings().openai_api_key
    assert key is not None
    assert key.get_secret_value() == "sk-from-environment"


@pytest.mark.parametrize(
    ("given", "sandboxed"),
    [
        ({}, ["model", "search"]),
        ({"OPENAI_API_KEY": "sk-real"}, ["search"]),
        ({"OPENAI_BASE_URL": "http://localhost:8000/v1"}, ["search"]),
        ({"TAVILY_API_KEY": "tvly-real"}, ["model"]),
        ({"OPENAI_API_KEY": "sk-real", "TAVILY_API_KEY": "tvly-real"}, []),
    ],
)
def test_the_sandbox_answers_where_nobody_else_is_named(
    given: dict[str, str], sandboxed: list[str]
) -> None:
    settings = Settings.model_validate({**given, "sandbox_url": "http://sandbox:8080/"})
    assert settings.sandboxed == sandboxed
    assert (settings.model == "sandbox-reader") is ("model" in sandboxed)
    assert (settings.openai_base_url == "http://sandbox:8080/v1") is ("model" in sandboxed)
    assert (settings.tavily_base_url == "http://sandbox:8080") is ("search" in sandboxed)


def test_the_sandbox_makes_vectors_only_where_a_model_for_them_is_named() -> None:
    given = {"sandbox_url": "http://sandbox:8080/"}
    assert Settings.model_validate(given).embedding_model is None
    named = {**given, "embedding_model": "text-embedding-3-small"}
    assert Settings.model_validate(named).embedding_model == "sandbox-embedder"
    keyed = {**named, "openai_api_key": "sk-real"}
    assert Settings.model_validate(keyed).embedding_model == "text-embedding-3-small"


def test_without_a_sandbox_nothing_stands_in() -> None:
    settings = Settings()
    assert (settings.sandboxed, settings.openai_base_url) == ([], None)


@pytest.mark.parametrize(
    ("given", "url"),
    [
        ({"database_url": "postgres://db/vigil"}, "postgres://db/vigil"),
        (
            {
                "database_url": "postgresql://db/vigil?sslmode=verify-full",
                "database_password": "p/",
            },
            "postgresql://vigil_researcher:p%2F@db/vigil?sslmode=verify-full",
        ),
        (
            {"database_url": "postgresql://me@db/vigil", "database_password": "p"},
            "postgresql://me:p@db/vigil",
        ),
        (
            {"database_url": "postgresql://db/vigil", "database_user": "postgres"},
            "postgresql://postgres@db/vigil",
        ),
    ],
)
def test_postgres_is_reached_as_whoever_is_named(given: dict[str, str], url: str) -> None:
    assert database_url_of(Settings.model_validate(given), "researcher") == url


def test_nats_is_reached_as_the_actor_itself() -> None:
    credentials = credentials_of(Settings.model_validate({"nats_password": "hidden"}), "researcher")
    assert credentials.options() == {
        "inbox_prefix": "_INBOX_researcher",
        "user": "researcher",
        "password": "hidden",
    }
    assert "hidden" not in repr(credentials)
    assert "password" not in credentials_of(Settings(), "researcher").options()
