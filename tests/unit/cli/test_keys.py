"""The keys of a cluster: created once, never replaced, readable only by their service."""

import json
import os
import re
import stat
from pathlib import Path
from typing import Any

import pytest

from cli.cluster.keys import Keys
from cli.errors import BadInputError
from shared.accounts.secrets import is_token
from shared.runtime.identity import SERVICES


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
