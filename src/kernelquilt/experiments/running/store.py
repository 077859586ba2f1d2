"""The store of finished cells: an SQLite file that several processes may fill.

A cell is the smallest unit of work: one method on one data set in one setting (such as a ratio of
absent views) and one repetition. A row is written when its cell is finished, in one transaction and
in write-ahead mode, so that a process may be killed at any moment: at most the cells in flight are
lost. A row that is there is never changed, only that of a failed cell is removed to try it again;
of two processes that finish the same cell the second writes nothing.

A packed store is the same file, compressed, to be kept beside tables that are made from it. It can
be read, not filled.
"""

import gzip
import json
import os
import sqlite3
import zlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing, contextmanager
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from types import TracebackType
from typing import Any

from kernelquilt.experiments.errors import UserError

_SCHEMA = """
CREATE TABLE IF NOT EXISTS cells (
    key TEXT PRIMARY KEY,
    protocol TEXT NOT NULL,
    study TEXT NOT NULL,
    dataset TEXT NOT NULL,
    setting TEXT NOT NULL,
    repetition INTEGER NOT NULL,
    method TEXT NOT NULL,
    status TEXT NOT NULL,
    message TEXT NOT NULL,
    figures TEXT NOT NULL,
    parameters TEXT NOT NULL,
    seconds REAL NOT NULL,
    n_solves INTEGER,
    gap REAL,
    seed INTEGER NOT NULL,
    versions TEXT NOT NULL
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS sources (
    file TEXT PRIMARY KEY,
    digest TEXT NOT NULL
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS studies (
    protocol TEXT NOT NULL,
    study TEXT NOT NULL,
    definition TEXT NOT NULL,
    PRIMARY KEY (protocol, study)
) WITHOUT ROWID;
"""
PACKED = ".gz"
_APPLICATION = 0x6B71_5354  # tells our files from other databases
_BUSY_SECONDS = 60.0
_JSON_FIELDS = ("figures", "parameters", "versions")


class StoreError(UserError):
    """What went wrong with a store, in one line for the user."""


@dataclass(frozen=True)
class Row:
    """One finished cell.

    Attributes
    ----------
    key : str
        What the cell is, with a digest of all settings that its figures depend on.
    protocol, study, dataset, setting, method : str
        Names; `setting` as text, such as ``"0.3"``.
    repetition : int
    status : {"ok", "impossible", "failed"}
        "impossible" is a method that cannot be fitted here, such as complete samples only where
        there are none.
    message : str
        Why it is not "ok".
    figures : dict of str to float
        Such as ``accuracy``, ``train_seconds``, ``test_seconds``.
    parameters : dict
        What was chosen by cross-validation.
    seconds : float
        Time of the cell.
    n_solves : int or None
        SVM solves, those of the search included.
    gap : float or None
        Relative duality gap of the final fit.
    seed : int
    versions : dict of str to str
        Of Python and the packages that the figures depend on.
    """

    key: str
    protocol: str
    study: str
    dataset: str
    setting: str
    repetition: int
    method: str
    status: str = "ok"
    message: str = ""
    figures: dict[str, float] = field(default_factory=dict)
    parameters: dict[str, Any] = field(default_factory=dict)
    seconds: float = 0.0
    n_solves: int | None = None
    gap: float | None = None
    seed: int = 0
    versions: dict[str, str] = field(default_factory=dict)


_FIELDS = tuple(entry.name for entry in fields(Row))


