"""A set of held-out cases of claims and quotes, made without sight of the rules that it judges.

For the first seed there are 763 cases, 375 true and 388 false.

Of pages written by hand come 347 (`-story-` in the id), of sentence forms 310 (`-sentence-`, `-status-`) and of
the World Factbook 106 (`-factbook-`).
By language: en 243, de 132, fr 132, it 131, es 125.
By fault: number 50, name 40, percentage 39, unit 36, negation 33, subject 33, scale 32, year 29, date 28, edge_end
25, invented 22, currency 21.
By rule: same text 50, written date 49, digit grouping 43, scale word 34, title 33, percentage 17, negation 16,
number word 15, free text 15, unit scale 14, unit word 13, decimal comma 12, list 12, several quotes 9, range 9,
month 9, alias 5, direction 4, legal form 3, letter case 3, currency symbol 2, denial 2, scale abbreviation 1,
season 1, passive 1, pronoun 1, academic title 1, fraction 1.
In 22 false cases the value stands in the quotes for something else (note `other role`).
"""

import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, timedelta
from random import Random
from typing import Any

from sandbox.corpus import Document, factbook
from tests.support.evidence_cases import EvidenceCase, Fault

LANGUAGES = ("en", "de", "fr", "es", "it")
OTHER_ROLE = "other role"
"""Note of a false case whose value does stand in its quotes, but for something else."""


def cases(seed: int = 1) -> list[EvidenceCase]:
    """Return all cases; those of stories are the same for every seed."""
    rng = Random(seed)
    found = [case for story in STORIES for case in _story_cases(story)]
    for language in LANGUAGES:
        found += _sentence_cases(WORDS[language], rng)
        found += _status_cases(WORDS[language], rng)
    return found + _factbook_cases(rng)


# Stories: pages written by hand, each with several claims.


@dataclass(frozen=True)
class Claim:
    """A claim about a story; exactly one of `rule` and `fault` is set."""

    quotes: str
    """Numbers of the sentences that it cites, such as `1 4`."""
    subject: str
    properties: Mapping[str, Any]
    type_name: str
    target: str = ""
    rule: str = ""
    fault: Fault | None = None
    note: str = ""


@dataclass(frozen=True)
class Story:
    """A page whose sentences are numbered by marks such as `[1]`; an empty line ends a paragraph."""

    language: str
    key: str
    title: str
    heading: str
    text: str
    claims: tuple[Claim, ...]
    names: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Other names of a subject or target."""


def yes(
    rule: str,
    quotes: str,
    subject: str,
    properties: Mapping[str, Any],
    type_name: str = "Company",
) -> Claim:
    """Make a true claim about a node."""
    return Claim(quotes, subject, properties, type_name, rule=rule)


def yes_edge(
    rule: str,
    quotes: str,
    source: str,
    type_name: str,
    target: str,
    properties: Mapping[str, Any] | None = None,
) -> Claim:
    """Make a true claim about an edge."""
    return Claim(quotes, source, properties or {}, type_name, target, rule)


def no(
    fault: Fault,
    quotes: str,
    subject: str,
    properties: Mapping[str, Any],
    type_name: str = "Company",
    note: str = "",
    target: str = "",
) -> Claim:
    """Make a false claim: about an edge if `target` is given, else about a node."""
    return Claim(quotes, subject, properties, type_name, target, fault=fault, note=note)


MARK = re.compile(r"\[(\d+)\]")


def _story_cases(story: Story) -> list[EvidenceCase]:
    paragraphs = [_numbered_sentences(part) for part in story.text.split("\n\n")]
    page = "\n".join(" ".join(part.values()) for part in paragraphs)
    sentences = {number: text for part in paragraphs for number, text in part.items()}
    return [
        EvidenceCase(
            id=f"{story.language}-story-{story.key}-{index}",
            language=story.language,
            title=_with_no_break_spaces(story.title),
            heading=story.heading,
            page=page,
            quotes=tuple(sentences[number] for number in claim.quotes.split()),
            subject=claim.subject,
            properties=claim.properties,
            kind="edge" if claim.target else "node",
            type_name=claim.type_name,
            target=claim.target,
            aliases=story.names.get(claim.subject, ()),
            target_aliases=story.names.get(claim.target, ()),
            fault=claim.fault,
            rule=claim.rule,
            note=claim.note,
        )
        for index, claim in enumerate(story.claims, start=1)
    ]


def _numbered_sentences(paragraph: str) -> dict[str, str]:
    """Return the paragraph's sentences by their numbers."""
    _, *parts = MARK.split(_with_no_break_spaces(_in_one_line(paragraph)))
    return {number: text.strip(" ") for number, text in zip(parts[::2], parts[1::2], strict=True)}


def _in_one_line(text: str) -> str:
    return re.sub(r"[ \n]+", " ", text).strip(" ")


def _with_no_break_spaces(text: str) -> str:
    """Replace `~`, which stands for a no-break space here."""
    return text.replace("~", "\N{NO-BREAK SPACE}")


# Sentences: forms of each language, filled with facts drawn at random.


@dataclass(frozen=True)
class Words:
    """How a language writes numbers, amounts and dates, and the names that its pages use."""

    language: str
    companies: tuple[tuple[str, str], ...]
    """Full names with the legal form, and names without it."""
    people: tuple[str, ...]
    cities: tuple[str, ...]
    museums: tuple[str, ...]
    plants: tuple[str, ...]
    bridges: tuple[str, ...]
    banks: tuple[str, ...]
    regions: tuple[str, ...]
    laws: tuple[str, ...]
    universities: tuple[str, ...]
    trial: str
    """The name of a clinical trial, with {} for its short name."""
    metals: tuple[tuple[str, str], ...]
    """A metal in the page's language and in English."""
    products: tuple[str, ...]
    countries: tuple[str, ...]
    """Local names of COUNTRIES, in the same order."""
    months: tuple[str, ...]
    number_words: tuple[str, ...]
    """From two to twelve."""
    group: tuple[str, ...]
    """What separates groups of three digits; one is drawn for each number."""
    decimal: str
    percent: tuple[str, ...]
    day_forms: tuple[str, ...]
    first_of_month: str
    month_form: str
    money: Callable[["Words", Random, float, str], str]
    currency: str
    """The currency of most amounts."""
    status: tuple["Status", ...]

    def number(self, rng: Random, value: float) -> str:
        """Write a number with its groups of digits and its decimal mark."""
        whole, _, decimals = f"{value:,}".partition(".")
        if value < 10_000 and rng.random() < 0.2:
            whole = whole.replace(",", "")
        text = whole.replace(",", rng.choice(self.group))
        return text + (self.decimal + decimals if decimals.strip("0") else "")

    def share(self, rng: Random, value: float) -> str:
        """Write a percentage."""
        return rng.choice(self.percent).format(self.number(rng, value))

    def day(self, rng: Random, day: date) -> str:
        """Write a date in words."""
        number = self.first_of_month if day.day == 1 else str(day.day)
        return rng.choice(self.day_forms).format(d=number, m=self.months[day.month - 1], y=day.year)

    def month_of(self, day: date) -> str:
        """Write a month with its year."""
        return self.month_form.format(m=self.months[day.month - 1], y=day.year)


@dataclass(frozen=True)
class Status:
    """A sentence that denies something, and claims about it that are true and false."""

    sentence: str
    """With {c} for the company and {city}."""
    true: Mapping[str, Any]
    false: Mapping[str, Any]
    rule: str = "negation"
    note: str = ""


def _money_en(words: Words, rng: Random, value: float, currency: str) -> str:
    sign = {"eur": "€", "usd": "$", "gbp": "£", "chf": "CHF "}[currency]
    amount, names = _scaled(value, (" billion", "bn"), (" million", "m"))
    return f"{sign}{words.number(rng, amount)}{rng.choice(names)}"


def _money_de(words: Words, rng: Random, value: float, currency: str) -> str:
    amount, names = _scaled(value, ("Milliarden", "Mrd."), ("Millionen", "Mio."))
    name = {"eur": "Euro", "usd": "US-Dollar", "gbp": "Pfund", "chf": "Franken"}[currency]
    return f"{words.number(rng, amount)} {rng.choice(names)} {name}"


def _money_fr(words: Words, rng: Random, value: float, currency: str) -> str:
    amount, (name,) = _scaled(value, ("milliard",), ("million",))
    of = {"eur": "d'euros", "usd": "de dollars", "gbp": "de livres", "chf": "de francs suisses"}
    if currency == "eur" and value < 1e9 and rng.random() < 0.2:
        return f"{words.number(rng, amount)}\N{NO-BREAK SPACE}M€"
    return f"{words.number(rng, amount)} {name}{'s' if amount >= 2 else ''} {of[currency]}"


def _money_es(words: Words, rng: Random, value: float, currency: str) -> str:
    name = {"eur": "euros", "usd": "dólares", "gbp": "libras", "chf": "francos suizos"}[currency]
    return f"{words.number(rng, _short(value / 1e6))} millones de {name}"


def _money_it(words: Words, rng: Random, value: float, currency: str) -> str:
    amount, names = _scaled(
        value, ("miliardi di", "miliardi di", "mld di"), ("milioni di", "mln di")
    )
    name = {"eur": "euro", "usd": "dollari", "gbp": "sterline", "chf": "franchi"}[currency]
    return f"{words.number(rng, amount)} {rng.choice(names)} {name}"


def _scaled(
    value: float, billions: tuple[str, ...], millions: tuple[str, ...]
) -> tuple[float, tuple[str, ...]]:
    """Express a value in billions or millions."""
    return (_short(value / 1e9), billions) if value >= 1e9 else (_short(value / 1e6), millions)


def _short(value: float) -> float:
    """Make a whole number an int, and remove the rounding errors of others."""
    value = round(value, 3)
    return int(value) if value == int(value) else value


@dataclass(frozen=True)
class Wrong:
    """What a false claim changes."""

    fault: Fault
    properties: Mapping[str, Any] = field(default_factory=dict)
    """Replace or add to those of the true claim."""
    without: str = ""
    """The property that is left out."""
    subject: str = ""
    target: str = ""
    needs: str = ""
    """The field that the quotes must state for it."""
    note: str = ""


@dataclass(frozen=True)
class Option:
    """A claim that a form supports if its quotes state the fields in `needs`."""

    needs: str
    subject: str
    properties: Mapping[str, Any]
    rule: str
    wrong: tuple[Wrong, ...]
    type_name: str = "Company"
    target: str = ""
    aliases: tuple[str, ...] = ()
    target_aliases: tuple[str, ...] = ()


@dataclass(frozen=True)
class Facts:
    """What fills the forms of a topic, and the claims that follow from it."""

    fields: Mapping[str, str]
    options: tuple[Option, ...]


def _wrong_number(rng: Random, value: float) -> Any:
    """Swap two neighbouring digits of a number or replace one of the first three."""
    text = str(value)
    end = len(text) if "." in text else len(text.rstrip("0"))
    swapped = {text[:i] + text[i + 1] + text[i] + text[i + 2 :] for i in range(end - 1)}
    place = rng.choice([i for i in range(min(end, 3)) if text[i].isdigit()])
    far = [digit for digit in "123456789" if abs(int(digit) - int(text[place])) > 1]
    replaced = {text[:place] + digit + text[place + 1 :] for digit in far}
    found = [*sorted(swapped), *rng.sample(sorted(replaced), 3)]
    valid = [one for one in found if re.fullmatch(r"[1-9]\d*(?:\.\d*[1-9])?", one)]
    numbers = [float(one) if "." in one else int(one) for one in valid]
    return rng.choice([number for number in numbers if number != value])


def _wrong_day(rng: Random, day: date) -> str:
    """Change the day or the month."""
    if rng.random() < 0.5:
        return day.replace(day=(day.day + rng.randrange(1, 27)) % 28 + 1).isoformat()
    return day.replace(
        month=(day.month + rng.randrange(10)) % 12 + 1, day=min(day.day, 28)
    ).isoformat()


def _wrong_year(rng: Random, year: int) -> int:
    return year + rng.choice((-10, -3, -2, -1, 1, 2))


def _other_currency(rng: Random, currency: str) -> str:
    return rng.choice([one for one in ("eur", "usd", "gbp", "chf") if one != currency])


def _currency(words: Words, rng: Random) -> str:
    return words.currency if rng.random() < 0.7 else rng.choice(("eur", "usd", "gbp", "chf"))


