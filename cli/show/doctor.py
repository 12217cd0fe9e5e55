"""An examination in a terminal."""

import json
from collections.abc import Sequence
from dataclasses import asdict
from typing import Final

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from cli.doctor.finding import Finding, Verdict
from cli.show.words import counted

_MARKS: Final = {
    Verdict.GOOD: "[good]✓[/]",
    Verdict.NOTE: "[quiet]·[/]",
    Verdict.BAD: "[bad]✗[/]",
}


def show_findings(console: Console, findings: Sequence[Finding]) -> None:
    table = Table.grid(padding=(0, 1))
    table.add_column()
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    for finding in findings:
        mend = f"\n[quiet]→ {escape(finding.mend)}[/]" if finding.mend else ""
        told = (
            f"[bad]{escape(finding.told)}[/]" if finding.verdict == "bad" else escape(finding.told)
        )
        table.add_row(_MARKS[finding.verdict], finding.name, f"{told}{mend}")
    console.print(table)
    wrong = sum(finding.verdict == Verdict.BAD for finding in findings)
    told = f"[bad]{counted(wrong, 'thing')} to mend.[/]" if wrong else "[good]Nothing is wrong.[/]"
    console.print(f"\n{told}")


def print_findings(findings: Sequence[Finding]) -> None:
    print(json.dumps([asdict(finding) for finding in findings], indent=2, ensure_ascii=False))
