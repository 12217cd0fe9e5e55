"""The same sources give the same bytes, wherever, whenever and by whomever they are built."""

import hashlib
import os
import shutil
import subprocess
import tarfile
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import pytest

from release.wheel import EPOCH, LIBRARIES
from tests.support.paths import ROOT
from tests.support.release.installed import run_module

SOURCES: Final = (
    *("cli", "sandbox", "services", "shared", "release", "vigil_agents", ".gitignore"),
    *("CHANGELOG.md", "LICENSE", "README.md", "SECURITY.md", "pyproject.toml"),
    *("package.json", "package-lock.json", "requirements.lock"),
)
pytestmark = pytest.mark.slow

COMMITTED: Final = "2024-05-06T07:08:09+00:00"


def copy_sources(folder: Path, *, mode: int, time: float) -> Path:
    """The sources as another user has them: other modes and times, made in another order."""
    folder.mkdir(parents=True)
    for name in SOURCES if mode & 0o077 else reversed(SOURCES):
        source = ROOT / name
        if source.is_dir():
            shutil.copytree(source, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copyfile(source, folder / name)
    for path in folder.rglob("*"):
        path.chmod(mode | (0o111 & (mode >> 2)) if path.is_dir() else mode)
        os.utime(path, (time, time))
    return folder


def build(
    sources: Path, output: Path, environment: Mapping[str, str], umask: int = 0o022
) -> dict[str, bytes]:
    before = os.umask(umask)
    try:
        printed = run_module(
            "release.wheel", "--directory", str(output), root=sources, **environment
        )
    finally:
        os.umask(before)
    files = {file.name: file.read_bytes() for file in output.iterdir()}
    assert sorted(Path(name).suffix for name in files) == [".gz", ".whl"]
    for name, content in files.items():
        assert f"{hashlib.sha256(content).hexdigest()}  {name}\n" in printed
    return files


def test_two_builds_are_the_same(tmp_path: Path) -> None:
    first = build(
        copy_sources(tmp_path / "here", mode=0o644, time=1_600_000_000),
        tmp_path / "first",
        {EPOCH: "1700000000", "TZ": "UTC", "PYTHONHASHSEED": "1", "LC_ALL": "C"},
    )
    second = build(
        copy_sources(tmp_path / "somewhere" / "else", mode=0o600, time=1_650_000_000),
        tmp_path / "second",
        {EPOCH: "1700000000", "TZ": "Asia/Tokyo", "PYTHONHASHSEED": "2", "LC_ALL": "C.UTF-8"},
        umask=0o077,
    )
    assert first == second


def test_the_source_distribution_gives_the_same_wheel(tmp_path: Path) -> None:
    built = build(
        copy_sources(tmp_path / "here", mode=0o644, time=1e9),
        tmp_path / "dist",
        {EPOCH: "1700000000"},
    )
    (archive,) = (tmp_path / "dist").glob("*.tar.gz")
    with tarfile.open(archive) as packed:
        packed.extractall(tmp_path / "unpacked", filter="data")
    (sources,) = (tmp_path / "unpacked").iterdir()
    shutil.copytree(ROOT / "release", sources / "release")  # the command, which is not distributed
    again = build(sources, tmp_path / "again", {EPOCH: "1700000000"})
    assert again == built


@pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed")
def test_the_time_of_the_files_is_that_of_the_commit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(EPOCH, raising=False)
    sources = copy_sources(tmp_path / "here", mode=0o644, time=1_600_000_000)
    for command in (["init", "-q"], ["add", "."], ["commit", "-qm", "all"]):
        identity = ["-c", "user.name=Somebody", "-c", "user.email=somebody@example.org"]
        subprocess.run(
            ["git", *identity, *command],
            cwd=sources,
            env={**os.environ, "GIT_COMMITTER_DATE": COMMITTED, "GIT_CONFIG_GLOBAL": os.devnull},
            check=True,
        )
    committed = build(sources, tmp_path / "committed", {})
    assert committed == build(sources, tmp_path / "set", {EPOCH: "1714979289"})
    assert committed != build(sources, tmp_path / "other", {EPOCH: "1714979299"})


def test_a_wheel_without_the_libraries_of_the_web_ui_is_not_built(tmp_path: Path) -> None:
    sources = copy_sources(tmp_path / "here", mode=0o644, time=1e9)
    (sources / "services/api/web/vendor" / LIBRARIES[0]).unlink()
    with pytest.raises(subprocess.CalledProcessError) as error:
        build(sources, tmp_path / "dist", {})
    assert (
        f"missing in services/api/web/vendor: {LIBRARIES[0]}; run `make setup`"
        in error.value.stdout
    )
    assert not (tmp_path / "dist").exists()
