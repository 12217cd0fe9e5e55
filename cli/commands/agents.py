"""`vigil agent …` and `vigil run`: create and configure agents, control them, and start iterations."""

import time
from datetime import date
from functools import partial
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import Annotated, Any, Final

import click
import typer
from rich.console import Console

from cli.client.client import Client
from cli.command import Result, api_command, command_group
from cli.config.durations import parse_seconds
from cli.errors import BadInputError, CommandError
from cli.main import INTERRUPTED
from cli.options import AgentName, AsJson, Data, Wait, Yes, corpus_path, finite
from cli.prompts import confirm
from cli.render.agents import show_agent, show_agents, show_prompts
from cli.render.console import err, out, quoted
from cli.render.costs import describe_forecast
from cli.render.graph import show_types
from cli.render.provenance import MAX_FAILED_CHECKS, show_failed_checks
from cli.watch import (
    IterationWatch,
    ProgressPrinter,
    report_configuration,
)
from shared.enums import PROMPTED_PHASES
from shared.schemas.agents import PromptResponse, PromptsResponse
from shared.schemas.base import AgentDetails
from shared.schemas.costs import ForecastResponse
from shared.wording import plural

agent_commands = command_group("agent", "Create, show, edit, pause, resume and delete agents.")

MAX_PROMPT_CHARS: Final = 1_000_000
"""Read from a file; the API allows less."""

AdviceFromOneAnalysis = Annotated[
    bool | None,
    typer.Option(
        "--advice-from-one-analysis/--advice-from-two-analyses",
        help="Whether advice may cite a single analysis instead of at least two.",
        show_default="two",
    ),
]
Actions = Annotated[
    list[str] | None,
    typer.Option(
        "--action",
        metavar="WORD=MEANING",
        help="A word for what advice tells you to do, and what it means. Repeat for each; they replace the present ones.",
        show_default="BUY, HOLD and SELL",
    ),
]
FeedbackRounds = Annotated[
    int | None,
    typer.Option(
        "--feedback-rounds",
        min=0,
        max=2,
        help="How often an iteration may research data that its analyses lacked and analyze again.",
    ),
]
MAX_VERIFICATION_USD = 10_000
VerificationUsd = Annotated[
    str | None,
    typer.Option(
        "--verification-usd",
        "--entailment-usd",
        metavar="USD",
        help="Daily limit in USD, within the budget, for the model that reads conclusions and evidence; 0 turns it off, "
        "`none` is no limit of its own.",
        show_default="none",
    ),
]
EntailmentShare = Annotated[
    float | None,
    typer.Option(
        "--verification-share",
        "--entailment-share",
        min=0,
        max=1,
        callback=finite,
        help="Share of new evidence that the model reads. What conclusions cite is always read.",
        show_default="0.05",
    ),
]
PreferredDomains = Annotated[
    str | None,
    typer.Option(
        "--preferred-domains",
        metavar="DOMAINS",
        help="Sites whose pages come first in search results, such as reuters.com,ft.com. "
        "An empty value clears the list.",
    ),
]
BarredDomains = Annotated[
    str | None,
    typer.Option(
        "--barred-domains",
        metavar="DOMAINS",
        help="Sites that are never found, read or cited, such as example.com,example.org. "
        "An empty value clears the list.",
    ),
]
AgentCorpus = Annotated[
    Path | None,
    typer.Option(
        "--corpus",
        parser=corpus_path,
        metavar="PATH",
        help="Folder of .md, .txt, .html, .json or .csv documents that the sandbox searches for this agent. You cannot "
        "change it later.",
        show_default="the corpus of the installation",
    ),
]
ArchiveDate = Annotated[
    str | None,
    typer.Option(
        "--archive-date",
        metavar="DATE",
        help="Work as if each day were this date, such as 2024-03-01, and do not use what was published later; `none` "
        "returns to the real date.",
        show_default="none",
    ),
]
MaxInterval = Annotated[
    str | None,
    typer.Option(
        metavar="TIME",
        help="While nothing is new, let the interval grow up to this; `none` keeps it fixed.",
        show_default="none",
    ),
]
PhaseName = Annotated[
    str | None, typer.Option("--phase", metavar="PHASE", help="Show only the prompt of this phase.")
]


