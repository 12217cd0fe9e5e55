"""`python -m services.concierge`"""

from services.concierge.app import build
from shared.runtime.process import run

if __name__ == "__main__":
    run("concierge", build)
