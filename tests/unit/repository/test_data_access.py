"""Only migrations use SQLAlchemy's engines and sessions; everything else uses `Database` and `Transaction`."""

import re
from pathlib import Path

from tests.support.paths import ROOT

ENGINES = re.compile(
    r"AsyncSession|sessionmaker|create_(async_)?engine|sqlalchemy\.ext\.asyncio"
    r"|from sqlalchemy\.orm import .*\bSession\b"
)
MIGRATIONS = {Path("shared/database/migrate.py"), Path("shared/database/migrations/env.py")}


def test_only_migrations_use_engines_and_sessions_of_sqlalchemy() -> None:
    users = {
        path.relative_to(ROOT)
        for package in ("shared", "services", "cli")
        for path in (ROOT / package).rglob("*.py")
        if ENGINES.search(path.read_text())
    }
    assert users <= MIGRATIONS
    assert Path("shared/database/migrate.py") in users


TABLE_CLASSES = re.compile(r"^from shared\.database\.tables import ", re.MULTILINE)
GRAPH_READERS = {
    "shared/graph/conclusions/queries.py",
    "shared/graph/scope.py",  # conditions of the API's reads
    "shared/graph/verification/loader.py",
    "shared/graph/verification/verifier.py",
}
TRANSFER = Path("shared/graph/transfer")
"""Copies whole tables, as the owner of the tables."""


def test_the_graph_is_written_without_table_classes() -> None:
    users = {
        str(path.relative_to(ROOT))
        for path in (ROOT / "shared/graph").rglob("*.py")
        if TABLE_CLASSES.search(path.read_text()) and ROOT / TRANSFER not in path.parents
    }
    assert users == GRAPH_READERS


WITHOUT_TABLES = (
    *(ROOT / "shared/billing").rglob("*.py"),
    *(ROOT / "shared/runtime").rglob("*.py"),
    ROOT / "shared/llm/paid_calls.py",
    ROOT / "shared/workflow/leases.py",
)


def test_what_pays_and_claims_writes_its_sql_out() -> None:
    """It imports no classes of tables."""
    assert {path for path in WITHOUT_TABLES if TABLE_CLASSES.search(path.read_text())} == set()
