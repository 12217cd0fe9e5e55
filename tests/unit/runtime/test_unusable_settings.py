"""A service whose settings cannot be used says so in one line, and exits with 2: a restart would not help."""

import os
from typing import Final

import pytest

from tests.support.warm_processes import run_module

CASES: Final = [
    ("aggregator", {"VIGIL_LOG_LEVEL": "verbose"}, "VIGIL_LOG_LEVEL"),
    (
        "aggregator",
        {"VIGIL_NATS_URL": "tls://127.0.0.1:1", "VIGIL_NATS_CA_FILE": "/nope"},
        "VIGIL_NATS_CA_FILE",
    ),
    ("researcher", {"VIGIL_PRICES_FILE": "/nope"}, "/nope"),
    ("notifier", {"VIGIL_SMTP_URL": "garbage"}, "VIGIL_SMTP_URL"),
    ("api", {"VIGIL_PROXIES": "garbage"}, "VIGIL_PROXIES"),
]


@pytest.mark.parametrize(("service", "settings", "named"), CASES, ids=lambda each: str(each)[:40])
def test_it_says_so_in_one_line(service: str, settings: dict[str, str], named: str) -> None:
    environment = {"PATH": os.environ["PATH"], "VIGIL_DATABASE_URL": "postgresql://127.0.0.1:1/x"}
    ended = run_module(f"services.{service}", [], environment | settings, timeout_seconds=60)
    assert (ended.returncode, "Traceback" in ended.stderr) == (2, False), ended.stderr
    [line] = ended.stderr.splitlines()
    assert line.startswith(f"vigil {service}: ")
    assert named in line
