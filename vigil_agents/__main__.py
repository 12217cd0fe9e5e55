"""The command `vigil`, also as `python -m vigil_agents`."""

from cli.main import main

if __name__ == "__main__":
    main()
