"""Imported by the forkserver first. It takes effect on import."""

import gc
import os

from setproctitle import setproctitle

# The supervisor handles the terminal's Ctrl-C and hang-up; the forkserver ends with it.
os.setpgid(0, 0)
setproctitle("vigil forkserver")
# Imports create nothing that could be collected before `preload_last`; the collector would take a fifth of their time.
gc.disable()
