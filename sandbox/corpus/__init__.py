"""The documents that the sandbox searches: a folder of files, or the CIA World Factbook."""

from sandbox.corpus.document import Corpus, CorpusError, Document, LoadReport
from sandbox.corpus.load import fingerprint, load

__all__ = ["Corpus", "CorpusError", "Document", "LoadReport", "fingerprint", "load"]
