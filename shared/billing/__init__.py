"""Budgets: what a day may cost an agent and the whole installation, kept however many pay at the same time.

`books` reserves before a call is sent and settles by its answer, `caps` decides what a cap lets through, `resting` lets
an agent rest that has used its budget up, `audit` finds where the books do not agree with the calls.
"""
