"""The pods of deploy/kubernetes/overlays/dev as containers of Docker Compose: the same environment, files and limits.

Not modelled: network policies, and Services other than their names. All containers start at once, as in Kubernetes.
"""

import base64
import json
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import yaml

from cli.cluster.keys import Keys
from cli.cluster.secrets import DATABASE_OWNER, write_secrets
from tests.support.cluster.stack import IMAGE, Stack
from tests.support.kubernetes import Manifest, Overlay, selects
from tests.support.paths import CORPUS, SANDBOX_SUPPORT
from tests.support.sandbox_control import SANDBOX_HANDLER

NATS: Final = "nats"
POSTGRES: Final = "postgres"
OPERATOR_UID: Final = 10008


class PodStack(Stack):
    """A Compose project made from the rendered manifests, in `folder`."""

    superuser = DATABASE_OWNER
    healthy_seconds = 240.0
    """Everything starts at once, and the services wait for the migration."""

    def __init__(self, folder: Path) -> None:
        file = folder / "compose.yaml"
        super().__init__(environment={"COMPOSE_FILE": str(file), "COMPOSE_PROFILES": ""})
        self.overlay = Overlay.render("dev")
        self._files = _Files(folder, self.overlay)
        self._files.write_secrets()
        file.write_text(yaml.safe_dump(self._project()))

    def _project(self) -> dict[str, Any]:
        services = {name: self._service(name) for name in self.overlay.pods()}
        port, sandbox_port = (
            self.environment[n] for n in ("VIGIL_PORT", "VIGIL_TEST_SANDBOX_PORT")
        )
        services["api"] |= _published(f"127.0.0.1:{port}:8080")
        # Additions of the tests, as in tests/cluster/compose.test.yaml.
        services["sandbox"] |= _published(f"127.0.0.1:{sandbox_port}:8080")
        services["sandbox"]["entrypoint"] += [
            *("--corpus", "/corpus", "--handler", SANDBOX_HANDLER)
        ]
        services["sandbox"]["environment"] |= {"PYTHONPATH": "/opt/tests"}
        services["sandbox"]["volumes"] += [
            f"{CORPUS}:/corpus:ro",
            f"{SANDBOX_SUPPORT}:/opt/tests/tests/support/sandbox:ro",
        ]
        # The entrypoint of the tests' image switches the user itself, unlike that of the official one.
        services[POSTGRES] |= {
            "user": "0:0",
            "cap_add": ["CHOWN", "DAC_OVERRIDE", "FOWNER", "SETGID", "SETUID"],
            "security_opt": [],
        }
        services["vigil"] = self._command()
        return {"services": services, "networks": {"inside": {"internal": True}, "outside": {}}}

    def _service(self, name: str) -> dict[str, Any]:
        template = self.overlay.pods()[name]
        pod, (container,) = template["spec"], template["spec"]["containers"]
        context = pod["securityContext"]
        image = container["image"]
        restart = {"OnFailure": "on-failure"}.get(pod.get("restartPolicy"), "unless-stopped")
        service: dict[str, Any] = {
            "image": IMAGE if image.startswith("vigil:") else image,
            "user": f"{context['runAsUser']}:{context['runAsGroup']}",
            "group_add": [str(context["fsGroup"])],
            "environment": self.overlay.environment(
                name, {"metadata.name": f"{name}-0", "status.podIP": "192.0.2.1"}
            ),
            "read_only": container["securityContext"]["readOnlyRootFilesystem"],
            "cap_drop": container["securityContext"]["capabilities"]["drop"],
            "security_opt": ["no-new-privileges:true"],
            "mem_limit": container["resources"]["limits"]["memory"].removesuffix("i").lower(),
            "stop_grace_period": f"{pod.get('terminationGracePeriodSeconds', 30)}s",
            "restart": restart,
            "healthcheck": _health_check(name, container),
            "networks": {"inside": {"aliases": self._names(template)}},
            **self._files.mounts(name),
        }
        for ours, theirs in (("command", "entrypoint"), ("args", "command")):
            if ours in container:
                service[theirs] = [*container[ours]]
        return service

    def _names(self, template: Manifest) -> list[str]:
        """The Services that lead to the pod."""
        return [
            name
            for name, service in self.overlay.of_kind("Service").items()
            if selects({"matchLabels": service["spec"]["selector"]}, template["metadata"]["labels"])
        ]

    def _command(self) -> dict[str, Any]:
        """The command with the operator's keys, as in compose.yaml; in no manifest."""
        return {
            "image": IMAGE,
            "profiles": ["command"],
            "user": f"{OPERATOR_UID}:{OPERATOR_UID}",
            "entrypoint": ["vigil"],
            "environment": {
                **self.overlay.environment("scheduler", {}),
                "VIGIL_URL": "http://api:8080",
            },
            "networks": ["inside"],
            "tmpfs": ["/tmp"],
            "volumes": [f"{self._files.secret('operator-keys', OPERATOR_UID)}:/run/vigil/keys:ro"],
        }


