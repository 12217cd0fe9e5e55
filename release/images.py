"""`python -m release.images`: which images the cluster is built from and runs, and whether each is pinned by a digest.

It reads the Dockerfile, the Compose files, `.env`, the environment, and the manifests under `deploy/`; nothing is fetched.
"""

import argparse
import os
import re
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import yaml

from release import ROOT

BUILT_HERE: Final = "vigil:"
"""The image that is built from the Dockerfile."""
BASE: Final = "VIGIL_PYTHON_IMAGE"

_DIGEST: Final = re.compile(r"@sha256:[0-9a-f]{64}$")
_VARIABLE: Final = re.compile(r"\$\{([A-Z_]+)(?::?-([^}]*))?\}")
_NAMED: Final = re.compile(r"^\s*-?\s*image:\s*[\"']?([^\s\"'#]+)", re.MULTILINE)
_ARGUMENT: Final = re.compile(r"^ARG PYTHON_IMAGE=(\S+)$", re.MULTILINE)
_SETTING: Final = re.compile(r"^([A-Z_]+)=(.*)$", re.MULTILINE)


@dataclass(frozen=True, order=True)
class Image:
    file: str
    name: str
    variable: str
    """The setting that replaces it, such as by the same image with its digest; '' if there is none."""

    @property
    def is_pinned(self) -> bool:
        return _DIGEST.search(self.name) is not None

    @property
    def is_built_here(self) -> bool:
        return self.name.startswith(BUILT_HERE)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--require", action="store_true", help="exit with 1 if one is not pinned")
    is_required: bool = parser.parse_args().require
    images = find_images(ROOT, os.environ)
    for image in images:
        print(_describe(image))
    loose = [image for image in images if not (image.is_pinned or image.is_built_here)]
    if loose:
        print("\nPin one by its digest, which docs/operations/supply-chain.md shows how to find.")
    return 1 if loose and is_required else 0


def find_images(root: Path, environment: Mapping[str, str]) -> list[Image]:
    """Every image that is named, with the variables of `.env` and, before them, of the environment."""
    settings = {**dict(_SETTING.findall((root / ".env").read_text())), **environment}
    kustomized = [
        entry
        for file in (root / "deploy").rglob("kustomization.yaml")
        for entry in _of_kustomization(str(file.relative_to(root)), file.read_text())
    ]
    set_elsewhere = {name for name, _ in kustomized}
    files = [root / "compose.yaml", *(root / "deploy").rglob("*.yaml")]
    named = {
        _resolve(str(file.relative_to(root)), text, settings)
        for file in files
        for text in _NAMED.findall(file.read_text())
        if text not in set_elsewhere
    }
    base = {
        Image("Dockerfile", settings.get(BASE) or name, BASE)
        for name in _ARGUMENT.findall((root / "Dockerfile").read_text())
    }
    return sorted(named | base | {image for _, image in kustomized})


def _of_kustomization(file: str, text: str) -> Iterator[tuple[str, Image]]:
    """The images whose tag or digest it sets, by the name that manifests give them."""
    for entry in yaml.safe_load(text).get("images", []):
        name = entry.get("newName", entry["name"])
        suffix = f"@{entry['digest']}" if "digest" in entry else f":{entry.get('newTag', 'latest')}"
        yield entry["name"], Image(file, f"{name}{suffix}", "`images`")


def _resolve(file: str, text: str, settings: Mapping[str, str]) -> Image:
    match = _VARIABLE.search(text)
    name = _VARIABLE.sub(lambda found: settings.get(found[1]) or found[2] or "", text)
    return Image(file, name, match[1] if match else "")


def _describe(image: Image) -> str:
    state = "pinned" if image.is_pinned else "NOT PINNED"
    if image.is_built_here:
        state = "built here"
    source = f", set by {image.variable}" if image.variable else ""
    return f"{state:<10}  {image.name}  ({image.file}{source})"


if __name__ == "__main__":
    sys.exit(main())
