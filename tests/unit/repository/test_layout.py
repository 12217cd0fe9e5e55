"""Layout of the code: where modules and helpers belong, and what may use SQLAlchemy's engines and sessions."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

from shared.database import tables
from tests.support.paths import ROOT, TESTS

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


WRITERS = ("workflow", "billing", "llm", "graph", "runtime")
READERS = {
    "shared/graph/conclusions/queries.py",
    "shared/graph/scope.py",  # conditions of the API's reads
    "shared/graph/transfer/exporter.py",
    "shared/graph/verification/loader.py",
    "shared/graph/verification/verifier.py",
}
"""They build statements for the API and the command from conditions."""
WRITING = {"insert", "insert_all", "update", "execute_each", "delete"}


def _imported(path: Path) -> Iterator[tuple[str, str]]:
    """The module and the name of each import; the name is empty if the module itself is imported."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom):
            yield from ((node.module or "", alias.name) for alias in node.names)
        elif isinstance(node, ast.Import):
            yield from ((alias.name, "") for alias in node.names)


def _uses_table_classes(path: Path) -> bool:
    return any(
        (module.startswith("shared.database.tables") and name in {"", *tables.__all__})
        or (module, name) == ("shared.database", "tables")
        for module, name in _imported(path)
    )


def test_what_writes_uses_no_table_classes() -> None:
    """Its SQL is written out, and its rows are typed tuples."""
    users = {
        str(path.relative_to(ROOT))
        for package in WRITERS
        for path in (ROOT / "shared" / package).rglob("*.py")
        if _uses_table_classes(path)
    }
    assert users == READERS


def test_what_reads_with_table_classes_writes_nothing() -> None:
    for reader in READERS:
        path = ROOT / reader
        assert not [
            name
            for module, name in _imported(path)
            if module.startswith("sqlalchemy") and name in WRITING
        ]
        calls = [
            node.func
            for node in ast.walk(ast.parse(path.read_text()))
            if isinstance(node, ast.Call)
        ]
        assert not [
            call.attr
            for call in calls
            if isinstance(call, ast.Attribute)
            and call.attr in WRITING
            and ast.unparse(call.value).endswith(("session", "transaction"))
        ]


SUPPORT = TESTS / "support"


IMPORT = re.compile(
    r"^\s*(?:from\s+(?P<package>[\w.]+)\s+)?import\s+(?P<names>\([^)]*\)|[^\n]+)", re.M
)


def imported_names(file: Path) -> Iterator[str]:
    """Does not use `ast`: after the tests of deep nesting, CPython 3.11 cannot always parse a module."""
    for match in IMPORT.finditer(file.read_text()):
        names = re.findall(r"[\w.]+", re.sub(r"\sas\s+\w+", "", match["names"]))
        yield from (f"{match['package']}.{name}" if match["package"] else name for name in names)


def test_no_module_imports_a_test() -> None:
    test_imports = {
        (str(file.relative_to(TESTS)), name)
        for file in TESTS.rglob("*.py")
        for name in imported_names(file)
        if name.startswith("tests.") and any(part.startswith("test_") for part in name.split("."))
    }
    assert not test_imports


def test_helpers_are_in_support_and_tests_are_not() -> None:
    modules = {
        file.relative_to(TESTS)
        for file in TESTS.rglob("*.py")
        if file.name not in ("__init__.py", "conftest.py")
    }
    tests = {module for module in modules if module.name.startswith("test_")}
    helpers = {module for module in modules if module.parts[0] == SUPPORT.name}
    assert not tests & helpers
    assert modules == tests | helpers
