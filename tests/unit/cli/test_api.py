"""Which API a command uses, and that it never sends the token of another installation."""

import io
import json
import os
import stat
from pathlib import Path

import pytest

from cli.client.target import Address, Api, read_token
from cli.config.discovery import api_url
from cli.config.profiles import Profile, Profiles, profiles_file
from cli.errors import BadInputError, CommandError, NothingRunsError
from cli.local.data_directory import DataDirectory
from shared.accounts.secrets import new_token
from tests.support.cli.running import running_installation

REMOTE_URL = "https://vigil.example"
LOCAL_URL = running_installation().api_url


@pytest.fixture(autouse=True)
def _home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))


@pytest.fixture
def remote_profile() -> Profile:
    profile = Profile(url=REMOTE_URL, token=new_token())
    Profiles(profiles={"there": profile}).write()
    return profile


def test_without_any_api_the_error_explains_how_to_start(tmp_path: Path) -> None:
    with pytest.raises(NothingRunsError, match="vigil up"):
        api_url(Address(), tmp_path)


def test_the_local_installation_is_used_with_its_own_token(
    tmp_path: Path, remote_profile: Profile
) -> None:
    data = DataDirectory(tmp_path / "data")
    data.create()
    with data.locked(), data.announced(running_installation()):
        local_token = data.renew_token()
        assert stat.S_IMODE(data.token_file.stat().st_mode) == 0o600
        assert api_url(Address(), data.root) == Api(LOCAL_URL, local_token)
        assert api_url(Address(url=f"{LOCAL_URL}/"), data.root) == Api(LOCAL_URL, local_token)
        assert api_url(Address(url="http://127.0.0.1:1"), data.root).token is None
        assert api_url(Address(url=REMOTE_URL), data.root) == Api(REMOTE_URL, remote_profile.token)
        assert api_url(Address(profile="there"), data.root) == Api(REMOTE_URL, remote_profile.token)
        other_token = new_token()
        assert api_url(Address(token=other_token), data.root) == Api(LOCAL_URL, other_token)
        assert local_token != data.renew_token()


def test_the_default_profile_is_used_where_nothing_runs(
    tmp_path: Path, remote_profile: Profile
) -> None:
    Profiles(profiles={"default": remote_profile}).write()
    assert api_url(Address(), tmp_path) == Api(REMOTE_URL, remote_profile.token)
    assert remote_profile.token not in repr(api_url(Address(), tmp_path))


def test_two_installations_at_once_are_rejected(remote_profile: Profile) -> None:
    with pytest.raises(BadInputError, match="name different installations"):
        api_url(Address(url="https://other.example", profile="there"), None)
    with pytest.raises(BadInputError, match=r"no profile 'x'; the profiles are: there"):
        api_url(Address(profile="x"), None)


def test_the_profiles_file_is_private(remote_profile: Profile) -> None:
    assert stat.S_IMODE(profiles_file().stat().st_mode) == 0o600
    assert stat.S_IMODE(profiles_file().parent.stat().st_mode) == 0o700
    os.chmod(profiles_file(), 0o644)
    Profiles.read().with_profile("more", remote_profile).write()
    assert stat.S_IMODE(profiles_file().stat().st_mode) == 0o600
    assert set(json.loads(profiles_file().read_text())["profiles"]) == {"there", "more"}
    profiles_file().write_text("{")
    with pytest.raises(CommandError, match="vigil login"):
        Profiles.read()


def test_a_token_comes_from_standard_input_or_a_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    token = new_token()
    monkeypatch.setattr("sys.stdin", io.StringIO(f" {token}\n"))
    assert read_token(Address(token="-")) == token
    (tmp_path / "vigil_token").write_text(f"{token}\n")
    assert read_token(Address()) is None
    monkeypatch.setenv("VIGIL_SECRETS_DIR", f"/nonexistent{os.pathsep}{tmp_path}")
    assert read_token(Address()) == token
    with pytest.raises(BadInputError) as error:
        read_token(Address(token="vgl_mistyped"))
    assert "mistyped" not in str(error.value)
