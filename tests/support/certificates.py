"""A certificate authority of one test's own, and what it has signed."""

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


def signed(home: Path, ca: Pair, name: str, *, called: str = "IP:127.0.0.1") -> Pair:
    """For a server that is `called` so by its clients (DNS:… or IP:…), or a client."""
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


def certified(home: Path, *, nats: str = "DNS:nats", postgres: str = "DNS:postgres") -> Path:
    """`home`, with all that a cluster is given for TLS; each server is called as its clients are to call it."""
    home.mkdir(exist_ok=True)
    ca = authority(home)
    signed(home, ca, "nats", called=nats)
    signed(home, ca, "postgres", called=postgres)
    return home


def _openssl(words: str, *more: str) -> None:
    subprocess.run(["openssl", *words.split(), *more], check=True, capture_output=True)
