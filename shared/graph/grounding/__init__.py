"""Grounding: whether cited sentences have what is claimed, by rules and without a model. Pure.

`quotes.py` decides about a node or edge with all its quotes, `values.py` about one write: `figure_rules.py` about numbers,
`date_rules.py` about dates, `name_rules.py` about names. `passages.py` has what is cited, `outcomes.py` the outcomes.
`quantities.py`, `dates.py`, `moments.py` and `names.py` read a text, `units.py` the name of a property; `words.py` knows
what words mean.

`conclusions.py` decides about an analysis or advice: `conclusion_numbers.py` and `arithmetic.py` about its numbers,
`ranks.py` about ranks. `known.py` has what it may take from what it cites, `written.py` what it says.
"""
