"""What `vigil upgrade --check` finds."""

import json
import re
from contextlib import nullcontext

import pytest
import typer

from cli import upgrade
from cli.commands import operations
from cli.findings import Finding, Verdict
from shared.database.migrate import DatabaseVersion
from shared.runtime.settings import Settings
from tests.support.paths import ROOT

CURRENT = DatabaseVersion("0021", head="0021", migrated_by="0.4.0", oldest_reader="0.3.0")


@pytest.fixture(autouse=True)
def _version(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in ("cli.upgrade", "shared.database.migrate"):
        monkeypatch.setattr(f"{module}.vigil_version", lambda: "0.4.1")


def of(found: DatabaseVersion) -> list[tuple[str, str]]:
    return [(each.name, each.verdict.value) for each in upgrade.check_database(found)]


def test_a_database_that_is_up_to_date() -> None:
    assert of(CURRENT) == [("database", "good")]


def test_a_database_without_tables() -> None:
    assert of(DatabaseVersion(None, head="0021")) == [("database", "note")]


def test_pending_migrations_are_named() -> None:
    pending = DatabaseVersion(
        "0020", [("0021", "The corpus of an agent.")], head="0021", bytes=7 << 20
    )
    findings = list(upgrade.check_database(pending))
    assert [each.verdict.value for each in findings] == ["note", "note"]
    assert "7 MiB: 1 migration to apply" in findings[0].message
    assert findings[1].message == "0021: The corpus of an agent."


def test_a_long_transaction_stops_the_upgrade() -> None:
    waiting = DatabaseVersion(
        "0020",
        [("0021", "The corpus.")],
        longest_transaction="that of process 7",
        longest_transaction_seconds=31.0,
    )
    assert of(waiting)[-1] == ("transactions", "bad")


@pytest.mark.parametrize(
    ("migrated_by", "is_noted"),
    [("0.3.0", False), ("0.4.0", False), (None, False), ("0.2.9", True), ("1.4.0", True)],
)
def test_upgrades_over_several_minor_versions_are_noted(
    migrated_by: str | None, is_noted: bool
) -> None:
    assert bool(list(upgrade.check_distance(migrated_by))) is is_noted


def test_a_version_that_was_not_recorded_is_called_the_last_that_did_not(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("cli.upgrade.vigil_version", lambda: "0.5.0")
    [finding] = upgrade.check_distance(None)
    assert "by Vigil 0.3.0 or older, more than one minor version away" in finding.message


@pytest.mark.parametrize(
    ("oldest_reader", "verdict"), [("0.4.0", "note"), ("0.4.2", "bad"), (None, "bad"), ("?", "bad")]
)
def test_a_newer_database(oldest_reader: str | None, verdict: str) -> None:
    newer = DatabaseVersion("0030", is_newer=True, head="0021", oldest_reader=oldest_reader)
    assert of(newer) == [("database", verdict)]


def test_unknown_variables_are_named() -> None:
    environment = {
        "HOME": "/root",
        "VIGIL_LEASE_SECONDS": "10",
        "VIGIL_SMTP_URL_FILE": "/run/smtp",
        "VIGIL_MODEL": "gpt",
        "VIGIL_DATA": "/data",
        "VIGIL_LEASE_SECOND": "10",
        "VIGIL_FOO": "1",
    }
    findings: list[Finding] = list(upgrade.check_variables(environment))
    assert [each.message for each in findings] == [
        "VIGIL_FOO is not a setting of this version",
        "VIGIL_LEASE_SECOND is not a setting of this version; is VIGIL_LEASE_SECONDS meant?",
    ]


def test_variables_of_the_cluster_are_known() -> None:
    """Variables of `.env` and of `vigil` itself, if they are exported, need not be removed."""
    names = set(re.findall(r"^(?:# )?([A-Z_]+)=", (ROOT / ".env").read_text(), re.M))
    code = [file.read_text() for file in (ROOT / "cli").rglob("*.py")]
    names |= {name for text in code for name in re.findall(r'"(VIGIL_[A-Z_]+[A-Z])"', text)}
    assert len(names) > 80
    assert [each.message for each in upgrade.check_variables(dict.fromkeys(names, "1"))] == []


@pytest.mark.parametrize("url", ["postgresql://u:secret@h:port/d", "postgresql://u:secret@[::1/d"])
def test_an_address_that_is_none_is_a_finding(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(upgrade, "check_nats", lambda *_: ())
    settings = Settings(database_url=url)
    findings = {each.name: each for each in upgrade.examine_upgrade(settings)}
    assert findings["postgres"].verdict.value == "bad"
    assert "secret" not in findings["postgres"].message


@pytest.mark.parametrize(("verdict", "is_updated"), [("good", True), ("bad", False)])
def test_json_stays_one_document_and_a_failed_check_changes_nothing(
    verdict: str,
    is_updated: bool,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    updated: list[float] = []

    def bring_up_to_date(wait: float, _: object) -> str:
        updated.append(wait)
        return "tables are up to date."

    finding = Finding("database", Verdict(verdict), "revision 0021", "fix it")
    monkeypatch.setattr(operations, "engine_settings", lambda *_: None)
    monkeypatch.setattr(operations, "_bring_up_to_date", bring_up_to_date)
    monkeypatch.setattr(upgrade, "examine_upgrade", lambda _: [finding])
    with pytest.raises(typer.Exit) if verdict == "bad" else nullcontext():
        operations.upgrade(wait=3, as_json=True)
    assert updated == [3] * is_updated
    written = capsys.readouterr()
    assert "revision 0021" in str(json.loads(written.out))
    assert ("up to date" in written.err) is is_updated
