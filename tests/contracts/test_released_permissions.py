"""Services of the newest release can do their work with the permissions that this version grants."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final

import pytest

from shared.database.grants import ALL, GRANTS
from shared.events.permissions import PERMISSIONS
from tests.support.chaos import released

PRINT: Final = """
import json, sys
from dataclasses import asdict
from shared.database.grants import GRANTS
from shared.events.permissions import PERMISSIONS
grants = {service: {table: asdict(grant) for table, grant in of.items()} for service, of in GRANTS.items()}
json.dump([grants, {user: asdict(each) for user, each in PERMISSIONS.items()}], sys.stdout)
"""
ROWS: Final = {"inserts": "insert", "updates": "update", "deletes": "delete"}
"""The verb whose rows each restricts."""


@pytest.fixture(scope="module")
def old_permissions(tmp_path_factory: pytest.TempPathFactory) -> list[Any]:
    """Grants by service and table, and permissions on NATS by user, of the newest release."""
    try:
        tree = released.tree_of(released.NEWEST, tmp_path_factory.mktemp("released"))
    except released.MissingHistoryError as error:
        pytest.skip(f"the commit of {released.NEWEST} is not in this clone: {error}")
    return list(json.loads(_run(tree)))


def _run(tree: Path) -> bytes:
    environment = os.environ | {"PYTHONPATH": str(tree)}
    command = [sys.executable, "-c", PRINT]
    return subprocess.run(
        command, cwd=tree, env=environment, check=True, stdout=subprocess.PIPE
    ).stdout


def test_privileges_on_tables_are_only_widened(old_permissions: list[Any]) -> None:
    assert list(narrowed(old_permissions[0])) == []


def narrowed(old_grants: dict[str, dict[str, Any]]) -> Iterator[str]:
    """Name each privilege that a service of the release has and would lose."""
    new_grants = {
        service: {table: json.loads(json.dumps(asdict(grant))) for table, grant in of.items()}
        for service, of in GRANTS.items()
    }
    for service, of in old_grants.items():
        for table, old in of.items():
            new = new_grants.get(service, {}).get(table)
            if new is None:
                yield f"{service} loses {table}"
                continue
            for verb in ("select", "insert", "update"):
                if new[verb] != list(ALL) and set(old[verb]) - set(new[verb]):
                    yield f"{service} loses {verb} on {table}"
            if old["delete"] and not new["delete"]:
                yield f"{service} loses delete on {table}"
            for rows, verb in ROWS.items():
                if old[verb] and not _includes(new[rows], old[rows]):
                    yield f"{service}: {rows} on {table} are restricted further"


def _includes(new: dict[str, Any] | None, old: dict[str, Any] | None) -> bool:
    if new is None or new == old:
        return True
    if "conditions" in new:
        return any(_includes(condition, old) for condition in new["conditions"])
    if old is None or "values" not in old or new.get("column") != old["column"]:
        return False
    is_subset = set(old["values"]) <= set(new["values"])
    return not new["negated"] and not old["negated"] and is_subset


def test_permissions_on_the_bus_are_only_widened(old_permissions: list[Any]) -> None:
    new = {user: asdict(each) for user, each in PERMISSIONS.items()}
    missing = {
        (user, verb): lost
        for user, old in old_permissions[1].items()
        for verb in ("publish", "subscribe")
        if (lost := set(old[verb]) - set(new[user][verb]))
    }
    assert missing == {}


def test_a_narrower_privilege_is_found() -> None:
    wider = {
        "observer": {
            "users": {
                "select": ["*"],
                "insert": [],
                "update": [],
                "delete": True,
                **dict.fromkeys(ROWS),
            }
        }
    }
    assert list(narrowed(wider)) == ["observer loses users"]
