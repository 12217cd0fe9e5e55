"""Public functions that read foreign text, and texts that make a careless pattern slow."""

import inspect
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from functools import partial
from importlib import import_module
from itertools import count
from pkgutil import walk_packages
from time import process_time
from types import ModuleType
from typing import Any, Final, get_type_hints
from uuid import UUID

from shared.fetch.client import Fetched
from shared.graph.conclusions.citations import CitedElements
from shared.graph.conclusions.figures import CitedElement
from shared.graph.grounding.dates import Date
from shared.graph.grounding.passages import Cited, Page
from shared.graph.grounding.values import Quoted
from shared.graph.provenance.numbered_pages import NumberedPage

UNITS: Final = (
    *("a", "A", "0", "1", " ", "\t", "-", "_", "*", "#", ".", ",", "'", "&", "(", ")", "[", "|", ":"),
    *('"', "<", "/", "=", "$", "½", "%", "!", "…", "…) ", "\u00a0", "é", "a\u0301", "万", "3万", "\u202f1"),
    *("1 ", "1,000 ", "1.", "1-", "1-2 ", "1/2 ", "$1 ", "1 million ", "one hundred ", "1°1°", "12:3", "1:", "1 st "),
    *("2020-", "2020 ", "Jan 1 ", "1. Januar ", "Q1 2020 ", "between 1 and ", "from 1 to 2 ", "more than 1 ", "in 1 in "),
    *("A. ", "U.S. ", "e.g. ", "!!! ", "... ", '." ', "Aa Bb ", "Aa-", "a'", "a_1", "x1-", "A&", "NASDAQ: ", "a.b@c"),
    *("(AB)", "[node:", "[edge:", "[1.1]", "[1.1, ", "1.1-", "**a", "| a ", "https://a.b/", "http://a.", "<a ", "a, then "),
    *("a\n", "\n", "\n- ", "- a: 1\n", "# a\n", "of the ", "und ", "minus ", "'s ", "ein", "hundert", "cent", "; ", ",;"),
)  # fmt: skip

_NOW: Final = datetime(2026, 11, 20, tzinfo=UTC)
_ID: Final = UUID(int=1)
_SHORT: Final = "Orion Bank"


def public_functions(packages: Sequence[str]) -> Iterator[tuple[str, Callable[..., Any]]]:
    """The functions without I/O of the packages and modules, by "module.name"."""
    for package in packages:
        for module in _modules(package):
            for name, value in vars(module).items():
                is_own = getattr(value, "__module__", None) == module.__name__
                is_function = callable(value) and not inspect.isclass(value)
                is_async = inspect.iscoroutinefunction(value)
                if is_own and is_function and not is_async and not name.startswith("_"):
                    yield f"{module.__name__}.{name}", value


def _modules(package: str) -> Iterator[ModuleType]:
    module = import_module(package)
    yield module
    for found in walk_packages(getattr(module, "__path__", ()), f"{package}."):
        yield import_module(found.name)


def readers_of(function: Callable[..., Any]) -> list[Callable[[str], Any]]:
    """Calls of the function, one for each parameter that takes a text; the other arguments are short."""
    wrapped = inspect.unwrap(function)
    hints = get_type_hints(wrapped)
    parameters = [
        parameter
        for parameter in inspect.signature(wrapped).parameters.values()
        if str(hints[parameter.name]) in _ARGUMENTS
        and (parameter.default is parameter.empty or parameter.name in ("names", "owner_texts"))
    ]
    required = [
        parameter
        for parameter in inspect.signature(wrapped).parameters.values()
        if parameter.default is parameter.empty and parameter.kind is not parameter.VAR_KEYWORD
    ]
    if not {parameter.name for parameter in required} <= {each.name for each in parameters}:
        missing = [
            f"{each.name}: {hints[each.name]}" for each in required if each not in parameters
        ]
        raise LookupError(f"no argument for {', '.join(missing)}")
    texts = [each for each in parameters if _is_text(str(hints[each.name]), each.name)]
    return [partial(_call, function, parameters, hints, each.name) for each in texts]


def _call(
    function: Callable[..., Any],
    parameters: Sequence[inspect.Parameter],
    hints: dict[str, Any],
    pumped: str,
    text: str,
) -> None:
    positional: list[Any] = []
    named: dict[str, Any] = {}
    for parameter in parameters:
        make = _ARGUMENTS[str(hints[parameter.name])]
        value = make(text if parameter.name == pumped else _SHORT)
        if parameter.name in _FIXED and parameter.name != pumped:
            value = _FIXED[parameter.name]
        if parameter.kind in (parameter.KEYWORD_ONLY,):
            named[parameter.name] = value
        elif parameter.kind is parameter.VAR_POSITIONAL:
            positional += value if isinstance(value, list) else [value]
        else:
            positional.append(value)
    try:
        result = function(*positional, **named)
        if inspect.isgenerator(result):
            for _ in result:
                pass
    except (ValueError, ArithmeticError, LookupError):
        return  # refusing a text is reading it


def _is_text(hint: str, name: str) -> bool:
    return name not in _FIXED and hint in _TEXTS


