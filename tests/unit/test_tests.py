"""How the tests themselves are laid out: helpers in tests/support, and no test imports a test."""

import ast
from collections.abc import Iterator
from pathlib import Path

from tests.support.paths import TESTS

SUPPORT = TESTS / "support"


def imported(file: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.Import):
            yield from (each.name for each in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module
            yield from (f"{node.module}.{each.name}" for each in node.names)


def test_no_module_imports_a_test() -> None:
    found = {
        (str(file.relative_to(TESTS)), name)
        for file in TESTS.rglob("*.py")
        for name in imported(file)
        if name.startswith("tests.") and any(part.startswith("test_") for part in name.split("."))
    }
    assert not found


def test_helpers_are_in_support_and_tests_are_not() -> None:
    modules = {
        file.relative_to(TESTS)
        for file in TESTS.rglob("*.py")
        if file.name not in ("__init__.py", "conftest.py")
    }
    tests = {each for each in modules if each.name.startswith("test_")}
    helpers = {each for each in modules if each.parts[0] == SUPPORT.name}
    assert not tests & helpers
    assert modules == tests | helpers
