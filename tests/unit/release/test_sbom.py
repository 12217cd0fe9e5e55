"""The bills of materials: complete, valid, the same each time, and without traces of the machine that wrote them."""

import base64
import json
import os
import re
from typing import Any, Final

import pytest
from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator
from jsonschema import FormatChecker

from release.sbom import ImageContents, image_bom, inspect_image, read_licenses, render, wheel_bom
from tests.support.paths import ROOT

VERSION: Final = "1.2.3"
INSPECTED: Final = """\
debian 13
python 3.13.9
pypi pip 25.3
deb libssl3t64 3.5.4-1~deb13u1 amd64
deb tzdata 2025b-4+deb13u1 all
"""
LOCKS: Final = {"wheel": "requirements.lock", "image": "requirements-cluster.lock"}


def make(name: str) -> str:
    licenses = read_licenses()
    if name == "wheel":
        return render(wheel_bom(VERSION, licenses))
    return render(image_bom(VERSION, ImageContents.parse(INSPECTED), licenses))


@pytest.fixture(scope="module", params=["wheel", pytest.param("image", marks=pytest.mark.slow)])
def name(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def text(name: str) -> str:
    return make(name)


@pytest.fixture(scope="module")
def components(text: str) -> dict[str, dict[str, Any]]:
    listed = json.loads(text)["components"]
    by_purl = {component["purl"]: component for component in listed}
    assert len(by_purl) == len(listed)
    return by_purl


def hashes(component: dict[str, Any]) -> set[tuple[str, str]]:
    (reference,) = component["externalReferences"]
    return {(entry["alg"], entry["content"]) for entry in reference["hashes"]}


@pytest.mark.slow
def test_it_follows_the_schema(text: str) -> None:
    assert JsonStrictValidator(SchemaVersion.V1_6).validate_str(text) is None
    # The schema requires IRI references, which the validator does not check.
    addresses = re.findall(r'"url": ("[^"]*")', text)
    assert addresses
    for address in addresses:
        FormatChecker().check(json.loads(address), "uri-reference")


def test_it_has_every_locked_package_with_all_hashes(
    name: str, components: dict[str, dict[str, Any]]
) -> None:
    lock = (ROOT / LOCKS[name]).read_text()
    expected: dict[str, set[tuple[str, str]]] = {}
    for entry in re.split(r"\n(?=\w)", lock):
        package, version = re.match(r"([^=\s]+)==(\S+)", entry).groups()  # type: ignore[union-attr]  # else the test fails
        digests = re.findall(r"sha256:(\w{64})", entry)
        assert digests
        expected[f"pkg:pypi/{package}@{version}"] = {("SHA-256", digest) for digest in digests}
    listed = {
        purl: hashes(component)
        for purl, component in components.items()
        if purl.startswith("pkg:pypi/") and "externalReferences" in component
    }
    assert listed == expected


def test_it_has_every_library_of_the_web_ui_with_its_hash(
    components: dict[str, dict[str, Any]],
) -> None:
    lock = json.loads((ROOT / "package-lock.json").read_text())
    expected = {
        (path.split("node_modules/")[-1], entry["version"]): base64.b64decode(
            entry["integrity"][7:]
        ).hex()
        for path, entry in lock["packages"].items()
        if path and not entry.get("dev")
    }
    listed = {
        ("/".join(filter(None, [entry.get("group"), entry["name"]])), entry["version"]): hashes(
            entry
        )
        for purl, entry in components.items()
        if purl.startswith("pkg:npm/")
    }
    assert listed == {key: {("SHA-512", digest)} for key, digest in expected.items()}
    assert ("htmx.org", lock["packages"]["node_modules/htmx.org"]["version"]) in listed
    assert not any(
        package in dict(listed) for package in ("axe-core", "tiktoken")
    )  # for tests only


def test_licenses_are_known_of_what_is_installed(components: dict[str, dict[str, Any]]) -> None:
    by_name = {component["name"]: component.get("licenses") for component in components.values()}
    assert by_name["openai"] == [{"license": {"acknowledgement": "declared", "id": "Apache-2.0"}}]
    assert by_name["uplot"] == [{"license": {"id": "MIT"}}]
    packages = [
        entry for purl, entry in components.items() if purl.startswith(("pkg:pypi/", "pkg:npm/"))
    ]
    assert sum("licenses" in entry for entry in packages) > 0.9 * len(packages)


def test_dependencies_lead_to_every_component(
    text: str, components: dict[str, dict[str, Any]]
) -> None:
    document = json.loads(text)
    needs = {entry["ref"]: entry.get("dependsOn", []) for entry in document["dependencies"]}
    root = document["metadata"]["component"]["bom-ref"]
    reached, waiting = {root}, [root]
    while waiting:
        fresh = set(needs[waiting.pop()]) - reached
        reached |= fresh
        waiting.extend(fresh)
    assert reached - {root} == {component["bom-ref"] for component in components.values()}
    (vigil,) = [ref for ref in needs if ref.startswith("pkg:pypi/vigil-agents@")]
    assert any(ref.startswith("pkg:pypi/openai@") for ref in needs[vigil])
    assert not any(ref.startswith("pkg:pypi/pydantic-core@") for ref in needs[vigil])


@pytest.mark.slow
def test_the_same_inputs_give_the_same_bytes(name: str, text: str) -> None:
    assert make(name) == text


def test_nothing_tells_of_the_machine_or_of_an_index(text: str) -> None:
    document = json.loads(text)
    assert document.pop("$schema").startswith("http://cyclonedx.org/")
    rest = json.dumps(document)
    assert "://" not in rest
    assert "simple" not in set(re.split(r"[^\w-]", rest))
    for trace in (str(ROOT), os.path.expanduser("~"), "site-packages", "/usr/", "/tmp"):
        assert trace not in rest
    assert not {"serialNumber", "timestamp"} & {*document, *document["metadata"]}


def test_the_image_has_python_and_the_packages_of_its_base(
    name: str, components: dict[str, dict[str, Any]]
) -> None:
    base = {
        "pkg:generic/python@3.13.9",
        "pkg:pypi/pip@25.3",
        "pkg:deb/debian/libssl3t64@3.5.4-1~deb13u1?arch=amd64&distro=debian-13",
        "pkg:deb/debian/tzdata@2025b-4%2Bdeb13u1?arch=all&distro=debian-13",
        f"pkg:pypi/vigil-agents@{VERSION}",
    }
    assert base <= {*components} if name == "image" else not base & {*components}


@pytest.mark.parametrize("line", ["deb libssl3t64", "pypi pip 25.3 more", "python"])
def test_an_unexpected_line_is_refused(line: str) -> None:
    with pytest.raises(ValueError, match="unpack"):
        ImageContents.parse(f"{INSPECTED}{line}\n")


def test_an_image_that_cannot_be_run_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    with pytest.raises(OSError, match="docker"):
        inspect_image("vigil:local")
