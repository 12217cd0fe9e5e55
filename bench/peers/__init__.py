"""The reference iteration in LangGraph, in DBOS and by hand, beside Vigil: the same calls, engine and run.

The programs of the peers (`by_hand`, `with_dbos`, `with_langgraph`) run in an environment of their own, without Vigil.
"""
