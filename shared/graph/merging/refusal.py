"""Why two nodes are not merged, or a merge is not undone."""

from shared.errors import VigilError


class MergeRefusedError(VigilError):
    """What there is speaks against it; the message says what, and what to do instead."""
