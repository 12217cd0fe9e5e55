"""The certificates that a cluster is given: all of them, such as its clients will take, and each where it belongs."""

import json
import os
import shutil
import stat
from pathlib import Path

import pytest
from typer.testing import CliRunner

from cli.cluster.keys import ALL, Keys, read_certificates
from cli.errors import BadInputError
from cli.main import build_app
from tests.support.certificates import authority, certified

pytestmark = pytest.mark.skipif(
    shutil.which("openssl") is None, reason="openssl, which makes the certificates, is not here"
)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return certified(tmp_path_factory.mktemp("certificates"))


@pytest.fixture
def given(made: Path, tmp_path: Path) -> Path:
    """A copy of a test's own."""
    home = tmp_path / "given"
    shutil.copytree(made, home)
    return home


def test_all_are_read(given: Path) -> None:
    assert read_certificates(given) == {name: (given / name).read_text() for name in ALL}


def test_none_is_no_tls(tmp_path: Path) -> None:
    assert read_certificates(tmp_path) == {}


@pytest.mark.parametrize("missing", ALL)
def test_one_that_is_missing_is_named(given: Path, missing: str) -> None:
    (given / missing).unlink()
    with pytest.raises(BadInputError, match=f"given: {missing} is missing"):
        read_certificates(given)


def test_what_clients_would_refuse_is_refused_with_their_reason(tmp_path: Path) -> None:
    for_another = certified(tmp_path / "named", postgres="DNS:another")
    with pytest.raises(BadInputError, match=r"postgres\.pem.*not valid for 'postgres'"):
        read_certificates(for_another)
    by_another = certified(tmp_path / "signed")
    shutil.copy(authority(tmp_path, "another").certificate, by_another / "ca.pem")
    with pytest.raises(BadInputError, match=r"nats\.pem.*certificate verify failed"):
        read_certificates(by_another)
    with_another = certified(tmp_path / "paired")
    shutil.copy(with_another / "postgres.key", with_another / "nats.key")
    with pytest.raises(BadInputError, match=r"nats\.pem, with nats\.key.*MISMATCH"):
        read_certificates(with_another)
    (with_another / "nats.key").write_text("nothing of the kind")
    with pytest.raises(BadInputError, match=r"nats\.pem, with nats\.key"):
        read_certificates(with_another)


def run(home: Path, *options: str) -> str:
    words = [home / "keys", "--postgres-password-file", home / "pg/password", *options]
    result = CliRunner().invoke(build_app(), ["keys", *map(str, words)], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.output


def test_each_is_laid_where_it_belongs_and_taken_away_again(tmp_path: Path, given: Path) -> None:
    places = {
        "keys/ca.pem": 0o444,
        "keys/nats/nats.pem": 0o400,
        "keys/nats/nats.key": 0o400,
        "pg/postgres.pem": 0o400,
        "pg/postgres.key": 0o400,
    }
    users = tmp_path / "keys/nats/users.conf"
    assert "certificates" in run(tmp_path, "--given", str(given))
    for place, mode in places.items():
        file = tmp_path / place
        assert file.read_text() == (given / file.name).read_text()
        assert stat.S_IMODE(file.stat().st_mode) == mode
        assert file.stat().st_uid == os.geteuid()
    _, _, tls = users.read_text().partition("\ntls: ")
    assert json.loads(tls) == {
        "cert_file": "/etc/nats/keys/nats.pem",
        "key_file": "/etc/nats/keys/nats.key",
        "handshake_first": True,
        "timeout": 10,
    }
    run(tmp_path)
    assert not [place for place in places if (tmp_path / place).exists()]
    assert "\ntls" not in users.read_text()


def test_a_bad_one_changes_nothing(tmp_path: Path, given: Path) -> None:
    (given / "nats.key").unlink()
    result = CliRunner().invoke(
        build_app(), ["keys", str(tmp_path / "keys"), "--given", str(given)]
    )
    assert isinstance(result.exception, BadInputError)
    assert not (tmp_path / "keys").exists()


def test_without_a_postgres_of_ours_its_certificate_goes_nowhere(
    tmp_path: Path, given: Path
) -> None:
    Keys(tmp_path / "keys").make(
        postgres_password_file=None, routes=[], certificates=read_certificates(given)
    )
    assert not list(tmp_path.rglob("keys/**/postgres.*"))
