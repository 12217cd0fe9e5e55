"""The first generator of labelled cases: templates over invented companies and the World Factbook, and articles.

Each topic writes pairs of a true and a false case, which mostly share their page and differ in one value. The articles
at the end are written by hand. With seed 1 there are 2,964 cases: 1,471 true, 1,493 false; 234 are written by hand.

By language: de 595, fr 595, en 592, es 592, it 590.

False cases by language: de 301, fr 300, en 298, es 297, it 297.

False cases by fault: number 381, name 182, scale 154, subject 144, year 116, percentage 104, date 90, unit 81, edge_end
80, negation 59, invented 56, currency 46.

True cases by rule: same text 222, unit word 146, scale word 145, digit grouping 122, written date 100, percentage 99,
free text 72, title 51, legal form 41, currency 40, alias 38, free text in English 36, identifier 35, list 33, several
quotes 32, fraction 24, approximation 23, negative number 23, number word 23, range 23, declined form 20, translated
name 20, heading 18, title of a person 18, plural 15, enumeration 12, boolean 11, quarter 10, enumeration in English 8,
percentage points 5, year of a date 5, ordinal 1.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import date
from decimal import Decimal
from functools import lru_cache
from random import Random
from typing import Any, Final, cast

from sandbox.corpus import factbook
from tests.support.evidence_cases import EvidenceCase, Fault

LANGUAGES: Final = ("en", "de", "fr", "es", "it")
NBSP: Final = "\u00a0"
NARROW: Final = "\u202f"

Properties = dict[str, Any]
Texts = Mapping[str, tuple[str, ...]]
Rows = Mapping[str, tuple[tuple[str, str], ...]]


def cases(seed: int = 1) -> list[EvidenceCase]:
    """All cases in a fixed order. Ids and their order depend on `seed` only; no two cases are equal.

    Raises CorpusError if the World Factbook is not installed.
    """
    made = [case for language in LANGUAGES for case in _cases_of(language, seed)]
    made += _hand_written()
    unique: dict[str, EvidenceCase] = {}
    for case in made:
        unique.setdefault(repr(replace(case, id="", fault=None, rule="", note="")), case)
    counts: Counter[str] = Counter()
    return [_numbered(case, counts) for case in unique.values()]


def _cases_of(language: str, seed: int) -> Iterator[EvidenceCase]:
    for topic, write, amount in _FAMILIES:
        writer = _Writer(language, topic, Random(f"{seed}/{language}/{topic}"))
        for turn in range(amount):
            writer.draw(turn)
            write(writer)
        yield from writer.cases


def _numbered(case: EvidenceCase, counts: Counter[str]) -> EvidenceCase:
    counts[case.id] += 1
    return replace(case, id=f"{case.id}-{counts[case.id]}")


# ---- Names and notations of each language


def _words(text: str, separator: str | None = None) -> tuple[str, ...]:
    return tuple(text.split(separator))


_NOTATIONS: Final[Rows] = {
    "en": ((",", "."), (",", "."), (",", "."), (NARROW, ".")),
    "de": ((".", ","), (".", ","), (NBSP, ","), (NARROW, ","), ("’", ".")),
    "fr": ((NARROW, ","), (NBSP, ","), (" ", ","), (NARROW, ","), ("’", ",")),
    "es": ((".", ","), (".", ","), (NBSP, ","), (NARROW, ",")),
    "it": ((".", ","), (".", ","), (".", ","), ("'", ".")),
}
"""Pairs of the sign between thousands and the decimal sign; the first is the usual one."""

_MONTHS: Final[Texts] = {
    "en": _words(
        "January February March April May June July August September October November December"
    ),
    "de": _words(
        "Januar Februar März April Mai Juni Juli August September Oktober November Dezember"
    ),
    "fr": _words(
        "janvier février mars avril mai juin juillet août septembre octobre novembre décembre"
    ),
    "es": _words(
        "enero febrero marzo abril mayo junio julio agosto septiembre octubre noviembre diciembre"
    ),
    "it": _words(
        "gennaio febbraio marzo aprile maggio giugno luglio agosto settembre ottobre novembre dicembre"
    ),
}
_SHORT_MONTHS: Final[Texts] = {
    "en": _words("Jan. Feb. Mar. Apr. May Jun. Jul. Aug. Sept. Oct. Nov. Dec."),
    "de": _words("Jan. Feb. März Apr. Mai Juni Juli Aug. Sept. Okt. Nov. Dez."),
    "fr": _words("janv. févr. mars avr. mai juin juil. août sept. oct. nov. déc."),
    "es": _words("ene. feb. mar. abr. may. jun. jul. ago. sept. oct. nov. dic."),
    "it": _words("gen. feb. mar. apr. mag. giu. lug. ago. set. ott. nov. dic."),
}
_NUMBER_WORDS: Final[Texts] = {
    "en": _words("two three four five six seven eight nine ten eleven twelve"),
    "de": _words("zwei drei vier fünf sechs sieben acht neun zehn elf zwölf"),
    "fr": _words("deux trois quatre cinq six sept huit neuf dix onze douze"),
    "es": _words("dos tres cuatro cinco seis siete ocho nueve diez once doce"),
    "it": _words("due tre quattro cinque sei sette otto nove dieci undici dodici"),
}
_QUARTERS: Final[Texts] = {
    "en": (
        "the first quarter of",
        "the second quarter of",
        "the third quarter of",
        "the fourth quarter of",
    ),
    "de": ("ersten Quartal", "zweiten Quartal", "dritten Quartal", "vierten Quartal"),
    "fr": ("premier trimestre", "deuxième trimestre", "troisième trimestre", "quatrième trimestre"),
    "es": (
        "primer trimestre de",
        "segundo trimestre de",
        "tercer trimestre de",
        "cuarto trimestre de",
    ),
    "it": (
        "primo trimestre del",
        "secondo trimestre del",
        "terzo trimestre del",
        "quarto trimestre del",
    ),
}

_STEMS: Final = _words(
    "Norvex Haldan Velmira Kestrion Aurentia Brenova Cordalia Daltec Elmora Fenwick Galvion Ostara Lumetra Maravel"
    " Solvane Tarquin Verrano Zenovia Ambrel Bellaro Cantor Delvino Estrano Ferrand Grimaud Hallstein Ivarra Jorvik"
    " Kaltern Lindhof Morvan Nebbia Orlanda Pellmar Quintar Rossel Savino Terlan Ulmer Valdora Wexford Yverdo"
    " Arvento Bolmen Calvera Dornier-Kamp Evrard Fiorano Gantar Helvion Isenau Kurzau Lormont Montval"
)
_SECTORS: Final[Texts] = {
    "en": ("", "", "Energy", "Foods", "Mining", "Therapeutics", "Rail", "Shipping"),
    "de": ("", "", "Energie", "Chemie", "Maschinenbau", "Logistik", "Stahl", "Pharma"),
    "fr": ("", "", "Énergie", "Industries", "Santé", "Aéronautique", "Transports", "Agro"),
    "es": ("", "", "Energía", "Alimentos", "Renovables", "Logística", "Minera", "Salud"),
    "it": ("", "", "Energia", "Alimentari", "Costruzioni", "Trasporti", "Acciai", "Farmaceutici"),
}
_LEGAL_FORMS: Final[Texts] = {
    "en": ("Inc.", "plc", "Ltd.", "Corp.", "LLC"),
    "de": ("GmbH", "AG", "SE", "GmbH & Co. KG", "KGaA"),
    "fr": ("S.A.", "SAS", "SE", "SARL"),
    "es": ("S.A.", "S.L.", "S.A.U."),
    "it": ("S.p.A.", "S.r.l.", "SpA"),
}
_CITIES: Final[Texts] = {
    "en": _words(
        "Leeds,Bristol,Cardiff,Dayton,Tacoma,Halifax,Aberdeen,Savannah,Geelong,Limerick,Duluth,Norwich",
        ",",
    ),
    "de": _words(
        "Kassel,Erfurt,Linz,Köln,Regensburg,Bielefeld,Graz,Würzburg,Rostock,Winterthur,Ulm,Görlitz",
        ",",
    ),
    "fr": _words(
        "Lyon,Nîmes,Grenoble,Besançon,Le Havre,Limoges,Saint-Étienne,Namur,Orléans,Tours,Lausanne,Brest",
        ",",
    ),
    "es": _words(
        "Valladolid,Málaga,Zaragoza,A Coruña,León,Bilbao,Monterrey,Rosario,Cádiz,Almería,Gijón,Murcia",
        ",",
    ),
    "it": _words(
        "Bologna,Forlì,Bari,Trieste,Modena,L'Aquila,Perugia,Cagliari,Parma,Lugano,Verona,Ancona",
        ",",
    ),
}
_FIRST_NAMES: Final[Texts] = {
    "en": _words("Laura Peter Grace Oliver Hannah Samuel Ruth Daniel Priya Thomas"),
    "de": _words("Jürgen Katrin Sabine Wolfgang Anke Matthias Ulrike Björn Ayşe Stefan"),
    "fr": _words("Hélène Jean-Marc Céline Thierry Noémie François Agnès Gaël Sophie Étienne"),
    "es": _words("Lucía José Inés Álvaro Mónica Íñigo Teresa Raúl Begoña Andrés"),
    "it": _words("Chiara Niccolò Giulia Matteo Francesca Paolo Elena Davide Ilaria Renzo"),
}
_LAST_NAMES: Final[Texts] = {
    "en": _words(
        "Whitfield,O'Brien,Carver,Ashdown,Mbeki,Lindqvist,Hargrove,Patel,McAllister,Stone", ","
    ),
    "de": _words(
        "Müller,Brandt,von der Heide,Grünwald,Özdemir,Schäfer,Kohl,Reinhardt,Weiß,Lange", ","
    ),
    "fr": _words(
        "Lefèvre,Dubois,Garnier,de La Tour,Benali,Rousseau,Peltier,Nguyen,Chauvet,Marchand", ","
    ),
    "es": _words("García,Núñez,Ortega,Ibáñez,Peña,Molina,Vázquez,Herrera,Zubiri,Campos", ","),
    "it": _words(
        "Rossi,Bellucci,De Santis,Moretti,Ferrara,Conti,Marchetti,D'Angelo,Vitali,Greco", ","
    ),
}
_TITLES_OF_PEOPLE: Final[Texts] = {
    "en": ("Dr.", "Professor", "Prof.", "Dr"),
    "de": ("Dr.", "Prof. Dr.", "Dipl.-Ing.", "Dr.-Ing."),
    "fr": ("Dr", "Pr", "Me"),
    "es": ("Ing.", "Lic.", "Prof."),
    "it": ("ing.", "avv.", "prof."),
}

_TITLES: Final[Texts] = {
    "en": (
        "{s}: company profile",
        "{s} - overview",
        "Company news",
        "Markets today",
        "{s} in figures",
        "Briefing",
    ),
    "de": (
        "{s} im Porträt",
        "{s} – Unternehmen",
        "Wirtschaft kompakt",
        "Meldungen",
        "{s} in Zahlen",
        "Aus der Branche",
    ),
    "fr": (
        "{s} : présentation",
        "{s} en bref",
        "Actualité des entreprises",
        "L'essentiel",
        "{s} en chiffres",
        "Dépêches",
    ),
    "es": (
        "{s}: perfil de la empresa",
        "{s} en breve",
        "Empresas",
        "Actualidad económica",
        "{s} en cifras",
        "Breves",
    ),
    "it": (
        "{s}: profilo aziendale",
        "{s} in breve",
        "Imprese e mercati",
        "Notizie",
        "{s} in cifre",
        "Economia",
    ),
}
_HEADINGS: Final[Texts] = {
    "en": ("", "Key facts", "Business", "Overview", "Latest", "History"),
    "de": ("", "Auf einen Blick", "Geschäft", "Überblick", "Aktuelles", "Geschichte"),
    "fr": ("", "Chiffres clés", "Activité", "Vue d'ensemble", "À la une", "Histoire"),
    "es": ("", "Datos clave", "Actividad", "Resumen", "Última hora", "Historia"),
    "it": ("", "Dati principali", "Attività", "In sintesi", "Ultime notizie", "Storia"),
}
_FILLERS: Final[Texts] = {
    "en": (
        "{p} of the trade association spoke of a difficult year.",
        "The town of {c} counts {n} inhabitants.",
        "Prices in the sector have risen by {q} percent since {y}.",
        "{o} declined to comment.",
        "A hearing in {c} drew {n} visitors, according to {p}.",
        "The building dates from {y} and was last renovated under {p}.",
        "Analysts had expected a margin of {q} percent.",
        "Read more: how {o} wants to double its orders.",
    ),
    "de": (
        "{p} vom Branchenverband sprach von einem schwierigen Jahr.",
        "{c} zählt {n} Einwohner.",
        "Die Preise der Branche sind seit {y} um {q} Prozent gestiegen.",
        "{o} wollte sich dazu nicht äußern.",
        "Zu einer Anhörung in {c} kamen nach Angaben von {p} {n} Besucher.",
        "Das Gebäude stammt von {y} und wurde zuletzt unter {p} saniert.",
        "Analysten hatten mit einer Marge von {q} Prozent gerechnet.",
        "Lesen Sie auch: Wie {o} seine Aufträge verdoppeln will.",
    ),
    "fr": (
        "{p}, de la fédération professionnelle, a parlé d'une année difficile.",
        "La ville de {c} compte {n} habitants.",
        "Les prix du secteur ont augmenté de {q} % depuis {y}.",
        "{o} n'a pas souhaité faire de commentaire.",
        "Une réunion publique a attiré {n} personnes, selon {p}.",
        "Le bâtiment date de {y} et a été rénové sous la direction de {p}.",
        "Les analystes tablaient sur une marge de {q} %.",
        "À lire aussi : comment {o} veut doubler ses commandes.",
    ),
    "es": (
        "{p}, de la patronal del sector, habló de un año difícil.",
        "La ciudad de {c} tiene {n} habitantes.",
        "Los precios del sector han subido un {q} % desde {y}.",
        "{o} declinó hacer comentarios.",
        "Una audiencia en {c} reunió a {n} personas, según {p}.",
        "El edificio data de {y} y se reformó por última vez con {p}.",
        "Los analistas esperaban un margen del {q} %.",
        "Lea también: cómo {o} quiere duplicar sus pedidos.",
    ),
    "it": (
        "{p}, dell'associazione di categoria, ha parlato di un anno difficile.",
        "La città di {c} conta {n} abitanti.",
        "I prezzi del settore sono aumentati del {q}% dal {y}.",
        "{o} non ha voluto commentare.",
        "Un incontro a {c} ha richiamato {n} persone, secondo {p}.",
        "L'edificio risale al {y} ed è stato ristrutturato sotto {p}.",
        "Gli analisti si aspettavano un margine del {q}%.",
        "Leggi anche: come {o} vuole raddoppiare gli ordini.",
    ),
}
_DECOYS: Final[Texts] = {
    "en": (
        "A year earlier the figure was {x}.",
        "An older report gives {x}.",
        "For comparison: at {o} it is {x}.",
    ),
    "de": (
        "Im Jahr davor waren es {x}.",
        "Ein älterer Bericht nennt {x}.",
        "Zum Vergleich: bei {o} sind es {x}.",
    ),
    "fr": (
        "Un an plus tôt : {x}.",
        "Un rapport plus ancien indique {x}.",
        "À titre de comparaison, chez {o} : {x}.",
    ),
    "es": (
        "Un año antes la cifra era de {x}.",
        "Un informe anterior habla de {x}.",
        "En {o}, en cambio: {x}.",
    ),
    "it": (
        "Un anno prima il dato era {x}.",
        "Un vecchio rapporto indica {x}.",
        "Per confronto, in {o}: {x}.",
    ),
}
"""Sentences beside the quote that contain the false value, a number or date."""
_NAME_DECOYS: Final[Texts] = {
    "en": (
        "{o}, on the other hand, relies on {x}.",
        "{x} was mentioned as well.",
        "Earlier reports had named {x}.",
    ),
    "de": (
        "{o} setzt dagegen auf {x}.",
        "Auch von {x} war die Rede.",
        "Frühere Berichte hatten {x} genannt.",
    ),
    "fr": (
        "{o}, en revanche, mise sur {x}.",
        "On a aussi parlé de {x}.",
        "De précédents articles citaient {x}.",
    ),
    "es": (
        "{o}, en cambio, apuesta por {x}.",
        "También se habló de {x}.",
        "Informaciones anteriores citaban a {x}.",
    ),
    "it": (
        "{o} punta invece su {x}.",
        "Si è parlato anche di {x}.",
        "In precedenza si era fatto il nome di {x}.",
    ),
}
"""The same with a name."""
_ENDINGS: Final[Texts] = {
    "en": (
        ".[{n}]",
        ", according to its annual report.",
        " (annual report {y}, p. {n}).",
        ", a filing shows.",
        ", as Reuters reported.",
        "!",
    ),
    "de": (
        ".[{n}]",
        ", wie aus dem Geschäftsbericht hervorgeht.",
        " (Geschäftsbericht {y}, S. {n}).",
        ", so die dpa.",
        " – Stand {y}.",
        "!",
    ),
    "fr": (
        ".[{n}]",
        ", selon son rapport annuel.",
        " (rapport annuel {y}, p. {n}).",
        ", indique l'AFP.",
        ", apprend-on.",
        " !",
    ),
    "es": (
        ".[{n}]",
        ", según su informe anual.",
        " (informe anual {y}, pág. {n}).",
        ", informa EFE.",
        ", según se supo ayer.",
        ".",
    ),
    "it": (
        ".[{n}]",
        ", secondo la relazione annuale.",
        " (relazione {y}, pag. {n}).",
        ", riferisce l'Ansa.",
        ", si è appreso ieri.",
        ".",
    ),
}


# ---- Writing


@dataclass(frozen=True)
class _Date:
    """A date with its text: the phrase with its preposition, and without."""

    day: date
    phrase: str
    plain: str


class _Writer:
    """Writes the cases of one language and topic. `draw` begins a new instance with fresh names and one notation."""

    def __init__(self, language: str, topic: str, random: Random) -> None:
        self.language = language
        self.topic = topic
        self.random = random
        self.cases: list[EvidenceCase] = []
        self.turn = 0
        self._used: set[str] = set()
        self._notation = _NOTATIONS[language][0]

    def draw(self, turn: int) -> None:
        """Begin instance number `turn`."""
        self.turn = turn
        self._used = set()
        self._notation = self.random.choice(_NOTATIONS[self.language])

    def use_usual_notation(self) -> None:
        """For numbers with three decimals, which other notations would make ambiguous."""
        self._notation = _NOTATIONS[self.language][0]

    def pick(self, texts: Mapping[str, tuple[Any, ...]]) -> Any:
        """The next of the language's entries, by turn."""
        entries = texts[self.language]
        return entries[self.turn % len(entries)]

    def one_of(self, texts: Texts) -> str:
        """A text of the language that this instance has not used."""
        free = [text for text in texts[self.language] if text not in self._used]
        text = self.random.choice(free or list(texts[self.language]))
        if text:
            self._used.add(text)
        return text

    def company(self) -> str:
        stem = self.random.choice([stem for stem in _STEMS if stem not in self._used])
        self._used.add(stem)
        sector = self.random.choice(_SECTORS[self.language])
        return f"{stem} {sector}".strip()

    def legal_form(self) -> str:
        return self.random.choice(_LEGAL_FORMS[self.language])

    def person(self) -> str:
        return f"{self.one_of(_FIRST_NAMES)} {self.one_of(_LAST_NAMES)}"

    def city(self) -> str:
        return self.one_of(_CITIES)

    def year(self, first: int = 1990, last: int = 2024) -> int:
        return self.random.randint(first, last)

    def integer(self, digits: int) -> int:
        """A number with about three significant digits, or all of them."""
        number = self.random.randint(10 ** (digits - 1), 10**digits - 1)
        cut: int = self.random.choice((1, 1, 10, 100)) if digits > 3 else 1
        return number // cut * cut

    def text(self, number: Decimal | int) -> str:
        """The number in the page's notation, such as `1.234,5`."""
        group, point = self._notation
        whole, _, decimals = str(abs(number)).partition(".")
        grouped = f"{int(whole):,}".replace(",", group)
        sign = self.random.choice(("−", "-")) if number < 0 else ""
        return f"{sign}{grouped}{point}{decimals}" if decimals else f"{sign}{grouped}"

    def near(self, number: int) -> int:
        """Another number with the same count of digits and zeros at the end: one digit or two are changed."""
        digits = str(number).rstrip("0")
        zeros = len(str(number)) - len(digits)
        while True:
            changed = list(digits)
            place = self.random.randrange(len(changed))
            if self.random.random() < 0.5 and place:
                changed[place - 1], changed[place] = changed[place], changed[place - 1]
            else:
                changed[place] = self.random.choice("123456789")
            if changed[0] != "0" and changed[-1] != "0" and "".join(changed) != digits:
                return int("".join(changed) + "0" * zeros)

    def date(self, year: int, precision: str = "day", month: int = 0, day: int = 0) -> _Date:
        """A date written in the language; `precision` is day, month, quarter or year."""
        month = month or self.random.randint(1, 12)
        value = date(year, month, day or self.random.randint(1, 28))
        return _write_date(self.language, value, precision, self.random)

    def page(
        self,
        marked: str,
        subject: str,
        title: str | None = None,
        heading: str | None = None,
        decoy: str = "",
    ) -> "_Page":
        """A page around `marked`, whose quotes stand in [[ ]].

        Without `title` or `heading` one is chosen that may name the subject. `decoy` is a value that another sentence
        of the page states.
        """
        marked = self._end_differently(_elide(self.language, marked).replace("..", "."))
        title = self.pick_title(subject) if title is None else title
        heading = self.random.choice(_HEADINGS[self.language]) if heading is None else heading
        beside = self._beside(decoy) if decoy else self.filler()
        parts = [title, self.filler(), heading, self.filler(), marked, beside, self.filler()]
        if self.random.random() < 0.3:
            del parts[1]
        text = self._lay_out(parts)
        return _Page(title, heading, *_unmark(text))

    def _beside(self, decoy: str) -> str:
        decoys = _DECOYS if any(character.isdigit() for character in decoy) else _NAME_DECOYS
        return self.one_of(decoys).format(x=decoy, o=self.company())

    def _end_differently(self, marked: str) -> str:
        """Give some of the quotes a source, a footnote or a remark at their end."""

        def end(match: re.Match[str]) -> str:
            ending = (
                self.random.choice(_ENDINGS[self.language]) if self.random.random() < 0.35 else "."
            )
            return ending.format(n=self.random.randint(2, 240), y=self.year(2015, 2025)) + "]]"

        return re.sub(r"\.\]\]", end, marked)

    def _lay_out(self, parts: list[str]) -> str:
        *above, before, marked, beside, last = parts
        body = (
            " ".join((before, marked, beside))
            if self.random.random() < 0.7
            else f"{marked} {beside}\n{before}"
        )
        return "\n\n".join(filter(None, (*above, body, last)))

    def pick_title(self, subject: str) -> str:
        return self.random.choice(_TITLES[self.language]).format(s=subject)

    def filler(self) -> str:
        """A sentence that has nothing to do with the claim."""
        return self.one_of(_FILLERS).format(
            p=self.person(),
            c=self.city(),
            n=self.text(self.integer(5)),
            q=self.text(Decimal(self.random.randint(11, 99)) / 10),
            y=self.year(1960, 2023),
            o=self.company(),
        )

    def case(
        self, page: "_Page", subject: str, type_name: str = "Company", **more: Any
    ) -> EvidenceCase:
        """A case without claim, for `true` and `false`; `more` are fields of EvidenceCase."""
        return EvidenceCase(
            id=f"{self.language}-{self.topic}",
            language=self.language,
            title=page.title,
            heading=page.heading,
            page=page.text,
            quotes=page.quotes,
            subject=subject,
            properties={},
            type_name=type_name,
            **more,
        )

    def true(self, case: EvidenceCase, properties: Properties, rule: str, note: str = "") -> None:
        self.cases.append(replace(case, properties=properties, rule=rule, note=note))

    def false(
        self, case: EvidenceCase, properties: Properties, fault: Fault, note: str = ""
    ) -> None:
        self.cases.append(replace(case, properties=properties, fault=fault, note=note))


