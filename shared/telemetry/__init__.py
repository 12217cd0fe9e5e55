"""Traces and metrics of the services."""