@agent_commands.command("list")
@api_command
def list_agents(
    client: Client,
    state: Annotated[
        str | None,
        typer.Option(metavar="STATE", help="Show only agents in this state."),
    ] = None,
    search: Annotated[
        str | None,
        typer.Option(metavar="WORDS", help="Show only agents with these words in their names."),
    ] = None,
) -> Result:
    """List agents and their states."""
    agents = list(client.agents(state=state, search=search))
    return Result(agents, show_agents)


@agent_commands.command("create")
@api_command
def create_agent(
    client: Client,
    mission: Annotated[
        str,
        typer.Argument(metavar="MISSION", help="What to watch and why, in one or more sentences."),
    ],
    name: Annotated[
        str | None, typer.Option(help="Its name.", show_default="taken from the mission")
    ] = None,
    interval: Annotated[
        str,
        typer.Option(metavar="TIME", help="Time between iterations, such as 30s, 5m, 2h or 1d."),
    ] = "5m",
    max_interval: MaxInterval = None,
    model: Annotated[
        list[str] | None,
        typer.Option(metavar="PHASE=NAME", help="Model for one phase. Repeat for several phases."),
    ] = None,
    feedback_rounds: FeedbackRounds = None,
    advice_from_one_analysis: AdviceFromOneAnalysis = None,
    action: Actions = None,
    verification_usd: VerificationUsd = None,
    entailment_share: EntailmentShare = None,
    preferred_domains: PreferredDomains = None,
    barred_domains: BarredDomains = None,
    corpus: AgentCorpus = None,
    archive_date: ArchiveDate = None,
    wait: Wait = True,
    data: Data = None,
    as_json: AsJson = False,
) -> None:
    """Create an agent. Vigil derives its prompts and types from the mission, then runs it at its interval."""
    seconds, models = parse_seconds(interval), _parse_models(model or [])
    preferred, barred = _parse_domains(preferred_domains), _parse_domains(barred_domains)
    corpus_name = None
    if corpus is not None:
        # Imported here, because it loads the sandbox, which other commands do without.
        from cli.corpora import add_agent_corpus

        corpus_name = add_agent_corpus(client, data, corpus, err())
    if not as_json:
        forecast = client.get(ForecastResponse, "/forecast", interval_seconds=seconds)
        err().print(describe_forecast(forecast), style="quiet")
    agent = client.create_agent(
        mission,
        name=name,
        interval_seconds=seconds,
        max_interval_seconds=_parse_maximum(max_interval),
        models=models,
        feedback_rounds=feedback_rounds,
        advice_from_one_analysis=advice_from_one_analysis,
        actions=_parse_actions(action),
        verification_usd_per_day=_parse_usd(verification_usd),
        entailment_share=entailment_share,
        preferred_domains=preferred,
        barred_domains=barred,
        corpus=corpus_name,
        archive_date=_parse_archive_date(archive_date),
    )
    report_configuration(client, agent, wait=wait, as_json=as_json)


@agent_commands.command("show")
@api_command
def show(client: Client, agent: AgentName, as_json: AsJson = False) -> Result:
    """Show an agent's schedule, graph size, last iteration and problems."""
    details = client.agent(agent)
    if as_json:
        return Result(details, "")
    counts = client.graph(agent, limit=0).counts
    totals = client.calls(agent).totals
    providers = client.providers()
    failed = client.failed_checks(agent, MAX_FAILED_CHECKS + 1)

    def show_all(console: Console, _: object) -> None:
        show_agent(
            console,
            details,
            counts,
            totals,
            sandbox=providers.model_is_sandbox and providers.search_is_sandbox,
            outages=[each for each in providers.outages if details.id in each.agent_ids],
        )
        show_failed_checks(console, failed)

    return Result(details, show_all)


