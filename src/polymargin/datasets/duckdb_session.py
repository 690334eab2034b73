"""DuckDB in memory: no extensions, no network, progress while it works, one line when it fails."""

from __future__ import annotations

import re
import threading
from typing import TYPE_CHECKING, Any

from polymargin.exceptions import DataFileError

if TYPE_CHECKING:
    from polymargin.datasets.sources import Source

__all__ = ["Session", "ZstdLines", "quoted_name", "quoted_text"]

_INTERRUPTED = "Query interrupted"  # what DuckDB makes of a signal that ends a query
_POLL_SECONDS = 0.1  # between two looks at the progress of a query


def quoted_text(text: str) -> str:
    """A text as SQL writes it."""
    return "'" + text.replace("'", "''") + "'"


def quoted_name(name: str) -> str:
    """A name of a column or table as SQL writes it."""
    return '"' + name.replace('"', '""') + '"'


def open_database(spill: str) -> Any:
    """A connection to a new database in memory that knows no extensions and no variables."""
    import duckdb

    return duckdb.connect(
        ":memory:",
        config={
            "autoinstall_known_extensions": False,
            "autoload_known_extensions": False,
            "allow_community_extensions": False,
            "python_enable_replacements": False,
            "threads": 1,
            "temp_directory": spill,
        },
    )


class Session:
    """A connection to DuckDB in memory.

    Extensions are neither installed nor loaded, variables of Python are not visible as tables, and
    what does not fit into memory goes to the private folder of the source.  One thread reads: with
    several, rows of several small files came in another order now and then, and the same file must
    give the same model.
    """

    def __init__(self, source: Source) -> None:
        import duckdb

        self.source = source
        self.error: type[Exception] = duckdb.Error
        self.connection = open_database(str(source.folder() / "spill"))

    def __enter__(self) -> Session:
        return self

    def __exit__(self, kind: Any, error: BaseException | None, trace: Any) -> None:
        self.connection.close()
        if kind is RuntimeError and str(error) == _INTERRUPTED:
            raise KeyboardInterrupt from None

    def lock(self) -> None:
        """From now on no file can be opened and no setting changed."""
        self.connection.execute("SET enable_external_access = false")
        self.connection.execute("SET lock_configuration = true")

    def run(self, sql: str) -> Any:
        """Execute a statement and report its progress; the cursor comes back."""
        with _Progress(self):
            return self.connection.execute(sql)

    def columns(self, sql: str) -> list[tuple[str, str]]:
        """(name, type) of the columns of a query or table function."""
        rows = self.connection.execute(f"DESCRIBE {sql}").fetchall()
        return [(str(row[0]), str(row[1])) for row in rows]

    def arrays(self, sql: str) -> dict[str, Any]:
        """The columns of a query as NumPy arrays (masked where values are missing)."""
        with _Progress(self):
            found: dict[str, Any] = self.connection.execute(sql).fetchnumpy()
        return found

    def rows(self, sql: str) -> list[tuple[Any, ...]]:
        """The rows of a small query."""
        return list(self.connection.execute(sql).fetchall())


class _Progress:
    """Reports the share of a running query until it ends."""

    def __init__(self, session: Session) -> None:
        self.session = session
        self.ended = threading.Event()
        self.thread: threading.Thread | None = None

    def __enter__(self) -> None:
        if self.session.source.progress is not None:
            self.thread = threading.Thread(target=self._watch, daemon=True)
            self.thread.start()

    def __exit__(self, kind: Any, *unused: Any) -> None:
        self.ended.set()
        if self.thread is not None:
            self.thread.join()
            if kind is None:
                self._report(100.0)

    def _watch(self) -> None:
        while not self.ended.wait(_POLL_SECONDS):
            share = self.session.connection.query_progress()
            if share > 0:
                self._report(share)

    def _report(self, percent: float) -> None:
        source = self.session.source
        if source.progress is not None and source.size:
            source.progress(int(source.size * percent / 100.0), source.size)


def first_sentence(error: BaseException) -> str:
    """What DuckDB says, without its advice, in one line."""
    text = re.split(r"\n\s*\n|\nLINE |\nPossible|\nCandidate|\s+Try setting ", str(error))[0]
    text = " ".join(text.split())
    return text[:300]


class ZstdLines:
    """The lines of a zstd file as a stream of bytes, where Python itself cannot unpack it."""

    def __init__(self, source: Source) -> None:
        self.source = source
        self.rest = b""
        self.cursor: Any = None

    def read(self, n: int) -> bytes:
        """The next bytes, about as many as asked for; empty at the end."""
        if self.cursor is None:
            self._open()
        while len(self.rest) < n:
            rows = self._fetch()
            if not rows:
                break
            text = "\n".join("" if row[0] is None else row[0] for row in rows)
            self.rest += text.encode() + b"\n"
        data, self.rest = self.rest[:n], self.rest[n:]
        return data

    def _open(self) -> None:
        from polymargin.datasets.sources import LONGEST_LINE

        self.session = Session(self.source)
        path = quoted_text(self.source.packed_file())
        sql = (
            f"SELECT line FROM read_csv([{path}], compression='zstd', auto_detect=false, "
            "header=false, delim='\x1f', quote='', escape='', columns={'line': 'VARCHAR'}, "
            f"max_line_size={LONGEST_LINE}, parallel=false)"
        )
        try:
            self.cursor = self.session.connection.execute(sql)
        except self.session.error as error:
            raise DataFileError(first_sentence(error)) from None

    def close(self) -> None:
        """Close the connection."""
        if self.cursor is not None:
            self.session.connection.close()

    def _fetch(self) -> list[Any]:
        try:
            return list(self.cursor.fetchmany(4096))
        except self.session.error as error:
            raise DataFileError(first_sentence(error)) from None
