"""Layout of the tests: helpers are in tests/support, and no test imports a test."""

import re
from collections.abc import Iterator
from pathlib import Path

from tests.support.paths import TESTS

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
