"""`python -m services.api`"""

from services.api.app import serve

if __name__ == "__main__":
    serve()
