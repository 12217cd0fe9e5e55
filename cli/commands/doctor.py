"""`vigil doctor`: what is reachable, what is wrong, and how to mend it."""

import typer

from cli.options import AsJson, Corpus, Data, Url


def doctor(
    data: Data = None, url: Url = None, corpus: Corpus = None, as_json: AsJson = False
) -> None:
    """Look at everything Vigil stands on, and say how to mend what is wrong; the exit code is 1 then.

    Of keys it tells whether they are set, never what they are.
    """
    from cli.config.discovery import api_or_none
    from cli.config.providers import chosen_corpus, read_settings
    from cli.doctor.examine import examine
    from cli.local.data_directory import default_data_directory
    from cli.render.console import out
    from cli.render.operations import print_findings, show_findings

    settings, directory = read_settings(), data or default_data_directory()
    findings = list(examine(settings, directory, api_or_none(url, data), chosen_corpus(corpus)))
    if as_json:
        print_findings(findings)
    else:
        show_findings(out(), findings)
    if any(finding.verdict == "bad" for finding in findings):
        raise typer.Exit(1)
