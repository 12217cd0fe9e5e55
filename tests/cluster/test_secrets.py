"""What must not be seen is not seen: in no configuration, no log."""

import json

import pytest

from tests.support.cluster.stack import Stack
from tests.support.cluster.watch import Watch

pytestmark = [pytest.mark.cluster, pytest.mark.slow]

KEYS = "/run/vigil/keys"
GIVEN = {
    "OPENAI_API_KEY": "sk-given-for-a-test-5f1c",
    "TAVILY_API_KEY": "tvly-given-for-a-test-a77e",
}
ANSWERED_BY_THE_SANDBOX = {
    "OPENAI_BASE_URL": "http://sandbox:8080/v1",
    "OPENAI_MODEL": "sandbox-reader",
    "TAVILY_BASE_URL": "http://sandbox:8080",
}
READ_ALL = f"""
import json, pathlib
print(json.dumps([file.read_text().strip() for file in pathlib.Path({KEYS!r}).glob("*/*_*")]))
"""


def test_inspect_and_logs_are_free_of_secrets(image: Stack) -> None:
    stack = Stack(environment={**GIVEN, **ANSWERED_BY_THE_SANDBOX})
    try:
        stack.up()
        watch = Watch(stack)
        watch.start()
        watch.ended_whole(1)
        as_all_keys_reader = "run --rm -T --no-deps --user=10000:10000 --entrypoint=python vigil -c"
        secrets = json.loads(stack.compose(*as_all_keys_reader.split(), READ_ALL))
        assert set(GIVEN.values()) <= set(secrets)
        assert len(set(secrets)) > 10
        containers = stack.compose("ps", "--all", "--quiet").split()
        seen = stack.logs() + stack.docker("inspect", *containers) + stack.compose("config")
        assert not [secret for secret in secrets if secret in seen]
    finally:
        stack.remove()
