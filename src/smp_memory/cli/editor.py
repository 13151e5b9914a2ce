"""Edit a memory in the user's editor.

Guarantees: what the user typed is never lost. If it cannot be used, it stays in its file and the message names the command
that continues with it.
"""

from __future__ import annotations

import os
import sys

from smp_memory.cli.invocation import update_fields
from smp_memory.errors import InvalidFormat, InvalidRecord, SMPError, UserError
from smp_memory.files.yaml_list import load_mapping
from smp_memory.files.yaml_text import emit_mapping
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
    """Update a memory with the fields that the user edited, in the editor or in a file kept from an earlier attempt."""
    before = _editable_fields(record)
    path = file or _write_draft(record, before)
    if file is None:
        expected_revision = expected_revision or record.revision  # another process may change it meanwhile
        _run_editor(path)
    try:
        changes = _differences(before, load_mapping(_read(path)))
        after = update_fields(session, record.id, changes, expected_revision) if changes else record
    except ValueError as error:
        raise InvalidFormat(f"{path} is not valid YAML: {error}. {_how_to_continue(record, path)}", path=path) from None
    except SMPError as error:
        message = f"{error.message} {_how_to_continue(record, path)}"
        raise type(error)(message, **{**error.details, "kept": path}) from None
    if file is None:
        os.unlink(path)
    return after


def _editable_fields(record: Record) -> dict[str, Any]:
    if KINDS[record.type].is_turn:
        raise InvalidRecord(f"{record.id}: a turn of a conversation cannot be changed, only deleted.", field="id")
    return {name: value for name, value in record.to_dict().items() if name not in _FIXED}


def _differences(before: dict[str, Any], after: dict[str, Any]) -> dict[str, Any]:
    """The changed fields; removed ones are None. An empty text changes nothing."""
    if not after:
        return {}
    removed = {name: None for name in before if name not in after}
    return removed | {name: value for name, value in after.items() if before.get(name) != value}


def _write_draft(record: Record, fields: dict[str, Any]) -> str:
    """Write the fields as YAML to a new file that only its owner may read."""
    import tempfile

    more = [name for name, field in vars(type(record)).items() if isinstance(field, Field) and name not in fields]
    comment = f"# {record.id}, {record.type} in session {record.session}, revision {record.revision}. Lines like this are ignored.\n"
    comment += "# Delete a field to remove it. An empty file changes nothing.\n"
    comment += f"# Further fields: {', '.join(more)}.\n" if more else ""
    descriptor, path = tempfile.mkstemp(prefix=f"smp-{record.id}-", suffix=".yaml")
    with os.fdopen(descriptor, "wb") as file:
        file.write((comment + "\n" + emit_mapping(fields)).encode())
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
        raise UserError("No editor is configured: set VISUAL or EDITOR, or give FIELD=VALUE. See: smp edit --help")
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


def _how_to_continue(record: Record, path: str) -> str:
    return f"Nothing was changed. Your text is kept; correct it and run: smp edit {record.ref} --from {path}"
