"""Sources, quotes, retractions and verification in a terminal."""

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final
from uuid import UUID

from rich.console import Console
from rich.markup import escape
from rich.tree import Tree

from cli.references import short_ids
from cli.render.console import as_of, print_rows, printable, short_id
from shared.schemas.provenance import (
    ChainLink,
    CheckedCounts,
    ClaimResponse,
    ConclusionLink,
    DoubtResponse,
    ElementLink,
    EvidenceLink,
    EvidenceResponse,
    PageCheckResponse,
    ProofLink,
    RetractionResponse,
    SourceDetails,
    SourceLink,
    SourceResponse,
    VerdictResponse,
    VerificationResponse,
)
from shared.wording import NOT_READ, ago, clip, plural

MAX_EVIDENCE_CHARS = 300
MAX_CLAIM_CHARS = 80


def show_sources(console: Console, sources: Sequence[SourceResponse], *, limit: int) -> None:
    ids = short_ids([source.id for source in sources])

    def page(source: SourceResponse) -> str:
        title = f"{escape(clip(source.title, 60))}  " if source.title else ""
        return f"{title}[link]{escape(source.url)}[/]{_fate(source)}"

    columns: Mapping[str, Callable[[SourceResponse], str]] = {
        "=Id": lambda source: ids[source.id],
        "Page": page,
        "=When": lambda source: f"[quiet]{_when(source)}[/]",
    }
    which = "{limit} most recently fetched"
    print_rows(console, sources, columns, empty="No pages match.", limit=limit, which=which)


MAX_FAILED_CHECKS: Final = 20


def show_failed_checks(console: Console, checks: Sequence[PageCheckResponse]) -> None:
    """The pages and feeds that cannot be watched, and why."""
    for check in checks[:MAX_FAILED_CHECKS]:
        checked = f"checked {ago(check.checked_at)}"
        if check.failures > 1:
            checked += f", {check.failures} failures in a row"
        console.print(
            f"  [warn]![/] The {check.kind} [link]{escape(check.url)}[/] cannot be watched: "
            f"{escape(check.error or '')} [quiet]({checked})[/]"
        )
    if len(checks) > MAX_FAILED_CHECKS:
        console.print("  [quiet]More cannot be watched: the web UI lists all.[/]")


def show_source(console: Console, source: SourceDetails) -> None:
    if source.title:
        console.print(f"[title]{escape(source.title)}[/]")
    console.print(f"[link]{escape(source.url)}[/]{_fate(source)}")
    if source.retraction_reason:
        console.print(f"[bad]{escape(source.retraction_reason)}[/]")
    console.print(f"[quiet]{_when(source)}  sha256 {source.sha256}[/]\n")
    console.print(escape(source.text))


def show_evidence(console: Console, evidence: Sequence[EvidenceResponse], *, is_all: bool) -> None:
    """Each quote with its source, and the claims it supports."""
    if not evidence:
        console.print("[quiet]There is no evidence.[/]")
    for row in evidence:
        fate = "  [bad]retracted[/]" if row.retracted_at else ""
        console.print(f"  “{escape(clip(row.quote, MAX_EVIDENCE_CHARS))}”")
        said = f"{escape(row.speaker)} says, " if row.speaker else ""
        console.print(f"    {said}[link]{escape(row.url)}[/]  [quiet]{_time(row)}[/]{fate}")
        for claim in row.claims:
            console.print(f"    {_claim(claim)}")
        for names, found in row.readings:
            console.print(f"    {_verdict_of_model(found, names)}")
    if not is_all:
        console.print("  [quiet]There is more; use --json to see all.[/]")


def show_retractions(console: Console, retractions: Sequence[RetractionResponse]) -> None:
    if not retractions:
        console.print("There are no retractions.")
    for retraction in retractions:
        state = "[good]restored[/]" if retraction.restored_at else "[warn]retracted[/]"
        when = ago(retraction.restored_at or retraction.created_at)
        console.print(
            f"{state} [link]{escape(retraction.url)}[/]  [quiet]{when}, {short_id(retraction.id)}[/]"
        )
        versions = "one version" if retraction.source_id else plural(retraction.sources, "version")
        of_site = "all pages of the site, which is barred, in " if retraction.site else ""
        console.print(f"  {of_site}{versions}: {escape(retraction.reason)}")
        console.print(f"  {_doubted(retraction)}")


