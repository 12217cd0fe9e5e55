"""Imported by the forkserver before all else; it acts when imported, as its like do."""

import os

from setproctitle import setproctitle

# The terminal's Ctrl-C and hang-up are the supervisor's to answer; the forkserver ends with it.
os.setpgid(0, 0)
setproctitle("vigil forkserver")
