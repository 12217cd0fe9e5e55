"""Sentences, cut from text without changing a character of them."""

import re

ABBREVIATION = re.compile(
    r"(?:\b(?:Mr|Mrs|Ms|Dr|Prof|Sr|Jr|St|Mt|Lt|Gen|Col|Sgt|Capt|Gov|Sen|Rep|Hon|Inc|Ltd|Co|Corp|Bros|No|vs|cf|ca"
    r"|approx|est|e\.g|i\.e|etc|Jan|Feb|Mar|Apr|Jun|Jul|Aug|Sept?|Oct|Nov|Dec|U\.S|U\.K|a\.m|p\.m)|\b[A-Z])\.$"
)
END = re.compile(r"[.!?][\"'”’)\]]*\s+(?=[\"'“‘(\[]?[^\W_a-zß-ÿ])")
LIST_MARK = re.compile(r"^\s*(?:[-*+•>]|\d{1,3}[.)]|#{1,6})\s+")
MAX_SENTENCE_CHARS = 320
"""A longer one is cut at its semicolons."""


def sentences(text: str) -> list[str]:
    """Every sentence and heading; a line's end also ends a sentence. Each is a part of `text`, letter by letter."""
    return [part for line in text.splitlines() for part in line_sentences(line)]


def line_sentences(line: str) -> list[str]:
    """The sentences of one line, its list or heading mark left out."""
    line = LIST_MARK.sub("", line).strip()
    return [piece for part in _cut_at_ends(line) for piece in _cut_if_long(part)]


def _cut_at_ends(line: str) -> list[str]:
    parts: list[str] = []
    start = 0
    for end in END.finditer(line):
        piece = line[start : end.end()].rstrip()
        if not ABBREVIATION.search(piece):
            parts.append(piece)
            start = end.end()
    return [part for part in [*parts, line[start:].strip()] if part]


def _cut_if_long(sentence: str) -> list[str]:
    if len(sentence) <= MAX_SENTENCE_CHARS or "; " not in sentence:
        return [sentence]
    pieces = [""]
    for clause in sentence.split("; "):
        if pieces[-1] and len(pieces[-1]) + len(clause) + len("; ") > MAX_SENTENCE_CHARS:
            pieces.append(clause)
        else:
            pieces[-1] = f"{pieces[-1]}; {clause}" if pieces[-1] else clause
    return pieces
