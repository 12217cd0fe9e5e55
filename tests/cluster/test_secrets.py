"""Secrets appear in no configuration and no log."""

import json

import pytest

from tests.support.cluster.stack import Stack
from tests.support.cluster.watch import Watch

pytestmark = [pytest.mark.cluster, pytest.mark.slow]

KEYS = "/run/vigil/keys"
PROVIDER_KEYS = {
    "OPENAI_API_KEY": "sk-given-for-a-test-5f1c",
    "TAVILY_API_KEY": "tvly-given-for-a-test-a77e",
}
SANDBOX_URLS = {
    "OPENAI_BASE_URL": "http://sandbox:8080/v1",
    "OPENAI_MODEL": "sandbox-reader",
    "TAVILY_BASE_URL": "http://sandbox:8080",
}
READ_ALL = f"""
import json, pathlib
print(json.dumps([file.read_text().strip() for file in pathlib.Path({KEYS!r}).glob("*/*_*")]))
"""


def test_inspect_and_logs_are_free_of_secrets(image: Stack) -> None:
    stack = Stack(environment={**PROVIDER_KEYS, **SANDBOX_URLS})
    try:
        stack.up()
        watch = Watch(stack)
        watch.start()
        watch.ended_whole(1)
        command = "run --rm -T --no-deps --user=10000:10000 --entrypoint=python vigil -c"
        secrets = json.loads(stack.compose(*command.split(), READ_ALL))
        assert set(PROVIDER_KEYS.values()) <= set(secrets)
        assert len(set(secrets)) > 10
        containers = stack.compose("ps", "--all", "--quiet").split()
        output = stack.logs() + stack.docker("inspect", *containers) + stack.compose("config")
        assert not [secret for secret in secrets if secret in output]
    finally:
        stack.remove()
