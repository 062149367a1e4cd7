"""Two ways to use the database that every app shares; SQLite and PostgreSQL behave alike behind them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from django.db import DEFAULT_DB_ALIAS, connection, connections, transaction


@contextmanager
def read_snapshot() -> Iterator[None]:
    """Several reads that see one state and take no write lock.

    `atomic()` is a writer on SQLite (BEGIN IMMEDIATE); here it begins deferred. PostgreSQL gets REPEATABLE READ.
    Nested in another transaction it adds nothing: the outer one rules.
    """
    if connection.in_atomic_block:
        yield
        return
    if connection.vendor == "sqlite":
        with _deferred():
            yield
        return
    with transaction.atomic():
        with connection.cursor() as cursor:
            cursor.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY")
        yield


@contextmanager
def _deferred() -> Iterator[None]:
    connection.ensure_connection()
    wrapper: Any = connections[DEFAULT_DB_ALIAS]  # SQLite's: it alone has a transaction mode
    mode = wrapper.transaction_mode
    wrapper.transaction_mode = "DEFERRED"
    try:
        with transaction.atomic():
            wrapper.transaction_mode = mode
            yield
    finally:
        wrapper.transaction_mode = mode


def next_revision(table: str, row_id: int) -> int:
    """Stamp a commit: `UPDATE table SET rev = rev + 1 RETURNING rev`, which also locks the row until commit."""
    quoted = connection.ops.quote_name(table)
    with connection.cursor() as cursor:
        cursor.execute(f"UPDATE {quoted} SET rev = rev + 1 WHERE id = %s RETURNING rev", [row_id])  # noqa: S608
        row = cursor.fetchone()
    if row is None:
        raise LookupError(f"{table} has no row {row_id}")
    return int(row[0])
