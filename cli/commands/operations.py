"""`vigil doctor`, `migrate`, `upgrade`, `keys`, `retention` and `dead-letters …`: running an installation."""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from cli.client.client import Client
from cli.client.http import ApiError, url_path
from cli.client.target import Address
from cli.command import Result, api_command, command_group
from cli.config.discovery import api_or_none, engine_settings
from cli.config.providers import chosen_corpus, read_settings
from cli.errors import BadInputError
from cli.options import AsJson, Corpus, Data, Limit, Profile, Token, Url, Yes, finite
from cli.prompts import confirm
from cli.references import Named, NoMatchError, as_uuid, find
from cli.render.console import out, short_id
from cli.render.operations import (
    print_findings,
    show_dead_letter,
    show_dead_letters,
    show_findings,
    show_retention,
)
from shared.schemas.operations import DeadLetterDetails, DeadLetterResponse, RetentionResponse

dead_letter_commands = command_group(
    "dead-letters", "List, retry or discard messages and steps that failed permanently."
)

DeadLetterIds = Annotated[
    list[str] | None,
    typer.Argument(metavar="ID", help="Ids of the dead letters."),
]
Wait = Annotated[
    float,
    typer.Option(
        metavar="SECONDS",
        callback=finite,
        help="Maximum number of seconds to wait for PostgreSQL and NATS.",
    ),
]
All = Annotated[bool, typer.Option("--all", help="Select every dead letter.")]


def doctor(
    data: Data = None,
    url: Url = None,
    token: Token = None,
    profile: Profile = None,
    corpus: Corpus = None,
    as_json: AsJson = False,
) -> None:
    """Check everything Vigil depends on and show how to fix problems.

    The exit code is 1 if anything is wrong. Keys are never shown, only whether they are set.
    """
    from cli.doctor import examine
    from cli.local.data_directory import default_data_directory

    settings, directory = read_settings(), data or default_data_directory()
    api = api_or_none(Address(url, token, profile), data)
    findings = list(examine(settings, directory, api, chosen_corpus(corpus)))
    if as_json:
        print_findings(findings)
    else:
        show_findings(out(), findings)
    if any(finding.verdict == "bad" for finding in findings):
        raise typer.Exit(1)


@api_command
def retention(client: Client) -> Result:
    """Show what is deleted when it is old: age limits, sizes, and what was deleted.

    The limits are settings of the scheduler: VIGIL_RETENTION_TRANSCRIPTS_DAYS and others.
    """
    view = client.get(RetentionResponse, "/retention")
    return Result(view, show_retention)


def migrate(
    wait: Wait = 60,
    data: Data = None,
) -> None:
    """Create or update the tables, owner, stream and consumers.

    Uses VIGIL_DATABASE_URL and VIGIL_NATS_URL if they are set, otherwise the installation that runs on the data
    directory, which `vigil up` has already migrated. If VIGIL_KEYS_DIR names the output of `vigil keys`, each service
    also gets its PostgreSQL role, with only the privileges it needs.
    """
    typer.echo(_bring_up_to_date(wait, data))


def _bring_up_to_date(wait: float, data: Path | None) -> str:
    """Provisions the installation. Returns what was done, as a sentence."""
    import asyncio

    from cli.cluster.provision import provisioned
    from cli.doctor import unusable_certificate
    from shared.runtime.credentials import build_nats_credentials
    from shared.runtime.identity import MIGRATE

    settings = engine_settings(MIGRATE, data)
    try:
        build_nats_credentials(settings, MIGRATE)
    except OSError as error:
        raise BadInputError(". ".join(unusable_certificate(error))) from error
    if asyncio.run(provisioned(settings, wait)).is_newer:
        return (
            "A newer version of Vigil has migrated the tables. They were left as they are, and so were roles, stream and "
            "consumers; the owner is up to date."
        )
    roles = ", roles" if settings.keys_dir else ""
    return f"tables{roles}, owner, stream and consumers are up to date."


def upgrade(
    check: Annotated[bool, typer.Option("--check", help="Only report; change nothing.")] = False,
    wait: Wait = 60,
    data: Data = None,
    as_json: AsJson = False,
) -> None:
    """Check whether this version can take over the installation, then update it as `vigil migrate` does.

    Uses the installation as `vigil migrate` does. Services of the previous minor version can go on running; replace them one
    by one afterwards. The exit code is 1, and nothing is changed, if a check fails.
    """
    from cli.upgrade import examine_upgrade
    from shared.runtime.identity import MIGRATE

    settings = engine_settings(MIGRATE, data)
    findings = list(examine_upgrade(settings))
    if as_json:
        print_findings(findings)
    else:
        show_findings(out(), findings)
    if any(finding.verdict == "bad" for finding in findings):
        raise typer.Exit(1)
    if not check:
        # Standard output is one JSON document with --json.
        typer.echo(_bring_up_to_date(wait, data), err=as_json)


