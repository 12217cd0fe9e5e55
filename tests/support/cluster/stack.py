"""A cluster of its own on this machine's Docker: `docker compose` by a project name that nobody else has."""

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
from tests.support.levers import Sandbox
from tests.support.paths import ROOT

IMAGE: Final = "vigil:cluster-test"
ACTORS: Final = (
    "scheduler",
    "observer",
    "researcher",
    "aggregator",
    "analyzer",
    "adviser",
    "assistant",
    "notifier",
)
SERVICES: Final = ("nats", "postgres", *ACTORS, "api", "sandbox")
PATIENCE_SECONDS: Final = 300.0
LOOK_AGAIN_SECONDS: Final = 0.1
MISCOUNTED: Final = "has active endpoints"

T = TypeVar("T")


def waited_for(look: Callable[[], T | None], what: str, seconds: float = 90) -> T:
    """What `look` finds, once it finds something; fails at the deadline. A silent api counts as nothing found."""
    deadline = time.monotonic() + seconds
    while True:
        try:
            found = look()
        except CommandError:
            found = None
        if found is not None:
            return found
        assert time.monotonic() < deadline, f"waited {seconds:.0f} s in vain for {what}"
        time.sleep(LOOK_AGAIN_SECONDS)


def _time(written: str) -> datetime:
    """Docker writes nanoseconds, which are more digits than a datetime has."""
    whole, _, fraction = written.rstrip("Z").partition(".")
    return datetime.fromisoformat(f"{whole}.{fraction[:6]:0<6}+00:00")


