"""Origins: which pages go back to one author. Pure.

Pages of one site have one origin, and so have pages that carry one text, or the line of one news agency. Texts are compared
by a bottom-k sketch of their shingles (A. Broder, "On the resemblance and containment of documents", 1997): the smallest
hashes of all runs of words. Up to the smaller of the two largest hashes, the sketches are random samples of both texts.
"""

import base64
import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from hashlib import blake2b
from itertools import combinations
from typing import Any, Final

from shared.domains import site_of
from shared.graph.provenance.speakers import unify
from shared.tools import Json

ORIGIN_KEY: Final = "origin"
"""Key in the reading of a source, whose value is that of `read_origin`."""
_SHINGLE_WORDS: Final = 4
_SKETCH_SIZE: Final = 64
_HASH_BYTES: Final = 4
_MIN_CONTAINMENT: Final = 0.4
"""Share of the shorter text's shingles from which on two texts are one. Tried on generated texts only."""
_MIN_SHARED: Final = 8
"""Fewer shared shingles can be one quoted sentence."""
_HEAD_CHARS: Final = 600
"""Of a text, in which a dateline or byline names the agency."""
_TAIL_CHARS: Final = 300
_AGENCIES: Final = (
    *("AAP", "AFP", "AGI", "ANI", "ANSA", "APA", "Agência Brasil", "Agência Lusa", "Anadolu", "Associated Press", "AP"),
    *("Belga", "Bernama", "Bloomberg", "CTK", "Dow Jones", "EFE", "Europa Press", "IANS", "Interfax", "KNA", "Kyodo"),
    *("Lusa", "MTI", "NTB", "PA Media", "PAP", "PTI", "Reuters", "Ritzau", "SDA", "SID", "STT", "TASS", "TT", "UPI"),
    *("Xinhua", "Yonhap", "dpa", "dpa-AFX", "epd"),
)  # fmt: skip
_SAME_AGENCY: Final = {"Associated Press": "AP", "dpa-AFX": "dpa", "Agência Lusa": "Lusa"}
_WORD: Final = re.compile(r"\w+")


@dataclass(frozen=True)
class Publication:
    """A page, as far as it tells whose text it carries."""

    url: str
    sketch: frozenset[bytes] = frozenset()
    """The smallest hashes of its shingles; empty for a page of an earlier release."""
    agency: str | None = None

    @classmethod
    def from_json(cls, url: str, value: Any) -> "Publication":
        """From `read_origin`. Of a page of an earlier release, or an edited one, only the site is known."""
        try:
            sketch, agency = base64.b85decode(value["sketch"]), value["agency"]
        except (KeyError, TypeError, ValueError):
            return cls(url)
        starts = range(0, len(sketch), _HASH_BYTES)
        hashes = frozenset(sketch[start : start + _HASH_BYTES] for start in starts)
        return cls(url, hashes, agency if isinstance(agency, str) else None)


@dataclass(frozen=True, order=True)
class Origin:
    """Pages that go back to one author."""

    sites: tuple[str, ...]
    """In alphabetical order."""
    speakers: tuple[str, ...] = ()
    """Speakers whom the pages only quote, in alphabetical order; empty if a page states something itself."""


def read_origin(text: str) -> Json:
    """What is stored with a page, to find out later whether another page carries the same text."""
    words = [word.casefold() for word in _WORD.findall(text)]
    runs = (
        words[start : start + _SHINGLE_WORDS] for start in range(len(words) - _SHINGLE_WORDS + 1)
    )
    hashes = {blake2b(" ".join(run).encode(), digest_size=_HASH_BYTES).digest() for run in runs}
    sketch = b"".join(sorted(hashes)[:_SKETCH_SIZE])
    return {"sketch": base64.b85encode(sketch).decode(), "agency": find_agency(text)}


def find_agency(text: str) -> str | None:
    """The news agency that a dateline, byline or credit of the text names; None if none or several do."""
    parts = (text[:_HEAD_CHARS], text[-_TAIL_CHARS:])
    names = {
        next(filter(None, match.groups())) for part in parts for match in _credit().finditer(part)
    }
    found = {_SAME_AGENCY.get(name, name) for name in names}
    return found.pop() if len(found) == 1 else None