@agent_commands.command("edit")
@api_command
def edit_agent(
    client: Client,
    agent: AgentName,
    name: Annotated[str | None, typer.Option(help="New name of the agent.")] = None,
    interval: Annotated[
        str | None,
        typer.Option(metavar="TIME", help="Time between iterations, such as 30s, 5m, 2h or 1d."),
    ] = None,
    max_interval: MaxInterval = None,
    model: Annotated[
        list[str] | None,
        typer.Option(
            metavar="PHASE=NAME",
            help="Model for one phase; `PHASE=` resets it to the installation's model. Repeat for several phases.",
        ),
    ] = None,
    feedback_rounds: FeedbackRounds = None,
    advice_from_one_analysis: AdviceFromOneAnalysis = None,
    action: Actions = None,
    verification_usd: VerificationUsd = None,
    entailment_share: EntailmentShare = None,
    preferred_domains: PreferredDomains = None,
    barred_domains: BarredDomains = None,
    archive_date: ArchiveDate = None,
) -> Result:
    """Change an agent's name, intervals, models, feedback rounds, advice, actions, reading, domains or archive date.

    Settings that you do not name are not changed.
    """
    simple_changes = {
        "name": name,
        "feedback_rounds": feedback_rounds,
        "advice_from_one_analysis": advice_from_one_analysis,
        "actions": _parse_actions(action),
        "entailment_share": entailment_share,
        "preferred_domains": _parse_domains(preferred_domains),
        "barred_domains": _parse_domains(barred_domains),
    }
    given = (
        model or None,
        interval,
        max_interval,
        archive_date,
        verification_usd,
        *simple_changes.values(),
    )
    if all(each is None for each in given):
        raise BadInputError(
            "name at least one change: --name, --interval, --max-interval, --model, --feedback-rounds, "
            "--advice-from-one-analysis, --action,"
            " --verification-usd, --verification-share, --preferred-domains, --barred-domains or --archive-date"
        )
    seconds = parse_seconds(interval) if interval is not None else None
    models = _parse_models(model or [], may_be_empty=True)

    def changes_of(details: AgentDetails) -> dict[str, Any]:
        merged = {phase: model for phase, model in (details.models | models).items() if model}
        changes = simple_changes | {
            "interval_seconds": seconds,
            "models": merged if models else None,
        }
        clearable: dict[str, Any] = {}
        if max_interval is not None:
            clearable["max_interval_seconds"] = _parse_maximum(max_interval)
        if verification_usd is not None:
            clearable["verification_usd_per_day"] = _parse_usd(verification_usd)
        if archive_date is not None:
            clearable["archive_date"] = _parse_archive_date(archive_date)
        return {key: value for key, value in changes.items() if value is not None} | clearable

    agent_details = client.change(AgentDetails, client.agent_path(agent), changes_of)
    return Result(agent_details, f"Changed {agent_details.name}.")


@agent_commands.command("pause")
@api_command
def pause_agent(client: Client, agent: AgentName) -> None:
    """Pause an agent. A running iteration completes, and no new one starts."""
    name = client.order(agent, "pause").name
    typer.echo(f"Paused {name}; a running iteration completes.")


@agent_commands.command("resume")
@api_command
def resume_agent(client: Client, agent: AgentName) -> None:
    """Resume a paused agent."""
    name = client.order(agent, "resume").name
    typer.echo(f"Resumed {name}.")


@agent_commands.command("delete")
@api_command
def delete_agent(client: Client, agent: AgentName, yes: Yes = False) -> None:
    """Delete an agent with all of its data."""
    details = client.agent(agent)
    if not yes:
        counts = client.graph(str(details.id), limit=0).counts
        nodes, edges = plural(counts.nodes, "node"), plural(counts.edges, "edge")
        confirm(f"Delete {details.name} with {nodes} and {edges}?")
    client.delete(client.agent_path(str(details.id)))
    typer.echo(f"Deleted {details.name}.")


