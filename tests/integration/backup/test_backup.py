"""`vigil backup` and `vigil restore` with a PostgreSQL that runs, as processes of their own."""

import io
import json
import os
import re
import stat
import subprocess
import tarfile
from collections.abc import Iterator
from contextlib import ExitStack
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from pathlib import Path
from random import Random

import psycopg
import pyrage
import pytest
from alembic.script import ScriptDirectory

from cli.backup.archive import CHUNKS, CORPORA, MANIFEST, ArchiveReader, ArchiveWriter, Part
from cli.backup.encryption import Secrets
from cli.backup.manifest import BadBackupError, Manifest
from cli.backup.restore import open_backup, restore_backup
from cli.backup.target import restore_target
from cli.errors import CommandError
from cli.local.data_directory import DataDirectory
from cli.local.engines import postgres_binaries
from cli.local.errors import AlreadyRunningError, DataDirectoryError
from shared.database import migrate
from shared.runtime.settings import Settings
from tests.support.backup import digest_tables, running_source, start_vigil, started, vigil
from tests.support.case_files import read_cases

CASES = read_cases(__file__)

Rows = dict[str, tuple[int, str]]


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DataDirectory]:
    with running_source(tmp_path_factory.mktemp("source") / "data") as (directory, _):
        directory.corpora_file.write_text('{"papers": "/home/ada/papers"}')
        yield directory


@pytest.fixture(scope="module")
def rows(source: DataDirectory) -> Rows:
    running = source.running()
    assert running is not None
    with psycopg.connect(running.database_url) as connection:
        return digest_tables(connection)


@pytest.fixture(scope="module")
def backup(source: DataDirectory, tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("backup") / "backup.tar"
    assert vigil("backup", file, "--data", source.root, cwd=file.parent)[0] == 0
    return file


def test_a_backup_is_restored_row_by_row(backup: Path, rows: Rows, tmp_path: Path) -> None:
    code, out, errors = vigil("restore", backup, "--data", tmp_path / "new", "--json", cwd=tmp_path)
    assert code == 0, errors
    assert json.loads(out)["restored_to"] == str(tmp_path / "new")
    assert sorted(path.name for path in (tmp_path / "new").iterdir()) == [
        CORPORA,
        "lock",
        "logs",
        "postgres",
    ]
    assert (tmp_path / "new" / CORPORA).read_text() == '{"papers": "/home/ada/papers"}'
    with started(tmp_path / "new") as connection:
        assert digest_tables(connection) == rows
        left = "select (select count(*) from sessions) + (select count(*) from sign_in_links)"
        assert connection.execute(left).fetchone() == (0,)
        assert connection.execute("select count(*) from api_tokens").fetchone() == (1,)
    assert rows["idempotency_keys"][0] == 200


def test_a_backup_is_private_and_names_what_it_contains(backup: Path, rows: Rows) -> None:
    assert stat.S_IMODE(backup.stat().st_mode) == 0o600
    with backup.open("rb") as file:
        manifest = ArchiveReader(file).manifest
    assert manifest.tables == {table: count for table, (count, _) in rows.items()}
    head = ScriptDirectory(str(migrate.SCRIPTS)).get_current_head()
    assert (manifest.postgres, manifest.revision) == (18, head)


def test_a_backup_needs_no_vigil_to_be_restored(backup: Path, tmp_path: Path) -> None:
    with tarfile.open(backup) as archive:
        archive.extractall(tmp_path, filter="data")
    for line in (tmp_path / "SHA256SUMS").read_text().splitlines():
        digest, name = line.split("  ")
        assert sha256((tmp_path / name).read_bytes()).hexdigest() == digest
    dump = b"".join(part.read_bytes() for part in sorted((tmp_path / CHUNKS).iterdir()))
    listed = subprocess.run(
        [postgres_binaries() / "pg_restore", "--list"], input=dump, capture_output=True, check=True
    )
    assert b"TABLE DATA public users" in listed.stdout


def test_an_installation_that_does_not_run_is_backed_up(backup: Path, tmp_path: Path) -> None:
    assert vigil("restore", backup, "--data", tmp_path / "one", cwd=tmp_path)[0] == 0
    code, out, errors = vigil("backup", "--data", tmp_path / "one", "--json", cwd=tmp_path)
    assert code == 0, errors
    written = json.loads(out)
    assert Path(written["file"]).parent == tmp_path
    assert vigil("restore", "--check", written["file"], cwd=tmp_path)[0] == 0
    with DataDirectory(tmp_path / "one").locked():
        code, _, errors = vigil("backup", "--data", tmp_path / "one", cwd=tmp_path)
        assert (code, "is still starting" in errors) == (1, True)
        # It may be another backup, which a message must not tell the user to kill.
        assert "makes or restores a backup: wait until it has finished" in errors


def test_nothing_is_overwritten(backup: Path, source: DataDirectory, tmp_path: Path) -> None:
    before = backup.read_bytes()
    code, _, errors = vigil("backup", backup, "--data", source.root, cwd=tmp_path)
    assert (code, "exists and is not overwritten" in errors) == (2, True)
    assert backup.read_bytes() == before
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "notes.txt").write_text("mine")
    code, _, errors = vigil("restore", backup, "--data", tmp_path / "data", cwd=tmp_path)
    assert (code, "is not empty" in errors) == (2, True)
    assert [file.name for file in (tmp_path / "data").iterdir()] == ["notes.txt"]
    code, _, errors = vigil("restore", backup, "--data", source.root, cwd=tmp_path)
    assert (code, "is not empty" in errors) == (2, True)