@cache
def _credit() -> re.Pattern[str]:
    names = "|".join(map(re.escape, sorted(_AGENCIES, key=len, reverse=True)))
    return re.compile(
        # "BERLIN (Reuters) -", "Berlin (dpa/lby)", "MADRID, 3 mar (EFE)."
        rf"\(({names})(?:[/ ][^()\n]{{1,20}})?\)\.?(?:\s*[-–—]|\s*$|\s*\n)"
        # "(c) dpa", "Source: AFP", "By The Associated Press"
        rf"|(?:©|\(c\)|\b(?:[Ss]ource|[Qq]uelle|[Ff]uente|[Ff]onte|[Cc]redit|[Aa]gency|[Bb]y)\b:?)"
        rf"\s+(?:[Tt]he\s+)?({names})(?![\w-])"
        # A last line of the name alone.
        rf"|(?:^|\n)\s*({names})\s*$"
    )


def find_origins(publications: Iterable[Publication]) -> Mapping[str, Origin]:
    """The origin of each page, by its address."""
    pages = list(publications)
    root = {page.url: page.url for page in pages}

    def find(url: str) -> str:
        while root[url] != url:
            url = root[url]
        return url

    sites = {page.url: site_of(page.url) for page in pages}
    first_of: dict[tuple[str, str], str] = {}
    for page in pages:
        for key in (("site", sites[page.url]), ("agency", page.agency)):
            if key[1]:
                root[find(page.url)] = find(first_of.setdefault((key[0], key[1]), page.url))
    for one, other in combinations(pages, 2):
        if find(one.url) != find(other.url) and is_one_text(one.sketch, other.sketch):
            root[find(other.url)] = find(one.url)
    of_root: defaultdict[str, set[str]] = defaultdict(set)
    for url in root:
        of_root[find(url)].add(sites[url])
    origins = {each: Origin(tuple(sorted(its_sites))) for each, its_sites in of_root.items()}
    return {url: origins[find(url)] for url in root}


def join_speakers(quoted: Iterable[tuple[Origin, str | None]]) -> Mapping[Origin, Origin]:
    """Origins that only quote one and the same speaker are one. `quoted` has each origin with the speakers that it quotes,
    and with None if it states something itself.
    """
    pairs = set(quoted)
    longest = unify(speaker for _, speaker in pairs if speaker)
    heard: defaultdict[Origin, set[str]] = defaultdict(set)
    for origin, speaker in pairs:
        heard[origin].add(longest[speaker] if speaker else "")
    sites: defaultdict[str, set[str]] = defaultdict(set)
    for origin, names in heard.items():
        if len(names) == 1:
            sites[next(iter(names))].update(origin.sites)
    joined = {}
    for origin, names in heard.items():
        speakers = () if "" in names else tuple(sorted(names))
        together = sites[speakers[0]] if len(speakers) == 1 else origin.sites
        joined[origin] = Origin(tuple(sorted(together)), speakers)
    return joined


def value_origins(quoted: Iterable[tuple[str, Origin, str | None]]) -> list[Origin]:
    """The origins of one value, in order. `quoted` has address, origin and speaker of each quote that says it.

    Where a page quotes a speaker for it, it is theirs, also where the page repeats it without them.
    """
    all_quoted = list(quoted)
    spoken = {url for url, _, speaker in all_quoted if url and speaker}
    pairs = [(origin, said) for url, origin, said in all_quoted if said or url not in spoken]
    return sorted(set(join_speakers(pairs).values()))


def said_by(origins: Sequence[Origin]) -> list[str]:
    """The speakers, if each origin only quotes someone; empty if one states something itself."""
    speakers = [origin.speakers for origin in origins]
    return sorted({each for names in speakers for each in names}) if all(speakers) else []


def sites_of(origins: Iterable[Origin]) -> list[str]:
    """The sites of the origins, in alphabetical order."""
    return sorted({site for origin in origins for site in origin.sites})


def is_one_text(sketch: frozenset[bytes], other: frozenset[bytes]) -> bool:
    """Whether much of the shorter text is in the other one, as the sketches tell."""
    if not sketch or not other:
        return False
    bound = min(_bound(sketch), _bound(other))
    sampled, other_sampled = (
        {each for each in every if each <= bound} for every in (sketch, other)
    )
    shared = len(sampled & other_sampled)
    smaller = min(len(sampled), len(other_sampled))
    return shared >= _MIN_SHARED and shared >= _MIN_CONTAINMENT * smaller


def _bound(sketch: frozenset[bytes]) -> bytes:
    """The hash up to which a sketch is complete."""
    return max(sketch) if len(sketch) == _SKETCH_SIZE else b"\xff" * _HASH_BYTES
