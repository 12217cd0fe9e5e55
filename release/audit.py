"""`python -m release.audit`: asks OSV for known vulnerabilities of every locked package, with pip-audit.

Exit codes: 0 if OSV has answered for every package and knows none, 1 if it knows some, 2 if a package was not checked.
Packages for other platforms are checked too.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from release.lock_files import LOCKS, LockedPackage, read_lock

OSV: Final = "https://api.osv.dev/v1/query"
VULNERABLE: Final = 1
NOT_CHECKED: Final = 2
REASON_LINES: Final = 1


@dataclass(frozen=True)
class Report:
    """The result of pip-audit for one lock file."""

    checked: frozenset[tuple[str, str]]
    vulnerabilities: tuple[str, ...]
    reason: str
    """The end of its error output."""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("locks", nargs="*", type=Path, default=LOCKS)
    parser.add_argument("--osv-url", default=os.environ.get("VIGIL_OSV_URL") or OSV)
    arguments = parser.parse_args()
    known: set[tuple[str, str]] = set()
    exit_code = 0
    for lock in arguments.locks:
        packages = [package for package in read_lock(lock) if _key(package) not in known]
        known.update(map(_key, packages))
        exit_code = max(exit_code, _check(lock, packages, arguments.osv_url))
        if exit_code == NOT_CHECKED:
            break
    return exit_code


def _check(lock: Path, packages: Sequence[LockedPackage], osv_url: str) -> int:
    """Prints the result for the packages, and returns an exit code."""
    if not packages:
        print(f"{lock.name}: all packages are in the lock files above")
        return 0
    report = _audit(packages, osv_url)
    for line in report.vulnerabilities:
        print(f"{lock.name}: {line}")
    missing = [
        f"{name} {version}" for name, version in sorted({*map(_key, packages)} - report.checked)
    ]
    if missing:
        print(
            f"{lock.name}: NOT CHECKED: {osv_url} did not answer for {len(missing)} of {len(packages)} packages"
            f" ({', '.join(missing[:3])}{' …' if missing[3:] else ''}). Nothing is known about them; check the network,"
            f" or set VIGIL_OSV_URL, and run it again.\n{report.reason}",
            file=sys.stderr,
        )
        return NOT_CHECKED
    count = len(report.vulnerabilities) or "none"
    print(f"{lock.name}: {len(packages)} packages checked, known vulnerabilities: {count}")
    return VULNERABLE if report.vulnerabilities else 0


def _audit(packages: Sequence[LockedPackage], osv_url: str) -> Report:
    with tempfile.TemporaryDirectory() as name:
        requirements, output = Path(name) / "requirements.txt", Path(name) / "report.json"
        # Without markers: a package for another platform would be left out.
        requirements.write_text("".join(map(_requirement, packages)))
        result = subprocess.run(
            [
                *(sys.executable, "-m", "pip_audit", "--require-hashes", "--disable-pip"),
                *(
                    "--requirement",
                    str(requirements),
                    "--vulnerability-service",
                    "osv",
                    "--osv-url",
                    osv_url,
                ),
                *("--progress-spinner", "off", "--format", "json", "--output", str(output)),
            ],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )
        report = json.loads(output.read_text()) if output.exists() else {"dependencies": []}
    entries = [entry for entry in report["dependencies"] if "vulns" in entry]
    return Report(
        checked=frozenset((entry["name"], entry["version"]) for entry in entries),
        vulnerabilities=tuple(
            _describe(entry, vuln) for entry in entries for vuln in entry["vulns"]
        ),
        reason="\n".join(result.stderr.strip().splitlines()[-REASON_LINES:]),
    )


def _requirement(package: LockedPackage) -> str:
    hashes = " ".join(f"--hash=sha256:{digest}" for digest in package.sha256)
    return f"{package.name}=={package.version} {hashes}\n"


def _key(package: LockedPackage) -> tuple[str, str]:
    """Name and version in the normalized form that pip-audit prints."""
    from packaging.utils import canonicalize_name
    from packaging.version import Version

    return canonicalize_name(package.name), str(Version(package.version))


def _describe(entry: dict[str, Any], vulnerability: dict[str, Any]) -> str:
    names = " ".join([vulnerability["id"], *vulnerability["aliases"]])
    fixed = ", ".join(vulnerability["fix_versions"]) or "no version"
    return f"{entry['name']} {entry['version']}: {names}, fixed in {fixed}: {vulnerability['description']}"


if __name__ == "__main__":
    sys.exit(main())
