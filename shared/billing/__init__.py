"""Billing: daily budgets of agents and of the installation, the call ledger, and paid calls that survive a crash.

`reservations` reserves the maximum cost before a call is sent and settles it afterwards. `budgets` has the caps and
suspends agents whose budget is used up. `call_ledger` records the calls. `resumable_call` resumes a call after a crash.
"""
