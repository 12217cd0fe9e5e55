"""Which installation the command speaks to, and how that is configured."""
