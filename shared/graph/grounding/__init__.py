"""Grounding: whether a claim follows from the sentences that it cites, by rules and without a model. Pure.

`check.py` decides about an element, with `number_rules.py` for numbers and `text_rules.py` for texts; `evidence.py` does so
for an element with several quotes. `cited.py` has what is claimed and quoted. `quantities.py`, `dates.py` and `names.py`
read a text, `units.py` the name of a property; `lexicon.py` knows what words mean; `language.py` recognizes the language.

`conclusions.py` decides about an analysis or advice: `conclusion_numbers.py` and `arithmetic.py` about its numbers,
`ranks.py` about ranks, `conclusion_names.py` about names. `known.py` has what it may take from what it cites, `written.py`
what it says.
"""
