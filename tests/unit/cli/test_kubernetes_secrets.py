"""`vigil keys --kubernetes`: each service's keys as a Secret, and nothing else."""

import base64
import json
import os
from pathlib import Path

import pytest

from cli.cluster.keys import Keys
from cli.cluster.secrets import DATABASE_OWNER, write_secrets
from cli.errors import BadInputError
from shared.runtime.identity import SERVICES
from shared.runtime.settings import Settings
from tests.support.backup import start_vigil


def make_secrets(home: Path, *routes: str) -> dict[str, dict[str, str]]:
    """Returns the decoded data of each Secret by its name."""
    keys = Keys(home / "keys")
    keys.make(postgres_password_file=home / "pg" / "password", routes=routes)
    (home / "providers").mkdir(exist_ok=True)
    (home / "providers" / "openai_api_key").write_text("sk-test\n")
    keys.copy_provider_keys(home / "providers")
    write_secrets(home / "keys", home / "secrets.json")
    manifest = json.loads((home / "secrets.json").read_text())
    assert (manifest["apiVersion"], manifest["kind"]) == ("v1", "List")
    return {
        secret["metadata"]["name"]: {
            name: base64.b64decode(text).decode() for name, text in secret["data"].items()
        }
        for secret in manifest["items"]
    }


def test_each_service_has_a_secret_with_the_files_of_its_folder(tmp_path: Path) -> None:
    secrets = make_secrets(tmp_path)
    for service in SERVICES:
        folder = tmp_path / "keys" / service.name
        expected = {file.name: file.read_text() for file in folder.iterdir()}
        assert secrets.get(f"{service.name}-keys", {}) == expected
    names = {f"{service.name}-keys" for service in SERVICES if service.name != "sandbox"}
    assert set(secrets) == {*names, "nats-keys", "postgres-keys"}


def test_only_services_that_use_a_provider_have_its_key(tmp_path: Path) -> None:
    secrets = make_secrets(tmp_path)
    assert secrets["researcher-keys"]["openai_api_key"] == "sk-test"
    assert "openai_api_key" not in secrets["scheduler-keys"]


def test_further_providers_and_the_gateway_key_reach_only_who_uses_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "providers").mkdir()
    providers = '{"local": {"base_url": "http://127.0.0.1:1/v1",\n "api_key": "sk-local"}}'
    (tmp_path / "providers" / "vigil_providers").write_text(f"{providers}\n")
    (tmp_path / "providers" / "vigil_fetch_gateway_key").write_text("gateway\n")
    secrets = make_secrets(tmp_path)
    assert {name for name, files in secrets.items() if "vigil_providers" in files} == {
        f"{name}-keys"
        for name in ("observer", "researcher", "analyzer", "adviser", "assistant", "api")
    }
    assert {name for name, files in secrets.items() if "vigil_fetch_gateway_key" in files} == {
        "observer-keys"
    }
    monkeypatch.setenv("VIGIL_SECRETS_DIR", str(tmp_path / "keys" / "observer"))
    local = Settings().providers["local"]
    assert local.api_key is not None
    assert local.api_key.get_secret_value() == "sk-local"


def test_who_fetches_pages_learns_whether_there_is_a_key_of_the_search_service(
    tmp_path: Path,
) -> None:
    def search_is_sandbox() -> bool:
        files = make_secrets(tmp_path)["observer-keys"]
        assert "tavily_api_key" not in files
        given = files.get("vigil_search_given", "")
        return Settings(sandbox_url="http://sandbox:8080", search_given=given).search_is_sandbox

    assert search_is_sandbox()
    (tmp_path / "providers" / "tavily_api_key").write_text("tvly-test\n")
    assert not search_is_sandbox()
    (tmp_path / "providers" / "tavily_api_key").unlink()
    assert search_is_sandbox()


def test_nats_gets_its_users_and_no_other_file(tmp_path: Path) -> None:
    secrets = make_secrets(tmp_path, "nats-0:6222", "nats-1:6222")
    assert set(secrets["nats-keys"]) == {"users.conf"}
    assert "nats-1:6222" in secrets["nats-keys"]["users.conf"]


def test_postgres_and_the_migration_share_the_owners_password(tmp_path: Path) -> None:
    secrets = make_secrets(tmp_path)
    assert secrets["postgres-keys"] == {
        "username": DATABASE_OWNER,
        "password": secrets["migrate-keys"]["vigil_database_password"],
    }


def test_only_this_user_can_read_the_file_and_it_is_replaced(tmp_path: Path) -> None:
    first = make_secrets(tmp_path)
    (tmp_path / "secrets.json").chmod(0o644)
    assert make_secrets(tmp_path) == first
    assert (tmp_path / "secrets.json").stat().st_mode & 0o777 == 0o600


def test_a_file_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    Keys(tmp_path / "keys").make(postgres_password_file=None, routes=())
    with pytest.raises(BadInputError, match="missing/secrets"):
        write_secrets(tmp_path / "keys", tmp_path / "missing" / "secrets.json")


def test_a_device_is_written_to_and_not_replaced(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    Keys(tmp_path / "keys").make(postgres_password_file=None, routes=[])
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    try:
        write_secrets(tmp_path / "keys", pipe)
        assert pipe.is_fifo()
        assert os.read(reader, 4096).startswith(b"{")
    finally:
        os.close(reader)


@pytest.mark.parametrize("content", [None, "precious"])
def test_a_link_is_refused(tmp_path: Path, content: str | None) -> None:
    Keys(tmp_path / "keys").make(postgres_password_file=None, routes=[])
    link, target = tmp_path / "link", tmp_path / "target"
    if content is not None:
        target.write_text(content)
    link.symlink_to(target)
    with pytest.raises(BadInputError, match="is a link"):
        write_secrets(tmp_path / "keys", link)
    assert link.is_symlink()
    assert (target.read_text() if target.exists() else None) == content


def test_a_pipe_gets_the_secrets_and_nothing_else(tmp_path: Path) -> None:
    command = ("keys", tmp_path / "keys", "--kubernetes", "/dev/stdout")
    process = start_vigil(*command, cwd=tmp_path)
    out, errors = process.communicate(timeout=60)
    assert process.returncode == 0, errors
    assert json.loads(out)["kind"] == "List"
    assert b"New passwords in" in errors
    assert b"Secrets to /dev/stdout.\n" in errors


def test_messages_about_a_file_are_printed(tmp_path: Path) -> None:
    process = start_vigil("keys", tmp_path / "keys", "--kubernetes", "x.json", cwd=tmp_path)
    out, errors = process.communicate(timeout=60)
    assert (process.returncode, errors) == (0, b"")
    assert out.endswith(b"Secrets to x.json; delete it when they are applied.\n")
