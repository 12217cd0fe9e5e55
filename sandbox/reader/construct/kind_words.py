"""Cue words for the kinds of names."""

import re

from sandbox.text.word_set import word_set

ORGANIZATION_WORDS = word_set(
    """
    AB AG Academy Agency Airlines Alliance Army ASA Association Authority Automotive Bank Battalion
    Batteries Battery Board Airways Brothers Bureau Capital Cells Chamber Chemicals Church Co
    Commission Committee Company Congress Consortium Corp Corporation Council Court Department
    Electronics Energy Exchange Federation Force Forces Foundation Fund Gendarmerie GmbH Group Guard Guards Holding Holdings
    Inc Industries Institute Institution Intelligence Investments Laboratories Labs Laboratory
    Limited LLC Ltd Materials Media Metals Minerals Networks Mining Ministry Motors Movement NV Navy
    Organisation Organization Oyj Parliament Partners Party Petroleum PLC Plc Pharma Police Power
    Rail Railways Regiment Resources SA SE Semiconductor Semiconductors Senate Service Society
    Software Solutions SpA Steel Systems Technologies Technology Therapeutics Trucks Trust Union
    University Ventures Works
    Bio Biotech Foods Genomics Insurance Logistics Maritime Pharmaceuticals Robotics Securities
    Shipping Shipyard Shipyards Solar Storage Studios Tankers Telecom Textiles Turbines Wind
    """
)
PLACE_WORDS = word_set(
    """
    Archipelago Basin Bay Beach Bight Bridge Canal Cape Channel City Coast County Dam Delta Desert
    District Field Forest Gulf Harbor Harbour Hill Hills Island Islands Isle Lake Mount Mountain
    Mountains Ocean Park Peninsula Plateau Port Province Region River Sea Site Strait Straits Valley
    Volcano
    """
)
COUNTRY_WORDS = frozenset(
    {"Republic", "Kingdom", "Commonwealth", "Sultanate", "Principality", "Emirate"}
)
COUNTRY_ACRONYMS = frozenset({"DRC", "UAE", "UK", "US", "USA", "USSR"})
ORGANIZATION_VERBS = word_set(
    """
    acquired acquires agreed aims announced announces bought builds built buys closed delivers
    employs expects invested invests launched launches makes mines operates owns plans produced
    produces raised raises refines reported reports runs said says sells shipped ships signed signs
    sold supplied supplies won
    """
)
PEER_WORDS = word_set(
    """
    allies clients competitors customers neighbors neighbours partners peers rivals suppliers
    """
)
"""A subject and what is listed under such a label are alike."""

RELATIONAL_WORDS = word_set(
    """
    analysis basis branches challenges class details developments examples figures forces groups
    hazards highlights issues keys links members names news notes others plans references series
    sources statistics status terms topics weaknesses strengths
    """
)
"""Say what entries are to the subject, not what they are."""

PLACE_HEADS = word_set("Cape Fort Lake Mount Port")
"""Begin names such as Lake Volta."""

_BODIES = (
    "agency|bank|company|developer|firm|group|maker|manufacturer|miner|operator|producer|supplier"
)
ORGANIZATION_IS = re.compile(
    rf"(?:,? is|,) (?:a|an|the|one of) [^.,;]{{0,60}}\b(?:{_BODIES})s?\b"
    r"|['’]s (?:board|chair\w*|chief|customers|profit|revenue|shares)\b",
    re.IGNORECASE,
)
ORGANIZATION_SUBJECT = re.compile(rf"The (?:\w+ ){{0,2}}(?:{_BODIES})\b")
"""How a sentence begins that speaks of its source's subject as a body of people."""

NATION_CUE = re.compile(
    r"\b(?:republic|kingdom|government|economy|people|capital|president|state|nation|country) of(?: the)?$",
    re.IGNORECASE,
)
PERSON_ROLE = re.compile(
    r"^, (?:the |its |their |who |a |an )?(?:[\w-]+ ){0,4}(?:chief executive|CEO|CFO|founder|co-founder|chairman|"
    r"chairwoman|director|president|minister|analyst|professor|head|spokesman|spokeswoman|manager)\b",
    re.IGNORECASE,
)
ROLE_BEFORE = re.compile(
    r"\b(?:chief executive|CEO|CFO|founder|chairman|chairwoman|director|president|minister|analyst|professor|"
    r"spokesman|spokeswoman|manager|chancellor|governor|leader),?$",
    re.IGNORECASE,
)
STATE_LABEL = re.compile(
    r"(?:area|birth rate|border|budget|capital|climate|coal|coastline|country|economic|electricity|energy|exports|gdp|"
    r"gni|government|imports|independence|inflation|land boundaries|languages|life expectancy|median age|merchant|"
    r"military|natural|petroleum|population|public debt|real gdp|religions|unemployment)\b",
    re.IGNORECASE,
)
"""How lists of facts on states begin."""

COUNTRY_IS = re.compile(
    r"(?:['’]s (?:economy|government|parliament|president|gdp|population)\b|,? is (?:a|an|one of)\b[^.]{0,80}\b"
    r"(?:country|nation|republic|monarchy|archipelago)\b)",
    re.IGNORECASE,
)
