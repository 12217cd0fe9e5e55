"""`python -m services.analyzer`"""

from services.analyzer.app import build
from shared.runtime.process import run

if __name__ == "__main__":
    run("analyzer", build)
