"""`python -m services.notifier`"""

from services.notifier.app import build
from shared.runtime.process import run

if __name__ == "__main__":
    run("notifier", build)
