"""The entailment check: whether a quote says what it was cited for, by rules."""

import json
import re

from sandbox.model.request import Answer, ChatRequest
from sandbox.text.figures import AMOUNT, parse_amount
from sandbox.text.tokens import fold

CLAIM = re.compile(r'(?P<subject>(?:[^":]|"(?:[^"\\]|\\.)*")*)(?:: (?P<values>.*))?', re.DOTALL)
NAME = re.compile(r'"(?:[^"\\]|\\.)*"')
VALUE = re.compile(r"(?:^|; )(?P<name>[^=;]+) = ")
PERIOD = re.compile(r" \((?:from|until) [^)]*\)$")


def check(request: ChatRequest) -> Answer:
    """Compare the claim with the quote; of a value that is a number, a different one in its place contradicts it."""
    claim = CLAIM.match(PERIOD.sub("", request.section("claim")))
    quote = request.section("quote")
    text = fold(f"{request.section('page_title')}\n{quote}")
    names = [json.loads(name) for name in NAME.findall(claim["subject"])] if claim else []
    values = _values(claim["values"] or "") if claim else []
    if missing := [name for name in names if fold(name) not in text]:
        return _answer("not_stated", f"Neither the quote nor the page title mentions {missing[0]}.")
    for name, value in values:
        if fold(value) in text or _has_amount(quote, value):
            continue
        if _amount(value) is not None and len(AMOUNT.findall(quote)) == 1:
            return _answer(
                "contradicted", f"The quote states a number other than {name} = {value}."
            )
        return _answer("not_stated", f"The quote does not state {name} = {value}.")
    said = ", ".join(f"{name} = {value}" for name, value in values) or " and ".join(names)
    return _answer("supported", f"The quote and the page title contain: {said}.")


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


def _answer(verdict: str, reason: str) -> Answer:
    return Answer(json.dumps({"verdict": verdict, "reason": reason}, ensure_ascii=False))
