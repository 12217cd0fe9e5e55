"""`vigil up`, `demo` and `try-model`: commands that start an installation on this machine."""

import os
import time
from decimal import Decimal
from pathlib import Path
from typing import Annotated, Final

import typer

from cli.client.client import Client
from cli.config.durations import parse_seconds
from cli.config.providers import (
    DEFAULT_CORPUS,
    Providers,
    check_corpus,
    chosen_corpus,
    read_settings,
)
from cli.errors import BadInputError
from cli.options import AsJson, Corpus, Data, finite
from cli.render.console import err, out, print_json
from cli.render.operations import (
    Activity,
    show_process_events,
    show_ready,
    show_sign_in,
    show_unreached,
)

POLL_SECONDS: Final = 0.25
INTERRUPTED: Final = 130
DEFAULT_MISSION: Final = (
    "Watch energy supply and exports of West African economies, and find what investors should know"
)

Keep = Annotated[
    Path | None,
    typer.Option(metavar="DIR", help="Keep the data here, for `vigil up --data DIR`."),
]


def up(
    data: Data = None,
    port: Annotated[int, typer.Option(help="Port of the API; if taken, another is used.")] = 8080,
    corpus: Corpus = None,
) -> None:
    """Run Vigil on this machine: PostgreSQL, NATS, all services and the API, until Ctrl-C.

    The data directory keeps all data for the next start. With OPENAI_API_KEY and TAVILY_API_KEY set the real services
    are used; the sandbox replaces those without a key.
    """
    from cli.doctor import unreachable_providers
    from cli.local.data_directory import DataDirectory, default_data_directory
    from cli.local.members import busy_ports, usual_ports
    from cli.local.supervisor import installation

    settings = read_settings()
    providers = Providers.from_settings(settings, chosen_corpus(corpus))
    if providers.needs_sandbox:
        check_corpus(providers.corpus)
    directory = DataDirectory(data or default_data_directory())
    console = out()
    show_unreached(console, unreachable_providers(settings, providers))
    try:
        with (
            Activity(console) as activity,
            installation(directory, providers, lambda: usual_ports(port), activity.say) as stack,
        ):
            activity.end()
            running = stack.running
            moved = busy_ports(running.ports, port)
            show_ready(console, running, directory, providers.sentence(), moved)
            with Client(stack.api) as client:
                show_sign_in(console, client.make_link())
            while True:
                show_process_events(console, stack.look_after())
                time.sleep(POLL_SECONDS)
    except KeyboardInterrupt:
        console.print("[quiet]Vigil has stopped; the data is kept.[/]")


def demo(
    mission: Annotated[
        str | None,
        typer.Option(
            help="What the agent is to watch, and for what purpose.", show_default=DEFAULT_MISSION
        ),
    ] = None,
    corpus: Corpus = None,
    iterations: Annotated[
        int, typer.Option(min=1, max=100, help="Number of iterations the agent runs.")
    ] = 2,
    keep: Keep = None,
    as_json: AsJson = False,
    timeout: Annotated[
        float,
        typer.Option(
            min=5, callback=finite, help="Seconds after which the demo ends, finished or not."
        ),
    ] = 300,
) -> None:
    """Watch a new agent plan, research, analyze and advise, on an installation of its own.

    The installation is deleted at the end unless --keep is given. With --json the last line on stdout is one JSON
    object, and progress goes to stderr. The exit code is 0 if at least one iteration completed.
    """
    from cli.demo import Demo, run_demo

    start = time.monotonic()
    settings = read_settings()
    providers = Providers.from_settings(settings, chosen_corpus(corpus))
    checked = check_corpus(providers.corpus) if providers.needs_sandbox else None
    if providers.corpus_was_chosen and mission is None:
        raise BadInputError("your own corpus needs a mission: say what to watch with --mission")
    options = Demo(
        mission=mission or DEFAULT_MISSION,
        settings=settings,
        providers=providers,
        corpus=checked,
        iterations=iterations,
        keep=keep,
        started=start,
        timeout_seconds=timeout,
        as_json=as_json,
    )
    raise typer.Exit(run_demo(options))


