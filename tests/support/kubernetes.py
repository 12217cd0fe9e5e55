"""The manifests of deploy/kubernetes, rendered by `kubectl kustomize`, which needs no cluster."""

import re
import shutil
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, Final

import pytest
import yaml

from tests.support.paths import ROOT

KUBERNETES: Final = ROOT / "deploy" / "kubernetes"
OVERLAYS: Final = ("bundled", "dev", "external", "production")
WORKLOADS: Final = ("Deployment", "StatefulSet", "Job")
MINIMUM_MINOR: Final = 27
"""Version of kubectl, 1.x, from which kustomize knows all that the overlays use."""

Manifest = dict[str, Any]


def require_kubectl() -> None:
    """Skip the test if kubectl is missing or too old."""
    if shutil.which("kubectl") is None:
        pytest.skip("kubectl, which renders the manifests, is not installed (see .ci/kubectl)")
    found = re.search(r"v1\.(\d+)\.", _kubectl_version())
    if found is None or int(found[1]) < MINIMUM_MINOR:
        pytest.skip(f"kubectl is older than 1.{MINIMUM_MINOR} (see .ci/kubectl)")


@cache
def _kubectl_version() -> str:
    return subprocess.run(
        ["kubectl", "version", "--client"], capture_output=True, text=True, check=False
    ).stdout


@cache
def _rendered(overlay: str) -> Sequence[Manifest]:
    text = subprocess.run(
        ["kubectl", "kustomize", str(KUBERNETES / "overlays" / overlay)],
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    ).stdout
    return list(yaml.safe_load_all(text))


@dataclass(frozen=True)
class Overlay:
    """The manifests of one overlay, shared by all tests of a process: read them only."""

    name: str
    manifests: Sequence[Manifest]

    @classmethod
    def render(cls, name: str) -> "Overlay":
        require_kubectl()
        return cls(name, _rendered(name))

    def of_kind(self, *kinds: str) -> dict[str, Manifest]:
        """Manifests of these kinds by name."""
        return {
            manifest["metadata"]["name"]: manifest
            for manifest in self.manifests
            if manifest["kind"] in kinds
        }

    def pods(self) -> dict[str, Manifest]:
        """Pod templates by the name of their workload."""
        return {
            name: workload["spec"]["template"]
            for name, workload in self.of_kind(*WORKLOADS).items()
        }

    def config(self, name: str) -> Mapping[str, str]:
        """The data of a ConfigMap."""
        data: dict[str, str] = self.of_kind("ConfigMap")[name]["data"]
        return data

    def environment(self, workload: str, pod: Mapping[str, str]) -> dict[str, str]:
        """The environment of a workload's container as Kubernetes would set it. `pod` has its fields by path."""
        (container,) = self.pods()[workload]["spec"]["containers"]
        variables: dict[str, str] = {}
        for source in container.get("envFrom", []):
            variables |= self.config(source["configMapRef"]["name"])
        defined: dict[str, str] = {}
        for entry in container.get("env", []):
            defined[entry["name"]] = self._value(entry, pod, defined)
        return variables | defined

    def _value(self, entry: Manifest, pod: Mapping[str, str], defined: Mapping[str, str]) -> str:
        """References are resolved from earlier entries alone; Kubernetes leaves any other as it is."""
        if "value" in entry:
            return re.sub(
                r"\$\((\w+)\)", lambda found: defined.get(found[1], found[0]), entry["value"]
            )
        source = entry["valueFrom"]
        if "fieldRef" in source:
            return pod[source["fieldRef"]["fieldPath"]]
        reference = source["configMapKeyRef"]
        return self.config(reference["name"])[reference["key"]]


def selects(selector: Mapping[str, Any], labels: Mapping[str, str]) -> bool:
    """Whether a label selector matches these labels."""

    def holds(expression: Mapping[str, Any]) -> bool:
        is_in = labels.get(expression["key"]) in expression["values"]
        return is_in if expression["operator"] == "In" else not is_in

    required = selector.get("matchLabels", {}).items()
    return required <= labels.items() and all(map(holds, selector.get("matchExpressions", [])))


def secret_files(template: Manifest) -> Iterator[tuple[str, str, str]]:
    """Secret, key and path in the container of each file that a pod mounts; the key is * for all of a Secret."""
    (container,) = template["spec"]["containers"]
    paths = {mount["name"]: mount["mountPath"] for mount in container.get("volumeMounts", [])}
    for volume in template["spec"].get("volumes", []):
        projected = [
            {"secretName": source["secret"]["name"], **source["secret"]}
            for source in volume.get("projected", {}).get("sources", [])
        ]
        for secret in [volume["secret"]] if "secret" in volume else projected:
            for item in secret.get("items", [{"key": "*", "path": "*"}]):
                yield secret["secretName"], item["key"], f"{paths[volume['name']]}/{item['path']}"
