"""The corpora of a sandbox besides its own, by name."""

import re
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from sandbox.corpus import CorpusError
from sandbox.corpus.registry import AddedCorpus, add_corpus, new_name, read_registry
from shared.agents.fields import CORPUS_NAME
from tests.support.case_files import read_cases

CASES = read_cases(__file__)


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
