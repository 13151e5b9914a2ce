"""Summaries and deletion records of other programs that stand alone: SMP keeps them, they have no effect, and `doctor` names them.

archived/{id}/summary.yaml without an archive     002, 003
deleted/{id}/deletion-record.yaml                 002, 003, unless it is that of a whole session (`Shelf.packed_in`)
"""

from __future__ import annotations

import os
from typing import NamedTuple

from smp.model import ids
from smp.store import away_places

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from smp.files.disk import Disk

_RECORD = "deletion-record.yaml"


class Foreign(NamedTuple):
    session: str
    path: str
    message: str
    advice: str


def foreign_summary(disk: Disk, root: str, session: str) -> str | None:
    """The summary of a session that another program archived without its memories; None if there is none."""
    pair = away_places.pairs(root, "markdown", session)[0]
    alone = disk.exists(pair.summary) and not disk.exists(pair.archive)
    return pair.summary if alone and not away_places.is_own_summary(away_places.read(disk, pair.summary)) else None


def foreign_files(disk: Disk, root: str) -> list[Foreign]:
    """All summaries and deletion records of other programs that stand alone."""
    return [*_summaries(disk, root), *_deletions(disk, root)]


def _summaries(disk: Disk, root: str) -> Iterator[Foreign]:
    for session in disk.folders(os.path.join(root, away_places.FORMS["markdown"].folder)):
        path = foreign_summary(disk, root, session) if ids.is_valid(session) else None
        if path is not None:
            message = (
                f"Another program archived {session} and left only a summary; the memories themselves are not there."
            )
            yield Foreign(session, path, message, "Nothing needs to be done; the summary is kept.")


def _deletions(disk: Disk, root: str) -> Iterator[Foreign]:
    for session in disk.folders(os.path.join(root, "deleted")):
        path = os.path.join(root, "deleted", session, _RECORD)
        if not ids.is_valid(session) or not disk.exists(path):
            continue
        said = away_places.read(disk, path).get("deletion")
        items = said.get("deleted_items") if isinstance(said, dict) else None
        if isinstance(said, dict) and ("state" in said or not items):
            continue  # of a whole session
        found = [str(item["id"]) for item in items or () if isinstance(item, dict) and item.get("id")]
        named = ", ".join(found) or "nothing that can be read"
        message = f"Another program deleted memories of {session}: {named}. The record is kept and has no effect."
        yield Foreign(
            session, path, message, f"smp delete --session {session} ID hides one that is still in the session."
        )
