"""`vigil source …` and `vigil verify`: the pages an agent has read, retractions, and checks of its provenance."""

import re
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Annotated, Final
from uuid import UUID

import typer
from rich.console import Console

from cli.client.client import Client
from cli.command import Result, api_command, command_group
from cli.errors import BadInputError, CommandError
from cli.options import AgentName, AsJson, Limit, Yes
from cli.prompts import confirm
from cli.references import Named, as_uuid, find, find_conclusion, find_id
from cli.render.console import err, out, print_json, quoted
from cli.render.operations import Activity
from cli.render.provenance import (
    MAX_FAILED_CHECKS,
    show_breaks,
    show_chain,
    show_doubts,
    show_failed_checks,
    show_later,
    show_retractions,
    show_source,
    show_sources,
    show_summary,
)
from cli.verification import AgentVerified, verify_agent
from shared.domains import normalize_domain, site_of
from shared.schemas.provenance import (
    RetractionPreview,
    RetractionResponse,
    SourceDetails,
    SourceResponse,
)
from shared.wording import plural

POLL_SECONDS: Final = 0.2

source_commands = command_group(
    "source", "List, show, retract and restore the pages that an agent has read."
)

OfAgent = Annotated[str, typer.Option("--agent", metavar="AGENT", help="Agent that read the page.")]
Wait = Annotated[
    bool,
    typer.Option(
        "--wait/--no-wait", help="Wait until everything that rests on the page is re-evaluated."
    ),
]


@source_commands.command("list")
@api_command
def list_sources(
    client: Client,
    agent: AgentName,
    of: Annotated[
        str | None, typer.Option("--of", metavar="URL", help="Show only versions of this page.")
    ] = None,
    retracted: Annotated[
        bool, typer.Option("--retracted", help="Show only retracted pages.")
    ] = False,
    limit: Limit = 20,
) -> Result:
    """List the pages that an agent has read, most recently fetched first."""
    path = client.agent_path(agent, "sources")
    pages = client.pages(SourceResponse, path, limit, url=of, retracted=retracted or None)
    sources = list(pages)
    failed = [] if of or retracted else client.failed_checks(agent, MAX_FAILED_CHECKS + 1)

    def show_all(console: Console, _: object) -> None:
        show_sources(console, sources, limit=limit)
        show_failed_checks(console, failed)

    return Result(sources, show_all)


@source_commands.command("show")
@api_command
def show(
    client: Client,
    agent: AgentName,
    source: Annotated[str, typer.Argument(metavar="SOURCE", help="URL, title or id of the page.")],
) -> Result:
    """Show a page as it was fetched."""
    path = client.agent_path(agent, "sources", find_source(client, agent, source))
    details = client.get(SourceDetails, path)
    return Result(details, show_source)


@source_commands.command("retract")
@api_command
def retract(
    client: Client,
    source: Annotated[
        str,
        typer.Argument(metavar="SOURCE", help="URL, title or id of the page."),
    ],
    agent: OfAgent,
    reason: Annotated[str, typer.Option(metavar="TEXT", help="Reason, in a sentence.")],
    wait: Wait = True,
    as_json: AsJson = False,
) -> None:
    """Retract a page: all its versions, and what is read there until it is restored.

    Facts that rest only on it are hidden, and conclusions drawn from them are in doubt.
    """
    body = {"source": page_or_source(client, agent, source), "reason": reason}
    path = client.agent_path(agent, "retractions")
    retractions = [client.post(RetractionResponse, path, body)]
    _report_retractions(client, agent, retractions, wait=wait, as_json=as_json)


@source_commands.command("bar")
@api_command
def bar(
    client: Client,
    site: Annotated[
        str,
        typer.Argument(metavar="SITE", help="Domain, or URL, title or id of a page of the site."),
    ],
    agent: OfAgent,
    reason: Annotated[str, typer.Option(metavar="TEXT", help="Reason, in a sentence.")],
    yes: Yes = False,
    wait: Wait = True,
    as_json: AsJson = False,
) -> None:
    """Bar a site: retract all that was read there, and add it to the agent's barred domains.

    It covers the subdomains of the site. Before, the command says what it would change.
    """
    domain = find_site(client, agent, site)
    path = client.agent_path(agent, "retractions")
    if not yes:
        preview = client.post(RetractionPreview, f"{path}/preview", {"site": domain})
        confirm(f"{describe_preview(preview)} Bar {domain}?")
    retractions = [client.post(RetractionResponse, path, {"site": domain, "reason": reason})]
    _report_retractions(client, agent, retractions, wait=wait, as_json=as_json)