@agent_commands.command("configure")
@api_command
def configure_agent(
    client: Client,
    agent: AgentName,
    mission: Annotated[
        str | None,
        typer.Option(help="New mission of the agent.", show_default="the current mission"),
    ] = None,
    keep: Annotated[
        list[str] | None,
        typer.Option(
            metavar="PHASE", help="Keep the prompt of this phase. Repeat for several phases."
        ),
    ] = None,
    wait: Wait = True,
    as_json: AsJson = False,
) -> None:
    """Derive an agent's prompts and types again. The current ones stay in use until the new ones are ready."""
    phases = [_parse_phase(phase) for phase in keep or []]
    body = {"keep": phases} | ({"mission": mission} if mission else {})
    details = client.post(AgentDetails, client.agent_path(agent, "configure"), body)
    report_configuration(client, details, wait=wait, as_json=as_json)


@agent_commands.command("prompts")
@api_command
def prompts(
    client: Client,
    agent: AgentName,
    phase: PhaseName = None,
    edit: Annotated[
        bool, typer.Option("--edit", help="Edit the prompt of --phase in $EDITOR.")
    ] = False,
    source: Annotated[
        typer.FileText | None,
        typer.Option(
            "--from",
            help="Replace the prompt of --phase with the content of this file; - reads standard input.",
        ),
    ] = None,
    history: Annotated[
        bool, typer.Option("--history", help="Show all versions, newest first.")
    ] = False,
) -> Result:
    """Show an agent's system prompts and their earlier versions, or change a prompt."""
    phase = _parse_phase(phase) if phase else None
    if (edit or source) and phase is None:
        raise BadInputError("name the prompt to change, for example with --phase observer")
    if history:
        path = client.agent_path(agent, "prompts", "history")
        versions = list(client.pages(PromptResponse, path, phase=phase))
        unchanged = "The prompts have not been changed yet."
        return Result(versions, partial(show_prompts, empty=unchanged))
    if phase and (edit or source):
        _change_prompt(client, agent, phase, source)
    items = [prompt for prompt in client.prompts(agent).items if phase in (None, prompt.phase)]
    return Result(items, show_prompts)


@agent_commands.command("types")
@api_command
def types(client: Client, agent: AgentName) -> Result:
    """Show an agent's node and edge types, with their properties and an example."""
    view = client.types(agent)
    return Result(
        view, lambda console, _: show_types(console, [*view.node_types, *view.edge_types])
    )


@api_command
def run(
    client: Client,
    agent: AgentName,
    wait: Annotated[
        bool, typer.Option("--wait", help="Wait for the iteration to end and show its progress.")
    ] = False,
    timeout: Annotated[
        float, typer.Option(min=1, callback=finite, help="Maximum number of seconds to wait.")
    ] = 1800,
) -> None:
    """Start an iteration now. With --wait, exit with 0 only if it completes."""
    details = client.order(agent, "run")
    number = details.iterations_started + 1
    if not wait:
        typer.echo(f"{details.name} runs iteration {number} next.")
        return
    try:
        watch = IterationWatch(client, ProgressPrinter(out()), time.monotonic() + timeout)
        iteration = watch.watch_iteration(details.id, number)
    except KeyboardInterrupt:
        err().print(
            f"Iteration {number} continues. To look again: vigil iterations {quoted(details.name)}"
        )
        raise typer.Exit(INTERRUPTED) from None
    if iteration is None:
        raise CommandError(
            f"the iteration did not end within {timeout:.0f} s; it continues in the background. "
            "`vigil iterations` shows its status"
        )
    if iteration.status != "completed":
        raise typer.Exit(1)


