"""The keys of a cluster: made once, kept, readable by the one that shows them."""

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


def make(home: Path, *routes: str) -> int:
    return Keys(home / "keys").make(postgres_password_file=home / "pg" / "password", routes=routes)


def contents(home: Path) -> dict[str, str]:
    return {
        str(file.relative_to(home)): file.read_text() for file in home.rglob("*") if file.is_file()
    }


def section(home: Path, name: str) -> Any:
    text = (home / "keys/nats/users.conf").read_text()
    body = text.split(f"{name}: ", 1)[1]
    return json.JSONDecoder().raw_decode(body)[0]


def test_what_is_there_is_kept(tmp_path: Path) -> None:
    assert make(tmp_path, "nats-1:6222") == 24
    before = contents(tmp_path)
    assert make(tmp_path, "nats-1:6222") == 0
    assert contents(tmp_path) == before


def test_each_password_is_its_own_and_long(tmp_path: Path) -> None:
    make(tmp_path)
    passwords = {
        file: text for file, text in contents(tmp_path / "keys").items() if "password" in file
    }
    assert all(re.fullmatch(r"[\w-]{43}", password) for password in passwords.values())
    assert len(set(passwords.values())) == len(passwords)


def test_the_installations_own_commands_have_a_token(tmp_path: Path) -> None:
    make(tmp_path)
    tokens = {file: text for file, text in contents(tmp_path).items() if "token" in file}
    assert list(tokens) == ["keys/operator/vigil_token"]
    assert all(map(is_token, tokens.values()))


def test_the_superusers_password_is_known_to_postgres_and_migrate_only(tmp_path: Path) -> None:
    make(tmp_path)
    found = contents(tmp_path)
    password = found["pg/password"]
    knowing = {file for file, text in found.items() if password in text}
    assert knowing == {"pg/password", "keys/migrate/vigil_database_password"}


def test_a_password_of_ones_own_is_used(tmp_path: Path) -> None:
    own = tmp_path / "keys/researcher/vigil_nats_password"
    own.parent.mkdir(parents=True)
    own.write_text("my own one\n")
    make(tmp_path)
    users = section(tmp_path, "authorization")["users"]
    assert [user["password"] for user in users if user["user"] == "researcher"] == ["my own one"]
    own.chmod(0o600)
    own.write_text("two\nlines\n")
    with pytest.raises(BadInputError, match="more than one line"):
        make(tmp_path)


def test_routes_make_a_cluster_with_a_password_of_its_own(tmp_path: Path) -> None:
    make(tmp_path)
    assert "cluster" not in (tmp_path / "keys/nats/users.conf").read_text()
    make(tmp_path, "nats-1:6222", "nats-2:6222")
    cluster = section(tmp_path, "cluster")
    password = cluster["authorization"]["password"]
    assert cluster["routes"] == [
        f"nats-route://routes:{password}@{node}" for node in ("nats-1:6222", "nats-2:6222")
    ]


def test_files_are_closed_to_others(tmp_path: Path) -> None:
    make(tmp_path)
    for service in SERVICES:
        folder = tmp_path / "keys" / service.name
        for path, mode in [(folder, 0o750), *((file, 0o440) for file in folder.iterdir())]:
            found = path.stat()
            assert stat.S_IMODE(found.st_mode) == mode
            if os.geteuid() == 0:
                assert (found.st_uid, found.st_gid) == (service.uid, 10000)
    assert stat.S_IMODE((tmp_path / "keys/nats/users.conf").stat().st_mode) == 0o400


def test_keys_of_one_user_are_closed_to_everybody_else(tmp_path: Path) -> None:
    """The services of `vigil up` are all run by that user, so no uid of a container is given anything."""
    before = os.umask(0)
    try:
        keys = Keys(tmp_path / "keys", private=True)
        keys.make(postgres_password_file=None, routes=[])
    finally:
        os.umask(before)
    made = list(keys.directory.rglob("*"))
    assert {stat.S_IMODE(path.stat().st_mode) for path in made if path.is_file()} == {0o600}
    folders = [keys.directory, *(path for path in made if path.is_dir())]
    assert {stat.S_IMODE(path.stat().st_mode) for path in folders} == {0o700}
    assert {path.stat().st_uid for path in made} == {os.geteuid()}
    assert not any(path.name == "vigil_token" for path in made)


def test_a_login_is_a_services_own(tmp_path: Path) -> None:
    keys = Keys(tmp_path / "keys", private=True)
    keys.make(postgres_password_file=None, routes=[])
    login = keys.login_of("researcher")
    assert (login["database_user"], login["nats_user"]) == ("vigil_researcher", "researcher")
    own = {
        (keys.directory / "researcher" / name).read_text()
        for name in ("vigil_database_password", "vigil_nats_password")
    }
    assert {login["database_password"], login["nats_password"]} == own
    assert set(keys.login_of("migrate")) == {"nats_user", "nats_password"}
    assert keys.login_of("sandbox") == {}
    (keys.directory / "researcher" / "vigil_nats_password").unlink()
    with pytest.raises(BadInputError, match=r"missing or empty.*vigil up"):
        keys.login_of("researcher")