def test_a_directory_keeps_the_newest_backups(source: DataDirectory, tmp_path: Path) -> None:
    old = [f"vigil-2026010{day}T030000Z.tar" for day in range(1, 5)]
    for name in [*old, "vigil-20260101T030000Z.tar.age.part", "vigil-notes.tar", "photo.jpg"]:
        (tmp_path / name).write_text("")
    options = ("--to", tmp_path, "--keep", "3", "--data", source.root, "--json")
    code, out, errors = vigil("backup", *options, cwd=tmp_path)
    assert code == 0, errors
    written = json.loads(out)
    assert written["removed"] == [str(tmp_path / name) for name in old[:2]]
    assert {file.name for file in tmp_path.iterdir()} == {
        *old[2:],
        Path(written["file"]).name,
        "vigil-notes.tar",
        "photo.jpg",
    }


def test_standard_output_and_input(source: DataDirectory, tmp_path: Path) -> None:
    process = start_vigil("backup", "-", "--data", source.root, cwd=tmp_path)
    content, errors = process.communicate(timeout=60)
    assert (process.returncode, b"Wrote a backup of" in errors) == (0, True)
    check_standard_input(content, tmp_path)
    process = start_vigil("backup", "/dev/stdout", "--data", source.root, cwd=tmp_path)
    content, errors = process.communicate(timeout=60)
    assert (process.returncode, b"Wrote a backup of" in errors) == (0, True)
    check_standard_input(content, tmp_path)


def check_standard_input(content: bytes, home: Path) -> None:
    code, out, _ = vigil("restore", "--check", "-", cwd=home, stdin=content)
    assert (code, "is complete and intact" in out) == (0, True)


def test_an_output_that_fails_is_an_error(source: DataDirectory, tmp_path: Path) -> None:
    process = start_vigil("backup", "-", "--data", source.root, cwd=tmp_path)
    assert process.stdout is not None
    assert process.stderr is not None
    process.stdout.close()
    assert process.wait(60) == 1
    assert b"the output was closed before the backup was complete" in process.stderr.read()
    code, _, errors = vigil("backup", "/dev/full", "--data", source.root, cwd=tmp_path)
    assert (code, "no space left on device" in errors) == (1, True)
    os.mkfifo(tmp_path / "pipe")
    process = start_vigil("backup", "pipe", "--data", source.root, cwd=tmp_path)
    with (tmp_path / "pipe").open("rb") as reader:
        reader.read(1)
    _, errors_of_pipe = process.communicate(timeout=60)
    assert (process.returncode, b"the output was closed before" in errors_of_pipe) == (1, True)
    missing = tmp_path / "missing" / "backup.tar"
    code, _, errors = vigil("backup", missing, "--data", source.root, cwd=tmp_path)
    assert (code, errors.count("\n")) == (1, 1)


