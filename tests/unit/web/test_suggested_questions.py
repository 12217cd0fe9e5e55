"""What an empty conversation suggests to ask."""

from datetime import UTC, datetime
from uuid import uuid4

from services.api.resources.conclusions.model import LatestConclusion
from services.api.resources.conversation.pages import MAX_NAME_CHARS, suggested_questions

NAME = "Zinc desk"
MISSION = "Watch zinc smelters and the power they buy, and find what is new"


def conclusion(word: str, name: str) -> LatestConclusion:
    return LatestConclusion(
        id=uuid4(),
        word=word,
        name=name,
        summary="",
        updated_at=datetime(2026, 1, 1, tzinfo=UTC),
        doubted_since=None,
    )


def test_without_conclusions_they_are_of_the_mission() -> None:
    questions = suggested_questions(NAME, MISSION, [])
    assert questions[0] == "What do you know so far, and how sure are you?"
    assert "What is new about zinc smelters and the power they buy?" in questions


def test_they_begin_with_the_newest_conclusion() -> None:
    advice = suggested_questions(NAME, MISSION, [conclusion("BUY", "Halden Energy")])
    assert advice[0] == "Why do you advise BUY: Halden Energy?"
    analysis = suggested_questions(NAME, MISSION, [conclusion("pattern", "Power is expensive")])
    assert analysis[0] == "What supports your conclusion “Power is expensive”?"
    assert len(set(advice)) == len(advice) == len(analysis) == 4


def test_long_names_are_cut() -> None:
    questions = suggested_questions(NAME, MISSION, [conclusion("BUY", "long\nname " * 100)])
    assert all(
        len(question) < MAX_NAME_CHARS + 40 and "\n" not in question for question in questions
    )


def test_a_mission_without_a_known_verb_is_called_by_the_name_of_the_agent() -> None:
    questions = suggested_questions(NAME, "Which smelters will close?", [])
    assert "What is new about Zinc desk?" in questions
