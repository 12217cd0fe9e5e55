"""Dates and times have one format: only `times.js` and `filters.py` write them."""

import re

from tests.support.api.templates import template_paths
from tests.support.paths import ROOT

WEB = ROOT / "services" / "api" / "web"
FORMATTERS = re.compile(r"DateTimeFormat|RelativeTimeFormat|toLocale(Date|Time)String")
SCRIPTS = sorted(path for path in (WEB / "static").glob("*.js") if path.name != "times.js")
TEMPLATES = template_paths()
ALLOWED = {"costs/parts.html": {'strftime("%B")'}}
"""The name of a month."""


def test_scripts_format_no_dates_of_their_own() -> None:
    assert [script.name for script in SCRIPTS if FORMATTERS.search(script.read_text())] == []


def test_the_shared_module_formats_dates() -> None:
    assert FORMATTERS.search((WEB / "static" / "times.js").read_text())


def test_templates_format_no_dates_of_their_own() -> None:
    formats, with_iso_dates = {}, []
    for name, template in TEMPLATES.items():
        text = template.read_text()
        formats[name] = set(re.findall(r"strftime\([^)]*\)", text))
        # In attributes, scripts read ISO 8601.
        if "isoformat" in re.sub(r'="[^"]*"', "", text):
            with_iso_dates.append(name)
    assert {name: found for name, found in formats.items() if found} == ALLOWED
    assert with_iso_dates == []
