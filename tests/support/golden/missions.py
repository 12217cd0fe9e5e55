"""Missions whose requests are recorded, each with a corpus for the sandbox."""

import json
import os
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Final

from sandbox.corpus import Document
from tests.support.factories import MISSION as LITHIUM_MISSION
from tests.support.paths import CORPUS
from tests.support.sandbox import battery_corpus

_MODIFIED_AT: Final = datetime(2026, 4, 1, 12, tzinfo=UTC)
"""Modification time of the corpus files: the sandbox takes it for the date of pages that state none."""


@dataclass(frozen=True)
class GoldenMission:
    name: str
    text: str
    documents: Sequence[Document] = ()
    """The corpus. Empty: the files of `CORPUS`."""
    feedback_rounds: int = 0

    def write_corpus(self, folder: Path) -> None:
        """Write the corpus files into `folder`, which must not exist."""
        if self.documents:
            folder.mkdir()
            pages = [
                {
                    "title": document.title,
                    "text": document.text,
                    "url": document.url,
                    "date": str(document.published),
                }
                for document in self.documents
            ]
            (folder / "pages.json").write_text(json.dumps(pages))
        else:
            shutil.copytree(CORPUS, folder)
        seconds = _MODIFIED_AT.timestamp()
        for file in folder.iterdir():
            os.utime(file, (seconds, seconds))


_COCOA_DOCUMENTS: Final = (
    Document(
        "Assini Cocoa: annual report",
        "Assini Cocoa is a cocoa exporter based in Tema, Ghana. Assini Cocoa employs 1,450 people.\n"
        "Assini Cocoa buys its beans from the Sefwi Farmers Union under a contract that ends in 2029.\n"
        "Exports 2025: 61,000 tonnes\nExports 2024: 74,000 tonnes\n"
        "Grindings 2025: 12,000 tonnes\nGrindings 2024: 15,000 tonnes\n"
        "Customers: Lindqvist Chocolate, Brabant Foods",
        "https://cocoa.example/assini",
        date(2026, 2, 11),
    ),
    Document(
        "Brabant Foods: a mill is closed",
        "Brabant Foods, a chocolate maker in Antwerp, said on Friday that it would close its mill in Ghent.\n"
        "The price of cocoa rose 42% in 2025, according to the Cocoa Institute. However, sales of chocolate held up.\n"
        "Brabant Foods depends on Assini Cocoa for most of its beans. Revenue fell 6% to $2.1 billion in 2025.\n"
        "Grindings 2025: 88,000 tonnes\nGrindings 2024: 95,000 tonnes\nSuppliers: Assini Cocoa, Guayas Cocoa",
        "https://cocoa.example/brabant",
        date(2026, 3, 20),
    ),
    Document(
        "Ghana: swollen shoot disease",
        "The swollen shoot disease has reached farms of the Sefwi Farmers Union in western Ghana.\n"
        "The Ghana Cocoa Council said that the harvest fell 17% in 2025. The council wants to replant 40,000 hectares.\n"
        "Harvest 2025: 510,000 tonnes\nHarvest 2024: 614,000 tonnes\n"
        "Exports 2025: 430,000 tonnes\nGrindings 2025: 290,000 tonnes",
        "https://cocoa.example/disease",
        date(2026, 1, 28),
    ),
    Document(
        "Lindqvist Chocolate: new suppliers",
        "Lindqvist Chocolate of Gothenburg signed a contract with Assini Cocoa in May. It also buys from Guayas Cocoa.\n"
        "Guayas Cocoa is a producer in Ecuador. Guayas Cocoa acquired the exporter Manta Shipping for $85 million.\n"
        "Grindings 2025: 31,000 tonnes\nGrindings 2024: 27,000 tonnes\nSuppliers: Assini Cocoa, Guayas Cocoa",
        "https://cocoa.example/lindqvist",
        date(2026, 5, 6),
    ),
)

MISSIONS: Final = (
    GoldenMission("lithium", LITHIUM_MISSION),
    GoldenMission("makers", battery_corpus.MISSION, battery_corpus.DOCUMENTS),
    GoldenMission(
        "cocoa",
        "Watch the grindings, prices and suppliers of cocoa companies",
        _COCOA_DOCUMENTS,
        feedback_rounds=1,
    ),
)
