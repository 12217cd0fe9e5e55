"""The state of the installation, for operators."""
