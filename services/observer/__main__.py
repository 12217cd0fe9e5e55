"""`python -m services.observer`"""

from services.observer.app import build
from shared.runtime.process import run

if __name__ == "__main__":
    run("observer", build)
