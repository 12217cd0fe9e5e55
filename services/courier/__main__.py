"""`python -m services.courier`"""

from services.courier.app import build
from shared.runtime.process import run

if __name__ == "__main__":
    run("courier", build)
