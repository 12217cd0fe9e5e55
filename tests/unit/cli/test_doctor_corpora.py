"""`vigil doctor` looks at the folders that agents search."""

from pathlib import Path

import pytest

from cli.doctor import check_agent_corpora
from cli.findings import Verdict
from cli.local.data_directory import DataDirectory
from sandbox.corpus.registry import add_corpus
from tests.support.responses import agent


@pytest.fixture
def directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> DataDirectory:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    directory = DataDirectory(tmp_path / "data")
    directory.create()
    return directory


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "reports"
    folder.mkdir()
    (folder / "gold.md").write_text("# Gold\n\nGold is what Ghana exports.")
    return folder


def test_without_agents_of_their_own_corpus_there_is_nothing_to_say(
    directory: DataDirectory, folder: Path
) -> None:
    add_corpus(directory.corpora_file, folder, "anyone")  # of an agent that was deleted
    assert list(check_agent_corpora(directory, [agent("Gold"), agent("Zinc")])) == []


def test_a_folder_is_named_with_its_agents(directory: DataDirectory, folder: Path) -> None:
    corpus = add_corpus(directory.corpora_file, folder, "anyone")
    agents = [agent("Gold", corpus=corpus), agent("Zinc"), agent("Tin", corpus=corpus)]
    (finding,) = check_agent_corpora(directory, agents)
    assert (finding.name, finding.verdict) == ("corpus", Verdict.GOOD)
    assert finding.message == f"{folder}: 1 document, searched by Gold, Tin"


def test_a_folder_that_no_longer_exists_is_a_problem(
    directory: DataDirectory, folder: Path, tmp_path: Path
) -> None:
    corpus = add_corpus(directory.corpora_file, folder, "anyone")
    other = add_corpus(directory.corpora_file, tmp_path / "never-there", "anyone")
    folder.rename(tmp_path / "elsewhere")
    agents = [agent("Gold", corpus=corpus), agent("Zinc", corpus=other)]
    findings = list(check_agent_corpora(directory, agents))
    assert [finding.verdict for finding in findings] == [Verdict.BAD, Verdict.BAD]
    for finding, path, name in zip(
        findings, (folder, tmp_path / "never-there"), ("Gold", "Zinc"), strict=True
    ):
        assert str(path) in finding.message
        assert finding.message.endswith(f"searched by {name}")
        assert finding.fix == f"put the documents back into {path}"


def test_a_corpus_that_is_not_in_the_list_is_a_problem(directory: DataDirectory) -> None:
    (finding,) = check_agent_corpora(directory, [agent("Gold", corpus="reports-1234abcd")])
    assert finding.verdict is Verdict.BAD
    assert finding.message == (
        "the folder of reports-1234abcd, which Gold searches, is not in the list of corpora"
    )
    assert finding.fix


def test_a_damaged_list_is_a_problem(directory: DataDirectory) -> None:
    directory.corpora_file.write_text("{")
    (finding,) = check_agent_corpora(directory, [agent("Gold", corpus="reports-1234abcd")])
    assert finding.verdict is Verdict.BAD
    assert "cannot be read" in finding.message
    assert finding.fix == f"repair {directory.corpora_file}"
