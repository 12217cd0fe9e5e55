"""Dates and times have one format: only `times.js` and `filters.py` write them."""

import re
from pathlib import Path

import pytest

from tests.support.paths import ROOT

WEB = ROOT / "services" / "api" / "web"
FORMATTERS = re.compile(r"DateTimeFormat|RelativeTimeFormat|toLocale(Date|Time)String")
SCRIPTS = sorted(path for path in (WEB / "static").glob("*.js") if path.name != "times.js")
TEMPLATES = sorted((WEB / "templates").rglob("*.html"))
ALLOWED = {
    "costs/parts.html": {'strftime("%B")', 'strftime("%H:%M")'},
}
"""The name of a month, and an hour in a table of hours in UTC."""


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.name)
def test_a_script_formats_no_dates_of_its_own(script: Path) -> None:
    assert not FORMATTERS.search(script.read_text())


def test_the_shared_module_formats_dates() -> None:
    assert FORMATTERS.search((WEB / "static" / "times.js").read_text())


@pytest.mark.parametrize("template", TEMPLATES, ids=lambda path: path.name)
def test_a_template_formats_no_dates_of_its_own(template: Path) -> None:
    name = template.relative_to(WEB / "templates").as_posix()
    text = template.read_text()
    assert set(re.findall(r"strftime\([^)]*\)", text)) == ALLOWED.get(name, set())
    # In attributes, scripts read ISO 8601.
    shown = re.sub(r'="[^"]*"', "", text)
    assert "isoformat" not in shown
