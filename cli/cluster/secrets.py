"""The files of `vigil keys` as Secrets of Kubernetes, one for each service."""

import base64
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from cli.cluster.keys import ROUTES_PASSWORD_FILE
from cli.config.providers import FETCHES_ONLY, SEARCH_GIVEN, SEARCH_KEY, USED_BY
from cli.errors import BadInputError
from shared.runtime.identity import DATABASE_PASSWORD_FILE, MIGRATE, SERVICES

DATABASE_OWNER: Final = "vigil"
"""The PostgreSQL role that owns the database in deploy/kubernetes and runs the migrations."""


def secret_name(service: str) -> str:
    """The name of the Secret with the keys of a service, of `nats` or of `postgres`."""
    return f"{service}-keys"


def write_secrets(directory: Path, file: Path) -> list[str]:
    """Write the keys in `directory` as a manifest that only this user can read; return the names of its Secrets.

    Raises BadInputError if a key cannot be read or the file cannot be written.
    """
    try:
        secrets = [
            _secret(secret_name(name), data)
            for name in (*(service.name for service in SERVICES), "nats")
            if (data := _files(directory / name) | _search_given(directory, name))
        ]
        password = directory / MIGRATE / DATABASE_PASSWORD_FILE
        if password.exists():
            owner = {"username": DATABASE_OWNER.encode(), "password": password.read_bytes()}
            secrets.append(_secret(secret_name("postgres"), owner, "kubernetes.io/basic-auth"))
        manifest = {"apiVersion": "v1", "kind": "List", "items": secrets}
        if not file.exists() or file.is_file():  # else a device or a pipe, such as /dev/stdout
            if file.is_symlink():  # such as /dev/stdout, too, if it is redirected to a file
                raise BadInputError(f"{file} is a link: name the file itself")
            file.unlink(missing_ok=True)
            file.touch(mode=0o600, exist_ok=False)
        file.write_text(json.dumps(manifest, indent=2) + "\n")
    except OSError as error:
        raise BadInputError(f"{error.filename or file}: {error.strerror}") from error
    return [secret["metadata"]["name"] for secret in secrets]


def _files(folder: Path) -> dict[str, bytes]:
    if not folder.is_dir():
        return {}
    return {
        file.name: file.read_bytes()
        for file in sorted(folder.iterdir())
        # The routes' password is part of users.conf.
        if file.is_file() and file.name != ROUTES_PASSWORD_FILE
    }


def _search_given(directory: Path, service: str) -> dict[str, bytes]:
    """What tells a service without the key of the search service that there is one."""
    has_key = any((directory / user / SEARCH_KEY).exists() for user in USED_BY[SEARCH_KEY])
    return {SEARCH_GIVEN: b"yes"} if has_key and service in FETCHES_ONLY else {}


def _secret(name: str, data: Mapping[str, bytes], kind: str = "Opaque") -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": name, "labels": {"app.kubernetes.io/part-of": "vigil"}},
        "type": kind,
        "data": {file: base64.b64encode(content).decode() for file, content in data.items()},
    }
