"""A certificate authority for one test, and certificates that it signs."""

import subprocess
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Pair:
    certificate: Path
    key: Path


def authority(home: Path, name: str = "ca") -> Pair:
    pair = Pair(home / f"{name}.pem", home / f"{name}.key")
    _openssl(
        "req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2",
        *("-subj", f"/CN={name}", "-keyout", str(pair.key), "-out", str(pair.certificate)),
        *("-addext", "keyUsage=critical,keyCertSign,cRLSign"),
    )
    return pair


def sign(home: Path, ca: Pair, name: str, *, called: str = "IP:127.0.0.1") -> Pair:
    """A certificate for a server with the subject name `called` (DNS:… or IP:…), or for a client."""
    pair = Pair(home / f"{name}.pem", home / f"{name}.key")
    request = home / f"{name}.csr"
    extensions = home / f"{name}.ext"
    extensions.write_text(f"subjectAltName={called}\nauthorityKeyIdentifier=keyid\n")
    _openssl(
        "req -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes",
        *("-subj", f"/CN={name}", "-keyout", str(pair.key), "-out", str(request)),
    )
    _openssl(
        "x509 -req -days 2 -CAcreateserial",
        *("-in", str(request), "-CA", str(ca.certificate), "-CAkey", str(ca.key)),
        *("-extfile", str(extensions), "-out", str(pair.certificate)),
    )
    return pair


def write_certificates(
    home: Path, *, nats: str = "DNS:nats", postgres: str = "DNS:postgres"
) -> Path:
    """Write all certificates of a cluster to `home`; `nats` and `postgres` are the servers' subject names."""
    home.mkdir(exist_ok=True)
    ca = authority(home)
    sign(home, ca, "nats", called=nats)
    sign(home, ca, "postgres", called=postgres)
    return home


def _openssl(words: str, *more: str) -> None:
    subprocess.run(["openssl", *words.split(), *more], check=True, capture_output=True)