def keys(
    directory: Annotated[
        Path, typer.Argument(metavar="DIRECTORY", help="Directory for the passwords.")
    ],
    postgres_password_file: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="File for the password of the PostgreSQL superuser, which is created too.",
        ),
    ] = None,
    routes: Annotated[
        str | None,
        typer.Option(
            metavar="HOST:PORT,…", help="Nodes of a NATS cluster, which also get a password."
        ),
    ] = None,
    secrets: Annotated[
        Path | None,
        typer.Option(
            metavar="DIRECTORY",
            help="Directory with openai_api_key, vigil_providers, tavily_api_key, vigil_fetch_gateway_key and "
            "vigil_smtp_url, which are copied for the services that use them. For TLS, also ca.pem, nats.pem, "
            "nats.key, postgres.pem and postgres.key.",
        ),
    ] = None,
    kubernetes: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="File for the same as Secrets of Kubernetes, for `kubectl apply`. It contains all passwords.",
        ),
    ] = None,
) -> None:
    """Create NATS and PostgreSQL passwords for each service, and the NATS user configuration.

    Existing files are kept, so you can put your own password into its file first. When you run it as root, the files of
    each service belong to its own uid. Passwords are never printed.
    """
    from cli.cluster.keys import Keys, read_certificates
    from cli.cluster.secrets import write_secrets

    # A device or a pipe, such as /dev/stdout: what it reads must be the Secrets alone.
    is_piped = kubernetes is not None and kubernetes.exists() and not kubernetes.is_file()
    say = partial(typer.echo, err=is_piped)
    certificates = read_certificates(secrets) if secrets else {}
    store = Keys(directory)
    created = store.make(
        postgres_password_file=postgres_password_file,
        routes=[route.strip() for route in routes.split(",")] if routes else [],
        certificates=certificates,
    )
    new = f"New passwords in {directory}: {created}. Existing ones were kept."
    say(new if created else "All passwords already exist.")
    if secrets is not None:
        copied = store.copy_provider_keys(secrets)
        say(f"Copied: {', '.join(copied) or 'no key of a model or search service'}.")
    if certificates:
        say("NATS and PostgreSQL have certificates: clients should require TLS.")
    if kubernetes is not None:
        names = write_secrets(directory, kubernetes)
        remedy = "" if is_piped else "; delete it when they are applied"
        say(f"Wrote {len(names)} Secrets to {kubernetes}{remedy}.")


@dead_letter_commands.command("list")
@api_command
def list_dead_letters(
    client: Client,
    service: Annotated[
        str | None, typer.Option(metavar="SERVICE", help="Show only dead letters of this service.")
    ] = None,
    limit: Limit = 50,
) -> Result:
    """List messages and steps that failed permanently, newest first."""
    dead_letters = list(client.dead_letters(service=service, limit=limit))
    return Result(dead_letters, partial(show_dead_letters, limit=limit))


@dead_letter_commands.command("show")
@api_command
def show(
    client: Client,
    dead_letter_id: Annotated[str, typer.Argument(metavar="ID", help="Id of the dead letter.")],
) -> Result:
    """Show a dead letter: its message, why it failed and what you can do."""
    path = url_path("dead-letters", find_dead_letter(client, dead_letter_id))
    dead_letter = client.get(DeadLetterDetails, path)
    return Result(dead_letter, show_dead_letter)


@dead_letter_commands.command("retry")
@api_command
def retry(
    client: Client, ids: DeadLetterIds = None, everything: All = False, yes: Yes = False
) -> None:
    """Publish messages again and retry failed steps. If one fails again, it becomes a dead letter again."""

    def retry_one(reference: str) -> str:
        retried = client.post(DeadLetterResponse, url_path("dead-letters", reference, "retry"))
        return f"{retried.subject} will be published again within seconds"

    _process(client, "Retry", retry_one, ids, everything, yes)


@dead_letter_commands.command("discard")
@api_command
def discard(
    client: Client, ids: DeadLetterIds = None, everything: All = False, yes: Yes = False
) -> None:
    """Delete dead letters permanently. A failed step stays failed."""

    def discard_one(reference: str) -> str:
        client.delete(url_path("dead-letters", reference))
        return "is discarded"

    _process(client, "Discard", discard_one, ids, everything, yes)


def _process(
    client: Client,
    verb: str,
    process_one: Callable[[str], str],
    ids: list[str] | None,
    everything: bool,
    yes: bool,
) -> None:
    """Processes every dead letter that it can; the exit code is 1 if the API refused one."""
    if bool(ids) == everything:
        raise BadInputError(f"name the ids of the dead letters to {verb.lower()}, or use --all")
    references = ids or [str(dead_letter.id) for dead_letter in client.dead_letters(limit=None)]
    if not references:
        typer.echo("There are no dead letters.")
        return
    if everything and not yes:
        count = len(references)
        dead_letters = "the only dead letter" if count == 1 else f"all {count} dead letters"
        confirm(f"{verb} {dead_letters}?")
    has_error = False
    for reference in references:
        try:
            typer.echo(
                f"{short_id(reference)}: {process_one(find_dead_letter(client, reference))}."
            )
        except (ApiError, NoMatchError) as error:
            has_error = True
            typer.echo(f"{short_id(reference)}: {error}", err=True)
    if has_error:
        raise typer.Exit(1)


def find_dead_letter(client: Client, reference: str) -> str:
    """The complete id of the dead letter. Raises NoMatchError."""
    if as_uuid(reference) is not None:
        return reference
    found = find(
        "dead letter",
        reference,
        client.dead_letters(limit=None),
        lambda each: Named(each.id, [each.subject]),
        see="vigil dead-letters list",
    )
    return str(found.id)
