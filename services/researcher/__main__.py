"""`python -m services.researcher`"""

from services.researcher.app import build
from shared.runtime.process import run

if __name__ == "__main__":
    run("researcher", build)
