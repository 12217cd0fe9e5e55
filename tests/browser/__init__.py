"""The window, as people have it: Chromium against a whole installation on the sandbox."""
