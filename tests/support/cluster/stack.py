"""A separate cluster on this machine's Docker: `docker compose` with a unique project name."""

import contextlib
import json
import os
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping
from datetime import datetime
from typing import Any, Final, TypeVar
from uuid import uuid4

from cli.client.client import Client
from cli.client.target import Api
from cli.errors import CommandError
from cli.local.ports import free_ports
from shared.schemas.base import IterationDetails
from tests.support.paths import ROOT
from tests.support.sandbox_control import Sandbox

IMAGE: Final = "vigil:cluster-test"
CONSUMER_SERVICES: Final = (
    "scheduler",
    "observer",
    "researcher",
    "aggregator",
    "analyzer",
    "adviser",
    "assistant",
    "notifier",
)
SERVICES: Final = ("nats", "postgres", *CONSUMER_SERVICES, "api", "sandbox")
PATIENCE_SECONDS: Final = 300.0
LOOK_AGAIN_SECONDS: Final = 0.1
ENDPOINT_ERROR: Final = "has active endpoints"

T = TypeVar("T")


def wait_for(look: Callable[[], T | None], what: str, seconds: float = 90) -> T:
    """Poll `look` until it returns a value; fail at the deadline. An API that does not answer counts as None."""
    deadline = time.monotonic() + seconds
    while True:
        try:
            result = look()
        except CommandError:
            result = None
        if result is not None:
            return result
        assert time.monotonic() < deadline, f"waited {seconds:.0f} s in vain for {what}"
        time.sleep(LOOK_AGAIN_SECONDS)


def _time(written: str) -> datetime:
    """Parse Docker's times, which have nanoseconds."""
    whole, _, fraction = written.rstrip("Z").partition(".")
    return datetime.fromisoformat(f"{whole}.{fraction[:6]:0<6}+00:00")