def test_backups_are_encrypted_to_recipients(source: DataDirectory, tmp_path: Path) -> None:
    identity, other = pyrage.x25519.Identity.generate(), pyrage.x25519.Identity.generate()
    (tmp_path / "key").write_text(f"# created today\n{identity}\n")
    (tmp_path / "other").write_text(f"{other}\n")
    to = ("--encrypt-to", str(identity.to_public()), "--data", source.root)
    assert vigil("backup", tmp_path / "x.tar.age", *to, cwd=tmp_path)[0] == 0
    plain = pyrage.decrypt((tmp_path / "x.tar.age").read_bytes(), [identity])
    with tarfile.open(fileobj=io.BytesIO(plain)) as archive:
        assert archive.getnames()[0] == MANIFEST
    for options, code, text in (
        (["--identity", "key"], 0, "is complete and intact"),
        (["--identity", "other"], 1, "encrypted to another recipient"),
        ([], 2, "--identity"),
        (["--identity", "missing"], 2, "cannot be read"),
    ):
        result = vigil("restore", "--check", "x.tar.age", *options, cwd=tmp_path)
        assert (result[0], text in result[1] + result[2]) == (code, True), result
    code, _, errors = vigil("backup", "--encrypt-to", "age1nonsense", cwd=tmp_path)
    assert (code, "is not an age recipient" in errors) == (2, True)


def test_backups_are_encrypted_with_a_passphrase(source: DataDirectory, tmp_path: Path) -> None:
    (tmp_path / "phrase").write_text("correct horse\n")
    (tmp_path / "other").write_text("battery staple\n")
    options = ("--passphrase-file", "phrase", "--data", source.root)
    assert vigil("backup", "x.tar.age", *options, cwd=tmp_path)[0] == 0
    plain = pyrage.passphrase.decrypt((tmp_path / "x.tar.age").read_bytes(), "correct horse")
    with tarfile.open(fileobj=io.BytesIO(plain)) as archive:
        assert archive.getnames()[0] == MANIFEST
    for with_options, code, text in (
        (["--passphrase-file", "phrase"], 0, "is complete and intact"),
        (["--passphrase-file", "other"], 1, "the passphrase is wrong"),
        ([], 2, "--passphrase-file"),
    ):
        result = vigil("restore", "--check", "x.tar.age", *with_options, cwd=tmp_path)
        assert (result[0], text in result[1] + result[2]) == (code, True), result


@pytest.mark.parametrize("option", ["--passphrase-file", "--identity"])
def test_a_file_that_should_be_encrypted_and_is_not_is_refused(
    backup: Path, tmp_path: Path, option: str
) -> None:
    """Anyone who can write to the store of the backups could have put it there."""
    (tmp_path / "secret").write_text(f"{pyrage.x25519.Identity.generate()}\n")
    for target in (["--check"], ["--data", tmp_path / "new"]):
        code, _, errors = vigil("restore", backup, option, "secret", *target, cwd=tmp_path)
        assert (code, "is not encrypted" in errors) == (2, True)
    assert not (tmp_path / "new").exists()


def test_a_restore_says_what_will_be_deleted(backup: Path, tmp_path: Path) -> None:
    for days, is_warned in ((1, False), (3, True)):
        taken_at = (datetime.now(UTC) - timedelta(days=days)).isoformat()
        rewrite(backup, tmp_path / "old.tar", {"taken_at": taken_at})
        code, out, _ = vigil("restore", "old.tar", "--data", f"restored-{days}", cwd=tmp_path)
        advised = re.findall(r"VIGIL_(\w+)=never", out)
        assert (code, bool(advised)) == (0, is_warned)
        Settings.model_validate({name.lower(): "never" for name in advised})  # possible together


