"""`python -m services.scheduler`"""

from services.scheduler.app import build
from shared.runtime.process import run

if __name__ == "__main__":
    run("scheduler", build)
