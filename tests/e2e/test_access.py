"""Signing in: automatically on the same machine, with a token from elsewhere, and in a browser."""

import json
import re
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import psycopg
import pytest

from tests.support.e2e.installation import MISSION, Installation, installed
from tests.support.waiting import wait_for

NOWHERE = {"VIGIL_DATA": "/nonexistent"}
"""As on another machine, without the data directory."""


@pytest.fixture(scope="module")
def vigil(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Installation]:
    with installed(tmp_path_factory.mktemp("installation")) as installation:
        installation.up()
        yield installation


def run_command(vigil: Installation, *arguments: str) -> str:
    result = vigil.vigil(*arguments)
    assert result.returncode == 0, result.stderr
    return result.stdout.strip()


def error_of(vigil: Installation, *arguments: str, **environment: str) -> str:
    result = vigil.vigil(*arguments, **environment)
    assert result.returncode in (1, 2), result.stdout
    assert "Traceback" not in result.stderr
    return result.stderr


def test_on_the_same_machine_commands_run_as_the_owner(vigil: Installation) -> None:
    me = vigil.json("whoami")
    assert (me["user"]["name"], me["user"]["operator"]) == ("owner", True)
    assert me["credential"]["scopes"] == ["read", "write", "operator"]
    token_file = vigil.data.token_file
    assert stat.S_IMODE(token_file.stat().st_mode) == 0o600
    url = vigil.running.api_url
    assert vigil.json("whoami", "--url", url) == me
    assert "refuses access" in error_of(vigil, "agent", "list", "--url", url, **NOWHERE)


def test_a_link_signs_a_browser_in_once(vigil: Installation) -> None:
    wait_for(lambda: "In a browser" in vigil.output or None, "the link to be printed")
    (link,) = re.findall(r"http://\S+secret=\S+", vigil.output)
    with httpx.Client(trust_env=False) as browser:
        assert "Sign in" in browser.get(link).text
        response = browser.post(link)
        assert (response.status_code, response.headers["location"]) == (303, "/agents")
        me = browser.get(f"{vigil.running.api_url}/api/v1/me").json()
        assert (me["user"]["name"], me["credential"]["kind"]) == ("owner", "session")
        assert browser.post(link).status_code == 410
    assert run_command(vigil, "sign-in-link").startswith(vigil.running.api_url)


def test_login_saves_a_profile_for_later_commands(vigil: Installation) -> None:
    url = vigil.running.api_url
    token = run_command(vigil, "token", "create", "laptop", "--expires", "7d")
    assert "not a token" in error_of(vigil, "login", "--url", url, VIGIL_TOKEN="vgl_short")
    result = vigil.vigil("login", "--url", url, "--profile", "there", VIGIL_TOKEN=token, **NOWHERE)
    assert (result.returncode, "You are owner" in result.stdout) == (0, True), result.stderr
    (profile_file,) = (vigil.home / "config").rglob("profiles.json")
    assert stat.S_IMODE(profile_file.stat().st_mode) == 0o600
    for arguments, environment in (
        (("--profile", "there"), NOWHERE),
        ((), {"VIGIL_PROFILE": "there", **NOWHERE}),
        (("--url", url), NOWHERE),
        (("--url", url, "--token", token), NOWHERE),
    ):
        result = vigil.vigil("whoami", "--json", *arguments, **environment)
        assert json.loads(result.stdout)["credential"]["scopes"] == ["read", "write"], result.stderr
    assert "operator" in error_of(vigil, "user", "list", "--profile", "there")
    assert vigil.vigil("token", "revoke", "laptop").returncode == 0
    assert "credential is unknown" in error_of(vigil, "whoami", "--profile", "there", **NOWHERE)
    assert vigil.vigil("logout", "--profile", "there").returncode == 0
    assert "no profile" in error_of(vigil, "whoami", "--profile", "there", **NOWHERE)


def test_the_first_token_is_created_in_the_database(vigil: Installation) -> None:
    environment = {"VIGIL_DATABASE_URL": vigil.running.database_url, **NOWHERE}
    result = vigil.vigil("token", "create", "first", "--scope", "read", "--database", **environment)
    token = result.stdout.strip()
    me = _me(vigil, token)
    assert (me["user"]["name"], me["credential"]["scopes"]) == ("owner", ["read"])
    assert "read" in error_of(vigil, "agent", "create", MISSION, VIGIL_TOKEN=token)
    assert "no user 'nobody'" in error_of(
        vigil, "token", "create", "x", "--user", "nobody", "--database", **environment
    )
    assert "secret=" in vigil.vigil("sign-in-link", "--database", **environment).stdout


@pytest.mark.slow
def test_an_added_user_does_not_see_the_agents_of_others(vigil: Installation) -> None:
    assert vigil.json("user", "add", "anna", "--email", "anna@example.org")["operator"] is False
    assert "already" in error_of(vigil, "user", "add", "anna")
    environment = {"VIGIL_DATABASE_URL": vigil.running.database_url}
    token = run_command_with(
        vigil, environment, "token", "create", "hers", "--user", "anna", "--database"
    )
    assert run_command(vigil, "agent", "create", MISSION, "--name", "Mine", "--interval", "1d")
    result = vigil.vigil("agent", "list", "--json", VIGIL_TOKEN=token)
    assert json.loads(result.stdout) == []
    assert "operator" in error_of(vigil, "user", "list", VIGIL_TOKEN=token)
    assert vigil.vigil("user", "disable", "anna").returncode == 0
    assert "credential is unknown" in error_of(vigil, "agent", "list", VIGIL_TOKEN=token)
    assert vigil.vigil("user", "enable", "anna").returncode == 0
    assert vigil.vigil("whoami", VIGIL_TOKEN=token).returncode == 0
    assert vigil.vigil("user", "remove", "anna", "--yes").returncode == 0
    assert "credential is unknown" in error_of(vigil, "agent", "list", VIGIL_TOKEN=token)
    assert [user["name"] for user in vigil.json("user", "list")] == ["owner"]
    assert "cannot be removed" in error_of(vigil, "user", "remove", "owner", "--yes")


@pytest.mark.slow
def test_each_start_replaces_the_local_token(tmp_path: Path) -> None:
    with installed(tmp_path) as vigil:
        vigil.up()
        first = vigil.data.token_file.read_text().strip()
        vigil.end()
        vigil.up()
        assert vigil.data.token_file.read_text().strip() != first
        assert "credential is unknown" in error_of(vigil, "agent", "list", VIGIL_TOKEN=first)
        with psycopg.connect(vigil.running.database_url) as connection:
            assert connection.execute("select count(*) from api_tokens").fetchone() == (1,)
        logs = "".join(file.read_text() for file in vigil.data.logs.glob("*.log"))
        assert "vgl_" not in logs + vigil.output


def run_command_with(vigil: Installation, environment: dict[str, str], *arguments: str) -> str:
    result = vigil.vigil(*arguments, **environment)
    assert result.returncode == 0, result.stderr
    return result.stdout.strip()


def _me(vigil: Installation, token: str) -> Any:
    headers = {"authorization": f"Bearer {token}"}
    return httpx.get(f"{vigil.running.api_url}/api/v1/me", headers=headers, trust_env=False).json()
