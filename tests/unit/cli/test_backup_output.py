"""The file that a backup is written to, whatever else is in its directory."""

import errno
import fcntl
import os
import stat
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from cli.backup.output import PARTIAL_SUFFIX, Pruned, file_name, open_output, prune
from cli.errors import BadInputError, CommandError


def write(file: Path, content: bytes = b"backup") -> None:
    with open_output(file) as opened:
        opened.write(content)


def partial_of(file: Path) -> Path:
    return file.with_name(file.name + PARTIAL_SUFFIX)


def test_what_a_killed_run_left_becomes_private(tmp_path: Path) -> None:
    file = tmp_path / "a.tar"
    partial_of(file).write_bytes(b"a longer beginning of another backup")
    partial_of(file).chmod(0o644)
    write(file)
    assert file.read_bytes() == b"backup"
    assert stat.S_IMODE(file.stat().st_mode) == 0o600


def test_a_planted_link_is_not_followed(tmp_path: Path) -> None:
    file, victim = tmp_path / "a.tar", tmp_path / "victim"
    victim.write_text("precious")
    for plant in (Path.symlink_to, Path.hardlink_to):
        plant(partial_of(file), victim)
        with pytest.raises(CommandError, match=r"a\.tar cannot be written"):
            write(file)
        assert victim.read_text() == "precious"
        assert not file.exists()
        partial_of(file).unlink()


def test_a_planted_pipe_does_not_hold_up_the_backup(tmp_path: Path) -> None:
    file = tmp_path / "a.tar"
    os.mkfifo(partial_of(file))
    reader = os.open(partial_of(file), os.O_RDONLY | os.O_NONBLOCK)
    try:
        with pytest.raises(CommandError, match=r"a\.tar cannot be written"):
            write(file)
    finally:
        os.close(reader)
    with pytest.raises(CommandError, match=r"a\.tar cannot be written"):
        write(file)


def test_a_file_that_another_backup_completes_meanwhile_is_not_emptied(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "a.tar"
    lock = fcntl.flock

    def complete_first(opened: Any, operation: int) -> None:
        monkeypatch.setattr(fcntl, "flock", lock)
        os.write(os.open(partial_of(file), os.O_WRONLY), b"complete")
        partial_of(file).rename(file)
        lock(opened, operation)

    monkeypatch.setattr(fcntl, "flock", complete_first)
    with pytest.raises(BadInputError, match="another backup"):
        write(file)
    assert file.read_bytes() == b"complete"


@pytest.mark.parametrize("keep", [1, 2, 3])
def test_the_backup_just_written_is_kept_whatever_the_others_are_dated(
    tmp_path: Path, keep: int
) -> None:
    names = [
        file_name(datetime(year, 1, 1, tzinfo=UTC), encrypted=False)
        for year in (2020, 2026, 2098, 2099)
    ]
    for name in names:
        (tmp_path / name).touch()
    removed = prune(tmp_path, keep, tmp_path / names[1]).removed
    left = sorted(file.name for file in tmp_path.iterdir())
    assert left == sorted([names[1], *names[4 - (keep - 1) :]] if keep > 1 else [names[1]])
    assert sorted(file.name for file in removed) == sorted(set(names) - set(left))


def test_only_regular_files_are_removed(tmp_path: Path) -> None:
    newest = tmp_path / file_name(datetime(2026, 1, 1, tzinfo=UTC), encrypted=False)
    newest.touch()
    folder = tmp_path / file_name(datetime(2020, 1, 1, tzinfo=UTC), encrypted=False)
    folder.mkdir()
    link = tmp_path / file_name(datetime(2021, 1, 1, tzinfo=UTC), encrypted=True)
    link.symlink_to(tmp_path / "elsewhere")
    partial_of(link).symlink_to(tmp_path / "elsewhere")
    assert prune(tmp_path, 1, newest) == Pruned([], [])
    assert {file.name for file in tmp_path.iterdir()} == {
        newest.name,
        folder.name,
        link.name,
        partial_of(link).name,
    }


def test_a_file_that_cannot_be_removed_keeps_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stuck, old, newest = (
        tmp_path / file_name(datetime(year, 1, 1, tzinfo=UTC), encrypted=False)
        for year in (2020, 2021, 2026)
    )
    abandoned = [partial_of(stuck), partial_of(old)]
    for file in (stuck, old, newest, *abandoned):
        file.touch()
    unlink = Path.unlink

    def refuse(self: Path, *, missing_ok: bool = False) -> None:
        if self in (stuck, abandoned[0]):
            raise PermissionError(errno.EPERM, "Operation not permitted", str(self))
        unlink(self, missing_ok=missing_ok)

    monkeypatch.setattr(Path, "unlink", refuse)
    pruned = prune(tmp_path, 1, newest)
    assert pruned.removed == [old]
    assert [error.filename for error in pruned.failed] == [str(stuck), str(abandoned[0])]
    assert set(tmp_path.iterdir()) == {stuck, newest, abandoned[0]}


def test_a_link_to_nothing_is_not_replaced(tmp_path: Path) -> None:
    link = tmp_path / "backup.tar"
    link.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(BadInputError, match="is not overwritten"):
        write(link)
    assert link.is_symlink()


def test_the_error_of_a_backup_is_reported_if_closing_fails_too(tmp_path: Path) -> None:
    """A reader that has ended makes both fail; alone, closing's error would count as success (`vigil … | head`)."""
    with pytest.raises(CommandError, match="incomplete"):
        write_to_closed_pipe(tmp_path / "pipe", CommandError("incomplete"))


def test_an_end_that_cannot_be_written_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(CommandError, match="pipe cannot be written: broken pipe"):
        write_to_closed_pipe(tmp_path / "pipe")


def write_to_closed_pipe(pipe: Path, error: CommandError | None = None) -> None:
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    with open_output(pipe) as output:
        output.write(b"backup")
        os.close(reader)
        if error is not None:
            raise error