def _claim(claim: ClaimResponse) -> str:
    text = f"{escape(claim.property)}: {escape(clip(str(claim.value), MAX_CLAIM_CHARS))}"
    if claim.holds:
        return text
    return f"[quiet]{text} ({'upcoming' if claim.upcoming else 'superseded'})[/]"


def _time(evidence: EvidenceResponse) -> str:
    if evidence.valid_from is None and evidence.valid_to is None:
        return as_of(evidence.as_of)
    first = f"from {evidence.valid_from:%Y-%m-%d}" if evidence.valid_from else ""
    last = f"until {evidence.valid_to:%Y-%m-%d}" if evidence.valid_to else ""
    return f"{first} {last}".strip()


def _when(source: SourceResponse) -> str:
    published = f"published {source.published:%Y-%m-%d}, " if source.published else ""
    return f"{published}fetched {ago(source.fetched_at)}"


def _fate(source: SourceResponse) -> str:
    if source.retracted_at is None:
        return ""
    return f"  [bad]retracted {ago(source.retracted_at)}[/]"


def _doubted(retraction: RetractionResponse) -> str:
    if retraction.is_pending:
        return "[quiet]Everything that rests on it is being re-evaluated.[/]"
    if not retraction.analyses and not retraction.advice:
        return "[quiet]It puts nothing in doubt.[/]"
    analyses, advice = plural(retraction.analyses, "analysis"), plural(retraction.advice, "advice")
    return f"[warn]It puts in doubt: {analyses} and {advice}.[/]"


if TYPE_CHECKING:
    from cli.verification import AgentVerified

MAX_QUOTE_CHARS: Final = 160
MAX_VALUE_CHARS: Final = 60
GOOD: Final = "[good]✓[/]"
BAD: Final = "[bad]✗[/]"
OPEN: Final = "[quiet]○[/]"

AnyLink = ConclusionLink | ElementLink | EvidenceLink | SourceLink


def show_doubts(console: Console, verification: VerificationResponse) -> None:
    """Why the conclusion is in doubt; nothing if it is not."""
    root = next((link for link in verification.conclusions if link.id == verification.id), None)
    if root is None or not root.doubts:
        return
    console.print(
        f"[warn]! This {root.link} is in doubt.[/] What it cites has changed since; nothing is broken."
    )
    for doubt in root.doubts:
        console.print(f"  {describe_doubt(doubt)}")
    console.print()


def show_chain(console: Console, verification: VerificationResponse) -> None:
    """The conclusions, what each states with the sentence that says it, and what is broken, as a tree.

    A link that occurs again is only named.
    """
    every: Iterable[AnyLink] = (
        *verification.conclusions,
        *verification.elements,
        *verification.evidence,
        *verification.sources,
    )
    links = {link.id: link for link in every}
    printed: set[UUID] = set()

    def branch(add: Callable[[str], Tree], link: AnyLink) -> Tree:
        is_repeated = link.id in printed
        printed.add(link.id)
        again = " [quiet](as above)[/]" if is_repeated and not isinstance(link, SourceLink) else ""
        tree = add(f"{_mark(link)} {_line(link)}{again}")
        if is_repeated:
            return tree
        for fault in link.breaks:
            tree.add(f"[bad]{fault.broken}: {_data(fault.message)}[/]")
        if isinstance(link, ConclusionLink):
            for doubt in link.doubts:
                tree.add(describe_doubt(doubt))
            _add_proof(tree, link, links)
        for link_id in _rests_on(link):
            below = links.get(link_id)
            is_shown = isinstance(below, ConclusionLink | SourceLink)
            if below is not None and (is_shown or not below.holds):
                branch(tree.add, below)
        return tree

    console.print(branch(Tree, links[verification.id]), soft_wrap=True)


def _add_proof(tree: Tree, conclusion: ConclusionLink, links: Mapping[UUID, AnyLink]) -> None:
    if not conclusion.is_proof_stored:
        tree.add(
            "[quiet]Concluded by a release that stored no proof. Found now, in what was known then:[/]"
        )
    for row in conclusion.proof:
        changed = f"  [warn]{_data(row.change)}[/]" if row.change else ""
        good = OPEN if row.change or _is_refusal(row.verdict) else GOOD
        claim = tree.add(f"{good if row.is_found else BAD} {_proven(row)}{changed}")
        page = links.get(row.source_id)
        if isinstance(page, SourceLink):
            source = claim.add(f"{_mark(page)} {_line(page)}")
            for fault in page.breaks:
                source.add(f"[bad]{fault.broken}: {_data(fault.message)}[/]")


