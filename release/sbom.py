"""`python -m release.sbom`: writes the bills of materials of the wheel and of the image, in CycloneDX.

cyclonedx-py reads the lock files (versions, hashes) and the environment (licenses). This adds what it does not know: the
browser libraries of `package-lock.json`, the packages of the image's distribution, and which package needs which. The same
lock files, environment and image give the same bytes.
"""

import argparse
import base64
import json
import subprocess
import sys
import tomllib
from collections.abc import Iterable
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Any, Final

from cyclonedx.contrib.license.factories import LicenseFactory
from cyclonedx.model import (
    ExternalReference,
    ExternalReferenceType,
    HashAlgorithm,
    HashType,
    Property,
    XsUri,
)
from cyclonedx.model.bom import Bom
from cyclonedx.model.component import Component, ComponentType
from cyclonedx.output.json import JsonV1Dot6
from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator
from packageurl import PackageURL

from release import ROOT
from release.lock_files import IMAGE_LOCK, WHEEL_LOCK, read_lock
from shared.version import DISTRIBUTION

IMAGE: Final = "vigil:local"
NPM_LOCK: Final = ROOT / "package-lock.json"
OUTPUT: Final = ROOT / "build" / "sbom"
LICENSE: Final = "Apache-2.0"

_INSPECT: Final = """\
. /etc/os-release && echo "$ID $VERSION_ID"
python -c 'import importlib.metadata as m, platform, sys, sysconfig
print("python", platform.python_version())
for found in m.distributions(path=[sysconfig.get_path("purelib", vars={"base": sys.base_prefix})]):
    print("pypi", found.name, found.version)'
dpkg-query --show --showformat 'deb ${Package} ${Version} ${Architecture}\\n'
"""


@dataclass(frozen=True)
class ImageContents:
    """The contents of an image besides the packages of the lock file."""

    distribution: str
    """`debian 13`"""
    python: str
    python_packages: tuple[tuple[str, str], ...]
    """Those of the base image: names and versions."""
    debian_packages: tuple[tuple[str, str, str], ...]
    """Names, versions, architectures."""

    @classmethod
    def parse(cls, text: str) -> "ImageContents":
        """Raises ValueError if a line is not of the expected form."""
        distribution, *lines = text.strip().splitlines()
        words = [line.split() for line in lines]
        by_kind = {
            kind: [word[1:] for word in words if word[0] == kind]
            for kind in ("python", "pypi", "deb")
        }
        ((python,),) = by_kind["python"]
        return cls(
            distribution=distribution,
            python=python,
            python_packages=tuple((name, version) for name, version in by_kind["pypi"]),
            debian_packages=tuple((name, version, arch) for name, version, arch in by_kind["deb"]),
        )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--directory", type=Path, default=OUTPUT)
    parser.add_argument(
        "--image", default=IMAGE, help="the built image whose packages are listed; '' for none"
    )
    arguments = parser.parse_args()
    licenses = read_licenses()
    version = _vigil_version()
    boms = {"wheel.cdx.json": wheel_bom(version, licenses)}
    if arguments.image:
        try:
            contents = inspect_image(arguments.image)
        except (OSError, subprocess.CalledProcessError, ValueError) as error:
            reason = getattr(error, "stderr", None) or str(error)
            print(f"{arguments.image} cannot be inspected: {reason.strip()}", file=sys.stderr)
            print(
                "Build it with `docker compose build`, or leave it out: make sbom ARGS=\"--image ''\"",
                file=sys.stderr,
            )
            return 1
        boms["image.cdx.json"] = image_bom(version, contents, licenses)
    arguments.directory.mkdir(parents=True, exist_ok=True)
    for name, bom in boms.items():
        text = render(bom)
        (arguments.directory / name).write_text(text)
        print(f"{arguments.directory / name}: {len(bom.components)} components")
    return 0


def wheel_bom(version: str, licenses: Iterable[Component]) -> Bom:
    """The wheel with the extra `local`: what `pip install vigil-agents[local]` brings, and the browser libraries."""
    vigil = _vigil(version)
    bom = _bom(vigil, WHEEL_LOCK, licenses)
    bom.metadata.component = vigil
    return bom


def image_bom(version: str, contents: ImageContents, licenses: Iterable[Component]) -> Bom:
    """The image: Vigil, its packages, Python, and the packages of the distribution."""
    vigil = _vigil(version)
    bom = _bom(vigil, IMAGE_LOCK, licenses)
    image = Component(type=ComponentType.CONTAINER, name="vigil", version=version, bom_ref="image")
    base = _base_components(contents)
    bom.components.update([vigil, *base])
    bom.metadata.component = image
    bom.register_dependency(image, [vigil, *base])
    return bom


def inspect_image(image: str) -> ImageContents:
    """Runs the image to list its packages. Raises CalledProcessError, OSError without Docker, ValueError."""
    command = [
        "docker",
        "run",
        "--rm",
        "--network",
        "none",
        "--entrypoint",
        "sh",
        image,
        "-c",
        _INSPECT,
    ]
    return ImageContents.parse(
        subprocess.run(command, capture_output=True, text=True, check=True).stdout
    )


def read_licenses() -> list[Component]:
    """The packages of this environment, with the licenses that they declare."""
    return list(_run_cyclonedx("environment", sys.executable).components)