def try_model(
    server: Annotated[
        str | None,
        typer.Option(
            "--url",
            metavar="URL",
            help="Base URL of the model server, usually ending in /v1.",
            show_default="OPENAI_BASE_URL, or OpenAI",
        ),
    ] = None,
    model: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="Model to request from the server.",
            show_default="OPENAI_MODEL, or the only one that --url lists",
        ),
    ] = None,
    key_env: Annotated[
        str | None,
        typer.Option(
            metavar="VARIABLE",
            help="Environment variable with the API key. No other key is sent to a server named by --url.",
            show_default="OPENAI_API_KEY, without --url",
        ),
    ] = None,
    budget_usd: Annotated[
        float, typer.Option(min=0.01, max=1000, help="Maximum cost of the trial.")
    ] = 0.50,
    price: Annotated[
        str | None,
        typer.Option(
            metavar="IN,OUT",
            help="Price of the model in USD per million tokens, if it is not in the price list.",
        ),
    ] = None,
    iterations: Annotated[
        int,
        typer.Option(min=0, max=20, help="Number of iterations; 0 tests only the configuration."),
    ] = 1,
    time_limit: Annotated[
        str, typer.Option(metavar="DURATION", help="After this time the trial ends with a report.")
    ] = "2h",
    wait: Annotated[
        str,
        typer.Option(metavar="DURATION", help="How long to wait for the server's first answer."),
    ] = "10s",
    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "-o",
            metavar="FILE",
            help="Where to save the report.",
            show_default="./vigil-model-report-MODEL-DATE.json",
        ),
    ] = None,
    keep: Keep = None,
    compare: Annotated[
        list[Path] | None,
        typer.Option(
            metavar="REPORT",
            help="Test nothing: print saved reports side by side; may be repeated.",
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Test a model on a fixed mission, and report what it can do.

    Starts a temporary installation with the model server that --url or the environment names, and the sandbox as the
    search service over the CIA World Factbook. One agent is configured and runs its iterations. The report says which
    phases worked, what was refused and repaired, what it cost, and how many of the written facts are correct. If no
    server is configured, the sandbox's rule-based model is tested, which is not a language model.

    Ctrl-C ends the trial with a report of what was done so far. Exits with 0 if every phase that ran worked, 1 if some
    did not, and 2 if the command is invalid or the server cannot be used.
    """
    from cli.render.trial import show_announcement, show_comparison, show_report
    from cli.trial.preflight import chosen_server
    from cli.trial.report import read_report
    from cli.trial.run import Trial, run_trial
    from shared.runtime.providers import load_prices

    if compare:
        reports = [read_report(path) for path in compare]
        if as_json:
            print_json(reports)
        else:
            show_comparison(out(), reports)
        return
    directory = output.expanduser().absolute().parent if output else Path.cwd()
    if not os.access(directory, os.W_OK):
        raise BadInputError(f"the report cannot be saved in {directory}: name a file with --output")
    settings = read_settings()
    check_corpus(DEFAULT_CORPUS)
    trial = Trial(
        server=chosen_server(settings, server, model, key_env),
        prices=load_prices(settings),
        price=price,
        iterations=iterations,
        budget_usd=Decimal(str(budget_usd)),
        output_tokens=settings.max_output_tokens,
        time_limit_seconds=parse_seconds(time_limit),
        wait_seconds=parse_seconds(wait),
        keep=keep,
    )
    console = err() if as_json else out()
    show_announcement(console, trial)
    try:
        report = run_trial(console, trial)
    except KeyboardInterrupt:
        console.print("\n[quiet]Interrupted before anything was tested; everything is stopped.[/]")
        raise typer.Exit(INTERRUPTED) from None
    if as_json:
        print_json(report)
    else:
        show_report(console, report)
    file = output or Path.cwd() / report.file_name
    report.save(file)
    console.print(f"\nThe report is saved in [link]{file}[/].", soft_wrap=True)
    if report.run.ended == "interrupted":
        raise typer.Exit(INTERRUPTED)
    raise typer.Exit(0 if report.verdict.is_good else 1)
