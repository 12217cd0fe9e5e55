"""`vigil backup` and `vigil restore`: the installation on this machine as one file."""

import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from cli.backup.manifest import CheckedBackup, WrittenBackup
from cli.command import Result, print_result
from cli.config.discovery import data_directory
from cli.errors import BadInputError, describe
from cli.options import AsJson, Data
from cli.render.console import err
from cli.render.operations import Activity
from shared.wording import bytes_of

if TYPE_CHECKING:
    from cli.backup.database import Snapshot
    from cli.backup.encryption import Encryption, Secrets
    from cli.local.data_directory import DataDirectory

STANDARD_STREAM: Final = Path("-")

PassphraseFile = Annotated[
    Path | None,
    typer.Option(
        "--passphrase-file",
        metavar="FILE",
        help="File whose first line is the passphrase of the backup.",
    ),
]


def backup(
    file: Annotated[
        Path | None,
        typer.Argument(
            metavar="FILE",
            help="File to write, which must not exist; - writes to standard output.",
            show_default="vigil-TIME.tar, or .tar.age if encrypted",
        ),
    ] = None,
    to: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Write vigil-TIME.tar into this directory."),
    ] = None,
    keep: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            min=1,
            help="After the backup, keep only the newest N backups in the directory of --to.",
        ),
    ] = None,
    encrypt_to: Annotated[
        list[str] | None,
        typer.Option(
            metavar="RECIPIENT",
            help="Encrypt to this age recipient (age1…) or public SSH key. Repeat for several.",
        ),
    ] = None,
    passphrase_file: PassphraseFile = None,
    as_json: AsJson = False,
    data: Data = None,
) -> None:
    """Write a backup of the installation on this machine to one file, while it runs or not.

    The backup contains the database as it was at one moment, and the list of corpora. Agents continue meanwhile. The
    file appears only when it is complete. Not in it: keys of providers, VIGIL_SIGNING_KEY_FILE, other settings, the
    folders of corpora, and the events in NATS, which a restored installation does not need.
    """
    from cli.backup.encryption import Encryption, parse_recipient, read_passphrase
    from cli.backup.output import is_standard_output, refuse_existing
    from cli.local.postgres import without_postgres_variables
    from cli.local.signals import StopSignals

    _check_target(file, to, keep, as_json=as_json)
    if encrypt_to and passphrase_file:
        raise BadInputError("a backup has either recipients or a passphrase: remove one option")
    for recipient in encrypt_to or ():
        parse_recipient(recipient)
    passphrase = read_passphrase(passphrase_file) if passphrase_file else None
    if file is not None and is_standard_output(file):
        file = STANDARD_STREAM  # what is printed must not be part of it
    if file is not None and file.is_file():
        refuse_existing(file)
    encryption = Encryption(encrypt_to or (), passphrase)
    with StopSignals(), without_postgres_variables():
        written = _back_up(data_directory(data), file, to, keep, encryption)
    if file == STANDARD_STREAM:
        typer.echo(_summary(written), err=True)
    else:
        print_result(Result(written, _summary(written)), as_json=as_json)


def _check_target(file: Path | None, to: Path | None, keep: int | None, *, as_json: bool) -> None:
    if file is not None and to is not None:
        raise BadInputError("name either FILE or --to DIR")
    if keep is not None and to is None:
        raise BadInputError("--keep requires --to DIR")
    if to is not None and not to.is_dir():
        raise BadInputError(
            f"{to} is not a directory: create it, or check that its disk is mounted"
        )
    if file == STANDARD_STREAM and as_json:
        raise BadInputError("--json requires a file")
    if file == STANDARD_STREAM and sys.stdout.isatty():
        raise BadInputError("a backup is not text: redirect the output, or name a file")


