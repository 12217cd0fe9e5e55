"""Grounding: whether cited sentences have what is claimed, by rules and without a model. Pure.

`values.py` decides about a node or edge with all its quotes, value by value: `figure_rules.py` about numbers,
`date_rules.py` about dates, `name_rules.py` about names. `passages.py` has what is cited, and the outcomes.
`quantities.py`, `dates.py` and `names.py` read a text, `words.py` knows what words mean; `words.toml` has those that the
Unicode CLDR does not have.
"""
