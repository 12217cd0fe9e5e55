"""The scheduler of a cluster can be given each limit of the retention."""

from pathlib import Path

import pytest
import yaml

from shared.runtime.settings import PREFIX, Settings

ROOT = Path(__file__).parents[3]
NAMES = {
    f"{PREFIX}{name.upper()}" for name in Settings.model_fields if name.startswith("retention_")
}


@pytest.mark.parametrize("file", ["compose.yaml", "deploy/stack.yaml"])
def test_the_scheduler_has_every_setting(file: str) -> None:
    services = yaml.load((ROOT / file).read_text(), yaml.CSafeLoader)["services"]
    of_scheduler = services["scheduler"]["environment"]
    assert len(NAMES) == 17
    assert {name for name in of_scheduler if "RETENTION" in name} == NAMES
    passed_on = {of_scheduler[name] for name in NAMES}
    assert passed_on == {None} or passed_on == {f"${{{name}:-}}" for name in NAMES}
