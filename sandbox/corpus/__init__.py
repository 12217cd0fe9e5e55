"""The documents that the sandbox searches: a folder of files, or the CIA World Factbook."""

from sandbox.corpus.documents import Corpus, CorpusError, Document, LoadReport, SkippedFile
from sandbox.corpus.loader import fingerprint, load

__all__ = ["Corpus", "CorpusError", "Document", "LoadReport", "SkippedFile", "fingerprint", "load"]
