"""`python -m services.aggregator`"""

from services.aggregator.app import build
from shared.runtime.process import run

if __name__ == "__main__":
    run("aggregator", build)
