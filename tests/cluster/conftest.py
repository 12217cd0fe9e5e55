"""The cluster that the tests of a module share; it is healthy at the start of each test."""

import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.cluster.stack import Stack
from tests.support.cluster.watch import Watch


@pytest.fixture(scope="session")
def image() -> Stack:
    """Build the image once; the containers of this stack are never started."""
    if (
        shutil.which("docker") is None
        or subprocess.run(["docker", "info"], capture_output=True).returncode
    ):
        pytest.skip("no Docker Engine is available")
    stack = Stack()
    stack.build()
    return stack


@pytest.fixture(scope="module")
def running(
    image: Stack, request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Stack]:
    failed_before = request.session.testsfailed
    stack = Stack()
    stack.up()
    yield stack
    if request.session.testsfailed > failed_before:
        save_logs(stack, tmp_path_factory.mktemp("cluster") / "logs.txt")
    stack.remove()


@pytest.fixture
def stack(running: Stack) -> Stack:
    """The cluster with one replica of each service and a reset sandbox."""
    running.up(*(f"{service}=1" for service in ("researcher", "analyzer")))
    running.sandbox.reset()
    return running


@pytest.fixture
def watch(stack: Stack) -> Watch:
    return Watch(stack)


def save_logs(stack: Stack, file: Path) -> None:
    file.write_text(stack.logs())
    print(f"\nwhat the containers logged: {file}")