def _amount(rng: Random, most: float = 9e9) -> int:
    """Draw an amount with three digits that count, between 12 million and `most`."""
    value = 12e6 * (most / 12e6) ** rng.random()
    digits: int = 10 ** (len(str(int(value))) - rng.choice((2, 3, 3)))
    return max(12, int(value) // digits) * digits


def _rounded(value: float) -> int:
    """Keep three digits."""
    return int(float(f"{value:.2e}"))


def _day(rng: Random, first: int = 2015, last: int = 2025) -> date:
    days = (date(last, 12, 28) - date(first, 1, 1)).days
    return date(first, 1, 1) + timedelta(rng.randrange(days))


def _percentage(rng: Random, most: int = 30) -> float:
    value = rng.randrange(15, most * 10) / 10
    return int(value) if value == int(value) else value


@dataclass(frozen=True)
class Company:
    """A company as its page names it and as the claim does."""

    stated: str
    claimed: str
    aliases: tuple[str, ...]
    other: str
    """Another company, which the page does not name."""
    rule: str
    """`legal form` if both names differ in it, else empty."""


def _company(words: Words, rng: Random) -> Company:
    (full, short), (other, other_short) = rng.sample(words.companies, 2)
    if rng.random() < 0.3:
        return Company(full, short, (full,), other_short, "legal form")
    if rng.random() < 0.15:
        return Company(short, full, (short,), other, "legal form")
    name, other_name = (full, other) if rng.random() < 0.4 else (short, other_short)
    return Company(name, name, (), other_name, "")


def _revenue(words: Words, rng: Random) -> Facts:
    c, year = _company(words, rng), rng.randrange(2017, 2026)
    currency, amount, growth = _currency(words, rng), _amount(rng), _percentage(rng)
    other = _other_currency(rng, currency)
    key = f"revenue_{currency}" if rng.random() < 0.7 else f"revenue{currency.title()}"
    prev = _rounded(amount / (1 + growth / 100))
    kept = Wrong("subject", subject=c.other)
    scale = amount * 1000 if amount < 1e9 else amount // 1000
    fields = {
        "c": c.stated,
        "year": str(year),
        "amount": words.money(words, rng, amount, currency),
        "pct": words.share(rng, growth),
        "prev": words.money(words, rng, prev, currency),
    }
    options = (
        Option(
            "amount",
            c.claimed,
            {key: amount},
            "scale word",
            (
                Wrong("scale", {key: scale}),
                Wrong("number", {key: _wrong_number(rng, amount)}),
                Wrong(
                    "currency",
                    {key.replace(currency, other).replace(currency.title(), other.title()): amount},
                    key,
                ),
                Wrong("number", {key: prev}, needs="prev", note=OTHER_ROLE),
                Wrong("invented", {"operating_margin_percent": _percentage(rng, 20)}),
                kept,
            ),
            aliases=c.aliases,
        ),
        Option(
            "amount year",
            c.claimed,
            {"revenue": amount, "currency": currency.upper(), "fiscal_year": year},
            "scale word",
            (
                Wrong("currency", {"currency": other.upper()}),
                Wrong("year", {"fiscal_year": _wrong_year(rng, year)}),
                Wrong("scale", {"revenue": scale}),
            ),
            aliases=c.aliases,
        ),
        Option(
            "pct",
            c.claimed,
            {"revenue_growth_percent": growth},
            "percentage",
            (Wrong("percentage", {"revenue_growth_percent": _wrong_number(rng, growth)}), kept),
            aliases=c.aliases,
        ),
    )
    return Facts(fields, options)


def _employees(words: Words, rng: Random) -> Facts:
    c, (city, other_city) = _company(words, rng), rng.sample(words.cities, 2)
    number = rng.randrange(520, 48_000)
    site = number // rng.randrange(2, 6)
    fields = {
        "c": c.stated,
        "city": city,
        "n": words.number(rng, number),
        "site_n": words.number(rng, site),
    }
    wrong = (
        Wrong("number", {"employees": _wrong_number(rng, number)}),
        Wrong("number", {"employees": site}, needs="site_n", note=OTHER_ROLE),
        Wrong("scale", {"employees": number * 1000}),
        Wrong("subject", subject=c.other),
        Wrong("invented", {"founded": rng.randrange(1880, 2005)}),
        Wrong("invented", {"ceo": rng.choice(words.people)}),
    )
    place = {"employees": number, "headquarters": city}
    return Facts(
        fields,
        (
            Option(
                "n", c.claimed, {"employees": number}, "digit grouping", wrong, aliases=c.aliases
            ),
            Option(
                "site_n city",
                c.claimed,
                place,
                "digit grouping",
                (Wrong("name", {"headquarters": other_city}), *wrong),
                aliases=c.aliases,
            ),
        ),
    )


def _founding(words: Words, rng: Random) -> Facts:
    c, (city, other_city) = _company(words, rng), rng.sample(words.cities, 2)
    founder, other = rng.sample(words.people, 2)
    year = rng.randrange(1871, 2012)
    properties = {"founded": year, "founder": founder}
    wrong = (
        Wrong("year", {"founded": _wrong_year(rng, year)}),
        Wrong("name", {"founder": other}),
        Wrong("subject", subject=c.other),
        Wrong("invented", {"initial_capital_eur": rng.randrange(2, 90) * 1000}),
    )
    ends = (Wrong("edge_end", target=other_city), Wrong("subject", subject=c.other))
    return Facts(
        {"c": c.stated, "city": city, "seat": city, "year": str(year), "founder": founder},
        (
            Option("c year founder", c.claimed, properties, "same text", wrong, aliases=c.aliases),
            Option(
                "c city",
                c.claimed,
                {"founding_place": city},
                "same text",
                (Wrong("name", {"founding_place": other_city}), wrong[2]),
                aliases=c.aliases,
            ),
            Option(
                "seat",
                c.claimed,
                {"headquarters": city},
                "several quotes",
                (Wrong("name", {"headquarters": other_city}), wrong[2]),
                aliases=c.aliases,
            ),
            Option("seat", c.claimed, {}, "several quotes", ends, "located_in", city, c.aliases),
            Option(
                "c founder",
                founder,
                {},
                "same text",
                (Wrong("edge_end", target=c.other), Wrong("subject", subject=other)),
                "founded",
                c.claimed,
                target_aliases=c.aliases,
            ),
        ),
    )


def _ceo(words: Words, rng: Random) -> Facts:
    c, day = _company(words, rng), _day(rng)
    person, predecessor, other = rng.sample(words.people, 3)
    fields = {
        "c": c.stated,
        "person": person,
        "predecessor": predecessor,
        "date": words.day(rng, day),
    }
    wrong = (
        Wrong("date", {"ceo_since": _wrong_day(rng, day)}),
        Wrong("name", {"ceo": other}),
        Wrong(
            "year", {"ceo_since": day.replace(day=min(day.day, 28), year=day.year - 1).isoformat()}
        ),
        Wrong("subject", subject=c.other),
        Wrong("name", {"ceo": predecessor}, needs="predecessor", note=OTHER_ROLE),
    )
    return Facts(
        fields,
        (
            Option(
                "person date",
                c.claimed,
                {"ceo": person, "ceo_since": day.isoformat()},
                "written date",
                wrong,
                aliases=c.aliases,
            ),
            Option(
                "person date c",
                person,
                {"since": day.isoformat()},
                "written date",
                (Wrong("edge_end", target=c.other), Wrong("date", {"since": _wrong_day(rng, day)})),
                "ceo_of",
                c.claimed,
                target_aliases=c.aliases,
            ),
        ),
    )


def _population(words: Words, rng: Random) -> Facts:
    (city, other), year = rng.sample(words.cities, 2), rng.randrange(2011, 2025)
    number = rng.randrange(61_000, 430_000)
    wrong = (
        Wrong("number", {"population": _wrong_number(rng, number)}),
        Wrong("year", {"year": _wrong_year(rng, year)}),
        Wrong("subject", subject=other),
        Wrong("scale", {"population": number * 1000}),
        Wrong("invented", {"area_km2": rng.randrange(40, 300)}),
    )
    return Facts(
        {"city": city, "n": words.number(rng, number), "year": str(year)},
        (
            Option(
                "n year",
                city,
                {"population": number, "year": year},
                "digit grouping",
                wrong,
                "City",
            ),
        ),
    )


def _power(words: Words, rng: Random) -> Facts:
    plant, other = rng.sample(words.plants, 2)
    capacity, homes, invest = (
        rng.randrange(18, 640),
        rng.randrange(9, 400) * 1000,
        _amount(rng, 9e8),
    )
    fields = {
        "plant": plant,
        "capacity": str(capacity),
        "households": words.number(rng, homes),
        "invest": words.money(words, rng, invest, words.currency),
    }
    cost = f"cost_{words.currency}"
    subject = Wrong("subject", subject=other)
    return Facts(
        fields,
        (
            Option(
                "capacity",
                plant,
                {"capacity_mw": capacity},
                "unit word",
                (
                    Wrong("number", {"capacity_mw": _wrong_number(rng, capacity)}),
                    Wrong("unit", {"capacity_kw": capacity}, "capacity_mw"),
                    Wrong("unit", {"capacity_gw": capacity}, "capacity_mw"),
                    Wrong("invented", {"turbines": rng.randrange(9, 90)}),
                    subject,
                ),
                "PowerPlant",
            ),
            Option(
                "capacity",
                plant,
                {"capacity_kw": capacity * 1000},
                "unit scale",
                (Wrong("unit", {"capacity_kw": capacity}), subject),
                "PowerPlant",
            ),
            Option(
                "households",
                plant,
                {"households_supplied": homes},
                "digit grouping",
                (Wrong("number", {"households_supplied": _wrong_number(rng, homes)}), subject),
                "PowerPlant",
            ),
            Option(
                "invest",
                plant,
                {cost: invest},
                "scale word",
                (
                    Wrong("scale", {cost: invest * 1000}),
                    Wrong(
                        "currency", {f"cost_{_other_currency(rng, words.currency)}": invest}, cost
                    ),
                ),
                "PowerPlant",
            ),
        ),
    )


def _takeover(words: Words, rng: Random) -> Facts:
    (full, short), (b, b_short), (d, _) = rng.sample(words.companies, 3)
    day, amount, currency = _day(rng), _amount(rng, 3e9), _currency(words, rng)
    key = f"price_{currency}"
    fields = {
        "c": full,
        "b": b,
        "date": words.day(rng, day),
        "closed": words.day(rng, day),
        "amount": words.money(words, rng, amount, currency),
    }
    price = Option(
        "c b amount",
        short,
        {key: amount},
        "scale word",
        (
            Wrong("scale", {key: amount * 1000}),
            Wrong("currency", {f"price_{_other_currency(rng, currency)}": amount}, key),
            Wrong("edge_end", target=d),
            Wrong("subject", subject=d),
            Wrong("number", {key: _wrong_number(rng, amount)}),
        ),
        "acquires",
        b_short,
        (full,),
        (b,),
    )
    dated = Option(
        "c b date",
        full,
        {"announced": day.isoformat()},
        "written date",
        (Wrong("date", {"announced": _wrong_day(rng, day)}), Wrong("edge_end", target=d)),
        "acquires",
        b,
    )
    closed = Option(
        "c b closed",
        full,
        {"completed": day.isoformat()},
        "written date",
        (Wrong("date", {"completed": _wrong_day(rng, day)}), Wrong("subject", subject=d)),
        "acquires",
        b,
    )
    return Facts(fields, (price, dated, closed))


def _price(words: Words, rng: Random) -> Facts:
    (metal, english), (_, other) = rng.sample(words.metals, 2)
    price, change = rng.randrange(1800, 31_000), _percentage(rng, 9)
    fields = {
        "commodity": metal,
        "Commodity": metal.capitalize(),
        "price": words.number(rng, price),
        "pct": words.share(rng, change),
    }
    key = "price_usd_per_tonne"
    aliases = (metal,) if metal != english else ()
    subject = Wrong("subject", subject=other)
    return Facts(
        fields,
        (
            Option(
                "price",
                english,
                {key: price},
                "alias" if words.language != "en" else "currency symbol",
                (
                    Wrong("number", {key: _wrong_number(rng, price)}),
                    Wrong("unit", {"price_usd_per_kg": price}, key),
                    Wrong("currency", {"price_eur_per_tonne": price}, key),
                    subject,
                ),
                "Commodity",
                aliases=aliases,
            ),
            Option(
                "pct",
                english,
                {"weekly_change_percent": change},
                "percentage",
                (
                    Wrong("percentage", {"weekly_change_percent": _wrong_number(rng, change)}),
                    subject,
                ),
                "Commodity",
                aliases=aliases,
            ),
        ),
    )


def _rate(words: Words, rng: Random) -> Facts:
    (bank, other), day = rng.sample(words.banks, 2), _day(rng)
    old, new = rng.sample([n / 4 for n in range(3, 26)], 2)
    percent = rng.choice(words.percent)
    fields = {
        "bank": bank,
        "rate": percent.format(words.number(rng, new)),
        "old_rate": percent.format(words.number(rng, old)),
        "date": words.day(rng, day),
    }
    key = "interest_rate_percent"
    return Facts(
        fields,
        (
            Option(
                "rate date",
                bank,
                {key: _short(new), "effective_from": day.isoformat()},
                "written date",
                (
                    Wrong("percentage", {key: _short(new + rng.choice((0.3, 0.8, 1.1)))}),
                    Wrong("date", {"effective_from": _wrong_day(rng, day)}),
                    Wrong("percentage", {key: _short(old)}, needs="old_rate", note=OTHER_ROLE),
                    Wrong("subject", subject=other),
                ),
                "CentralBank",
            ),
        ),
    )


def _visitors(words: Words, rng: Random) -> Facts:
    (museum, other), year = rng.sample(words.museums, 2), rng.randrange(2014, 2025)
    number, change = rng.randrange(21_000, 890_000), _percentage(rng, 25)
    fields = {
        "museum": museum,
        "year": str(year),
        "n": words.number(rng, number),
        "pct": words.share(rng, change),
    }
    return Facts(
        fields,
        (
            Option(
                "n year",
                museum,
                {"visitors": number, "year": year},
                "digit grouping",
                (
                    Wrong("number", {"visitors": _wrong_number(rng, number)}),
                    Wrong("year", {"year": _wrong_year(rng, year)}),
                    Wrong("subject", subject=other),
                    Wrong("invented", {"exhibits": rng.randrange(300, 9000)}),
                ),
                "Museum",
            ),
            Option(
                "pct",
                museum,
                {"visitor_growth_percent": change},
                "percentage",
                (Wrong("percentage", {"visitor_growth_percent": _wrong_number(rng, change)}),),
                "Museum",
            ),
        ),
    )


def _jobs(words: Words, rng: Random) -> Facts:
    (region, other), day = rng.sample(words.regions, 2), _day(rng).replace(day=1)
    rate, number = rng.randrange(31, 149) / 10, rng.randrange(9_000, 96_000)
    fields = {
        "region": region,
        "rate": words.share(rng, _short(rate)),
        "month": words.month_of(day),
        "n": words.number(rng, number),
    }
    key = "unemployment_rate_percent"
    later = (day.replace(month=day.month % 12 + 1)).isoformat()[:7]
    return Facts(
        fields,
        (
            Option(
                "rate month",
                region,
                {key: _short(rate), "month": day.isoformat()[:7]},
                "month",
                (
                    Wrong("percentage", {key: _wrong_number(rng, _short(rate))}),
                    Wrong("date", {"month": later}),
                    Wrong("subject", subject=other),
                ),
                "Region",
            ),
            Option(
                "n",
                region,
                {"unemployed": number},
                "several quotes",
                (
                    Wrong("number", {"unemployed": _wrong_number(rng, number)}),
                    Wrong("scale", {"unemployed": number * 1000}),
                ),
                "Region",
            ),
        ),
    )


def _bridge(words: Words, rng: Random) -> Facts:
    (bridge, other), year = rng.sample(words.bridges, 2), rng.randrange(1954, 2024)
    length, cost = rng.randrange(180, 3900), _amount(rng, 7e8)
    fields = {
        "bridge": bridge,
        "length": words.number(rng, length),
        "year": str(year),
        "cost": words.money(words, rng, cost, words.currency),
    }
    return Facts(
        fields,
        (
            Option(
                "length year",
                bridge,
                {"length_m": length, "opened": year},
                "unit word",
                (
                    Wrong("unit", {"length_ft": length}, "length_m"),
                    Wrong("unit", {"length_km": length}, "length_m"),
                    Wrong("number", {"length_m": _wrong_number(rng, length)}),
                    Wrong("year", {"opened": _wrong_year(rng, year)}),
                    Wrong("subject", subject=other),
                ),
                "Bridge",
            ),
            Option(
                "length",
                bridge,
                {"length_km": length / 1000},
                "unit scale",
                (Wrong("unit", {"length_miles": length / 1000}, "length_km"),),
                "Bridge",
            ),
        ),
    )


def _study(words: Words, rng: Random) -> Facts:
    name, other_name = rng.sample(("ALBA", "NEVIS", "TILIA", "ORION", "CEDRA"), 2)
    university, other = rng.sample(words.universities, 2)
    number, share = rng.randrange(84, 4200), _percentage(rng, 88)
    fields = {
        "study": name,
        "university": university,
        "n": words.number(rng, number),
        "pct": words.share(rng, share),
    }
    subject = Wrong("subject", subject=words.trial.format(other_name))
    trial = words.trial.format(name)
    return Facts(
        fields,
        (
            Option(
                "n pct",
                trial,
                {"participants": number, "improved_percent": share},
                "several quotes",
                (
                    Wrong("number", {"participants": _wrong_number(rng, number)}),
                    Wrong("percentage", {"improved_percent": _wrong_number(rng, share)}),
                    subject,
                    Wrong("invented", {"duration_weeks": rng.randrange(6, 104)}),
                ),
                "Study",
            ),
            Option(
                "university",
                trial,
                {},
                "same text",
                (Wrong("edge_end", target=other), subject),
                "conducted_by",
                university,
            ),
        ),
    )


def _range(words: Words, rng: Random) -> Facts:
    c, year = _company(words, rng), rng.randrange(2019, 2027)
    low = rng.randrange(12, 180) * 5
    high = low + rng.randrange(1, 8) * 5
    keys = ("revenue_guidance_min_eur", "revenue_guidance_max_eur")
    return Facts(
        {"c": c.stated, "year": str(year), "low": str(low), "high": str(high)},
        (
            Option(
                "low high year",
                c.claimed,
                {keys[0]: low * 1_000_000, keys[1]: high * 1_000_000, "year": year},
                "range",
                (
                    Wrong("number", {keys[1]: (high + rng.randrange(2, 9) * 10) * 1_000_000}),
                    Wrong("scale", {keys[0]: low * 1000, keys[1]: high * 1000}),
                    Wrong("year", {"year": _wrong_year(rng, year)}),
                    Wrong("subject", subject=c.other),
                ),
                aliases=c.aliases,
            ),
        ),
    )


def _word(words: Words, rng: Random) -> Facts:
    c, place = _company(words, rng), rng.randrange(11)
    count = place + 2
    wrong_count = count + rng.choice((1, 2, 3))
    fields = {"c": c.stated, "word": words.number_words[place], "city": rng.choice(words.cities)}
    return Facts(
        fields,
        (
            Option(
                "c word",
                c.claimed,
                {"factories": count},
                "number word",
                (Wrong("number", {"factories": wrong_count}), Wrong("subject", subject=c.other)),
                aliases=c.aliases,
            ),
            Option(
                "word !c",
                c.claimed,
                {"branches": count},
                "number word",
                (
                    Wrong("number", {"branches": wrong_count}),
                    Wrong(
                        "invented",
                        rng.choice(({"countries": 19}, {"founded": 1961}, {"employees": 740})),
                    ),
                ),
                aliases=c.aliases,
            ),
        ),
    )


def _product(words: Words, rng: Random) -> Facts:
    c, (city, other_city) = _company(words, rng), rng.sample(words.cities, 2)
    first, second, third, other = rng.sample(words.products, 4)
    return Facts(
        {"c": c.stated, "city": city, "p1": first, "p2": second, "p3": third},
        (
            Option(
                "city p1",
                c.claimed,
                {"location": city},
                "same text",
                (
                    Wrong("edge_end", target=other),
                    Wrong("name", {"location": other_city}),
                    Wrong("subject", subject=c.other),
                ),
                "produces",
                first,
                c.aliases,
            ),
            Option(
                "p1 p2 p3",
                c.claimed,
                {"products": [first, second, third]},
                "list",
                (
                    Wrong("name", {"products": [first, second, other]}),
                    Wrong("invented", {"products": [first, second, third, other]}),
                ),
                aliases=c.aliases,
            ),
        ),
    )


def _law(words: Words, rng: Random) -> Facts:
    (law, other), day, votes = (
        rng.sample(words.laws, 2),
        _day(rng, 2019, 2027),
        rng.randrange(51, 340),
    )
    return Facts(
        {"law": law, "date": words.day(rng, day), "votes": str(votes)},
        (
            Option(
                "date votes",
                law,
                {"in_force_from": day.isoformat(), "votes_in_favour": votes},
                "written date",
                (
                    Wrong("date", {"in_force_from": _wrong_day(rng, day)}),
                    Wrong("number", {"votes_in_favour": _wrong_number(rng, votes)}),
                    Wrong("subject", subject=other),
                    Wrong(
                        "invented",
                        rng.choice(
                            (
                                {"votes_against": votes // 2 + 7},
                                {"abstentions": 13},
                                {"articles": 42},
                            )
                        ),
                    ),
                ),
                "Law",
            ),
        ),
    )


def _infobox(words: Words, rng: Random) -> Facts:
    c, (city, other_city), year = (
        _company(words, rng),
        rng.sample(words.cities, 2),
        rng.randrange(1890, 2016),
    )
    number, (person, other), amount = (
        rng.randrange(60, 9000),
        rng.sample(words.people, 2),
        _amount(rng, 3e9),
    )
    fields = {
        "c": c.stated,
        "city": city,
        "year": str(year),
        "n": words.number(rng, number),
        "person": person,
        "amount": words.money(words, rng, amount, words.currency),
        "report": str(rng.randrange(2018, 2026)),
    }
    key = f"revenue_{words.currency}"
    return Facts(
        fields,
        (
            Option(
                "city year n",
                c.claimed,
                {"founded": year, "headquarters": city, "employees": number},
                "title",
                (
                    Wrong("year", {"founded": _wrong_year(rng, year)}),
                    Wrong("name", {"headquarters": other_city}),
                    Wrong("number", {"employees": _wrong_number(rng, number)}),
                    Wrong("subject", subject=c.other),
                ),
                aliases=c.aliases,
            ),
            Option(
                "person amount",
                c.claimed,
                {"ceo": person, key: amount},
                "title",
                (
                    Wrong("name", {"ceo": other}),
                    Wrong("scale", {key: amount * 1000 if amount < 1e9 else amount // 1000}),
                    Wrong(
                        "currency", {f"revenue_{_other_currency(rng, words.currency)}": amount}, key
                    ),
                ),
                aliases=c.aliases,
            ),
        ),
    )


COUNTRIES = (
    "Kenya",
    "Portugal",
    "Norway",
    "Poland",
    "Chile",
    "Ghana",
    "Hungary",
    "Greece",
    "Morocco",
    "Iceland",
    "Uruguay",
    "Croatia",
    "Thailand",
)
"""Countries of the Factbook that pages of other languages tell of."""
NUMBER = re.compile(r"-?\d[\d,]*(?:\.\d+)?")


def _country(words: Words, rng: Random) -> Facts:
    place, other = rng.sample(range(len(COUNTRIES)), 2)
    stated = {fact.path: fact.text for fact in _countries()[COUNTRIES[place]].facts}
    population = int(_number(stated["Population, total"]))
    area = int(_number(stated["Area, total"]))
    gdp = round(_number(stated["GDP (official exchange rate)"]), 1)
    gdp_usd = int(round(gdp * 10) * 10**8)
    local = words.countries[place]
    rule = "alias" if local != COUNTRIES[place] else "digit grouping"
    subject = Wrong("subject", subject=COUNTRIES[other])
    fields = {
        "country": local,
        "population": words.number(rng, population),
        "area": words.number(rng, area),
        "gdp": words.money(words, rng, gdp_usd, "usd"),
    }
    aliases = (local,) if local != COUNTRIES[place] else ()
    return Facts(
        fields,
        (
            Option(
                "population area",
                COUNTRIES[place],
                {"population": population, "area_km2": area},
                rule,
                (
                    Wrong("number", {"population": _wrong_number(rng, population)}),
                    Wrong("unit", {"area_sq_miles": area}, "area_km2"),
                    subject,
                ),
                "Country",
                aliases=aliases,
            ),
            Option(
                "gdp",
                COUNTRIES[place],
                {"gdp_usd": gdp_usd},
                rule if rule == "alias" else "scale word",
                (
                    Wrong("scale", {"gdp_usd": gdp_usd // 1000}),
                    Wrong("currency", {"gdp_eur": gdp_usd}, "gdp_usd"),
                    Wrong("number", {"gdp_usd": _wrong_number(rng, gdp_usd)}),
                ),
                "Country",
                aliases=aliases,
            ),
        ),
    )


def _countries() -> dict[str, factbook.Country]:
    """Return the countries of the Factbook by the name that its documents use."""
    if not COUNTRIES_BY_NAME:
        COUNTRIES_BY_NAME.update({country.names[0]: country for country in factbook.countries()})
    return COUNTRIES_BY_NAME


COUNTRIES_BY_NAME: dict[str, factbook.Country] = {}


def _number(text: str) -> float:
    """Return the first number in a text of the Factbook, as written: 308.683 of `$308.683 billion`."""
    match = NUMBER.search(text)
    if match is None:
        raise ValueError(f"There is no number in {text!r}.")
    return float(match.group().replace(",", ""))


TOPICS: Mapping[str, Callable[[Words, Random], Facts]] = {
    "revenue": _revenue,
    "employees": _employees,
    "founding": _founding,
    "ceo": _ceo,
    "population": _population,
    "power": _power,
    "takeover": _takeover,
    "price": _price,
    "rate": _rate,
    "visitors": _visitors,
    "jobs": _jobs,
    "bridge": _bridge,
    "study": _study,
    "range": _range,
    "word": _word,
    "product": _product,
    "law": _law,
    "infobox": _infobox,
    "country": _country,
}
CASES_PER_TOPIC = 3
STATUS_CASES = 5


@dataclass(frozen=True)
class Form:
    """A page with fields in braces; `cited` are the places of the sentences that are quoted."""

    title: str
    heading: str
    sentences: tuple[str, ...]
    cited: tuple[int, ...]


def _forms(language: str) -> dict[str, list[Form]]:
    """Return the forms of a language by topic."""
    found: dict[str, list[Form]] = {}
    for block in FORMS_TEXT[language].strip().split("@")[1:]:
        topic, _, rest = _in_one_line(block).partition(" ")
        title, heading, *sentences = rest.split(" | ")
        cited = tuple(place for place, text in enumerate(sentences) if text.startswith("*"))
        plain = tuple(text.removeprefix("*") for text in sentences)
        found.setdefault(topic, []).append(Form(title, heading, plain, cited))
    return found


def _supports(form: Form, needs: str) -> bool:
    """Whether the form's quotes state every field in `needs`, and none that is marked with `!`."""
    quoted = " ".join(form.sentences[place] for place in form.cited)
    return all(
        (f"{{{need.removeprefix('!')}}}" in quoted) != need.startswith("!")
        for need in needs.split()
    )


def _sentence_cases(words: Words, rng: Random) -> list[EvidenceCase]:
    forms, used, found = _forms(words.language), Counter[str](), []
    for offset, (topic, facts_of) in enumerate(TOPICS.items()):
        for number in range(1, CASES_PER_TOPIC + 1):
            form = forms[topic][(number - 1) % len(forms[topic])]
            false = (offset + number + LANGUAGES.index(words.language)) % 2 == 0
            found.append(
                _sentence_case(words, rng, topic, number, form, facts_of(words, rng), used, false)
            )
    return found


def _sentence_case(
    words: Words,
    rng: Random,
    topic: str,
    number: int,
    form: Form,
    facts: Facts,
    used: Counter[str],
    false: bool,
) -> EvidenceCase:
    """Make one case; a false one has the fault that was used least in its language so far."""
    option = rng.choice([one for one in facts.options if _supports(form, one.needs)])
    wrong = None
    if false:
        possible = [one for one in option.wrong if _supports(form, one.needs)]
        wrong = min(possible, key=lambda one: (used[one.fault + one.note], rng.random()))
        used[wrong.fault + wrong.note] += 1
    fill = _filler(words, facts.fields)
    sentences = [fill(text).replace("..", ".") for text in form.sentences]
    title, heading = fill(form.title), fill(form.heading)
    title = title[0].upper() + title[1:]
    quotes = tuple(_needed(form, f"{option.needs} {wrong.needs if wrong else ''}", sentences))
    properties = dict(option.properties)
    if wrong is not None:
        properties = {
            k: v for k, v in {**properties, **wrong.properties}.items() if k != wrong.without
        }
    named = (option.subject, *option.aliases)
    rule = option.rule
    if not any(name.lower() in quote.lower() for name in named for quote in quotes):
        rule = "title" if any(name.lower() in title.lower() for name in named) else "heading"
    elif rule in ("same text", "digit grouping") and option.subject not in " ".join(quotes):
        rule = "alias" if option.type_name == "Country" else "legal form"
    return EvidenceCase(
        id=f"{words.language}-sentence-{topic}-{number}",
        language=words.language,
        title=title,
        heading=heading,
        page="".join(text + (" " if text.endswith(".") else "\n") for text in sentences).strip(),
        quotes=quotes,
        subject=(wrong and wrong.subject) or option.subject,
        properties=properties,
        kind="edge" if option.target else "node",
        type_name=option.type_name,
        target=(wrong and wrong.target) or option.target,
        aliases=() if wrong and wrong.subject else option.aliases,
        target_aliases=() if wrong and wrong.target else option.target_aliases,
        fault=wrong.fault if wrong else None,
        rule="" if wrong else rule,
        note=wrong.note if wrong else "",
    )


def _needed(form: Form, needed: str, sentences: Sequence[str]) -> list[str]:
    """Return the first quote and those that state what the claim needs."""
    needs = [f"{{{need}}}" for need in needed.split() if not need.startswith("!")]
    places = [
        p for p in form.cited if p == form.cited[0] or any(n in form.sentences[p] for n in needs)
    ]
    return [sentences[place] for place in places]


IL = re.compile(r"\b([Ii])l (?=8\d*[,% ]|11[,% ]|1[,%])")
ARTICLE = re.compile(r"\b([Dd]e|[Dd]a|[Nn]e|[Aa])l (?=8\d*[,% ]|11[,% ]|1[,%])")


def _filler(words: Words, fields: Mapping[str, str]) -> Callable[[str], str]:
    """Return a function that fills a form."""

    def fill(text: str) -> str:
        text = text.format(**fields)
        return _elided(text) if words.language == "it" else text

    return fill


def _elided(text: str) -> str:
    """Write Italian articles as they stand before a number that begins with a vowel: `dell'8%`."""
    text = IL.sub(lambda match: "L'" if match[1] == "I" else "l'", text)
    return ARTICLE.sub(r"\1ll'", text)


def _status_cases(words: Words, rng: Random) -> list[EvidenceCase]:
    """Make cases of sentences that deny something."""
    found = []
    for number, status in enumerate(rng.sample(words.status, STATUS_CASES), start=1):
        c, city = _company(words, rng), rng.choice(words.cities)
        false = number % 2 == (0 if words.language in ("en", "fr", "it") else 1)
        sentence = status.sentence.format(c=c.stated, city=city)
        claimed = status.false if false else status.true
        properties = {
            key: value.format(c=c.claimed, city=city) if isinstance(value, str) else value
            for key, value in claimed.items()
        }
        found.append(
            EvidenceCase(
                id=f"{words.language}-status-{number}",
                language=words.language,
                title=c.stated,
                heading="",
                page=sentence,
                quotes=(sentence,),
                subject=c.claimed,
                properties=properties,
                type_name="Company",
                aliases=c.aliases,
                fault="negation" if false else None,
                rule="" if false else status.rule,
                note=status.note if false else "",
            )
        )
    return found


FORMS_TEXT: Mapping[str, str] = {
    "en": """
@revenue {c} annual report {year} | Key figures | *{c} generated revenue of {amount} in {year}, {pct} more than
  the year before. | The supervisory board meets again in March.
@revenue {c} beats forecasts | Markets | *Sales at {c} rose {pct} to {amount} in {year}. | *In the previous year
  the group had taken {prev}. | Analysts had expected slightly less.
@revenue Results: {c} | Full year {year} | {c} presented its accounts on Wednesday. | *Revenue for the year came
  in at {amount}, an increase of {pct}.
@employees About {c} | Who we are | *{c} has {n} employees, {site_n} of them at its head office in {city}. | We
  train apprentices in nine trades.
@employees {c} to hire in {city} | Jobs | *With {n} staff, {c} is one of the largest private employers in
  {city}. | The canteen opened last summer.
@founding {c} – company history | The early years | *{c} was founded in {city} in {year} by {founder}. | The
  first workshop stood behind the railway station.
@founding {c} | History | *{founder} set up {c} in {year} with a loan from an uncle. | *The company is still
  based in {seat}.
@ceo {c} names new chief executive | People | *{c} has appointed {person} as chief executive with effect from
  {date}. | *{person} succeeds {predecessor}, who is retiring.
@ceo Change at the top of {c} | Management | *{person} takes over as CEO of {c} on {date}, the company said. |
  Trade unions welcomed the decision.
@population {city} – facts and figures | Population | *{city} had {n} inhabitants at the end of {year}. | The
  oldest parish register dates from the sixteenth century.
@population Census results for {city} | Demography | *According to the {year} census, {n} people live in {city}.
  | About a third of the households consist of one person.
@power {plant} goes online | Energy | *The {plant} has an installed capacity of {capacity} MW and supplies
  around {households} homes. | It stands on former moorland.
@power {plant} – project page | Key data | Planning took six years. | *The {plant} cost {invest} to build and
  delivers up to {capacity} megawatts.
@takeover {c} swallows rival | Deals | *{c} is buying {b} for {amount}, both companies said on {date}. | The
  deal still needs the approval of the regulator.
@takeover {b} sold | Mergers | *On {closed}, {c} completed the acquisition of {b}. | *The price was {amount}.
@price Metals: {commodity} | Prices | *{Commodity} traded at ${price} a tonne in London on Friday, {pct} higher
  on the week. | Stocks in warehouses fell again.
@rate {bank} moves | Monetary policy | *The {bank} changed its key rate to {rate} from {old_rate} on {date}. |
  The decision had been expected by most economists.
@rate Key rate now {rate} | Monetary policy | *With effect from {date}, the policy rate of the {bank} stands at
  {rate}. | The next meeting is in six weeks.
@visitors {museum}: a good year | Culture | *The {museum} counted {n} visitors in {year}, {pct} more than a year
  before. | Admission is free on Sundays.
@jobs Labour market in {region} | Unemployment | *The unemployment rate in {region} was {rate} in {month}. |
  *{n} people were out of work. | Seasonal effects played no part.
@bridge {bridge} | Technical data | *The {bridge} is {length} metres long and was opened in {year}. | *It cost
  {cost}. | Cyclists have a lane of their own.
@study {study} trial published | Medicine | *The {study} trial at the {university} enrolled {n} patients. |
  *Symptoms improved in {pct} of them. | The authors call for longer studies.
@range {c} confirms outlook | Outlook | *{c} expects sales of between {low} and {high} million euros in {year}.
  | Raw materials remain dear.
@word {c} at a glance | Locations | *{c} runs {word} factories in Europe. | Each of them has its own fire
  brigade.
@word {c} expands | Network | *The group now has {word} branches. | The newest one opened in {city} in May.
@product {c} in {city} | Production | *At its plant in {city}, {c} makes {p1}. | The site covers nine hectares.
@product What {c} sells | Range | *The range of {c} comprises {p1}, {p2} and {p3}. | Spare parts are kept for 15
  years.
@law New rules from {date} | Legislation | *The {law} comes into force on {date}. | *Parliament passed it with
  {votes} votes in favour. | Transitional rules apply to small firms.
@infobox {c} | Company profile | *Founded: {year} | *Headquarters: {city} | *Employees: {n} | Auditor: Holt &
  Partners
@infobox {c} | Fact sheet | Legal form: corporation | *CEO: {person} | *Revenue: {amount} ({report})
@country {country} – country profile | Data | *{country} has a population of {population}. | *It covers an area
  of {area} square kilometres. | Most visitors come in spring.
@country {country}: economy | Overview | *The gross domestic product of {country} is put at {gdp}. | Agriculture
  has lost ground for decades.
""",
    "de": """
@revenue {c}: Geschäftsbericht {year} | Kennzahlen | *{c} erzielte {year} einen Umsatz von {amount}, ein Plus
  von {pct} gegenüber dem Vorjahr. | Der Aufsichtsrat tagt im März.
@revenue {c} wächst | Unternehmen | *Der Umsatz von {c} kletterte {year} um {pct} auf {amount}. | *Im Vorjahr
  waren es {prev}. | Analysten hatten etwas weniger erwartet.
@revenue Bilanz: {c} | Geschäftsjahr {year} | Die Zahlen stellte der Finanzvorstand am Mittwoch vor. | *Die
  Erlöse beliefen sich auf {amount} und lagen damit um {pct} höher als im Jahr davor.
@employees Über {c} | Wer wir sind | *{c} beschäftigt {n} Mitarbeiterinnen und Mitarbeiter, davon {site_n} am
  Stammsitz in {city}. | Wir bilden in neun Berufen aus.
@employees {c} sucht Personal | Arbeitsmarkt | *Mit {n} Beschäftigten zählt {c} zu den größten Arbeitgebern in
  {city}. | Die Kantine wurde im Sommer umgebaut.
@founding {c} – Firmengeschichte | Die Anfänge | *{c} wurde {year} von {founder} in {city} gegründet. | Die
  erste Werkstatt lag hinter dem Bahnhof.
@founding {c} | Geschichte | *Im Jahr {year} gründete {founder} mit geliehenem Geld {c}. | *Bis heute hat das
  Unternehmen seinen Sitz in {seat}.
@ceo Neuer Chef bei {c} | Personalien | *{person} übernimmt zum {date} den Vorstandsvorsitz von {c}. | *{person}
  folgt auf {predecessor}.
@ceo Führungswechsel | {c} | *Der Aufsichtsrat hat {person} mit Wirkung vom {date} an die Spitze von {c}
  berufen. | Die Gewerkschaft begrüßte die Entscheidung.
@population {city} in Zahlen | Bevölkerung | *{city} zählte Ende {year} genau {n} Einwohner. | Das älteste
  Kirchenbuch stammt aus dem 16. Jahrhundert.
@population Zensus: {city} | Demografie | *Laut Zensus {year} leben in {city} {n} Menschen. | In einem Drittel
  der Haushalte lebt nur eine Person.
@power {plant} am Netz | Energie | *Der {plant} hat eine installierte Leistung von {capacity} MW und versorgt
  rechnerisch {households} Haushalte. | Er steht auf einem früheren Moor.
@power {plant} | Projektdaten | Die Planung dauerte sechs Jahre. | *Der {plant} hat {invest} gekostet und
  leistet bis zu {capacity} Megawatt.
@takeover {c} kauft zu | Übernahmen | *{c} übernimmt für {amount} das Unternehmen {b}, wie beide Unternehmen am
  {date} mitteilten. | Das Kartellamt muss noch zustimmen.
@takeover {b} verkauft | Fusionen | *Am {closed} hat {c} die Übernahme von {b} abgeschlossen. | *Der Kaufpreis
  lag bei {amount}.
@price Metalle: {commodity} | Rohstoffe | *Die Tonne {commodity} kostete am Freitag in London {price} Dollar,
  {pct} mehr als in der Vorwoche. | Die Lagerbestände sanken erneut.
@rate {bank} bewegt sich | Geldpolitik | *Die {bank} hat den Leitzins am {date} von {old_rate} auf {rate}
  geändert. | Die meisten Volkswirte hatten damit gerechnet.
@rate Leitzins bei {rate} | Geldpolitik | *Seit dem {date} liegt der Leitzins bei {rate}, wie die {bank}
  mitteilte. | Die nächste Sitzung findet in sechs Wochen statt.
@visitors {museum}: gutes Jahr | Kultur | *Das {museum} zählte {year} insgesamt {n} Besucher, {pct} mehr als ein
  Jahr zuvor. | Sonntags ist der Eintritt frei.
@jobs Arbeitsmarkt in {region} | Arbeitslosigkeit | *Die Arbeitslosenquote in {region} lag im {month} bei
  {rate}. | *{n} Menschen waren ohne Arbeit. | Saisonale Effekte spielten keine Rolle.
@bridge {bridge} | Technische Daten | *Die {bridge} ist {length} Meter lang und wurde {year} eingeweiht. | *Sie
  kostete {cost}. | Radfahrer haben eine eigene Spur.
@study {study}-Studie erschienen | Medizin | *An der {study}-Studie der {university} nahmen {n} Patienten teil.
  | *Bei {pct} von ihnen besserten sich die Beschwerden. | Die Autoren fordern längere Studien.
@range {c} bestätigt Prognose | Ausblick | *{c} rechnet für {year} mit einem Umsatz zwischen {low} und {high}
  Millionen Euro. | Rohstoffe bleiben teuer.
@word {c} auf einen Blick | Standorte | *{c} betreibt {word} Werke in Europa. | Jedes hat eine eigene Feuerwehr.
@word {c} wächst weiter | Filialnetz | *Das Unternehmen hat jetzt {word} Filialen. | Die jüngste wurde im Mai in
  {city} eröffnet.
@product {c} in {city} | Produktion | *Im Werk {city} stellt {c} {p1} her. | Das Gelände ist neun Hektar groß.
@product Sortiment von {c} | Produkte | *Zum Sortiment von {c} gehören {p1}, {p2} und {p3}. | Ersatzteile gibt
  es 15 Jahre lang.
@law Neue Regeln ab {date} | Gesetzgebung | *Das {law} tritt am {date} in Kraft. | *Der Landtag hatte es mit
  {votes} Stimmen verabschiedet. | Für Kleinbetriebe gelten Übergangsfristen.
@infobox {c} | Steckbrief | *Gründung: {year} | *Sitz: {city} | *Mitarbeiter: {n} | Wirtschaftsprüfer: Holt &
  Partner
@infobox {c} | Auf einen Blick | Rechtsform: Kapitalgesellschaft | *Vorstandsvorsitz: {person} | *Umsatz:
  {amount} ({report})
@country {country} – Länderprofil | Daten | *{country} hat {population} Einwohner. | *Die Fläche beträgt {area}
  Quadratkilometer. | Die meisten Reisenden kommen im Frühjahr.
@country {country}: Wirtschaft | Überblick | *Das Bruttoinlandsprodukt von {country} wird auf {gdp} geschätzt. |
  Die Landwirtschaft verliert seit Jahrzehnten an Gewicht.
""",
    "fr": """
@revenue {c} : rapport annuel {year} | Chiffres clés | *{c} a réalisé en {year} un chiffre d'affaires de
  {amount}, en hausse de {pct} sur un an. | Le conseil se réunira en mars.
@revenue {c} fait mieux que prévu | Entreprises | *Les ventes de {c} ont progressé de {pct} en {year}, à
  {amount}. | *Elles s'élevaient à {prev} l'année précédente. | Les analystes attendaient un peu moins.
@revenue Résultats : {c} | Exercice {year} | Le directeur financier a présenté les comptes mercredi. | *Le
  chiffre d'affaires ressort à {amount}, soit une progression de {pct}.
@employees À propos de {c} | Qui sommes-nous | *{c} emploie {n} personnes, dont {site_n} à son siège de {city}.
  | Nous formons des apprentis à neuf métiers.
@employees {c} recrute | Emploi | *Avec {n} salariés, {c} est l'un des premiers employeurs privés de {city}. |
  La cantine a été refaite cet été.
@founding {c} — histoire | Les débuts | *{c} a été fondée en {year} à {city} par {founder}. | Le premier atelier
  se trouvait derrière la gare.
@founding {c} | Historique | *En {year}, {founder} crée {c} avec l'argent d'un oncle. | *L'entreprise a toujours
  son siège à {seat}.
@ceo {c} change de tête | Nominations | *{person} prendra la direction générale de {c} le {date}. | *{person}
  succède à {predecessor}, qui part à la retraite.
@ceo Nomination | {c} | *Le conseil d'administration de {c} a nommé {person} à la direction générale à compter
  du {date}. | Les syndicats ont salué ce choix.
@population {city} en chiffres | Population | *{city} comptait {n} habitants fin {year}. | Le plus ancien
  registre paroissial date du XVIe siècle.
@population Recensement : {city} | Démographie | *Selon le recensement de {year}, {n} personnes vivent à {city}.
  | Un ménage sur trois ne compte qu'une personne.
@power {plant} : mise en service | Énergie | *Le {plant} affiche une puissance installée de {capacity} MW et
  alimente environ {households} foyers. | Il occupe d'anciennes landes.
@power {plant} | Fiche technique | Les études ont duré six ans. | *Le {plant} a coûté {invest} et fournit
  jusqu'à {capacity} mégawatts.
@takeover {c} s'agrandit | Acquisitions | *{c} rachète {b} pour {amount}, ont annoncé les deux sociétés le
  {date}. | L'accord doit encore être autorisé.
@takeover {b} change de mains | Fusions | *Le {closed}, {c} a bouclé l'acquisition de {b}. | *Le prix s'élève à
  {amount}.
@price Métaux : {commodity} | Matières premières | *La tonne de {commodity} s'échangeait vendredi à {price}
  dollars à Londres, en hausse de {pct} sur la semaine. | Les stocks ont encore reculé.
@rate La {bank} bouge | Politique monétaire | *La {bank} a fait passer son taux directeur de {old_rate} à {rate}
  le {date}. | La plupart des économistes s'y attendaient.
@rate Taux directeur à {rate} | Politique monétaire | *Depuis le {date}, le taux directeur de la {bank} est de
  {rate}. | La prochaine réunion aura lieu dans six semaines.
@visitors {museum} : une bonne année | Culture | *Le {museum} a accueilli {n} visiteurs en {year}, soit {pct} de
  plus qu'un an plus tôt. | L'entrée est gratuite le dimanche.
@jobs Marché du travail : {region} | Chômage | *Le taux de chômage en {region} s'établissait à {rate} en
  {month}. | *{n} personnes étaient sans emploi. | Les effets saisonniers n'ont joué aucun rôle.
@bridge {bridge} | Données techniques | *Le {bridge} mesure {length} mètres de long et a été inauguré en {year}.
  | *Il a coûté {cost}. | Les cyclistes ont leur propre voie.
@study Essai {study} | Médecine | *L'essai {study}, mené à l'{university}, a inclus {n} patients. | *Les
  symptômes ont diminué chez {pct} d'entre eux. | Les auteurs souhaitent des études plus longues.
@range {c} confirme ses objectifs | Perspectives | *{c} table sur un chiffre d'affaires compris entre {low} et
  {high} millions d'euros en {year}. | Les matières premières restent chères.
@word {c} en bref | Sites | *{c} exploite {word} usines en Europe. | Chacune a sa propre équipe de pompiers.
@word {c} poursuit son expansion | Réseau | *Le groupe possède désormais {word} agences. | La dernière a ouvert
  en mai à {city}.
@product {c} à {city} | Production | *Dans son usine de {city}, {c} fabrique des {p1}. | Le site s'étend sur
  neuf hectares.
@product La gamme de {c} | Produits | *La gamme de {c} comprend des {p1}, des {p2} et des {p3}. | Les pièces
  sont disponibles pendant 15 ans.
@law De nouvelles règles le {date} | Législation | *La {law} entre en vigueur le {date}. | *L'Assemblée l'avait
  adoptée par {votes} voix. | Les petites entreprises bénéficient d'un délai.
@infobox {c} | Fiche d'identité | *Création : {year} | *Siège : {city} | *Effectif : {n} | Commissaire aux
  comptes : Holt & Associés
@infobox {c} | En bref | Forme juridique : société de capitaux | *Direction : {person} | *Chiffre d'affaires :
  {amount} ({report})
@country {country} — fiche pays | Données | *Population ({country}) : {population} habitants | *Superficie :
  {area} km² | La plupart des voyageurs viennent au printemps.
@country {country} : économie | Aperçu | *PIB ({country}) : {gdp} | L'agriculture recule depuis des décennies.
""",
    "es": """
@revenue {c}: informe anual {year} | Principales cifras | *{c} facturó {amount} en {year}, un {pct} más que el
  año anterior. | El consejo se reúne en marzo.
@revenue {c} supera las previsiones | Empresas | *Los ingresos de {c} crecieron un {pct} en {year}, hasta
  {amount}. | *Un año antes había ingresado {prev}. | Los analistas esperaban algo menos.
@revenue Resultados: {c} | Ejercicio {year} | El director financiero presentó las cuentas el miércoles. | *La
  cifra de negocio alcanzó {amount}, con un aumento del {pct}.
@employees Sobre {c} | Quiénes somos | *{c} tiene {n} empleados, de los que {site_n} trabajan en la sede de
  {city}. | Formamos aprendices en nueve oficios.
@employees {c} busca personal | Empleo | *Con {n} trabajadores, {c} es una de las mayores empresas privadas de
  {city}. | El comedor se reformó en verano.
@founding {c}: historia | Los inicios | *{c} fue fundada en {city} en {year} por {founder}. | El primer taller
  estaba detrás de la estación.
@founding {c} | Historia | *En {year}, {founder} creó {c} con un préstamo de su tío. | *La empresa mantiene su
  sede en {seat}.
@ceo {c} estrena máximo ejecutivo | Nombramientos | *{person} asumirá la dirección ejecutiva de {c} el {date}. |
  *El puesto lo ocupaba hasta ahora {predecessor}.
@ceo Relevo en la dirección ejecutiva | {c} | *El consejo de administración de {c} ha puesto a {person} al
  frente de la compañía desde el {date}. | Los sindicatos aplaudieron la decisión.
@population {city} en cifras | Población | *{city} tenía {n} habitantes a finales de {year}. | El registro
  parroquial más antiguo es del siglo XVI.
@population Censo: {city} | Demografía | *Según el censo de {year}, en {city} viven {n} personas. | Uno de cada
  tres hogares es unipersonal.
@power {plant} en marcha | Energía | *El {plant} tiene una potencia instalada de {capacity} MW y abastece a unos
  {households} hogares. | Ocupa antiguos pastos.
@power {plant} | Ficha técnica | La tramitación duró seis años. | *El {plant} costó {invest} y genera hasta
  {capacity} megavatios.
@takeover {c} crece con compras | Adquisiciones | *{c} compra {b} por {amount}, según anunciaron ambas compañías
  el {date}. | Competencia aún debe autorizar la operación.
@takeover {b} cambia de manos | Fusiones | *El {closed}, {c} completó la adquisición de {b}. | *El precio fue de
  {amount}.
@price Metales: {commodity} | Materias primas | *La tonelada de {commodity} cotizaba el viernes en Londres a
  {price} dólares, un {pct} más que la semana anterior. | Las existencias volvieron a bajar.
@rate El {bank} mueve ficha | Política monetaria | *El {bank} cambió su tasa de referencia del {old_rate} al
  {rate} el {date}. | La mayoría de los economistas lo esperaba.
@rate Tasa en el {rate} | Política monetaria | *Desde el {date}, la tasa de referencia del {bank} está en el
  {rate}. | La próxima reunión será dentro de seis semanas.
@visitors {museum}: un buen año | Cultura | *El {museum} recibió {n} visitantes en {year}, un {pct} más que un
  año antes. | La entrada es gratuita los domingos.
@jobs Mercado laboral: {region} | Desempleo | *La tasa de paro en {region} se situó en el {rate} en {month}. |
  *Había {n} personas sin trabajo. | No influyeron efectos estacionales.
@bridge {bridge} | Datos técnicos | *El {bridge} mide {length} metros de largo y se inauguró en {year}. | *Costó
  {cost}. | Los ciclistas tienen su propio carril.
@study Ensayo {study} | Medicina | *El ensayo {study}, de la {university}, incluyó a {n} pacientes. | *Los
  síntomas mejoraron en el {pct} de ellos. | Los autores piden estudios más largos.
@range {c} mantiene su previsión | Perspectivas | *{c} espera unos ingresos de entre {low} y {high} millones de
  euros en {year}. | Las materias primas siguen caras.
@word {c} de un vistazo | Centros | *{c} explota {word} fábricas en Europa. | Cada una tiene sus propios
  bomberos.
@word {c} sigue creciendo | Red | *El grupo ya tiene {word} sucursales. | La última abrió en mayo en {city}.
@product {c} en {city} | Producción | *En su planta de {city}, {c} fabrica {p1}. | El recinto ocupa nueve
  hectáreas.
@product Catálogo de {c} | Productos | *El catálogo de {c} incluye {p1}, {p2} y {p3}. | Hay repuestos durante 15
  años.
@law Nuevas normas desde el {date} | Legislación | *La {law} entra en vigor el {date}. | *El Parlamento la
  aprobó con {votes} votos a favor. | Las pequeñas empresas tendrán un plazo mayor.
@infobox {c} | Ficha | *Fundación: {year} | *Sede: {city} | *Empleados: {n} | Auditor: Holt y Asociados
@infobox {c} | En síntesis | Forma jurídica: sociedad de capital | *Consejero delegado: {person} | *Facturación:
  {amount} ({report})
@country {country}: ficha país | Datos | *{country} tiene {population} habitantes. | *Su superficie es de {area}
  km². | La mayoría de los viajeros llega en primavera.
@country {country}: economía | Panorama | *El producto interior bruto de {country} se estima en {gdp}. | La
  agricultura pierde peso desde hace décadas.
""",
    "it": """
@revenue {c}: relazione annuale {year} | Dati principali | *{c} ha registrato nel {year} ricavi per {amount}, in
  aumento del {pct} sull'anno prima. | Il consiglio si riunisce a marzo.
@revenue {c} sopra le attese | Aziende | *Nel {year} il fatturato di {c} è cresciuto del {pct} a {amount}. |
  *L'anno precedente era stato di {prev}. | Gli analisti si aspettavano un po' meno.
@revenue Bilancio: {c} | Esercizio {year} | Il direttore finanziario ha presentato i conti mercoledì. | *I
  ricavi sono stati pari a {amount}, con una crescita del {pct}.
@employees Chi è {c} | Profilo | *{c} ha {n} dipendenti, di cui {site_n} nella sede di {city}. | Formiamo
  apprendisti in nove mestieri.
@employees {c} assume | Lavoro | *Con {n} addetti {c} è tra i maggiori datori di lavoro privati di {city}. | La
  mensa è stata rifatta in estate.
@founding {c}: la storia | Gli inizi | *{c} è stata fondata a {city} nel {year} da {founder}. | La prima
  officina era dietro la stazione.
@founding {c} | Storia | *Nel {year} {founder} fondò {c} con un prestito dello zio. | *L'azienda ha ancora sede
  a {seat}.
@ceo {c} cambia guida | Nomine | *{person} sarà amministratore delegato di {c} dal {date}. | *{person} succede a
  {predecessor}, che va in pensione.
@ceo Nomina al vertice | {c} | *Il consiglio di {c} ha nominato {person} amministratore delegato a partire dal
  {date}. | I sindacati hanno apprezzato la scelta.
@population {city} in cifre | Popolazione | *{city} contava {n} abitanti alla fine del {year}. | Il registro
  parrocchiale più antico è del Cinquecento.
@population Censimento: {city} | Demografia | *Secondo il censimento del {year}, a {city} vivono {n} persone. |
  Una famiglia su tre è formata da una sola persona.
@power {plant} in funzione | Energia | *Il {plant} ha una potenza installata di {capacity} MW e rifornisce circa
  {households} famiglie. | Sorge su vecchi pascoli.
@power {plant} | Scheda tecnica | L'iter è durato sei anni. | *Il {plant} è costato {invest} e produce fino a
  {capacity} megawatt.
@takeover {c} fa acquisti | Acquisizioni | *{c} compra {b} per {amount}, hanno annunciato le due società il
  {date}. | Serve ancora il via libera dell'antitrust.
@takeover {b} ceduta | Fusioni | *Il {closed} {c} ha completato l'acquisizione di {b}. | *Il prezzo è stato di
  {amount}.
@price Metalli: {commodity} | Materie prime | *Una tonnellata di {commodity} valeva venerdì a Londra {price}
  dollari, il {pct} in più rispetto alla settimana precedente. | Le scorte sono calate ancora.
@rate La {bank} si muove | Politica monetaria | *La {bank} ha portato il tasso di riferimento dal {old_rate} al
  {rate} il {date}. | Quasi tutti gli economisti se lo aspettavano.
@rate Tasso al {rate} | Politica monetaria | *Dal {date} il tasso di riferimento della {bank} è al {rate}. | La
  prossima riunione è tra sei settimane.
@visitors {museum}: un buon anno | Cultura | *Il {museum} ha accolto {n} visitatori nel {year}, il {pct} in più
  di un anno prima. | La domenica l'ingresso è gratuito.
@jobs Mercato del lavoro: {region} | Disoccupazione | *Il tasso di disoccupazione in {region} era del {rate} nel
  mese di {month}. | *Le persone senza lavoro erano {n}. | Gli effetti stagionali non hanno pesato.
@bridge {bridge} | Dati tecnici | *Il {bridge} è lungo {length} metri ed è stato inaugurato nel {year}. | *È
  costato {cost}. | I ciclisti hanno una corsia propria.
@study Studio {study} | Medicina | *Lo studio {study} dell'{university} ha coinvolto {n} pazienti. | *I sintomi
  sono migliorati nel {pct} di loro. | Gli autori chiedono studi più lunghi.
@range {c} conferma le stime | Prospettive | *{c} prevede per il {year} ricavi compresi tra {low} e {high}
  milioni di euro. | Le materie prime restano care.
@word {c} in breve | Sedi | *{c} gestisce {word} stabilimenti in Europa. | Ognuno ha i propri vigili del fuoco.
@word {c} continua a crescere | Rete | *Il gruppo ha ora {word} filiali. | L'ultima è stata aperta a maggio a
  {city}.
@product {c} a {city} | Produzione | *Nello stabilimento di {city} {c} produce {p1}. | L'area misura nove
  ettari.
@product Il catalogo di {c} | Prodotti | *Il catalogo di {c} comprende {p1}, {p2} e {p3}. | I ricambi sono
  disponibili per 15 anni.
@law Nuove regole dal {date} | Legislazione | *La {law} entra in vigore il {date}. | *Il Parlamento l'ha
  approvata con {votes} voti favorevoli. | Per le piccole imprese sono previste deroghe.
@infobox {c} | Scheda | *Fondazione: {year} | *Sede: {city} | *Dipendenti: {n} | Revisore: Holt e Associati
@infobox {c} | In sintesi | Forma giuridica: società di capitali | *Amministratore delegato: {person} |
  *Fatturato: {amount} ({report})
@country {country}: scheda paese | Dati | *Popolazione ({country}): {population} abitanti | *Superficie: {area}
  km² | La maggior parte dei viaggiatori arriva in primavera.
@country {country}: economia | Panoramica | *PIL ({country}): {gdp} | L'agricoltura perde peso da decenni.
""",
}


WORDS: Mapping[str, Words] = {
    "en": Words(
        language="en",
        companies=(
            ("Thornbury Castings Ltd", "Thornbury Castings"),
            ("Redwick Foods plc", "Redwick Foods"),
            ("Halvern Instruments Inc.", "Halvern Instruments"),
            ("Cobalt Ridge Mining Corp.", "Cobalt Ridge Mining"),
            ("Merriton Textiles Ltd", "Merriton Textiles"),
            ("Pellworth Logistics plc", "Pellworth Logistics"),
            ("Birchdale Paper Company", "Birchdale Paper"),
            ("Osgood Marine LLC", "Osgood Marine"),
            ("Tarn Valley Dairies Ltd", "Tarn Valley Dairies"),
            ("Kingsmoor Optics Inc.", "Kingsmoor Optics"),
        ),
        people=(
            "Alison Greaves",
            "Martin Okafor",
            "Helen Strand",
            "Rajiv Menon",
            "Tom Ackerley",
            "Josephine Wray",
            "Douglas Penhale",
            "Naomi Feld",
        ),
        cities=(
            "Norwich",
            "Dundee",
            "Swansea",
            "Preston",
            "Halifax",
            "Ipswich",
            "Carlisle",
            "Plymouth",
        ),
        museums=(
            "Harrow Maritime Museum",
            "Museum of Rope Making",
            "Eastgate Clock Museum",
            "Fenland Art Gallery",
        ),
        plants=(
            "Corran Hill Wind Farm",
            "Blackmoor Wind Farm",
            "Stony Pike Wind Farm",
            "Lowther Solar Park",
        ),
        bridges=("Alder Point Bridge", "Mersham Bridge", "Quarry Street Bridge", "Tollgate Bridge"),
        banks=(
            "Bank of England",
            "Bank of Canada",
            "Reserve Bank of New Zealand",
            "Reserve Bank of Australia",
        ),
        regions=("Northumberland", "Cornwall", "Lincolnshire", "Cumbria", "Kent"),
        laws=("Coastal Housing Act", "Drone Safety Act", "Allotments Act", "Short Lets Act"),
        universities=(
            "University of Exeter",
            "University of Stirling",
            "University of Hull",
            "University of Bath",
        ),
        trial="{} trial",
        metals=(
            ("copper", "copper"),
            ("nickel", "nickel"),
            ("zinc", "zinc"),
            ("tin", "tin"),
            ("aluminium", "aluminium"),
        ),
        products=(
            "bicycle bells",
            "garden hoses",
            "oat biscuits",
            "office chairs",
            "ship propellers",
            "wool blankets",
        ),
        countries=COUNTRIES,
        months=(
            "January",
            "February",
            "March",
            "April",
            "May",
            "June",
            "July",
            "August",
            "September",
            "October",
            "November",
            "December",
        ),
        number_words=(
            "two",
            "three",
            "four",
            "five",
            "six",
            "seven",
            "eight",
            "nine",
            "ten",
            "eleven",
            "twelve",
        ),
        group=(",",),
        decimal=".",
        percent=("{}%", "{} per cent", "{} percent"),
        day_forms=("{d} {m} {y}", "{m} {d}, {y}"),
        first_of_month="1",
        month_form="{m} {y}",
        money=_money_en,
        currency="gbp",
        status=(
            Status("{c} is not listed on any stock exchange.", {"listed": False}, {"listed": True}),
            Status(
                "{c} has no plans to close its plant in {city}.",
                {"plans_to_close_plant": False, "plant": "{city}"},
                {"plans_to_close_plant": True, "plant": "{city}"},
            ),
            Status(
                "{c} will not pay a dividend this year.",
                {"summary": "{c} will not pay a dividend this year."},
                {"summary": "{c} will pay a dividend this year."},
                "same text",
            ),
            Status(
                "{c} does not produce in Asia.",
                {"produces_in_asia": False},
                {"produces_in_asia": True},
            ),
            Status(
                "The new warehouse of {c} in {city} has still not opened.",
                {"warehouse_opened": False},
                {"warehouse_opened": True},
            ),
            Status(
                "{c} denied that it was in talks with a buyer.",
                {"in_talks_with_buyer": False},
                {"in_talks_with_buyer": True},
                "denial",
                "sense: denied",
            ),
        ),
    ),
    "de": Words(
        language="de",
        companies=(
            ("Kessler Maschinenbau GmbH", "Kessler Maschinenbau"),
            ("Nordlicht Energie AG", "Nordlicht Energie"),
            ("Vossberg Textil GmbH & Co. KG", "Vossberg Textil"),
            ("Altmühl Papier AG", "Altmühl Papier"),
            ("Brandecker Optik GmbH", "Brandecker Optik"),
            ("Feldhusen Logistik SE", "Feldhusen Logistik"),
            ("Schönrain Keramik GmbH", "Schönrain Keramik"),
            ("Wiesental Backwaren KG", "Wiesental Backwaren"),
            ("Grotjahn Armaturen AG", "Grotjahn Armaturen"),
            ("Lindauer Werkzeuge GmbH", "Lindauer Werkzeuge"),
        ),
        people=(
            "Sabine Rother",
            "Jörg Wallmann",
            "Ute Finkenstein",
            "Mehmet Aydin",
            "Christoph Lauterbach-Weiß",
            "Birgit Semmler",
            "Holger Dierksen",
            "Annika Prell",
        ),
        cities=(
            "Bremen",
            "Kassel",
            "Rostock",
            "Heilbronn",
            "Osnabrück",
            "Würzburg",
            "Jena",
            "Saarbrücken",
        ),
        museums=(
            "Schifffahrtsmuseum Brake",
            "Uhrenmuseum Glashagen",
            "Museum für Papierkunst",
            "Textilmuseum Reutlingen",
        ),
        plants=(
            "Windpark Altmoor",
            "Windpark Hohe Geest",
            "Solarpark Lauchfeld",
            "Windpark Steinrücken",
        ),
        bridges=(
            "Rheinbrücke Hollern",
            "Elbbrücke Lenzow",
            "Talbrücke Ahrenfels",
            "Mainbrücke Sommerau",
        ),
        banks=(
            "Schweizerische Nationalbank",
            "Europäische Zentralbank",
            "Tschechische Nationalbank",
        ),
        regions=("Thüringen", "Brandenburg", "Niedersachsen", "Hessen", "Sachsen-Anhalt"),
        laws=("Wärmespeichergesetz", "Ladenruhegesetz", "Hafenentgeltgesetz", "Pflegebonusgesetz"),
        universities=(
            "Universität Gießen",
            "Universität Rostock",
            "Universität Graz",
            "Universität Bern",
        ),
        trial="{}-Studie",
        metals=(
            ("Kupfer", "copper"),
            ("Nickel", "nickel"),
            ("Zink", "zinc"),
            ("Zinn", "tin"),
            ("Aluminium", "aluminium"),
        ),
        products=(
            "Fahrradklingeln",
            "Gartenschläuche",
            "Haferkekse",
            "Bürostühle",
            "Schiffsschrauben",
            "Wolldecken",
        ),
        countries=(
            "Kenia",
            "Portugal",
            "Norwegen",
            "Polen",
            "Chile",
            "Ghana",
            "Ungarn",
            "Griechenland",
            "Marokko",
            "Island",
            "Uruguay",
            "Kroatien",
            "Thailand",
        ),
        months=(
            "Januar",
            "Februar",
            "März",
            "April",
            "Mai",
            "Juni",
            "Juli",
            "August",
            "September",
            "Oktober",
            "November",
            "Dezember",
        ),
        number_words=(
            "zwei",
            "drei",
            "vier",
            "fünf",
            "sechs",
            "sieben",
            "acht",
            "neun",
            "zehn",
            "elf",
            "zwölf",
        ),
        group=(".",),
        decimal=",",
        percent=("{} Prozent", "{}\N{NO-BREAK SPACE}%", "{} %"),
        day_forms=("{d}. {m} {y}",),
        first_of_month="1",
        month_form="{m} {y}",
        money=_money_de,
        currency="eur",
        status=(
            Status("{c} ist nicht börsennotiert.", {"listed": False}, {"listed": True}),
            Status(
                "{c} will das Werk in {city} nicht schließen.",
                {"summary": "{c} will das Werk in {city} nicht schließen."},
                {"summary": "{c} will das Werk in {city} schließen."},
                "same text",
            ),
            Status(
                "Eine Dividende zahlt {c} in diesem Jahr nicht.",
                {"pays_dividend": False},
                {"pays_dividend": True},
            ),
            Status(
                "{c} hat keinen Betriebsrat.",
                {"has_works_council": False},
                {"has_works_council": True},
            ),
            Status(
                "Das neue Lager von {c} in {city} ist noch nicht in Betrieb.",
                {"warehouse_operational": False},
                {"warehouse_operational": True},
            ),
            Status(
                "{c} dementierte, dass Verkaufsgespräche laufen.",
                {"sale_talks": False},
                {"sale_talks": True},
                "denial",
                "sense: dementieren",
            ),
        ),
    ),
    "fr": Words(
        language="fr",
        companies=(
            ("Ferronnerie Baudry SAS", "Ferronnerie Baudry"),
            ("Laiteries du Vercors SA", "Laiteries du Vercors"),
            ("Tissages Morvan SARL", "Tissages Morvan"),
            ("Papeterie Coudray SA", "Papeterie Coudray"),
            ("Bouchonnerie Landaise SA", "Bouchonnerie Landaise"),
            ("Verrerie Saintonge SAS", "Verrerie Saintonge"),
            ("Conserverie Le Guellec SA", "Conserverie Le Guellec"),
            ("Transports Roussillon SAS", "Transports Roussillon"),
            ("Robinetterie Chastain SA", "Robinetterie Chastain"),
            ("Biscuiterie Perdriel SARL", "Biscuiterie Perdriel"),
        ),
        people=(
            "Claire Montfort",
            "Jean-Luc Barbier",
            "Nadia Belkacem",
            "Thierry Lacombe",
            "Sophie Duhamel",
            "Étienne Rocher",
            "Marguerite Vasseur",
            "Karim Toumi",
        ),
        cities=(
            "Nantes",
            "Dijon",
            "Limoges",
            "Roubaix",
            "Besançon",
            "Tarbes",
            "Valence",
            "Saint-Étienne",
        ),
        museums=(
            "musée des Tanneurs",
            "musée de la Batellerie",
            "musée du Sel",
            "musée Gabriel-Lenoir",
        ),
        plants=(
            "parc éolien de Brenne",
            "parc éolien du Causse Noir",
            "parc solaire de Vinzelles",
            "parc éolien des Trois Landes",
        ),
        bridges=(
            "pont de la Vauvre",
            "pont des Saulniers",
            "viaduc de Morlac",
            "pont de Chambreuil",
        ),
        banks=("Banque nationale suisse", "Banque centrale européenne", "Banque du Canada"),
        regions=("Bretagne", "Normandie", "Occitanie", "Corse", "Wallonie"),
        laws=(
            "loi sur les haies",
            "loi sur les locations de courte durée",
            "loi relative aux ports de plaisance",
        ),
        universities=(
            "université de Nantes",
            "université de Lausanne",
            "université de Liège",
            "université de Tours",
        ),
        trial="essai {}",
        metals=(
            ("cuivre", "copper"),
            ("nickel", "nickel"),
            ("zinc", "zinc"),
            ("plomb", "lead"),
            ("cobalt", "cobalt"),
        ),
        products=(
            "sonnettes de vélo",
            "tuyaux de jardin",
            "biscuits sablés",
            "fauteuils de bureau",
            "couvertures de laine",
        ),
        countries=(
            "Kenya",
            "Portugal",
            "Norvège",
            "Pologne",
            "Chili",
            "Ghana",
            "Hongrie",
            "Grèce",
            "Maroc",
            "Islande",
            "Uruguay",
            "Croatie",
            "Thaïlande",
        ),
        months=(
            "janvier",
            "février",
            "mars",
            "avril",
            "mai",
            "juin",
            "juillet",
            "août",
            "septembre",
            "octobre",
            "novembre",
            "décembre",
        ),
        number_words=(
            "deux",
            "trois",
            "quatre",
            "cinq",
            "six",
            "sept",
            "huit",
            "neuf",
            "dix",
            "onze",
            "douze",
        ),
        group=("\N{NO-BREAK SPACE}", "\N{NARROW NO-BREAK SPACE}", " "),
        decimal=",",
        percent=("{}\N{NO-BREAK SPACE}%", "{} %", "{}\N{NARROW NO-BREAK SPACE}%"),
        day_forms=("{d} {m} {y}",),
        first_of_month="1er",
        month_form="{m} {y}",
        money=_money_fr,
        currency="eur",
        status=(
            Status("{c} n'est pas cotée en Bourse.", {"listed": False}, {"listed": True}),
            Status(
                "{c} ne fermera pas son usine de {city}.",
                {"summary": "{c} ne fermera pas son usine de {city}."},
                {"summary": "{c} fermera son usine de {city}."},
                "same text",
            ),
            Status(
                "{c} ne versera aucun dividende cette année.",
                {"pays_dividend": False},
                {"pays_dividend": True},
            ),
            Status(
                "{c} n'exporte pas hors d'Europe.",
                {"exports_outside_europe": False},
                {"exports_outside_europe": True},
            ),
            Status(
                "Le nouvel entrepôt de {c} à {city} n'est pas encore ouvert.",
                {"warehouse_opened": False},
                {"warehouse_opened": True},
            ),
            Status(
                "{c} dément être en discussion avec un acheteur.",
                {"in_talks_with_buyer": False},
                {"in_talks_with_buyer": True},
                "denial",
                "sense: démentir",
            ),
        ),
    ),
    "es": Words(
        language="es",
        companies=(
            ("Fundiciones Arteta S.A.", "Fundiciones Arteta"),
            ("Conservas Ribadavia S.L.", "Conservas Ribadavia"),
            ("Textiles Montcada S.A.", "Textiles Montcada"),
            ("Papelera del Cinca S.A.", "Papelera del Cinca"),
            ("Galletas La Serrana S.L.", "Galletas La Serrana"),
            ("Transportes Beltrán e Hijos S.L.", "Transportes Beltrán e Hijos"),
            ("Cerámicas Onda Nueva S.A.", "Cerámicas Onda Nueva"),
            ("Minera Altoandina S.A.", "Minera Altoandina"),
            ("Lácteos Picoblanco S.A.", "Lácteos Picoblanco"),
            ("Válvulas Durango S.A.", "Válvulas Durango"),
        ),
        people=(
            "Lucía Hernando Gil",
            "Javier Echeverri",
            "Pilar Soto Cano",
            "Andrés Villalba",
            "Mercedes Ugarte",
            "Rubén Castellanos",
            "Inmaculada Prieto",
            "Guillermo Ansaldo",
        ),
        cities=(
            "Zaragoza",
            "Murcia",
            "Valladolid",
            "Gijón",
            "Córdoba",
            "Burgos",
            "Cartagena",
            "Lleida",
        ),
        museums=(
            "Museo del Vidrio de Sorbas",
            "Museo Naval de Castro",
            "Museo de la Imprenta",
            "Museo Etnográfico de Liébana",
        ),
        plants=(
            "parque eólico Sierra Parda",
            "parque eólico Cerro Alto",
            "parque solar Las Mesetas",
            "parque eólico La Muela Vieja",
        ),
        bridges=(
            "puente de Valdoro",
            "puente del Arrabal",
            "viaducto de Las Hoces",
            "puente de San Froilán",
        ),
        banks=("Banco de México", "Banco Central de Chile", "Banco Central Europeo"),
        regions=("Extremadura", "Cantabria", "Asturias", "Aragón", "Navarra"),
        laws=("Ley de Pesca Fluvial", "Ley de Alquiler Turístico", "Ley de Caminos Rurales"),
        universities=(
            "Universidad de Oviedo",
            "Universidad de Murcia",
            "Universidad de Chile",
            "Universidad de Deusto",
        ),
        trial="ensayo {}",
        metals=(
            ("cobre", "copper"),
            ("níquel", "nickel"),
            ("cinc", "zinc"),
            ("estaño", "tin"),
            ("aluminio", "aluminium"),
        ),
        products=(
            "timbres de bicicleta",
            "mangueras",
            "galletas de avena",
            "sillas de oficina",
            "hélices",
            "mantas de lana",
        ),
        countries=(
            "Kenia",
            "Portugal",
            "Noruega",
            "Polonia",
            "Chile",
            "Ghana",
            "Hungría",
            "Grecia",
            "Marruecos",
            "Islandia",
            "Uruguay",
            "Croacia",
            "Tailandia",
        ),
        months=(
            "enero",
            "febrero",
            "marzo",
            "abril",
            "mayo",
            "junio",
            "julio",
            "agosto",
            "septiembre",
            "octubre",
            "noviembre",
            "diciembre",
        ),
        number_words=(
            "dos",
            "tres",
            "cuatro",
            "cinco",
            "seis",
            "siete",
            "ocho",
            "nueve",
            "diez",
            "once",
            "doce",
        ),
        group=(".", ".", "\N{NO-BREAK SPACE}"),
        decimal=",",
        percent=("{} %", "{}%", "{}\N{NO-BREAK SPACE}%"),
        day_forms=("{d} de {m} de {y}",),
        first_of_month="1",
        month_form="{m} de {y}",
        money=_money_es,
        currency="eur",
        status=(
            Status("{c} no cotiza en bolsa.", {"listed": False}, {"listed": True}),
            Status(
                "{c} no cerrará su planta de {city}.",
                {"summary": "{c} no cerrará su planta de {city}."},
                {"summary": "{c} cerrará su planta de {city}."},
                "same text",
            ),
            Status(
                "{c} no repartirá dividendo este año.",
                {"pays_dividend": False},
                {"pays_dividend": True},
            ),
            Status(
                "{c} no tiene filiales fuera de España.",
                {"has_subsidiaries_abroad": False},
                {"has_subsidiaries_abroad": True},
            ),
            Status(
                "El nuevo almacén de {c} en {city} aún no ha abierto.",
                {"warehouse_opened": False},
                {"warehouse_opened": True},
            ),
            Status(
                "{c} desmintió que negocie con un comprador.",
                {"in_talks_with_buyer": False},
                {"in_talks_with_buyer": True},
                "denial",
                "sense: desmentir",
            ),
        ),
    ),
    "it": Words(
        language="it",
        companies=(
            ("Fonderie Valsesia S.p.A.", "Fonderie Valsesia"),
            ("Conserve Torregrande S.r.l.", "Conserve Torregrande"),
            ("Tessitura Brianzola S.p.A.", "Tessitura Brianzola"),
            ("Cartiera del Nera SpA", "Cartiera del Nera"),
            ("Biscottificio Marradi S.r.l.", "Biscottificio Marradi"),
            ("Trasporti Fratelli Gualco S.r.l.", "Trasporti Fratelli Gualco"),
            ("Ceramiche Fiorano Alta S.p.A.", "Ceramiche Fiorano Alta"),
            ("Latteria Pian dei Lupi S.p.A.", "Latteria Pian dei Lupi"),
            ("Rubinetterie Cusio S.p.A.", "Rubinetterie Cusio"),
            ("Vetreria San Donato SpA", "Vetreria San Donato"),
        ),
        people=(
            "Giulia Marchesini",
            "Roberto Pagani",
            "Elena Dall'Oglio",
            "Stefano Carbone",
            "Francesca Mulas",
            "Davide Ferraris",
            "Ornella Tedesco",
            "Matteo Rinaldi",
        ),
        cities=(
            "Trieste",
            "Bergamo",
            "Salerno",
            "Reggio Emilia",
            "Taranto",
            "Vicenza",
            "Pescara",
            "Cagliari",
        ),
        museums=(
            "Museo della Seta di Lecco",
            "Museo del Sale",
            "Museo Civico Navale",
            "Museo della Carta di Pietrabuona",
        ),
        plants=(
            "parco eolico di Monte Falco",
            "parco eolico di Piana Secca",
            "parco solare di Cerreto",
            "parco eolico di Serra Alta",
        ),
        bridges=(
            "ponte di Rocca Alta",
            "ponte dei Carbonai",
            "viadotto di Valmora",
            "ponte San Biagio",
        ),
        banks=("Banca nazionale svizzera", "Banca centrale europea", "Banca d'Inghilterra"),
        regions=("Umbria", "Liguria", "Calabria", "Basilicata", "Lombardia"),
        laws=(
            "legge sui mercati rionali",
            "legge sugli affitti brevi",
            "legge sulla pesca interna",
        ),
        universities=(
            "Università di Pavia",
            "Università di Torino",
            "Università di Bari",
            "Università di Trento",
        ),
        trial="studio {}",
        metals=(
            ("rame", "copper"),
            ("nichel", "nickel"),
            ("zinco", "zinc"),
            ("stagno", "tin"),
            ("alluminio", "aluminium"),
        ),
        products=(
            "campanelli per biciclette",
            "tubi da giardino",
            "biscotti",
            "sedie da ufficio",
            "eliche navali",
            "coperte di lana",
        ),
        countries=(
            "Kenya",
            "Portogallo",
            "Norvegia",
            "Polonia",
            "Cile",
            "Ghana",
            "Ungheria",
            "Grecia",
            "Marocco",
            "Islanda",
            "Uruguay",
            "Croazia",
            "Thailandia",
        ),
        months=(
            "gennaio",
            "febbraio",
            "marzo",
            "aprile",
            "maggio",
            "giugno",
            "luglio",
            "agosto",
            "settembre",
            "ottobre",
            "novembre",
            "dicembre",
        ),
        number_words=(
            "due",
            "tre",
            "quattro",
            "cinque",
            "sei",
            "sette",
            "otto",
            "nove",
            "dieci",
            "undici",
            "dodici",
        ),
        group=(".",),
        decimal=",",
        percent=("{}%", "{}%", "{} per cento"),
        day_forms=("{d} {m} {y}",),
        first_of_month="1°",
        month_form="{m} {y}",
        money=_money_it,
        currency="eur",
        status=(
            Status("{c} non è quotata in Borsa.", {"listed": False}, {"listed": True}),
            Status(
                "{c} non chiuderà lo stabilimento di {city}.",
                {"summary": "{c} non chiuderà lo stabilimento di {city}."},
                {"summary": "{c} chiuderà lo stabilimento di {city}."},
                "same text",
            ),
            Status(
                "Quest'anno {c} non distribuirà dividendi.",
                {"pays_dividend": False},
                {"pays_dividend": True},
            ),
            Status(
                "{c} non ha debiti con le banche.",
                {"has_bank_debt": False},
                {"has_bank_debt": True},
            ),
            Status(
                "Il nuovo magazzino di {c} a {city} non è ancora in funzione.",
                {"warehouse_operational": False},
                {"warehouse_operational": True},
            ),
            Status(
                "{c} smentisce trattative con un acquirente.",
                {"in_talks_with_buyer": False},
                {"in_talks_with_buyer": True},
                "denial",
                "sense: smentire",
            ),
        ),
    ),
}


# The Factbook: a country's facts as its documents state them, with the lines around each.


@dataclass(frozen=True)
class FactKind:
    """A fact that states one number."""

    path: str
    key: str
    rule: str
    fault: Fault = "number"
    """Of a wrong value."""
    other_key: str = ""
    """A property that would give the number another unit or currency."""
    other_fault: Fault = "unit"
    whole: bool = False
    """Whether the value is a whole number."""
    divide: int = 1
    """What the stated unit is divided by to get that of the property."""


FACT_KINDS = (
    FactKind("Population, total", "population", "digit grouping", whole=True),
    FactKind("Area, total", "area_km2", "unit word", other_key="area_ha", whole=True),
    FactKind("Coastline", "coastline_km", "unit word", other_key="coastline_miles"),
    FactKind("Land boundaries, total", "land_border_km", "unit word", other_key="land_border_m"),
    FactKind("Irrigated land", "irrigated_land_km2", "unit word", other_key="irrigated_land_acres"),
    FactKind("Airports", "airports", "same text", whole=True),
    FactKind("Real GDP growth rate 2024", "gdp_growth_percent", "percentage", "percentage"),
    FactKind(
        "Inflation rate (consumer prices) 2023", "inflationRatePercent", "percentage", "percentage"
    ),
    FactKind(
        "Urbanization, urban population", "urban_population_percent", "percentage", "percentage"
    ),
    FactKind("Land use, forest", "forest_share_percent", "percentage", "percentage"),
    FactKind(
        "Electricity generation sources, fossil fuels", "fossil_share", "percentage", "percentage"
    ),
    FactKind(
        "Real GDP per capita 2024",
        "gdp_per_capita_usd",
        "currency symbol",
        "number",
        "gdp_per_capita_eur",
        "currency",
    ),
    FactKind(
        "GDP (official exchange rate)",
        "gdp_usd",
        "scale word",
        "number",
        "gdp_gbp",
        "currency",
        whole=True,
    ),
    FactKind(
        "Exports 2022", "exports_usd", "scale word", "number", "exports_eur", "currency", whole=True
    ),
    FactKind(
        "Budget, revenues",
        "budget_revenue_usd",
        "scale word",
        "number",
        "budget_revenue_cny",
        "currency",
        whole=True,
    ),
    FactKind(
        "Electricity, installed generating capacity",
        "installed_capacity_mw",
        "unit scale",
        other_key="installed_capacity_gw",
        divide=1000,
    ),
    FactKind(
        "Electricity, consumption",
        "electricity_consumption_kwh",
        "scale word",
        other_key="electricity_consumption_mwh",
        whole=True,
    ),
    FactKind(
        "Carbon dioxide emissions, total emissions",
        "co2_emissions_tonnes",
        "scale word",
        whole=True,
    ),
    FactKind(
        "Broadband - fixed subscriptions, total", "broadbandSubscriptions", "scale word", whole=True
    ),
    FactKind("Life expectancy at birth, total population", "life_expectancy_years", "same text"),
    FactKind("Total fertility rate", "children_per_woman", "same text"),
    FactKind("Median age, total", "median_age_years", "same text", other_key="median_age_months"),
)
FACT_SCALES = {"million": 10**6, "billion": 10**9, "trillion": 10**12}
SCALE_WORD = re.compile(r"^\$?[\d.,]+ (million|billion|trillion)\b")
NOTED_YEAR = re.compile(r"\((20\d\d) est\.\)|\((20\d\d)\)")
LEADER = re.compile(
    r"^(Prime Minister|President|Chancellor|Premier) ([\w .'-]+?) \(since (\d{1,2} \w+ \d{4})\)$"
)
FREED = re.compile(r"^(\d{1,2} \w+ \d{4}) \(from (?:the )?([A-Z]\w+(?: [A-Z]\w+)*)\)$")
SUMMIT = re.compile(r"^([A-Z][\w .'-]+?) (\d[\d,]*) m$")
PARTNERS = re.compile(r"^([A-Z][\w .]*?) (\d+)%, ([A-Z][\w .]*?) (\d+)%")
BORDERS = re.compile(r"^([A-Z][\w .]*?) (\d[\d,]*) km; ([A-Z][\w .]*?) (\d[\d,]*) km")
LIST = re.compile(r"^[a-z ]+(?:, [a-z ]+){2,6}$")
PLAIN = re.compile(r"^[A-Za-z' -]+$")
NOT_COUNTRIES = ("The Dominican", "World", "European Union")
CASES_PER_FACT_KIND = 3
CASES_PER_FACT_READER = 5
LINES_AROUND = 3


def _factbook_cases(rng: Random) -> list[EvidenceCase]:
    documents = factbook.load().documents
    countries = [
        c
        for c in _countries().values()
        if len(c.facts) > 150 and PLAIN.match(c.names[0]) and c.names[0] not in NOT_COUNTRIES
    ]
    names = [country.names[0] for country in countries]
    used, found, count = Counter[str](), [], 0
    readers: list[tuple[str, str, Callable[..., Option | None], int]] = [
        (kind.key, kind.path, _reader(kind), CASES_PER_FACT_KIND) for kind in FACT_KINDS
    ]
    readers += [(key, path, read, CASES_PER_FACT_READER) for key, path, read in FACT_READERS]
    for key, path, read, wanted in readers:
        made = 0
        for country in rng.sample(countries, len(countries)):
            fact = next((fact for fact in country.facts if fact.path == path), None)
            other = rng.choice(
                [name for name in names if name not in (country.names[0], *country.names)]
            )
            option = read(rng, country.names[0], fact.text, other) if fact else None
            if option is None or fact is None:
                continue
            made, count = made + 1, count + 1
            page = _lines_around(documents, country.names[0], path, fact.text)
            found.append(
                _fact_case(rng, f"en-factbook-{key}-{made}", page, option, used, count % 2 == 0)
            )
            if made == wanted:
                break
    return found


@dataclass(frozen=True)
class FactPage:
    """A part of a document, and the line of it that states a fact."""

    title: str
    text: str
    line: str


def _lines_around(documents: Sequence[Document], country: str, path: str, text: str) -> FactPage:
    (line,) = list(factbook.fact_lines(country, path, text))[:1]
    for document in documents:
        lines = document.text.split("\n")
        if document.title.startswith(f"{country}: ") and line in lines:
            place = lines.index(line)
            around = lines[max(0, place - LINES_AROUND) : place + LINES_AROUND + 1]
            return FactPage(document.title, "\n".join(around), line)
    raise ValueError(f"No document states {line!r}.")


def _fact_case(
    rng: Random, case_id: str, page: FactPage, option: Option, used: Counter[str], false: bool
) -> EvidenceCase:
    wrong = None
    if false:
        wrong = min(option.wrong, key=lambda one: (used[one.fault + one.note], rng.random()))
        used[wrong.fault + wrong.note] += 1
    properties = dict(option.properties)
    if wrong is not None:
        properties = {
            k: v for k, v in {**properties, **wrong.properties}.items() if k != wrong.without
        }
    return EvidenceCase(
        id=case_id,
        language="en",
        title=page.title,
        heading="",
        page=page.text,
        quotes=(page.line,),
        subject=(wrong and wrong.subject) or option.subject,
        properties=properties,
        kind="edge" if option.target else "node",
        type_name=option.type_name,
        target=(wrong and wrong.target) or option.target,
        fault=wrong.fault if wrong else None,
        rule="" if wrong else option.rule,
        note=wrong.note if wrong else "",
    )


def _reader(kind: FactKind) -> Callable[[Random, str, str, str], Option | None]:
    """Return a function that reads a fact of this kind; it returns None for a text of another form."""

    def read(rng: Random, country: str, text: str, other: str) -> Option | None:
        if not re.match(r"^\$?\d", text):
            return None
        scaled = SCALE_WORD.match(text)
        scale = FACT_SCALES[scaled[1]] if scaled else 1
        if (kind.rule in ("scale word", "unit scale")) != bool(scaled):
            return None
        stated = _number(text) * scale / kind.divide
        value: float = round(stated) if kind.whole else _short(stated)
        if value < 2:
            return None
        year = NOTED_YEAR.search(text)
        noted = {"year": int(year[1] or year[2])} if year and rng.random() < 0.4 else {}
        wrong = [
            Wrong(kind.fault, {kind.key: _wrong_number(rng, value)}),
            Wrong("subject", subject=other),
        ]
        if kind.other_key:
            wrong.append(Wrong(kind.other_fault, {kind.other_key: value}, kind.key))
        if scaled:
            wrong.append(Wrong("scale", {kind.key: value * 1000}))
        if noted:
            wrong.append(Wrong("year", {"year": _wrong_year(rng, noted["year"])}))
        return Option("", country, {kind.key: value, **noted}, kind.rule, tuple(wrong), "Country")

    return read


MONTHS_EN = WORDS["en"].months


def _iso_date(text: str) -> date:
    """Read `21 December 2024`."""
    day, month, year = text.split()
    return date(int(year), MONTHS_EN.index(month) + 1, int(day))


def _leader(rng: Random, country: str, text: str, other: str) -> Option | None:
    match = LEADER.match(text)
    if match is None:
        return None
    since, name = _iso_date(match[3]), match[2].title()
    wrong = (
        Wrong(
            "name",
            {
                "head_of_government": f"{name.split()[0]} {rng.choice(WORDS['en'].people).split()[-1]}"
            },
        ),
        Wrong("date", {"since": _wrong_day(rng, since)}),
        Wrong("subject", subject=other),
        Wrong(
            "invented", {"party": rng.choice(("Centre Union", "Democratic Front", "People First"))}
        ),
    )
    properties = {"head_of_government": name, "since": since.isoformat()}
    return Option("", country, properties, "letter case", wrong, "Country")


def _independence(rng: Random, country: str, text: str, other: str) -> Option | None:
    match = FREED.match(text)
    if match is None:
        return None
    day = _iso_date(match[1])
    wrong = (
        Wrong("date", {"independence_date": _wrong_day(rng, day)}),
        Wrong("subject", subject=other),
        Wrong("name", {"independent_from": "Portugal" if match[2] != "Portugal" else "Spain"}),
        Wrong(
            "year",
            {"independence_date": day.replace(day=min(day.day, 28), year=day.year + 2).isoformat()},
        ),
    )
    properties = {"independence_date": day.isoformat(), "independent_from": match[2]}
    return Option("", country, properties, "written date", wrong, "Country")


def _summit(rng: Random, country: str, text: str, other: str) -> Option | None:
    match = SUMMIT.match(text)
    if match is None:
        return None
    height = int(_number(match[2]))
    wrong = (
        Wrong("unit", {"highest_point_elevation_ft": height}, "highest_point_elevation_m"),
        Wrong("number", {"highest_point_elevation_m": _wrong_number(rng, height)}),
        Wrong("name", {"highest_point": rng.choice(("Pico Alto", "Jebel Serra", "Mount Alvern"))}),
        Wrong("subject", subject=other),
    )
    properties = {"highest_point": match[1], "highest_point_elevation_m": height}
    return Option("", country, properties, "unit word", wrong, "Country")


def _partner(rng: Random, country: str, text: str, other: str) -> Option | None:
    match = PARTNERS.match(text)
    if match is None or other in text:
        return None
    share = int(match[2])
    wrong = (
        Wrong("edge_end", target=other),
        Wrong("percentage", {"share_percent": _wrong_number(rng, share)}),
        Wrong("percentage", {"share_percent": int(match[4])}, note=OTHER_ROLE),
        Wrong("subject", subject=other),
    )
    return Option("", country, {"share_percent": share}, "list", wrong, "exports_to", match[1])


def _border(rng: Random, country: str, text: str, other: str) -> Option | None:
    match = BORDERS.match(text)
    if match is None or other in text:
        return None
    length = int(_number(match[2]))
    wrong = (
        Wrong("edge_end", target=other),
        Wrong("number", {"border_length_km": int(_number(match[4]))}, note=OTHER_ROLE),
        Wrong("unit", {"border_length_miles": length}, "border_length_km"),
        Wrong("subject", subject=other),
    )
    return Option("", country, {"border_length_km": length}, "list", wrong, "borders", match[1])


def _resources(rng: Random, country: str, text: str, other: str) -> Option | None:
    if not LIST.match(text):
        return None
    names = text.split(", ")
    more = rng.choice(
        [one for one in ("amber", "graphite", "diamonds", "tungsten") if one not in text]
    )
    wrong = (
        Wrong("name", {"natural_resources": [more, *names[1:]]}),
        Wrong("invented", {"natural_resources": [*names, more]}),
        Wrong("subject", subject=other),
    )
    return Option("", country, {"natural_resources": names}, "list", wrong, "Country")


def _capital(rng: Random, country: str, text: str, other: str) -> Option | None:
    if not PLAIN.match(text) or text == country:
        return None
    wrong = (
        Wrong(
            "edge_end",
            target=rng.choice(
                [one for one in ("Lima", "Oslo", "Tirana", "Manila", "Nairobi") if one != text]
            ),
        ),
        Wrong("subject", subject=other),
    )
    return Option("", country, {}, "same text", wrong, "has_capital", text)


def _government(rng: Random, country: str, text: str, other: str) -> Option | None:
    if not PLAIN.match(text) or "monarchy" in text:
        return None
    wrong = (
        Wrong("name", {"government_type": "constitutional monarchy"}),
        Wrong("subject", subject=other),
    )
    return Option("", country, {"government_type": text}, "same text", wrong, "Country")


FACT_READERS: tuple[tuple[str, str, Callable[[Random, str, str, str], Option | None]], ...] = (
    ("leader", "Executive branch, head of government", _leader),
    ("independence", "Independence", _independence),
    ("summit", "Elevation, highest point", _summit),
    ("partner", "Exports - partners", _partner),
    ("border", "Land boundaries, border countries", _border),
    ("resources", "Natural resources", _resources),
    ("capital", "Capital, name", _capital),
    ("government", "Government type", _government),
)


STORIES = (
    Story(
        "en",
        "windpark",
        "Skerryvale Wind to build second park off Peterhead | North Sea Business Weekly",
        "Second phase",
        """[1] Skerryvale Wind plc said on Tuesday it would spend £1.35bn on a second offshore park 28 miles
        east of Peterhead. [2] The project, called Buchan Reach, will have 64 turbines and a capacity of 960
        megawatts, enough for roughly 1.1 million homes. [3] First power is expected in the autumn of 2029.

        [4] Skerryvale employs 2,140 people, most of them in Aberdeen. [5] Chief executive Fiona Rankine said the
        company had not yet chosen a supplier for the turbines. [6] "We are talking to three manufacturers and
        will decide by 30 June 2026," she said. [7] The first park, which opened in 2018, generated 1.9 terawatt
        hours last year. [8] Shares in Skerryvale rose 4.2 per cent to 318p.""",
        (
            yes(
                "scale abbreviation", "1", "Skerryvale Wind plc", {"investment_gbp": 1_350_000_000}
            ),
            no("scale", "1", "Skerryvale Wind plc", {"investment_gbp": 1_350_000}),
            yes("same text", "2", "Buchan Reach", {"turbines": 64, "capacity_mw": 960}, "WindFarm"),
            no("number", "2", "Buchan Reach", {"capacity_mw": 690}, "WindFarm"),
            yes("digit grouping", "4", "Skerryvale Wind", {"employees": 2140}),
            no("negation", "5", "Skerryvale Wind", {"turbine_supplier_chosen": True}),
            yes("written date", "5 6", "Skerryvale Wind", {"supplier_decision_by": "2026-06-30"}),
            no("date", "5 6", "Skerryvale Wind", {"supplier_decision_by": "2026-06-13"}),
            yes("title", "5", "Skerryvale Wind plc", {"ceo": "Fiona Rankine"}),
            no("name", "5", "Skerryvale Wind plc", {"ceo": "Fiona Rennie"}),
            yes_edge("several quotes", "1 2", "Skerryvale Wind plc", "builds", "Buchan Reach"),
            no("unit", "1 2", "Buchan Reach", {"distance_to_peterhead_km": 28}, "WindFarm"),
            yes("number word", "5 6", "Skerryvale Wind", {"turbine_bidders": 3}),
            no("percentage", "8", "Skerryvale Wind", {"share_price_change_percent": 2.4}),
            no("year", "7", "Buchan Reach", {"opened": 2018}, "WindFarm", OTHER_ROLE),
            yes("season", "2 3", "Buchan Reach", {"first_power_year": 2029}, "WindFarm"),
            yes(
                "free text",
                "2 3",
                "Buchan Reach",
                {"summary": "A 960 MW wind park with 64 turbines."},
                "WindFarm",
            ),
            no(
                "invented",
                "2 3",
                "Buchan Reach",
                {"summary": "A 960 MW wind park with floating turbines."},
                "WindFarm",
            ),
        ),
        names={"Skerryvale Wind plc": ("Skerryvale Wind", "Skerryvale")},
    ),
    Story(
        "en",
        "lochness",
        "Loch Ness – Highland Lakes Encyclopedia",
        "Geography",
        """[1] Loch Ness is a freshwater loch in the Scottish Highlands that stretches for about 36 kilometres
        south-west of Inverness. [2] With a surface area of 56 square kilometres it is the second largest loch in
        Scotland after Loch Lomond. [3] Its greatest depth is 230 metres, which makes it the second deepest after
        Loch Morar. [4] The loch holds some 7.4 cubic kilometres of water.

        [5] It is part of the Caledonian Canal, which was engineered by Thomas Telford and opened in 1822. [6] The
        loch does not freeze over, even in hard winters. [7] Urquhart Castle, on the western shore, drew 547,518
        visitors in 2019.""",
        (
            yes("unit word", "1", "Loch Ness", {"length_km": 36}, "Lake"),
            no("number", "3", "Loch Ness", {"max_depth_m": 320}, "Lake"),
            yes("title", "3", "Loch Ness", {"max_depth_m": 230}, "Lake"),
            no("unit", "2", "Loch Ness", {"surface_area_sq_miles": 56}, "Lake"),
            yes("title", "2", "Loch Ness", {"surface_area_km2": 56}, "Lake"),
            no("edge_end", "5", "Caledonian Canal", {}, "engineered_by", target="James Watt"),
            yes_edge("passive", "5", "Caledonian Canal", "engineered_by", "Thomas Telford"),
            no("negation", "6", "Loch Ness", {"freezes_over": True}, "Lake"),
            yes("negation", "6", "Loch Ness", {"freezes_over": False}, "Lake"),
            no("year", "5", "Caledonian Canal", {"opened": 1832}, "Canal"),
            yes(
                "digit grouping",
                "7",
                "Urquhart Castle",
                {"visitors": 547518, "year": 2019},
                "Castle",
            ),
            no("subject", "3", "Loch Morar", {"max_depth_m": 230}, "Lake", OTHER_ROLE),
            no(
                "invented",
                "1 4",
                "Loch Ness",
                {"volume_km3": 7.4, "mean_temperature_c": 5.5},
                "Lake",
            ),
            yes(
                "free text",
                "2 3",
                "Loch Ness",
                {"summary": "Scotland's second largest and second deepest loch."},
                "Lake",
            ),
        ),
    ),
    Story(
        "en",
        "foods",
        "Marlowe Foods Reports First-Quarter 2025 Results",
        "Financial highlights",
        """[1] CINCINNATI, April 24, 2025 – Marlowe Foods Inc. today reported net sales of $2.46 billion for its
        first quarter, up 6.5% from $2.31 billion a year earlier. [2] Net income came to $187 million, or $1.12 per
        diluted share. [3] Gross margin narrowed to 31.8% from 33.0%.

        [4] "Demand for frozen breakfast held up better than we feared," said Dana Whitlock, President and Chief
        Executive Officer. [5] The company now expects full-year net sales of between $9.8 billion and $10.1
        billion. [6] The Board of Directors declared a quarterly dividend of $0.31 per share, payable on June 16,
        2025 to shareholders of record on May 30, 2025. [7] Marlowe did not repurchase any shares during the
        quarter. [8] In February it completed the purchase of Prairie Griddle, a maker of waffles, for $415 million
        in cash.""",
        (
            yes("scale word", "1", "Marlowe Foods Inc.", {"q1_net_sales_usd": 2_460_000_000}),
            no("number", "1", "Marlowe Foods Inc.", {"q1_net_sales_usd": 2_640_000_000}),
            yes(
                "scale word", "2", "Marlowe Foods", {"net_income_usd": 187_000_000, "eps_usd": 1.12}
            ),
            no("scale", "2", "Marlowe Foods", {"net_income_usd": 187_000_000_000}),
            yes("same text", "1", "Marlowe Foods", {"net_sales_growth_percent": 6.5}),
            no("percentage", "3", "Marlowe Foods", {"gross_margin_percent": 38.1}),
            no("percentage", "3", "Marlowe Foods", {"gross_margin_percent": 33.0}, note=OTHER_ROLE),
            yes(
                "range",
                "5",
                "Marlowe Foods",
                {
                    "sales_guidance_low_usd": 9_800_000_000,
                    "sales_guidance_high_usd": 10_100_000_000,
                },
            ),
            yes("written date", "6", "Marlowe Foods", {"dividend_payable_on": "2025-06-16"}),
            no(
                "date", "6", "Marlowe Foods", {"dividend_payable_on": "2025-05-30"}, note=OTHER_ROLE
            ),
            no("negation", "7", "Marlowe Foods", {"repurchased_shares": True}),
            yes_edge(
                "pronoun",
                "7 8",
                "Marlowe Foods Inc.",
                "acquired",
                "Prairie Griddle",
                {"price_usd": 415_000_000},
            ),
            no(
                "currency",
                "8",
                "Marlowe Foods Inc.",
                {"price_eur": 415_000_000},
                "acquired",
                target="Prairie Griddle",
            ),
            yes("title", "4", "Marlowe Foods", {"ceo": "Dana Whitlock"}),
            no("name", "4", "Marlowe Foods", {"ceo": "Diane Whitfield"}),
            no(
                "invented",
                "4",
                "Dana Whitlock",
                {"position": "Chief Executive Officer", "age": 52},
                "Person",
            ),
        ),
        names={"Marlowe Foods Inc.": ("Marlowe Foods", "Marlowe")},
    ),
    Story(
        "en",
        "labour",
        "Labour market overview: June 2025",
        "Main points",
        """[1] The unemployment rate for people aged 16 years and over was estimated at 4.6% in February to April
        2025. [2] The employment rate stood at 75.1%, up 0.4 percentage points on the year. [3] The number of job
        vacancies fell by 63,000 in the quarter to 736,000. [4] Average regular weekly earnings in Great Britain
        were £677 in April. [5] An estimated 41,000 working days were lost because of labour disputes, most of them
        in the education sector. [6] The figures are not adjusted for inflation. [7] The next release is on 10 July
        2025.""",
        (
            yes("same text", "1", "unemployment rate", {"rate_percent": 4.6}, "Indicator"),
            no("percentage", "1", "unemployment rate", {"rate_percent": 6.4}, "Indicator"),
            yes(
                "digit grouping",
                "3",
                "job vacancies",
                {"count": 736000, "quarterly_change": -63000},
                "Indicator",
            ),
            no("number", "3", "job vacancies", {"count": 763000}, "Indicator"),
            yes(
                "currency symbol",
                "4",
                "average regular weekly earnings",
                {"amount_gbp": 677},
                "Indicator",
            ),
            no(
                "currency", "4", "average regular weekly earnings", {"amount_usd": 677}, "Indicator"
            ),
            no("subject", "2", "inactivity rate", {"rate_percent": 75.1}, "Indicator"),
            yes(
                "same text", "2", "employment rate", {"value": 75.1, "unit": "percent"}, "Indicator"
            ),
            no("scale", "5", "working days lost", {"count": 41_000_000}, "Indicator"),
            yes("negation", "6", "Labour market overview", {"inflation_adjusted": False}, "Report"),
            no("negation", "6", "Labour market overview", {"inflation_adjusted": True}, "Report"),
            yes(
                "written date",
                "7",
                "Labour market overview",
                {"next_release": "2025-07-10"},
                "Report",
            ),
            no("date", "7", "Labour market overview", {"next_release": "2025-07-01"}, "Report"),
            yes(
                "free text",
                "3",
                "job vacancies",
                {"summary": "The number of vacancies fell to 736,000."},
                "Indicator",
            ),
        ),
    ),
    Story(
        "en",
        "sleep",
        "Nap study: sleep after lunch helps older adults remember names",
        "Results",
        """[1] A nap of half an hour after lunch improved the recall of names in people over 65, according to a
        study published on 11 September 2024 in the Journal of Ageing and Memory. [2] Researchers led by Dr Amara
        Osei at the University of Leeds followed the 412 volunteers of the nap study for eighteen months. [3] Those in
        the nap group remembered 23% more names than the control group. [4] There was no difference in reaction time
        between the groups. [5] The work was funded by the Wellbrook Trust with a grant of £1.8 million. [6] Participants
        were on average 71.4 years old. [7] Ms Lin Park, who ran the statistics, cautioned that the effect had not been
        tested in people with dementia.""",
        (
            yes(
                "same text",
                "2",
                "nap study",
                {"participants": 412, "lead_author": "Amara Osei"},
                "Study",
            ),
            no("number", "2", "nap study", {"participants": 421}, "Study"),
            yes("number word", "2", "nap study", {"duration_months": 18}, "Study"),
            no("unit", "2", "nap study", {"duration_weeks": 18}, "Study"),
            yes("written date", "1", "nap study", {"published": "2024-09-11"}, "Study"),
            no("year", "1", "nap study", {"publication_year": 2014}, "Study"),
            no("negation", "4", "nap study", {"improved_reaction_time": True}, "Study"),
            yes(
                "free text",
                "3",
                "nap study",
                {"finding": "The nap group remembered 23% more names."},
                "Study",
            ),
            no("percentage", "3", "nap study", {"recall_improvement_percent": 32}, "Study"),
            yes_edge("several quotes", "1 2", "Amara Osei", "works_at", "University of Leeds"),
            no("edge_end", "1 2", "Amara Osei", {}, "works_at", target="University of Sheffield"),
            yes_edge(
                "scale word",
                "5",
                "Wellbrook Trust",
                "funded",
                "nap study",
                {"amount_gbp": 1_800_000},
            ),
            no("name", "7", "nap study", {"statistician": "Lin Clark"}, "Study"),
        ),
    ),
    Story(
        "de",
        "pumpen",
        "Hartwig Pumpen baut in Görlitz – Sächsische Wirtschaftspost",
        "Neues Werk",
        """[1] Der Pumpenhersteller Hartwig Pumpen GmbH & Co. KG investiert 86 Millionen Euro in ein neues Werk in
        Görlitz. [2] Dort sollen bis Ende 2027 rund 340 Arbeitsplätze entstehen, teilte das Familienunternehmen am
        Donnerstag mit. [3] Bisher beschäftigt Hartwig 1.860 Menschen an drei Standorten.

        [4] „Wir haben lange nach einer Fläche gesucht“, sagte Geschäftsführerin Katrin Hartwig. [5] Das Grundstück
        ist 12,4 Hektar groß. [6] Der Umsatz stieg im vergangenen Geschäftsjahr um 7,3 Prozent auf 412 Millionen
        Euro, nach 384 Millionen Euro im Jahr zuvor. [7] An einen Börsengang denkt die Eigentümerfamilie nicht.
        [8] Der Spatenstich ist für den 14. April 2026 geplant. [9] Gegründet wurde das Unternehmen 1924 in
        Bautzen.""",
        (
            yes(
                "scale word",
                "1",
                "Hartwig Pumpen",
                {"investment_eur": 86_000_000, "location": "Görlitz"},
            ),
            no("scale", "1", "Hartwig Pumpen", {"investment_eur": 86_000_000_000}),
            yes(
                "digit grouping",
                "3",
                "Hartwig Pumpen GmbH & Co. KG",
                {"employees": 1860, "sites": 3},
            ),
            no("number", "3", "Hartwig Pumpen GmbH & Co. KG", {"employees": 1680}),
            yes("decimal comma", "6", "Hartwig Pumpen", {"revenue_growth_percent": 7.3}),
            no("percentage", "6", "Hartwig Pumpen", {"revenue_growth_percent": 3.7}),
            yes("title", "6", "Hartwig Pumpen", {"revenue_eur": 412_000_000}),
            no("number", "6", "Hartwig Pumpen", {"revenue_eur": 384_000_000}, note=OTHER_ROLE),
            yes("written date", "1 8", "Werk Görlitz", {"groundbreaking": "2026-04-14"}, "Factory"),
            no("date", "1 8", "Werk Görlitz", {"groundbreaking": "2026-04-24"}, "Factory"),
            no("negation", "7", "Hartwig Pumpen", {"ipo_planned": True}),
            yes("negation", "7", "Hartwig Pumpen", {"ipo_planned": False}),
            yes("same text", "9", "Hartwig Pumpen", {"founded": 1924, "founding_place": "Bautzen"}),
            no("name", "9", "Hartwig Pumpen", {"founded": 1924, "founding_place": "Zittau"}),
            no("unit", "1 5", "Werk Görlitz", {"site_area_m2": 12.4}, "Factory"),
            yes("unit scale", "1 5", "Werk Görlitz", {"site_area_m2": 124_000}, "Factory"),
            yes(
                "free text",
                "1 2",
                "Hartwig Pumpen",
                {"summary": "Hartwig Pumpen baut ein neues Werk in Görlitz."},
            ),
        ),
        names={
            "Hartwig Pumpen": ("Hartwig Pumpen GmbH & Co. KG", "Hartwig"),
            "Hartwig Pumpen GmbH & Co. KG": ("Hartwig Pumpen", "Hartwig"),
        },
    ),
    Story(
        "de",
        "bodensee",
        "Bodensee – Lexikon der Gewässer",
        "Lage und Größe",
        """[1] Der Bodensee liegt im Alpenvorland und gehört zu Deutschland, Österreich und der Schweiz. [2] Er
        besteht aus dem Obersee und dem Untersee, die durch den Seerhein verbunden sind. [3] Mit 536 km² ist er der
        drittgrößte See Mitteleuropas. [4] Seine größte Tiefe beträgt 251 m; sie wird zwischen Fischbach und Uttwil
        erreicht. [5] Die Uferlinie ist 273 km lang, davon entfallen 173 km auf Deutschland. [6] Der wichtigste
        Zufluss ist der Alpenrhein. [7] Rund vier Millionen Menschen erhalten Trinkwasser aus dem See. [8] Eine
        Brücke über den Obersee gibt es nicht.""",
        (
            yes("title", "3", "Bodensee", {"area_km2": 536}, "Lake"),
            no("number", "3", "Bodensee", {"area_km2": 563}, "Lake"),
            yes("title", "4", "Bodensee", {"maxDepthMeters": 251}, "Lake"),
            no("unit", "4", "Bodensee", {"maxDepthFeet": 251}, "Lake"),
            yes(
                "number word",
                "7",
                "Bodensee",
                {"people_supplied_with_drinking_water": 4_000_000},
                "Lake",
            ),
            no("scale", "7", "Bodensee", {"people_supplied_with_drinking_water": 4_000}, "Lake"),
            yes(
                "list",
                "1",
                "Bodensee",
                {"countries": ["Deutschland", "Österreich", "Schweiz"]},
                "Lake",
            ),
            no(
                "name",
                "1",
                "Bodensee",
                {"countries": ["Deutschland", "Österreich", "Italien"]},
                "Lake",
            ),
            yes_edge("title", "6", "Alpenrhein", "flows_into", "Bodensee"),
            no("edge_end", "6", "Alpenrhein", {}, "flows_into", target="Chiemsee"),
            no("number", "5", "Bodensee", {"shoreline_km": 173}, "Lake", OTHER_ROLE),
            yes("same text", "5", "Bodensee", {"shoreline_km": 273}, "Lake"),
            no(
                "negation",
                "8",
                "Obersee",
                {"summary": "Über den Obersee gibt es eine Brücke."},
                "Lake",
            ),
            no("subject", "3 4", "Starnberger See", {"area_km2": 536}, "Lake"),
        ),
    ),
    Story(
        "de",
        "inflation",
        "Verbraucherpreise im Mai 2025: Inflationsrate bei 2,1 Prozent",
        "Pressemitteilung",
        """[1] Die Verbraucherpreise in Deutschland lagen im Mai 2025 um 2,1 % höher als im Mai 2024. [2] Energie
        verbilligte sich binnen Jahresfrist um 4,6 %. [3] Nahrungsmittel kosteten dagegen 2,8 % mehr. [4] Die Preise
        für Dienstleistungen stiegen um 3,4 %, darunter Bahnfahrten um 11,3 %. [5] Ein Liter Superbenzin kostete im
        Schnitt 1,68 Euro. [6] Ein direkter Zusammenhang mit der Mehrwertsteuer besteht nach Angaben des Amtes
        nicht. [7] Die Kerninflation, also ohne Energie und Nahrungsmittel, betrug 2,8 %. [8] Die endgültigen Werte
        veröffentlicht das Amt am 13. Juni 2025.""",
        (
            yes(
                "decimal comma",
                "1",
                "Deutschland",
                {"inflation_rate_percent": 2.1, "month": "2025-05"},
                "Country",
            ),
            no("percentage", "1", "Deutschland", {"inflation_rate_percent": 1.2}, "Country"),
            yes("direction", "2", "Energie", {"price_change_percent": -4.6}, "PriceGroup"),
            no("percentage", "2", "Energie", {"price_change_percent": -6.4}, "PriceGroup"),
            yes("same text", "7", "Kerninflation", {"rate_percent": 2.8}, "Indicator"),
            no(
                "percentage",
                "4",
                "Dienstleistungen",
                {"price_change_percent": 11.3},
                "PriceGroup",
                OTHER_ROLE,
            ),
            yes("decimal comma", "5", "Superbenzin", {"price_eur_per_litre": 1.68}, "Product"),
            no("currency", "5", "Superbenzin", {"price_chf_per_litre": 1.68}, "Product"),
            no("unit", "5", "Superbenzin", {"price_eur_per_gallon": 1.68}, "Product"),
            yes(
                "written date",
                "8",
                "Verbraucherpreise",
                {"final_results_on": "2025-06-13"},
                "Statistic",
            ),
            no("date", "8", "Verbraucherpreise", {"final_results_on": "2025-07-13"}, "Statistic"),
            no("subject", "3", "Bekleidung", {"price_change_percent": 2.8}, "PriceGroup"),
            yes("same text", "3", "Nahrungsmittel", {"price_change_percent": 2.8}, "PriceGroup"),
        ),
    ),
    Story(
        "de",
        "bahn",
        "Ausbau der Taunusquerbahn verzögert sich",
        "Bahnverkehr",
        """[1] Der Ausbau der Taunusquerbahn zwischen Limburg und Bad Homburg wird frühestens im Dezember 2031
        fertig. [2] Die Kosten für die 41 Kilometer lange Strecke beziffert das Land inzwischen auf 1,2 Milliarden
        Euro. [3] Vor fünf Jahren war noch von 780 Mio. Euro die Rede. [4] Künftig sollen die Züge mit 140 km/h
        statt mit 80 km/h fahren. [5] Projektleiter Jens Overbeck nennt als Grund den Artenschutz. [6] Den Auftrag
        für die Signaltechnik erhielt die Rotherm Signalbau AG aus Kassel. [7] Ein Weiterbau bis Friedberg ist vom
        Tisch. [8] Täglich nutzen etwa 9.500 Fahrgäste die Linie.""",
        (
            yes(
                "scale word",
                "1 2",
                "Taunusquerbahn",
                {"cost_eur": 1_200_000_000, "length_km": 41},
                "RailwayLine",
            ),
            no("scale", "1 2", "Taunusquerbahn", {"cost_eur": 1_200_000}, "RailwayLine"),
            yes("title", "4", "Taunusquerbahn", {"planned_top_speed_kmh": 140}, "RailwayLine"),
            no("number", "4", "Taunusquerbahn", {"planned_top_speed_kmh": 160}, "RailwayLine"),
            yes("month", "1", "Taunusquerbahn", {"earliest_completion": "2031-12"}, "RailwayLine"),
            no("year", "1", "Taunusquerbahn", {"earliest_completion_year": 2030}, "RailwayLine"),
            yes_edge(
                "title", "6", "Rotherm Signalbau AG", "supplies_signalling_for", "Taunusquerbahn"
            ),
            no("edge_end", "6", "Rotherm Signalbau AG", {}, "based_in", target="Göttingen"),
            yes_edge("same text", "6", "Rotherm Signalbau", "based_in", "Kassel"),
            no("name", "5", "Taunusquerbahn", {"project_manager": "Jens Overhoff"}, "RailwayLine"),
            yes("digit grouping", "8", "Taunusquerbahn", {"daily_passengers": 9500}, "RailwayLine"),
            no(
                "negation",
                "7",
                "Taunusquerbahn",
                {"summary": "Die Strecke wird bis Friedberg verlängert."},
                "RailwayLine",
                "sense: vom Tisch",
            ),
            no(
                "invented",
                "6",
                "Rotherm Signalbau AG",
                {"headquarters": "Kassel", "employees": 260},
            ),
            yes(
                "free text",
                "1",
                "Taunusquerbahn",
                {"description": "Bahnstrecke zwischen Limburg und Bad Homburg"},
                "RailwayLine",
            ),
        ),
        names={
            "Rotherm Signalbau AG": ("Rotherm Signalbau",),
            "Rotherm Signalbau": ("Rotherm Signalbau AG",),
        },
    ),
    Story(
        "de",
        "herz",
        "Klinikum Rheinau: Herzzentrum eröffnet",
        "Aktuelles",
        """[1] Am 2. September 2024 hat das Klinikum Rheinau sein neues Herzzentrum eröffnet. [2] Der Bau kostete
        54,5 Millionen Euro; 31 Millionen davon trug das Land. [3] Ärztlicher Direktor ist Prof. Dr. Tilman Vogt,
        der zuvor in Ulm arbeitete. [4] Das Haus hat 92 Betten und zwei Hybrid-Operationssäle. [5] Im Jahr 2023
        wurden am Klinikum 28.417 Patienten stationär behandelt, 3,9 Prozent mehr als im Vorjahr. [6] Eine eigene
        Notaufnahme erhält das Herzzentrum nicht.""",
        (
            yes("written date", "1", "Herzzentrum Rheinau", {"opened": "2024-09-02"}, "Hospital"),
            no("date", "1", "Herzzentrum Rheinau", {"opened": "2024-02-09"}, "Hospital"),
            yes(
                "scale word",
                "2",
                "Herzzentrum Rheinau",
                {"construction_cost_eur": 54_500_000},
                "Hospital",
            ),
            no(
                "number",
                "2",
                "Herzzentrum Rheinau",
                {"construction_cost_eur": 31_000_000},
                "Hospital",
                OTHER_ROLE,
            ),
            yes(
                "academic title",
                "3",
                "Herzzentrum Rheinau",
                {"medical_director": "Tilman Vogt"},
                "Hospital",
            ),
            no("name", "3", "Herzzentrum Rheinau", {"medical_director": "Tilman Voss"}, "Hospital"),
            yes(
                "number word",
                "4",
                "Herzzentrum Rheinau",
                {"beds": 92, "hybrid_operating_rooms": 2},
                "Hospital",
            ),
            no("number", "4", "Herzzentrum Rheinau", {"beds": 29}, "Hospital"),
            yes(
                "digit grouping",
                "5",
                "Klinikum Rheinau",
                {"inpatients": 28417, "year": 2023},
                "Hospital",
            ),
            no("year", "5", "Klinikum Rheinau", {"inpatients": 28417, "year": 2021}, "Hospital"),
            no(
                "negation",
                "6",
                "Herzzentrum Rheinau",
                {"has_emergency_department": True},
                "Hospital",
            ),
            yes(
                "free text",
                "1",
                "Klinikum Rheinau",
                {"summary": "Das Klinikum hat ein neues Herzzentrum eröffnet."},
                "Hospital",
            ),
        ),
        names={"Herzzentrum Rheinau": ("Herzzentrum", "Herzzentrum des Klinikums Rheinau")},
    ),
    Story(
        "fr",
        "fromagerie",
        "Les Fromageries Aubrac-Vernet rachètent un concurrent jurassien",
        "Agroalimentaire",
        """[1] Les Fromageries Aubrac-Vernet ont annoncé jeudi le rachat de la société jurassienne Comtesse SAS pour
        48 millions d'euros. [2] L'opération doit être finalisée d'ici au 30 septembre 2025. [3] Comtesse emploie 215
        salariés à Poligny et réalise un chiffre d'affaires de 93,4 millions d'euros. [4] Aucun licenciement n'est
        prévu, assure la directrice générale Hélène Castaing.

        [5] Fondé en 1957 à Rodez, le groupe Aubrac-Vernet compte 1~940 collaborateurs. [6] En 2024, ses ventes ont
        progressé de 5,2~% à 1,1 milliard d'euros. [7] Il exporte 38~% de sa production, surtout vers l'Allemagne et
        le Japon. [8] Le groupe n'est pas coté en Bourse.""",
        (
            yes_edge(
                "scale word",
                "1",
                "Fromageries Aubrac-Vernet",
                "acquires",
                "Comtesse SAS",
                {"price_eur": 48_000_000},
            ),
            no(
                "currency",
                "1",
                "Fromageries Aubrac-Vernet",
                {"price_chf": 48_000_000},
                "acquires",
                target="Comtesse SAS",
            ),
            yes("legal form", "3", "Comtesse SAS", {"employees": 215, "headquarters": "Poligny"}),
            no("number", "3", "Comtesse SAS", {"employees": 251}),
            yes("scale word", "3", "Comtesse", {"revenue_eur": 93_400_000}),
            no("scale", "3", "Comtesse", {"revenue_eur": 93_400_000_000}),
            yes(
                "written date",
                "1 2",
                "Fromageries Aubrac-Vernet",
                {"deal_completion_by": "2025-09-30"},
            ),
            no("negation", "4", "Comtesse SAS", {"layoffs_planned": True}),
            yes("digit grouping", "5", "Aubrac-Vernet", {"employees": 1940, "founded": 1957}),
            no("year", "5", "Aubrac-Vernet", {"founded": 1975}),
            yes(
                "decimal comma", "5 6", "Aubrac-Vernet", {"sales_growth_percent": 5.2, "year": 2024}
            ),
            no("percentage", "7", "Fromageries Aubrac-Vernet", {"export_share_percent": 83}),
            no("edge_end", "5", "Aubrac-Vernet", {}, "founded_in", target="Aurillac"),
            yes("negation", "8", "Aubrac-Vernet", {"listed": False}),
            yes(
                "free text",
                "7",
                "Aubrac-Vernet",
                {"summary": "Le groupe exporte vers l'Allemagne et le Japon."},
            ),
            no(
                "name",
                "7",
                "Aubrac-Vernet",
                {"summary": "Le groupe exporte vers l'Allemagne et la Chine."},
            ),
        ),
        names={
            "Fromageries Aubrac-Vernet": ("Aubrac-Vernet", "groupe Aubrac-Vernet"),
            "Aubrac-Vernet": ("Fromageries Aubrac-Vernet",),
            "Comtesse": ("Comtesse SAS",),
            "Comtesse SAS": ("Comtesse",),
        },
    ),
    Story(
        "fr",
        "millau",
        "Viaduc de Millau — Encyclopédie des ouvrages d'art",
        "Description",
        """[1] Le viaduc de Millau est un pont à haubans qui franchit la vallée du Tarn, dans l'Aveyron. [2] Long de
        2~460 mètres, il culmine à 343 mètres et porte l'autoroute A75. [3] Il a été conçu par l'ingénieur Michel
        Virlogeux et l'architecte Norman Foster. [4] Inauguré le 14 décembre 2004, il a été ouvert à la circulation
        deux jours plus tard. [5] Sa construction, confiée au groupe Eiffage, a coûté environ 400 millions d'euros.
        [6] L'ouvrage repose sur sept piles. [7] Les piétons n'y sont pas admis.""",
        (
            yes(
                "digit grouping",
                "1 2",
                "Viaduc de Millau",
                {"length_m": 2460, "height_m": 343},
                "Bridge",
            ),
            no("unit", "1 2", "Viaduc de Millau", {"length_km": 2460}, "Bridge"),
            yes("unit scale", "1 2", "viaduc de Millau", {"length_km": 2.46}, "Bridge"),
            no("number", "1 2", "viaduc de Millau", {"height_m": 334}, "Bridge"),
            yes("written date", "1 4", "viaduc de Millau", {"inaugurated": "2004-12-14"}, "Bridge"),
            no("date", "1 4", "viaduc de Millau", {"inaugurated": "2004-12-04"}, "Bridge"),
            yes("title", "3", "Viaduc de Millau", {"architect": "Norman Foster"}, "Bridge"),
            no("name", "3", "Viaduc de Millau", {"architect": "Jean Nouvel"}, "Bridge"),
            yes("number word", "6", "Viaduc de Millau", {"piers": 7}, "Bridge"),
            no("scale", "5", "Viaduc de Millau", {"cost_eur": 400_000}, "Bridge"),
            yes_edge("title", "5", "Eiffage", "built", "Viaduc de Millau"),
            no("edge_end", "5", "Eiffage", {}, "built", target="pont de Normandie"),
            no("negation", "7", "Viaduc de Millau", {"pedestrians_allowed": True}, "Bridge"),
            no(
                "name",
                "3",
                "Viaduc de Millau",
                {"architect": "Michel Virlogeux"},
                "Bridge",
                OTHER_ROLE,
            ),
        ),
    ),
    Story(
        "fr",
        "tourisme",
        "Fréquentation touristique : l'été 2024 en Bretagne",
        "L'essentiel",
        """[1] Entre juin et septembre 2024, les hébergements collectifs de Bretagne ont enregistré 19,7 millions de
        nuitées, soit un recul de 1,8~% par rapport à 2023. [2] Les campings représentent à eux seuls 62~% des
        nuitées. [3] La clientèle étrangère, d'abord allemande et britannique, a augmenté de 3,1~%. [4] Le taux
        d'occupation des hôtels s'établit à 68,9~%. [5] Le prix moyen d'une chambre atteint 94 euros. [6] Le Finistère
        reste le premier département, avec 6,4 millions de nuitées. [7] L'enquête ne porte pas sur les locations entre
        particuliers.""",
        (
            yes("scale word", "1", "Bretagne", {"overnight_stays": 19_700_000}, "Region"),
            no("scale", "1", "Bretagne", {"overnight_stays": 19_700}, "Region"),
            yes("direction", "1", "Bretagne", {"overnight_stays_change_percent": -1.8}, "Region"),
            no("percentage", "1", "Bretagne", {"overnight_stays_change_percent": -8.1}, "Region"),
            yes(
                "decimal comma",
                "4",
                "hôtels de Bretagne",
                {"occupancy_rate_percent": 68.9},
                "Sector",
            ),
            no("percentage", "2", "campings", {"share_of_overnight_stays_percent": 26}, "Sector"),
            yes("same text", "2", "campings", {"share_of_overnight_stays_percent": 62}, "Sector"),
            no("currency", "5", "hôtels de Bretagne", {"average_room_price_gbp": 94}, "Sector"),
            yes("scale word", "6", "Finistère", {"overnight_stays": 6_400_000}, "Department"),
            no("subject", "6", "Morbihan", {"overnight_stays": 6_400_000}, "Department"),
            no(
                "year",
                "1",
                "Bretagne",
                {"overnight_stays": 19_700_000, "year": 2023},
                "Region",
                OTHER_ROLE,
            ),
            yes("negation", "7", "enquête", {"covers_private_rentals": False}, "Survey"),
            no("negation", "7", "enquête", {"covers_private_rentals": True}, "Survey"),
            yes(
                "free text",
                "1 3",
                "Bretagne",
                {"summary": "La clientèle étrangère a augmenté de 3,1 %."},
                "Region",
            ),
        ),
        names={"hôtels de Bretagne": ("hôtels",)},
    ),
    Story(
        "fr",
        "tramway",
        "Tramway : la ligne C de Saint-Brévent sur les rails",
        "Transports",
        """[1] Le conseil métropolitain a voté lundi 3 février 2025 la construction de la ligne C du tramway de
        Saint-Brévent. [2] Longue de 11,6 km, elle desservira 19 stations entre la gare et l'hôpital Pasteur. [3] Le
        coût est estimé à 375 millions d'euros hors taxes, dont 82 millions d'euros à la charge de l'État. [4] Les
        22 rames seront fournies par Ferrovia Constructions, dont l'usine se trouve à Valenciennes. [5] La mise en
        service est attendue en 2030. [6] Le maire, Olivier Delmas, s'est abstenu. [7] La ligne transportera 45~000
        voyageurs par jour.""",
        (
            yes("written date", "1", "ligne C", {"approved_on": "2025-02-03"}, "TramLine"),
            no("date", "1", "ligne C", {"approved_on": "2025-03-02"}, "TramLine"),
            yes("same text", "1 2", "ligne C", {"length_km": 11.6, "stations": 19}, "TramLine"),
            no("number", "1 2", "ligne C", {"length_km": 11.6, "stations": 29}, "TramLine"),
            yes("scale word", "1 3", "ligne C", {"cost_eur": 375_000_000}, "TramLine"),
            no("number", "1 3", "ligne C", {"cost_eur": 357_000_000}, "TramLine"),
            yes_edge(
                "title", "4", "Ferrovia Constructions", "supplies", "ligne C", {"trainsets": 22}
            ),
            no("edge_end", "4", "Ferrovia Constructions", {}, "has_factory_in", target="Belfort"),
            yes("digit grouping", "7", "ligne C", {"expected_daily_passengers": 45000}, "TramLine"),
            no("year", "5", "ligne C", {"opening_year": 2032}, "TramLine"),
            no("name", "6", "Saint-Brévent", {"mayor": "Olivier Delorme"}, "City"),
            no("invented", "1 2", "ligne C", {"length_km": 11.6, "operator": "Keolis"}, "TramLine"),
            yes("title", "6", "Saint-Brévent", {"mayor": "Olivier Delmas"}, "City"),
        ),
        names={"ligne C": ("ligne C du tramway de Saint-Brévent",)},
    ),
    Story(
        "fr",
        "abeilles",
        "Abeilles sauvages : un inventaire inédit dans les Alpes",
        "Biodiversité",
        """[1] Des chercheurs de l'université de Grenoble ont recensé 487 espèces d'abeilles sauvages dans le massif
        des Écrins. [2] L'étude, parue le 1er juin 2023 dans la revue Faune alpine, s'appuie sur 12~350 observations.
        [3] Une espèce sur cinq est considérée comme menacée. [4] « Au-dessus de 2~000 mètres, la diversité a chuté
        de 14~% en trente ans », explique l'entomologiste Maud Perrier. [5] L'équipe n'a pas trouvé de trace du frelon
        asiatique. [6] Le programme a reçu 640~000 euros de la Fondation Hautes Terres.""",
        (
            yes("same text", "1", "massif des Écrins", {"wild_bee_species": 487}, "Region"),
            no("number", "1", "massif des Écrins", {"wild_bee_species": 478}, "Region"),
            yes(
                "written date", "2", "inventaire des abeilles", {"published": "2023-06-01"}, "Study"
            ),
            no("date", "2", "inventaire des abeilles", {"published": "2023-07-01"}, "Study"),
            yes("digit grouping", "2", "inventaire des abeilles", {"observations": 12350}, "Study"),
            no("scale", "2", "inventaire des abeilles", {"observations": 12_350_000}, "Study"),
            yes(
                "fraction",
                "3",
                "abeilles sauvages",
                {"threatened_share_percent": 20},
                "SpeciesGroup",
            ),
            no(
                "percentage",
                "4",
                "abeilles sauvages",
                {"diversity_loss_percent": 41},
                "SpeciesGroup",
            ),
            yes("same text", "4", "Maud Perrier", {"profession": "entomologiste"}, "Person"),
            no("subject", "4", "Maud Ferrand", {"profession": "entomologiste"}, "Person"),
            no("negation", "5", "frelon asiatique", {"found_in_survey": True}, "Species"),
            yes_edge(
                "digit grouping",
                "6",
                "Fondation Hautes Terres",
                "funds",
                "programme",
                {"amount_eur": 640_000},
            ),
            no("name", "2", "inventaire des abeilles", {"journal": "Flore alpine"}, "Study"),
        ),
    ),
    Story(
        "es",
        "aceite",
        "Olivarera del Guadalbullón cierra su mejor campaña - El Correo del Campo",
        "Cooperativas",
        """[1] La cooperativa Olivarera del Guadalbullón facturó 127,5 millones de euros en la campaña 2023/2024, un
        18 % más que en la anterior. [2] La producción, en cambio, cayó hasta las 14.300 toneladas de aceite. [3] El
        precio medio en origen fue de 7,85 euros por kilo. [4] La entidad agrupa a 2.870 socios de once municipios de
        Jaén y no tiene deuda bancaria.

        [5] Su presidente, Antonio Quesada Ruiz, fue reelegido el 22 de marzo de 2024. [6] «Exportamos dos tercios de
        lo que producimos», afirmó. [7] La almazara de Mengíbar, inaugurada en 1998, procesa 1.200 toneladas de
        aceituna al día. [8] La cooperativa descarta fusionarse con Sierra Mágina Oleícola.""",
        (
            yes("scale word", "1", "Olivarera del Guadalbullón", {"revenue_eur": 127_500_000}),
            no("number", "1", "Olivarera del Guadalbullón", {"revenue_eur": 172_500_000}),
            yes("title", "2", "Olivarera del Guadalbullón", {"oil_production_tonnes": 14300}),
            no("unit", "2", "Olivarera del Guadalbullón", {"oil_production_kg": 14300}),
            yes("decimal comma", "2 3", "aceite", {"origin_price_eur_per_kg": 7.85}, "Product"),
            no("currency", "2 3", "aceite", {"origin_price_usd_per_kg": 7.85}, "Product"),
            yes(
                "digit grouping",
                "4",
                "Olivarera del Guadalbullón",
                {"members": 2870, "municipalities": 11},
            ),
            no("negation", "4", "Olivarera del Guadalbullón", {"has_bank_debt": True}),
            yes(
                "written date",
                "5",
                "Antonio Quesada Ruiz",
                {"reelected_on": "2024-03-22"},
                "Person",
            ),
            no("date", "5", "Antonio Quesada Ruiz", {"reelected_on": "2024-05-22"}, "Person"),
            no("name", "5", "Olivarera del Guadalbullón", {"president": "Antonio Quesada Marín"}),
            yes("title", "5", "Olivarera del Guadalbullón", {"president": "Antonio Quesada Ruiz"}),
            no("year", "7", "almazara de Mengíbar", {"opened": 1989}, "Mill"),
            yes(
                "same text", "7", "almazara de Mengíbar", {"capacity_tonnes_per_day": 1200}, "Mill"
            ),
            no(
                "negation",
                "8",
                "Olivarera del Guadalbullón",
                {"summary": "La cooperativa se fusiona con Sierra Mágina Oleícola."},
                note="sense: descartar",
            ),
            yes(
                "free text",
                "4",
                "Olivarera del Guadalbullón",
                {"description": "cooperativa con 2.870 socios y sin deuda bancaria"},
            ),
            yes("same text", "7", "almazara de Mengíbar", {"opened": 1998}, "Mill"),
        ),
        names={"Olivarera del Guadalbullón": ("Cooperativa Olivarera del Guadalbullón",)},
    ),
    Story(
        "es",
        "teide",
        "Teide - Enciclopedia de montañas",
        "Características",
        """[1] El Teide es un volcán situado en la isla de Tenerife, en las Canarias. [2] Con 3.715 metros sobre el
        nivel del mar, es el pico más alto de España. [3] Su última erupción se produjo en noviembre de 1909 y duró
        diez días. [4] El parque nacional que lo rodea fue creado el 22 de enero de 1954 y ocupa 18.990 hectáreas.
        [5] La Unesco lo declaró Patrimonio de la Humanidad en 2007. [6] El teleférico salva un desnivel de 1.199
        metros en unos ocho minutos. [7] No se puede subir a la cima sin permiso.""",
        (
            yes("title", "2", "Teide", {"elevation_m": 3715, "highest_in": "España"}, "Mountain"),
            no("number", "2", "Teide", {"elevation_m": 3751}, "Mountain"),
            yes("month", "3", "Teide", {"last_eruption": "1909-11"}, "Mountain"),
            no("year", "3", "Teide", {"last_eruption_year": 1919}, "Mountain"),
            yes(
                "written date",
                "4",
                "Parque Nacional del Teide",
                {"established": "1954-01-22"},
                "Park",
            ),
            no("unit", "4", "Parque Nacional del Teide", {"area_km2": 18990}, "Park"),
            yes("unit scale", "4", "Parque Nacional del Teide", {"area_km2": 189.9}, "Park"),
            no("unit", "2", "Teide", {"elevation_ft": 3715}, "Mountain"),
            yes_edge("same text", "1", "Teide", "located_in", "Tenerife"),
            no("edge_end", "1", "Teide", {}, "located_in", target="La Palma"),
            yes("number word", "6", "teleférico del Teide", {"ride_minutes": 8}, "CableCar"),
            no(
                "subject", "6", "teleférico de Fuente Dé", {"height_difference_m": 1199}, "CableCar"
            ),
            no("negation", "7", "Teide", {"summit_permit_required": False}, "Mountain"),
            yes("negation", "7", "Teide", {"summit_permit_required": True}, "Mountain"),
            yes("free text", "2", "Teide", {"summary": "El pico más alto de España."}, "Mountain"),
            no("name", "2", "Teide", {"summary": "El pico más alto de Portugal."}, "Mountain"),
        ),
        names={"Parque Nacional del Teide": ("parque nacional",)},
    ),
    Story(
        "es",
        "paro",
        "El paro baja en 57.835 personas en mayo",
        "Mercado laboral",
        """[1] El número de parados registrados en España descendió en mayo de 2025 en 57.835, hasta un total de
        2.454.883. [2] Es el dato más bajo en un mes de mayo desde 2008. [3] La afiliación media a la Seguridad Social
        superó los 21,78 millones de personas. [4] Por sectores, el paro cae sobre todo en los servicios, con 41.016
        desempleados menos. [5] El 42,8 % de los contratos firmados fueron indefinidos. [6] El paro no subió en
        ninguna comunidad autónoma. [7] La ministra Carmen Olmedo calificó el dato de histórico.""",
        (
            yes(
                "digit grouping",
                "1",
                "España",
                {"registered_unemployed": 2454883, "month": "2025-05"},
                "Country",
            ),
            no("number", "1", "España", {"registered_unemployed": 2545883}, "Country"),
            yes("direction", "1", "España", {"monthly_change_in_unemployed": -57835}, "Country"),
            no("scale", "3", "Seguridad Social", {"average_affiliates": 21_780}, "Institution"),
            no("percentage", "5", "contratos", {"permanent_share_percent": 48.2}, "Statistic"),
            yes("decimal comma", "5", "contratos", {"permanent_share_percent": 42.8}, "Statistic"),
            no("negation", "6", "paro", {"rose_in_some_region": True}, "Statistic"),
            no(
                "number", "1 4", "servicios", {"decline_in_unemployed": 57835}, "Sector", OTHER_ROLE
            ),
            yes("digit grouping", "4", "servicios", {"decline_in_unemployed": 41016}, "Sector"),
            no("name", "7", "paro", {"minister_quoted": "Carmen Robledo"}, "Statistic"),
            yes("same text", "7", "Carmen Olmedo", {"position": "ministra"}, "Person"),
            no("year", "1 2", "paro", {"lowest_may_since": 2018}, "Statistic"),
            yes(
                "free text",
                "6",
                "paro",
                {"summary": "El paro no subió en ninguna comunidad autónoma."},
                "Statistic",
            ),
            yes(
                "decimal comma",
                "3",
                "Seguridad Social",
                {"affiliates_more_than": 21_780_000},
                "Institution",
            ),
        ),
    ),
    Story(
        "es",
        "solar",
        "Helioterra pone en marcha su planta de Badajoz",
        "Energías renovables",
        """[1] Helioterra Renovables S.A. ha puesto en marcha en Badajoz una planta fotovoltaica de 210 MW que
        evitará la emisión de 96.000 toneladas de CO2 al año. [2] La inversión asciende a 138 millones de euros y ha
        sido financiada en un 60 % por el Banco Ibérico de Crédito. [3] La planta, bautizada como Dehesa Clara, ocupa
        430 hectáreas. [4] Helioterra, con sede en Zaragoza, prevé ingresar entre 310 y 330 millones de euros este
        año. [5] La consejera delegada, Marta Iriarte, no dio detalles sobre la posible venta de activos en Chile.
        [6] La compañía obtuvo en 2024 un beneficio neto de 41,2 millones de euros.""",
        (
            yes(
                "same text",
                "1 3",
                "Dehesa Clara",
                {"capacity_mw": 210, "area_ha": 430},
                "SolarPlant",
            ),
            no("unit", "1 3", "Dehesa Clara", {"capacity_kw": 210}, "SolarPlant"),
            yes("scale word", "1 2", "Helioterra Renovables S.A.", {"investment_eur": 138_000_000}),
            no("scale", "1 2", "Helioterra Renovables S.A.", {"investment_eur": 138_000_000_000}),
            yes("range", "4", "Helioterra", {"revenue_forecast_eur": [310_000_000, 330_000_000]}),
            no("currency", "6", "Helioterra", {"net_profit_usd": 41_200_000}),
            yes("scale word", "6", "Helioterra", {"net_profit_eur": 41_200_000, "year": 2024}),
            no("edge_end", "4", "Helioterra", {}, "headquartered_in", target="Bilbao"),
            yes_edge("same text", "4", "Helioterra Renovables", "headquartered_in", "Zaragoza"),
            no(
                "percentage",
                "1 2",
                "Banco Ibérico de Crédito",
                {"financed_share_percent": 80},
                "Bank",
            ),
            yes("title", "5", "Helioterra", {"ceo": "Marta Iriarte"}),
            no(
                "invented",
                "5",
                "Helioterra",
                {"ceo": "Marta Iriarte", "asset_sale_price_eur": 75_000_000},
            ),
            no("subject", "1", "Solvega Energía", {"capacity_mw": 210}),
            yes(
                "free text",
                "1",
                "Helioterra",
                {"summary": "Helioterra ha puesto en marcha una planta fotovoltaica en Badajoz."},
            ),
            no(
                "name",
                "1",
                "Helioterra",
                {"summary": "Helioterra ha puesto en marcha una planta fotovoltaica en Cáceres."},
            ),
            no(
                "scale",
                "1 3",
                "Dehesa Clara",
                {"co2_avoided_tonnes_per_year": 96_000_000},
                "SolarPlant",
            ),
        ),
        names={
            "Helioterra": ("Helioterra Renovables S.A.",),
            "Helioterra Renovables": ("Helioterra Renovables S.A.", "Helioterra"),
        },
    ),
    Story(
        "it",
        "occhiali",
        "Ottica Dolomiti, ricavi oltre i 300 milioni - Il Quotidiano del Nordest",
        "Imprese",
        """[1] Ottica Dolomiti S.p.A., l'azienda di Agordo che produce montature per occhiali, ha chiuso il 2024 con
        ricavi per 312,6 milioni di euro, in crescita dell'8,4% rispetto ai 288,4 milioni dell'anno precedente. [2]
        L'utile netto è salito a 27 milioni di euro. [3] Il gruppo conta 1.730 dipendenti e quattro stabilimenti, tutti
        in provincia di Belluno.

        [4] L'assemblea del 29 aprile 2025 ha nominato amministratore delegato Paolo De Zolt, che succede a Luisa
        Fontanive. [5] «Non apriremo fabbriche all'estero», ha detto De Zolt. [6] Il dividendo sarà di 0,42 euro per
        azione. [7] Gli Stati Uniti valgono il 35% delle vendite.""",
        (
            yes("scale word", "1", "Ottica Dolomiti", {"revenue_eur": 312_600_000, "year": 2024}),
            no("number", "1", "Ottica Dolomiti", {"revenue_eur": 321_600_000, "year": 2024}),
            no(
                "number",
                "1",
                "Ottica Dolomiti",
                {"revenue_eur": 288_400_000, "year": 2024},
                note=OTHER_ROLE,
            ),
            yes("decimal comma", "1", "Ottica Dolomiti S.p.A.", {"revenue_growth_percent": 8.4}),
            no("percentage", "7", "Ottica Dolomiti", {"us_share_of_sales_percent": 53}),
            yes("title", "2", "Ottica Dolomiti", {"net_profit_eur": 27_000_000}),
            no("currency", "2", "Ottica Dolomiti", {"net_profit_usd": 27_000_000}),
            yes("number word", "3", "Ottica Dolomiti", {"employees": 1730, "plants": 4}),
            no("number", "3", "Ottica Dolomiti", {"employees": 1730, "plants": 5}),
            yes(
                "written date",
                "4",
                "Paolo De Zolt",
                {"appointed_on": "2025-04-29", "role": "amministratore delegato"},
                "Person",
            ),
            no("date", "4", "Paolo De Zolt", {"appointed_on": "2025-04-19"}, "Person"),
            no("name", "4", "Ottica Dolomiti", {"ceo": "Luisa Fontanive"}, note=OTHER_ROLE),
            no(
                "negation",
                "5",
                "Ottica Dolomiti",
                {"summary": "L'azienda aprirà fabbriche all'estero."},
            ),
            yes("decimal comma", "6", "Ottica Dolomiti", {"dividend_per_share_eur": 0.42}),
            yes_edge("same text", "1", "Ottica Dolomiti", "produces", "montature per occhiali"),
        ),
        names={
            "Ottica Dolomiti": ("Ottica Dolomiti S.p.A.",),
            "Ottica Dolomiti S.p.A.": ("Ottica Dolomiti",),
        },
    ),
    Story(
        "it",
        "trasimeno",
        "Lago Trasimeno - Enciclopedia dei laghi italiani",
        "Geografia",
        """[1] Il Trasimeno, in provincia di Perugia, è con 128 km² il lago più esteso dell'Italia centrale. [2] La
        profondità massima non supera i sei metri. [3] Il perimetro misura circa 54 chilometri. [4] Lo specchio d'acqua
        comprende tre isole: Polvese, Maggiore e Minore. [5] Il parco regionale fu istituito il 3 marzo 1995. [6] Nel
        217 a.C. Annibale vi sconfisse l'esercito romano del console Gaio Flaminio. [7] Il lago non ha emissari
        naturali. [8] I comuni rivieraschi contano nell'insieme 57.200 abitanti.""",
        (
            yes("title", "1", "Lago Trasimeno", {"area_km2": 128}, "Lake"),
            no("number", "1", "Lago Trasimeno", {"area_km2": 182}, "Lake"),
            yes("number word", "2", "Lago Trasimeno", {"max_depth_m": 6}, "Lake"),
            no("unit", "2", "Lago Trasimeno", {"max_depth_km": 6}, "Lake"),
            yes(
                "list",
                "4",
                "Lago Trasimeno",
                {"islands": ["Polvese", "Maggiore", "Minore"]},
                "Lake",
            ),
            no(
                "name",
                "4",
                "Lago Trasimeno",
                {"islands": ["Polvese", "Maggiore", "Bisentina"]},
                "Lake",
            ),
            yes(
                "written date",
                "5",
                "parco regionale del Trasimeno",
                {"established": "1995-03-03"},
                "Park",
            ),
            no("year", "5", "parco regionale del Trasimeno", {"established_year": 1959}, "Park"),
            yes_edge("same text", "6", "Annibale", "defeated", "Gaio Flaminio"),
            no("edge_end", "6", "Annibale", {}, "defeated", target="Publio Cornelio Scipione"),
            no("negation", "7", "Lago Trasimeno", {"has_natural_outflow": True}, "Lake"),
            yes(
                "digit grouping",
                "8",
                "comuni rivieraschi del Trasimeno",
                {"population": 57200},
                "Region",
            ),
            no("subject", "1 3", "Lago di Bolsena", {"perimeter_km": 54}, "Lake"),
            no(
                "scale",
                "8",
                "comuni rivieraschi del Trasimeno",
                {"population": 57_200_000},
                "Region",
            ),
        ),
        names={
            "Lago Trasimeno": ("Trasimeno",),
            "parco regionale del Trasimeno": ("parco regionale",),
            "comuni rivieraschi del Trasimeno": ("comuni rivieraschi",),
        },
    ),
    Story(
        "it",
        "natalita",
        "Natalità: nel 2023 nuovo minimo storico",
        "Comunicato stampa",
        """[1] Nel 2023 sono nati in Italia 379.890 bambini, il 3,4% in meno rispetto al 2022. [2] Il numero medio di
        figli per donna è sceso a 1,20. [3] L'età media al parto è rimasta pressoché stabile a 32,5 anni. [4] I nati da
        genitori entrambi stranieri sono 51.447, pari al 13,5% del totale. [5] Il nome più scelto per i maschi è
        Leonardo, per le femmine Sofia. [6] Dal 2008 il calo non si è mai interrotto. [7] I dati definitivi sono stati
        diffusi il 21 ottobre 2024.""",
        (
            yes("digit grouping", "1", "Italia", {"births": 379890, "year": 2023}, "Country"),
            no("number", "1", "Italia", {"births": 397890, "year": 2023}, "Country"),
            yes("direction", "1", "Italia", {"births_change_percent": -3.4}, "Country"),
            no("percentage", "4", "Italia", {"births_to_foreign_parents_percent": 15.3}, "Country"),
            yes("title", "4", "Natalità", {"births_to_foreign_parents": 51447}, "Statistic"),
            yes("decimal comma", "2", "natalità", {"children_per_woman": 1.2}, "Statistic"),
            no("unit", "3", "natalità", {"mean_age_at_birth_months": 32.5}, "Statistic"),
            no("name", "5", "natalità", {"most_popular_girl_name": "Aurora"}, "Statistic"),
            yes("same text", "5", "natalità", {"most_popular_boy_name": "Leonardo"}, "Statistic"),
            no("date", "7", "natalità", {"final_data_released": "2024-10-12"}, "Statistic"),
            yes(
                "written date", "7", "natalità", {"final_data_released": "2024-10-21"}, "Statistic"
            ),
            no("subject", "1", "Spagna", {"births": 379890}, "Country"),
            no("scale", "1", "Italia", {"births": 379_890_000}, "Country"),
        ),
    ),
    Story(
        "it",
        "porto",
        "Porto di Acquamarina, via libera alla nuova diga",
        "Infrastrutture",
        """[1] Il ministero ha approvato il 18 luglio 2024 il progetto della nuova diga foranea di Acquamarina. [2]
        L'opera, lunga 4,2 chilometri, costerà 1,3 miliardi di euro, di cui 600 milioni a carico dello Stato. [3] I
        lavori sono stati affidati al consorzio Mare Aperto, guidato da Costruzioni Ligustri SpA. [4] Nel 2023 il
        porto ha movimentato 2.620.000 container. [5] La consegna è prevista per il novembre 2028. [6] Il presidente
        dell'Autorità portuale, Sergio Bonfante, ha escluso aumenti delle tariffe. [7] Potranno attraccare navi lunghe
        fino a 400 metri.""",
        (
            yes(
                "written date",
                "1",
                "diga foranea di Acquamarina",
                {"approved_on": "2024-07-18"},
                "Infrastructure",
            ),
            no(
                "date",
                "1",
                "diga foranea di Acquamarina",
                {"approved_on": "2024-06-18"},
                "Infrastructure",
            ),
            yes(
                "scale word",
                "1 2",
                "diga foranea di Acquamarina",
                {"cost_eur": 1_300_000_000},
                "Infrastructure",
            ),
            no(
                "scale",
                "1 2",
                "diga foranea di Acquamarina",
                {"cost_eur": 1_300_000},
                "Infrastructure",
            ),
            yes(
                "unit scale",
                "1 2",
                "diga foranea di Acquamarina",
                {"length_m": 4200},
                "Infrastructure",
            ),
            no(
                "unit",
                "1 2",
                "diga foranea di Acquamarina",
                {"length_miles": 4.2},
                "Infrastructure",
            ),
            yes_edge("legal form", "3", "Costruzioni Ligustri", "leads", "consorzio Mare Aperto"),
            no("edge_end", "3", "Costruzioni Ligustri", {}, "leads", target="consorzio Terraferma"),
            yes(
                "digit grouping",
                "4",
                "Porto di Acquamarina",
                {"containers": 2_620_000, "year": 2023},
                "Port",
            ),
            no(
                "year", "4", "Porto di Acquamarina", {"containers": 2_620_000, "year": 2022}, "Port"
            ),
            no("name", "6", "Autorità portuale", {"president": "Sergio Bonanni"}, "Authority"),
            no(
                "negation",
                "6",
                "Autorità portuale",
                {"summary": "Il presidente ha annunciato aumenti delle tariffe."},
                "Authority",
                "sense: escludere",
            ),
            yes(
                "month",
                "1 5",
                "diga foranea di Acquamarina",
                {"delivery": "2028-11"},
                "Infrastructure",
            ),
            yes(
                "free text",
                "1 3",
                "diga foranea",
                {"summary": "I lavori sono affidati al consorzio Mare Aperto."},
                "Infrastructure",
            ),
        ),
        names={
            "Costruzioni Ligustri": ("Costruzioni Ligustri SpA",),
            "Porto di Acquamarina": ("porto",),
        },
    ),
    Story(
        "it",
        "grano",
        "Grano duro: una varietà che resiste alla siccità",
        "Ricerca",
        """[1] Un gruppo dell'Università di Foggia ha selezionato una varietà di grano duro, battezzata Aridea, che
        consuma il 22% di acqua in meno. [2] La sperimentazione è durata cinque anni e ha coinvolto 38 aziende agricole.
        [3] La resa media è stata di 4,1 tonnellate per ettaro. [4] La ricerca, coordinata da Grazia Lo Surdo, è
        stata finanziata dalla Regione Puglia con 950.000 euro. [5] La varietà non è geneticamente modificata. [6] I
        semi saranno in vendita dal 1° ottobre 2026 a 78 euro al quintale.""",
        (
            yes(
                "same text",
                "1",
                "Aridea",
                {"water_saving_percent": 22, "species": "grano duro"},
                "Variety",
            ),
            no("percentage", "1", "Aridea", {"water_saving_percent": 32}, "Variety"),
            yes("number word", "1 2", "Aridea", {"trial_years": 5, "farms": 38}, "Variety"),
            no("number", "1 2", "Aridea", {"farms": 83}, "Variety"),
            yes("decimal comma", "1 3", "Aridea", {"yield_t_per_ha": 4.1}, "Variety"),
            no("unit", "1 3", "Aridea", {"yield_kg_per_ha": 4.1}, "Variety"),
            yes_edge(
                "digit grouping",
                "4",
                "Regione Puglia",
                "finances",
                "ricerca",
                {"amount_eur": 950_000},
            ),
            no("edge_end", "4", "Regione Basilicata", {}, "finances", target="ricerca"),
            no("negation", "1 5", "Aridea", {"genetically_modified": True}, "Variety"),
            yes("written date", "1 6", "Aridea", {"on_sale_from": "2026-10-01"}, "Variety"),
            no("currency", "6", "Aridea", {"seed_price_usd_per_quintal": 78}, "Variety"),
            no(
                "invented", "1", "Aridea", {"water_saving_percent": 22, "patented": True}, "Variety"
            ),
            yes(
                "free text",
                "1 5",
                "Aridea",
                {"description": "varietà di grano duro non geneticamente modificata"},
                "Variety",
            ),
        ),
    ),
)