def _proven(row: ProofLink) -> str:
    """`population of Ghana = 33000000: “…”`."""
    about = f"{_data(row.name)} [quiet]({_data(row.type)})[/]"
    if row.property is not None:
        about = f"{_data(row.property)} of {_data(row.name)} = {_value(row.value)}"
    read = f" {_verdict_of_model(row.verdict)}" if row.verdict else ""
    said = f" {_data(row.speaker)} says:" if row.speaker else ""
    return f"{about}:{said} “{_data(clip(row.quote, MAX_QUOTE_CHARS))}”{read}"


def show_later(console: Console, verification: VerificationResponse) -> None:
    """Counts, for each conclusion, the sentences learned after it that confirm or contradict it, without empty counts, and
    lists what stands beside its values now.
    """
    for conclusion in verification.conclusions:
        name = f"{conclusion.link} “{_data(conclusion.name)}”"
        for line in conclusion.since.beside:
            console.print(f"Beside the values of {name} now: [warn]{_data(line)}[/]")
        if not conclusion.since.in_words:
            continue
        console.print(f"Since then, on {name}: {conclusion.since.in_words}.")
        rows = {row.number: row for row in conclusion.proof}
        for later in conclusion.since.latest:
            if later.relation == "confirms":
                continue
            row = rows[later.number]
            claim = (
                f"{_data(row.property or row.type)} of {_data(row.name)} = {_value(later.value)}"
            )
            verb = "contradicts" if later.relation == "contradicts" else "newer value"
            quote = _data(clip(later.quote, MAX_QUOTE_CHARS))
            console.print(f"  [warn]{verb}:[/] {claim}: “{quote}” [link]{_data(later.url)}[/]")


def _mark(link: AnyLink) -> str:
    """A conclusion has the mark of success only if each of its sentences was read as supported; what a reading has refused
    has none.
    """
    if not link.holds:
        return BAD
    if isinstance(link, EvidenceLink) and any(map(_is_refusal, link.verdicts.values())):
        return OPEN
    if isinstance(link, ConclusionLink) and not (link.reading and link.reading.is_supported):
        return OPEN
    return GOOD


def _is_refusal(found: VerdictResponse | None) -> bool:
    return found is not None and found.verdict != "supported"


def _rests_on(link: AnyLink) -> Sequence[UUID]:
    match link:
        case EvidenceLink():
            return [link.source_id]
        case SourceLink():
            return []
        case _:
            return link.rests_on


def show_summary(console: Console, verification: VerificationResponse) -> None:
    links: Sequence[ChainLink] = [
        *verification.conclusions,
        *verification.elements,
        *verification.evidence,
        *verification.sources,
    ]
    broken = sum(len(link.breaks) for link in links)
    counts = counted_in_words(verification.checked)
    console.print(f"\n[quiet]{verification.checked.in_words}[/]")
    console.print(f"{_verdict(broken)} [quiet]{counts} checked[/]")
    if verification.said_by:
        speakers = escape(" and ".join(verification.said_by))
        console.print(f"[warn]Everything rests on the words of {speakers}.[/]")
    if len(verification.origins) == 1:
        sites = escape(" and ".join(verification.origins[0]))
        console.print(f"[warn]Everything rests on one origin, {sites}:[/] no other confirms it.")
    if verification.barred_sites:
        sites = escape(", ".join(verification.barred_sites))
        console.print(f"[warn]Since barred, and no longer counted as support:[/] {sites}")


