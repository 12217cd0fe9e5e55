"""Markdown to plain lines: a paragraph, heading or list item a line, without its marks."""

import re

from sandbox.text.labels import parse_label

MAX_FACT_LABEL_WORDS = 5

HEADING = re.compile(r"^#{1,6}\s+(.+?)\s*#*$", re.MULTILINE)
FRONT_MATTER = re.compile(r"\A---\s*\n(.*?)\n---\s*(?:\n|\Z)", re.DOTALL)
FACT = re.compile(r"^(\w+)\s*:\s*(.+?)\s*$", re.MULTILINE)
BLOCK_MARK = re.compile(r"^\s*(?:#{1,6}|[-*+]|\d{1,3}[.)]|>)\s+")
RULE = re.compile(r"^\s*(?:[-*_=]\s*){3,}$|^\s*\|?[\s:|-]+\|[\s:|-]*$")
FENCE = re.compile(r"^\s*(?:```|~~~)")
LINK = re.compile(r"!?\[([^\]]{0,300})\]\([^)\s]{0,2000}(?:\s+\"[^\"]{0,300}\")?\)")
EMPHASIS = re.compile(r"(\*\*|__|\*|`)(?=\S)(.{1,300}?)(?<=\S)\1")


def split_front_matter(text: str) -> tuple[dict[str, str], str]:
    """The `key: value` lines between leading `---` marks (keys in lower case), and the rest."""
    text = text.replace("\r\n", "\n")
    match = FRONT_MATTER.match(text)
    if not match:
        return {}, text
    facts = {key.lower(): value.strip("\"'") for key, value in FACT.findall(match.group(1))}
    return facts, text[match.end() :]


def first_heading(text: str) -> str | None:
    """The text of the first heading of any level."""
    match = HEADING.search(text)
    return _without_marks(match.group(1)) if match else None


def plain_lines(text: str) -> str:
    """Hard-wrapped lines of one paragraph become one line, so that a sentence is never cut by a line's end."""
    lines: list[str] = []
    open_paragraph = False
    for line in text.replace("\r\n", "\n").split("\n"):
        if not line.strip() or RULE.match(line) or FENCE.match(line):
            open_paragraph = False
            continue
        marked = BLOCK_MARK.match(line) is not None or line.lstrip().startswith("|")
        content = " ".join(_without_marks(BLOCK_MARK.sub("", line)).split())
        is_fact = states_fact(content)
        if open_paragraph and not marked and not is_fact:
            lines[-1] += " " + content
        else:
            lines.append(content)
        open_paragraph = not HEADING.match(line) and not is_fact
    return "\n".join(lines)


def states_fact(line: str) -> bool:
    """A line such as `Capacity 2025: 12 GWh` stands alone, also where no blank line parts it from others."""
    fact = parse_label(line) if line[:1].isupper() else None
    return fact is not None and len(fact.label.split()) <= MAX_FACT_LABEL_WORDS


def _without_marks(line: str) -> str:
    return EMPHASIS.sub(r"\2", LINK.sub(r"\1", line)).strip().strip("|")
