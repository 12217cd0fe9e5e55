"""The lock files are read as `make lock` writes them."""

from pathlib import Path

import pytest

from release.lock_files import IMAGE_LOCK, LOCKS, WHEEL_LOCK, LockedPackage, read_lock
from tests.support.paths import ROOT

A, B = "a" * 64, "b" * 64


def test_a_package_has_its_version_marker_hashes_and_users(tmp_path: Path) -> None:
    file = tmp_path / "some.lock"
    file.write_text(
        f"first==1.0 ; sys_platform == 'win32' \\\n    --hash=sha256:{A} \\\n    --hash=sha256:{B}\n"
        f"    # via\n    #   second\n    #   vigil (pyproject.toml)\n"
        f"second==2.0.post1 \\\n    --hash=sha256:{B}\n    # via first\n"
        f"third==3 \\\n    --hash=sha256:{A}\n    # via -r other.txt\n"
    )
    assert read_lock(file) == [
        LockedPackage("first", "1.0", "sys_platform == 'win32'", (A, B), ("second", "")),
        LockedPackage("second", "2.0.post1", None, (B,), ("first",)),
        LockedPackage("third", "3", None, (A,), ()),
    ]


@pytest.mark.parametrize("line", ["first==1.0", f"first \\\n    --hash=sha256:{A}", "-e ."])
def test_a_package_without_version_or_hash_is_refused(tmp_path: Path, line: str) -> None:
    file = tmp_path / "some.lock"
    file.write_text(f"{line}\n")
    with pytest.raises(ValueError, match=r"some\.lock: no pinned package with hashes: "):
        read_lock(file)


def test_every_lock_file_is_known_and_read_to_its_end() -> None:
    assert sorted(LOCKS) == sorted(ROOT.glob("requirements*.lock"))
    for file in LOCKS:
        text = file.read_text()
        packages = read_lock(file)
        assert sum(len(package.sha256) for package in packages) == text.count("--hash=sha256:")
        assert len(packages) == sum(
            "==" in line and line[0].isalnum() for line in text.splitlines()
        )


@pytest.mark.parametrize("file", [WHEEL_LOCK, IMAGE_LOCK], ids=lambda file: file.name)
def test_every_package_of_vigil_is_needed_by_something(file: Path) -> None:
    packages = read_lock(file)
    names = {"", *(package.name for package in packages)}
    assert [package.name for package in packages if not package.users] == []
    assert {user for package in packages for user in package.users} <= names
