"""The cluster over TLS works, and refuses clients that use no TLS or do not verify the server."""

import json
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.certificates import write_certificates
from tests.support.cluster.stack import Stack
from tests.support.cluster.watch import Watch
from tests.support.paths import TESTS

pytestmark = [
    pytest.mark.cluster,
    pytest.mark.slow,
    pytest.mark.skipif(
        shutil.which("openssl") is None,
        reason="openssl, which makes the certificates, is not installed",
    ),
]

TLS = "deploy/compose.tls.yaml"
THREE_NODES = "deploy/compose.ha.yaml"
EAVESDROP = TESTS / "support" / "cluster" / "eavesdrop.py"
ENCRYPTED = """
select distinct ssl from pg_stat_ssl join pg_stat_activity using (pid)
where client_addr is not null and usename like 'vigil\\_%'
"""


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_certificates(tmp_path_factory.mktemp("tls") / "certificates")


@pytest.fixture(scope="module")
def watch_after_switch(image: Stack, certificates: Path) -> Iterator[Watch]:
    """An agent with an iteration in plain text, in a cluster that was then switched to TLS."""
    stack = Stack()
    try:
        stack.up()
        watch = _complete_iteration(stack)
        stack.environment |= {
            "COMPOSE_FILE": stack.environment["COMPOSE_FILE"].replace(":", f":{TLS}:", 1),
            "VIGIL_CERTS": str(certificates),
        }
        stack.up()
        yield watch
    finally:
        stack.remove()


@pytest.fixture
def tls_stack(watch_after_switch: Watch) -> Stack:
    return watch_after_switch.stack


def _complete_iteration(stack: Stack) -> Watch:
    watch = Watch(stack)
    watch.plan(queries=2)
    watch.start()
    watch.assert_events_published_once([watch.ended_whole(1, queries=2)])
    return watch


def test_after_the_switch_data_is_kept_and_connections_are_encrypted(
    watch_after_switch: Watch,
) -> None:
    first = watch_after_switch.ended_whole(1, queries=2)
    watch_after_switch.assert_events_published_once(
        [first, watch_after_switch.ended_whole(watch_after_switch.run(), queries=2)]
    )
    watch_after_switch.assert_no_dead_letters()
    assert watch_after_switch.stack.sql(ENCRYPTED) == "t"


def test_plain_text_and_unverified_connections_are_refused(tls_stack: Stack) -> None:
    results = json.loads(tls_stack.python("researcher", EAVESDROP.read_text()))
    assert {
        attempt: result for attempt, result in results.items() if "as it should be" in attempt
    } == {
        "nats as it should be": "done",
        "postgres as it should be": "done",
    }
    assert results["nats in plain text"] == "the connection is ended"
    assert "no encryption" in results["postgres in plain text"]
    for attempt in ("nats without the CA", "postgres without the CA"):
        assert "certificate verify failed" in results[attempt]
    assert "certificate is not valid for" in results["nats by another name"]
    assert "does not match host name" in results["postgres by another name"]


def test_each_server_has_only_its_own_key(tls_stack: Stack) -> None:
    command = "find / -name nats.key -o -name postgres.key 2>/dev/null || true"
    for service, own in {"nats": {"nats.key"}, "postgres": {"postgres.key"}, "api": set()}.items():
        files = tls_stack.compose("exec", "-T", "-u", "root", service, "sh", "-c", command)
        assert {Path(file).name for file in files.split()} == own


def test_the_error_names_a_missing_certificate_file(
    image: Stack, certificates: Path, tmp_path: Path
) -> None:
    incomplete = tmp_path / "given"
    shutil.copytree(certificates, incomplete)
    (incomplete / "postgres.key").unlink()
    stack = Stack(TLS, environment={"VIGIL_CERTS": str(incomplete)})
    try:
        with pytest.raises(AssertionError, match=r"postgres\.key"):
            stack.up()
    finally:
        stack.remove()


def test_a_certificate_of_another_host_is_refused(image: Stack, tmp_path: Path) -> None:
    directory = write_certificates(tmp_path / "given", postgres="DNS:another")
    stack = Stack(TLS, environment={"VIGIL_CERTS": str(directory)})
    try:
        with pytest.raises(AssertionError) as failed:
            stack.up()
        assert "not valid for 'postgres'" in "".join(failed.value.__notes__)
    finally:
        stack.remove()


def test_three_nodes_with_tls_and_client_failover(image: Stack, certificates: Path) -> None:
    stack = Stack(THREE_NODES, TLS, environment={"VIGIL_CERTS": str(certificates)})
    try:
        stack.up()
        watch = _complete_iteration(stack)
        stack.kill("nats-2")
        watch.ended_whole(watch.run(), queries=2)
        stack.kill("nats-3")
        stack.up()
        watch.ended_whole(watch.run(), queries=2)
    finally:
        stack.remove()
