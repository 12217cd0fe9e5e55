"""The certificates of a cluster: completeness, validity, and where each file is installed."""

import json
import os
import shutil
import stat
from pathlib import Path

import pytest
from typer.testing import CliRunner

from cli.app import build_app
from cli.cluster.keys import ALL, Keys, read_certificates
from cli.errors import BadInputError
from tests.support.certificates import authority, write_certificates

pytestmark = pytest.mark.skipif(
    shutil.which("openssl") is None, reason="openssl is needed to make the certificates"
)


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_certificates(tmp_path_factory.mktemp("certificates"))


@pytest.fixture
def certificates(template: Path, tmp_path: Path) -> Path:
    """Return a copy for one test."""
    home = tmp_path / "given"
    shutil.copytree(template, home)
    return home


def test_all_certificates_are_read(certificates: Path) -> None:
    assert read_certificates(certificates) == {
        name: (certificates / name).read_text() for name in ALL
    }


def test_without_certificates_there_is_no_tls(tmp_path: Path) -> None:
    assert read_certificates(tmp_path) == {}


@pytest.mark.parametrize("missing", ALL)
def test_a_missing_file_is_named(certificates: Path, missing: str) -> None:
    (certificates / missing).unlink()
    with pytest.raises(BadInputError, match=f"given: missing {missing};"):
        read_certificates(certificates)


def test_certificates_that_clients_would_reject_are_rejected_with_the_reason(
    tmp_path: Path,
) -> None:
    wrong_host = write_certificates(tmp_path / "named", postgres="DNS:another")
    with pytest.raises(BadInputError, match=r"postgres\.pem.*not valid for 'postgres'"):
        read_certificates(wrong_host)
    wrong_ca = write_certificates(tmp_path / "signed")
    shutil.copy(authority(tmp_path, "another").certificate, wrong_ca / "ca.pem")
    with pytest.raises(BadInputError, match=r"nats\.pem.*certificate verify failed"):
        read_certificates(wrong_ca)
    wrong_key = write_certificates(tmp_path / "paired")
    shutil.copy(wrong_key / "postgres.key", wrong_key / "nats.key")
    with pytest.raises(BadInputError, match=r"nats\.pem, with nats\.key.*MISMATCH"):
        read_certificates(wrong_key)
    (wrong_key / "nats.key").write_text("nothing of the kind")
    with pytest.raises(BadInputError, match=r"nats\.pem, with nats\.key"):
        read_certificates(wrong_key)


def run(home: Path, *options: str) -> str:
    arguments = [home / "keys", "--postgres-password-file", home / "pg/password", *options]
    result = CliRunner().invoke(build_app(), ["keys", *map(str, arguments)], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.output


def test_each_file_is_installed_and_removed_again(tmp_path: Path, certificates: Path) -> None:
    places = {
        "keys/ca.pem": 0o444,
        "keys/nats/nats.pem": 0o400,
        "keys/nats/nats.key": 0o400,
        "pg/postgres.pem": 0o400,
        "pg/postgres.key": 0o400,
    }
    users = tmp_path / "keys/nats/users.conf"
    assert "certificates" in run(tmp_path, "--secrets", str(certificates))
    for place, mode in places.items():
        file = tmp_path / place
        assert file.read_text() == (certificates / file.name).read_text()
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


def test_an_incomplete_set_changes_nothing(tmp_path: Path, certificates: Path) -> None:
    (certificates / "nats.key").unlink()
    result = CliRunner().invoke(
        build_app(), ["keys", str(tmp_path / "keys"), "--secrets", str(certificates)]
    )
    assert isinstance(result.exception, BadInputError)
    assert not (tmp_path / "keys").exists()


def test_without_our_own_postgres_its_certificate_is_not_installed(
    tmp_path: Path, certificates: Path
) -> None:
    Keys(tmp_path / "keys").make(
        postgres_password_file=None, routes=[], certificates=read_certificates(certificates)
    )
    assert not list(tmp_path.rglob("keys/**/postgres.*"))
