"""The pods of deploy/kubernetes run on Docker, confined as their manifests say, and do an iteration."""

import json
from collections.abc import Iterator

import pytest

from tests.support.cluster.pods import POSTGRES, PodStack
from tests.support.cluster.stack import SERVICES, Stack
from tests.support.cluster.watch import Watch

pytestmark = [pytest.mark.cluster, pytest.mark.slow]

LOOK_AT_ITSELF = """
import errno, json, os, pathlib
status = dict(line.split(":\\t", 1) for line in pathlib.Path("/proc/self/status").read_text().splitlines())
refused = {}
for folder in ("/", "/opt/vigil", "/run", "/run/vigil/keys", "/etc", "/tmp"):
    try:
        pathlib.Path(folder, "new-file").write_text("x")
    except OSError as error:
        refused[folder] = errno.errorcode[error.errno]
keys = pathlib.Path("/run/vigil/keys")
print(json.dumps({
    "uid": os.getuid(),
    "capabilities": int(status["CapEff"], 16) | int(status["CapBnd"], 16),
    "no_new_privileges": int(status["NoNewPrivs"]),
    "refused": refused,
    "keys": sorted(file.name for file in keys.iterdir()) if keys.exists() else [],
}))
"""


@pytest.fixture(scope="module")
def pods(image: Stack, tmp_path_factory: pytest.TempPathFactory) -> Iterator[PodStack]:
    stack = PodStack(tmp_path_factory.mktemp("pods"))
    try:
        stack.up()
        yield stack
    finally:
        stack.remove()


def test_an_iteration_of_the_pods_completes(pods: PodStack) -> None:
    watch = Watch(pods)
    watch.plan(queries=3)
    watch.start()
    iteration = watch.ended_whole(1, queries=3)
    watch.assert_events_published_once([iteration])
    watch.assert_no_dead_letters()
    for name in SERVICES:
        (container,) = pods.containers(name)
        state = json.loads(pods.docker("inspect", container))[0]
        assert not state["State"]["OOMKilled"]
        assert state["RestartCount"] == 0, name


def test_every_pod_is_confined_as_its_manifest_says(pods: PodStack) -> None:
    for name, template in pods.overlay.pods().items():
        if name in {POSTGRES, "nats", "migrate"}:  # no Python, or ended
            continue
        found = json.loads(pods.python(name, LOOK_AT_ITSELF))
        assert found["uid"] == template["spec"]["securityContext"]["runAsUser"]
        assert found["capabilities"] == 0
        assert found["no_new_privileges"] == 1
        assert "/tmp" not in found["refused"]
        assert set(found["refused"]) >= {"/", "/opt/vigil", "/run", "/etc"}
        assert set(found["refused"].values()) <= {"EROFS", "EACCES", "ENOENT"}, found
        has_keys = name != "sandbox"
        assert ("vigil_nats_password" in found["keys"]) == has_keys


def test_the_root_file_system_is_read_only(pods: PodStack) -> None:
    for name in SERVICES:
        (container,) = pods.containers(name)
        state = json.loads(pods.docker("inspect", container))[0]
        assert state["HostConfig"]["ReadonlyRootfs"], name
