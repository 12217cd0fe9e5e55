"""Coming in as a person does: with nothing to think of on one machine, by a token from elsewhere, by a browser."""

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
from tests.support.waiting import waited_for

NOWHERE = {"VIGIL_DATA": "/nonexistent"}
"""As on another machine."""


@pytest.fixture(scope="module")
def vigil(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Installation]:
    with installed(tmp_path_factory.mktemp("installation")) as installation:
        installation.up()
        yield installation


def made(vigil: Installation, *arguments: str) -> str:
    told = vigil.vigil(*arguments)
    assert told.returncode == 0, told.stderr
    return told.stdout.strip()


def refused(vigil: Installation, *arguments: str, **environment: str) -> str:
    told = vigil.vigil(*arguments, **environment)
    assert told.returncode in (1, 2), told.stdout
    assert "Traceback" not in told.stderr
    return told.stderr


def test_on_its_own_machine_the_owner_is_known(vigil: Installation) -> None:
    me = vigil.json("whoami")
    assert (me["user"]["name"], me["user"]["operator"]) == ("owner", True)
    assert me["credential"]["scopes"] == ["read", "write", "operator"]
    token_file = vigil.data.token_file
    assert stat.S_IMODE(token_file.stat().st_mode) == 0o600
    url = vigil.running.api_url
    assert vigil.json("whoami", "--url", url) == me
    assert "refuses access" in refused(vigil, "agent", "list", "--url", url, **NOWHERE)


def test_a_link_signs_a_browser_in_once(vigil: Installation) -> None:
    waited_for(lambda: "In a browser" in vigil.said or None, "the link to be printed")
    (link,) = re.findall(r"http://\S+secret=\S+", vigil.said)
    with httpx.Client(trust_env=False) as browser:
        assert "Sign in" in browser.get(link).text
        came_in = browser.post(link)
        assert (came_in.status_code, came_in.headers["location"]) == (303, "/agents")
        me = browser.get(f"{vigil.running.api_url}/api/v1/me").json()
        assert (me["user"]["name"], me["credential"]["kind"]) == ("owner", "session")
        assert browser.post(link).status_code == 410
    assert made(vigil, "sign-in-link").startswith(vigil.running.api_url)


def test_login_saves_what_later_commands_come_in_by(vigil: Installation) -> None:
    url = vigil.running.api_url
    token = made(vigil, "token", "create", "laptop", "--expires", "7d")
    assert "not a token" in refused(vigil, "login", "--url", url, VIGIL_TOKEN="vgl_short")
    told = vigil.vigil("login", "--url", url, "--profile", "there", VIGIL_TOKEN=token, **NOWHERE)
    assert (told.returncode, "You are owner" in told.stdout) == (0, True), told.stderr
    (saved,) = (vigil.home / "config").rglob("profiles.json")
    assert stat.S_IMODE(saved.stat().st_mode) == 0o600
    for arguments, environment in (
        (("--profile", "there"), NOWHERE),
        ((), {"VIGIL_PROFILE": "there", **NOWHERE}),
        (("--url", url), NOWHERE),
        (("--url", url, "--token", token), NOWHERE),
    ):
        told = vigil.vigil("whoami", "--json", *arguments, **environment)
        assert json.loads(told.stdout)["credential"]["scopes"] == ["read", "write"], told.stderr
    assert "operator" in refused(vigil, "user", "list", "--profile", "there")
    assert vigil.vigil("token", "revoke", "laptop").returncode == 0
    assert "not known" in refused(vigil, "whoami", "--profile", "there", **NOWHERE)
    assert vigil.vigil("logout", "--profile", "there").returncode == 0
    assert "no profile" in refused(vigil, "whoami", "--profile", "there", **NOWHERE)


def test_a_token_is_made_in_the_database_where_nobody_has_one(vigil: Installation) -> None:
    environment = {"VIGIL_DATABASE_URL": vigil.running.database_url, **NOWHERE}
    told = vigil.vigil("token", "create", "first", "--scope", "read", "--database", **environment)
    token = told.stdout.strip()
    me = _me(vigil, token)
    assert (me["user"]["name"], me["credential"]["scopes"]) == ("owner", ["read"])
    assert "read" in refused(vigil, "agent", "create", MISSION, VIGIL_TOKEN=token)
    assert "no user 'nobody'" in refused(
        vigil, "token", "create", "x", "--user", "nobody", "--database", **environment
    )
    assert "secret=" in vigil.vigil("sign-in-link", "--database", **environment).stdout


@pytest.mark.slow
def test_an_operator_adds_a_user_who_sees_nothing_of_others(vigil: Installation) -> None:
    assert vigil.json("user", "add", "anna", "--email", "anna@example.org")["operator"] is False
    assert "already" in refused(vigil, "user", "add", "anna")
    environment = {"VIGIL_DATABASE_URL": vigil.running.database_url}
    token = made_by(vigil, environment, "token", "create", "hers", "--user", "anna", "--database")
    assert made(vigil, "agent", "create", MISSION, "--name", "Mine", "--interval", "1d")
    told = vigil.vigil("agent", "list", "--json", VIGIL_TOKEN=token)
    assert json.loads(told.stdout) == []
    assert "operator" in refused(vigil, "user", "list", VIGIL_TOKEN=token)
    assert vigil.vigil("user", "disable", "anna").returncode == 0
    assert "not known" in refused(vigil, "agent", "list", VIGIL_TOKEN=token)
    assert vigil.vigil("user", "enable", "anna").returncode == 0
    assert vigil.vigil("whoami", VIGIL_TOKEN=token).returncode == 0
    assert vigil.vigil("user", "remove", "anna", "--yes").returncode == 0
    assert "not known" in refused(vigil, "agent", "list", VIGIL_TOKEN=token)
    assert [user["name"] for user in vigil.json("user", "list")] == ["owner"]
    assert "cannot be removed" in refused(vigil, "user", "remove", "owner", "--yes")


@pytest.mark.slow
def test_each_start_renews_the_one_token(tmp_path: Path) -> None:
    with installed(tmp_path) as vigil:
        vigil.up()
        first = vigil.data.token_file.read_text().strip()
        vigil.end()
        vigil.up()
        assert vigil.data.token_file.read_text().strip() != first
        assert "not known" in refused(vigil, "agent", "list", VIGIL_TOKEN=first)
        with psycopg.connect(vigil.running.database_url) as connection:
            assert connection.execute("select count(*) from api_tokens").fetchone() == (1,)
        logs = "".join(file.read_text() for file in vigil.data.logs.glob("*.log"))
        assert "vgl_" not in logs + vigil.said


def made_by(vigil: Installation, environment: dict[str, str], *arguments: str) -> str:
    told = vigil.vigil(*arguments, **environment)
    assert told.returncode == 0, told.stderr
    return told.stdout.strip()


def _me(vigil: Installation, token: str) -> Any:
    headers = {"authorization": f"Bearer {token}"}
    return httpx.get(f"{vigil.running.api_url}/api/v1/me", headers=headers, trust_env=False).json()
