"""`make audit` against a stand-in for OSV: it passes only if every package was checked and none is vulnerable."""

import os
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import pytest

from cli.local.ports import free_port
from tests.support.paths import ROOT
from tests.support.scripted_server import Answer, Reply, json_reply, serve_model
from tests.support.warm_processes import run_module

LOCK: Final = """\
good-package==1.0 \\
    --hash=sha256:{0}
    # via vigil (pyproject.toml)
Other.Package==2.0.0 ; sys_platform == 'another' \\
    --hash=sha256:{0} \\
    --hash=sha256:{1}
    # via good-package
""".format("a" * 64, "b" * 64)

FLAW: Final[Mapping[str, Any]] = {
    "id": "PYSEC-1",
    "aliases": ["CVE-2026-1"],
    "summary": "It can be crashed",
    "affected": [
        {
            "package": {"name": "other-package", "ecosystem": "PyPI"},
            "ranges": [{"type": "ECOSYSTEM", "events": [{"introduced": "0"}, {"fixed": "2.1"}]}],
        }
    ],
}


@pytest.fixture
def lock(tmp_path: Path) -> Path:
    file = tmp_path / "some.lock"
    file.write_text(LOCK)
    return file


def audit(osv_url: str, *locks: Path) -> "subprocess.CompletedProcess[str]":
    return run_module(
        "release.audit",
        [*map(str, locks)],
        {**os.environ, "VIGIL_OSV_URL": osv_url},
        directory=ROOT,
        timeout_seconds=60,
    )


def audit_with(answer: Answer, *locks: Path) -> "subprocess.CompletedProcess[str]":
    with serve_model(answer) as base_url:
        return audit(f"{base_url}/query", *locks)


def flawed(_: str, body: Mapping[str, Any]) -> Reply:
    """As OSV answers: an empty object where it knows of nothing."""
    is_flawed = (body["package"]["name"], body["version"]) == ("other-package", "2.0.0")
    return json_reply({"vulns": [FLAW]} if is_flawed else {})


def test_it_passes_when_every_package_was_checked(lock: Path) -> None:
    asked: list[Mapping[str, Any]] = []

    def answer(_: str, body: Mapping[str, Any]) -> Reply:
        asked.append(body)
        return json_reply({})

    result = audit_with(answer, lock)
    assert (result.returncode, result.stderr) == (0, "")
    assert result.stdout == "some.lock: 2 packages checked, known vulnerabilities: none\n"
    assert asked == [
        {"package": {"name": "good-package", "ecosystem": "PyPI"}, "version": "1.0"},
        {"package": {"name": "other-package", "ecosystem": "PyPI"}, "version": "2.0.0"},
    ]


def test_a_known_vulnerability_is_an_error_on_every_platform(lock: Path) -> None:
    result = audit_with(flawed, lock)
    assert result.returncode == 1
    assert result.stdout == (
        "some.lock: other-package 2.0.0: PYSEC-1 CVE-2026-1, fixed in 2.1: It can be crashed\n"
        "some.lock: 2 packages checked, known vulnerabilities: 1\n"
    )


def test_a_package_is_checked_once(lock: Path, tmp_path: Path) -> None:
    again = tmp_path / "again.lock"
    again.write_text(LOCK)
    result = audit_with(flawed, lock, again)
    assert result.returncode == 1
    assert result.stdout.endswith("again.lock: all packages are in the lock files above\n")


@pytest.mark.parametrize(
    "reply",
    [
        pytest.param(json_reply({}, status=404), id="not found"),
        pytest.param(json_reply({}, status=503), id="unavailable"),
        pytest.param(Reply(200, b"<html>Sign in</html>", "text/html"), id="sign-in page"),
        pytest.param(json_reply({"error": "no"}), id="another service"),
    ],
)
def test_it_fails_when_the_service_does_not_answer_as_osv_does(lock: Path, reply: Reply) -> None:
    """For one package: the answers for the others do not count then."""

    def answer(_: str, body: Mapping[str, Any]) -> Reply:
        return reply if body["package"]["name"] == "other-package" else json_reply({})

    result = audit_with(answer, lock)
    assert result.returncode == 2
    assert "some.lock: NOT CHECKED: http://127.0.0.1:" in result.stderr
    assert (
        "did not answer for 2 of 2 packages (good-package 1.0, other-package 2.0.0)"
        in result.stderr
    )
    assert "packages checked" not in result.stdout


def test_it_fails_when_no_service_is_reached() -> None:
    """With the lock files of the repository."""
    result = audit(f"http://127.0.0.1:{free_port()}/v1/query")
    assert result.returncode == 2
    assert "requirements.lock: NOT CHECKED" in result.stderr
    assert "check the network, or set VIGIL_OSV_URL" in result.stderr
    assert "Traceback" not in result.stderr
    assert result.stdout == ""


def test_the_stand_in_is_asked_for_every_locked_package() -> None:
    asked: set[str] = set()

    def answer(_: str, body: Mapping[str, Any]) -> Reply:
        asked.add(f"{body['package']['name']}=={body['version']}")
        return json_reply({})

    result = audit_with(answer)
    assert result.returncode == 0, result.stderr
    pinned = {
        line.split(" ")[0]
        for file in ROOT.glob("requirements*.lock")
        for line in file.read_text().splitlines()
        if "==" in line and not line.startswith((" ", "#"))
    }
    assert asked == pinned
