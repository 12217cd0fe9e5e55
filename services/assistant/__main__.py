"""`python -m services.assistant`"""

from services.assistant.app import build
from shared.runtime.process import run

if __name__ == "__main__":
    run("assistant", build)
