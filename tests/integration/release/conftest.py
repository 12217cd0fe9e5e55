"""The wheel of this checkout, built once and installed once."""

from pathlib import Path

import pytest

from tests.support.release.installed import Installed, install, run_module


@pytest.fixture(scope="package")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("dist")
    run_module("release.wheel", "--directory", str(folder))
    (built,) = folder.glob("*.whl")
    return built


@pytest.fixture(scope="package")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Installed:
    return install(wheel, tmp_path_factory.mktemp("installed"))