@dataclass(frozen=True)
class _Page:
    title: str
    heading: str
    text: str
    quotes: tuple[str, ...]


_MARKED: Final = re.compile(r"\[\[(.+?)\]\](?!\])", re.DOTALL)


def _unmark(marked: str) -> tuple[str, tuple[str, ...]]:
    """The text without its marks, and the quotes that they enclose."""
    return _MARKED.sub(r"\1", marked), tuple(_MARKED.findall(marked))


def _elide(language: str, text: str) -> str:
    """Join articles and prepositions with the name that follows: `d'Orléans`, `au Havre`, `dell'Aquila`."""
    for pattern, replacement in _ELISIONS.get(language, ()):
        text = re.sub(pattern, replacement, text)
    return text


_ELISIONS: Final[Mapping[str, tuple[tuple[str, str], ...]]] = {
    "fr": (
        (r"\bde Le (?=[A-Z])", "du "),
        (r"\bà Le (?=[A-Z])", "au "),
        (r"\b([dD])e (?=[AEIOUÉÈ]|un )", r"\1'"),
    ),
    "es": ((r" y (?=I|Hi)", " e "),),
    "it": (
        (r"\bdi L'", "dell'"),
        (r"\b([aA]) L'", r"\1ll'"),
        (r"\b([aA]) (?=A[a-z])", r"\1d "),
        (r"\be (?=E[a-z])", "ed "),
    ),
}


def _json(number: Decimal | int) -> int | float:
    return int(number) if number == int(number) else float(number)


def _of(language: str, texts: Texts, index: int) -> str:
    return texts[language][index]


def _write_date(language: str, day: date, precision: str, random: Random) -> _Date:
    if precision == "year":
        plain = str(day.year)
        return _Date(
            day,
            {"it": f"nel {plain}", "de": f"im Jahr {plain}"}.get(
                language, f"{_IN[language]} {plain}"
            ),
            plain,
        )
    if precision == "quarter":
        return _write_quarter(language, day, random)
    month = _of(language, _MONTHS, day.month - 1)
    if precision == "month":
        plain = f"{month} de {day.year}" if language == "es" else f"{month} {day.year}"
        return _Date(day, f"{_IN[language]} {plain}", plain)
    plain = random.choice(_DAY_FORMATS[language]).format(
        d=day.day, dd=f"{day.day:02}", mm=f"{day.month:02}", y=day.year, month=month,
        mon=_of(language, _SHORT_MONTHS, day.month - 1), th=_ordinal(language, day.day), iso=day.isoformat(),
    )  # fmt: skip
    on = "l'" if language == "it" and plain[:2] in {"8 ", "11"} else f"{_ON[language]} "
    return _Date(day, f"{on}{plain}", plain)


def _write_quarter(language: str, day: date, random: Random) -> _Date:
    quarter = (day.month - 1) // 3
    plain = f"{_of(language, _QUARTERS, quarter)} {day.year}"
    short = f"{'T' if language in {'fr', 'es'} else 'Q'}{quarter + 1} {day.year}"
    if random.random() < 0.3:
        return _Date(day, f"{_IN_QUARTER[language]} {short}", short)
    before = f"{_IN_QUARTER[language]} "
    return _Date(day, f"{before}{plain}", plain)


_IN_QUARTER: Final = {"en": "in", "de": "im", "fr": "au", "es": "en el", "it": "nel"}
_IN: Final = {"en": "in", "de": "im", "fr": "en", "es": "en", "it": "a"}
_ON: Final = {"en": "on", "de": "am", "fr": "le", "es": "el", "it": "il"}
_DAY_FORMATS: Final[Texts] = {
    "en": (
        "{d} {month} {y}",
        "{month} {d}, {y}",
        "{th} {month} {y}",
        "{month} {th}, {y}",
        "{mon} {d}, {y}",
        "{iso}",
    ),
    "de": ("{d}. {month} {y}", "{d}. {month} {y}", "{dd}.{mm}.{y}", "{d}. {mon} {y}"),
    "fr": ("{th} {month} {y}", "{th} {month} {y}", "{dd}/{mm}/{y}", "{th} {mon} {y}"),
    "es": (
        "{d} de {month} de {y}",
        "{d} de {month} del {y}",
        "{dd}/{mm}/{y}",
        "{d} de {mon} de {y}",
    ),
    "it": (
        "{th} {month} {y}",
        "{th} {month} {y}",
        "{dd}.{mm}.{y}",
        "{dd}/{mm}/{y}",
        "{d} {mon} {y}",
    ),
}


def _ordinal(language: str, day: int) -> str:
    if language == "en":
        ending = "th" if 11 <= day <= 13 else {1: "st", 2: "nd", 3: "rd"}.get(day % 10, "th")
        return f"{day}{ending}"
    first = {"fr": "1er", "it": "1º"}.get(language)
    return first if first and day == 1 else str(day)


def _english_date(day: date) -> str:
    return f"{day.day} {_MONTHS['en'][day.month - 1]} {day.year}"


# ---- Numbers

_COUNTS: Final[Rows] = {
    "en": (
        ("employees", "{s} employs {v} people at its sites in {c} and abroad."),
        ("vehicles_delivered", "In {y}, {s} delivered {v} vehicles, more than in any year before."),
        ("customers", "{s} now serves {v} customers, {o} of them in {c}."),
        ("headcount", "At the end of {y} the workforce of {s} stood at {v}, with {o} trainees."),
        ("stores", "With {v} stores, {s} is the largest chain around {c}."),
    ),
    "de": (
        ("employees", "{s} beschäftigt {v} Menschen, davon {o} in {c}."),
        (
            "vehicles_delivered",
            "Im Jahr {y} lieferte {s} {v} Fahrzeuge aus, so viele wie nie zuvor.",
        ),
        ("customers", "{s} versorgt inzwischen {v} Kunden in der Region {c}."),
        (
            "headcount",
            "Zum Jahresende {y} zählte die Belegschaft von {s} {v} Köpfe, darunter {o} Auszubildende.",
        ),
        ("stores", "Mit {v} Filialen ist {s} die größte Kette rund um {c}."),
    ),
    "fr": (
        ("employees", "{s} emploie {v} personnes, dont {o} sur son site de {c}."),
        ("vehicles_delivered", "En {y}, {s} a livré {v} véhicules, un record."),
        ("customers", "{s} compte désormais {v} clients dans la région."),
        ("headcount", "Fin {y}, l'effectif de {s} s'élevait à {v} salariés, dont {o} apprentis."),
        ("stores", "Avec {v} magasins, {s} est la première enseigne de la région."),
    ),
    "es": (
        ("employees", "{s} emplea a {v} personas, {o} de ellas en {c}."),
        ("vehicles_delivered", "En {y}, {s} entregó {v} vehículos, más que nunca."),
        ("customers", "{s} atiende ya a {v} clientes en la zona de {c}."),
        (
            "headcount",
            "Al cierre de {y} la plantilla de {s} era de {v} trabajadores, {o} de ellos en prácticas.",
        ),
        ("stores", "Con {v} tiendas, {s} es la mayor cadena de la región."),
    ),
    "it": (
        ("employees", "{s} dà lavoro a {v} persone, di cui {o} a {c}."),
        ("vehicles_delivered", "Nel {y} {s} ha consegnato {v} veicoli, un record."),
        ("customers", "{s} serve ormai {v} clienti nella zona di {c}."),
        ("headcount", "A fine {y} l'organico di {s} era di {v} addetti, tra cui {o} apprendisti."),
        ("stores", "Con {v} negozi, {s} è la prima catena della regione."),
    ),
}


_COUNT_DIGITS: Final = {"customers": (5, 6, 7), "vehicles_delivered": (4, 5, 6), "stores": (4,)}


