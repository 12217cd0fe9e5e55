"""`vigil doctor` where nothing runs on the data directory: with the API of a cluster, and without one."""

from pathlib import Path

import pytest

from cli.client.target import Api
from cli.doctor import examine
from cli.findings import Finding
from shared.runtime.settings import Settings

LOCAL = {"engines", "data directory", "disk", "model server", "search service"}


@pytest.fixture(autouse=True)
def no_engines(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("VIGIL_DATABASE_URL", "VIGIL_NATS_URL"):
        monkeypatch.delenv(name, raising=False)


def findings(data: Path, api: Api | None) -> dict[str, Finding]:
    return {each.name: each for each in examine(Settings(), data, api, None)}


def test_of_a_cluster_only_what_can_be_reached_is_checked(tmp_path: Path) -> None:
    found = findings(tmp_path, Api("http://127.0.0.1:9", None))
    assert found.keys() == {"api"}


def test_without_an_api_this_machine_is_checked(tmp_path: Path) -> None:
    assert findings(tmp_path, None).keys() >= LOCAL
