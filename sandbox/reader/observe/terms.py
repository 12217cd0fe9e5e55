"""What the mission names and the graph does not speak of."""

from collections.abc import Iterator

from sandbox.reader.graph_view import GraphView
from sandbox.reader.observe.gap import Gap, plain
from sandbox.text.english import is_acting, listed
from sandbox.text.subject import Subject, names_one
from sandbox.text.words import significant, topic_stems, words

EMPTY = "The graph is still empty"
MAX_CONNECTED = 4
FEW_NODES = 10


def unknown_terms(mission: str, subject: Subject, view: GraphView) -> Iterator[Gap]:
    """What the mission names and no node speaks of. An empty graph lacks it all."""
    known = topic_stems(" ".join(node.text for node in view.nodes))
    lack = "No node that is shown speaks of it" if view.nodes else EMPTY
    for scope in subject.scopes:
        if scope.is_kind and not topic_stems(scope.text) <= known:
            why = f"{lack}, so it is not known whom the mission is about"
            yield Gap(f"Find out which {scope.text} stand out, and for what", why, (scope.text,))
    for topic in subject.topics:
        yield from _unknown_topic(topic, subject, known, lack)
    if not view.nodes:
        yield from _sides(mission, subject)


def _unknown_topic(topic: str, subject: Subject, known: frozenset[str], lack: str) -> Iterator[Gap]:
    """One gap for each scope: several names are several searches."""
    for scope in subject.scopes:
        wanted = topic_stems(topic)
        if not (wanted <= known and (scope.is_kind or topic_stems(scope.text) <= known)):
            asked = subject.within(topic, scope)
            hint = f"{plain(topic)} {scope.text}" if asked != topic else plain(topic)
            yield Gap(f"Find out what is reported about {asked}", lack, (hint,))
    if not subject.scopes and not topic_stems(topic) <= known:
        yield Gap(f"Find out what is reported about {topic}", lack, (plain(topic),))


def _sides(mission: str, subject: Subject) -> Iterator[Gap]:
    """A mission of one term is looked at from more than one side, and two names together."""
    names = [topic for topic in subject.topics if names_one(topic)]
    if len(names) > 1:
        together = listed(names[:MAX_CONNECTED])
        yield Gap(
            f"Find out what connects {together}",
            EMPTY,
            (" ".join(map(plain, names[:MAX_CONNECTED])),),
        )
    if len(subject.topics) == 1 and len(subject.scopes) < 2:
        yield from _facets(subject.topics[0], subject)
    if not subject.topics and mission.strip():
        asked = mission.strip().rstrip(".?!")
        yield Gap(f"Find out what is reported on “{asked}”", EMPTY, (asked,))


def words_alone(subject: Subject, view: GraphView) -> Iterator[Gap]:
    """Wider questions where all was asked and little was found: the words of each term one by one."""
    if not view.lines("recently asked") or len(view.nodes) >= FEW_NODES:
        return
    known = topic_stems(" ".join(node.text for node in view.nodes))
    for term in map(plain, subject.terms()):
        for word in words(term):
            if significant(word) and not topic_stems(word) <= known:
                why = f"Too little was found on “{term}” as a whole, and no node speaks of “{word}”"
                yield Gap(f"Find out what there is on “{word}” alone", why, (word,))


def _facets(topic: str, subject: Subject) -> Iterator[Gap]:
    """Who matters, and how much there is of it."""
    scope = next(iter(subject.scopes), None)
    hint = f"{plain(topic)} {scope.text}" if scope else plain(topic)
    asked = subject.within(topic, scope) if scope else topic
    if names_one(topic):
        yield Gap(f"Find out who the main partners of {topic} are", EMPTY, (f"{hint} partners",))
    elif is_acting(topic):
        objective = f"Find out which {asked} lead, and who their partners are"
        yield Gap(objective, EMPTY, (f"leading {hint}", f"{hint} partners"))
    else:
        objective = f"Find out which companies and countries matter most for {asked}"
        yield Gap(objective, EMPTY, (f"leading {hint}", f"{hint} companies countries"))
    yield Gap(
        f"Find figures on {asked}: size, growth and prices",
        f"{EMPTY}, and without figures nothing can be compared",
        (f"{hint} growth", f"{hint} prices production"),
    )
