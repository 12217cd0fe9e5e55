"""The corpora of a sandbox besides its own, by name."""

import re
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from sandbox.corpus import CorpusError
from sandbox.corpus.registry import add_corpus, name_of, read_registry
from shared.agents.fields import CORPUS_NAME


@pytest.mark.parametrize(
    ("folder", "words"),
    [
        ("/data/Annual Reports 2026", "annual-reports-2026"),
        ("/data/报告", "corpus"),
        ("/", "corpus"),
        ("/data/" + "x" * 200, "x" * 32),
        ("/data/--a__b..", "a-b"),
    ],
)
def test_a_corpus_is_named_after_its_folder(folder: str, words: str) -> None:
    name = name_of(Path(folder))
    assert name.rpartition("-")[0] == words
    assert name == name_of(Path(folder))
    assert re.fullmatch(CORPUS_NAME, name)


def test_folders_of_the_same_name_are_two_corpora(tmp_path: Path) -> None:
    file = tmp_path / "corpora.json"
    assert read_registry(file) == {}
    first, second = (add_corpus(file, Path(f"/{each}/reports")) for each in "ab")
    assert add_corpus(file, Path("/a/reports")) == first
    assert read_registry(file) == {first: Path("/a/reports"), second: Path("/b/reports")}


def test_corpora_that_are_added_at_the_same_time_are_all_kept(tmp_path: Path) -> None:
    file = tmp_path / "corpora.json"
    folders = [Path(f"/data/{number}") for number in range(40)]
    with ThreadPoolExecutor(8) as pool:
        names = list(pool.map(lambda folder: add_corpus(file, folder), folders))
    assert read_registry(file) == dict(zip(names, folders, strict=True))


@pytest.mark.parametrize("content", ["[]", "{", '{"a": 1}', "null", "[" * 100_000])
def test_a_damaged_list_says_what_to_do(tmp_path: Path, content: str) -> None:
    file = tmp_path / "corpora.json"
    file.write_text(content)
    with pytest.raises(CorpusError, match=r"corpora.json cannot be read(?s:.*)delete it"):
        read_registry(file)
    with pytest.raises(CorpusError, match="cannot be read"):
        add_corpus(file, Path("/data"))
    assert file.read_text() == content
