import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from cli.local.data_directory import DataDirectory, default_data_directory
from cli.local.errors import AlreadyRunningError, DataDirectoryError
from tests.support.cli.running import running


@pytest.fixture
def directory(tmp_path: Path) -> DataDirectory:
    made = DataDirectory(tmp_path / "deep" / "vigil")
    made.create()
    return made


def test_it_is_made_for_its_owner_alone(directory: DataDirectory) -> None:
    assert stat.S_IMODE(directory.root.stat().st_mode) == 0o700
    assert directory.logs.is_dir()
    directory.create()


def test_a_file_in_its_place_is_reported(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    for root in (tmp_path / "file", tmp_path / "file" / "below"):
        with pytest.raises(DataDirectoryError, match=r"is a file.*VIGIL_DATA"):
            DataDirectory(root).create()


def test_a_full_disk_is_reported_with_its_figures(tmp_path: Path) -> None:
    with pytest.raises(
        DataDirectoryError, match=r"\d+ MB are free on its disk, 1099511627776 are needed"
    ):
        DataDirectory(tmp_path / "vigil", minimum_free_bytes=2**60).create()


@contextmanager
def without_roots_rights() -> Iterator[None]:
    """Root may write anywhere: be nobody for a moment."""
    before = os.geteuid()
    if before == 0:
        os.seteuid(65534)
    try:
        yield
    finally:
        os.seteuid(before)


def test_missing_rights_are_reported(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    with without_roots_rights(), pytest.raises(DataDirectoryError, match=r"no permission.*owner"):
        DataDirectory(tmp_path / "vigil").create()


def test_any_other_refusal_is_reported_in_the_systems_words(tmp_path: Path) -> None:
    with pytest.raises(DataDirectoryError, match="name too long; give another"):
        DataDirectory(tmp_path / ("x" * 300)).create()


def test_a_second_installation_is_told_who_holds_it(directory: DataDirectory) -> None:
    with directory.locked(), directory.announced(running()):
        with pytest.raises(AlreadyRunningError) as refused, DataDirectory(directory.root).locked():
            pass
        assert refused.value.pid == os.getpid()
        assert refused.value.api_url == "http://127.0.0.1:8300"
        for said in (str(os.getpid()), "http://127.0.0.1:8300", str(directory.root), "VIGIL_DATA"):
            assert said in str(refused.value)


def test_one_that_is_still_starting_is_named_too(directory: DataDirectory) -> None:
    with (
        directory.locked(),
        pytest.raises(AlreadyRunningError, match="still starting") as refused,
        DataDirectory(directory.root).locked(),
    ):
        pass
    assert refused.value.pid == os.getpid()


def test_the_lock_is_free_again_afterwards(directory: DataDirectory) -> None:
    for _ in range(2):
        with directory.locked():
            pass


def test_others_find_the_running_installation_until_it_ends(directory: DataDirectory) -> None:
    other = DataDirectory(directory.root)
    assert other.running() is None
    with directory.locked():
        with directory.announced(running()):
            assert other.running() == running()
            assert stat.S_IMODE(directory.run_file.stat().st_mode) == 0o600
        assert other.running() is None


def test_what_a_killed_run_left_behind_is_ignored(directory: DataDirectory) -> None:
    running().write(directory.run_file)
    directory.lock_file.write_text(str(os.getpid()))
    assert directory.running() is None  # alive, but without the lock
    with directory.locked():
        assert not directory.run_file.exists()


def test_a_run_file_of_another_than_the_holder_is_ignored(directory: DataDirectory) -> None:
    with directory.locked(), directory.announced(running(pid=os.getppid())):
        assert directory.running() is None


def test_a_run_file_that_cannot_be_read_is_ignored(directory: DataDirectory) -> None:
    with directory.locked():
        directory.run_file.write_text('{"pid": 1')
        assert directory.running() is None


@pytest.mark.parametrize(
    ("environment", "expected"),
    [
        ({"VIGIL_DATA": "/data", "XDG_DATA_HOME": "/xdg"}, "/data"),
        ({"VIGIL_DATA": "~/here"}, "/home/me/here"),
        ({"XDG_DATA_HOME": "/xdg"}, "/xdg/vigil"),
        ({"XDG_DATA_HOME": "relative"}, "/home/me/.local/share/vigil"),
        ({}, "/home/me/.local/share/vigil"),
    ],
)
def test_the_default_place(
    environment: dict[str, str], expected: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("VIGIL_DATA", "XDG_DATA_HOME"):
        monkeypatch.delenv(name, raising=False)
    for name, value in {"HOME": "/home/me", **environment}.items():
        monkeypatch.setenv(name, value)
    assert default_data_directory() == Path(expected)


def test_one_that_was_open_to_others_is_closed(tmp_path: Path) -> None:
    (tmp_path / "vigil" / "logs").mkdir(parents=True)
    for path in (tmp_path / "vigil", tmp_path / "vigil" / "logs"):
        path.chmod(0o755)
    made = DataDirectory(tmp_path / "vigil")
    made.create()
    assert {stat.S_IMODE(path.stat().st_mode) for path in (made.root, made.logs)} == {0o700}


def test_another_users_is_told_as_such(directory: DataDirectory) -> None:
    directory.root.chmod(0o000)
    try:
        with (
            without_roots_rights(),
            pytest.raises(DataDirectoryError, match=r"another user.*--url and --token"),
        ):
            directory.running()
    finally:
        directory.root.chmod(0o700)