def test_a_restore_whose_database_fails_leaves_nothing(
    backup: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As when the disk is full: the server ends."""

    def fail(_: str) -> None:
        raise psycopg.OperationalError("server closed the connection unexpectedly\n\tThis means")

    monkeypatch.setattr(migrate, "upgrade", fail)
    target = DataDirectory(tmp_path / "target")
    with (
        open_backup(backup, Secrets()) as opened,
        pytest.raises(CommandError, match=r"server closed the connection unexpectedly\. Check"),
    ):
        restore_backup(opened, target, lambda _: None)
    assert not target.root.exists()


def test_a_restore_leaves_alone_what_another_has_begun(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    directory = DataDirectory(tmp_path / "new")
    create = DataDirectory.create
    with ExitStack() as other:

        def create_later(self: DataDirectory) -> None:
            monkeypatch.setattr(DataDirectory, "create", create)
            staging = other.enter_context(restore_target(DataDirectory(self.root)))
            (staging / directory.postgres.name).mkdir()
            create(self)

        monkeypatch.setattr(DataDirectory, "create", create_later)
        with pytest.raises(AlreadyRunningError), restore_target(directory):
            pass
    assert directory.postgres.is_dir()


def test_a_backup_of_an_older_vigil_is_updated(backup: Path, tmp_path: Path) -> None:
    with running_source(tmp_path / "old", revision="0022") as (directory, _):
        assert vigil("backup", "old.tar", "--data", directory.root, cwd=tmp_path)[0] == 0
    with (tmp_path / "old.tar").open("rb") as file:
        assert ArchiveReader(file).manifest.revision == "0022"
    assert vigil("restore", "old.tar", "--data", tmp_path / "new", cwd=tmp_path)[0] == 0
    with backup.open("rb") as file:
        newest = ArchiveReader(file).manifest.revision
    with started(tmp_path / "new") as connection:
        query = "select version_num, (select count(*) from idempotency_keys) from alembic_version"
        assert connection.execute(query).fetchone() == (newest, 200)


@pytest.mark.parametrize(
    ("change", "text"), CASES["a_backup_that_does_not_fit_is_refused_and_leaves_nothing"]
)
def test_a_backup_that_does_not_fit_is_refused_and_leaves_nothing(
    backup: Path, tmp_path: Path, change: dict[str, object], text: str
) -> None:
    rewrite(backup, tmp_path / "changed.tar", change)
    code, _, errors = vigil("restore", "changed.tar", "--data", tmp_path / "new", cwd=tmp_path)
    assert (code, text in errors, "Traceback" in errors) == (1, True, False), errors
    assert not (tmp_path / "new").exists()
    assert [line for line in errors.splitlines() if line.startswith("vigil: ")] == [
        errors.splitlines()[-1]
    ]


@pytest.mark.parametrize("content", [b"", b'{"papers": ', b'["papers"]', b'{"papers": 5}', b"\xff"])
def test_a_check_finds_a_list_of_corpora_that_cannot_be_read(
    backup: Path, tmp_path: Path, content: bytes
) -> None:
    """The rest of such a backup can be restored."""
    rewrite(backup, tmp_path / "changed.tar", {}, corpora=content)
    code, out, errors = vigil("restore", "--check", "changed.tar", cwd=tmp_path)
    assert (code, "Traceback" in errors) == (1, False), out
    assert "the list of corpora in it cannot be read" in errors


def test_a_backup_without_corpora_is_intact(backup: Path, tmp_path: Path) -> None:
    rewrite(backup, tmp_path / "changed.tar", {}, corpora=None)
    assert vigil("restore", "--check", "changed.tar", cwd=tmp_path)[0] == 0


POSTGRES_VARIABLES = {
    "PGOPTIONS": "-c search_path=nowhere -c statement_timeout=1",
    "PGSERVICE": "nowhere",
    "PGREQUIREAUTH": "scram-sha-256",
    "PGCHANNELBINDING": "require",
    "PGTARGETSESSIONATTRS": "standby",
    "PGDATABASE": "nowhere",
    "PGUSER": "nobody",
    "PGHOST": "nowhere.example",
    "PGPORT": "1",
    "PGPASSWORD": "wrong",
    "PGCLIENTENCODING": "LATIN1",
    "PGTZ": "Asia/Tokyo",
}


def test_variables_for_another_postgres_change_nothing(
    source: DataDirectory, rows: Rows, tmp_path: Path
) -> None:
    process = start_vigil(
        "backup", "x.tar", "--data", source.root, cwd=tmp_path, variables=POSTGRES_VARIABLES
    )
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 0, errors
    process = start_vigil(
        "restore", "x.tar", "--data", "new", cwd=tmp_path, variables=POSTGRES_VARIABLES
    )
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 0, errors
    with started(tmp_path / "new") as connection:
        assert digest_tables(connection) == rows


def rewrite(
    backup: Path, file: Path, change: dict[str, object], *, corpora: bytes | None = b"{}"
) -> None:
    """Writes the same parts with another manifest and another list of corpora, and with correct checksums."""
    with backup.open("rb") as source, file.open("wb") as output:
        reader, writer = ArchiveReader(source), ArchiveWriter(output)
        manifest = Manifest.model_validate(reader.manifest.model_dump() | change)
        writer.add(Part(MANIFEST, manifest.render()))
        for part in reader.parts():
            if part.name != CORPORA:
                writer.add(part)
            elif corpora is not None:
                writer.add(Part(CORPORA, corpora))
        writer.close()


@pytest.mark.parametrize("content", [b"", b"hello", bytes(5000), b"\x1f\x8b" + bytes(600)])
def test_a_foreign_file_is_refused(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "foreign").write_bytes(content)
    code, _, errors = vigil("restore", "foreign", "--data", tmp_path / "new", cwd=tmp_path)
    assert (code, errors) == (1, "vigil: foreign: it is not a backup of Vigil\n")
    assert not (tmp_path / "new").exists()


def test_every_truncated_or_changed_file_is_refused(backup: Path, seed: int) -> None:
    content, chance = backup.read_bytes(), Random(seed)
    with io.BytesIO(content) as whole:
        read_all(whole.getvalue())
    # All headers, the paddings and the end, and any other byte.
    edges = [*range(512), *range(len(content) - 3000, len(content))]
    for place in [*edges, *(chance.randrange(len(content)) for _ in range(300))]:
        changed = bytearray(content)
        changed[place] ^= 1 << chance.randrange(8)
        with pytest.raises(BadBackupError):
            read_all(bytes(changed))
    for size in [*edges, *(chance.randrange(len(content)) for _ in range(100))]:
        with pytest.raises(BadBackupError):
            read_all(content[:size])
    with pytest.raises(BadBackupError, match="continues after its last part"):
        read_all(content + b"\0")


def read_all(content: bytes) -> None:
    for _ in ArchiveReader(io.BytesIO(content)).parts():
        pass


def test_a_damaged_file_leaves_nothing(backup: Path, tmp_path: Path, seed: int) -> None:
    content, chance = bytearray(backup.read_bytes()), Random(seed)
    content[chance.randrange(4096, len(content) - 4096)] ^= 1
    (tmp_path / "damaged.tar").write_bytes(content)
    for options in (["--check"], ["--data", str(tmp_path / "new")]):
        code, _, errors = vigil("restore", "damaged.tar", *options, cwd=tmp_path)
        assert (code, "does not match its SHA-256" in errors) == (1, True), errors
    (tmp_path / "new").mkdir()
    assert vigil("restore", "damaged.tar", "--data", tmp_path / "new", cwd=tmp_path)[0] == 1
    left = {file.name for file in (tmp_path / "new").iterdir()}
    assert left <= {"lock", "logs"}


def test_an_unfinished_restore_is_refused_by_other_commands(backup: Path, tmp_path: Path) -> None:
    directory = DataDirectory(tmp_path / "new")
    directory.create()
    (directory.unfinished_restore / "postgres").mkdir(parents=True)
    with (
        directory.locked(),
        pytest.raises(DataDirectoryError, match="restore into it was interrup"),
    ):
        directory.require_finished_restore()
    code, _, errors = vigil("up", "--data", directory.root, cwd=tmp_path)
    assert (code, "run `vigil restore` again" in errors) == (1, True), errors
    assert vigil("backup", "--data", directory.root, cwd=tmp_path)[0] == 1
    assert vigil("restore", backup, "--data", directory.root, cwd=tmp_path)[0] == 0
    directory.unfinished_restore.mkdir()  # as if it was killed after its last step
    with directory.locked():
        directory.require_finished_restore()
    assert not directory.unfinished_restore.exists()