@source_commands.command("restore")
@api_command
def restore(
    client: Client,
    source: Annotated[
        str,
        typer.Argument(
            metavar="SOURCE",
            help="URL of the page, domain of the site, or id of the source or retraction.",
        ),
    ],
    agent: OfAgent,
    wait: Wait = True,
    as_json: AsJson = False,
) -> None:
    """Undo a retraction and everything that it changed. A site is no longer barred then."""
    retractions = restore_source(client, agent, source)
    _report_retractions(client, agent, retractions, wait=wait, as_json=as_json)


@source_commands.command("retractions")
@api_command
def list_retractions(client: Client, agent: AgentName, limit: Limit = 20) -> Result:
    """List retractions with their reasons and the conclusions they put in doubt."""
    retractions = list(client.retractions(agent, limit))
    return Result(retractions, show_retractions)


@api_command
def verify(
    client: Client,
    conclusion: Annotated[
        str | None,
        typer.Argument(metavar="CONCLUSION", help="Name or id of the advice or analysis."),
    ] = None,
    everything: Annotated[
        bool,
        typer.Option("--all", help="Verify everything that agents know instead of one conclusion."),
    ] = False,
    agent: Annotated[
        str | None,
        typer.Option(metavar="AGENT", help="Include only this agent."),
    ] = None,
    since: Annotated[
        str | None,
        typer.Option(
            metavar="ROOT",
            help="With --all and --agent, check that the agent's history still contains this root and that every "
            "row matches the history. A root is printed by an earlier check, an export and the event "
            "iteration.completed. Quotes are not read again.",
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Trace advice or an analysis to its sources and check every hash and link, without calling a model.

    The exit code is 0 if everything is intact, 1 if anything is broken and 2 if the command is invalid. Conclusions in
    doubt, because a source was retracted or contradicts them, are reported first; they do not change the exit code.
    """
    if (conclusion is None) is not everything:
        raise BadInputError("name an analysis or advice, or use --all")
    if agent is not None and as_uuid(conclusion or "") is not None:
        raise BadInputError(
            "--agent requires --all, because a conclusion already belongs to one agent"
        )
    if since is not None and (agent is None or not everything):
        raise BadInputError(
            "--since requires --all and --agent, because a root belongs to the graph of one agent"
        )
    if since is not None and re.fullmatch("[0-9a-fA-F]{64}", since) is None:
        raise BadInputError("--since is not a root: enter 64 hexadecimal digits")
    if conclusion is not None:
        conclusion_id = find_conclusion(client, agent, conclusion)
        intact = _verify_conclusion(client, conclusion_id, as_json=as_json)
    else:
        intact = _verify_agents(client, agent, since and since.lower(), as_json=as_json)
    if not intact:
        raise typer.Exit(1)


def restore_source(client: Client, agent: str, reference: str) -> list[RetractionResponse]:
    """Undoes the active retractions of a page, by its URL or the id of a source, or of a site, by its domain, or the one
    with this id.

    Raises CommandError if there is none, or if the page is retracted with its site alone.
    """
    retraction_id = as_uuid(reference)
    active = list(client.retractions(agent, None, active=True, source=reference))
    chosen = [each for each in active if each.site in (None, reference.strip().lower())]
    if chosen:
        return [client.restore(agent, retraction.id) for retraction in chosen]
    if active:
        sites = ", ".join(each.url for each in active)
        raise CommandError(
            f"the page is retracted with its site: to restore all of it, run `vigil source restore {quoted(sites)}"
            f" --agent {quoted(agent)}`"
        )
    if retraction_id is not None:
        return [client.restore(agent, retraction_id)]
    found = find(
        "active retraction",
        reference,
        client.retractions(agent, None, active=True),
        lambda each: Named(each.id, [each.url]),
        see=f"vigil source retractions {quoted(agent)}",
    )
    return [client.restore(agent, found.id)]


def find_site(client: Client, agent: str, reference: str) -> str:
    """The domain itself, or the site of a page by its URL, title or id. Raises CommandError."""
    if "://" in reference:
        return site_of(reference)
    with suppress(ValueError):
        return normalize_domain(reference)
    path = client.agent_path(agent, "sources", find_source(client, agent, reference))
    return site_of(client.get(SourceDetails, path).url)


def describe_preview(preview: RetractionPreview) -> str:
    """Says in a sentence what barring the site would change."""
    read = (
        f"{plural(preview.pages, 'page')} of {preview.url} in {plural(preview.sources, 'version')}"
    )
    changes = [
        text
        for count, text in (
            (preview.unsupported, f"{plural(preview.unsupported, 'fact')} would lose all support"),
            (preview.changed, f"{plural(preview.changed, 'fact')} would change value"),
            (preview.analyses, f"{plural(preview.analyses, 'analysis')} would be in doubt"),
            (preview.advice, f"{plural(preview.advice, 'advice')} would be in doubt"),
        )
        if count
    ]
    return f"Of {read}, {'; '.join(changes) if changes else 'nothing would lose its support'}."


def find_source(client: Client, agent: str, reference: str) -> UUID:
    """The source with this URL, title or id. Raises CommandError."""
    return find_id(
        "source",
        reference,
        client.pages(SourceResponse, client.agent_path(agent, "sources"), None),
        lambda each: Named(each.id, [each.title or each.url, each.url]),
        see=f"vigil source list {quoted(agent)}",
    )


def page_or_source(client: Client, agent: str, reference: str) -> str:
    """A URL as it is, which means all versions of its page; else the id of one source. Raises CommandError."""
    if "://" in reference:
        return reference
    return str(find_source(client, agent, reference))


def wait_until_propagated(
    client: Client, agent: str, retractions: list[RetractionResponse], say: Callable[[str], None]
) -> list[RetractionResponse]:
    """Returns the retractions when everything based on them is re-evaluated."""
    present = retractions
    while any(retraction.is_pending for retraction in present):
        remaining = sum(retraction.left for retraction in present)
        say(f"re-evaluating what rests on it: {plural(remaining, 'quote')} left")
        time.sleep(POLL_SECONDS)
        paths = [client.agent_path(agent, "retractions", each.id) for each in retractions]
        present = [client.get(RetractionResponse, path) for path in paths]
    return present


def _report_retractions(
    client: Client, agent: str, retractions: list[RetractionResponse], *, wait: bool, as_json: bool
) -> None:
    if wait:
        with Activity(err()) as activity:
            retractions = wait_until_propagated(client, agent, retractions, activity.say)
    if as_json:
        print_json(retractions)
    else:
        show_retractions(out(), retractions)


def _verify_conclusion(client: Client, conclusion_id: UUID, *, as_json: bool) -> bool:
    """Shows the chain of a conclusion; returns whether it is intact."""
    with Activity(err()) as activity:
        activity.say("tracing the conclusion to its sources")
        verification = client.verification(conclusion_id)
    if as_json:
        print_json(verification)
    else:
        show_doubts(out(), verification)
        show_chain(out(), verification)
        show_summary(out(), verification)
        show_later(out(), verification)
    return verification.holds


def _verify_agents(client: Client, agent: str | None, since: str | None, *, as_json: bool) -> bool:
    """Checks one agent or all, printing each as it is done; returns whether everything is intact."""
    agents = list(client.agents()) if agent is None else [client.agent(agent)]
    verified: list[AgentVerified] = []
    for details in agents:
        verified.append(verify_agent(client, details, since))
        if not as_json:
            show_breaks(out(), verified[-1])
    if as_json:
        print_json(verified)
    elif not agents:
        out().print("There is nothing to verify because there are no agents.")
    return all(result.holds for result in verified)
