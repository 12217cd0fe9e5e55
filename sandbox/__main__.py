"""`python -m sandbox`: run the sandbox in the foreground."""

import argparse
import sys
from pathlib import Path
from pkgutil import resolve_name

from sandbox.app import serve
from sandbox.corpus import CorpusError
from sandbox.settings import DEFAULT_CORPUS, SandboxSettings

CORPUS_UNUSABLE = 2


def main() -> int:
    """Run the server. Exit code 2 if the corpus cannot be used."""
    try:
        arguments = _parser().parse_args()
        serve(_settings(arguments), resolve_name(arguments.handler))
    except CorpusError as error:
        print(f"sandbox: {error}", file=sys.stderr)
        return CORPUS_UNUSABLE
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m sandbox",
        description="A local stand-in for OpenAI and Tavily over HTTP, for a first run without keys and for tests.",
    )
    parser.add_argument(
        "--port", type=int, required=True, help="port to listen on; 0 chooses a free port"
    )
    parser.add_argument("--host", default="127.0.0.1", help="address to listen on")
    parser.add_argument(
        "--corpus", default=DEFAULT_CORPUS, help=f"folder of documents, or {DEFAULT_CORPUS}"
    )
    parser.add_argument(
        "--handler",
        default="sandbox.http.endpoint:CallHandler",
        metavar="MODULE:CLASS",
        help="subclass of CallHandler that answers calls, for tests",
    )
    parser.add_argument(
        "--cache", type=Path, metavar="DIR", help="store built indexes in this directory"
    )
    parser.add_argument(
        "--latency", type=float, default=0.0, metavar="SECONDS", help="delay before each response"
    )
    parser.add_argument(
        "--pace",
        type=float,
        default=0.0,
        metavar="SECONDS",
        help="delay before each chunk of a streamed answer except the first",
    )
    return parser


def _settings(arguments: argparse.Namespace) -> SandboxSettings:
    return SandboxSettings(
        port=arguments.port,
        host=arguments.host,
        corpus=arguments.corpus,
        cache_directory=arguments.cache,
        latency_seconds=arguments.latency,
        pace_seconds=arguments.pace,
    )


if __name__ == "__main__":
    raise SystemExit(main())
