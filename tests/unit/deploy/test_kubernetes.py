"""The manifests of deploy/kubernetes: each overlay is valid and gives each service what it needs, and nothing else."""

import re
from collections.abc import Iterator
from typing import Any, Final

import kubernetes_validate  # type: ignore[import-untyped]  # it has no types
import pytest
import yaml

from cli.cluster.secrets import DATABASE_OWNER, secret_name
from cli.config.providers import MAIL_URL, MODEL_KEY, SEARCH_KEY, USED_BY
from services.analyzer.app import CONCURRENCY as ANALYZER_CONCURRENCY
from services.researcher.app import CONCURRENCY as RESEARCHER_CONCURRENCY
from shared.events.topology import CONSUMERS, PUBLISHES, STREAM
from shared.runtime.identity import (
    DATABASE_PASSWORD_FILE,
    MIGRATE,
    NATS_PASSWORD_FILE,
    SERVICES,
    TOKEN_FILE,
)
from shared.runtime.settings import SECRETS_DIR_VARIABLE, Settings
from tests.support.kubernetes import (
    KUBERNETES,
    OVERLAYS,
    WORKLOADS,
    Manifest,
    Overlay,
    secret_files,
    selects,
)
from tests.support.marks import slow
from tests.support.paths import ROOT

SERVICE_NAMES: Final = set(CONSUMERS) | set(PUBLISHES)
CUSTOM: Final = {"Cluster", "ScaledObject", "PodMonitor", "PrometheusRule"}
"""Kinds of operators. No schema of theirs is at hand: tests below check the fields that Vigil uses, by hand."""
KUBERNETES_VERSION: Final = "1.31"
"""The oldest release that is checked; `make test-nightly` checks the newest one that the validator knows too."""
POD: Final = {"status.podIP": "10.1.2.3", "metadata.name": "pod-0"}


@pytest.fixture(params=OVERLAYS)
def overlay(request: pytest.FixtureRequest) -> Overlay:
    return Overlay.render(request.param)


@pytest.fixture
def production() -> Overlay:
    return Overlay.render("production")


def test_each_folder_of_a_service_is_deployed() -> None:
    folders = {file.parent.name for file in (ROOT / "services").glob("*/__main__.py")}
    assert folders == SERVICE_NAMES


@pytest.mark.parametrize("version", [KUBERNETES_VERSION, *slow(None)])
def test_every_manifest_is_valid(overlay: Overlay, version: str | None) -> None:
    newest = kubernetes_validate.latest_version()
    for manifest in overlay.manifests:
        if manifest["kind"] not in CUSTOM:
            kubernetes_validate.validate(manifest, version or newest, strict=True)


def test_every_object_is_named_once_and_in_the_namespace(overlay: Overlay) -> None:
    names = [(manifest["kind"], manifest["metadata"]["name"]) for manifest in overlay.manifests]
    assert len(names) == len(set(names))
    for manifest in overlay.manifests:
        if manifest["kind"] != "Namespace":
            assert manifest["metadata"]["namespace"] == "vigil"


def test_each_service_has_one_deployment_that_runs_it(overlay: Overlay) -> None:
    deployments = overlay.of_kind("Deployment")
    assert set(deployments) - {"sandbox"} == SERVICE_NAMES
    uids = {service.name: service.uid for service in SERVICES}
    for name in SERVICE_NAMES:
        pod = deployments[name]["spec"]["template"]["spec"]
        assert pod["containers"][0]["command"] == ["python", "-m", f"services.{name}"]
        context = pod["securityContext"]
        assert {context[key] for key in ("runAsUser", "runAsGroup", "fsGroup")} == {uids[name]}


def test_every_pod_is_confined(overlay: Overlay) -> None:
    """What the Pod Security Standard `restricted` demands, and more."""
    for name, template in overlay.pods().items():
        pod = template["spec"]
        (container,) = pod["containers"]
        assert "initContainers" not in pod, name
        assert pod["automountServiceAccountToken"] is False
        assert pod["enableServiceLinks"] is False
        assert pod["securityContext"]["runAsNonRoot"] is True
        assert pod["securityContext"]["runAsUser"] > 0
        assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
        assert not {"hostNetwork", "hostPID", "hostIPC"} & set(pod)
        assert container["securityContext"] == {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        }
        kinds = {kind for volume in pod["volumes"] for kind in volume} - {"name"}
        assert kinds <= {"secret", "projected", "configMap", "emptyDir"}