_FIXED: Final[dict[str, Any]] = {
    "language": "en",
    "decimal_sign": ".",
    "sign": ".",
    "kind": "html",
    "unit": "length-meter",
    "to": "length-meter",
    "dimensions": 16,
    "threshold": 0.5,
    "max_chars": 100,
    "number": 2,
    "min_analyses": 2,
    "times": 0,
    "is_edge": False,
}
"""Arguments that are no foreign text."""


def _page(text: str) -> Fetched:
    return Fetched("https://example.com/", text.encode(), "text/html", "utf-8")


def _quoted(text: str) -> list[Quoted]:
    claims = {
        "loan_usd": 5_000_000,
        "summary": "Orion Bank lent 5 million dollars",
        "since": "2020",
    }
    page = Page("Loans", "a.example", _NOW.date(), text, "en", ".")
    return [Quoted(Cited(page, text), "page", claims)]


_TEXTS: Final[dict[str, Callable[[str], Any]]] = {
    str(str): lambda text: text,
    "str | None": lambda text: text,
    "str | bytes": lambda text: text,
    str(bytes): str.encode,
    "collections.abc.Sequence[str]": lambda text: [text],
    "collections.abc.Iterable[str]": lambda text: [text],
    "collections.abc.Mapping[str, str]": lambda text: {
        "content": text,
        "summary": text,
        "name": text,
    },
    str(Fetched): _page,
    "collections.abc.Sequence[shared.graph.grounding.values.Quoted]": _quoted,
    str(Quoted): lambda text: _quoted(text)[0],
    "collections.abc.Sequence[shared.graph.conclusions.figures.CitedElement]": lambda text: [
        CitedElement("Company", (_SHORT,), (("summary", text), ("loan_usd", 5_000_000)))
    ],
    "dict[str, typing.Any]": lambda text: {"results": [{"url": "https://a.b/", "content": text}]},
    "collections.abc.Iterable[dict[str, typing.Any]]": lambda text: [
        {"url": "https://a.b/", "content": text}
    ],
    "collections.abc.Sequence[shared.graph.provenance.numbered_pages.NumberedPage]": lambda text: [
        NumberedPage("https://a.b/", text)
    ],
}
_ARGUMENTS: Final[dict[str, Callable[[str], Any]]] = {
    **_TEXTS,
    str(int): lambda _: 2,
    str(float): lambda _: 0.5,
    str(bool): lambda _: False,
    str(datetime): lambda _: _NOW,
    "<class 'datetime.date'>": lambda _: _NOW.date(),
    "datetime.date | None": lambda _: _NOW.date(),
    "datetime.datetime | None": lambda _: _NOW,
    str(Decimal): lambda _: Decimal(5),
    str(UUID): lambda _: _ID,
    str(NumberedPage): lambda text: NumberedPage(f"https://a.b/{text}", text),
    "collections.abc.Collection[str]": lambda _: ("local",),
    str(CitedElements): lambda _: CitedElements({}, frozenset()),
    "collections.abc.Sequence[collections.abc.Sequence[str]]": lambda text: [[text]],
    "collections.abc.Sequence[dict[str, typing.Any]]": lambda text: [
        {"results": [{"url": "https://a.b/", "content": text}]}
    ],
    "collections.abc.Sequence[shared.graph.grounding.dates.Date] | None": lambda _: None,
    str(Date): lambda _: Date(2020),
}


@dataclass(frozen=True)
class Slow:
    """A text for which a reader took more than linear time, or too long."""

    unit: str
    seconds: tuple[float, ...]
    """Processor time for one, two and four quarters of the length."""


def slowest(read: Callable[[str], Any], chars: int, units: Sequence[str] = UNITS) -> list[Slow]:
    """The pumped texts of up to `chars` characters for which `read` is superlinear."""
    found = []
    for unit in units:
        if _seconds(read, unit, chars // 4) < _UNSUSPICIOUS_SECONDS:
            continue
        times = tuple(
            min(_seconds(read, unit, chars // part) for _ in range(2)) for part in (4, 2, 1)
        )
        is_superlinear = times[2] > _MAX_GROWTH * times[0] and times[2] > _HARMLESS_SECONDS
        if is_superlinear or times[2] > MAX_SECONDS:
            found.append(Slow(unit, times))
    return found


MAX_SECONDS: Final = 2.0
"""Limit of processor time for the longest text that can occur."""
_UNSUSPICIOUS_SECONDS: Final = 0.01
"""For a quarter of the length: a quadratic reader then takes sixteen times that for all of it."""
_HARMLESS_SECONDS: Final = 0.1
_MAX_GROWTH: Final = 8
"""From a quarter of a text to all of it: linear is 4, quadratic 16."""


_SERIAL: Final = count()
"""Makes each text another one, for readers that remember their last results."""


def _seconds(read: Callable[[str], Any], unit: str, chars: int) -> float:
    # A tail that matches nothing makes a pattern try again from each place.
    text = f"Orion 1{unit * (chars // len(unit))}\x01{next(_SERIAL)}"
    return seconds_of(lambda: read(text))


def seconds_of(call: Callable[[], Any]) -> float:
    """Processor time of this process."""
    start = process_time()
    call()
    return process_time() - start
