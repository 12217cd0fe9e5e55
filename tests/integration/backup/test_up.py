"""`vigil up` on a restored data directory: roles, policies, verification, and the next iteration."""

import json
import signal
from pathlib import Path
from typing import Any

import pytest

from tests.support.backup import start_vigil, started, vigil
from tests.support.waiting import wait_for

pytestmark = pytest.mark.slow

POLICIES = "select tablename, policyname, qual, with_check from pg_policies order by 1, 2"
PRIVILEGES = """
select table_name, grantee, privilege_type from information_schema.role_table_grants
where table_schema = 'public' order by 1, 2, 3
"""
ROOTS = "select agent_id, seq, hash from graph_head order by agent_id"


def test_a_restored_installation_continues(tmp_path: Path) -> None:
    old, new = tmp_path / "old", tmp_path / "new"
    code, _, errors = vigil("demo", "--keep", old, "--exit", "--json", cwd=tmp_path)
    assert code == 0, errors
    assert vigil("backup", "backup.tar", "--data", old, cwd=tmp_path)[0] == 0
    assert vigil("restore", "backup.tar", "--data", new, cwd=tmp_path)[0] == 0
    before = look_up(old, ROOTS)
    assert before
    assert look_up(new, ROOTS) == before
    with (tmp_path / "up.log").open("wb") as log:
        up = start_vigil("up", "--data", new, cwd=tmp_path, stdout=log, stderr=log)
        try:
            continue_iterations(new, tmp_path)
        finally:
            up.send_signal(signal.SIGINT)
            up.wait(60)
    for query in (POLICIES, PRIVILEGES):
        assert look_up(new, query) == look_up(old, query)
    assert up.returncode == 130 or up.returncode == 0


def continue_iterations(data: Path, home: Path) -> None:
    def answers() -> str | None:
        code, out, _ = vigil("agent", "list", "--json", "--data", data, cwd=home)
        return out if code == 0 else None

    [agent] = json.loads(wait_for(answers, "the restored installation to start"))
    [verified] = json.loads(vigil("verify", "--all", "--json", "--data", data, cwd=home)[1])
    assert (verified["holds"], verified["checked"]["nodes"] > 0) == (True, True)
    code, _, errors = vigil("run", agent["id"], "--wait", "--data", data, cwd=home)
    assert code == 0, errors


def look_up(data: Path, query: str) -> list[tuple[Any, ...]]:
    with started(data) as connection:
        return connection.execute(query).fetchall()