def test_every_pod_has_resources_and_probes(overlay: Overlay) -> None:
    for name, template in overlay.pods().items():
        (container,) = template["spec"]["containers"]
        resources = container["resources"]
        assert set(resources["requests"]) == {"cpu", "memory"}
        assert _mebibytes(resources["limits"]["memory"]) >= _mebibytes(
            resources["requests"]["memory"]
        )
        if name != "migrate":
            assert {"startupProbe", "livenessProbe", "readinessProbe"} <= set(container), name


def test_probes_ask_for_health_under_a_host_name_that_the_api_accepts(overlay: Overlay) -> None:
    for name in SERVICE_NAMES:
        (container,) = overlay.pods()[name]["spec"]["containers"]
        paths = {kind: container[f"{kind}Probe"]["httpGet"] for kind in ("liveness", "readiness")}
        assert paths["liveness"]["path"] == "/health/live"
        assert paths["readiness"]["path"] == "/health/ready"
        for probe in (*paths.values(), container["startupProbe"]["httpGet"]):
            assert probe["httpHeaders"] == [{"name": "Host", "value": "localhost"}]
            assert probe["port"] == "http"
        assert container["ports"] == [{"name": "http", "containerPort": 8080}]


def test_a_pod_has_time_to_drain(overlay: Overlay) -> None:
    for name in SERVICE_NAMES:
        environment = overlay.environment(name, POD)
        drain = float(
            environment.get("VIGIL_DRAIN_SECONDS") or Settings.model_fields["drain_seconds"].default
        )
        stop = 5 if name == "api" else 0
        assert overlay.pods()[name]["spec"]["terminationGracePeriodSeconds"] >= drain + stop + 5


def test_a_rolling_update_stops_no_replica_before_another_is_ready(overlay: Overlay) -> None:
    for name in SERVICE_NAMES:
        strategy = overlay.of_kind("Deployment")[name]["spec"]["strategy"]
        assert strategy == {
            "type": "RollingUpdate",
            "rollingUpdate": {"maxUnavailable": 0, "maxSurge": 1},
        }


def test_services_with_several_replicas_have_a_disruption_budget_and_are_spread(
    overlay: Overlay,
) -> None:
    budgets = overlay.of_kind("PodDisruptionBudget")
    for name, workload in overlay.of_kind("Deployment", "StatefulSet").items():
        template = workload["spec"]["template"]
        if workload["spec"].get("replicas", 2) == 1:
            assert name not in budgets
            continue
        assert selects(budgets[name]["spec"]["selector"], template["metadata"]["labels"])
        assert budgets[name]["spec"]["maxUnavailable"] == 1
        # While PostgreSQL is away no service is ready. A node of NATS that is not ready may be catching up.
        policy = budgets[name]["spec"].get("unhealthyPodEvictionPolicy")
        assert policy == ("AlwaysAllow" if workload["kind"] == "Deployment" else None)
        spread = template["spec"].get("topologySpreadConstraints", [])
        if workload["kind"] == "Deployment":
            assert [constraint["topologyKey"] for constraint in spread] == [
                "kubernetes.io/hostname",
                "topology.kubernetes.io/zone",
            ]
        for constraint in spread:
            assert selects(constraint["labelSelector"], template["metadata"]["labels"])


def test_selectors_match_the_labels_of_exactly_one_workload(overlay: Overlay) -> None:
    labels = {name: template["metadata"]["labels"] for name, template in overlay.pods().items()}
    for name, workload in overlay.of_kind("Deployment", "StatefulSet").items():
        selector = workload["spec"]["selector"]
        assert [other for other in labels if selects(selector, labels[other])] == [name]
    for name, service in overlay.of_kind("Service").items():
        matching = [
            workload
            for workload in labels
            if selects({"matchLabels": service["spec"]["selector"]}, labels[workload])
        ]
        assert matching == [name.removesuffix("-nodes")]
        (container,) = overlay.pods()[matching[0]]["spec"]["containers"]
        ports = {port["name"] for port in container["ports"]}
        assert {port["targetPort"] for port in service["spec"]["ports"]} <= ports


