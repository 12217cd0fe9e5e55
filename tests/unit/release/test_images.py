"""The images that the cluster is built from, and the lock files."""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import pytest

from release import images
from release.images import Image, find_images
from release.lock_files import IMAGE_LOCK, LOCKS, WHEEL_LOCK, LockedPackage, read_lock
from tests.support.paths import ROOT

DIGEST: Final = "@sha256:" + "0123456789abcdef" * 4


def states(environment: Mapping[str, str]) -> dict[str, bool]:
    return {
        image.name: image.is_pinned
        for image in find_images(ROOT, environment)
        if image.file in ("Dockerfile", "compose.yaml", "deploy/stack.yaml")
        and not image.is_built_here
    }


def test_every_image_can_be_given_by_its_digest() -> None:
    given = {
        "VIGIL_PYTHON_IMAGE": f"python:3.13-slim{DIGEST}",
        "VIGIL_NATS_IMAGE": f"nats{DIGEST}",
        "VIGIL_POSTGRES_IMAGE": f"registry.example.org/pgvector{DIGEST}",
    }
    assert states(given) == dict.fromkeys(given.values(), True)


def test_a_tag_or_half_a_digest_is_not_a_pin() -> None:
    assert states({"VIGIL_NATS_IMAGE": f"nats{DIGEST[:-1]}"})[f"nats{DIGEST[:-1]}"] is False
    assert [
        image.name for image in find_images(ROOT, {}) if image.is_pinned
    ] == []  # none is made up


def test_the_defaults_of_the_files_agree() -> None:
    """Compose passes its own default to the Dockerfile; `.env` shows all of them."""
    dockerfile = re.findall(r"^ARG PYTHON_IMAGE=(\S+)$", (ROOT / "Dockerfile").read_text(), re.M)
    shown = dict(re.findall(r"^# (VIGIL_\w+_IMAGE)=(\S+)$", (ROOT / ".env").read_text(), re.M))
    named = dict(
        re.findall(r"\$\{(VIGIL_\w+_IMAGE):-([^}]+)\}", (ROOT / "compose.yaml").read_text())
    )
    assert named == shown
    assert dockerfile == [named["VIGIL_PYTHON_IMAGE"]]
    assert (ROOT / "Dockerfile").read_text().count("FROM ${PYTHON_IMAGE}") == 2


def test_settings_come_from_the_environment_then_from_the_env_file(tmp_path: Path) -> None:
    (tmp_path / "deploy" / "deeper").mkdir(parents=True)
    (tmp_path / "compose.yaml").write_text("    image: ${A_IMAGE:-a:1}\n  - image: 'b:1'\n")
    (tmp_path / "deploy" / "deeper" / "more.yaml").write_text("image: vigil:local  # built\n")
    (tmp_path / "Dockerfile").write_text("ARG PYTHON_IMAGE=base:1\n")
    (tmp_path / ".env").write_text("A_IMAGE=a:2\n# VIGIL_PYTHON_IMAGE=base:2\n")
    dockerfile = Image("Dockerfile", "base:1", "VIGIL_PYTHON_IMAGE")
    built = Image("deploy/deeper/more.yaml", "vigil:local", "")
    plain = Image("compose.yaml", "b:1", "")
    from_file = Image("compose.yaml", "a:2", "A_IMAGE")
    assert find_images(tmp_path, {}) == [dockerfile, from_file, plain, built]
    from_shell = Image("compose.yaml", "a:3", "A_IMAGE")
    assert find_images(tmp_path, {"A_IMAGE": "a:3"}) == [dockerfile, from_shell, plain, built]


def test_kustomizations_set_tags_and_digests(tmp_path: Path) -> None:
    (tmp_path / "deploy").mkdir()
    (tmp_path / "compose.yaml").write_text("")
    (tmp_path / "Dockerfile").write_text("")
    (tmp_path / ".env").write_text("")
    (tmp_path / "deploy" / "pod.yaml").write_text("image: nats\nimage: 'other'\n")
    (tmp_path / "deploy" / "kustomization.yaml").write_text(
        f"images:\n  - {{name: vigil, newTag: 0.4.0}}\n  - name: nats\n    digest: {DIGEST[1:]}\n"
    )
    file = "deploy/kustomization.yaml"
    found = find_images(tmp_path, {})
    assert found == [
        Image(file, f"nats{DIGEST}", "`images`"),
        Image(file, "vigil:0.4.0", "`images`"),
        Image("deploy/pod.yaml", "other", ""),
    ]
    assert [(image.is_pinned, image.is_built_here) for image in found] == [
        (True, False),
        (False, True),
        (False, False),
    ]


def test_every_image_of_the_manifests_is_listed_with_a_tag() -> None:
    names = {image.name for image in find_images(ROOT, {}) if image.file.startswith("deploy/")}
    assert len(names) > 5
    assert all(":" in name for name in names)


@pytest.mark.parametrize(("arguments", "code"), [([], 0), (["--require"], 1)])
def test_only_a_demanded_pin_is_an_error(
    arguments: list[str],
    code: int,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    for name in ("VIGIL_PYTHON_IMAGE", "VIGIL_NATS_IMAGE", "VIGIL_POSTGRES_IMAGE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr("sys.argv", ["images", *arguments])
    assert images.main() == code
    output = capsys.readouterr().out
    assert "NOT PINNED  nats:2.12-alpine  (compose.yaml, set by VIGIL_NATS_IMAGE)\n" in output
    assert "built here  vigil:local  (compose.yaml, set by VIGIL_IMAGE)\n" in output


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
