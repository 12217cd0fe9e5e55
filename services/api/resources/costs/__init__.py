"""Costs, daily budgets and calls."""