class _Files:
    """The files that the pods mount, on this machine."""

    def __init__(self, folder: Path, overlay: Overlay) -> None:
        self._folder = folder
        self._overlay = overlay
        self._secrets: dict[str, dict[str, bytes]] = {}

    def write_secrets(self) -> None:
        """As docs/operations/kubernetes.md says."""
        keys = self._folder / "keys"
        Keys(keys).make(postgres_password_file=keys / "postgres" / "password", routes=())
        write_secrets(keys, self._folder / "secrets.json")
        for secret in json.loads((self._folder / "secrets.json").read_text())["items"]:
            self._secrets[secret["metadata"]["name"]] = {
                name: base64.b64decode(text) for name, text in secret["data"].items()
            }

    def secret(self, name: str, group: int) -> Path:
        return self._lay(f"{name}-{group}", self._secrets[name], group)

    def mounts(self, workload: str) -> dict[str, list[str]]:
        """The volumes of a workload as `tmpfs` and `volumes` of Compose."""
        pod = self._overlay.pods()[workload]["spec"]
        group = pod["securityContext"]["fsGroup"]
        (container,) = pod["containers"]
        sources = {volume["name"]: volume for volume in pod["volumes"]}
        tmpfs, volumes = [], []
        for mount in container["volumeMounts"]:
            source = sources.get(mount["name"])
            if source is None or "emptyDir" in source:  # claims too: these clusters do not last
                size = (source or {}).get("emptyDir", {}).get("sizeLimit", "1Gi")
                tmpfs.append(f"{mount['mountPath']}:size={size.removesuffix('i').lower()}")
                continue
            place = self._lay(f"{workload}-{mount['name']}", dict(self._contents(source)), group)
            volumes.append(f"{place / mount.get('subPath', '')}:{mount['mountPath']}:ro")
        return {"tmpfs": tmpfs, "volumes": volumes}

    def _contents(self, volume: Manifest) -> Iterator[tuple[str, bytes]]:
        if "configMap" in volume:
            for name, text in self._overlay.config(volume["configMap"]["name"]).items():
                yield name, text.encode()
        elif "secret" in volume:
            yield from self._items(volume["secret"]["secretName"], volume["secret"])
        else:
            for source in volume["projected"]["sources"]:
                yield from self._items(source["secret"]["name"], source["secret"])

    def _items(self, name: str, source: Manifest) -> Iterator[tuple[str, bytes]]:
        every = [{"key": key, "path": key} for key in self._secrets[name]]
        for item in source.get("items", every):
            yield item["path"], self._secrets[name][item["key"]]

    def _lay(self, name: str, contents: Mapping[str, bytes], group: int) -> Path:
        """Write files as the kubelet does: of root, and readable for the pod's group."""
        folder = self._folder / "volumes" / name
        for path, content in contents.items():
            file = folder / path
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(content)
            if os.geteuid() == 0:
                os.chown(file, 0, group)
                file.chmod(0o440)
        return folder


def _published(port: str) -> dict[str, Any]:
    return {"ports": [port], "networks": ["inside", "outside"]}


def _health_check(name: str, container: Manifest) -> dict[str, Any]:
    """The readiness probe, from inside of the container."""
    probe = container.get("readinessProbe")
    if probe is None:
        return {"disable": True}
    if "exec" in probe:
        command = probe["exec"]["command"]
    elif name == NATS:
        url = f"http://127.0.0.1:8222{probe['httpGet']['path']}"
        command = ["wget", "-q", "-O", "/dev/null", url]
    else:
        command = ["python", "-m", "shared.runtime.health_probe", probe["httpGet"]["path"]]
    return {"test": ["CMD", *command], "interval": "2s", "timeout": "5s", "retries": 30}
