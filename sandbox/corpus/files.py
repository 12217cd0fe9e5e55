"""Reading one file within its limits."""

from dataclasses import dataclass
from datetime import UTC, date, datetime
from pathlib import Path
from urllib.parse import quote

from sandbox.corpus.document import CorpusError

MAX_FILE_BYTES = 20 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class SourceFile:
    """A file of the corpus and the folder that its address is told from."""

    path: Path
    root: Path

    def text(self) -> str:
        """The file as text, a byte order mark taken off; CorpusError where it is too big, unreadable or not UTF-8."""
        try:
            size_bytes = self.path.stat().st_size
            if size_bytes > MAX_FILE_BYTES:
                raise CorpusError(self._too_big(size_bytes))
            return self.path.read_bytes().decode("utf-8-sig")
        except OSError as error:
            raise CorpusError(f"Cannot read {self.path}: {error.strerror}.") from error
        except UnicodeDecodeError as error:
            raise CorpusError(
                f"{self.path} is not UTF-8 text (byte {error.start}). Save it as UTF-8, or take it out."
            ) from error

    def url(self, fragment: str = "") -> str:
        """An address for a document that states none; it does not resolve."""
        relative = quote(self.path.relative_to(self.root).as_posix())
        return f"https://corpus.local/{relative}" + (f"#{fragment}" if fragment else "")

    def changed(self) -> date:
        """The day (UTC) the file was last written."""
        return datetime.fromtimestamp(self.path.stat().st_mtime, UTC).date()

    def _too_big(self, size_bytes: int) -> str:
        return (
            f"{self.path} is {size_bytes / 1024 / 1024:.1f} MB; a document file may have at most "
            f"{MAX_FILE_BYTES // 1024 // 1024} MB. Split it, or take it out of the corpus."
        )