class Store:
    """Finished cells in an SQLite file.

    Parameters
    ----------
    path : path-like
        The file; it is made if it is not there. One that ends with ``.gz`` is packed.
    create : bool, default=True
        Whether a missing file is made; otherwise it is an error. Packed files are only read.

    Raises
    ------
    StoreError
        If the file cannot be opened or is not a store.
    """

    def __init__(self, path: str | Path, *, create: bool = True) -> None:
        self.path = Path(path)
        if not create and not self.path.is_file():
            raise StoreError(f"there is no store {str(self.path)!r}")
        if not self.path.parent.is_dir():
            raise StoreError(f"there is no directory {str(self.path.parent)!r} for a store")
        if self.path.suffix == PACKED:
            self._unpack(create)
            return
        with self._explained():
            read_only = not create and not os.access(self.path.parent, os.W_OK)
            address = self.path.resolve().as_uri()
            self._connection = sqlite3.connect(
                # SQLite would write beside a store that may change
                f"{address}?mode=ro&immutable=1" if read_only else address,
                timeout=_BUSY_SECONDS,
                isolation_level=None,
                check_same_thread=False,
                uri=True,
            )
            self._check_kind(create)
            if read_only:
                return
            self._connection.execute("PRAGMA journal_mode = WAL")
            self._connection.execute("PRAGMA synchronous = NORMAL")
            self._connection.executescript(_SCHEMA)

    def _unpack(self, create: bool) -> None:
        if create:
            raise StoreError(
                f"store {str(self.path)!r} is packed and can only be read; to fill it, unpack it "
                "first, with gunzip --keep"
            )
        try:
            content = gzip.decompress(self.path.read_bytes())
        except (OSError, EOFError, zlib.error) as error:
            raise StoreError(f"store {str(self.path)!r}: {error}") from error
        with self._explained():
            self._connection = sqlite3.connect(":memory:", isolation_level=None)
            if content:
                self._connection.deserialize(content)
            self._check_kind(create)

    def pack(self, path: Path) -> None:
        """Write a packed copy, the same bytes for the same cells."""
        memory = sqlite3.connect(":memory:", isolation_level=None)
        with self._explained(), closing(memory) as copy:
            self._connection.backup(copy)
            copy.execute("PRAGMA journal_mode = MEMORY")
            copy.execute("VACUUM")
            content = copy.serialize()
        path.write_bytes(gzip.compress(content, mtime=0))

    def add(self, row: Row) -> None:
        """Write a finished cell, unless it is there already."""
        values = asdict(row)
        for name in _JSON_FIELDS:
            values[name] = json.dumps(values[name], sort_keys=True)
        marks = ", ".join("?" * len(_FIELDS))
        with self._explained():
            self._connection.execute(
                f"INSERT OR IGNORE INTO cells ({', '.join(_FIELDS)}) VALUES ({marks})",
                [values[name] for name in _FIELDS],
            )

    def define(
        self,
        protocol: str,
        study: str,
        definition: dict[str, Any],
        join: Callable[[dict[str, Any]], dict[str, Any]] | None = None,
    ) -> None:
        """Write what a study is.

        Parameters
        ----------
        protocol, study : str
        definition : dict
        join : callable, optional
            Returns what to write if there is a definition already, given that one.
        """
        with self._explained(), self._transaction():
            earlier = self.definitions().get((protocol, study))
            if earlier is not None and join is not None:
                definition = join(earlier)
            self._connection.execute(
                "INSERT OR REPLACE INTO studies VALUES (?, ?, ?)",
                [protocol, study, json.dumps(definition, sort_keys=True)],
            )

    def check_source(self, file: str, digest: str) -> None:
        """Refuse a data file that is not the one which the cells of this store are of."""
        with self._explained(), self._transaction():
            found = self._connection.execute(
                "SELECT digest FROM sources WHERE file = ?", [file]
            ).fetchone()
            if found is None:
                self._connection.execute("INSERT INTO sources VALUES (?, ?)", [file, digest])
        if found is not None and found[0] != digest:
            raise StoreError(
                f"store {str(self.path)!r} has cells of another {file}; name another store"
            )

    def definitions(self) -> dict[tuple[str, str], dict[str, Any]]:
        """Return the definitions by protocol and study."""
        with self._explained():
            found = self._connection.execute("SELECT * FROM studies").fetchall()
            return {(protocol, study): json.loads(text) for protocol, study, text in found}

    def finished(self, keys: Iterable[str], *, failed: bool = True) -> set[str]:
        """Return those of the keys that have a row, without failed ones unless `failed`."""
        condition = "" if failed else " AND status != 'failed'"
        with self._explained():
            return {
                key
                for key in keys
                if self._connection.execute(
                    f"SELECT 1 FROM cells WHERE key = ?{condition}", [key]
                ).fetchone()
            }

    def forget_failed(self, keys: Iterable[str]) -> None:
        """Remove those of the rows whose status is "failed"."""
        with self._explained():
            self._connection.executemany(
                "DELETE FROM cells WHERE key = ? AND status = 'failed'", ([key] for key in keys)
            )

    def rows(self, protocol: str | None = None, study: str | None = None) -> list[Row]:
        """Return the rows, in the order of their keys.

        Parameters
        ----------
        protocol, study : str or None, default=None
            Which ones; all if None.

        Returns
        -------
        rows : list of Row
        """
        asked = {"protocol": protocol, "study": study}
        where = [name for name, value in asked.items() if value is not None]
        condition = " WHERE " + " AND ".join(f"{name} = ?" for name in where) if where else ""
        with self._explained():
            found = self._connection.execute(
                f"SELECT {', '.join(_FIELDS)} FROM cells{condition} ORDER BY key",
                [asked[name] for name in where],
            ).fetchall()
            return [_row(values) for values in found]

    def close(self) -> None:
        """Close the file."""
        self._connection.close()

    def __enter__(self) -> "Store":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def _check_kind(self, create: bool) -> None:
        """Mark a new database as ours, and refuse others before anything is written to them."""
        # tables first: another process may just be making the store, and marks it before them
        (n_tables,) = self._connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
        (kind,) = self._connection.execute("PRAGMA application_id").fetchone()
        if kind == _APPLICATION:
            return
        if n_tables or not create:
            self._connection.close()
            raise StoreError(f"{str(self.path)!r} is no store of kq; name another file")
        self._connection.execute(f"PRAGMA application_id = {_APPLICATION}")

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        self._connection.execute("BEGIN IMMEDIATE")
        try:
            yield
        except BaseException:
            self._connection.execute("ROLLBACK")
            raise
        self._connection.execute("COMMIT")

    @contextmanager
    def _explained(self) -> Iterator[None]:
        """Turn errors of SQLite into a `StoreError` that names the file."""
        try:
            yield
        except sqlite3.DatabaseError as error:
            raise StoreError(f"store {str(self.path)!r}: {error}{_remedy(error)}") from error
        except (TypeError, ValueError) as error:
            raise StoreError(
                f"store {str(self.path)!r} is damaged, or was written by a newer version: {error}"
            ) from error


def _remedy(error: sqlite3.DatabaseError) -> str:
    text = str(error)
    if "full" in text:
        return "; free some space and run the same command again, finished cells are kept"
    if "not a database" in text:
        return "; name another file"
    return ""


def _row(values: tuple[Any, ...]) -> Row:
    named = dict(zip(_FIELDS, values, strict=True))
    for name in _JSON_FIELDS:
        named[name] = json.loads(named[name])
    return Row(**named)
