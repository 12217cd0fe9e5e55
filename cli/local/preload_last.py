"""Imported by the forkserver last, after the modules that services share. It takes effect on import."""

import gc

from cli.local.members import build_once

build_once()
# Imported modules are not garbage: if the collector skips them, their memory pages stay shared.
gc.collect()
gc.freeze()
gc.enable()
