"""Editing a memory in the person's own editor, without ever losing what they typed."""

from __future__ import annotations

import os
import sys

from smp_memory.cli.commands.write import change
from smp_memory.errors import InvalidFormat, InvalidRecord, SMPError, UserError
from smp_memory.files.yaml_list import load_mapping
from smp_memory.files.yaml_text import mapping_text
from smp_memory.model.record import Field
from smp_memory.model.types import KINDS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from smp_memory.model.record import Record
    from smp_memory.session import SessionMemory

_FIXED = (
    "id",
    "session",
    "type",
    "created",
    "updated",
    "revision",
    "author_kind",
    "access",
    "idempotency_key",
    "deleted",
)


def edit_in_editor(session: SessionMemory, record: Record, file: str | None, expected_revision: int | None) -> Record:
    """Change a memory by what a person makes of its fields, in their editor or in a file they kept."""
    before = _changeable(record)
    path = file or _draft(record, before)
    if file is None:
        expected_revision = expected_revision or record.revision  # somebody may be quicker than a person who types
        _run_editor(path)
    try:
        changes = _differences(before, load_mapping(_read(path)))
        after = change(session, record.id, changes, expected_revision) if changes else record
    except ValueError as error:
        raise InvalidFormat(f"Not readable: {error}. {_kept(record, path)}", path=path) from None
    except SMPError as error:
        raise type(error)(f"{error.message} {_kept(record, path)}", **{**error.details, "kept": path}) from None
    if file is None:
        os.unlink(path)
    return after


def _changeable(record: Record) -> dict[str, Any]:
    if KINDS[record.type].is_turn:
        raise InvalidRecord(f"{record.id}: a turn of a conversation cannot be changed, only deleted.", field="id")
    return {name: value for name, value in record.to_dict().items() if name not in _FIXED}


def _differences(before: dict[str, Any], after: dict[str, Any]) -> dict[str, Any]:
    """What changed; fields that were taken out are None. An empty text changes nothing."""
    if not after:
        return {}
    removed = {name: None for name in before if name not in after}
    return removed | {name: value for name, value in after.items() if before.get(name) != value}


def _draft(record: Record, fields: dict[str, Any]) -> str:
    """A new file with the fields as YAML; only its owner may read it."""
    import tempfile

    more = [name for name, field in vars(type(record)).items() if isinstance(field, Field) and name not in fields]
    head = f"# {record.id}, {record.type} in session {record.session}, revision {record.revision}. Lines like this are ignored.\n"
    head += "# Take a field out to remove it. An empty file changes nothing.\n"
    head += f"# It may also have: {', '.join(more)}.\n" if more else ""
    descriptor, path = tempfile.mkstemp(prefix=f"smp-{record.id}-", suffix=".yaml")
    with os.fdopen(descriptor, "wb") as file:
        file.write((head + "\n" + mapping_text(fields)).encode())
    return path


def _read(path: str) -> bytes:
    try:
        with open(path, "rb") as file:
            return file.read()
    except OSError as error:
        raise UserError(f"Cannot read {path}: {error.strerror}.", path=path) from None


def _run_editor(path: str) -> None:
    import shlex
    import subprocess

    command = os.environ.get("VISUAL") or os.environ.get("EDITOR") or ""
    if not command and not sys.stdin.isatty():
        os.unlink(path)
        raise UserError("There is no editor: set VISUAL or EDITOR, or give FIELD=VALUE. See: smp edit --help")
    words = shlex.split(command) or ["notepad" if os.name == "nt" else "vi"]
    try:
        code = subprocess.call([*words, path])
    except OSError as error:
        os.unlink(path)
        raise UserError(f"Cannot start the editor {words[0]}: {error.strerror}. Set VISUAL or EDITOR.") from None
    if code != 0:
        raise UserError(
            f"The editor {words[0]} failed (exit code {code}); nothing was changed. Your text is kept in {path}"
        )


def _kept(record: Record, path: str) -> str:
    return f"Nothing was changed. Your text is kept; correct it and run: smp edit {record.ref} --from {path}"
