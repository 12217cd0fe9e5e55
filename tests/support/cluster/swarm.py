"""A stack on a Docker Swarm of one node, which lives as long as the test."""

import json
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import pytest

from cli.cluster.keys import Keys
from cli.cluster.secrets import DATABASE_OWNER
from tests.support.cluster.stack import IMAGE, SERVICES, Stack, wait_for
from tests.support.paths import CORPUS, ROOT, SANDBOX_SUPPORT

BROKEN_IMAGE: Final = "vigil:cluster-test-broken"
HEALTHY_SECONDS: Final = 360.0
STACK_LABEL: Final = "com.docker.stack.namespace"
SERVICE_LABEL: Final = "com.docker.swarm.service.name"
OPERATOR_UID: Final = 10008


@contextmanager
def own_swarm() -> Iterator[None]:
    """Make a swarm of this node and leave it at the end. Skip the test if the node is already in one: it is not ours."""
    state = _docker("info", "--format", "{{.Swarm.LocalNodeState}}").strip()
    if state != "inactive":
        pytest.skip(
            f"this Docker Engine is in a swarm already ({state}), which the test leaves alone"
        )
    _docker("swarm", "init", "--advertise-addr", "127.0.0.1", "--listen-addr", "127.0.0.1:2377")
    try:
        yield
    finally:
        _docker("swarm", "leave", "--force")


class SwarmStack(Stack):
    """deploy/stack.yaml as a stack of a unique name, with keys in `folder`."""

    superuser = DATABASE_OWNER

    def __init__(self, folder: Path) -> None:
        self.keys = folder / "keys"
        Keys(self.keys).make(postgres_password_file=self.keys / "postgres" / "password", routes=())
        super().__init__(
            environment={
                "VIGIL_KEYS": str(self.keys),
                "VIGIL_TEST_CORPUS": str(CORPUS),
                "VIGIL_TEST_SANDBOX": str(SANDBOX_SUPPORT),
            }
        )

    def up(self, *scales: str) -> float:
        raise NotImplementedError("use `deploy` and `scale`")

    def deploy(self) -> None:
        """Deploy the stack; return when each service is healthy."""
        files = ("deploy/stack.yaml", "tests/cluster/stack.test.yaml")
        options = [word for file in files for word in ("--compose-file", file)]
        self.docker("stack", "deploy", "--resolve-image=never", *options, self.project)
        wait_for(self.healthy, "every service to be ready", HEALTHY_SECONDS)
        self._authenticate()

    def healthy(self) -> bool | None:
        """True if every service is healthy and, unlike what Swarm asks, ready."""
        return all(map(self._is_ready, SERVICES)) or None

    def containers(self, service: str, *filters: str) -> list[str]:
        label = f"label={SERVICE_LABEL}={self.project}_{service}"
        options = [word for text in (label, *filters) for word in ("--filter", text)]
        return self.docker("ps", "--quiet", *options).split()

    def scale(self, service: str, replicas: int) -> None:
        self.docker("service", "scale", "--detach", f"{self.project}_{service}={replicas}")
        wait_for(
            lambda: len(self.containers(service, "health=healthy")) == replicas or None,
            f"{replicas} replicas of {service} to be healthy",
            HEALTHY_SECONDS,
        )

    def update(self, service: str, image: str) -> None:
        """Begin a rolling update."""
        self.docker(
            "service", "update", "--detach", "--no-resolve-image", f"--image={image}",
            f"{self.project}_{service}",
        )  # fmt: skip

    def update_state(self, service: str) -> str:
        state = self.docker(
            "service", "inspect", "--format", "{{json .UpdateStatus}}", f"{self.project}_{service}"
        )
        return str((json.loads(state) or {}).get("State"))

    def image_of(self, service: str) -> str:
        form = "{{.Spec.TaskTemplate.ContainerSpec.Image}}"
        return self.docker(
            "service", "inspect", "--format", form, f"{self.project}_{service}"
        ).strip()

    def build_broken_image(self) -> None:
        """The image with a Python that does not start. The stack file would overwrite a broken VIGIL_ setting."""
        dockerfile = f"FROM {IMAGE}\nENV PYTHONHOME=/missing\n"
        self._run("docker", "build", "--quiet", "--tag", BROKEN_IMAGE, "-", stdin=dockerfile)

    def sql(self, statement: str) -> str:
        (container,) = self.containers("postgres")
        command = f"psql --username={self.superuser} --dbname=vigil --tuples-only --no-align"
        return self.docker("exec", container, *command.split(), "--command", statement).strip()

    def python(self, service: str, program: str) -> str:
        container = self.containers(service)[0]
        return self._run("docker", "exec", "-i", container, "python", "-", stdin=program)

    def logs(self) -> str:
        return "".join(
            self.docker("service", "logs", "--timestamps", f"{self.project}_{service}")
            for service in (*SERVICES, "migrate")
        )

    def remove(self) -> None:
        """Remove the stack, and the volumes that carry its name."""
        self.docker("stack", "rm", self.project)
        wait_for(lambda: not self._ids("container", "--all") or None, "the containers to end")
        wait_for(lambda: not self._ids("network") or None, "the networks to be removed")
        for volume in self._ids("volume"):
            self.docker("volume", "rm", volume)
        self.api.close()

    def _authenticate(self) -> None:
        command = "vigil token create tests --scope read --scope write --scope operator --database"
        (container,) = self.containers("api")
        token = self.docker("exec", container, *command.split()).strip()
        self._use_token(token)

    def _tail_command(self) -> list[str]:
        """As docs/operations/swarm.md says."""
        return [
            "docker", "run", "--rm", f"--network={self.project}_inside",
            f"--user={OPERATOR_UID}:{OPERATOR_UID}",
            f"--volume={self.keys / 'operator'}:/run/vigil/keys:ro",
            "--env=VIGIL_SECRETS_DIR=/run/vigil/keys",
            "--env=VIGIL_DATABASE_URL=postgresql://postgres:5432/vigil",
            "--env=VIGIL_NATS_URL=nats://nats:4222",
            "--env=VIGIL_URL=http://api:8080",
            IMAGE, "vigil", "tail", "--from-start", "--json",
        ]  # fmt: skip

    def _is_ready(self, service: str) -> bool:
        containers = self.containers(service, "health=healthy")
        if not containers or service in {"nats", "postgres", "sandbox"}:
            return bool(containers)
        probe = ["docker", "exec", containers[0], "python", "-m", "shared.runtime.health_probe"]
        return subprocess.run(probe, capture_output=True, check=False).returncode == 0

    def _ids(self, kind: str, *options: str) -> list[str]:
        label = f"label={STACK_LABEL}={self.project}"
        return self.docker(kind, "ls", "--quiet", *options, "--filter", label).split()


def _docker(*arguments: str) -> str:
    return subprocess.run(
        ["docker", *arguments], cwd=ROOT, capture_output=True, text=True, check=True, timeout=120
    ).stdout
