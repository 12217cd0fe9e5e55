"""Backups of the installation on this machine: one file with the whole database, and its restore."""
