"""Grounding: whether a claim follows from the sentences that it cites, by rules and without a model. Pure.

`check.py` decides. `quantities.py`, `dates.py` and `names.py` read a text, `units.py` the name of a property; `lexicon.py`
knows what words mean, and `language.py` recognizes the language.
"""