def render(bom: Bom) -> str:
    """JSON, without a time or a random number. Raises ValueError if it does not follow the schema."""
    document = json.loads(JsonV1Dot6(bom).output_as_string())
    del document["serialNumber"], document["metadata"]["timestamp"]
    text = json.dumps(document, indent=1, sort_keys=True, ensure_ascii=False) + "\n"
    if (error := JsonStrictValidator(SchemaVersion.V1_6).validate_str(text)) is not None:
        raise ValueError(f"the bill of materials does not follow the schema of CycloneDX: {error}")
    return text


def _bom(vigil: Component, lock: Path, licenses: Iterable[Component]) -> Bom:
    """Vigil's packages and libraries, and which of them needs which."""
    packages, libraries = _python_components(lock, licenses), _npm_components()
    users = {package.name: package.users for package in read_lock(lock)}
    needs: dict[str, list[Component]] = {name: [] for name in ("", *users)}
    for package in packages:
        for user in users[package.name]:
            needs[user].append(package)
    bom = Bom(components=[*packages, *libraries])
    bom.metadata.tools.components.add(_tool())
    bom.register_dependency(vigil, [*needs[""], *libraries])
    for package in packages:
        bom.register_dependency(package, needs[package.name])
    return bom


def _python_components(lock: Path, licenses: Iterable[Component]) -> list[Component]:
    known = {
        (_plain(component.name), component.version): component.licenses for component in licenses
    }
    markers = {package.name: package.marker for package in read_lock(lock)}
    components = list(_run_cyclonedx("requirements", str(lock)).components)
    return [
        Component(
            type=component.type,
            name=component.name,
            version=component.version,
            purl=component.purl,
            bom_ref=str(component.purl),
            licenses=known.get((_plain(component.name), component.version), ()),
            # The tool names the index; the hashes are those of the files wherever they come from.
            external_references=[
                _distribution(component.purl, reference.hashes)
                for reference in component.external_references
            ],
            properties=[Property(name="vigil:marker", value=marker)]
            if (marker := markers[component.name])
            else (),
        )
        for component in components
    ]


def _npm_components() -> list[Component]:
    """The libraries that the pages of the web UI load, and those that are bundled in them."""
    packages: dict[str, dict[str, Any]] = json.loads(NPM_LOCK.read_text())["packages"]
    return [
        _npm_component(path.rpartition("node_modules/")[2], entry)
        for path, entry in packages.items()
        if path and not entry.get("dev")
    ]


def _npm_component(path: str, entry: dict[str, Any]) -> Component:
    namespace, _, name = path.rpartition("/")
    purl = PackageURL("npm", namespace or None, name, entry["version"])
    digest = base64.b64decode(entry["integrity"].removeprefix("sha512-")).hex()
    return Component(
        type=ComponentType.LIBRARY,
        group=namespace or None,
        name=name,
        version=entry["version"],
        purl=purl,
        bom_ref=str(purl),
        licenses=[LicenseFactory().make_from_string(entry["license"])],
        external_references=[
            _distribution(purl, [HashType(alg=HashAlgorithm.SHA_512, content=digest)])
        ],
    )


def _base_components(contents: ImageContents) -> list[Component]:
    """What comes with the base image. Neither dpkg nor pip keeps the hashes of what it has installed."""
    distribution = contents.distribution.replace(" ", "-")
    purls = [
        PackageURL("generic", name="python", version=contents.python),
        *(
            PackageURL("pypi", name=name, version=version)
            for name, version in contents.python_packages
        ),
        *(
            PackageURL("deb", "debian", name, version, {"arch": arch, "distro": distribution})
            for name, version, arch in contents.debian_packages
        ),
    ]
    return [
        Component(
            type=ComponentType.LIBRARY,
            name=purl.name,
            version=purl.version,
            purl=purl,
            bom_ref=str(purl),
        )
        for purl in purls
    ]


def _vigil(version: str) -> Component:
    purl = PackageURL("pypi", name=DISTRIBUTION, version=version)
    return Component(
        type=ComponentType.APPLICATION,
        name=DISTRIBUTION,
        version=version,
        purl=purl,
        bom_ref=str(purl),
        licenses=[LicenseFactory().make_from_string(LICENSE)],
    )


def _tool() -> Component:
    return Component(
        type=ComponentType.APPLICATION,
        name="cyclonedx-py",
        version=metadata.version("cyclonedx-bom"),
    )


def _distribution(purl: PackageURL | None, hashes: Iterable[HashType]) -> ExternalReference:
    return ExternalReference(
        type=ExternalReferenceType.DISTRIBUTION, url=XsUri(str(purl)), hashes=hashes
    )


def _run_cyclonedx(*arguments: str) -> Bom:
    command = [
        sys.executable,
        "-m",
        "cyclonedx_py",
        arguments[0],
        "--no-validate",
        "--output-reproducible",
        *arguments[1:],
    ]
    result = subprocess.run(command, input="", capture_output=True, text=True, check=True)
    bom = Bom.from_json(json.loads(result.stdout))  # type: ignore[attr-defined]  # added by a decorator
    assert isinstance(bom, Bom)
    return bom


def _plain(name: str) -> str:
    return name.lower().replace("_", "-").replace(".", "-")


def _vigil_version() -> str:
    return str(tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"])


if __name__ == "__main__":
    sys.exit(main())
