"""Passwords, certificates and NATS users of an installation, as files that only their users can read."""

import json
import os
import secrets
import ssl
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any, Final
from urllib.parse import quote

from cli.config.providers import USED_BY, read_provider_secrets
from cli.errors import BadInputError
from shared.accounts.secrets import new_token
from shared.database.grants import role_name
from shared.events.permissions import OPERATOR, PERMISSIONS
from shared.runtime.identity import (
    DATABASE_PASSWORD_FILE,
    KEYS_GROUP,
    MIGRATE,
    NATS_PASSWORD_FILE,
    SERVICES,
    TOKEN_FILE,
)

CA: Final = "ca.pem"
NATS: Final = ("nats.pem", "nats.key")
POSTGRES: Final = ("postgres.pem", "postgres.key")
ALL: Final = (CA, *NATS, *POSTGRES)


def read_certificates(directory: Path) -> dict[str, str]:
    """Certificates by file name; empty if there are none.

    Raises BadInputError if some are missing, or if a client that trusts the CA would refuse a server.
    """
    missing = [name for name in ALL if not (directory / name).is_file()]
    if len(missing) == len(ALL):
        return {}
    if missing:
        needed = ", ".join(ALL)
        raise BadInputError(f"{directory}: missing {', '.join(missing)}; TLS needs {needed}")
    for pair in (NATS, POSTGRES):
        _try_out(directory, *pair)
    return {name: (directory / name).read_text() for name in ALL}


def _try_out(directory: Path, certificate: str, key: str) -> None:
    """Tests a TLS handshake in memory between a server of that name and a client that trusts only the CA."""
    name = Path(certificate).stem
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    try:
        showing = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        showing.load_cert_chain(directory / certificate, directory / key, password=lambda: "")
        trusting = ssl.create_default_context(cafile=directory / CA)
        sides = (
            trusting.wrap_bio(to_client, to_server, server_hostname=name),
            showing.wrap_bio(to_server, to_client, server_side=True),
        )
        for side in (*sides, *sides):
            with suppress(ssl.SSLWantReadError):
                side.do_handshake()
    except OSError as error:  # includes ssl's errors
        raise BadInputError(
            f"{directory / certificate}, with {key} and {CA}, cannot be used for a server named {name!r}: {error}"
        ) from error


CLUSTER: Final = "vigil"
ROUTES_USER: Final = "routes"
ROUTES_PORT: Final = 6222
TLS_TIMEOUT_SECONDS: Final = 10
SEEN_BY_NATS: Final = PurePosixPath("/etc/nats/keys")
"""The folder of this configuration inside NATS's container; paths of certificates must be absolute."""

_HEAD: Final = "# Written by `vigil keys` from Vigil's own table of permissions; changes are lost at its next run.\n"


def render(
    passwords: Mapping[str, str],
    routes: Sequence[str] = (),
    routes_password: str | None = None,
    *,
    tls: bool = False,
) -> str:
    """`passwords` by user. `routes` are the nodes of a cluster (host:port), each node's own too.

    With `tls` clients must use TLS from the first byte; nodes use plain text among themselves.
    """
    users = [
        {"user": user, "password": passwords[user], "permissions": permissions.as_nats()}
        for user, permissions in PERMISSIONS.items()
    ]
    parts: dict[str, Any] = {"authorization": {"users": users}}
    if routes:
        parts["cluster"] = _cluster(routes, routes_password or "")
    if tls:
        certificate, key = (str(SEEN_BY_NATS / name) for name in NATS)
        parts["tls"] = {
            "cert_file": certificate,
            "key_file": key,
            # Not "auto": NATS would greet a slow client in plain text.
            "handshake_first": True,
            "timeout": TLS_TIMEOUT_SECONDS,
        }
    lines = [f"{key}: {json.dumps(part, indent=2)}\n" for key, part in parts.items()]
    return _HEAD + "".join(lines)