def _change_prompt(client: Client, agent: str, phase: str, source: typer.FileText | None) -> None:
    """Saves the prompt from `source` or an editor. If the API refuses an edited text, it is saved to a file."""
    present = client.prompts(agent)
    current = next((prompt.prompt for prompt in present.items if prompt.phase == phase), None)
    if current is None:
        raise CommandError(f"{agent} has no prompts yet; `vigil agent show` says why")
    text = click.edit(current, extension=".md") if source is None else _read(source)
    if text is None or text.strip() == current:
        typer.echo("Nothing was changed.", err=True)
        return
    try:
        # The part before the dot of the ETag they were read with.
        etag = f'"{present.version}."'
        path = client.agent_path(agent, "prompts", phase)
        client.put(PromptsResponse, path, {"prompt": text}, etag=etag)
    except CommandError as error:
        if source is not None:
            raise
        raise CommandError(
            f"{error} Your text is in {_save_draft(text, phase)}: use --from."
        ) from error


def _read(source: typer.FileText) -> str:
    """Raises BadInputError, also for a device without an end."""
    text = source.read(MAX_PROMPT_CHARS + 1)
    if len(text) > MAX_PROMPT_CHARS:
        raise BadInputError(f"{source.name} has more than {MAX_PROMPT_CHARS:,} characters")
    return text


def _save_draft(text: str, phase: str) -> Path:
    with NamedTemporaryFile("w", prefix=f"vigil-{phase}-", suffix=".md", delete=False) as file:
        file.write(text)
    return Path(file.name)


def _parse_phase(text: str) -> str:
    phase = text.strip().lower().replace("-", "_")
    if phase not in list(PROMPTED_PHASES):
        raise BadInputError(f"there is no phase {text!r}; choose from {', '.join(PROMPTED_PHASES)}")
    return phase


def _parse_maximum(text: str | None) -> int | None:
    """Seconds; None for `none`, which ends the growth of the interval. Raises BadInputError."""
    return None if text is None or text.strip().lower() == "none" else parse_seconds(text)


def _parse_archive_date(text: str | None) -> str | None:
    """The date as the API reads it; None for `none`, the real date. Raises BadInputError."""
    if text is None or text.strip().lower() == "none":
        return None
    try:
        return date.fromisoformat(text.strip()).isoformat()
    except ValueError:
        raise BadInputError(
            f"--archive-date: {text!r} is no date; write it as 2024-03-01, or `none` for the real date"
        ) from None


def _parse_usd(text: str | None) -> float | None:
    """The amount in USD; None for `none`, and if the option was left out."""
    if text is None or text.strip().lower() == "none":
        return None
    try:
        amount = float(text)
    except ValueError:
        amount = -1.0
    if not 0 <= amount <= MAX_VERIFICATION_USD:
        raise BadInputError(
            f"--verification-usd: {text!r} is no amount; enter 0 to {MAX_VERIFICATION_USD:,} USD, or `none`"
        )
    return amount


def _parse_models(options: list[str], *, may_be_empty: bool = False) -> dict[str, str]:
    """Models by phase, from `PHASE=NAME`."""
    models = {}
    for option in options:
        phase, equals, name = option.partition("=")
        if not (phase and equals and (name or may_be_empty)):
            raise BadInputError(f"--model {option}: enter PHASE=NAME, such as observer=gpt-5.4")
        models[phase.strip().replace("-", "_")] = name.strip()
    return models


def _parse_actions(options: list[str] | None) -> dict[str, str] | None:
    """Parse the options `WORD=MEANING` into a mapping; None if there are none. Raises BadInputError."""
    actions = {}
    for option in options or ():
        word, equals, meaning = option.partition("=")
        if not (word.strip() and equals and meaning.strip()):
            raise BadInputError(
                f"--action {option}: enter WORD=MEANING, such as 'WAIT=Change nothing.'"
            )
        actions[word.strip()] = meaning.strip()
    return actions or None


def _parse_domains(text: str | None) -> list[str] | None:
    """Domains that are separated by commas or blanks; None if the option was left out."""
    return None if text is None else text.replace(",", " ").split()