def test_every_variable_is_a_setting(overlay: Overlay) -> None:
    known = {SECRETS_DIR_VARIABLE, *(f"VIGIL_{field.upper()}" for field in Settings.model_fields)}
    for name in (*SERVICE_NAMES, MIGRATE):
        environment = overlay.environment(name, POD)
        assert set(environment) - {"POD_IP", "ALLOWED_HOSTS"} <= known, name
        assert not [value for value in environment.values() if "$(" in value]
        fields = {
            variable.removeprefix("VIGIL_").lower(): value
            for variable, value in environment.items()
            if variable != SECRETS_DIR_VARIABLE and variable.startswith("VIGIL_") and value
        }
        Settings.model_validate(fields)


def test_the_api_answers_at_the_address_of_its_pod_and_at_its_name(overlay: Overlay) -> None:
    hosts = overlay.environment("api", POD)["VIGIL_ALLOWED_HOSTS"].split(",")
    assert {"api", POD["status.podIP"]} <= set(hosts)


def test_secrets_are_files_and_each_service_has_its_own_only(overlay: Overlay) -> None:
    for name, template in overlay.pods().items():
        (container,) = template["spec"]["containers"]
        for entry in container.get("env", []):
            assert "secretKeyRef" not in entry.get("valueFrom", {})
        assert all("secretRef" not in source for source in container.get("envFrom", []))
        files = {file for file in secret_files(template) if not file[0].endswith("-ca")}
        if name in SERVICE_NAMES:
            assert files == {(secret_name(name), "*", "/run/vigil/keys/*")}
            assert overlay.environment(name, POD)[SECRETS_DIR_VARIABLE] == "/run/vigil/keys"
    for config in overlay.of_kind("ConfigMap").values():
        for text in config["data"].values():
            assert not re.search(r"(?i)password|_key\b|:[^/\s]+@", text)


def test_secrets_are_mounted_for_their_group_alone(overlay: Overlay) -> None:
    for template in overlay.pods().values():
        for volume in template["spec"]["volumes"]:
            source = volume.get("projected") or volume.get("secret")
            if source is not None and not source.get("secretName", "").endswith("-ca"):
                assert source["defaultMode"] == 0o440


def test_the_migration_gets_the_password_of_each_role_and_no_other_key(overlay: Overlay) -> None:
    expected = {(MIGRATE, NATS_PASSWORD_FILE), (MIGRATE, DATABASE_PASSWORD_FILE)}
    expected |= {
        (service.name, DATABASE_PASSWORD_FILE) for service in SERVICES if service.has_database_role
    }
    expected.add(("operator", TOKEN_FILE))
    files = {file for file in secret_files(overlay.pods()[MIGRATE]) if not file[0].endswith("-ca")}
    assert files == {
        (secret_name(name), file, f"/run/vigil/keys/{name}/{file}") for name, file in expected
    }
    environment = overlay.environment(MIGRATE, POD)
    assert environment["VIGIL_DATABASE_USER"] == DATABASE_OWNER
    assert environment["VIGIL_KEYS_DIR"] == "/run/vigil/keys"
    assert environment[SECRETS_DIR_VARIABLE] == f"/run/vigil/keys/{MIGRATE}"


def test_images_are_named_with_a_version(overlay: Overlay) -> None:
    """The tag of Vigil is the release that this tree becomes."""
    versions = re.findall(
        r'^version = "(\d+\.\d+\.\d+)', (ROOT / "pyproject.toml").read_text(), re.M
    )
    images = {
        template["spec"]["containers"][0]["image"] for template in overlay.pods().values()
    } | {cluster["spec"]["imageName"] for cluster in overlay.of_kind("Cluster").values()}
    for image in images:
        name, _, tag = image.rpartition(":")
        assert name
        assert tag != "latest"
        if name == "vigil":
            assert tag == versions[0]


def test_nothing_is_allowed_that_no_policy_names(overlay: Overlay) -> None:
    deny = overlay.of_kind("NetworkPolicy")["deny"]["spec"]
    assert set(deny) == {"podSelector", "policyTypes"}
    assert set(deny["policyTypes"]) == {"Ingress", "Egress"}
    for template in overlay.pods().values():
        assert selects(deny["podSelector"], template["metadata"]["labels"])


def test_each_service_connects_only_to_what_it_needs(overlay: Overlay) -> None:
    model_and_web = set(USED_BY[MODEL_KEY]) | set(USED_BY[SEARCH_KEY]) | {"notifier"}
    for name, template in overlay.pods().items():
        ports = set(_egress_ports(overlay, template))
        needs_engines = name in SERVICE_NAMES or name == MIGRATE
        assert (ports >= {4222, 5432}) == needs_engines, name
        assert (443 in ports) == (name in model_and_web), name
        assert (80 in ports) == (name in {"observer", "researcher", "notifier"}), name
        assert (587 in ports) == (name in USED_BY[MAIL_URL]), name
        collector = {4318} if overlay.name == "production" and needs_engines else set()
        assert ports & {4318} == collector, name
        assert ports <= {53, 80, 443, 465, 587, 4222, 4318, 5432, 6222, 8080}, name


