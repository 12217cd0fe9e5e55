"""Pages: Markdown, plain text and HTML, one document a file."""

from sandbox.corpus.dates import parse_date
from sandbox.corpus.document import Document
from sandbox.corpus.files import SourceFile
from sandbox.corpus.html import parse_html
from sandbox.corpus.markdown import first_heading, plain_lines, split_front_matter, states_fact


def read_markdown(file: SourceFile) -> list[Document]:
    """Title, date and url from the front matter; else the first heading, the file's time and its path."""
    facts, body = split_front_matter(file.text())
    title = facts.get("title") or first_heading(body) or _stem(file)
    published = parse_date(facts.get("date") or facts.get("published")) or file.changed()
    return [Document(title, plain_lines(body), facts.get("url") or file.url(), published)]


def read_text(file: SourceFile) -> list[Document]:
    """Paragraphs are parted by empty lines; lines within one are joined, but for facts on lines of their own."""
    lines: list[str] = []
    open_paragraph = False
    for line in (" ".join(raw.split()) for raw in file.text().splitlines()):
        is_fact = states_fact(line)
        if line and open_paragraph and not is_fact:
            lines[-1] += f" {line}"
        elif line:
            lines.append(line)
        open_paragraph = bool(line) and not is_fact
    text = "\n".join(lines)
    return [Document(_stem(file), text, file.url(), file.changed())]


def read_html(file: SourceFile) -> list[Document]:
    """Title, date and address as the page states them in its head."""
    page = parse_html(file.text())
    return [
        Document(
            page.title or _stem(file),
            page.text,
            page.url or file.url(),
            parse_date(page.published) or file.changed(),
        )
    ]


def _stem(file: SourceFile) -> str:
    return file.path.stem.replace("_", " ").replace("-", " ").strip() or file.path.name