class Stack:
    """Everything of one project; `up` makes it, `remove` leaves nothing of it."""

    def __init__(self, *more_files: str, environment: Mapping[str, str] | None = None) -> None:
        """`more_files` are Compose files beside the two that every test uses, by their path in the repository."""
        port, sandbox_port = free_ports(2)
        self.project = f"vigil-test-{uuid4().hex[:8]}"
        foreign = ("OPENAI_", "TAVILY_", "VIGIL_", "COMPOSE_")
        self.environment = {
            **{name: value for name, value in os.environ.items() if not name.startswith(foreign)},
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

    def compose(self, *arguments: str, given: str | None = None) -> str:
        """What it printed; fails with what it complained of."""
        return self._run("docker", "compose", *arguments, given=given)

    def docker(self, *arguments: str) -> str:
        return self._run("docker", *arguments)

    def build(self) -> None:
        self.compose("build", "--quiet", "keys")

    def up(self, *scales: str) -> float:
        """Starts what does not run, at scales such as `researcher=4`; seconds until all of it is healthy."""
        started = time.monotonic()
        options = [word for scale in scales for word in ("--scale", scale)]
        try:
            self.compose("up", "--detach", "--no-build", *options)
        except AssertionError as error:
            error.add_note(self.compose("logs", "--no-color", "--tail=40", "keys", "migrate"))
            raise
        waited_for(self.healthy, "every container to be healthy")
        seconds = time.monotonic() - started
        if self.first_up_seconds is None:
            self.first_up_seconds = seconds
            self._come_in()
        return seconds

    def down(self) -> None:
        self._down("down", "--timeout", "30")

    def remove(self) -> None:
        self._down("--profile", "*", "down", "--volumes", "--remove-orphans", "--timeout", "3")
        assert self._left("volume", "ls") == []
        self.api.close()

    def healthy(self) -> bool | None:
        """True where every service runs and says that it is well."""
        found = [json.loads(line) for line in self.compose("ps", "--format=json").splitlines()]
        well = {each["Service"] for each in found if each["Health"] == "healthy"}
        unwell = [each for each in found if each["Health"] not in ("", "healthy")]
        return True if well >= set(SERVICES) and not unwell else None

    def containers(self, service: str) -> list[str]:
        """Ids of those that run."""
        return self.compose("ps", "--quiet", "--status=running", service).split()

    def kill(self, service: str) -> str:
        """SIGKILL to one container of that service; its id."""
        victim = self.containers(service)[0]
        self.docker("kill", victim)
        return victim

    def seconds_to_ready(self, container: str) -> float:
        """From the start of the container's process to the line in which its actor says that it is ready."""
        self.docker("restart", container)
        started = self.docker("inspect", "--format", "{{.State.StartedAt}}", container).strip()

        def look() -> str | None:
            for line in self.docker("logs", "--since", started, container).splitlines():
                if '"event": "ready"' in line:
                    return str(json.loads(line)["timestamp"])
            return None

        ready = waited_for(look, "the actor to be ready")
        return (_time(ready) - _time(started)).total_seconds()

    def logs(self) -> str:
        return self.compose("logs", "--no-color", "--timestamps")

    def sql(self, statement: str) -> str:
        """The answer, unaligned, asked as the superuser within the server's own container."""
        psql = ("psql", "--username=postgres", "--dbname=vigil", "--tuples-only", "--no-align")
        return self.compose("exec", "-T", "postgres", *psql, "--command", statement).strip()

    def python(self, service: str, program: str) -> str:
        """What `program` prints, run in a container of that service with all that is given to it."""
        return self.compose("exec", "-T", service, "python", "-", given=program)

    def told(self, is_last: Callable[[dict[str, Any]], bool]) -> list[dict[str, Any]]:
        """The events that are kept, the oldest first, as far as `is_last`; read by `vigil tail`."""
        told: list[dict[str, Any]] = []
        for event in self._tail():
            told.append(event)
            if is_last(event):
                return told
        raise AssertionError("`vigil tail` ended before the event that was looked for")

    def ended(self, agent: str, number: int, *, seconds: float = 120) -> IterationDetails:
        """The agent's iteration of that number, once it has ended."""

        def look() -> IterationDetails | None:
            for each in self.api.iterations(agent):
                if each.number == number and each.ended_at is not None:
                    return self.api.iteration(each.id)
            return None

        return waited_for(look, f"iteration {number} of {agent} to end", seconds)

    def _come_in(self) -> None:
        """By a token that is made within the api, as on any installation where nobody has one yet."""
        making = "vigil token create tests --scope read --scope write --scope operator --database"
        token = self.compose("exec", "-T", "api", *making.split()).strip()
        self.api.close()
        self.api = Client(Api(self.api.url, token))

    def _down(self, *down: str) -> None:
        """Runs `down`, forgiving it one thing: an empty network that the engine keeps by a wrong count of its endpoints.

        Engines such as Debian's 20.10 now and then miscount as containers leave; nothing but a restart of the
        engine mends it (moby/moby#43286). Run once more, `down` also does what the first left when it gave up.
        """
        try:
            self.compose(*down)
        except AssertionError as error:
            if MISCOUNTED not in str(error):
                raise
            with contextlib.suppress(AssertionError):
                self.compose(*down)
            assert self._left("container", "ls", "--all") == []
            for network in self._left("network", "ls"):
                print(f"\nempty, and kept by the engine until it is restarted: network {network}")

    def _left(self, *listing: str) -> list[str]:
        """Ids of what the engine lists of this project."""
        of_this = f"label=com.docker.compose.project={self.project}"
        return self.docker(*listing, "--quiet", "--filter", of_this).split()

    def _tail(self) -> Iterator[dict[str, Any]]:
        command = "docker compose run --rm --no-TTY --no-deps vigil tail --from-start --json"
        with subprocess.Popen(
            ["timeout", "--signal=INT", "60", *command.split()],
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

    def _run(self, *command: str, given: str | None = None) -> str:
        done = subprocess.run(
            command,
            cwd=ROOT,
            env=self.environment,
            input=given,
            capture_output=True,
            text=True,
            timeout=PATIENCE_SECONDS,
            check=False,
        )
        assert done.returncode == 0, (
            f"{' '.join(command)}: {done.stderr[-3000:]}{done.stdout[-1000:]}"
        )
        return done.stdout