def test_only_the_api_can_be_reached_from_anywhere(overlay: Overlay) -> None:
    open_to_all = {
        name
        for name, template in overlay.pods().items()
        for policy in overlay.of_kind("NetworkPolicy").values()
        if selects(policy["spec"]["podSelector"], template["metadata"]["labels"])
        for rule in policy["spec"].get("ingress", [])
        if "from" not in rule
    }
    assert open_to_all == {"api"}


def test_policies_outside_leave_out_private_networks(overlay: Overlay) -> None:
    for name in ("to-https", "to-http"):
        policy = overlay.of_kind("NetworkPolicy")[name]["spec"]
        v4, v6 = policy["egress"][0]["to"]
        for private in ("10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "169.254.0.0/16"):
            assert private in v4["ipBlock"]["except"]
        assert {"fc00::/7", "fe80::/10"} <= set(v6["ipBlock"]["except"])


def test_scaled_objects_follow_the_lag_of_consumers_that_exist(production: Overlay) -> None:
    concurrency = {"researcher": RESEARCHER_CONCURRENCY, "analyzer": ANALYZER_CONCURRENCY}
    scaled = production.of_kind("ScaledObject")
    assert set(scaled) == set(concurrency)
    for name, manifest in scaled.items():
        spec = manifest["spec"]
        assert manifest["apiVersion"] == "keda.sh/v1alpha1"
        assert spec["scaleTargetRef"] == {"name": name}
        # KEDA and `kubectl apply` would set the number of replicas in turn.
        assert "replicas" not in production.of_kind("Deployment")[name]["spec"]
        assert 2 <= spec["minReplicaCount"] < spec["maxReplicaCount"]
        (trigger,) = spec["triggers"]
        assert trigger["type"] == "nats-jetstream"
        metadata = trigger["metadata"]
        assert metadata["stream"] == STREAM
        assert metadata["consumer"] == CONSUMERS[name].service
        assert metadata["account"] == "$G"
        assert int(metadata["lagThreshold"]) == concurrency[name]
        assert all(isinstance(value, str) for value in metadata.values())
        service, namespace, _ = metadata["natsServerMonitoringEndpoint"].split(".")
        assert namespace == "vigil"
        ports = production.of_kind("Service")[service]["spec"]["ports"]
        assert {"name": "monitor", "port": 8222, "targetPort": "monitor"} in ports


def test_the_postgres_cluster_serves_what_the_services_connect_to(production: Overlay) -> None:
    cluster = production.of_kind("Cluster")["postgres"]
    assert cluster["apiVersion"] == "postgresql.cnpg.io/v1"
    assert cluster["spec"]["instances"] == 3
    initdb = cluster["spec"]["bootstrap"]["initdb"]
    assert initdb["owner"] == DATABASE_OWNER
    assert initdb["secret"] == {"name": secret_name("postgres")}
    url = production.environment("researcher", POD)["VIGIL_DATABASE_URL"]
    assert url.startswith(f"postgresql://postgres-rw:5432/{initdb['database']}?sslmode=verify-full")
    ca = url.partition("sslrootcert=")[2]
    for name in (*SERVICE_NAMES, MIGRATE):
        assert ("postgres-ca", "ca.crt", ca) in set(secret_files(production.pods()[name]))


def test_every_service_is_scraped_once_and_only_the_api_gets_the_operators_token(
    production: Overlay,
) -> None:
    """A service that reads the web must not learn a token with which it could do everything."""
    scraped: dict[str, list[str]] = {name: [] for name in production.pods()}
    for name, monitor in production.of_kind("PodMonitor").items():
        assert monitor["apiVersion"] == "monitoring.coreos.com/v1"
        (endpoint,) = monitor["spec"]["podMetricsEndpoints"]
        assert (endpoint["port"], endpoint["path"]) == ("http", "/metrics")
        for workload, template in production.pods().items():
            if selects(monitor["spec"]["selector"], template["metadata"]["labels"]):
                scraped[workload].append(name)
        token = {"credentials": {"name": secret_name("operator"), "key": TOKEN_FILE}}
        assert endpoint.get("authorization") == (token if name == "vigil-api" else None)
    assert {workload: names for workload, names in scraped.items() if names} == {
        name: ["vigil-api" if name == "api" else "vigil"] for name in SERVICE_NAMES
    }


@pytest.mark.parametrize(("monitor", "service"), [("vigil", "researcher"), ("vigil-api", "api")])
def test_scraped_metrics_have_the_job_and_the_service_of_the_alerts(
    production: Overlay, monitor: str, service: str
) -> None:
    spec = production.of_kind("PodMonitor")[monitor]["spec"]
    labels = production.pods()[service]["metadata"]["labels"]
    assert labels[spec["jobLabel"]] == "vigil"
    (endpoint,) = spec["podMetricsEndpoints"]
    (relabeling,) = endpoint["relabelings"]
    assert relabeling["targetLabel"] == "service"
    (source,) = relabeling["sourceLabels"]
    named = {
        f"__meta_kubernetes_pod_label_{re.sub(r'[^a-zA-Z0-9]', '_', label)}": value
        for label, value in labels.items()
    }
    assert named[source] == service


def test_the_alerts_are_those_of_the_other_installations(production: Overlay) -> None:
    rules = production.of_kind("PrometheusRule")["vigil"]
    assert rules["apiVersion"] == "monitoring.coreos.com/v1"
    shipped = (ROOT / "deploy" / "prometheus" / "alerts.yaml").read_text()
    assert rules["spec"] == yaml.safe_load(shipped)


def test_a_sync_by_argo_cd_migrates_between_engines_and_services(production: Overlay) -> None:
    job = production.of_kind("Job")[MIGRATE]["metadata"]["annotations"]
    assert job["argocd.argoproj.io/hook"] == "Sync"
    waves = {
        name: int(
            workload["metadata"].get("annotations", {}).get("argocd.argoproj.io/sync-wave", 0)
        )
        for name, workload in production.of_kind(*WORKLOADS, "Cluster").items()
    }
    assert waves == {
        "nats": 0,
        "postgres": 0,
        MIGRATE: 1,
        **dict.fromkeys(SERVICE_NAMES, 2),
    }


def test_the_stream_has_as_many_copies_as_there_are_nats_nodes(overlay: Overlay) -> None:
    copies = int(overlay.environment(MIGRATE, POD)["VIGIL_STREAM_REPLICAS"])
    nodes = overlay.of_kind("StatefulSet").get("nats", {"spec": {"replicas": 3}})
    assert copies == nodes["spec"]["replicas"]


def test_nats_is_configured_as_in_the_compose_cluster() -> None:
    """Except for the monitoring port, which probes and KEDA use from outside of the container."""

    def settings(path: str) -> list[str]:
        lines = (ROOT / path).read_text().splitlines()
        return [line for line in lines if line and not line.startswith(("#", "http:"))]

    assert settings("deploy/kubernetes/components/nats/nats.conf") == settings("deploy/nats.conf")


def test_every_file_is_used_and_exists() -> None:
    """Needs no kubectl."""
    used = set()
    for file in KUBERNETES.rglob("kustomization.yaml"):
        used.add(file)
        for path in _references(yaml.safe_load(file.read_text())):
            target = (file.parent / path).resolve()
            assert target.exists(), f"{file}: {path}"
            used.add(target)
    assert {file for file in KUBERNETES.rglob("*") if file.is_file()} <= used


def _references(kustomization: Manifest) -> Iterator[str]:
    yield from kustomization.get("resources", [])
    yield from kustomization.get("components", [])
    for patch in kustomization.get("patches", []):
        if "path" in patch:
            yield patch["path"]
    for generator in kustomization.get("configMapGenerator", []):
        yield from generator.get("files", [])


def _egress_ports(overlay: Overlay, template: Manifest) -> Iterator[int]:
    for policy in overlay.of_kind("NetworkPolicy").values():
        if selects(policy["spec"]["podSelector"], template["metadata"]["labels"]):
            for rule in policy["spec"].get("egress", []):
                assert rule["to"]
                yield from (port["port"] for port in rule["ports"])


def _mebibytes(quantity: Any) -> int:
    found = re.fullmatch(r"(\d+)(Mi|Gi)", str(quantity))
    assert found is not None
    return int(found[1]) * (1024 if found[2] == "Gi" else 1)