def _cluster(routes: Sequence[str], password: str) -> dict[str, Any]:
    login = f"{ROUTES_USER}:{quote(password, safe='')}"
    return {
        "name": CLUSTER,
        "listen": f"0.0.0.0:{ROUTES_PORT}",
        "authorization": {"user": ROUTES_USER, "password": password},
        "routes": [f"nats-route://{login}@{route}" for route in routes],
    }


PASSWORD_BYTES: Final = 32
ROOT: Final = 0
PRIVATE_FOLDER: Final = 0o700
PRIVATE_FILE: Final = 0o600
ROUTES_PASSWORD_FILE: Final = "routes_password"


_SERVICES: Final = {service.name: service for service in SERVICES}


def _random() -> str:
    return secrets.token_urlsafe(PASSWORD_BYTES)


@dataclass(frozen=True)
class Keys:
    """The passwords of an installation in `directory`, one folder per service."""

    directory: Path
    private: bool = False
    """All files belong to the user of this process, and no other user or group can read them: for an installation
    whose services all run as that user. Otherwise each service's folder belongs to the service's own uid."""

    def make(
        self,
        *,
        postgres_password_file: Path | None,
        routes: Sequence[str],
        certificates: Mapping[str, str] | None = None,
    ) -> int:
        """Creates what is missing, and returns the number of new passwords. users.conf is always rewritten.

        `certificates` are by file name; earlier ones that are not among them are removed. Raises BadInputError if an
        existing password is invalid, or the directory cannot be written.
        """
        try:
            return self._make(postgres_password_file, routes, certificates or {})
        except OSError as error:
            remedy = "change its owner" if self.private else "run as root"
            wrong = f"{error.filename}: {error.strerror}"
            raise BadInputError(f"{wrong}; {remedy}, or choose another directory") from error

    def login_of(self, name: str) -> dict[str, str]:
        """The settings with which the service `name` logs in to PostgreSQL and NATS.

        Raises BadInputError if its files cannot be read.
        """
        folder, login = self.directory / name, dict[str, str]()
        service = _SERVICES[name]
        if service.has_database_role:
            login["database_user"] = role_name(name)
            login["database_password"] = _required(folder / DATABASE_PASSWORD_FILE)
        if service.has_nats_user:
            login["nats_user"] = name
            login["nats_password"] = _required(folder / NATS_PASSWORD_FILE)
        return login

    @property
    def nats_users(self) -> Path:
        """The file that NATS's configuration includes."""
        return self.directory / "nats" / "users.conf"

    def copy_provider_keys(self, directory: Path) -> list[str]:
        """Copies the provider keys in `directory` to the services that use them; returns their names.

        A key that is no longer in `directory` is removed. Call it after `make`, which creates the folders.
        """
        uids = {service.name: service.uid for service in SERVICES}
        keys = read_provider_secrets(directory)
        for name, users in USED_BY.items():
            for user in users:
                file = self.directory / user / name
                if name in keys:
                    self._write(file, keys[name], uids[user], KEYS_GROUP, 0o440)
                else:
                    file.unlink(missing_ok=True)
        return sorted(keys)

    def _make(
        self,
        postgres_password_file: Path | None,
        routes: Sequence[str],
        certificates: Mapping[str, str],
    ) -> int:
        count = 0
        self._folder(self.directory, ROOT, ROOT, 0o755)
        if postgres_password_file is not None:
            count += self._superuser(postgres_password_file)
            self._lay(certificates, dict.fromkeys(POSTGRES, postgres_password_file.parent))
        self._lay(certificates, {CA: self.directory} | dict.fromkeys(NATS, self.directory / "nats"))
        for service in SERVICES:
            folder = self.directory / service.name
            self._folder(folder, service.uid, KEYS_GROUP, 0o750)
            if service.has_nats_user:
                count += self._password(folder / NATS_PASSWORD_FILE, service.uid)
            if service.has_database_role:
                count += self._password(folder / DATABASE_PASSWORD_FILE, service.uid)
            if service.name == OPERATOR and not self.private:
                count += self._password(folder / TOKEN_FILE, service.uid, new_token)
        return count + self._nats(routes, tls=bool(certificates))

    def _superuser(self, file: Path) -> int:
        """The superuser's password, which only PostgreSQL and `migrate` can read."""
        own = self.directory / MIGRATE / DATABASE_PASSWORD_FILE
        self._folder(own.parent, SERVICES[0].uid, KEYS_GROUP, 0o750)
        existing = _read_password(file) or _read_password(own)
        password = existing or _random()
        # PostgreSQL's image reads it as a user whose number differs from image to image.
        self._write(file, password, ROOT, ROOT, 0o444)
        self._write(own, password, SERVICES[0].uid, KEYS_GROUP, 0o440)
        return 0 if existing else 1

    def _password(self, file: Path, uid: int, make: Callable[[], str] = _random) -> int:
        existing = _read_password(file)
        self._write(file, existing or make(), uid, KEYS_GROUP, 0o440)
        return 0 if existing else 1

    def _nats(self, routes: Sequence[str], *, tls: bool) -> int:
        folder = self.directory / "nats"
        self._folder(folder, ROOT, ROOT, 0o700)
        count, routes_password = 0, None
        if routes:
            file = folder / ROUTES_PASSWORD_FILE
            existing = _read_password(file)
            count, routes_password = int(existing is None), existing or _random()
            self._write(file, routes_password, ROOT, ROOT, 0o400)
        passwords = {
            service.name: _read_password(self.directory / service.name / NATS_PASSWORD_FILE) or ""
            for service in SERVICES
            if service.has_nats_user
        }
        users = render(passwords, routes, routes_password, tls=tls)
        self._write(self.nats_users, users, ROOT, ROOT, 0o400)
        return count

    def _folder(self, folder: Path, uid: int, gid: int, mode: int) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._own(folder, uid, gid)
        folder.chmod(PRIVATE_FOLDER if self.private else mode)

    def _write(self, file: Path, text: str, uid: int, gid: int, mode: int) -> None:
        """Replaces the file atomically; other users can never read it."""
        file.parent.mkdir(parents=True, exist_ok=True)
        new_file = file.with_name(f".{file.name}.new")
        new_file.unlink(missing_ok=True)
        descriptor = os.open(new_file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, PRIVATE_FILE)
        with open(descriptor, "w") as new:
            new.write(text)
        self._own(new_file, uid, gid)
        new_file.chmod(PRIVATE_FILE if self.private else mode)
        new_file.replace(file)

    def _lay(self, certificates: Mapping[str, str], folders: Mapping[str, Path]) -> None:
        """Writes each certificate to its folder: the CA's is world-readable, a server's by root."""
        for name, folder in folders.items():
            if name in certificates:
                mode = 0o444 if name == CA else 0o400
                self._write(folder / name, certificates[name], ROOT, ROOT, mode)
            else:
                (folder / name).unlink(missing_ok=True)

    def _own(self, path: Path, uid: int, gid: int) -> None:
        """Changes the owner if the system allows it; otherwise the files stay this user's."""
        if os.geteuid() == ROOT and not self.private:
            os.chown(path, uid, gid)


def _read_password(file: Path) -> str | None:
    """The password in the file; None if it is missing or empty."""
    with suppress(FileNotFoundError):
        password = file.read_text().strip()
        if any(character in password for character in "\n\r\0"):
            fix = "write the password on a single line"
            raise BadInputError(f"{file} has more than one line: {fix}")
        return password or None
    return None


def _required(file: Path) -> str:
    try:
        password = _read_password(file)
    except OSError as error:
        raise BadInputError(
            f"{file} cannot be read ({error.strerror}): run the command as the user who runs `vigil up`"
        ) from error
    if password is None:
        raise BadInputError(f"{file} is missing or empty: restart `vigil up` to create it")
    return password
