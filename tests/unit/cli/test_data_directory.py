import json
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from cli.local.data_directory import DataDirectory, default_data_directory
from cli.local.errors import AlreadyRunningError, DataDirectoryError
from tests.support.case_files import read_cases
from tests.support.cli.running import running_installation

CASES = read_cases(__file__)


@pytest.fixture
def directory(tmp_path: Path) -> DataDirectory:
    data_directory = DataDirectory(tmp_path / "deep" / "vigil")
    data_directory.create()
    return data_directory


def test_only_the_owner_can_access_the_directory(directory: DataDirectory) -> None:
    assert stat.S_IMODE(directory.root.stat().st_mode) == 0o700
    assert directory.logs.is_dir()
    directory.create()


def test_a_file_in_place_of_the_directory_is_reported(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    for root in (tmp_path / "file", tmp_path / "file" / "below"):
        with pytest.raises(DataDirectoryError, match=r"is a file.*VIGIL_DATA"):
            DataDirectory(root).create()


def test_a_full_disk_is_reported_with_free_and_required_space(tmp_path: Path) -> None:
    with pytest.raises(
        DataDirectoryError,
        match=r"only [0-9.]+ [KMG]iB is free on its disk, but 1073741824.0 GiB is required",
    ):
        DataDirectory(tmp_path / "vigil", minimum_free_bytes=2**60).create()


@contextmanager
def without_root_privileges() -> Iterator[None]:
    """Switch from root, which may write anywhere, to the user nobody."""
    before = os.geteuid()
    if before == 0:
        os.seteuid(65534)
    try:
        yield
    finally:
        os.seteuid(before)


def test_missing_permissions_are_reported(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    with (
        without_root_privileges(),
        pytest.raises(DataDirectoryError, match=r"no permission.*owner"),
    ):
        DataDirectory(tmp_path / "vigil").create()


def test_any_other_failure_is_reported_with_the_system_error(tmp_path: Path) -> None:
    with pytest.raises(DataDirectoryError, match="name too long; set VIGIL_DATA to another"):
        DataDirectory(tmp_path / ("x" * 300)).create()


def test_a_second_installation_gets_the_details_of_the_running_one(
    directory: DataDirectory,
) -> None:
    with directory.locked(), directory.announced(running_installation()):
        with pytest.raises(AlreadyRunningError) as error, DataDirectory(directory.root).locked():
            pass
        assert error.value.pid == os.getpid()
        assert error.value.api_url == "http://127.0.0.1:8300"
        for text in (str(os.getpid()), "http://127.0.0.1:8300", str(directory.root), "VIGIL_DATA"):
            assert text in str(error.value)


def test_an_installation_that_is_still_starting_is_reported(directory: DataDirectory) -> None:
    with (
        directory.locked(),
        pytest.raises(AlreadyRunningError, match="still starting") as error,
        DataDirectory(directory.root).locked(),
    ):
        pass
    assert error.value.pid == os.getpid()


def test_the_lock_is_released_at_the_end(directory: DataDirectory) -> None:
    for _ in range(2):
        with directory.locked():
            pass


def test_other_processes_find_the_installation_while_it_runs(directory: DataDirectory) -> None:
    other = DataDirectory(directory.root)
    assert other.running() is None
    with directory.locked():
        with directory.announced(running_installation()):
            assert other.running() == running_installation()
            assert stat.S_IMODE(directory.run_file.stat().st_mode) == 0o600
        assert other.running() is None


def test_the_run_file_of_a_killed_installation_is_ignored(directory: DataDirectory) -> None:
    running_installation().write(directory.run_file)
    directory.lock_file.write_text(str(os.getpid()))
    assert directory.running() is None  # alive, but without the lock
    with directory.locked():
        assert not directory.run_file.exists()


def test_a_run_file_of_a_process_without_the_lock_is_ignored(directory: DataDirectory) -> None:
    with directory.locked(), directory.announced(running_installation(pid=os.getppid())):
        assert directory.running() is None


def test_a_run_file_that_cannot_be_read_is_ignored(directory: DataDirectory) -> None:
    with directory.locked():
        directory.run_file.write_text('{"pid": 1')
        assert directory.running() is None


@pytest.mark.parametrize(("environment", "expected"), CASES["the_default_data_directory"])
def test_the_default_data_directory(
    environment: dict[str, str], expected: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("VIGIL_DATA", "XDG_DATA_HOME"):
        monkeypatch.delenv(name, raising=False)
    for name, value in {"HOME": "/home/me", **environment}.items():
        monkeypatch.setenv(name, value)
    assert default_data_directory() == Path(expected)


def test_an_existing_directory_is_made_private(tmp_path: Path) -> None:
    (tmp_path / "vigil" / "logs").mkdir(parents=True)
    for path in (tmp_path / "vigil", tmp_path / "vigil" / "logs"):
        path.chmod(0o755)
    data_directory = DataDirectory(tmp_path / "vigil")
    data_directory.create()
    assert {
        stat.S_IMODE(path.stat().st_mode) for path in (data_directory.root, data_directory.logs)
    } == {0o700}


def test_a_data_directory_of_another_user_is_reported(directory: DataDirectory) -> None:
    directory.root.chmod(0o000)
    try:
        with (
            without_root_privileges(),
            pytest.raises(DataDirectoryError, match=r"another user.*--url and --token"),
        ):
            directory.running()
    finally:
        directory.root.chmod(0o700)


def test_prometheus_finds_the_services_while_the_installation_runs(
    directory: DataDirectory,
) -> None:
    ports = {"scheduler": 12001, "api": 8080, "nats": 4222, "sandbox": 12000}
    running = running_installation().model_copy(update={"ports": ports})
    with directory.locked():
        with directory.announced(running):
            assert json.loads(directory.targets_file.read_text()) == [
                {"targets": ["127.0.0.1:12001"], "labels": {"service": "scheduler"}},
                {"targets": ["127.0.0.1:8080"], "labels": {"service": "api"}},
            ]
            assert stat.S_IMODE(directory.targets_file.stat().st_mode) == 0o600
        assert not directory.targets_file.exists()
