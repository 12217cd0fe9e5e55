"""The phase `verification`, by rules: whether quotes have what is claimed, and claims the figures of conclusions.

It compares words and reads none, and each of its reasons says so. The product does not count it as a reading.
"""

import json
import re
from collections.abc import Iterator, Sequence

from sandbox.model.request import Answer, ChatRequest
from sandbox.text.figures import AMOUNT, parse_amount
from sandbox.text.tokens import fold

CLAIM = re.compile(r'(?P<subject>(?:[^":]|"(?:[^"\\]|\\.)*")*)(?:: (?P<values>.*))?', re.DOTALL)
NAME = re.compile(r'"(?:[^"\\]|\\.)*"')
VALUE = re.compile(r"(?:^|; )(?P<name>[^=;]+) = ")
PERIOD = re.compile(r" \((?:from|until) [^)]*\)$")


BY_RULES = "by rules of the sandbox:"
LINE = re.compile(r"(?P<number>\d+) (?:\[(?P<cited>[\d,-]+)\] )?(?P<text>.*)")
READ_BEFORE = re.compile(r"\((?:supported|not stated|contradicted)\) ")
AS_ABOVE = "as above"
QUOTE = re.compile(r"»(?P<quote>.*?)«")


def read(request: ChatRequest) -> Answer:
    """A verdict for each claim with a quote, and for each sentence."""
    claims: dict[int, str] = {}
    passage = ""
    for number, _, text in _lines(request.section("claims")):
        said, separator, rest = text.partition(" | ")
        passage = passage if rest == AS_ABOVE else rest
        claims[number] = f"{said}{separator}{passage}" if separator else said
    verdicts = [
        f"{number} {_claim_verdict(text)}"
        for number, text in claims.items()
        if QUOTE.search(text) is not None and not READ_BEFORE.match(text)
    ]
    for number, cited, text in _lines(request.section("conclusions")):
        sources = [claims[each] for each in cited or claims if each in claims]
        verdicts.append(f"{number} {_sentence_verdict(text, sources)}")
    return Answer(json.dumps({"verdicts": verdicts}, ensure_ascii=False))


def _lines(section: str) -> Iterator[tuple[int, list[int], str]]:
    for line in section.splitlines():
        if (match := LINE.match(line)) is not None:
            yield int(match["number"]), list(_numbers(match["cited"] or "")), match["text"]


def _numbers(ranges: str) -> Iterator[int]:
    """The numbers of a list with ranges, such as "1,2,5-9"."""
    for each in filter(None, ranges.split(",")):
        first, _, last = each.partition("-")
        yield from range(int(first), int(last or first) + 1)


def _claim_verdict(text: str) -> str:
    """The verdict on one claim. A different number in place of a stated number contradicts the claim."""
    stated, title, passage = [*text.split(" | "), "", ""][:3]
    claim = CLAIM.match(PERIOD.sub("", stated))
    quote = "\n".join(QUOTE.findall(passage))
    known = fold(f"{title}\n{quote}")
    names = [json.loads(name) for name in NAME.findall(claim["subject"])] if claim else []
    if missing := [name for name in names if fold(name) not in known]:
        return f"n {BY_RULES} no {missing[0]}"
    for name, value in _values(claim["values"] or "") if claim else []:
        if name == "summary" or fold(value) in known or _has_amount(quote, value):
            continue
        is_other = _amount(value) is not None and len(AMOUNT.findall(quote)) == 1
        return f"{'c' if is_other else 'n'} {BY_RULES} no {name} = {value}"
    return "s"


def _sentence_verdict(text: str, sources: Sequence[str]) -> str:
    """Ratios and other results of arithmetic are not compared."""
    known = "\n".join(sources)
    figures = [match.group() for match in AMOUNT.finditer(text) if match["unit"] != "times"]
    for figure in figures:
        if figure in known or _has_amount(known, figure):
            return "ss"
    return f"sn {BY_RULES} no {figures[0].strip()}" if figures else "ss"


def _values(text: str) -> list[tuple[str, str]]:
    """The properties and their values, each in words."""
    marks = list(VALUE.finditer(text))
    ends = [mark.start() for mark in marks[1:]] + [len(text)]
    return [
        (mark["name"], _plain(text[mark.end() : end]))
        for mark, end in zip(marks, ends, strict=False)
    ]


def _plain(text: str) -> str:
    try:
        value = json.loads(text)
    except ValueError:
        return text
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _amount(text: str) -> float | None:
    amount = parse_amount(text)
    return None if amount is None else amount.number


def _has_amount(quote: str, value: str) -> bool:
    wanted = _amount(value)
    return wanted is not None and any(
        _amount(match.group()) == wanted for match in AMOUNT.finditer(quote)
    )
