"""The commands, a module for each noun. `cli.app` lists them, and imports a module when one of its commands runs."""
