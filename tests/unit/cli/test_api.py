"""Which api a command speaks to, and that it shows it nothing that is another's."""

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
from tests.support.cli.running import running

THERE = "https://vigil.example"
HERE = running().api_url


@pytest.fixture(autouse=True)
def _home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))


@pytest.fixture
def there() -> Profile:
    profile = Profile(url=THERE, token=new_token())
    Profiles(profiles={"there": profile}).write()
    return profile


def test_nothing_anywhere_says_how_to_begin(tmp_path: Path) -> None:
    with pytest.raises(NothingRunsError, match="vigil up"):
        api_url(None, tmp_path)


def test_what_runs_here_is_come_in_at_by_its_own_token(tmp_path: Path, there: Profile) -> None:
    data = DataDirectory(tmp_path / "data")
    data.create()
    with data.locked(), data.announced(running()):
        own = data.renew_token()
        assert stat.S_IMODE(data.token_file.stat().st_mode) == 0o600
        assert api_url(None, data.root) == Api(HERE, own)
        assert api_url(Address(url=f"{HERE}/"), data.root) == Api(HERE, own)
        assert api_url(Address(url="http://127.0.0.1:1"), data.root).token is None
        assert api_url(Address(url=THERE), data.root) == Api(THERE, there.token)
        assert api_url(Address(profile="there"), data.root) == Api(THERE, there.token)
        other = new_token()
        assert api_url(Address(token=other), data.root) == Api(HERE, other)
        assert own != data.renew_token()


def test_the_usual_profile_is_for_where_nothing_runs(tmp_path: Path, there: Profile) -> None:
    Profiles(profiles={"default": there}).write()
    assert api_url(None, tmp_path) == Api(THERE, there.token)
    assert there.token not in repr(api_url(None, tmp_path))


def test_two_installations_are_not_guessed_between(there: Profile) -> None:
    with pytest.raises(BadInputError, match="two installations"):
        api_url(Address(url="https://other.example", profile="there"), None)
    with pytest.raises(BadInputError, match=r"no profile 'x'; there are: there"):
        api_url(Address(profile="x"), None)


def test_profiles_are_for_their_owners_eyes(there: Profile) -> None:
    assert stat.S_IMODE(profiles_file().stat().st_mode) == 0o600
    assert stat.S_IMODE(profiles_file().parent.stat().st_mode) == 0o700
    os.chmod(profiles_file(), 0o644)
    Profiles.read().with_profile("more", there).write()
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
    with pytest.raises(BadInputError) as told:
        read_token(Address(token="vgl_mistyped"))
    assert "mistyped" not in str(told.value)
