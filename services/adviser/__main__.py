"""`python -m services.adviser`"""

from services.adviser.app import build
from shared.runtime.process import run

if __name__ == "__main__":
    run("adviser", build)