def _counts(writer: _Writer) -> None:
    """Whole numbers as the language groups them; false: a digit, another number of the quote, a misread separator."""
    name, template = writer.pick(_COUNTS)
    subject, number = (
        writer.company(),
        writer.integer(writer.random.choice(_COUNT_DIGITS.get(name, (4, 4, 5)))),
    )
    other = max(12, writer.near(number) // 7)
    mention = f"{subject} {writer.legal_form()}" if writer.turn % 4 == 3 else subject
    sentence = template.format(
        s=mention, v=writer.text(number), o=writer.text(other), c=writer.city(), y=writer.year(2015)
    )
    wrong, fault, note = _wrong_count(writer, number, other if "{o}" in template else 0)
    decoy = (
        writer.text(wrong)
        if isinstance(wrong, int) and fault == "number" and not note and writer.turn % 2
        else ""
    )
    case = writer.case(writer.page(f"[[{sentence}]]", subject, decoy=decoy), subject)
    rule = "legal form" if mention != subject else "digit grouping"
    if writer.turn % 7 == 5:
        writer.true(case, {name: writer.text(number)}, "same text")
        writer.false(case, {name: writer.text(writer.near(number))}, "number")
        return
    writer.true(case, {name: number}, rule)
    writer.false(case, {name: wrong}, fault, note or ("elsewhere in the page" if decoy else ""))


def _wrong_count(writer: _Writer, number: int, other: int) -> tuple[int | float, Fault, str]:
    match writer.turn % 6:
        case 0 if number < 1_000_000 and number % 1000:
            return number / 1000, "scale", "separator read as decimal sign"
        case 1 | 4 if other:
            return other, "number", "other role"
        case 2:
            return number * 10, "scale", ""
        case 3:
            return number * 1000, "scale", ""
        case _:
            return writer.near(number), "number", ""


_SMALL: Final[Rows] = {
    "en": (
        ("plants", "{s} runs {w} plants, the newest of them in {c}."),
        ("board_members", "The supervisory board of {s} has {w} members."),
        ("vessels_ordered", "{s} ordered {w} vessels from a yard in {c}."),
    ),
    "de": (
        ("plants", "{s} betreibt {w} Werke, das jüngste davon in {c}."),
        ("board_members", "Der Aufsichtsrat von {s} hat {w} Mitglieder."),
        ("vessels_ordered", "{s} hat bei einer Werft nahe {c} {w} Schiffe bestellt."),
    ),
    "fr": (
        ("plants", "{s} exploite {w} usines, dont la plus récente se trouve près de la frontière."),
        ("board_members", "Le conseil d'administration de {s} compte {w} membres."),
        ("vessels_ordered", "{s} a commandé {w} navires à un chantier breton."),
    ),
    "es": (
        ("plants", "{s} gestiona {w} fábricas, la más reciente en {c}."),
        ("board_members", "El consejo de administración de {s} tiene {w} miembros."),
        ("vessels_ordered", "{s} ha encargado {w} buques a un astillero de {c}."),
    ),
    "it": (
        ("plants", "{s} gestisce {w} stabilimenti, il più recente a {c}."),
        ("board_members", "Il consiglio di amministrazione di {s} ha {w} membri."),
        ("vessels_ordered", "{s} ha ordinato {w} navi a un cantiere di {c}."),
    ),
}


def _number_words(writer: _Writer) -> None:
    name, template = writer.pick(_SMALL)
    subject, index = writer.company(), writer.random.randrange(11)
    word = _NUMBER_WORDS[writer.language][index]
    sentence = template.format(s=subject, w=word, c=writer.city())
    case = writer.case(writer.page(f"[[{sentence}]]", subject), subject)
    wrong = writer.random.choice([number for number in range(2, 13) if number != index + 2])
    if writer.turn % 3 == 2:
        writer.true(case, {name: word}, "same text")
        writer.false(case, {name: _NUMBER_WORDS[writer.language][wrong - 2]}, "number")
    else:
        writer.true(case, {name: index + 2}, "number word")
        writer.false(case, {name: wrong}, "number")


_LOOSE: Final[Mapping[str, tuple[tuple[str, str, str, str], ...]]] = {
    "en": (
        ("about", "{s} expects about {a} visitors a year.", "visitors_per_year", "about {a}"),
        ("some", "Some {a} people work for {s} in {c}.", "employees", "some {a}"),
        (
            "range",
            "{s} plans to hire between {a} and {b} people in {c}.",
            "planned_hires",
            "between {a} and {b}",
        ),
        (
            "range",
            "{s} puts the cost of the recall at {a} to {b} dollars per customer.",
            "cost_per_customer_usd",
            "{a} to {b}",
        ),
        ("rise", "At {s}, annual output rose from {a} to {b} engines.", "engines_per_year", ""),
        ("loss", "{s} reported a net loss of €{a} million for {y}.", "net_income_eur", ""),
    ),
    "de": (
        ("about", "{s} rechnet mit rund {a} Besuchern im Jahr.", "visitors_per_year", "rund {a}"),
        ("some", "Etwa {a} Menschen arbeiten für {s} in {c}.", "employees", "etwa {a}"),
        (
            "range",
            "{s} will in {c} zwischen {a} und {b} Menschen einstellen.",
            "planned_hires",
            "zwischen {a} und {b}",
        ),
        (
            "range",
            "Der Rückruf kostet {s} {a} bis {b} Dollar je Kunde.",
            "cost_per_customer_usd",
            "{a} bis {b}",
        ),
        (
            "rise",
            "Bei {s} stieg die Jahresproduktion von {a} auf {b} Motoren.",
            "engines_per_year",
            "",
        ),
        ("loss", "{s} meldete für {y} einen Nettoverlust von {a} Mio. Euro.", "net_income_eur", ""),
    ),
    "fr": (
        ("about", "{s} attend environ {a} visiteurs par an.", "visitors_per_year", "environ {a}"),
        (
            "some",
            "Quelque {a} personnes travaillent pour {s} dans la région.",
            "employees",
            "quelque {a}",
        ),
        (
            "range",
            "{s} prévoit de recruter entre {a} et {b} personnes.",
            "planned_hires",
            "entre {a} et {b}",
        ),
        (
            "range",
            "Le rappel coûtera à {s} de {a} à {b} dollars par client.",
            "cost_per_customer_usd",
            "de {a} à {b}",
        ),
        (
            "rise",
            "Chez {s}, la production annuelle est passée de {a} à {b} moteurs.",
            "engines_per_year",
            "",
        ),
        (
            "loss",
            "{s} a enregistré une perte nette de {a} millions d'euros en {y}.",
            "net_income_eur",
            "",
        ),
    ),
    "es": (
        ("about", "{s} espera unos {a} visitantes al año.", "visitors_per_year", "unos {a}"),
        ("some", "Cerca de {a} personas trabajan para {s} en {c}.", "employees", "cerca de {a}"),
        (
            "range",
            "{s} prevé contratar entre {a} y {b} personas en {c}.",
            "planned_hires",
            "entre {a} y {b}",
        ),
        (
            "range",
            "La retirada costará a {s} de {a} a {b} dólares por cliente.",
            "cost_per_customer_usd",
            "de {a} a {b}",
        ),
        ("rise", "En {s}, la producción anual pasó de {a} a {b} motores.", "engines_per_year", ""),
        (
            "loss",
            "{s} registró en {y} una pérdida neta de {a} millones de euros.",
            "net_income_eur",
            "",
        ),
    ),
    "it": (
        ("about", "{s} prevede circa {a} visitatori all'anno.", "visitors_per_year", "circa {a}"),
        ("some", "Circa {a} persone lavorano per {s} a {c}.", "employees", "circa {a}"),
        (
            "range",
            "{s} intende assumere tra {a} e {b} persone a {c}.",
            "planned_hires",
            "tra {a} e {b}",
        ),
        (
            "range",
            "Il richiamo costerà a {s} da {a} a {b} dollari per cliente.",
            "cost_per_customer_usd",
            "da {a} a {b}",
        ),
        (
            "rise",
            "In {s} la produzione annua è salita da {a} a {b} motori.",
            "engines_per_year",
            "",
        ),
        (
            "loss",
            "{s} ha chiuso il {y} con una perdita netta di {a} milioni di euro.",
            "net_income_eur",
            "",
        ),
    ),
}


def _loose_numbers(writer: _Writer) -> None:
    """Approximations, ranges, changes and losses."""
    form, template, name, text = writer.pick(_LOOSE)
    subject = writer.company()
    low = writer.random.randint(3, 97) * (1 if form == "loss" or "usd" in name else 100)
    high = low + writer.random.randint(2, 9) * (100 if low >= 300 else 10)
    shown = {"a": writer.text(low), "b": writer.text(high)}
    sentence = template.format(s=subject, c=writer.city(), y=writer.year(2012), **shown)
    case = writer.case(writer.page(f"[[{sentence}]]", subject), subject)
    as_text = bool(text) and writer.turn // 6 % 2 == 1
    match form:
        case "range" if as_text:
            writer.true(case, {name: text.format(**shown)}, "range")
            writer.false(
                case, {name: text.format(a=shown["a"], b=writer.text(high + 200))}, "number"
            )
        case "range":
            writer.true(case, {f"{name}_min": low, f"{name}_max": high}, "range")
            writer.false(case, {name: (low + high) // 2}, "number", "a number within the range")
        case "rise":
            writer.true(case, {name: high}, "same text" if high < 1000 else "digit grouping")
            writer.false(case, {name: low}, "number", "other role: the value before")
        case "loss":
            writer.true(case, {name: -low * 1_000_000}, "negative number")
            writer.false(case, {name: low * 1_000_000}, "number", "a loss as a profit")
        case _ if as_text:
            writer.true(case, {name: text.format(**shown)}, "approximation")
            writer.false(case, {name: text.format(a=writer.text(writer.near(low)))}, "number")
        case _:
            writer.true(case, {name: low}, "approximation")
            writer.false(case, {name: writer.near(low)}, "number")


_FRACTIONS: Final[Mapping[str, tuple[tuple[str, float, float], ...]]] = {
    "en": (
        ("a third", 0.33, 33),
        ("half", 0.5, 50),
        ("a quarter", 0.25, 25),
        ("two thirds", 0.67, 67),
        ("a fifth", 0.2, 20),
    ),
    "de": (
        ("ein Drittel", 0.33, 33),
        ("die Hälfte", 0.5, 50),
        ("ein Viertel", 0.25, 25),
        ("zwei Drittel", 0.67, 67),
    ),
    "fr": (
        ("un tiers", 0.33, 33),
        ("la moitié", 0.5, 50),
        ("un quart", 0.25, 25),
        ("les trois quarts", 0.75, 75),
    ),
    "es": (
        ("un tercio", 0.33, 33),
        ("la mitad", 0.5, 50),
        ("una cuarta parte", 0.25, 25),
        ("dos tercios", 0.67, 67),
    ),
    "it": (
        ("un terzo", 0.33, 33),
        ("la metà", 0.5, 50),
        ("un quarto", 0.25, 25),
        ("due terzi", 0.67, 67),
    ),
}
_SHARES: Final[Texts] = {
    "en": ("{s} earns {f} of its revenue abroad.", "{s} makes {f} of its sales in {c}."),
    "de": ("{s} erzielt {f} des Umsatzes im Ausland.", "{s} macht {f} des Umsatzes in {c}."),
    "fr": (
        "{s} réalise {f} de son chiffre d'affaires à l'étranger.",
        "{s} tire {f} de ses ventes de l'export.",
    ),
    "es": (
        "{s} obtiene {f} de sus ingresos en el extranjero.",
        "{s} logra {f} de sus ventas en {c}.",
    ),
    "it": ("{s} realizza {f} del fatturato all'estero.", "{s} ottiene {f} dei ricavi a {c}."),
}


def _fractions(writer: _Writer) -> None:
    word, share, percent = writer.pick(_FRACTIONS)
    wrong_word, wrong, wrong_percent = writer.random.choice(
        [entry for entry in _FRACTIONS[writer.language] if entry[0] != word]
    )
    subject = writer.company()
    sentence = writer.random.choice(_SHARES[writer.language]).format(
        s=subject, f=word, c=writer.city()
    )
    case = writer.case(writer.page(f"[[{sentence}]]", subject), subject)
    match writer.turn % 3:
        case 0:
            writer.true(case, {"revenue_share": share}, "fraction")
            writer.false(case, {"revenue_share": wrong}, "number")
        case 1:
            writer.true(case, {"revenue_share_percent": percent}, "fraction")
            writer.false(case, {"revenue_share_percent": wrong_percent}, "percentage")
        case _:
            writer.true(case, {"revenue_share": word}, "same text")
            writer.false(case, {"revenue_share": wrong_word}, "number")


# ---- Money

_MONEY: Final[Mapping[str, Mapping[str, tuple[tuple[str, ...], tuple[str, ...]]]]] = {
    "en": {
        "EUR": (
            ("€{n} million", "€{n}m", "{n} million euros", "EUR {n} million"),
            ("€{n} billion", "€{n}bn", "{n} billion euros"),
        ),
        "USD": (
            ("${n} million", "US${n}m", "{n} million dollars"),
            ("${n} billion", "$ {n}bn", "USD {n} billion"),
        ),
        "GBP": (
            ("£{n} million", "£{n}m", "{n} million pounds"),
            ("£{n} billion", "£{n}bn", "GBP {n} billion"),
        ),
    },
    "de": {
        "EUR": (
            ("{n} Millionen Euro", "{n} Mio. Euro", "{n} Mio. €"),
            ("{n} Milliarden Euro", "{n} Mrd. Euro", "{n} Mrd. €"),
        ),
        "USD": (
            ("{n} Millionen US-Dollar", "{n} Mio. Dollar", "{n} Mio. USD"),
            ("{n} Milliarden Dollar", "{n} Mrd. US-Dollar"),
        ),
        "CHF": (
            ("{n} Millionen Franken", "CHF {n} Mio.", "{n} Mio. Franken"),
            ("{n} Milliarden Franken", "CHF {n} Mrd."),
        ),
    },
    "fr": {
        "EUR": (
            ("{n} millions d'euros", "{n} M€", "{n} millions €"),
            ("{n} milliards d'euros", "{n} Md€", "{n} Mds €"),
        ),
        "USD": (
            ("{n} millions de dollars", "{n} M$", "{n} MUSD"),
            ("{n} milliards de dollars", "{n} Mds $"),
        ),
        "CHF": (
            ("{n} millions de francs suisses", "{n} MCHF"),
            ("{n} milliards de francs suisses", "{n} milliards CHF"),
        ),
    },
    "es": {
        "EUR": (
            ("{n} millones de euros", "{n} M€", "{n} mill. de euros"),
            ("{t} millones de euros", "{n} mil millones de euros"),
        ),
        "USD": (
            ("{n} millones de dólares", "US$ {n} millones"),
            ("{t} millones de dólares", "{n} mil millones de dólares"),
        ),
        "MXN": (
            ("{n} millones de pesos mexicanos", "{n} millones MXN"),
            ("{t} millones de pesos mexicanos",),
        ),
    },
    "it": {
        "EUR": (
            ("{n} milioni di euro", "{n} mln di euro", "€ {n} milioni"),
            ("{n} miliardi di euro", "{n} mld di euro"),
        ),
        "USD": (
            ("{n} milioni di dollari", "{n} mln di dollari"),
            ("{n} miliardi di dollari", "{n} mld di dollari"),
        ),
        "CHF": (
            ("{n} milioni di franchi svizzeri", "{n} mln CHF"),
            ("{n} miliardi di franchi svizzeri", "{n} mld CHF"),
        ),
    },
}
"""By currency: forms of millions and of billions; {t} is the billions as thousands of millions."""
_SIGNS: Final = {"EUR": "€", "USD": "$", "GBP": "£", "CHF": "CHF ", "MXN": "MXN "}
_MONEY_SENTENCES: Final[Rows] = {
    "en": (
        ("revenue", "{s} reported revenue of {m} for {y}."),
        ("investment", "{s} will invest {m} in its plant in {c}."),
        ("net_profit", "Net profit at {s} came to {m}, up from {m2} the year before."),
        ("market_value", "The stock exchange values {s} at {m}."),
        ("debt", "{s} owes its creditors {m}, of which {m2} fall due next year."),
    ),
    "de": (
        ("revenue", "{s} erzielte {y} einen Umsatz von {m}."),
        ("investment", "{s} investiert {m} in das Werk in {c}."),
        ("net_profit", "Der Gewinn von {s} lag bei {m} nach {m2} im Vorjahr."),
        ("market_value", "An der Börse ist {s} {m} wert."),
        ("debt", "{s} schuldet seinen Gläubigern {m}, davon werden {m2} im kommenden Jahr fällig."),
    ),
    "fr": (
        ("revenue", "{s} a réalisé en {y} un chiffre d'affaires de {m}."),
        ("investment", "{s} va investir {m} dans son usine de la région."),
        ("net_profit", "Le bénéfice net de {s} a atteint {m}, contre {m2} un an plus tôt."),
        ("market_value", "En Bourse, {s} vaut {m}."),
        ("debt", "{s} doit {m} à ses créanciers, dont {m2} arrivent à échéance l'an prochain."),
    ),
    "es": (
        ("revenue", "{s} facturó {m} en {y}."),
        ("investment", "{s} invertirá {m} en su planta de {c}."),
        ("net_profit", "El beneficio neto de {s} fue de {m}, frente a {m2} un año antes."),
        ("market_value", "La Bolsa valora {s} en {m}."),
        ("debt", "{s} debe {m} a sus acreedores, de los que {m2} vencen el próximo año."),
    ),
    "it": (
        ("revenue", "{s} ha realizzato nel {y} ricavi per {m}."),
        ("investment", "{s} investirà {m} nello stabilimento di {c}."),
        (
            "net_profit",
            "L'utile netto di {s} è stato pari a {m}, contro {m2} dell'anno precedente.",
        ),
        ("market_value", "In Borsa {s} vale {m}."),
        ("debt", "{s} deve ai creditori {m}, di cui {m2} in scadenza il prossimo anno."),
    ),
}


def _amount(writer: _Writer, currency: str) -> tuple[Decimal, str, str]:
    """An amount of money: its value, its text in the page and in English, such as `€1.2 billion`."""
    is_billions = writer.random.random() < 0.5
    number = (
        Decimal(writer.random.randint(21, 990)) / 10
        if is_billions
        else Decimal(writer.random.randint(13, 985))
    )
    if not is_billions and writer.random.random() < 0.3:
        number = number / 10 + 2
    forms = _MONEY[writer.language][currency][is_billions]
    text = writer.random.choice(forms).format(
        n=writer.text(number), t=writer.text(int(number * 1000))
    )
    factor = 1_000_000_000 if is_billions else 1_000_000
    english = f"{_SIGNS[currency]}{number} {'billion' if is_billions else 'million'}"
    return number * factor, text, english


def _money(writer: _Writer) -> None:
    name, template = writer.pick(_MONEY_SENTENCES)
    currency, other_currency, *_ = writer.random.sample(sorted(_MONEY[writer.language]), 3)
    subject = writer.company()
    (value_2, text_2, _), (value, text, _) = sorted(
        (_amount(writer, currency), _amount(writer, currency))
    )
    sentence = template.format(s=subject, m=text, m2=text_2, y=writer.year(2012), c=writer.city())
    key = f"{name}_{currency.lower()}"
    wrong_key, wrong, fault, note = key, _json(value), "number", ""
    match writer.turn % 8:
        case 0 | 4 | 6:
            wrong_key, fault = f"{name}_{other_currency.lower()}", "currency"
        case 1:
            wrong, fault = _json(value * 1000), "scale"
        case 5:
            wrong, fault = _json(value / 1000), "scale"
        case 2 | 7 if "{m2}" in template:
            wrong, note = _json(value_2), "other role"
        case 3:
            wrong, note = (
                int(value) + writer.random.randint(11_111, 499_999),
                "more exact than the text",
            )
        case _:
            wrong = writer.near(int(value))
    case = writer.case(writer.page(f"[[{sentence}]]", subject), subject)
    rule = "currency" if fault == "currency" else "scale word"
    if writer.turn % 6 == 5:
        writer.true(case, {name: _json(value), "currency": currency}, rule)
        pair = {name: wrong, "currency": other_currency if fault == "currency" else currency}
        writer.cases.append(replace(case, properties=pair, fault=_fault(fault), note=note))
        return
    writer.true(case, {key: _json(value)}, rule)
    writer.cases.append(
        replace(case, properties={wrong_key: wrong}, fault=_fault(fault), note=note)
    )


def _fault(name: str) -> Fault:
    return cast(Fault, name)


def _money_texts(writer: _Writer) -> None:
    """Amounts claimed as text, in the page's words or in English."""
    name, template = writer.pick(_MONEY_SENTENCES)
    currency, other_currency, *_ = writer.random.sample(sorted(_MONEY[writer.language]), 3)
    subject = writer.company()
    (_, text_2, _), (value, text, english) = sorted(
        (_amount(writer, currency), _amount(writer, currency))
    )
    sentence = template.format(s=subject, m=text, m2=text_2, y=writer.year(2012), c=writer.city())
    case = writer.case(writer.page(f"[[{sentence}]]", subject), subject)
    swapped = english.replace(_SIGNS[currency], _SIGNS[other_currency])
    match writer.turn % 4:
        case 0:
            writer.true(case, {name: english}, "currency")
            writer.false(case, {name: swapped}, "currency")
        case 1:
            writer.true(
                case, {name: f"{_json(value / 1_000_000)} million {currency}"}, "scale word"
            )
            writer.false(case, {name: f"{_json(value / 1_000_000)} billion {currency}"}, "scale")
        case 2:
            note = "other role" if "{m2}" in template else ""
            writer.true(case, {name: text}, "same text")
            writer.false(
                case, {name: _amount(writer, currency)[1] if not note else text_2}, "number", note
            )
        case _:
            writer.true(case, {name: f"{currency} {int(value):,}"}, "scale word")
            writer.false(case, {name: f"{currency} {writer.near(int(value)):,}"}, "number")


# ---- Units


@dataclass(frozen=True)
class _Unit:
    """A unit of the page: its forms by language, the claim's property and factor, and what is not the same."""

    topic: str
    name: str
    factor: int
    symbol: str
    wrong_name: str
    wrong_symbol: str
    low: int
    high: int
    decimals: int
    forms: Texts


def _forms(en: str, de: str, fr: str, es: str, it: str) -> Texts:
    return {
        language: tuple(forms.split("|"))
        for language, forms in zip(LANGUAGES, (en, de, fr, es, it), strict=True)
    }


_UNITS: Final = (
    _Unit("line", "length_km", 1, "km", "length_miles", "miles", 12, 2400, 0,
          _forms("km|kilometres|kilometers", "km|Kilometer", "km|kilomètres", "km|kilómetros", "km|chilometri")),
    _Unit("line", "length_km", 1, "km", "length_m", "m", 13, 400, 1,
          _forms("km|kilometres|kilometers", "km|Kilometer", "km|kilomètres", "km|kilómetros", "km|chilometri")),
    _Unit("line", "length_miles", 1, "miles", "length_km", "km", 12, 900, 0,
          _forms("miles", "Meilen", "miles", "millas", "miglia")),
    _Unit("area", "area_km2", 1, "km²", "area_ha", "ha", 14, 9800, 0,
          _forms("km²|square kilometres|sq km", "km²|Quadratkilometer", "km²|kilomètres carrés", "km²|kilómetros cuadrados",
                 "km²|chilometri quadrati")),
    _Unit("area", "area_ha", 1, "hectares", "area_acres", "acres", 23, 8700, 0,
          _forms("hectares|ha", "Hektar|ha", "hectares|ha", "hectáreas|ha", "ettari|ha")),
    _Unit("power", "capacity_mw", 1, "MW", "capacity_kw", "kW", 21, 960, 0,
          _forms("MW|megawatts", "MW|Megawatt", "MW|mégawatts", "MW|megavatios", "MW|megawatt")),
    _Unit("power", "capacity_mw", 1000, "MW", "capacity_gw", "GW", 11, 79, 1,
          _forms("GW|gigawatts", "GW|Gigawatt", "GW|gigawatts", "GW|gigavatios", "GW|gigawatt")),
    _Unit("storage", "capacity_gwh", 1, "GWh", "capacity_gw", "GW", 3, 64, 0,
          _forms("GWh|gigawatt hours", "GWh|Gigawattstunden", "GWh|gigawattheures",
                 "GWh|gigavatios hora", "GWh|gigawattora")),
    _Unit("ore", "output_tonnes", 1, "tonnes", "output_kg", "kg", 1100, 98000, 0,
          _forms("tonnes|metric tons", "Tonnen|t", "tonnes|t", "toneladas|t", "tonnellate|t")),
    _Unit("ore", "output_tonnes", 1_000_000, "tonnes", "output_kg", "kg", 11, 86, 1,
          _forms("million tonnes|Mt", "Millionen Tonnen|Mio. t", "millions de tonnes", "millones de toneladas",
                 "milioni di tonnellate")),
    _Unit("oil", "output_barrels_per_day", 1, "barrels per day", "output_barrels_per_year",
          "barrels per year", 12000, 96000, 0,
          _forms("barrels per day|barrels a day|bpd", "Barrel pro Tag|Barrel am Tag", "barils par jour|barils/jour",
                 "barriles diarios|barriles por día", "barili al giorno|barili/giorno")),
    _Unit("cold", "temperature_c", 1, "°C", "temperature_f", "°F", -48, -5, 0,
          _forms("°C|degrees Celsius", "°C|Grad Celsius", "°C|degrés Celsius", "°C|grados Celsius", "°C|gradi Celsius")),
    _Unit("height", "height_m", 1, "m", "height_ft", "ft", 112, 4700, 0,
          _forms("m|metres", "m|Meter", "m|mètres", "m|metros", "m|metri")),
)  # fmt: skip

_UNIT_SENTENCES: Final[Mapping[str, Mapping[str, tuple[str, ...]]]] = {
    "line": {
        "en": ("The {s} pipeline is {v} long.", "{s} runs for {v} from {c} to {c2}."),
        "de": ("Die Leitung {s} ist {v} lang.", "{s} verläuft über {v} von {c} nach {c2}."),
        "fr": (
            "Le gazoduc {s} est long de {v}.",
            "{s} s'étend sur {v}, de la côte à la frontière.",
        ),
        "es": ("El gasoducto {s} tiene una longitud de {v}.", "{s} recorre {v} entre {c} y {c2}."),
        "it": ("Il gasdotto {s} è lungo {v}.", "{s} si snoda per {v} da {c} a {c2}."),
    },
    "area": {
        "en": ("The {s} reserve covers {v}.", "{s}, a nature park near {c}, has an area of {v}."),
        "de": (
            "Das Schutzgebiet {s} umfasst {v}.",
            "{s}, ein Naturpark bei {c}, hat eine Fläche von {v}.",
        ),
        "fr": ("La réserve {s} couvre {v}.", "{s}, un parc naturel, a une superficie de {v}."),
        "es": (
            "La reserva {s} abarca {v}.",
            "{s}, un parque natural cerca de {c}, tiene una superficie de {v}.",
        ),
        "it": (
            "La riserva {s} si estende su {v}.",
            "{s}, un parco naturale vicino a {c}, ha una superficie di {v}.",
        ),
    },
    "power": {
        "en": (
            "The {s} wind farm has a capacity of {v}.",
            "{s} can generate up to {v} at its site near {c}.",
        ),
        "de": (
            "Der Windpark {s} hat eine Leistung von {v}.",
            "{s} kann am Standort {c} bis zu {v} erzeugen.",
        ),
        "fr": ("Le parc éolien {s} a une puissance de {v}.", "La centrale {s} développe {v}."),
        "es": (
            "El parque eólico {s} tiene una potencia de {v}.",
            "La central {s} puede generar {v} en {c}.",
        ),
        "it": ("Il parco eolico {s} ha una potenza di {v}.", "La centrale {s} genera {v} a {c}."),
    },
    "storage": {
        "en": (
            "The {s} battery plant has an annual capacity of {v}.",
            "{s} is building a storage site of {v} near {c}.",
        ),
        "de": (
            "Die Batteriefabrik {s} hat eine Jahreskapazität von {v}.",
            "{s} baut bei {c} einen Speicher mit {v}.",
        ),
        "fr": (
            "L'usine de batteries {s} a une capacité annuelle de {v}.",
            "{s} construit un site de stockage de {v}.",
        ),
        "es": (
            "La fábrica de baterías {s} tiene una capacidad anual de {v}.",
            "{s} construye en {c} un almacén de {v}.",
        ),
        "it": (
            "La fabbrica di batterie {s} ha una capacità annua di {v}.",
            "{s} costruisce a {c} un impianto da {v}.",
        ),
    },
    "ore": {
        "en": ("The {s} mine produced {v} of copper in {y}.", "{s} shipped {v} of ore in {y}."),
        "de": ("Die Mine {s} förderte {y} {v} Kupfer.", "{s} verschiffte im Jahr {y} {v} Erz."),
        "fr": (
            "La mine {s} a produit {v} de cuivre en {y}.",
            "{s} a expédié {v} de minerai en {y}.",
        ),
        "es": ("La mina {s} produjo {v} de cobre en {y}.", "{s} embarcó {v} de mineral en {y}."),
        "it": (
            "La miniera {s} ha prodotto {v} di rame nel {y}.",
            "{s} ha spedito {v} di minerale nel {y}.",
        ),
    },
    "oil": {
        "en": ("The {s} field yields {v}.", "The {s} refinery can process {v}."),
        "de": ("Das Feld {s} liefert {v}.", "Die Raffinerie {s} kann {v} verarbeiten."),
        "fr": ("Le gisement {s} produit {v}.", "La raffinerie {s} peut traiter {v}."),
        "es": ("El yacimiento {s} produce {v}.", "La refinería {s} puede procesar {v}."),
        "it": ("Il giacimento {s} produce {v}.", "La raffineria {s} può lavorare {v}."),
    },
    "cold": {
        "en": ("At the {s} station the temperature fell to {v}.", "{s} recorded {v} in January."),
        "de": ("An der Station {s} sank die Temperatur auf {v}.", "{s} meldete im Januar {v}."),
        "fr": (
            "À la station {s}, la température est tombée à {v}.",
            "{s} a relevé {v} en janvier.",
        ),
        "es": ("En la estación {s} la temperatura bajó a {v}.", "{s} registró {v} en enero."),
        "it": (
            "Alla stazione {s} la temperatura è scesa a {v}.",
            "{s} ha registrato {v} a gennaio.",
        ),
    },
    "height": {
        "en": ("The {s} tower is {v} high.", "{s} rises {v} above the sea."),
        "de": ("Der Turm {s} ist {v} hoch.", "{s} liegt {v} über dem Meer."),
        "fr": ("La tour {s} mesure {v} de haut.", "{s} culmine à {v}."),
        "es": ("La torre {s} mide {v} de altura.", "{s} se alza {v} sobre el mar."),
        "it": ("La torre {s} è alta {v}.", "{s} si trova a {v} sul mare."),
    },
}
_MINUS: Final = {"en": "minus", "de": "minus", "fr": "moins", "es": "menos", "it": "meno"}


def _units(writer: _Writer) -> None:
    """Measures as numbers in a property that names the unit, or as text with the unit."""
    unit = _UNITS[writer.turn % len(_UNITS)]
    subject = writer.company().split()[0]
    number = Decimal(writer.random.randint(unit.low, unit.high)) / 10**unit.decimals
    number = number + Decimal("0.1") if unit.decimals and number == int(number) else number
    form = writer.random.choice(unit.forms[writer.language])
    shown = writer.text(number)
    if number < 0 and len(form) > 3:
        shown = f"{_MINUS[writer.language]} {writer.text(-number)}"
    sentence = writer.random.choice(_UNIT_SENTENCES[unit.topic][writer.language]).format(
        s=subject,
        v=f"{shown}{writer.random.choice((' ', NBSP))}{form}",
        c=writer.city(),
        c2=writer.city(),
        y=writer.year(2012),
    )
    case = writer.case(writer.page(f"[[{sentence}]]", subject), subject, "Facility")
    value = number * unit.factor
    _claim_measure(writer, case, unit, value)


def _claim_measure(writer: _Writer, case: EvidenceCase, unit: _Unit, value: Decimal) -> None:
    number = _json(value)
    rule = "unit word" if unit.factor < 1_000_000 else "scale word"
    if unit.low < 0:
        rule = "negative number"
    wrong = writer.near(int(abs(value) * 10))
    close = _json(Decimal(wrong if value > 0 else -wrong) / 10)
    match (writer.turn + writer.turn // len(_UNITS)) % 6:
        case 0 | 3:
            writer.true(case, {unit.name: number}, rule)
            writer.false(case, {unit.wrong_name: number}, "unit")
        case 1:
            writer.true(case, {unit.name.partition("_")[0]: f"{number:,} {unit.symbol}"}, rule)
            writer.false(
                case, {unit.name.partition("_")[0]: f"{number:,} {unit.wrong_symbol}"}, "unit"
            )
        case 2:
            writer.true(case, {unit.name: number}, rule)
            writer.false(case, {unit.name: _json(value * 1000)}, "scale")
        case 4:
            writer.true(case, {unit.name.partition("_")[0]: f"{number} {unit.symbol}"}, rule)
            writer.false(case, {unit.name.partition("_")[0]: f"{close} {unit.symbol}"}, "number")
        case _:
            writer.true(case, {unit.name: number}, rule)
            writer.false(case, {unit.name: -number if unit.low < 0 else close}, "number")


# ---- Percentages

_PERCENTS: Final[Texts] = {
    "en": ("{n}%", "{n} percent", "{n} per cent"),
    "de": ("{n} Prozent", f"{{n}}{NBSP}%", "{n} %"),
    "fr": (f"{{n}}{NBSP}%", f"{{n}}{NARROW}%", "{n} pour cent", "{n} %"),
    "es": (f"{{n}}{NBSP}%", "{n} %", "{n}%", "{n} por ciento"),
    "it": ("{n}%", "{n}%", "{n} per cento", "{n} %"),
}
_PERCENT_SENTENCES: Final[Rows] = {
    "en": (
        ("growth", "Sales at {s} grew by {p} in {y}, after {p2} the year before."),
        ("market_share", "{s} has a market share of {p}."),
        ("dividend_yield", "{s} shares yield {p}, against {p2} for the market."),
        ("vacancy_rate", "At {s} the vacancy rate stands at {p}."),
    ),
    "de": (
        ("growth", "Der Umsatz von {s} wuchs {y} um {p} nach {p2} im Vorjahr."),
        ("market_share", "{s} hat einen Marktanteil von {p}."),
        (
            "dividend_yield",
            "Die Dividendenrendite von {s} beträgt {p}, am Gesamtmarkt sind es {p2}.",
        ),
        ("vacancy_rate", "Bei {s} liegt die Leerstandsquote bei {p}."),
    ),
    "fr": (
        ("growth", "Les ventes de {s} ont progressé de {p} en {y}, après {p2} un an plus tôt."),
        ("market_share", "{s} détient {p} du marché."),
        ("dividend_yield", "Le rendement du titre {s} est de {p}, contre {p2} pour le marché."),
        ("vacancy_rate", "Chez {s}, le taux de vacance s'établit à {p}."),
    ),
    "es": (
        ("growth", "Las ventas de {s} crecieron un {p} en {y}, tras un {p2} el año anterior."),
        ("market_share", "{s} tiene una cuota de mercado del {p}."),
        ("dividend_yield", "La acción de {s} rinde un {p}, frente al {p2} del mercado."),
        ("vacancy_rate", "En {s} la tasa de desocupación es del {p}."),
    ),
    "it": (
        (
            "growth",
            "Le vendite di {s} sono cresciute del {p} nel {y}, dopo il {p2} dell'anno prima.",
        ),
        ("market_share", "{s} detiene il {p} del mercato."),
        ("dividend_yield", "Il titolo {s} rende il {p}, contro il {p2} del mercato."),
        ("vacancy_rate", "In {s} il tasso di sfitto è del {p}."),
    ),
}
_POINTS: Final[Texts] = {
    "en": ("The market share of {s} rose by {n} percentage points to {p}.",),
    "de": ("Der Marktanteil von {s} stieg um {n} Prozentpunkte auf {p}.",),
    "fr": ("La part de marché de {s} a gagné {n} points de pourcentage, à {p}.",),
    "es": ("La cuota de mercado de {s} subió {n} puntos porcentuales, hasta el {p}.",),
    "it": ("La quota di mercato di {s} è salita di {n} punti percentuali, al {p}.",),
}


def _percentages(writer: _Writer) -> None:
    name, template = writer.pick(_PERCENT_SENTENCES)
    subject, number = writer.company(), Decimal(writer.random.randint(111, 489)) / 10
    other = number + Decimal(writer.random.randint(11, 99)) / 10
    show = writer.random.choice(_PERCENTS[writer.language])
    text, text_2 = show.format(n=writer.text(number)), show.format(n=writer.text(other))
    if writer.turn % 5 == 4:
        _points(writer, subject, number, text)
        return
    sentence = template.format(s=subject, p=text, p2=text_2, y=writer.year(2012))
    decoy = text_2 if "{p2}" not in template else ""
    case = writer.case(writer.page(f"[[{sentence}]]", subject, decoy=decoy), subject)
    note = "elsewhere in the page" if decoy else "other role"
    match writer.turn % 5:
        case 0:
            writer.true(case, {f"{name}_percent": _json(number)}, "percentage")
            writer.false(case, {f"{name}_percent": _json(other)}, "percentage", note)
        case 1:
            writer.true(
                case,
                {name if "rate" in name else f"{name}_rate": float(number / 100)},
                "percentage",
                "as a share of 1",
            )
            writer.false(
                case, {name if "rate" in name else f"{name}_rate": float(number / 10)}, "scale"
            )
        case 2:
            writer.true(case, {name: f"{number}%"}, "percentage")
            writer.false(case, {name: f"{other}%"}, "percentage", note)
        case _:
            writer.true(case, {f"{name}_percent": _json(number)}, "percentage")
            writer.false(
                case, {f"{name}_percent": _json(number * 10)}, "scale", "decimal sign lost"
            )


def _points(writer: _Writer, subject: str, number: Decimal, text: str) -> None:
    points = Decimal(writer.random.randint(2, 9)) + Decimal("0.5")
    sentence = writer.pick(_POINTS).format(s=subject, n=writer.text(points), p=text)
    case = writer.case(writer.page(f"[[{sentence}]]", subject), subject)
    if writer.turn % 2:
        writer.true(
            case, {"market_share_change_percentage_points": float(points)}, "percentage points"
        )
        writer.false(case, {"market_share_percent": float(points)}, "percentage", "other role")
    else:
        writer.true(case, {"market_share_percent": _json(number)}, "percentage")
        writer.false(
            case,
            {"market_share_growth": f"{points}%"},
            "percentage",
            "percentage points as percent",
        )


# ---- Dates

_DATE_SENTENCES: Final[Rows] = {
    "en": (
        ("plant_opened", "{s} opened its plant in {c} {d}."),
        ("listed_since", "The shares of {s} have been traded since {x}."),
        ("merger_completed", "{s} completed the merger {d}; talks had begun {d2}."),
        ("deadline", "Creditors of {s} have until {x} to file their claims."),
    ),
    "de": (
        ("plant_opened", "{s} eröffnete das Werk in {c} {d}."),
        (
            "merger_completed",
            "{s} hat die Fusion {d} vollzogen; die Gespräche hatten {d2} begonnen.",
        ),
        ("production_start", "Die Produktion bei {s} begann {d} in {c}."),
    ),
    "fr": (
        ("plant_opened", "{s} a inauguré son usine {d}."),
        ("merger_completed", "{s} a achevé la fusion {d} ; les discussions avaient commencé {d2}."),
        ("production_start", "Chez {s}, la production a débuté {d}."),
    ),
    "es": (
        ("plant_opened", "{s} inauguró su planta de {c} {d}."),
        (
            "merger_completed",
            "{s} completó la fusión {d}; las conversaciones habían empezado {d2}.",
        ),
        ("production_start", "La producción de {s} comenzó {d} en {c}."),
    ),
    "it": (
        ("plant_opened", "{s} ha inaugurato lo stabilimento di {c} {d}."),
        (
            "merger_completed",
            "{s} ha completato la fusione {d}; le trattative erano iniziate {d2}.",
        ),
        ("production_start", "La produzione di {s} è cominciata {d} a {c}."),
    ),
}


def _dates(writer: _Writer) -> None:
    """Days, months, quarters and years; claims are ISO dates as exact as the page or less, or texts."""
    name, template = writer.pick(_DATE_SENTENCES)
    precision = ("day", "day", "month", "day", "quarter", "day", "day")[writer.turn % 7]
    if "{x}" in template and precision == "quarter":
        precision = "day"
    subject, year = writer.company(), writer.year(1998, 2026)
    day = writer.random.randint(1, 12) if writer.turn % 3 else writer.random.randint(13, 28)
    when = writer.date(year, precision, day=day)
    before = writer.date(year - 1, precision)
    sentence = template.format(
        s=subject, c=writer.city(), d=when.phrase, x=when.plain, d2=before.phrase
    )
    decoy = writer.date(year - 2).plain if writer.turn % 4 == 1 else ""
    case = writer.case(writer.page(f"[[{sentence}]]", subject, decoy=decoy), subject)
    if precision == "quarter":
        quarter = (when.day.month - 1) // 3 + 1
        writer.true(case, {name: f"{year}-Q{quarter}"}, "quarter")
        writer.false(case, {name: f"{year}-Q{quarter % 4 + 1}"}, "date")
    elif precision == "month":
        _claim_month(writer, case, name, when.day)
    else:
        _claim_day(writer, case, name, when, before.day if "{d2}" in template else None)


def _claim_month(writer: _Writer, case: EvidenceCase, name: str, day: date) -> None:
    month = day.strftime("%Y-%m")
    match writer.random.randrange(3):
        case 0:
            writer.true(case, {name: month}, "written date", "month")
            writer.false(
                case,
                {name: f"{month}-{writer.random.randint(2, 27):02}"},
                "date",
                "more exact than the text",
            )
        case 1:
            writer.true(
                case, {name: f"{_MONTHS['en'][day.month - 1]} {day.year}"}, "written date", "month"
            )
            writer.false(case, {name: f"{_MONTHS['en'][day.month % 12]} {day.year}"}, "date")
        case _:
            writer.true(case, {name: month}, "written date", "month")
            writer.false(case, {name: f"{day.year + 1}{month[4:]}"}, "year")


def _claim_day(
    writer: _Writer, case: EvidenceCase, name: str, when: _Date, before: date | None
) -> None:
    day = when.day
    month = day.month % 12 + 1
    match writer.turn % 8:
        case 0 if day.day <= 12 and day.day != day.month:
            writer.true(case, {name: day.isoformat()}, "written date")
            writer.false(
                case,
                {name: day.replace(month=day.day, day=day.month).isoformat()},
                "date",
                "day and month swapped",
            )
        case 1:
            writer.true(case, {name: day.isoformat()}, "written date")
            writer.false(case, {name: day.replace(year=day.year - 1).isoformat()}, "year")
        case 2:
            writer.true(case, {name: _english_date(day)}, "written date")
            writer.false(case, {name: _english_date(day.replace(month=month))}, "date")
        case 3:
            writer.true(
                case, {name: day.strftime("%Y-%m")}, "written date", "less exact than the text"
            )
            writer.false(case, {name: day.replace(month=month).strftime("%Y-%m")}, "date")
        case 4:
            writer.true(case, {f"{name}_year": day.year}, "year of a date")
            writer.false(case, {f"{name}_year": day.year + 1}, "year")
        case 5:
            writer.true(case, {name: when.plain}, "same text")
            writer.false(
                case, {name: writer.date(day.year, day=day.day, month=month).plain}, "date"
            )
        case _ if before:
            writer.true(case, {name: day.isoformat()}, "written date")
            writer.false(case, {name: before.isoformat()}, "date", "other role")
        case _:
            writer.true(case, {name: day.isoformat()}, "written date")
            writer.false(case, {name: day.replace(day=day.day % 28 + 1).isoformat()}, "date")


_YEAR_SENTENCES: Final[Rows] = {
    "en": (
        ("founded", "{s} was founded in {y} and went public in {y2}."),
        ("founded", "{s} (est. {y}) makes {n} engines a year."),
        ("founded", "Founded by {p} in {y}, {s} moved to {c} in {y2}."),
    ),
    "de": (
        ("founded", "{s} wurde {y} gegründet und ging {y2} an die Börse."),
        ("founded", "{s} (gegr. {y}) baut {n} Motoren im Jahr."),
        ("founded", "{p} gründete {s} im Jahr {y}; der Umzug nach {c} folgte {y2}."),
    ),
    "fr": (
        ("founded", "{s} a été fondée en {y} et introduite en Bourse en {y2}."),
        ("founded", "{s} (fondée en {y}) fabrique {n} moteurs par an."),
        ("founded", "Créée par {p} en {y}, {s} a changé de siège en {y2}."),
    ),
    "es": (
        ("founded", "{s} se fundó en {y} y salió a Bolsa en {y2}."),
        ("founded", "{s} (fundada en {y}) fabrica {n} motores al año."),
        ("founded", "Creada por {p} en {y}, {s} se trasladó a {c} en {y2}."),
    ),
    "it": (
        ("founded", "{s} è stata fondata nel {y} e quotata in Borsa nel {y2}."),
        ("founded", "{s} (fondata nel {y}) produce {n} motori all'anno."),
        ("founded", "Creata da {p} nel {y}, {s} si è trasferita a {c} nel {y2}."),
    ),
}


def _years(writer: _Writer) -> None:
    """Years; false ones are another year of the sentence or the digits of another number."""
    name, template = writer.pick(_YEAR_SENTENCES)
    subject, year = writer.company(), writer.year(1921, 2004)
    later, hidden = year + writer.random.randint(3, 19), writer.random.randint(1987, 2025)
    sentence = template.format(
        s=subject, y=year, y2=later, n=writer.text(10_000 * writer.random.randint(1, 6) + hidden),
        c=writer.city(), p=writer.person()
    )  # fmt: skip
    case = writer.case(writer.page(f"[[{sentence}]]", subject), subject)
    value: Any = str(year) if writer.turn % 4 == 3 else year
    writer.true(case, {name: value}, "same text")
    if "{n}" in template:
        writer.false(case, {name: hidden}, "year", "other role: digits of another number")
    elif writer.turn % 2:
        writer.false(case, {name: later}, "year", "other role")
    else:
        writer.false(case, {name: year + writer.random.choice((-10, -2, 1, 9))}, "year")


# ---- Names

_NAME_SENTENCES: Final[Mapping[str, tuple[tuple[str, str, str], ...]]] = {
    "en": (
        ("ceo", "person", "{s} has appointed {x} as chief executive; {o} remains chair."),
        ("headquarters", "city", "{s} has its headquarters in {x}, while research stays in {o}."),
        ("founder", "person", "{s} was started by {x} in a garage."),
        ("auditor", "company", "The books of {s} are audited by {x}."),
        ("spokesperson", "person", '"We will deliver," said {x}, who speaks for {s}.'),
    ),
    "de": (
        (
            "ceo",
            "person",
            "{s} hat {x} zur Vorstandsspitze berufen; den Aufsichtsrat führt weiter {o}.",
        ),
        ("headquarters", "city", "{s} hat den Hauptsitz in {x}, die Forschung bleibt in {o}."),
        ("founder", "person", "{s} wurde von {x} in einer Garage gegründet."),
        ("auditor", "company", "Die Bücher von {s} prüft {x}."),
        ("spokesperson", "person", "„Wir liefern“, sagte {x} im Namen von {s}."),
    ),
    "fr": (
        ("ceo", "person", "{s} a nommé {x} à la direction générale ; {o} conserve la présidence."),
        ("headquarters", "city", "{s} a son siège à {x}, la recherche reste à {o}."),
        ("founder", "person", "{s} a été créée par {x} dans un garage."),
        ("auditor", "company", "Les comptes de {s} sont certifiés par {x}."),
        ("spokesperson", "person", "« Nous livrerons », assure {x} au nom de {s}."),
    ),
    "es": (
        (
            "ceo",
            "person",
            "{s} ha nombrado a {x} para la dirección general; {o} sigue en la presidencia.",
        ),
        (
            "headquarters",
            "city",
            "{s} tiene su sede en {x}, mientras que la investigación sigue en {o}.",
        ),
        ("founder", "person", "{s} fue creada por {x} en un garaje."),
        ("auditor", "company", "Las cuentas de {s} las audita {x}."),
        ("spokesperson", "person", "«Cumpliremos», dijo {x} en nombre de {s}."),
    ),
    "it": (
        (
            "ceo",
            "person",
            "{s} ha affidato la direzione generale a {x}; {o} resta alla presidenza.",
        ),
        ("headquarters", "city", "{s} ha sede a {x}, mentre la ricerca resta a {o}."),
        ("founder", "person", "{s} è nata in un garage per iniziativa di {x}."),
        ("auditor", "company", "I conti di {s} sono certificati da {x}."),
        ("spokesperson", "person", "«Consegneremo», ha detto {x} a nome di {s}."),
    ),
}


def _names(writer: _Writer) -> None:
    """Names of people, places and companies, with titles and legal forms; false: another or altered name."""
    name, kind, template = writer.pick(_NAME_SENTENCES)
    draw = {"person": writer.person, "city": writer.city, "company": writer.company}[kind]
    subject, value, other = writer.company(), draw(), draw()
    shown, rule = value, "same text"
    if kind == "person" and writer.turn % 3 == 1:
        shown, rule = (
            f"{writer.random.choice(_TITLES_OF_PEOPLE[writer.language])} {value}",
            "title of a person",
        )
    elif kind == "company" and writer.turn % 2:
        shown, rule = f"{value} {writer.legal_form()}", "legal form"
    sentence = template.format(s=subject, x=shown, o=other)
    note, decoy = ("other role", "") if "{o}" in template else ("elsewhere in the page", other)
    case = writer.case(writer.page(f"[[{sentence}]]", subject, decoy=decoy), subject)
    writer.true(case, {name: value}, rule)
    if kind == "person" and writer.turn % 4 == 2:
        writer.false(
            case,
            {name: f"{writer.one_of(_FIRST_NAMES)} {value.partition(' ')[2]}"},
            "name",
            "other first name",
        )
    elif kind == "person" and writer.turn % 4 == 0:
        writer.false(
            case,
            {name: f"{value.partition(' ')[0]} {writer.one_of(_LAST_NAMES)}"},
            "name",
            "other last name",
        )
    else:
        writer.false(case, {name: other}, "name", note)


_PRODUCTS: Final[Texts] = {
    "en": _words(
        "electric motors,gear boxes,pumps,wind turbines,brake discs,control units,cooling systems,heat pumps",
        ",",
    ),
    "de": _words(
        "Elektromotoren,Getriebe,Pumpen,Windräder,Bremsscheiben,Steuergeräte,Kühlanlagen,Wärmepumpen",
        ",",
    ),
    "fr": _words(
        "moteurs électriques,réducteurs,pompes,éoliennes,disques de frein,capteurs,climatiseurs,vannes",
        ",",
    ),
    "es": _words(
        "motores eléctricos,engranajes,bombas,aerogeneradores,discos de freno,sensores,válvulas,calderas",
        ",",
    ),
    "it": _words(
        "motori elettrici,riduttori,pompe,turbine eoliche,dischi freno,sensori,valvole,caldaie", ","
    ),
}
_AND: Final = {"en": "and", "de": "und", "fr": "et", "es": "y", "it": "e"}
_LIST_SENTENCES: Final[Mapping[str, tuple[tuple[str, str, str], ...]]] = {
    "en": (
        ("offices", "city", "{s} has offices in {l}."),
        ("investors", "company", "Among the investors in {s} are {l}."),
        ("board", "person", "{l} sit on the board of {s}."),
        ("products", "product", "{s} makes {l}."),
    ),
    "de": (
        ("offices", "city", "{s} hat Büros in {l}."),
        ("investors", "company", "Zu den Geldgebern von {s} zählen {l}."),
        ("board", "person", "Dem Vorstand von {s} gehören {l} an."),
        ("products", "product", "{s} stellt {l} her."),
    ),
    "fr": (
        ("offices", "city", "{s} a des bureaux dans plusieurs villes : {l}."),
        ("investors", "company", "Parmi les investisseurs de {s} figurent {l}."),
        ("board", "person", "{l} siègent au conseil de {s}."),
        ("products", "product", "{s} fabrique notamment : {l}."),
    ),
    "es": (
        ("offices", "city", "{s} tiene oficinas en {l}."),
        ("investors", "company", "Entre los inversores de {s} figuran {l}."),
        ("board", "person", "En el consejo de {s} se sientan {l}."),
        ("products", "product", "{s} fabrica {l}."),
    ),
    "it": (
        ("offices", "city", "{s} ha uffici nelle seguenti città: {l}."),
        ("investors", "company", "Tra gli investitori di {s} figurano {l}."),
        ("board", "person", "Nel consiglio di {s} siedono {l}."),
        ("products", "product", "{s} produce {l}."),
    ),
}


def _lists(writer: _Writer) -> None:
    """Lists whose members are all named, or all but one."""
    name, kind, template = writer.pick(_LIST_SENTENCES)
    draw: Callable[[], str] = {
        "person": writer.person,
        "city": writer.city,
        "company": writer.company,
        "product": lambda: writer.one_of(_PRODUCTS),
    }[kind]
    subject, members, other = (
        writer.company(),
        [draw() for _ in range(writer.random.choice((2, 3, 3, 4)))],
        draw(),
    )
    listed = f"{', '.join(members[:-1])} {_AND[writer.language]} {members[-1]}"
    case = writer.case(
        writer.page(
            f"[[{template.format(s=subject, l=listed)}]]",
            subject,
            decoy="" if kind == "product" else other,
        ),
        subject,
    )
    claimed = members if writer.turn % 3 else members[:2]
    wrong = list(claimed)
    wrong[writer.random.randrange(len(wrong))] = other
    writer.true(case, {name: claimed}, "list")
    writer.false(case, {name: wrong}, "name", "one member of the list")


# ---- Subjects

_PRONOUN_SENTENCES: Final[Rows] = {
    "en": (
        ("employees", "The company employs {v} people."),
        ("customers", "It has {v} customers in {c}."),
        ("employees", "Employees: {v}"),
        ("vehicles_delivered", "The manufacturer delivered {v} vehicles last year."),
    ),
    "de": (
        ("employees", "Das Unternehmen beschäftigt {v} Menschen."),
        ("customers", "Es hat {v} Kunden in {c}."),
        ("employees", "Mitarbeiter: {v}"),
        ("vehicles_delivered", "Der Hersteller lieferte im vergangenen Jahr {v} Fahrzeuge aus."),
    ),
    "fr": (
        ("employees", "L'entreprise emploie {v} personnes."),
        ("customers", "Elle compte {v} clients."),
        ("employees", "Effectif : {v}"),
        ("vehicles_delivered", "Le constructeur a livré {v} véhicules l'an dernier."),
    ),
    "es": (
        ("employees", "La empresa emplea a {v} personas."),
        ("customers", "Tiene {v} clientes en {c}."),
        ("employees", "Plantilla: {v}"),
        ("vehicles_delivered", "El fabricante entregó {v} vehículos el año pasado."),
    ),
    "it": (
        ("employees", "L'azienda impiega {v} persone."),
        ("customers", "Conta {v} clienti a {c}."),
        ("employees", "Dipendenti: {v}"),
        ("vehicles_delivered", "Il costruttore ha consegnato {v} veicoli l'anno scorso."),
    ),
}


def _subjects(writer: _Writer) -> None:
    """The quote says `the company`: title, heading or an alias must name it. False: they name another, or nobody."""
    name, template = writer.pick(_PRONOUN_SENTENCES)
    subject, other, number = writer.company(), writer.company(), writer.integer(5)
    sentence = template.format(v=writer.text(number), c=writer.city())
    neutral = _TITLES[writer.language][2 + writer.turn % 2]
    ticker = subject.partition(" ")[0][:4].upper()
    claim = {name: number}
    if writer.turn % 4 == 1:
        true_page = writer.page(f"[[{sentence}]]", subject, title=neutral, heading=subject)
        false_page = writer.page(
            f"[[{sentence}]]", subject, title=neutral, heading=other, decoy=subject
        )
        rule, aliases = "heading", tuple[str, ...]()
    elif writer.turn % 4 == 2:
        true_page = writer.page(
            f"[[{sentence}]]", subject, title=f"{neutral}: {ticker}", heading=""
        )
        false_page = writer.page(
            f"[[{sentence}]]", subject, title=neutral, heading="", decoy=subject
        )
        rule, aliases = "alias", (ticker, f"{subject} {writer.legal_form()}")
    else:
        true_page = writer.page(f"[[{sentence}]]", subject, title=_named_title(writer, subject))
        false_page = writer.page(
            f"[[{sentence}]]", other, title=_named_title(writer, other), decoy=subject
        )
        rule, aliases = "title", ()
    writer.true(writer.case(true_page, subject, aliases=aliases), claim, rule)
    writer.false(writer.case(false_page, subject, aliases=aliases), claim, "subject")


def _named_title(writer: _Writer, subject: str) -> str:
    return _TITLES[writer.language][writer.random.choice((0, 1, 4))].format(s=subject)


_TWO_SUBJECTS: Final[Rows] = {
    "en": (
        ("employees", "While {s} employs {v} people, {o} has {v2}."),
        ("revenue_eur", "{s} took in €{v} million, its rival {o} €{v2} million."),
        ("market_share_percent", "{s} leads with {v}% of the market, ahead of {o} with {v2}%."),
    ),
    "de": (
        ("employees", "Während {s} {v} Menschen beschäftigt, sind es bei {o} {v2}."),
        ("revenue_eur", "{s} setzte {v} Mio. Euro um, der Konkurrent {o} {v2} Mio. Euro."),
        ("market_share_percent", "{s} führt mit {v} Prozent Marktanteil vor {o} mit {v2} Prozent."),
    ),
    "fr": (
        ("employees", "Si {s} emploie {v} personnes, {o} en compte {v2}."),
        (
            "revenue_eur",
            "{s} a réalisé {v} millions d'euros de ventes, son rival {o} {v2} millions d'euros.",
        ),
        ("market_share_percent", "{s} domine avec {v} % du marché, devant {o} avec {v2} %."),
    ),
    "es": (
        ("employees", "Mientras que {s} emplea a {v} personas, {o} tiene {v2}."),
        (
            "revenue_eur",
            "{s} ingresó {v} millones de euros y su rival {o}, {v2} millones de euros.",
        ),
        (
            "market_share_percent",
            "{s} lidera con el {v} % del mercado, por delante de {o}, con el {v2} %.",
        ),
    ),
    "it": (
        ("employees", "Se {s} impiega {v} persone, {o} ne conta {v2}."),
        (
            "revenue_eur",
            "{s} ha incassato {v} milioni di euro, la concorrente {o} {v2} milioni di euro.",
        ),
        ("market_share_percent", "{s} guida con il {v}% del mercato, davanti a {o} con il {v2}%."),
    ),
}


def _two_subjects(writer: _Writer) -> None:
    """Two companies and two numbers in a sentence; false: the other's number, or the other's sentence."""
    name, template = writer.pick(_TWO_SUBJECTS)
    subject, other = writer.company(), writer.company()
    low, high = (11, 48) if "percent" in name else (210, 990) if "eur" in name else (1200, 48000)
    second, first = sorted(writer.random.sample(range(low, high), 2))
    factor = 1_000_000 if "eur" in name else 1
    sentence = template.format(s=subject, o=other, v=writer.text(first), v2=writer.text(second))
    page = writer.page(f"[[{sentence}]]", subject)
    rule = {"employees": "digit grouping", "revenue_eur": "scale word"}.get(name, "percentage")
    asked, right, wrong = (subject, first, second) if writer.turn % 2 else (other, second, first)
    writer.true(writer.case(page, asked), {name: right * factor}, rule, "two subjects")
    writer.false(writer.case(page, asked), {name: wrong * factor}, "subject", "other role")


def _rivals(writer: _Writer) -> None:
    """A sentence on one company in an article on another: true of the first, false of the second."""
    name, template = writer.pick(_COUNTS)
    subject, rival, number = writer.company(), writer.company(), writer.integer(5)
    sentence = template.format(
        s=rival, v=writer.text(number), o=writer.integer(3), c=writer.city(), y=writer.year(2015)
    )
    page = writer.page(f"[[{sentence}]]", subject, title=_named_title(writer, subject))
    writer.true(
        writer.case(page, rival),
        {name: number},
        "digit grouping",
        "the title names another company",
    )
    writer.false(
        writer.case(page, subject),
        {name: number},
        "subject",
        "other role: the title names the subject, the quote another",
    )


# ---- Free text


@dataclass(frozen=True)
class _Story:
    """Sentences of a page and what can be claimed of them, with the same slots."""

    source: str
    summary: str
    english: str


_STORIES: Final[Mapping[str, tuple[_Story, ...]]] = {
    "en": (
        _Story(
            "[[{s} will close its plant in {c} {date} and cut {n} jobs, chief executive {p} said.]]",
            "{s} is closing its plant in {c} {date}; {n} jobs will go.",
            "According to chief executive {p}, {s} will shut the {c} plant and cut {n} jobs.",
        ),
        _Story(
            "[[Operating profit at {s} rose {q} to {m}, helped by orders from {c}.]]",
            "Operating profit at {s} rose by {q} to {m}.",
            "{s} increased its operating profit to {m}, helped by orders from {c}.",
        ),
        _Story(
            "[[{p} joined {s} in {y} as an engineer.]] [[Today {n} people report to the manager from {c}.]]",
            "{p} has been with {s} since {y} and leads {n} people.",
            "{p}, from {c}, joined {s} in {y}. {n} people report to the manager.",
        ),
        _Story(
            "[[{s} opened a plant in {c} {date} at a cost of {m}.]] [[{n} people work there.]] [[It is run by "
            "{p}, who came in {y}.]]",
            "{s} opened a plant in {c} {date}. It cost {m} and employs {n} people. {p} runs it.",
            "The {c} plant of {s} opened {date}. It cost {m}. {n} people work there under {p}, who came in {y}.",
        ),
    ),
    "de": (
        _Story(
            "[[{s} schließt {date} das Werk in {c} und streicht {n} Stellen, sagte {p}, an der Spitze des Vorstands.]]",
            "{s} macht das Werk in {c} {date} dicht; {n} Stellen fallen weg.",
            "According to chief executive {p}, {s} will shut the {c} plant and cut {n} jobs.",
        ),
        _Story(
            "[[Der Betriebsgewinn von {s} stieg um {q} auf {m}, auch dank Aufträgen aus {c}.]]",
            "Der Betriebsgewinn von {s} legte um {q} auf {m} zu.",
            "{s} increased its operating profit by {q} to {m}.",
        ),
        _Story(
            "[[{p} kam {y} zu {s}.]] [[Heute führt die Fachkraft aus {c} {n} Menschen.]]",
            "{p} ist seit {y} bei {s} und führt {n} Menschen.",
            "{p}, from {c}, joined {s} in {y} and leads {n} people.",
        ),
        _Story(
            "[[{s} hat {date} in {c} ein Werk für {m} eröffnet.]] [[Dort arbeiten {n} Menschen.]] [[Die Leitung "
            "hat {p}, seit {y} dabei.]]",
            "{s} hat {date} ein Werk in {c} eröffnet. Es kostete {m} und beschäftigt {n} Menschen. Die Leitung hat {p}.",
            "The {c} plant of {s} opened {date}. It cost {m}. {n} people work there under {p}, who came in {y}.",
        ),
    ),
    "fr": (
        _Story(
            "[[{s} fermera {date} son usine de {c} et supprimera {n} emplois, a annoncé {p}, qui dirige l'entreprise.]]",
            "{s} ferme son usine de {c} {date} ; {n} emplois sont supprimés.",
            "According to chief executive {p}, {s} will shut the {c} plant and cut {n} jobs.",
        ),
        _Story(
            "[[Le résultat opérationnel de {s} a progressé de {q}, à {m}, grâce à des commandes venues de {c}.]]",
            "Le résultat opérationnel de {s} a augmenté de {q} pour atteindre {m}.",
            "{s} increased its operating profit by {q} to {m}.",
        ),
        _Story(
            "[[{p} a rejoint {s} en {y}.]] [[Aujourd'hui, {n} personnes travaillent sous sa direction à {c}.]]",
            "Chez {s} depuis {y}, {p} dirige {n} personnes.",
            "{p} joined {s} in {y} and leads {n} people in {c}.",
        ),
        _Story(
            "[[{s} a ouvert {date} à {c} une usine de {m}.]] [[{n} personnes y travaillent.]] [[Le site est "
            "dirigé par {p}, dans la maison depuis {y}.]]",
            "{s} a ouvert une usine à {c} {date}. Elle a coûté {m} et emploie {n} personnes. {p} la dirige.",
            "The {c} plant of {s} opened {date}. It cost {m}. {n} people work there under {p}, who came in {y}.",
        ),
    ),
    "es": (
        _Story(
            "[[{s} cerrará {date} su planta de {c} y suprimirá {n} empleos, anunció {p}, al frente de la empresa.]]",
            "{s} cierra {date} la planta de {c}; se pierden {n} empleos.",
            "According to {p}, {s} will shut the {c} plant and cut {n} jobs.",
        ),
        _Story(
            "[[El resultado operativo de {s} creció un {q}, hasta {m}, gracias a los pedidos de {c}.]]",
            "El resultado operativo de {s} aumentó un {q} hasta {m}.",
            "{s} increased its operating profit by {q} to {m}.",
        ),
        _Story(
            "[[{p} llegó a {s} en {y}.]] [[Hoy dirige desde {c} a {n} personas.]]",
            "{p} está en {s} desde {y} y dirige a {n} personas.",
            "{p} joined {s} in {y} and leads {n} people from {c}.",
        ),
        _Story(
            "[[{s} abrió {date} en {c} una planta de {m}.]] [[Allí trabajan {n} personas.]] [[La dirige {p}, en "
            "la casa desde {y}.]]",
            "{s} abrió {date} una planta en {c}. Costó {m} y emplea a {n} personas. La dirige {p}.",
            "The {c} plant of {s} opened {date}. It cost {m}. {n} people work there under {p}, who came in {y}.",
        ),
    ),
    "it": (
        _Story(
            "[[{s} chiuderà {date} lo stabilimento di {c} e taglierà {n} posti, ha annunciato {p}, alla guida "
            "dell'azienda.]]",
            "{s} chiude {date} lo stabilimento di {c}; {n} posti in meno.",
            "According to {p}, {s} will shut the {c} plant and cut {n} jobs.",
        ),
        _Story(
            "[[Il risultato operativo di {s} è salito del {q} a {m}, grazie agli ordini da {c}.]]",
            "Il risultato operativo di {s} è cresciuto del {q} a {m}.",
            "{s} increased its operating profit by {q} to {m}.",
        ),
        _Story(
            "[[{p} lavora in {s} dal {y}.]] [[Oggi guida {n} persone a {c}.]]",
            "{p} è in {s} dal {y} e guida {n} persone.",
            "{p} joined {s} in {y} and leads {n} people in {c}.",
        ),
        _Story(
            "[[{s} ha aperto {date} a {c} uno stabilimento da {m}.]] [[Vi lavorano {n} persone.]] [[Lo guida "
            "{p}, in azienda dal {y}.]]",
            "{s} ha aperto {date} uno stabilimento a {c}. È costato {m} e dà lavoro a {n} persone. Lo guida {p}.",
            "The {c} plant of {s} opened {date}. It cost {m}. {n} people work there under {p}, who came in {y}.",
        ),
    ),
}
_SLOT: Final = re.compile(r"\{(\w+)\}")
_SLOT_FAULTS: Final[Mapping[str, Fault]] = {
    "s": "subject", "c": "name", "p": "name", "n": "number", "q": "percentage", "m": "number", "y": "year", "date": "date",
}  # fmt: skip


def _free_texts(writer: _Writer) -> None:
    """Summaries in the page's language or in English; false: one slot is filled differently."""
    story = writer.pick(_STORIES)
    is_english = writer.turn // 4 % 2 == 1
    template = story.english if is_english else story.summary
    slots, others = _fill_slots(writer), _fill_slots(writer)
    subject = slots["s"][0]
    marked = story.source.format(**{slot: texts[0] for slot, texts in slots.items()})
    case = writer.case(writer.page(marked, subject), subject)
    index = 1 if is_english else 0
    texts = {slot: pair[index] for slot, pair in slots.items()}
    changeable = [
        slot for slot in _SLOT.findall(template) if slot != "s" and slots[slot] != others[slot]
    ]
    slot = changeable[writer.turn // 2 % len(changeable)]
    name = "summary" if writer.turn % 2 else "description"
    rule = "free text in English" if is_english and writer.language != "en" else "free text"
    writer.true(case, {name: template.format(**texts)}, rule)
    writer.false(
        case, {name: template.format(**(texts | {slot: others[slot][index]}))}, _SLOT_FAULTS[slot]
    )


def _fill_slots(writer: _Writer) -> dict[str, tuple[str, str]]:
    """For each slot the text in the page's language and in English."""
    number, percent = writer.integer(4), Decimal(writer.random.randint(21, 389)) / 10
    _, money, english_money = _amount(writer, "EUR")
    year, person, city, company = (
        writer.year(1988, 2023),
        writer.person(),
        writer.city(),
        writer.company(),
    )
    when = writer.date(writer.year(2024, 2027))
    return {
        "s": (company, company),
        "c": (city, city),
        "p": (person, person),
        "n": (writer.text(number), f"{number:,}"),
        "q": (_PERCENTS[writer.language][0].format(n=writer.text(percent)), f"{percent}%"),
        "m": (money, english_money),
        "y": (str(year), str(year)),
        "date": (when.phrase, f"on {_english_date(when.day)}"),
    }


# ---- Edges

_EDGE_SENTENCES: Final[Rows] = {
    "en": (
        ("supplies", "{s} supplies {t} with gear boxes from its plant in {c}."),
        ("owns_share_of", "{s} holds {p} of {t}."),
        ("acquired", "{s} bought {t} for {m} in {y}."),
        ("partner_of", "{s} and {t} have worked together since {y}."),
        ("competes_with", "In {c}, {s} competes with {t} and a number of smaller firms."),
    ),
    "de": (
        ("supplies", "{s} beliefert {t} mit Getrieben aus dem Werk {c}."),
        ("owns_share_of", "{s} hält {p} an {t}."),
        ("acquired", "{s} kaufte {t} {y} für {m}."),
        ("partner_of", "{s} und {t} arbeiten seit {y} zusammen."),
        ("competes_with", "In {c} konkurriert {s} mit {t} und einigen kleineren Firmen."),
    ),
    "fr": (
        ("supplies", "{s} fournit des réducteurs à {t}."),
        ("owns_share_of", "{s} détient {p} de {t}."),
        ("acquired", "{s} a racheté {t} en {y} pour {m}."),
        ("partner_of", "{s} et {t} collaborent depuis {y}."),
        ("competes_with", "{s} est en concurrence avec {t} et quelques sociétés plus petites."),
    ),
    "es": (
        ("supplies", "{s} suministra engranajes a {t} desde {c}."),
        ("owns_share_of", "{s} posee el {p} de {t}."),
        ("acquired", "{s} compró {t} en {y} por {m}."),
        ("partner_of", "{s} y {t} colaboran desde {y}."),
        ("competes_with", "En {c}, {s} compite con {t} y con algunas empresas más pequeñas."),
    ),
    "it": (
        ("supplies", "{s} fornisce riduttori a {t} da {c}."),
        ("owns_share_of", "{s} possiede il {p} di {t}."),
        ("acquired", "{s} ha acquistato {t} nel {y} per {m}."),
        ("partner_of", "{s} e {t} collaborano dal {y}."),
        ("competes_with", "A {c} {s} è in concorrenza con {t} e con alcune imprese minori."),
    ),
}
_THE_GROUP: Final = {
    "en": "The group",
    "de": "Der Konzern",
    "fr": "Le groupe",
    "es": "El grupo",
    "it": "Il gruppo",
}
_A_RIVAL: Final = {
    "en": "a competitor", "de": "eine andere Firma", "fr": "un concurrent", "es": "un competidor", "it": "un concorrente",
}  # fmt: skip


def _edges(writer: _Writer) -> None:
    """Edges whose ends stand in the quote, the title or an alias; false: an end or a property."""
    type_name, template = writer.pick(_EDGE_SENTENCES)
    subject, target, other = writer.company(), writer.company(), writer.company()
    year, percent = writer.year(1995, 2025), Decimal(writer.random.randint(101, 899)) / 10
    value, money, _ = _amount(writer, "EUR")
    shown_source, shown_target, rule = subject, target, "same text"
    target_aliases: tuple[str, ...] = ()
    if writer.turn % 4 == 3:
        shown_target, rule = target[:4].upper(), "alias"
        target_aliases = (shown_target,)
    elif writer.turn % 3 == 1:
        shown_target, rule = f"{target} {writer.legal_form()}", "legal form"
    if type_name == "acquired":
        shown_source, rule = _THE_GROUP[writer.language], "title"
    values = {
        "p": _PERCENTS[writer.language][0].format(n=writer.text(percent)),
        "y": year,
        "m": money,
        "c": writer.city(),
    }
    sentence = template.format(s=shown_source, t=shown_target, **values)
    page = writer.page(f"[[{sentence}]]", subject, title=_named_title(writer, subject), decoy=other)
    case = writer.case(
        page, subject, type_name, kind="edge", target=target, target_aliases=target_aliases
    )
    properties, wrong, fault = _edge_properties(writer, type_name, year, percent, value)
    writer.true(case, properties, rule)
    match writer.turn // 5 % 3:
        case 0 if fault:
            writer.false(case, wrong, fault)
        case 1:
            hidden = sentence.replace(shown_target, _A_RIVAL[writer.language])
            hidden = re.sub(r"\b(an|mit) eine andere", r"\1 einer anderen", hidden)
            page = writer.page(f"[[{hidden}]]", subject, title=page.title, decoy=target)
            writer.false(
                replace(case, page=page.text, quotes=page.quotes, heading=page.heading),
                properties,
                "edge_end",
                "unnamed",
            )
        case _:
            unnamed = replace(case, target=other, target_aliases=())
            writer.false(unnamed, properties, "edge_end", "elsewhere in the page")


def _edge_properties(
    writer: _Writer, type_name: str, year: int, percent: Decimal, value: Decimal
) -> tuple[Properties, Properties, Fault | None]:
    """True properties of the edge, false ones, and what is false; None where the type has no properties."""
    match type_name:
        case "owns_share_of":
            return (
                {"share_percent": float(percent)},
                {"share_percent": float(percent + 2)},
                "percentage",
            )
        case "acquired" if writer.turn % 2:
            return {"price_eur": _json(value)}, {"price_usd": _json(value)}, "currency"
        case "acquired":
            return {"year": year}, {"year": year - 1}, "year"
        case "partner_of":
            return {"since": str(year)}, {"since": str(year + 2)}, "year"
        case _:
            return {}, {}, None


def _reversed_edges(writer: _Writer) -> None:
    """Ownership and purchase have a direction."""
    rows = _EDGE_SENTENCES[writer.language]
    type_name, template = rows[(0, 1, 2)[writer.turn % 3]]
    subject, target, year = writer.company(), writer.company(), writer.year(1995, 2025)
    percent = Decimal(writer.random.randint(101, 899)) / 10
    sentence = template.format(
        s=subject, t=target, y=year, m=_amount(writer, "EUR")[1], c=writer.city(),
        p=_PERCENTS[writer.language][0].format(n=writer.text(percent)),
    )  # fmt: skip
    page = writer.page(f"[[{sentence}]]", subject)
    true = writer.case(page, subject, type_name, kind="edge", target=target)
    writer.true(true, {}, "same text")
    writer.false(
        replace(true, subject=target, target=subject),
        {},
        "edge_end",
        "other role: the ends are reversed",
    )


# ---- Several quotes, negation, inventions


_SEVERAL: Final[Texts] = {
    "en": ("[[{s} was founded in {y}.]] {f} [[Its {n} employees work in {c}.]]",),
    "de": ("[[{s} wurde {y} gegründet.]] {f} [[Die {n} Beschäftigten arbeiten in {c}.]]",),
    "fr": ("[[{s} a été fondée en {y}.]] {f} [[Ses {n} salariés travaillent à {c}.]]",),
    "es": ("[[{s} se fundó en {y}.]] {f} [[Sus {n} empleados trabajan en {c}.]]",),
    "it": ("[[{s} è stata fondata nel {y}.]] {f} [[I suoi {n} dipendenti lavorano a {c}.]]",),
}


def _several_quotes(writer: _Writer) -> None:
    """Claims that rest on two quotes together; false: one value, or one of the quotes is not cited."""
    subject, year, number, city = (
        writer.company(),
        writer.year(1921, 2010),
        writer.integer(4),
        writer.city(),
    )
    marked = writer.pick(_SEVERAL).format(
        s=subject, y=year, n=writer.text(number), c=city, f=writer.filler()
    )
    claim: Properties = {"founded": year, "employees": number, "location": city}
    case = writer.case(writer.page(marked, subject), subject)
    writer.true(case, claim, "several quotes")
    match writer.turn % 4:
        case 0:
            writer.false(case, claim | {"employees": writer.near(number)}, "number")
        case 1:
            writer.false(
                replace(case, quotes=case.quotes[:1]),
                claim,
                "number",
                "the second quote is missing",
            )
        case 2:
            writer.false(case, claim | {"founded": year + 1}, "year")
        case _:
            writer.false(case, claim | {"location": writer.city()}, "name")


_NEGATIONS: Final[Mapping[str, tuple[tuple[str, str, str], ...]]] = {
    "en": (
        (
            "opened",
            "{s} opened its plant in {c} {d}.",
            "{s} did not open its plant in {c} {d} after all.",
        ),
        (
            "is_listed",
            "{s} is listed on the stock exchange.",
            "{s} is not listed on the stock exchange.",
        ),
        ("employees", "{s} has {v} employees.", "{s} denies that it has {v} employees."),
        (
            "approved",
            "Regulators approved the drug from {s} {d}.",
            "Regulators never approved the drug from {s}, due {d}.",
        ),
        ("ceo", "{p} took over as head of {s}.", "{p} will not take over as head of {s}."),
    ),
    "de": (
        (
            "opened",
            "{s} hat das Werk in {c} {d} eröffnet.",
            "{s} hat das Werk in {c} {d} nicht eröffnet.",
        ),
        ("is_listed", "{s} ist an der Börse notiert.", "{s} ist an keiner Börse notiert."),
        ("employees", "{s} hat {v} Beschäftigte.", "{s} bestreitet, {v} Beschäftigte zu haben."),
        (
            "approved",
            "Das Mittel von {s} wurde {d} zugelassen.",
            "Das Mittel von {s} wurde {d} nicht zugelassen.",
        ),
        (
            "ceo",
            "{p} übernimmt die Leitung von {s}.",
            "{p} übernimmt nun doch nicht die Leitung von {s}.",
        ),
    ),
    "fr": (
        ("opened", "{s} a ouvert son usine {d}.", "{s} n'a pas ouvert son usine {d}."),
        ("is_listed", "{s} est cotée en Bourse.", "{s} n'est pas cotée en Bourse."),
        ("employees", "{s} compte {v} salariés.", "{s} dément compter {v} salariés."),
        (
            "approved",
            "Le médicament de {s} a été autorisé {d}.",
            "Le médicament de {s} n'a pas été autorisé {d}.",
        ),
        ("ceo", "{p} prend la direction de {s}.", "{p} ne prendra pas la direction de {s}."),
    ),
    "es": (
        ("opened", "{s} abrió su planta de {c} {d}.", "{s} no abrió su planta de {c} {d}."),
        ("is_listed", "{s} cotiza en Bolsa.", "{s} no cotiza en Bolsa."),
        ("employees", "{s} tiene {v} empleados.", "{s} niega tener {v} empleados."),
        ("approved", "El fármaco de {s} se aprobó {d}.", "El fármaco de {s} no se aprobó {d}."),
        ("ceo", "{p} asume la dirección de {s}.", "{p} nunca asumirá la dirección de {s}."),
    ),
    "it": (
        (
            "opened",
            "{s} ha aperto lo stabilimento di {c} {d}.",
            "{s} non ha aperto lo stabilimento di {c} {d}.",
        ),
        ("is_listed", "{s} è quotata in Borsa.", "{s} non è quotata in Borsa."),
        ("employees", "{s} ha {v} dipendenti.", "{s} smentisce di avere {v} dipendenti."),
        (
            "approved",
            "Il farmaco di {s} è stato approvato {d}.",
            "Il farmaco di {s} non è stato approvato {d}.",
        ),
        ("ceo", "{p} assume la guida di {s}.", "{p} non assumerà la guida di {s}."),
    ),
}


def _negations(writer: _Writer) -> None:
    """The same claim with a sentence and with its denial."""
    name, affirmed, denied = writer.pick(_NEGATIONS)
    subject, number, person, when = (
        writer.company(),
        writer.integer(4),
        writer.person(),
        writer.date(writer.year(2015, 2026)),
    )
    values = {
        "s": subject,
        "c": writer.city(),
        "d": when.phrase,
        "v": writer.text(number),
        "p": person,
    }
    claims: dict[str, tuple[Any, str]] = {
        "opened": (when.day.isoformat(), "written date"),
        "is_listed": (True, "boolean"),
        "employees": (number, "digit grouping"),
        "approved": (when.day.isoformat(), "written date"),
        "ceo": (person, "same text"),
    }
    value, rule = claims[name]
    affirming = writer.case(writer.page(f"[[{affirmed.format(**values)}]]", subject), subject)
    denying = writer.case(writer.page(f"[[{denied.format(**values)}]]", subject), subject)
    if name == "is_listed" and writer.turn // 5 % 2:
        writer.true(denying, {name: False}, "boolean", "a negation that is claimed")
        writer.false(affirming, {name: False}, "negation")
        return
    writer.true(affirming, {name: value}, rule)
    writer.false(denying, {name: value}, "negation")


_PLANS: Final[Texts] = {
    "en": ("{s} plans to expand its site in {c}.", "{s} is in talks with customers in {c}."),
    "de": ("{s} will den Standort {c} ausbauen.", "{s} verhandelt mit Kunden in {c}."),
    "fr": ("{s} souhaite agrandir son site de {c}.", "{s} négocie avec des clients à {c}."),
    "es": ("{s} quiere ampliar sus instalaciones de {c}.", "{s} negocia con clientes de {c}."),
    "it": ("{s} vuole ampliare la sede di {c}.", "{s} sta trattando con clienti di {c}."),
}


def _inventions(writer: _Writer) -> None:
    """A quote without figures; false: a figure, name or date that it does not state."""
    subject, city = writer.company(), writer.city()
    page = writer.page(f"[[{writer.pick(_PLANS).format(s=subject, c=city)}]]", subject)
    case = writer.case(page, subject)
    name = "expansion_site" if writer.turn % 2 == 0 else "customers_in"
    writer.true(case, {name: city}, "same text")
    invented: tuple[Properties, ...] = (
        {"investment_eur": writer.integer(3) * 100_000},
        {"ceo": writer.person()},
        {"completion": writer.date(2027).day.isoformat()},
        {"employees": writer.integer(4)},
        {"summary": f"{subject} will create {writer.integer(3)} jobs in {city} by 2027."},
        {"founded": writer.year(1950, 2010)},
    )
    writer.false(case, {name: city} | invented[writer.turn % len(invented)], "invented")


_STATES: Final[Mapping[str, tuple[tuple[str, str, str], ...]]] = {
    "en": (
        ("operational", "under construction", "The {s} power station is operational."),
        ("insolvent", "solvent", "{s} has been insolvent since spring."),
    ),
    "de": (
        ("in Betrieb", "im Bau", "Das Kraftwerk {s} ist in Betrieb."),
        ("stillgelegt", "in Betrieb", "Das Kraftwerk {s} ist seit dem Frühjahr stillgelegt."),
    ),
    "fr": (
        ("en service", "en construction", "La centrale {s} est en service."),
        ("à l'arrêt", "en service", "La centrale {s} est à l'arrêt depuis le printemps."),
    ),
    "es": (
        ("en funcionamiento", "en construcción", "La central {s} está en funcionamiento."),
        ("parada", "en funcionamiento", "La central {s} está parada desde la primavera."),
    ),
    "it": (
        ("in funzione", "in costruzione", "La centrale {s} è in funzione."),
        ("ferma", "in funzione", "La centrale {s} è ferma dalla primavera."),
    ),
}
_ENGLISH_STATES: Final = (("operational", "under construction"), ("shut down", "operational"))


def _states(writer: _Writer) -> None:
    """Enumerations, in the page's language or in English."""
    state, wrong, template = writer.pick(_STATES)
    rule = "enumeration"
    if writer.language != "en" and writer.turn >= 2:
        state, wrong = _ENGLISH_STATES[writer.turn % 2]
        rule = "enumeration in English"
    subject = writer.company().split()[0]
    page = writer.page(f"[[{template.format(s=subject)}]]", subject)
    case = writer.case(page, subject, "Facility")
    writer.true(case, {"status": state}, rule)
    writer.false(case, {"status": wrong}, "invented", "another member of the enumeration")


_CODES: Final[Mapping[str, tuple[tuple[str, str, str], ...]]] = {
    "en": (
        ("certification", "ISO {n}", "{s} is certified to ISO {n} in {c}."),
        ("postal_code", "{n}", "{s}, 14 Mill Lane, {c} {n}"),
        ("model", "X{n}", "{s} unveiled the X{n} in {c}."),
        ("security_id", "A{n}W", "Shares of {s} (ID A{n}W) fell in {c}."),
    ),
    "de": (
        ("certification", "ISO {n}", "{s} ist in {c} nach ISO {n} zertifiziert."),
        ("postal_code", "{n}", "{s}, Mühlenweg 14, {n} {c}"),
        ("model", "X{n}", "{s} stellte in {c} den X{n} vor."),
        ("security_id", "A{n}W", "Die Aktie von {s} (WKN A{n}W) gab nach."),
    ),
    "fr": (
        ("certification", "ISO {n}", "Le site de {s} est certifié ISO {n}."),
        ("postal_code", "{n}", "{s}, 14 rue du Moulin, {n} {c}"),
        ("model", "X{n}", "{s} a dévoilé le X{n} à {c}."),
        ("security_id", "A{n}W", "L'action {s} (code A{n}W) a reculé."),
    ),
    "es": (
        (
            "certification",
            "ISO {n}",
            "La planta de {s} en {c} cuenta con la certificación ISO {n}.",
        ),
        ("postal_code", "{n}", "{s}, calle del Molino 14, {n} {c}"),
        ("model", "X{n}", "{s} presentó en {c} el X{n}."),
        ("security_id", "A{n}W", "La acción de {s} (código A{n}W) cedió terreno."),
    ),
    "it": (
        ("certification", "ISO {n}", "Lo stabilimento di {s} a {c} è certificato ISO {n}."),
        ("postal_code", "{n}", "{s}, via del Mulino 14, {n} {c}"),
        ("model", "X{n}", "{s} ha presentato a {c} la X{n}."),
        ("security_id", "A{n}W", "Il titolo {s} (codice A{n}W) ha perso terreno."),
    ),
}


def _code_number(writer: _Writer, name: str) -> int:
    if name == "certification":
        return writer.random.choice((9001, 14001, 45001, 27001, 50001, 13485, 22000))
    return (
        writer.random.randint(10115, 89999)
        if name == "postal_code"
        else writer.random.randint(1950, 2026)
    )


def _codes(writer: _Writer) -> None:
    """Identifiers: true as such; false: their digits as a count or a year."""
    name, code, template = writer.pick(_CODES)
    subject = writer.company()
    number = _code_number(writer, name)
    case = writer.case(
        writer.page(f"[[{template.format(s=subject, n=number, c=writer.city())}]]", subject),
        subject,
    )
    writer.true(case, {name: code.format(n=number)}, "identifier")
    match writer.turn % 3:
        case 0:
            writer.false(
                case, {"employees": number}, "number", "other role: digits of an identifier"
            )
        case 1:
            writer.false(case, {name: code.format(n=number + 1)}, "number")
        case _ if number < 2100:
            writer.false(case, {"founded": number}, "year", "other role: digits of an identifier")
        case _:
            writer.false(
                case, {"customers": number}, "number", "other role: digits of an identifier"
            )


_GENITIVES: Final[Rows] = {
    "de": (
        ("headquarters", "{g} Zentrale steht in {c}."),
        ("headquarters", "Der Sitz {g} ist {c}."),
        ("employees", "{g} Belegschaft umfasst {v} Menschen."),
    ),
    "en": (
        ("headquarters", "{g} headquarters is in {c}."),
        ("employees", "{g} workforce numbers {v}."),
        ("employees", "{g} {v} employees are on strike."),
    ),
    "fr": (
        ("employees", "L'effectif d'{s} est de {v} salariés."),
        ("headquarters", "Le siège d'{s} se trouve à {c}."),
    ),
    "es": (
        ("employees", "Los {v} empleados de {s} están en huelga."),
        ("headquarters", "La sede de {s} está en {c}."),
    ),
    "it": (
        ("employees", "I {v} dipendenti dell'{s} sono in sciopero."),
        ("headquarters", "La sede dell'{s} è a {c}."),
    ),
}
_VOWEL_STEMS: Final = (
    "Aurentia",
    "Elmora",
    "Ostara",
    "Ambrel",
    "Estrano",
    "Ivarra",
    "Orlanda",
    "Arvento",
    "Isenau",
)


def _declined(writer: _Writer) -> None:
    """Names with a genitive ending or an elided article before them; the false name only looks alike."""
    name, template = writer.pick(_GENITIVES)
    subject = writer.random.choice(_VOWEL_STEMS)
    alike = subject[:-2] + {"a": "ex", "l": "ox", "o": "um", "u": "ik"}[subject[-1]]
    ending = {"en": "'s", "de": "s"}.get(writer.language, "")
    city, number = writer.city(), writer.integer(4)
    sentence = template.format(g=f"{subject}{ending}", s=subject, c=city, v=writer.text(number))
    title = _TITLES[writer.language][2 + writer.turn % 2]
    page = writer.page(
        f"[[{sentence}]]", subject, title=title, decoy="" if writer.turn % 2 else alike
    )
    claim: Properties = {name: city if name == "headquarters" else number}
    writer.true(
        writer.case(page, subject),
        claim,
        "declined form" if writer.language != "es" else "same text",
    )
    writer.false(writer.case(page, alike), claim, "subject", "a name that looks alike")


# ---- What changes with the language


_PLURALS: Final[Rows] = {
    "en": (
        ("heat pumps", "heat pump"),
        ("gear boxes", "gear box"),
        ("batteries", "battery"),
        ("ferries", "ferry"),
        ("pumps", "pump"),
    ),
    "de": (
        ("Wärmepumpen", "Wärmepumpe"),
        ("Windräder", "Windrad"),
        ("Batterien", "Batterie"),
        ("Fähren", "Fähre"),
        ("Bremssätze", "Bremssatz"),
    ),
    "fr": (
        ("éoliennes", "éolienne"),
        ("canaux", "canal"),
        ("batteries", "batterie"),
        ("bateaux", "bateau"),
        ("vannes", "vanne"),
    ),
    "es": (
        ("motores", "motor"),
        ("baterías", "batería"),
        ("válvulas", "válvula"),
        ("camiones", "camión"),
        ("buques", "buque"),
    ),
    "it": (
        ("turbine", "turbina"),
        ("batterie", "batteria"),
        ("motori", "motore"),
        ("traghetti", "traghetto"),
        ("valvole", "valvola"),
    ),
}
_PLURAL_SENTENCES: Final[Texts] = {
    "en": ("{s} sells {a} and {b}.", "The order books for {a} and {b} are full at {s}."),
    "de": ("{s} verkauft {a} und {b}.", "Bei {s} sind die Auftragsbücher für {a} und {b} voll."),
    "fr": (
        "{s} vend des {a} et des {b}.",
        "Chez {s}, les carnets de commandes pour les {a} et les {b} sont pleins.",
    ),
    "es": ("{s} vende {a} y {b}.", "{s} tiene la cartera de pedidos de {a} y {b} llena."),
    "it": ("{s} vende {a} e {b}.", "In {s} il portafoglio ordini di {a} e {b} è pieno."),
}


def _plurals(writer: _Writer) -> None:
    subject = writer.company()
    (first, one), (second, two), (_, other), *_ = writer.random.sample(_PLURALS[writer.language], 4)
    sentence = writer.pick(_PLURAL_SENTENCES).format(s=subject, a=first, b=second)
    case = writer.case(writer.page(f"[[{sentence}]]", subject), subject)
    writer.true(case, {"products": [one, two]}, "plural")
    writer.false(case, {"products": [one, other]}, "name", "one member of the list")


_EXONYMS: Final[Rows] = {
    "en": (
        ("Munich", "München"),
        ("Florence", "Firenze"),
        ("Seville", "Sevilla"),
        ("Geneva", "Genève"),
        ("Cologne", "Köln"),
    ),
    "de": (
        ("München", "Munich"),
        ("Wien", "Vienna"),
        ("Genf", "Geneva"),
        ("Mailand", "Milan"),
        ("Nürnberg", "Nuremberg"),
    ),
    "fr": (
        ("Londres", "London"),
        ("Anvers", "Antwerp"),
        ("Gand", "Ghent"),
        ("Turin", "Torino"),
        ("Varsovie", "Warsaw"),
    ),
    "es": (
        ("Sevilla", "Seville"),
        ("Londres", "London"),
        ("Ginebra", "Geneva"),
        ("Lisboa", "Lisbon"),
        ("Amberes", "Antwerp"),
    ),
    "it": (
        ("Torino", "Turin"),
        ("Firenze", "Florence"),
        ("Parigi", "Paris"),
        ("Monaco di Baviera", "Munich"),
        ("Genova", "Genoa"),
    ),
}
"""Cities in the page's language and in another."""


def _exonyms(writer: _Writer) -> None:
    subject = writer.company()
    name, _, template = _NAME_SENTENCES[writer.language][1]
    (city, translated), (other_city, other_translated) = writer.random.sample(
        _EXONYMS[writer.language], 2
    )
    sentence = template.format(s=subject, x=city, o=other_city)
    case = writer.case(writer.page(f"[[{sentence}]]", subject), subject)
    writer.true(case, {name: translated}, "translated name")
    writer.false(case, {name: other_translated}, "name", "other role")


_TRILLIONS: Final[Texts] = {
    "en": ("€{n} trillion", "€{n}tn"),
    "de": ("{n} Billionen Euro", "{n} Bio. Euro"),
    "fr": ("{t} milliards d'euros",),
    "es": ("{n} billones de euros",),
    "it": ("{t} miliardi di euro", "{n} bilioni di euro"),
}
_TRILLION_SENTENCES: Final[Texts] = {
    "en": ("{s} manages assets of {m}.",),
    "de": ("{s} verwaltet ein Vermögen von {m}.",),
    "fr": ("{s} gère un encours de {m}.",),
    "es": ("{s} gestiona activos por {m}.",),
    "it": ("{s} gestisce un patrimonio di {m}.",),
}


def _trillions(writer: _Writer) -> None:
    """Sums of more than a thousand billions, whose names are false friends: `Billion`, `billón`, `billion`."""
    subject, number = writer.company(), Decimal(writer.random.randint(21, 89)) / 10
    money = writer.pick(_TRILLIONS).format(n=writer.text(number), t=writer.text(int(number * 1000)))
    page = writer.page(
        f"[[{writer.pick(_TRILLION_SENTENCES).format(s=subject, m=money)}]]", subject
    )
    case = writer.case(page, subject)
    if writer.turn % 2:
        writer.true(case, {"assets": f"EUR {number} trillion"}, "scale word")
        writer.false(case, {"assets": f"EUR {number} billion"}, "scale")
    else:
        writer.true(case, {"assets_eur": int(number * 10**12)}, "scale word")
        writer.false(case, {"assets_eur": int(number * 10**9)}, "scale")


# ---- The World Factbook

_COUNTRIES: Final[Mapping[str, tuple[str, str, str, str]]] = {
    "Ghana": ("Ghana", "Ghana", "Ghana", "Ghana"),
    "Uruguay": ("Uruguay", "Uruguay", "Uruguay", "Uruguay"),
    "Norway": ("Norwegen", "Norvège", "Noruega", "Norvegia"),
    "Estonia": ("Estland", "Estonie", "Estonia", "Estonia"),
    "Chile": ("Chile", "Chili", "Chile", "Cile"),
    "Ireland": ("Irland", "Irlande", "Irlanda", "Irlanda"),
    "Kenya": ("Kenia", "Kenya", "Kenia", "Kenya"),
    "Morocco": ("Marokko", "Maroc", "Marruecos", "Marocco"),
    "Japan": ("Japan", "Japon", "Japón", "Giappone"),
    "Finland": ("Finnland", "Finlande", "Finlandia", "Finlandia"),
    "Vietnam": ("Vietnam", "Viêt Nam", "Vietnam", "Vietnam"),
    "Peru": ("Peru", "Pérou", "Perú", "Perù"),
    "Portugal": ("Portugal", "Portugal", "Portugal", "Portogallo"),
    "Croatia": ("Kroatien", "Croatie", "Croacia", "Croazia"),
    "Bulgaria": ("Bulgarien", "Bulgarie", "Bulgaria", "Bulgaria"),
    "Iceland": ("Island", "Islande", "Islandia", "Islanda"),
    "Malaysia": ("Malaysia", "Malaisie", "Malasia", "Malaysia"),
    "Senegal": ("Senegal", "Sénégal", "Senegal", "Senegal"),
    "Colombia": ("Kolumbien", "Colombie", "Colombia", "Colombia"),
    "Namibia": ("Namibia", "Namibie", "Namibia", "Namibia"),
    "Sweden": ("Schweden", "Suède", "Suecia", "Svezia"),
    "Thailand": ("Thailand", "Thaïlande", "Tailandia", "Thailandia"),
    "Romania": ("Rumänien", "Roumanie", "Rumanía", "Romania"),
    "New Zealand": ("Neuseeland", "Nouvelle-Zélande", "Nueva Zelanda", "Nuova Zelanda"),
}
"""Names in German, French, Spanish and Italian by the English name."""

_FACT_FORMS: Final = (
    ("population", "Population, total", r"(?P<v>[\d,]+) \((?P<y>\d{4})"),
    ("area_km2", "Area, total", r"(?P<v>[\d,]+) sq km"),
    ("coastline_km", "Coastline", r"(?P<v>[\d,]+) km"),
    (
        "inflation_percent",
        "Inflation rate (consumer prices) 2024",
        r"(?P<v>[\d.]+)% \((?P<y>\d{4})",
    ),
    ("exports_usd", "Exports 2024", r"\$(?P<v>[\d.]+) (?P<scale>[mb]illion) \((?P<y>\d{4})"),
    ("airports", "Airports", r"(?P<v>[\d,]+) \((?P<y>\d{4})"),
    ("labor_force", "Labor force", r"(?P<v>[\d.]+) (?P<scale>million) \((?P<y>\d{4})"),
    ("highest_point_m", "Elevation, highest point", r"(?P<n>\D+?) (?P<v>[\d,]+) m$"),
    (
        "urban_percent",
        "Urbanization, urban population",
        r"(?P<v>[\d.]+)% of total population \((?P<y>\d{4})",
    ),
    ("independence", "Independence", r"(?P<d>\d{1,2} [A-Z][a-z]+ \d{4})"),
)
"""Property, the Factbook's label and the form of its text."""

_FACT_SENTENCES: Final[Mapping[str, Mapping[str, str]]] = {
    "en": {
        "population": "The country has {v} inhabitants ({y} estimate).",
        "area_km2": "Area: {v} sq km",
        "coastline_km": "The coastline is {v} kilometres long.",
        "inflation_percent": "Inflation ran at {v}% in {y}.",
        "exports_usd": "Exports reached {m} in {y}.",
        "airports": "Airports: {v} ({y})",
        "labor_force": "The labour force numbers {v} million ({y}).",
        "highest_point_m": "The highest point is {n} at {v} m.",
        "urban_percent": "In {y}, {v} percent of the population lived in towns.",
        "independence": "It has been independent since {d}.",
    },
    "de": {
        "population": "Das Land hat {v} Einwohner (Schätzung {y}).",
        "area_km2": "Fläche: {v} km²",
        "coastline_km": "Die Küste ist {v} Kilometer lang.",
        "inflation_percent": "Die Inflationsrate lag {y} bei {v} Prozent.",
        "exports_usd": "Die Ausfuhren erreichten {y} einen Wert von {m}.",
        "airports": "Flughäfen: {v} ({y})",
        "labor_force": "Erwerbspersonen: {v} Mio. ({y})",
        "highest_point_m": "Höchste Erhebung ist {n} mit {v} m.",
        "urban_percent": "{y} lebten {v} % der Bevölkerung in Städten.",
        "independence": "Unabhängig ist das Land seit dem {d}.",
    },
    "fr": {
        "population": "Le pays compte {v} habitants (estimation {y}).",
        "area_km2": "Superficie : {v} km²",
        "coastline_km": "Le littoral s'étend sur {v} kilomètres.",
        "inflation_percent": "L'inflation s'est établie à {v} % en {y}.",
        "exports_usd": "Les exportations ont atteint {m} en {y}.",
        "airports": "Aéroports : {v} ({y})",
        "labor_force": "La population active est de {v} millions de personnes ({y}).",
        "highest_point_m": "Point culminant : {n}, {v} m",
        "urban_percent": "En {y}, {v} pour cent de la population vivait en ville.",
        "independence": "Le pays est indépendant depuis le {d}.",
    },
    "es": {
        "population": "El país tiene {v} habitantes (estimación de {y}).",
        "area_km2": "Superficie: {v} km²",
        "coastline_km": "La costa mide {v} kilómetros.",
        "inflation_percent": "La inflación fue del {v} % en {y}.",
        "exports_usd": "Las exportaciones alcanzaron {m} en {y}.",
        "airports": "Aeropuertos: {v} ({y})",
        "labor_force": "La población activa es de {v} millones de personas ({y}).",
        "highest_point_m": "Punto más alto: {n}, {v} m",
        "urban_percent": "En {y}, el {v} por ciento de la población vivía en ciudades.",
        "independence": "Es independiente desde el {d}.",
    },
    "it": {
        "population": "Il Paese ha {v} abitanti (stima {y}).",
        "area_km2": "Superficie: {v} km²",
        "coastline_km": "La costa è lunga {v} chilometri.",
        "inflation_percent": "Nel {y} l'inflazione è stata del {v}%.",
        "exports_usd": "Nel {y} le esportazioni hanno raggiunto {m}.",
        "airports": "Aeroporti: {v} ({y})",
        "labor_force": "La forza lavoro conta {v} milioni di persone ({y}).",
        "highest_point_m": "Punto più elevato: {n}, {v} m",
        "urban_percent": "Nel {y} il {v} per cento della popolazione viveva in città.",
        "independence": "Indipendenza: {d}",
    },
}
_FACT_RULES: Final = {
    "inflation_percent": "percentage",
    "urban_percent": "percentage",
    "exports_usd": "scale word",
    "labor_force": "scale word",
    "area_km2": "unit word",
    "coastline_km": "unit word",
    "highest_point_m": "unit word",
    "independence": "written date",
}
_FACT_UNITS: Final = {
    "area_km2": "area_sq_miles",
    "coastline_km": "coastline_miles",
    "highest_point_m": "highest_point_ft",
    "exports_usd": "exports_eur",
}
_SCALES: Final = {"million": 1_000_000, "billion": 1_000_000_000, None: 1}


@lru_cache(maxsize=1)
def _atlas() -> dict[str, dict[str, str]]:
    """The facts by label of the countries of `_COUNTRIES`."""
    return {
        country.names[0]: {fact.path: fact.text for fact in reversed(country.facts)}
        for country in factbook.countries()
        if country.names[0] in _COUNTRIES
    }


@dataclass(frozen=True)
class _Fact:
    """A fact of a country: its property and value, its sentence in the page's language, and its line in the Factbook."""

    name: str
    value: Any
    sentence: str
    line: str
    year: int | None


def _facts_of(writer: _Writer, country: str) -> Iterator[_Fact]:
    atlas = _atlas()[country]
    for name, label, form in _FACT_FORMS:
        match = re.match(form, atlas.get(label, ""))
        if match:
            yield _read_fact(writer, country, name, label, match)


def _read_fact(writer: _Writer, country: str, name: str, label: str, match: re.Match[str]) -> _Fact:
    parts = match.groupdict()
    line = f"{country} — {label}: {match.string.rstrip('.')}."
    template = _FACT_SENTENCES[writer.language][name]
    year = int(parts["y"]) if parts.get("y") else None
    if name == "independence":
        day, month, written_year = parts["d"].split()
        when = writer.date(int(written_year), month=_MONTHS["en"].index(month) + 1, day=int(day))
        return _Fact(name, when.day.isoformat(), template.format(d=when.plain), line, year)
    number, scale = Decimal(parts["v"].replace(",", "")), parts.get("scale")
    money = ""
    if name == "exports_usd":
        forms = _MONEY[writer.language]["USD"][scale == "billion"]
        money = writer.random.choice(forms).format(
            n=writer.text(number), t=writer.text(int(number * 1000))
        )
        if scale == "billion" and "{t}" in forms[0] and number * 1000 != int(number * 1000):
            money = forms[-1].format(n=writer.text(number), t="")
    sentence = template.format(v=writer.text(number), y=year, n=parts.get("n"), m=money)
    return _Fact(name, _json(number * _SCALES[scale]), sentence, line, year)


def _factbook_facts(writer: _Writer) -> None:
    """Country pages: one fact is quoted, others of the country stand beside it."""
    country = list(_COUNTRIES)[writer.turn % len(_COUNTRIES)]
    names = dict(zip(LANGUAGES, (country, *_COUNTRIES[country]), strict=True))
    writer.use_usual_notation()
    facts = list(_facts_of(writer, country))
    fact = facts[(writer.turn + writer.turn // len(_COUNTRIES)) % len(facts)]
    is_raw = writer.language == "en" and writer.turn % 2 == 0
    beside = [other.line if is_raw else other.sentence for other in facts if other is not fact]
    quoted = f"[[{fact.line if is_raw else fact.sentence}]]"
    before, *after = writer.random.sample(beside, min(4, len(beside)))
    local = names[writer.language]
    title = (
        f"The World Factbook: {country}"
        if is_raw
        else writer.random.choice((local, f"{local} – {_COUNTRY_SHEET[writer.language]}"))
    )
    page = _Page(title, "", *_unmark("\n".join((title, "", before, quoted, *after))))
    subject = country if writer.turn % 4 == 3 else local
    aliases = (local,) if subject != local else ()
    case = replace(
        writer.case(page, subject, "Country", aliases=aliases),
        id=f"{writer.language}-factbook-{fact.name.split('_')[0]}",
    )
    rule = "alias" if aliases else _FACT_RULES.get(fact.name, "digit grouping")
    writer.true(case, {fact.name: fact.value}, rule, "the title names the country")
    others = (
        dict(zip(LANGUAGES, (other, *more), strict=True))
        for other, more in _COUNTRIES.items()
        if other != country
    )
    _false_fact(
        writer,
        case,
        fact,
        facts,
        writer.random.choice([other[writer.language] for other in others]),
    )


_COUNTRY_SHEET: Final = {
    "en": "country profile", "de": "Länderprofil", "fr": "fiche pays", "es": "ficha de país", "it": "scheda Paese",
}  # fmt: skip


def _false_fact(
    writer: _Writer, case: EvidenceCase, fact: _Fact, facts: list[_Fact], other_country: str
) -> None:
    if fact.name == "independence":
        day = date.fromisoformat(fact.value)
        if writer.turn % 2:
            writer.false(case, {fact.name: day.replace(year=day.year + 1).isoformat()}, "year")
        else:
            writer.false(case, {fact.name: day.replace(day=day.day % 28 + 1).isoformat()}, "date")
        return
    alike = [
        other.value for other in facts if ("percent" in other.name) == ("percent" in fact.name)
    ]
    other_number = writer.random.choice([value for value in alike if not isinstance(value, str)])
    match writer.turn % 6:
        case 0 if fact.name in _FACT_UNITS:
            fault: Fault = "currency" if fact.name == "exports_usd" else "unit"
            writer.false(case, {_FACT_UNITS[fact.name]: fact.value}, fault)
        case 1 if fact.year and fact.year > 2000:
            writer.false(case, {fact.name: fact.value, "as_of_year": fact.year - 1}, "year")
        case 2 if fact.value >= 1000:
            writer.false(case, {fact.name: fact.value * 10}, "scale")
        case 3 if other_number != fact.value:
            writer.false(case, {fact.name: other_number}, "number", "another fact of the country")
        case 4:
            writer.false(
                replace(case, subject=other_country, aliases=()), {fact.name: fact.value}, "subject"
            )
        case _:
            wrong = writer.near(int(Decimal(str(fact.value)) * 10))
            writer.false(
                case,
                {fact.name: _json(Decimal(wrong) / 10)},
                "percentage" if "percent" in fact.name else "number",
            )


# ---- Written by hand: news, company reports, encyclopedia


@dataclass(frozen=True)
class _Claim:
    """A claim of an article: `label` is its rule or its fault, `quotes` the numbers of the marked sentences, or all."""

    label: str
    quotes: tuple[int, ...]
    properties: Properties
    more: Mapping[str, Any]


def _claim(
    label: str, *quotes: int, more: Mapping[str, Any] | None = None, **properties: Any
) -> _Claim:
    return _Claim(label, quotes, properties, more or {})


@dataclass(frozen=True)
class _Article:
    """A page with marked sentences, and what follows from them and what does not."""

    language: str
    topic: str
    title: str
    heading: str
    text: str
    subject: str
    type_name: str
    true: tuple[_Claim, ...]
    false: tuple[_Claim, ...]
    aliases: tuple[str, ...] = ()
    target: str = ""
    """Set if the claims are about an edge."""

    def cases(self) -> Iterator[EvidenceCase]:
        body = "\n".join(
            re.sub(r"[ \n]+", " ", line.strip(" \n")) for line in self.text.strip().split("\n\n")
        )
        page, quotes = _unmark("\n\n".join(filter(None, (self.title, self.heading, body))))
        for claim in self.true + self.false:
            case = EvidenceCase(
                id=f"{self.language}-{self.topic}",
                language=self.language,
                title=self.title,
                heading=self.heading,
                page=page,
                quotes=tuple(quotes[number] for number in claim.quotes) or quotes,
                subject=self.subject,
                properties=claim.properties,
                kind="edge" if self.target else "node",
                type_name=self.type_name,
                target=self.target,
                aliases=self.aliases,
            )
            labels: Properties = (
                {"rule": claim.label} if claim in self.true else {"fault": _fault(claim.label)}
            )
            yield replace(case, **(labels | dict(claim.more)))


def _hand_written() -> list[EvidenceCase]:
    return [case for article in _ARTICLES for case in article.cases()]


_OTHER_ROLE: Final = {"note": "other role"}
_ELSEWHERE: Final = {"note": "elsewhere in the page"}

_ENGLISH: Final = (
    _Article(
        "en", "news-ferry", "Ferry operator Calder Line orders four hybrid ships", "",
        """[[Calder Line said on Thursday it had ordered four hybrid ferries from the Tuzla yard of Sefine Marine for a
        total of £412m, with the first due in the spring of 2027.]] The company carried 3.8 million passengers last year.

        [[Each vessel will take 1,250 passengers and 310 cars, a fifth more than the ships they replace.]] Unions welcomed
        the order but warned that 140 deck jobs were at risk.""",
        "Calder Line", "Company",
        (
            _claim("scale word", 0, order_value_gbp=412_000_000, vessels_ordered=4),
            _claim("digit grouping", 1, passengers_per_vessel=1250, cars_per_vessel=310),
            _claim("free text", summary="Calder Line ordered four hybrid ferries worth £412 million from Sefine Marine."),
        ),
        (
            _claim("currency", 0, order_value_eur=412_000_000),
            _claim("number", 0, passengers_per_year=3_800_000, more=_ELSEWHERE),
            _claim("number", 1, passengers_per_vessel=310, more=_OTHER_ROLE),
            _claim("name", summary="Calder Line ordered four hybrid ferries worth £412 million from Harland Marine."),
        ),
    ),
    _Article(
        "en", "report-semis", "Form 10-K, fiscal year 2024", "Item 1. Business: Quillon Devices, Inc.",
        """[[As of September 28, 2024, we had approximately 11,300 full-time employees, of whom 62% work in research and
        development.]] Our common stock trades under the symbol QLN.

        [[Net sales decreased 4.5% to $2,871.4 million, while gross margin widened by 1.2 percentage points.]]""",
        "Quillon Devices", "Company",
        (
            _claim("heading", 0, employees=11300, employees_as_of="2024-09-28"),
            _claim("scale word", 1, net_sales_usd=2_871_400_000),
            _claim("percentage", 1, net_sales_change_percent=-4.5, more={"note": "a decrease as a negative number"}),
        ),
        (
            _claim("percentage", 1, gross_margin_percent=1.2, more=_OTHER_ROLE),
            _claim("scale", 1, net_sales_usd=2_871_400),
            _claim("date", 0, employees_as_of="2024-09-08"),
        ),
        aliases=("QLN", "Quillon Devices, Inc."),
    ),
    _Article(
        "en", "encyclopedia-bridge", "Forth Bridge", "Construction",
        """[[Designed by John Fowler and Benjamin Baker, the bridge was opened on 4 March 1890 by the Prince of Wales.]]
        [[It is 2,467 metres long and carries the railway between Edinburgh and Fife.]] Some 57 of the workers are known to
        have died. The neighbouring road bridge followed in 1964.""",
        "Forth Bridge", "Structure",
        (
            _claim("title", 0, opened="1890-03-04"),
            _claim("unit word", 1, length_km=2.467),
            _claim("list", 0, designers=["John Fowler", "Benjamin Baker"]),
        ),
        (
            _claim("year", 0, opened="1964-03-04", more=_ELSEWHERE),
            _claim("unit", 1, length_ft=2467),
            _claim("name", 0, designers=["John Fowler", "Benjamin Disraeli"]),
        ),
    ),
    _Article(
        "en", "news-drug", "EMA panel backs Lorvetra", "Biotech",
        """[[The committee did not recommend approval of the 40 mg dose, but backed the 20 mg dose of Lorvetra for adults.]]
        A decision by the Commission is expected by mid-June. [[In the trial of 1,018 patients, relapses fell
        by a third.]]""",
        "Lorvetra", "Drug",
        (
            _claim("unit word", 0, recommended_dose="20 mg"),
            _claim("digit grouping", 1, trial_patients=1018),
            _claim("fraction", 1, relapse_reduction="a third"),
        ),
        (
            _claim("negation", 0, recommended_dose="40 mg", more=_OTHER_ROLE),
            _claim("number", 1, relapse_reduction="a quarter"),
            _claim("invented", 1, approved_on="2025-06-15"),
        ),
    ),
    _Article(
        "en", "news-mine", "Copper: what moved this week", "Ambergate",
        """[[Output at the mine slipped to 81.6 kt in the first half from 90.2 kt a year earlier, the owner said.]]
        [[It still expects between 165,000 and 175,000 tonnes for 2025.]] Shares in Thornbury Metals closed 3% lower.""",
        "Ambergate", "Mine",
        (
            _claim("heading", 0, output_first_half_tonnes=81_600),
            _claim("range", 1, guidance_2025_tonnes_min=165_000, guidance_2025_tonnes_max=175_000),
        ),
        (
            _claim("number", 0, output_first_half_tonnes=90_200, more=_OTHER_ROLE),
            _claim("number", 1, guidance_2025_tonnes=170_000, more={"note": "a number within the range"}),
            _claim("subject", 0, output_first_half_tonnes=81_600, more={"subject": "Thornbury Metals"}),
        ),
    ),
    _Article(
        "en", "news-stake", "Deals", "",
        """[[Brightwater Capital has raised its stake in Penhallow Breweries to 29.9 per cent, just below the level at which
        it would have to bid for the whole.]] [[Sir Alan Tregarth remains chairman of the St Austell company.]]
        Hopkins & Roe,
        which owns 8 per cent, was not asked.""",
        "Brightwater Capital", "owns_share_of",
        (_claim("percentage", 0, share_percent=29.9), _claim("percentage", 0, share=0.299)),
        (
            _claim("percentage", 0, share_percent=30.9),
            _claim("edge_end", 0, share_percent=29.9, more={"target": "Hopkins & Roe"} | _ELSEWHERE),
            _claim("edge_end", 1, more={"note": "neither end is in the quote"}),
        ),
        target="Penhallow Breweries",
    ),
    _Article(
        "en", "report-grid", "Northmoor Grid annual review", "Highlights",
        """[[We connected 2.4 GW of new generation, up from 1,900 MW.]] [[Capital expenditure came to £1.06bn.]]
        [[Nobody was killed at work for the third year running.]] In 2012 the network had 2,024 substations.""",
        "Northmoor Grid", "Company",
        (
            _claim("unit word", 0, connected_mw=2400),
            _claim("scale word", 1, capital_expenditure_gbp=1_060_000_000),
            _claim("number word", 2, fatalities=0, more={"note": "nobody is none"}),
        ),
        (
            _claim("unit", 0, connected_mw=2.4),
            _claim("number", 1, capital_expenditure_gbp=1_600_000_000),
            _claim("number", 0, connected_mw=1900, more=_OTHER_ROLE),
        ),
    ),
    _Article(
        "en", "encyclopedia-person", "Ada Kirsop - encyclopedia entry", "Life",
        """[[Ada Mary Kirsop (12 November 1871 – 3 May 1948) was a Scottish chemist and the first woman to lead the Leith
        Institute.]] [[She published 64 papers, half of them with her husband, Ewan Baird.]] Baird was born in Perth.""",
        "Ada Kirsop", "Person",
        (
            _claim("written date", 0, born="1871-11-12", died="1948-05-03"),
            _claim("title", 1, papers=64, spouse="Ewan Baird"),
        ),
        (
            _claim("date", 0, born="1948-05-03", died="1871-11-12", more=_OTHER_ROLE),
            _claim("name", 0, birthplace="Perth", more=_ELSEWHERE),
            _claim("name", 1, spouse="Ewan Bairstow"),
        ),
    ),
)  # fmt: skip

_GERMAN: Final = (
    _Article(
        "de", "meldung-werk", "Halvestra streicht Stellen in Sachsen", "",
        """[[Der Autozulieferer Halvestra baut bis Ende 2026 rund 1.900 der 6.400 Arbeitsplätze in Zwickau ab.]] Das teilte
        Personalchefin Dr. Ute Wernicke am Montag mit. [[Betriebsbedingte Kündigungen soll es nicht geben.]]

        Der Umsatz hatte im ersten Quartal 1,3 Mrd. Euro betragen.""",
        "Halvestra", "Company",
        (
            _claim("approximation", 0, jobs_cut=1900, location="Zwickau"),
            _claim("free text", 0, summary="Halvestra streicht in Zwickau etwa 1900 von 6400 Stellen."),
            _claim(
                "free text in English", 0,
                summary="Halvestra will cut about 1,900 of 6,400 jobs in Zwickau by the end of 2026.",
            ),
        ),
        (
            _claim("number", 0, jobs_cut=6400, more=_OTHER_ROLE),
            _claim("scale", 0, jobs_cut=1.9),
            _claim("name", 0, summary="Halvestra streicht in Chemnitz etwa 1900 von 6400 Stellen."),
            _claim("negation", 1, layoffs=1900, more={"note": "the quote denies layoffs"}),
        ),
    ),
    _Article(
        "de", "bericht-bank", "Geschäftsbericht 2024 der Alpsteinbank AG", "Ertragslage",
        """[[Der Konzernüberschuss stieg um 12,4 % auf CHF 318,6 Mio.]] [[Die Bilanzsumme erreichte 41,2 Mrd. Franken.]]
        [[Der Verwaltungsrat schlägt eine Dividende von 5.50 Franken je Aktie vor.]]""",
        "Alpsteinbank", "Company",
        (
            _claim("scale word", 0, net_income_chf=318_600_000),
            _claim("scale word", 1, total_assets_chf=41_200_000_000),
            _claim("title", 2, dividend_per_share_chf=5.5),
        ),
        (
            _claim("scale", 1, total_assets_chf=41_200_000),
            _claim("currency", 1, total_assets_eur=41_200_000_000),
            _claim("scale", 2, dividend_per_share_chf=550),
            _claim("percentage", 0, net_income_growth_percent=14.2),
        ),
    ),
    _Article(
        "de", "lexikon-talsperre", "Rappbode-Talsperre", "Technische Daten",
        """[[Die Staumauer ist 106 Meter hoch und 415 Meter lang.]] [[Der Stausee fasst 113 Millionen Kubikmeter Wasser.]]
        [[Eingeweiht wurde die Anlage am 3. Oktober 1959.]] Die Hängeseilbrücke daneben misst 483 Meter.""",
        "Rappbode-Talsperre", "Structure",
        (
            _claim("unit word", 0, height_m=106, length_m=415),
            _claim("scale word", 1, volume_m3=113_000_000),
            _claim("written date", 2, inaugurated="1959-10-03"),
        ),
        (
            _claim("number", 0, height_m=415, more=_OTHER_ROLE),
            _claim("number", 0, length_m=483, more=_ELSEWHERE),
            _claim("date", 2, inaugurated="1959-03-10", more={"note": "day and month swapped"}),
            _claim("unit", 1, volume_litres=113_000_000),
        ),
    ),
    _Article(
        "de", "meldung-uebernahme", "Übernahmen und Beteiligungen", "",
        """[[Die Brenntal Holding übernimmt für 85 Mio. € drei Viertel der Anteile am Softwarehaus Kodiak Systems.]]
        [[Gründerin Mareike Ostheim bleibt Geschäftsführerin der Kodiak Systems GmbH.]] Auch die Firma Lenzing & Söhne hatte
        geboten.""",
        "Brenntal Holding", "owns_share_of",
        (
            _claim("fraction", 0, share=0.75),
            _claim("fraction", 0, share_percent=75, price_eur=85_000_000),
        ),
        (
            _claim("percentage", 0, share_percent=34),
            _claim("edge_end", 0, share=0.75, more={"target": "Lenzing & Söhne"} | _ELSEWHERE),
            _claim("currency", 0, share=0.75, price_usd=85_000_000),
        ),
        target="Kodiak Systems",
    ),
    _Article(
        "de", "meldung-person", "Wechsel an der Spitze der Stadtwerke Emmerau", "Personalien",
        """[[Zum 1. April löst Dr.-Ing. Cornelia Weißgerber den bisherigen Chef Holger Thamm ab.]] [[Die 52-Jährige leitete
        zuletzt die Netze der Nordheide Energie.]] Thamm war seit 2009 im Amt.""",
        "Stadtwerke Emmerau", "Company",
        (
            _claim("title", 0, ceo="Cornelia Weißgerber"),
            _claim("title of a person", 0, new_ceo="Dr.-Ing. Cornelia Weissgerber", more={"note": "ß as ss"}),
        ),
        (
            _claim("name", 0, new_ceo="Holger Thamm", more=_OTHER_ROLE),
            _claim("year", 0, ceo_since=2009, more=_ELSEWHERE),
            _claim("name", 0, new_ceo="Cornelia Weißenburger"),
        ),
    ),
    _Article(
        "de", "meldung-wetter", "Der Winter 1985", "Kälterekorde",
        """[[In Funtensee wurden in jenem Januar minus 37,8 Grad Celsius gemessen.]] [[Auf dem Brocken lagen 2,05 m Schnee.]]
        Die Elbe war 41 Tage lang zugefroren.""",
        "Funtensee", "Place",
        (
            _claim("negative number", 0, temperature_c=-37.8),
            _claim("unit word", 1, snow_cm=205, more={"subject": "Brocken"}),
        ),
        (
            _claim("number", 0, temperature_c=37.8, more={"note": "sign"}),
            _claim("unit", 0, temperature_f=-37.8),
            _claim("subject", 1, snow_cm=205, more={"note": "other role: the quote is about another place"}),
        ),
    ),
    _Article(
        "de", "bericht-chip", "Quartalsmitteilung", "Wafertec SE",
        """[[Im 3. Quartal gingen Bestellungen über 742,0 Mio. Euro ein, nach 688,5 Mio. Euro im Vorquartal.]]
        [[Die Zahl der Beschäftigten lag zum 30.09.2024 bei 4.812.]] [[Für 2025 rechnet der Vorstand mit 3,1
        bis 3,3 Mrd. Euro
        Umsatz.]]""",
        "Wafertec", "Company",
        (
            _claim("heading", 0, orders_eur=742_000_000),
            _claim("digit grouping", 1, employees=4812, as_of="2024-09-30"),
            _claim("range", 2, revenue_forecast="3.1 to 3.3 billion euros"),
        ),
        (
            _claim("number", 0, orders_eur=688_500_000, more=_OTHER_ROLE),
            _claim("scale", 2, revenue_forecast="3.1 to 3.3 million euros"),
            _claim("scale", 1, employees=4.812, more={"note": "separator read as decimal sign"}),
            _claim("year", 1, employees=4812, as_of="2023-09-30"),
        ),
        aliases=("Wafertec SE",),
    ),
    _Article(
        "de", "lexikon-stadt", "Münster (Westfalen)", "Bevölkerung",
        """[[Die Stadt hat etwa 320.000 Einwohner auf 303 Quadratkilometern.]] [[Rund ein Fünftel davon sind Studenten.]]
        In der Region leben 1,6 Millionen Menschen. [[Münsters Partnerstädte sind unter anderem York und Orléans.]]""",
        "Münster", "City",
        (
            _claim("approximation", 0, population=320_000, area_km2=303),
            _claim("fraction", 1, student_share=0.2),
            _claim("list", 2, twin_cities=["York", "Orleans"], more={"note": "an accent is left out"}),
        ),
        (
            _claim("number", 0, population=1_600_000, more=_ELSEWHERE),
            _claim("name", 2, twin_cities=["York", "Rouen"]),
            _claim("number", 1, student_share=0.5),
        ),
    ),
)  # fmt: skip

_FRENCH: Final = (
    _Article(
        "fr", "depeche-train", "Trains de nuit : Noctalys lève des fonds", "",
        """[[La jeune pousse Noctalys a levé 34 M€ auprès de Méridiane Capital et de la Banque des Alpes.]] Fondée en 2021
        par Maud Perrotin, elle exploite deux lignes. [[Le premier train Paris–Turin doit partir le 1er juin 2026.]]""",
        "Noctalys", "Company",
        (
            _claim("scale word", 0, funding_eur=34_000_000),
            _claim("list", 0, investors=["Méridiane Capital", "Banque des Alpes"]),
            _claim("title", 1, first_departure="2026-06-01"),
        ),
        (
            _claim("scale", 0, funding_eur=34_000_000_000),
            _claim("year", 0, founded=2021, more=_ELSEWHERE),
            _claim("date", 1, first_departure="2026-07-01"),
            _claim("name", 0, investors=["Méridiane Capital", "Banque des Landes"]),
        ),
    ),
    _Article(
        "fr", "rapport-groupe", "Document d'enregistrement universel 2024", "Groupe Vauclair",
        f"""[[Le chiffre d'affaires consolidé s'établit à 1{NARROW}284,7 millions d'euros, en recul de 2,1{NBSP}%.]]
        [[L'effectif moyen est de 7{NARROW}930 collaborateurs, dont 41{NBSP}% hors de France.]] [[Le Groupe n'a
        réalisé aucune
        acquisition au cours de l'exercice.]]""",
        "Vauclair", "Company",
        (
            _claim("scale word", 0, revenue_eur=1_284_700_000),
            _claim("digit grouping", 1, average_employees=7930),
            _claim("heading", 2, acquisitions=0, more={"note": "none is zero"}),
        ),
        (
            _claim("number", 0, revenue_eur=1_248_700_000),
            _claim("percentage", 0, revenue_growth_percent=2.1, more={"note": "a decline as growth"}),
            _claim("number", 1, average_employees=41, more=_OTHER_ROLE),
            _claim("negation", 2, acquisitions=1),
        ),
    ),
    _Article(
        "fr", "encyclopedie-barrage", "Barrage de Serre-Ponçon", "Caractéristiques",
        f"""[[Haut de 123,5 mètres, il retient un lac de 28 km².]] [[La retenue peut stocker 1,27 milliard de mètres cubes
        d'eau.]] La mise en eau date de novembre 1959. [[La centrale développe 380{NBSP}MW.]]""",
        "Barrage de Serre-Ponçon", "Structure",
        (
            _claim("title", 0, height_m=123.5, lake_area_km2=28),
            _claim("scale word", 1, volume_m3=1_270_000_000),
            _claim("unit word", 2, capacity_gw=0.38),
        ),
        (
            _claim("scale", 1, volume_m3=1_270_000),
            _claim("unit", 2, annual_output_mwh=380),
            _claim("unit", 0, lake_area_ha=28),
        ),
    ),
    _Article(
        "fr", "depeche-justice", "Affaire Delmas : pas d'appel", "Économie",
        """[[L'avocate Solène Kerbrat a confirmé que la société Delmas Frères ne ferait pas appel du jugement
        du 14 février.]]
        [[L'amende de 2,5 millions d'euros est donc définitive.]] Le procureur, Yann Guézennec, avait requis
        quatre millions.""",
        "Delmas Frères", "Company",
        (
            _claim("boolean", 0, appeals=False),
            _claim("title", 1, fine_eur=2_500_000),
            _claim("free text in English", summary="Delmas Frères will not appeal; its fine of 2.5 million euros is final."),
        ),
        (
            _claim("negation", 0, appeals=True),
            _claim("number", 1, fine_eur=4_000_000, more=_ELSEWHERE),
            _claim("name", 0, lawyer="Yann Guézennec", more=_ELSEWHERE),
        ),
        aliases=("Delmas",),
    ),
    _Article(
        "fr", "depeche-petrole", "Sonagaz relève ses objectifs", "",
        f"""[[Sonagaz compte porter sa production de 320{NBSP}000 à 400{NBSP}000 barils par jour d'ici fin 2028.]]
        [[Le champ d'Ourhaz, exploité à parts égales avec le norvégien Fjordoil, en fournira la moitié.]]""",
        "Sonagaz", "Company",
        (
            _claim("digit grouping", 0, target_barrels_per_day=400_000, target_year=2028),
            _claim("digit grouping", 0, output_barrels_per_day=320_000),
        ),
        (
            _claim("number", 0, output_barrels_per_day=400_000, more=_OTHER_ROLE),
            _claim("unit", 0, target_barrels_per_year=400_000),
            _claim("year", 0, target_barrels_per_day=400_000, target_year=2026),
        ),
    ),
    _Article(
        "fr", "depeche-filiale", "Participations", "",
        """[[Depuis 1998, Aciéries du Rhône est une filiale à 66,7 % de Lorbach, qui emploie aussi 900 personnes à Metz.]]
        La famille Thévenin garde le reste. [[Le groupe belge Zelzate n'est plus actionnaire.]]""",
        "Lorbach", "owns_share_of",
        (
            _claim("percentage", 0, share_percent=66.7, since="1998"),
            _claim("percentage", 0, share=0.667),
        ),
        (
            _claim("year", 0, share_percent=66.7, since="1989"),
            _claim("percentage", 0, share_percent=33.3),
            _claim("edge_end", 0, more={"target": "Zelzate"} | _ELSEWHERE),
            _claim("negation", 1, more={"subject": "Zelzate", "note": "the quote denies the edge; the target is unnamed"}),
        ),
        target="Aciéries du Rhône",
    ),
    _Article(
        "fr", "rapport-chu", "CHU de Valmont – rapport d'activité", "Chiffres clés",
        f"""[[1{NBSP}146 lits et places]] [[Près de 62{NBSP}000 passages aux urgences]] [[3e établissement de la
        région]] [[Taux d'occupation : 87,5{NBSP}%]]""",
        "CHU de Valmont", "Hospital",
        (
            _claim("digit grouping", 0, beds=1146),
            _claim("ordinal", 2, regional_rank=3),
            _claim("percentage", 3, occupancy_rate=0.875),
        ),
        (
            _claim("number", 0, beds=146),
            _claim("number", 2, regional_rank=2),
            _claim("scale", 3, occupancy_rate=8.75),
        ),
    ),
    _Article(
        "fr", "encyclopedie-peintre", "Émile Vasseur (peintre)", "Biographie",
        """[[Né à Arras le 8 mai 1864, le peintre s'installe à Bruges en 1891.]] [[Il y épouse Clara van Damme et peint
        quelque 300 toiles.]] Il meurt à Gand en 1932.""",
        "Émile Vasseur", "Person",
        (
            _claim("title", 0, born="1864-05-08", birthplace="Arras"),
            _claim("approximation", 1, paintings=300, spouse="Clara van Damme"),
            _claim("title", 0, moved_to_bruges=1891, more={"subject": "Emile Vasseur", "note": "an accent is left out"}),
        ),
        (
            _claim("name", 0, birthplace="Bruges", more=_OTHER_ROLE),
            _claim("year", 0, died=1932, more=_ELSEWHERE),
            _claim("year", 0, born="1891-05-08", more=_OTHER_ROLE),
        ),
    ),
)  # fmt: skip

_SPANISH: Final = (
    _Article(
        "es", "noticia-solar", "Heliana pone en marcha su mayor planta solar", "",
        """[[Heliana conectó ayer a la red la planta de Talarrubia, de 590 MW, tras invertir 310 millones de euros.]]
        [[El parque ocupa 1.300 hectáreas y dará luz a un cuarto de millón de hogares.]] La Junta había previsto 2024.""",
        "Heliana", "Company",
        (
            _claim("scale word", 0, investment_eur=310_000_000),
            _claim("several quotes", 0, 1, area_km2=13, more={"subject": "Talarrubia", "type_name": "Facility"}),
            _claim("free text", 0, summary="Heliana ha puesto en marcha la planta de Talarrubia (590 MW)."),
        ),
        (
            _claim("currency", 0, investment_usd=310_000_000),
            _claim("unit", 0, summary="Heliana ha puesto en marcha la planta de Talarrubia (590 GW)."),
            _claim("year", 0, connected=2024, more=_ELSEWHERE),
        ),
    ),
    _Article(
        "es", "informe-banco", "Resultados del tercer trimestre", "Banco Ribera, S.A.",
        """[[El margen de intereses creció un 8,3 % interanual, hasta 1.412 millones de euros.]] [[La ratio de mora bajó
        40 puntos básicos, al 2,9 %.]] [[El Consejo repartirá 0,18 euros por acción el 7 de noviembre de 2025.]]""",
        "Banco Ribera", "Company",
        (
            _claim("scale word", 0, net_interest_income_eur=1_412_000_000),
            _claim("percentage", 1, npl_ratio_percent=2.9),
            _claim("written date", 2, dividend_eur=0.18, dividend_date="2025-11-07"),
        ),
        (
            _claim("scale", 0, net_interest_income_eur=1_412_000),
            _claim("percentage", 1, npl_ratio_percent=40, more=_OTHER_ROLE),
            _claim("date", 2, dividend_eur=0.18, dividend_date="2025-07-11", more={"note": "day and month swapped"}),
        ),
        aliases=("Banco Ribera, S.A.",),
    ),
    _Article(
        "es", "enciclopedia-rio", "Río Duero", "Curso",
        """[[Con 897 km de longitud, es el tercer río más largo de la península ibérica.]] [[Nace en los Picos de Urbión, a
        2.160 metros de altitud, y desemboca en Oporto.]] Su cuenca abarca 98.073 km².""",
        "Río Duero", "River",
        (
            _claim("title", 0, length_km=897, rank=3),
            _claim("unit word", 1, source_elevation_m=2160, mouth="Oporto"),
        ),
        (
            _claim("unit", 0, length_miles=897),
            _claim("number", 0, basin_km2=98_073, more=_ELSEWHERE),
            _claim("name", 1, source="Oporto", more=_OTHER_ROLE),
        ),
    ),
    _Article(
        "es", "noticia-huelga", "Los pilotos de Aeronorte no irán a la huelga", "Transporte",
        """[[El sindicato de los 640 pilotos de Aeronorte desconvocó la huelga prevista para el 23 de diciembre.]]
        [[La aerolínea subirá los sueldos entre un 4 y un 6 por ciento.]] «Es un buen acuerdo», dijo Ainhoa Zubeldia.""",
        "Aeronorte", "Company",
        (
            _claim("same text", 0, pilots=640),
            _claim("range", 1, pay_rise_min_percent=4, pay_rise_max_percent=6),
            _claim(
                "free text in English", 0,
                summary="The strike planned for 23 December by Aeronorte's pilots was called off.",
            ),
        ),
        (
            _claim("negation", 0, strike_date="2024-12-23", more={"note": "called off; the year is not stated either"}),
            _claim("percentage", 1, pay_rise_percent=5, more={"note": "a number within the range"}),
            _claim("name", 0, union_leader="Ainhoa Zubeldia", more=_ELSEWHERE),
        ),
    ),
    _Article(
        "es", "noticia-litio", "Minería en breve", "Salar Blanco",
        """[[La mina producirá 20.000 toneladas de carbonato de litio al año a partir de 2027, según Minera Atacalar.]]
        [[El proyecto costará 1,1 mil millones de dólares, el doble de lo previsto en 2022.]]""",
        "Salar Blanco", "Mine",
        (
            _claim("heading", 0, output_tonnes_per_year=20_000),
            _claim("scale word", 1, cost_usd=1_100_000_000),
            _claim("heading", 0, production_start=2027),
        ),
        (
            _claim("year", 0, production_start=2022, more=_ELSEWHERE),
            _claim("scale", 1, cost_usd=1_100_000),
            _claim("scale", 0, output_tonnes_per_year=20, more={"note": "separator read as decimal sign"}),
        ),
    ),
    _Article(
        "es", "noticia-alianza", "Alianzas", "",
        """[[Desde marzo de 2023, Textil Montcada fabrica en exclusiva los uniformes de Correos del Sur.]]
        [[El contrato vence en 2028 y supone el 12 % de sus ventas.]] Confecciones Llobera perdió el concurso.""",
        "Textil Montcada", "supplies",
        (
            _claim("written date", 0, since="2023-03"),
            _claim("several quotes", 0, 1, since="2023-03", until=2028),
        ),
        (
            _claim("date", 0, since="2023-05"),
            _claim("year", 0, 1, since="2028-03", more=_OTHER_ROLE),
            _claim("subject", 0, more={"subject": "Confecciones Llobera"} | _ELSEWHERE),
        ),
        target="Correos del Sur",
    ),
    _Article(
        "es", "informe-universidad", "Universidad de Almorada en cifras", "Curso 2024/25",
        """[[Estudiantes: 18.745 (grado) y 3.210 (máster y doctorado)]] [[Profesorado: 1.602, el 47 % mujeres]]
        [[Rectora: D.ª Rosario Benavente Lillo]] Fundada en 1973.""",
        "Universidad de Almorada", "University",
        (
            _claim("digit grouping", 0, undergraduates=18_745, postgraduates=3210),
            _claim("title of a person", 2, rector="Rosario Benavente Lillo"),
            _claim("percentage", 1, female_faculty_share=0.47),
        ),
        (
            _claim("number", 0, undergraduates=3210, postgraduates=18_745, more=_OTHER_ROLE),
            _claim("name", 2, rector="Rosario Benavides Lillo"),
            _claim("number", 1, faculty=1620),
        ),
    ),
    _Article(
        "es", "noticia-mexico", "Cementos Anáhuac reporta pérdidas", "",
        """[[Cementos Anáhuac perdió 480 millones de pesos en el segundo trimestre, frente a una ganancia de
        1,215 millones un
        año antes.]] [[Su director, el ingeniero Ramiro Ocampo, no descarta cerrar la planta de Tepeaca.]]""",
        "Cementos Anáhuac", "Company",
        (
            _claim("negative number", 0, net_income_mxn=-480_000_000),
            _claim(
                "digit grouping", 0, net_income_year_before_mxn=1_215_000_000,
                more={"note": "Mexican notation: 1,215 is a thousand"},
            ),
            _claim("title of a person", 1, director="Ramiro Ocampo", more={"note": "the title names the company"}),
        ),
        (
            _claim("number", 0, net_income_mxn=480_000_000, more={"note": "a loss as a profit"}),
            _claim("currency", 0, net_income_usd=-480_000_000),
            _claim("negation", 1, plant_closure_excluded=True),
        ),
    ),
)  # fmt: skip

_ITALIAN: Final = (
    _Article(
        "it", "notizia-cantiere", "Cantieri Savorgnan, commessa da 900 milioni", "",
        """[[Cantieri Savorgnan costruirà tre navi da crociera per Nordisk Cruises: la commessa vale oltre 900 milioni di
        euro.]] [[La prima consegna è prevista nel terzo trimestre del 2028.]] Nello stabilimento di Monfalcone
        lavorano 1.750
        persone.""",
        "Cantieri Savorgnan", "Company",
        (
            _claim("number word", 0, ships_ordered=3, customer="Nordisk Cruises"),
            _claim("quarter", 1, first_delivery="2028-Q3"),
            _claim(
                "free text", 0,
                summary="Cantieri Savorgnan costruirà tre navi per Nordisk Cruises per oltre 900 milioni di euro.",
            ),
        ),
        (
            _claim("number", 0, employees=1750, more=_ELSEWHERE),
            _claim("date", 1, first_delivery="2028-Q2"),
            _claim(
                "number", 0,
                summary="Cantieri Savorgnan costruirà quattro navi per Nordisk Cruises per oltre 900 milioni di euro.",
            ),
        ),
    ),
    _Article(
        "it", "bilancio-alimentare", "Relazione finanziaria annuale 2024", "Molino Tessari S.p.A.",
        """[[I ricavi netti ammontano a 214,6 milioni di euro (+3,8% rispetto al 2023).]] [[L'indebitamento finanziario netto
        scende da 58,1 a 49,7 milioni di euro.]] [[Al 31 dicembre 2024 i dipendenti erano 687.]]""",
        "Molino Tessari", "Company",
        (
            _claim("legal form", 0, revenue_eur=214_600_000),
            _claim("scale word", 1, net_debt_eur=49_700_000),
            _claim("same text", 2, employees=687, as_of="2024-12-31"),
        ),
        (
            _claim("number", 1, net_debt_eur=58_100_000, more=_OTHER_ROLE),
            _claim("scale", 0, revenue_eur=214_600),
            _claim("year", 2, employees=687, as_of="2023-12-31"),
        ),
    ),
    _Article(
        "it", "enciclopedia-lago", "Lago di Bolsena", "Geografia",
        """[[Ha una superficie di 113,5 km² e una profondità massima di 151 metri.]] [[Si trova a 305 m s.l.m.]] Le isole
        Bisentina e Martana sono disabitate. [[Il lago non gela mai.]]""",
        "Lago di Bolsena", "Lake",
        (
            _claim("title", 0, area_km2=113.5, max_depth_m=151),
            _claim("unit word", 1, elevation="305 m"),
        ),
        (
            _claim("number", 0, max_depth_m=305, more=_ELSEWHERE),
            _claim("unit", 0, area_ha=113.5),
            _claim("negation", 2, freezes=True),
        ),
    ),
    _Article(
        "it", "notizia-nomina", "Nomine", "Autostrade Ligustiche",
        """[[Il consiglio ha nominato amministratrice delegata l'ing. Federica Scaglione, che succede a Ugo Bertolazzi.]]
        [[La manager, 48 anni, arriva da Ferrovie Appenniniche.]] Il titolo ha guadagnato l'1,4%.""",
        "Autostrade Ligustiche", "Company",
        (
            _claim("heading", 0, ceo="Federica Scaglione"),
            _claim("heading", 0, former_ceo="Ugo Bertolazzi"),
        ),
        (
            _claim("name", 0, ceo="Ugo Bertolazzi", more=_OTHER_ROLE),
            _claim("name", 0, ceo="Federica Scaglioni"),
            _claim("subject", 0, ceo="Federica Scaglione", more={"subject": "Ferrovie Appenniniche"}),
        ),
    ),
    _Article(
        "it", "notizia-gas", "Energia, il punto", "",
        """[[Il rigassificatore di Porto Sirena tratterà 5 miliardi di metri cubi di gas all'anno, circa un dodicesimo dei
        consumi nazionali.]] [[La nave è lunga 292,5 metri.]] [[Il sindaco, Tullio Bassi, si è detto contrario.]]""",
        "Porto Sirena", "Facility",
        (
            _claim("scale word", 0, capacity_m3_per_year=5_000_000_000),
            _claim("scale word", 0, capacity="5 billion cubic metres per year"),
        ),
        (
            _claim("scale", 0, capacity_m3_per_year=5_000_000),
            _claim("unit", 0, capacity="5 billion cubic feet per year"),
            _claim("number", 0, ship_length_m=292.5, more=_ELSEWHERE),
        ),
    ),
    _Article(
        "it", "notizia-quota", "Finanza", "",
        """[[La famiglia Orsenigo è scesa dal 51 al 38,5% di Filati Brembana, quotata a Milano dal 2006.]] [[Il fondo
        Cinquestelle Equity non ha comprato azioni.]] La banca Passera ha curato il collocamento.""",
        "famiglia Orsenigo", "owns_share_of",
        (
            _claim("percentage", 0, share_percent=38.5),
            _claim("percentage", 0, previous_share_percent=51),
        ),
        (
            _claim("percentage", 0, share_percent=51, more=_OTHER_ROLE),
            _claim("edge_end", 0, share_percent=38.5, more={"target": "banca Passera"} | _ELSEWHERE),
            _claim(
                "negation", 1,
                more={"subject": "Cinquestelle Equity", "note": "the quote denies it; the target is unnamed"},
            ),
        ),
        target="Filati Brembana",
    ),
    _Article(
        "it", "scheda-museo", "Museo del Vetro di Altare", "Informazioni",
        """[[Visitatori nel 2023: 21.460]] [[Apertura al pubblico: 14 aprile 1982]] [[Sale espositive: dodici, su tre piani]]
        Biglietto intero: 7 euro.""",
        "Museo del Vetro", "Museum",
        (
            _claim("digit grouping", 0, visitors_2023=21_460),
            _claim("written date", 1, opened="1982-04-14"),
            _claim("number word", 2, rooms=12, floors=3),
        ),
        (
            _claim("year", 0, visitors=21_460, year=2024),
            _claim("date", 1, opened="1982-08-14"),
            _claim("number", 2, rooms=3, floors=12, more=_OTHER_ROLE),
        ),
    ),
    _Article(
        "it", "notizia-ticino", "Ticino, conti in rosso per la Ferrovia del Generoso", "",
        """[[La Ferrovia del Generoso ha chiuso il 2024 con una perdita di 1,2 milioni di franchi.]] [[I
        passeggeri sono stati
        198'300, il 7 per cento in meno.]] Il direttore Reto Balmelli parla di un'estate piovosa.""",
        "Ferrovia del Generoso", "Company",
        (
            _claim("negative number", 0, net_income_chf=-1_200_000),
            _claim("digit grouping", 1, passengers=198_300),
            _claim("free text in English", 0, summary="The Ferrovia del Generoso lost 1.2 million francs in 2024."),
        ),
        (
            _claim("number", 0, net_income_chf=1_200_000, more={"note": "a loss as a profit"}),
            _claim("currency", 0, net_income_eur=-1_200_000),
            _claim("percentage", 1, passenger_growth_percent=7, more={"note": "a decline as growth"}),
        ),
    ),
)  # fmt: skip

_ARTICLES: Final = _ENGLISH + _GERMAN + _FRENCH + _SPANISH + _ITALIAN


_FAMILIES: Final[tuple[tuple[str, Callable[[_Writer], None], int], ...]] = (
    ("count", _counts, 14),
    ("number-word", _number_words, 6),
    ("loose-number", _loose_numbers, 12),
    ("fraction", _fractions, 5),
    ("money", _money, 16),
    ("money-text", _money_texts, 8),
    ("unit", _units, 26),
    ("percent", _percentages, 11),
    ("date", _dates, 18),
    ("year", _years, 7),
    ("name", _names, 13),
    ("list", _lists, 6),
    ("pronoun", _subjects, 9),
    ("two-subjects", _two_subjects, 6),
    ("rival", _rivals, 4),
    ("text", _free_texts, 20),
    ("edge", _edges, 15),
    ("reversed", _reversed_edges, 3),
    ("several", _several_quotes, 6),
    ("negation", _negations, 10),
    ("invention", _inventions, 7),
    ("state", _states, 4),
    ("code", _codes, 7),
    ("declined", _declined, 5),
    ("plural", _plurals, 3),
    ("exonym", _exonyms, 4),
    ("trillion", _trillions, 4),
    ("country", _factbook_facts, 24),
)
"""Topics, what writes an instance, and the instances of each language; an instance is a true and a false case."""