def _back_up(
    directory: "DataDirectory",
    file: Path | None,
    to: Path | None,
    keep: int | None,
    encryption: "Encryption",
) -> WrittenBackup:
    from cli.backup.create import open_installation, write_backup
    from cli.backup.output import file_name, open_output, prune

    with (
        Activity(err()) as activity,
        open_installation(directory, activity.say) as snapshot,
    ):
        corpora, manifest = directory.corpora_file, snapshot.manifest
        if file == STANDARD_STREAM:
            size = write_backup(snapshot, corpora, sys.stdout.buffer, encryption, activity.say)
            return _written(snapshot, None, size, [])
        name = file_name(manifest.taken_at, encrypted=bool(encryption))
        target = file or (to or Path.cwd()) / name
        with open_output(target) as output:
            size = write_backup(snapshot, corpora, output, encryption, activity.say)
    if to is None or keep is None:
        return _written(snapshot, target, size, [])
    pruned = prune(to, keep, target)
    for error in pruned.failed:
        typer.echo(
            f"vigil: the backup is complete, but an older one was not removed: {describe(error)[0]}",
            err=True,
        )
    return _written(snapshot, target, size, pruned.removed)


def _written(
    snapshot: "Snapshot", file: Path | None, size: int, removed: list[Path]
) -> WrittenBackup:
    return WrittenBackup(
        **snapshot.manifest.model_dump(),
        file=file and str(file),
        bytes=size,
        removed=[str(old) for old in removed],
    )


def _summary(written: WrittenBackup) -> str:
    lines = [
        f"Wrote a backup of {sum(written.tables.values()):,} rows to {written.file or 'standard output'} "
        f"({bytes_of(written.bytes)})."
    ]
    if written.removed:
        lines.append(f"Removed {len(written.removed)} older: {', '.join(written.removed)}.")
    if written.signed_entries:
        lines.append(
            "The history of its graphs is signed. The key is not in the backup: keep a copy of VIGIL_SIGNING_KEY_FILE."
        )
    return "\n".join(lines)


def restore(
    file: Annotated[
        Path,
        typer.Argument(metavar="FILE", help="The backup; - reads standard input."),
    ],
    check: Annotated[
        bool,
        typer.Option("--check", help="Only check that the file is complete, intact and readable."),
    ] = False,
    identity: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="File of the age identity, or of the private SSH key, to which the backup is encrypted.",
        ),
    ] = None,
    passphrase_file: PassphraseFile = None,
    as_json: AsJson = False,
    data: Data = None,
) -> None:
    """Restore a backup into an empty data directory, for `vigil up`.

    Checks every part of the file. If the restore fails or is interrupted, nothing is left. A backup of an older Vigil is
    updated to this version. Restore only backups that you trust: a dump can contain any SQL.
    """
    from cli.backup.encryption import Secrets, read_passphrase
    from cli.local.postgres import without_postgres_variables
    from cli.local.signals import StopSignals

    passphrase = read_passphrase(passphrase_file) if passphrase_file else None
    with StopSignals(), without_postgres_variables():
        checked = _restore(file, data_directory(data), Secrets(identity, passphrase), check=check)
    print_result(Result(checked, _restored_summary(checked, data)), as_json=as_json)


def _restore(
    file: Path, directory: "DataDirectory", secrets: "Secrets", *, check: bool
) -> CheckedBackup:
    from cli.backup.restore import check_backup, open_backup, restore_backup

    with Activity(err()) as activity, open_backup(file, secrets) as opened:
        if check:
            check_backup(opened, activity.say)
        else:
            restore_backup(opened, directory, activity.say)
    return CheckedBackup(
        **opened.manifest.model_dump(),
        file=str(file),
        restored_to=None if check else str(directory.root),
    )


def _restored_summary(checked: CheckedBackup, data: Path | None) -> str:
    from shared.workflow.retention import DAY, MIN_DAYS

    what = f"{sum(checked.tables.values()):,} rows as of {checked.taken_at:%Y-%m-%d %H:%M:%S} UTC"
    if checked.restored_to is None:
        return f"{checked.file} is complete and intact: {what}, by Vigil {checked.vigil}."
    lines = [
        f"Restored {what} to {checked.restored_to}.",
        f"Start it with `vigil up{f' --data {data}' if data else ''}`.",
    ]
    if datetime.now(UTC) - checked.taken_at > DAY * MIN_DAYS:
        lines.append(
            "Within minutes after the start, what is older than its retention is deleted. To keep transcripts, first set "
            "VIGIL_RETENTION_TRANSCRIPTS_DAYS=never and VIGIL_RETENTION_ITERATIONS_DAYS=never; docs/guide/operations.md "
            "lists the other limits."
        )
    if checked.signed_entries:
        lines.append(
            "The history of its graphs is signed: set VIGIL_SIGNING_KEY_FILE to the same key."
        )
    return "\n".join(lines)
