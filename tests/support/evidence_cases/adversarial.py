"""Cases written by hand to mislead the rules, one JSON object per line of `adversarial.jsonl`."""

import json
from collections.abc import Iterator
from importlib.resources import files
from typing import Final, Literal, NamedTuple

from tests.support.evidence_cases import EvidenceCase

Expected = Literal["true", "refused", "not_supported"]
"""`refused`: false, and the value is not in the quotes. `not_supported`: false, with a value that the quotes have."""


class AdversarialCase(NamedTuple):
    case: EvidenceCase
    expected: Expected


def cases() -> Iterator[AdversarialCase]:
    lines = files(__package__).joinpath("adversarial.jsonl").read_text(encoding="utf-8")
    for number, line in enumerate(lines.splitlines(), 1):
        written = json.loads(line)
        quotes = tuple(written["quotes"])
        language = written["language"]
        yield AdversarialCase(
            EvidenceCase(
                id=f"adversarial-{number}",
                language=language,
                title=written.get("title", ""),
                heading=written.get("heading", ""),
                page=written.get("page", "\n".join([_PAGES[language], *quotes])),
                quotes=quotes,
                subject=written["subject"],
                properties=written["properties"],
                kind="edge" if "target" in written else "node",
                target=written.get("target", ""),
                aliases=tuple(written.get("aliases", ())),
                note=written.get("note", ""),
            ),
            written["expected"],
        )


_PAGES: Final = {
    "en": (
        "The company said that it has been working with its partners for more than a year. Prices "
        "of the products were lower than in the past, and this will not change. It was founded by "
        "two engineers who had been at the institute."
    ),
    "de": (
        "Das Unternehmen teilte mit, dass es seit mehr als einem Jahr mit den Partnern an der "
        "Entwicklung arbeitet. Die Preise für die Produkte sind nicht gestiegen, und das wird auch "
        "so bleiben. Es wurde von zwei Ingenieuren im Süden des Landes gegründet."
    ),
    "fr": (
        "La société a annoncé que les travaux ont été réalisés avec des partenaires depuis plus "
        "d'un an. Les prix des produits ne sont pas en hausse, selon elle, et cela est dans la "
        "ligne de ce qui était prévu pour cette année."
    ),
    "es": (
        "La empresa anunció que los trabajos se han realizado con sus socios desde hace más de un "
        "año. Los precios de los productos no han subido, según el informe, y esto es lo que se "
        "esperaba para este año en el sector."
    ),
    "it": (
        "La società ha annunciato che i lavori sono stati realizzati con dei partner da più di un "
        "anno. I prezzi dei prodotti non sono saliti, secondo il rapporto, ed è quello che si "
        "attendeva per questo anno nel settore della tecnica."
    ),
    "pt": (
        "A empresa anunciou que os trabalhos foram feitos com os parceiros há mais de um ano. Os "
        "preços dos produtos não são mais altos, e isso é o que se esperava para o setor, também "
        "nas regiões do norte."
    ),
    "nl": (
        "Het bedrijf maakte bekend dat het met zijn partners aan de ontwikkeling werkt. De prijzen "
        "van de producten zijn niet gestegen, en dat wordt ook zo verwacht voor het jaar. Het werd "
        "door twee ingenieurs in het zuiden van het land opgericht."
    ),
    "zh": ("该公司表示，已与合作伙伴合作一年多。产品价格没有上涨。"),
    "ja": (
        "同社は、パートナーと1年以上にわたり協力してきたと発表した。製品の価格は上がっていない。"
    ),
    "ru": (
        "Компания сообщила, что более года работает с партнёрами. Цены на продукцию не выросли, и "
        "это соответствует ожиданиям рынка."
    ),
    "pl": (
        "Spółka poinformowała, że od ponad roku współpracuje z partnerami. Ceny produktów nie "
        "wzrosły, a to jest zgodne z oczekiwaniami rynku na ten rok i na kolejne lata."
    ),
    "sv": (
        "Bolaget meddelade att det har arbetat med sina partner i mer än ett år. Priserna på "
        "produkterna har inte stigit, och det är vad som väntades av marknaden för året."
    ),
}
"""A text in each language, by which it is recognized."""
