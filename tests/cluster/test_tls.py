"""The cluster over TLS: all of it works, and nobody is let in who leaves TLS out or does not ask whom he speaks to."""

import json
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.certificates import certified
from tests.support.cluster.stack import Stack
from tests.support.cluster.watch import Watch
from tests.support.paths import TESTS

pytestmark = [
    pytest.mark.cluster,
    pytest.mark.slow,
    pytest.mark.skipif(
        shutil.which("openssl") is None, reason="openssl, which makes the certificates, is not here"
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
    return certified(tmp_path_factory.mktemp("tls") / "certificates")


@pytest.fixture(scope="module")
def turned(image: Stack, certificates: Path) -> Iterator[Watch]:
    """An agent that has done an iteration in plain text, in a cluster that was then turned to TLS."""
    stack = Stack()
    try:
        stack.up()
        watch = _iteration_ends(stack)
        stack.environment |= {
            "COMPOSE_FILE": stack.environment["COMPOSE_FILE"].replace(":", f":{TLS}:", 1),
            "VIGIL_CERTS": str(certificates),
        }
        stack.up()
        yield watch
    finally:
        stack.remove()


@pytest.fixture
def secured(turned: Watch) -> Stack:
    return turned.stack


def _iteration_ends(stack: Stack) -> Watch:
    watch = Watch(stack)
    watch.plan(queries=2)
    watch.start()
    watch.told_once([watch.ended_whole(1, queries=2)])
    return watch


def test_all_that_was_is_kept_and_every_connection_is_encrypted(turned: Watch) -> None:
    first = turned.ended_whole(1, queries=2)
    turned.told_once([first, turned.ended_whole(turned.run(), queries=2)])
    turned.nothing_dead()
    assert turned.stack.sql(ENCRYPTED) == "t"


def test_plain_text_and_strangers_are_refused(secured: Stack) -> None:
    found = json.loads(secured.python("researcher", EAVESDROP.read_text()))
    assert {what: said for what, said in found.items() if "as it should be" in what} == {
        "nats as it should be": "done",
        "postgres as it should be": "done",
    }
    assert found["nats in plain text"] == "the connection is ended"
    assert "no encryption" in found["postgres in plain text"]
    for without in ("nats without the CA", "postgres without the CA"):
        assert "certificate verify failed" in found[without]
    assert "certificate is not valid for" in found["nats by another name"]
    assert "does not match host name" in found["postgres by another name"]


def test_each_server_sees_its_own_key_only(secured: Stack) -> None:
    find = "find / -name nats.key -o -name postgres.key 2>/dev/null || true"
    for service, own in {"nats": {"nats.key"}, "postgres": {"postgres.key"}, "api": set()}.items():
        found = secured.compose("exec", "-T", "-u", "root", service, "sh", "-c", find)
        assert {Path(file).name for file in found.split()} == own


def test_one_that_is_missing_is_named(image: Stack, certificates: Path, tmp_path: Path) -> None:
    given = tmp_path / "given"
    shutil.copytree(certificates, given)
    (given / "postgres.key").unlink()
    stack = Stack(TLS, environment={"VIGIL_CERTS": str(given)})
    try:
        with pytest.raises(AssertionError, match=r"postgres\.key"):
            stack.up()
    finally:
        stack.remove()


def test_one_that_names_another_is_refused_with_the_reason(image: Stack, tmp_path: Path) -> None:
    given = certified(tmp_path / "given", postgres="DNS:another")
    stack = Stack(TLS, environment={"VIGIL_CERTS": str(given)})
    try:
        with pytest.raises(AssertionError) as failed:
            stack.up()
        assert "not valid for 'postgres'" in "".join(failed.value.__notes__)
    finally:
        stack.remove()


def test_three_nodes_and_clients_that_find_another_over_tls(
    image: Stack, certificates: Path
) -> None:
    stack = Stack(THREE_NODES, TLS, environment={"VIGIL_CERTS": str(certificates)})
    try:
        stack.up()
        watch = _iteration_ends(stack)
        stack.kill("nats-2")
        watch.ended_whole(watch.run(), queries=2)
        stack.kill("nats-3")
        stack.up()
        watch.ended_whole(watch.run(), queries=2)
    finally:
        stack.remove()
