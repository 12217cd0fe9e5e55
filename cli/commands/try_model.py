"""`vigil try-model`: what a model server can do for Vigil, before it is trusted."""

from pathlib import Path
from typing import Annotated

import typer

from cli.options import AsJson

INTERRUPTED = 130


def try_model(
    server: Annotated[
        str | None,
        typer.Option(
            "--url",
            metavar="URL",
            help="Base URL of the model server, mostly ending with /v1.",
            show_default="OPENAI_BASE_URL, or OpenAI",
        ),
    ] = None,
    model: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="Model that the server is asked for.",
            show_default="OPENAI_MODEL, or the only one that --url lists",
        ),
    ] = None,
    key_env: Annotated[
        str | None,
        typer.Option(
            metavar="VARIABLE",
            help="Environment variable that holds the key. A server named by --url is sent no other key.",
            show_default="OPENAI_API_KEY, without --url",
        ),
    ] = None,
    budget_usd: Annotated[
        float, typer.Option(min=0.01, max=1000, help="The most that the trial may cost.")
    ] = 0.50,
    price: Annotated[
        str | None,
        typer.Option(
            metavar="IN,OUT",
            help="What the model costs, in USD for a million tokens; for one that is not in the list of prices.",
        ),
    ] = None,
    iterations: Annotated[
        int,
        typer.Option(min=0, max=20, help="Turns of the loop; 0 tries the configuration alone."),
    ] = 1,
    time_limit: Annotated[
        str, typer.Option(metavar="DURATION", help="The trial ends then, with a report.")
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
            help="Where the report is saved.",
            show_default="./vigil-model-report-MODEL-DATE.json",
        ),
    ] = None,
    keep: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Keep the data here, for `vigil up --data DIR`."),
    ] = None,
    compare: Annotated[
        list[Path] | None,
        typer.Option(
            metavar="REPORT", help="Try nothing: print saved reports side by side; may be repeated."
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Try a model on a fixed mission, and report what it can do.

    A throwaway installation is started, with the model server that --url names or the environment configures, and the
    sandbox as the search service, over the CIA World Factbook. One agent is configured and goes through its loop; the
    report says which phases worked, what was refused and repaired, what it took, and how many of the written facts are
    right. Without any server configured the sandbox's own reader is tried, which is no language model.

    Ctrl-C ends the trial with a report of what was done so far. Ends with 0 where every phase that was reached worked,
    with 1 where some did not, and with 2 where the command is wrong or the server cannot be used.
    """
    import os
    from decimal import Decimal

    from cli.config.durations import seconds_of
    from cli.config.providers import DEFAULT_CORPUS, check_corpus, read_settings
    from cli.errors import BadInputError
    from cli.render.console import err, out, print_json
    from cli.render.trial import show_announcement, show_comparison, show_report
    from cli.trial.preflight import chosen_server
    from cli.trial.report import read_report
    from cli.trial.run import Trial, run_trial
    from shared.runtime.providers import prices_of

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
        prices=prices_of(settings),
        price=price,
        iterations=iterations,
        budget_usd=Decimal(str(budget_usd)),
        output_tokens=settings.most_output_tokens,
        time_limit_seconds=seconds_of(time_limit),
        wait_seconds=seconds_of(wait),
        keep=keep,
    )
    console = err() if as_json else out()
    show_announcement(console, trial)
    try:
        report = run_trial(console, trial)
    except KeyboardInterrupt:
        console.print("\n[quiet]interrupted before anything was tried; everything is ended.[/]")
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