def show_breaks(console: Console, report: "AgentVerified") -> None:
    """What is broken in an agent's graph, and which of its conclusions are in doubt."""
    for fault in report.breaks:
        where = f"{fault.link} {_data(fault.name)} [quiet]{short_id(fault.id)}[/]"
        console.print(f"{BAD} {where}: [bad]{_data(fault.message)}[/]")
    if (more := report.broken - len(report.breaks)) > 0:
        console.print(f"[bad]… and {more:,} more[/]")
    for doubt in report.doubts:
        where = f"{doubt.link} {_data(doubt.name)} [quiet]{short_id(doubt.id)}[/]"
        console.print(f"{where}: {describe_doubt(doubt)}")
    if report.since is None:
        console.print(f"[quiet]{report.checked.in_words}[/]")
    console.print(f"[quiet]{_history_in_words(report)}[/]")
    doubted = f", [warn]{report.in_doubt:,} in doubt[/]" if report.in_doubt else ""
    if report.since is not None and not report.broken:
        console.print(
            f"{GOOD} [agent]{_data(report.name)}[/]: the history contains this root, and every row matches the history."
            " [quiet]Quotes were not read again.[/]"
        )
        return
    console.print(
        f"{_verdict(report.broken)} [agent]{_data(report.name)}[/]: "
        f"[quiet]{counted_in_words(report.checked)} checked[/]{doubted}"
    )


def _history_in_words(report: "AgentVerified") -> str:
    checked = report.checked
    signed = f"{checked.entries_signed:,} signed" if checked.entries_signed else "not signed"
    if checked.entries_signed and not report.signatures_checked:
        signed += " (signatures not checked: the API has no signing key)"
    text = (
        f"History: {plural(checked.entries, 'entry')}, {signed}; {plural(checked.rows, 'row')}"
        " compared with it"
    )
    return f"{text}; root {report.root}" if report.root else text


def counted_in_words(checked: CheckedCounts) -> str:
    parts = {"page": checked.sources, "quote": checked.evidence}
    parts |= {"node": checked.nodes, "edge": checked.edges}
    return ", ".join(plural(number, noun) for noun, number in parts.items())


def _line(link: AnyLink) -> str:
    match link:
        case ConclusionLink():
            read = link.reading.in_words if link.reading else NOT_READ
            name = f"{link.link} [title]“{_data(link.name)}”[/] [quiet]{short_id(link.id)}[/]"
            return f"{name} [quiet]{_data(read)}[/]"
        case ElementLink():
            pairs = (f"{_data(name)} = {_value(value)}" for name, value in link.properties.items())
            values = f" ({', '.join(pairs)})" if link.properties else ""
            return f"[agent]{_data(link.type)}[/] {_data(link.name)}{values}"
        case EvidenceLink():
            names = _data(", ".join(link.active_properties))
            supported = f"[quiet]{names}:[/] " if names else ""
            said = f"{_data(link.speaker)} says: " if link.speaker else ""
            text = f"{supported}{said}“{_data(clip(link.quote, MAX_QUOTE_CHARS))}”"
            return " ".join(
                [text, *(_verdict_of_model(each, names) for names, each in link.readings)]
            )
        case SourceLink():
            return _page(link)


def _page(link: SourceLink) -> str:
    title = f"{_data(clip(link.title, MAX_VALUE_CHARS))}, " if link.title else ""
    moment, verb = (link.published, "published") if link.published else (link.fetched_at, "fetched")
    retracted = ", [warn]retracted[/]" if link.retracted_at else ""
    return f"{title}[link]{_data(link.url)}[/], {verb} {moment:%Y-%m-%d}{retracted}"


def describe_doubt(doubt: DoubtResponse) -> str:
    what = {
        "retracted": "was retracted",
        "contradicted": "contradicts the claims it was cited for",
        "not_stated": "does not state the claims it was cited for",
        "split": "is about another thing of this name",
    }[doubt.cause]
    page = f"[link]{_data(doubt.url)}[/] {what} ({_data(doubt.reason)})"
    return f"[warn]in doubt since {doubt.since:%Y-%m-%d}:[/] {page}"


def _verdict_of_model(found: VerdictResponse, names: str = "") -> str:
    tone = {"supported": "good", "contradicted": "bad"}.get(found.verdict, "warn")
    word = found.verdict.replace("_", " ")
    reason = f" [quiet]{_data(found.reason)}[/]" if found.reason else ""
    of = f" {_data(names)}" if names else ""
    return f"[quiet]read by {_data(found.model)}:{of}[/] [{tone}]{word}[/]{reason}"


def _verdict(broken: int) -> str:
    if broken:
        return f"{BAD} [bad]{plural(broken, 'break')}.[/]"
    return f"{GOOD} nothing was changed, and each sentence was found in its page."


def _value(value: Any) -> str:
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return _data(clip(text, MAX_VALUE_CHARS))


def _data(text: str) -> str:
    return escape(printable(text))