class Stack:
    """A Compose project; `up` creates it, `remove` deletes all of it."""

    superuser = "postgres"
    healthy_seconds = 90.0

    def __init__(self, *more_files: str, environment: Mapping[str, str] | None = None) -> None:
        """`more_files` are paths of additional Compose files, relative to the repository."""
        port, sandbox_port = free_ports(2)
        self.project = f"vigil-test-{uuid4().hex[:8]}"
        removed_prefixes = ("OPENAI_", "TAVILY_", "VIGIL_", "COMPOSE_")
        self.environment = {
            **{
                name: value
                for name, value in os.environ.items()
                if not name.startswith(removed_prefixes)
            },
            "COMPOSE_FILE": ":".join(
                ["compose.yaml", *more_files, "tests/cluster/compose.test.yaml"]
            ),
            "COMPOSE_PROJECT_NAME": self.project,
            "COMPOSE_PROFILES": "sandbox",
            "VIGIL_IMAGE": IMAGE,
            "VIGIL_PORT": str(port),
            "VIGIL_TEST_SANDBOX_PORT": str(sandbox_port),
            **(environment or {}),
        }
        self.first_up_seconds: float | None = None
        self.api = Client(Api(f"http://127.0.0.1:{port}"))
        self.sandbox = Sandbox(f"http://127.0.0.1:{sandbox_port}")

    def compose(self, *arguments: str, stdin: str | None = None) -> str:
        """Run a Compose command; return its output, or fail with its errors."""
        return self._run("docker", "compose", *arguments, stdin=stdin)

    def docker(self, *arguments: str) -> str:
        return self._run("docker", *arguments)

    def build(self) -> None:
        self.compose("build", "--quiet", "keys")

    def up(self, *scales: str) -> float:
        """Start all services, at scales such as `researcher=4`; return the seconds until they are healthy."""
        started = time.monotonic()
        options = [word for scale in scales for word in ("--scale", scale)]
        try:
            self.compose("up", "--detach", "--no-build", *options)
        except AssertionError as error:
            error.add_note(self.compose("logs", "--no-color", "--tail=40", "keys", "migrate"))
            raise
        wait_for(self.healthy, "every container to be healthy", self.healthy_seconds)
        seconds = time.monotonic() - started
        if self.first_up_seconds is None:
            self.first_up_seconds = seconds
            self._authenticate()
        return seconds

    def down(self) -> None:
        self._down("down", "--timeout", "30")

    def remove(self) -> None:
        self._down("--profile", "*", "down", "--volumes", "--remove-orphans", "--timeout", "3")
        assert self._list_ids("volume", "ls") == []
        self.api.close()

    def healthy(self) -> bool | None:
        """True if every service is running and healthy."""
        containers = [json.loads(line) for line in self.compose("ps", "--format=json").splitlines()]
        healthy = {
            container["Service"] for container in containers if container["Health"] == "healthy"
        }
        unhealthy = [
            container for container in containers if container["Health"] not in ("", "healthy")
        ]
        return True if healthy >= set(SERVICES) and not unhealthy else None

    def containers(self, service: str) -> list[str]:
        """Ids of the running containers."""
        return self.compose("ps", "--quiet", "--status=running", service).split()

    def kill(self, service: str) -> str:
        """Kill one container of that service; return its id."""
        victim = self.containers(service)[0]
        self.docker("kill", victim)
        return victim

    def seconds_to_ready(self, container: str) -> float:
        """Restart the container; return the seconds until its service logs that it is ready."""
        self.docker("restart", container)
        started = self.docker("inspect", "--format", "{{.State.StartedAt}}", container).strip()

        def look() -> str | None:
            for line in self.docker("logs", "--since", started, container).splitlines():
                if '"event": "ready"' in line:
                    return str(json.loads(line)["timestamp"])
            return None

        ready = wait_for(look, "the service to be ready")
        return (_time(ready) - _time(started)).total_seconds()

    def logs(self) -> str:
        return self.compose("logs", "--no-color", "--timestamps")

    def sql(self, statement: str) -> str:
        """Run a statement as the superuser in the server's container; return the unaligned output."""
        psql = (
            "psql",
            f"--username={self.superuser}",
            "--dbname=vigil",
            "--tuples-only",
            "--no-align",
        )
        return self.compose("exec", "-T", "postgres", *psql, "--command", statement).strip()

    def python(self, service: str, program: str) -> str:
        """Run `program` in a container of that service; return its output."""
        return self.compose("exec", "-T", service, "python", "-", stdin=program)

    def list_events(self, is_last: Callable[[dict[str, Any]], bool]) -> list[dict[str, Any]]:
        """The stored events, oldest first, up to the first that is `is_last`, as read by `vigil tail`."""
        events: list[dict[str, Any]] = []
        for event in self._tail():
            events.append(event)
            if is_last(event):
                return events
        raise AssertionError("`vigil tail` ended before the expected event")

    def wait_for_iteration(
        self, agent: str, number: int, *, seconds: float = 120
    ) -> IterationDetails:
        """The agent's iteration of that number, once it has ended."""

        def look() -> IterationDetails | None:
            for iteration in self.api.iterations(agent):
                if iteration.number == number and iteration.ended_at is not None:
                    return self.api.iteration(iteration.id)
            return None

        return wait_for(look, f"iteration {number} of {agent} to end", seconds)

    def _authenticate(self) -> None:
        """Use a token created in the API's container, as in an installation without tokens."""
        command = "vigil token create tests --scope read --scope write --scope operator --database"
        self._use_token(self.compose("exec", "-T", "api", *command.split()).strip())

    def _use_token(self, token: str) -> None:
        self.api.close()
        self.api = Client(Api(self.api.url, token))

    def _tail_command(self) -> list[str]:
        command = "docker compose run --rm --no-TTY --no-deps vigil tail --from-start --json"
        return command.split()

    def _down(self, *arguments: str) -> None:
        """Run `down`; ignore an empty network that the engine does not remove because it miscounts its endpoints.

        Engines such as Debian's 20.10 sometimes miscount when containers stop; only a restart of the engine repairs it
        (moby/moby#43286). The second `down` does what the first left undone.
        """
        try:
            self.compose(*arguments)
        except AssertionError as error:
            if ENDPOINT_ERROR not in str(error):
                raise
            with contextlib.suppress(AssertionError):
                self.compose(*arguments)
            assert self._list_ids("container", "ls", "--all") == []
            for network in self._list_ids("network", "ls"):
                print(
                    f"\nempty, but not removed by the engine until its restart: network {network}"
                )

    def _list_ids(self, *listing: str) -> list[str]:
        """Ids of this project's objects that the engine lists."""
        project_filter = f"label=com.docker.compose.project={self.project}"
        return self.docker(*listing, "--quiet", "--filter", project_filter).split()

    def _tail(self) -> Iterator[dict[str, Any]]:
        with subprocess.Popen(
            ["timeout", "--signal=INT", "60", *self._tail_command()],
            cwd=ROOT,
            env=self.environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        ) as process:
            assert process.stdout is not None
            try:
                for line in process.stdout:
                    yield json.loads(line)
            finally:
                process.terminate()

    def _run(self, *command: str, stdin: str | None = None) -> str:
        result = subprocess.run(
            command,
            cwd=ROOT,
            env=self.environment,
            input=stdin,
            capture_output=True,
            text=True,
            timeout=PATIENCE_SECONDS,
            check=False,
        )
        assert result.returncode == 0, (
            f"{' '.join(command)}: {result.stderr[-3000:]}{result.stdout[-1000:]}"
        )
        return result.stdout
