"""Imported by the forkserver first. It takes effect on import."""

import gc
import os

from setproctitle import setproctitle

# The supervisor handles the terminal's Ctrl-C and hang-up; the forkserver ends with it.
os.setpgid(0, 0)
setproctitle("vigil forkserver")
# Modules are not garbage: until `preload_last` the collector would only make the imports slower.
gc.disable()
