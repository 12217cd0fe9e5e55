"""Tests of the web UI: Chromium against a complete installation with the sandbox."""
