"""A manifest from anybody."""

import json
from datetime import UTC, datetime
from typing import Any

import pytest

from cli.backup.manifest import BadBackupError, Manifest
from cli.main import _print_error

GOOD: dict[str, Any] = json.loads(
    Manifest(
        vigil="0.4.0",
        revision="0021",
        postgres=18,
        taken_at=datetime(2026, 1, 1, tzinfo=UTC),
        installation="7",
        database_bytes=1,
        tables={"users": 1},
        signed_entries=0,
    ).render()
)


def test_it_reads_what_it_writes() -> None:
    assert json.loads(Manifest.parse(json.dumps(GOOD).encode()).render()) == GOOD


@pytest.mark.parametrize("text", ["\x1b[31m1.0", "1.0\nvigil: all is well", "1.0\x9b", "1" * 201])
@pytest.mark.parametrize("field", ["vigil", "revision", "installation", "tables"])
def test_it_contains_no_control_characters(field: str, text: str) -> None:
    value = {text: 1} if field == "tables" else text
    with pytest.raises(BadBackupError, match="not a backup of Vigil"):
        Manifest.parse(json.dumps(GOOD | {field: value}).encode())


def test_an_error_does_not_control_the_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    _print_error("pg_restore: table \x1b]0;x\x07\x9b1mörk\u00a0\n\tend")
    assert capsys.readouterr().err == "vigil: pg_restore: table ]0;x1mörk\u00a0\n\tend\n"
