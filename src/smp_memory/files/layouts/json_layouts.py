"""Layouts whose files are JSON lines: `jsonl`, `log` and `single`.

    jsonl    sessions/{session}/manifest.json  conversation.jsonl  decisions.jsonl  findings.jsonl  …  one file per type of memory
    log      sessions/{session}/metadata.json  memory.jsonl  tombstones.jsonl                          one log, deletions beside it
    single   {session}.jsonl                                                                           everything in one file

In `single` the first line is the session's metadata. It has the type `session`; the last such line holds, so that the metadata can
change without a rewrite.
"""

from __future__ import annotations

import json
import os

from smp_memory.files.field_names import FieldNames
from smp_memory.files.json_lines import JsonLines
from smp_memory.files.layouts.layout import (
    PRIVATE,
    Layout,
    build_info,
    context_fields,
    engine_fields,
    pop_checked,
    take_settings,
    without_derived_fields,
)
from smp_memory.model import ids
from smp_memory.model.entry import DELETE, RESTORE
from smp_memory.model.types import KINDS, STEMS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from smp_memory.files.codec import Codec, Fields
    from smp_memory.files.disk import Disk
    from smp_memory.model.entry import Entry
    from smp_memory.model.session_info import SessionInfo

_ENDING = ".jsonl"
_MEMORY, _TOMBSTONES = "memory.jsonl", "tombstones.jsonl"
_CODEC = JsonLines()


class _JsonLinesLayout(Layout):
    def codec_of(self, file: str) -> Codec:
        return _CODEC


class JsonlLayout(_JsonLinesLayout):
    name = "jsonl"
    sessions = "sessions"
    info_file = "manifest.json"
    field_names = FieldNames(
        time="timestamp",
        names={
            "conversation": {"author": "agent_id"},
            "decision": {"author": "made_by"},
            "finding": {"author": "discovered_by", "finding": "description"},
        },
    )

    def file_of(self, entry: Entry, session: str) -> str:
        return KINDS[entry.type].file + _ENDING

    def files(self, disk: Disk, folder: str, session: str) -> list[str]:
        existing = disk.names(folder)  # cheaper than a stat of each
        return [file for stem in STEMS if (file := stem + _ENDING) in existing]

    def is_session_file(self, name: str, session: str) -> bool:
        return self.kind_of(name) is not None

    def kind_of(self, file: str) -> str | None:
        return STEMS.get(file.removesuffix(_ENDING)) if file.endswith(_ENDING) else None

    def encode_info(self, info: SessionInfo) -> bytes:
        return _encode_metadata({"session_id": info.id, "created_at": info.created_text}, info, "metadata", "agent_ids")

    def decode_info(self, data: bytes, session: str) -> SessionInfo:
        return _decode_metadata(data, session, "metadata", "agent_ids")


class LogLayout(_JsonLinesLayout):
    name = "log"
    sessions = "sessions"
    info_file = "metadata.json"
    field_names = FieldNames(
        time="timestamp",
        names={"conversation": {"content": "message"}},
        nest="content",
        outside=("importance", "tags", "references", "relations", "pinned", "idempotency_key"),
        writes_type=True,
        writes_session=True,
    )

    def file_of(self, entry: Entry, session: str) -> str:
        return _TOMBSTONES if entry.op in (DELETE, RESTORE) else _MEMORY

    def files(self, disk: Disk, folder: str, session: str) -> list[str]:
        return [file for file in (_MEMORY, _TOMBSTONES) if disk.exists(os.path.join(folder, file))]

    def is_session_file(self, name: str, session: str) -> bool:
        return name in (_MEMORY, _TOMBSTONES)

    def encode_info(self, info: SessionInfo) -> bytes:
        return _encode_metadata({"session_id": info.id, "created_at": info.created_text}, info, "context", "agent_ids")

    def decode_info(self, data: bytes, session: str) -> SessionInfo:
        return _decode_metadata(data, session, "context", "agent_ids")


class SingleLayout(_JsonLinesLayout):
    name = "single"
    field_names = FieldNames(
        time="ts",
        names={"*": {"author": "by"}, "finding": {"finding": "issue"}},
        nest="data",
        writes_type=True,
    )

    def folder(self, root: str, session: str) -> str:
        return root

    def private(self, root: str, session: str) -> str:
        return os.path.join(root, PRIVATE, session)

    def session_ids(self, disk: Disk, root: str) -> list[str]:
        names = [name[: -len(_ENDING)] for name in disk.names(root) if name.endswith(_ENDING)]
        return [name for name in names if ids.is_valid(name)]

    def exists(self, disk: Disk, root: str, session: str) -> bool:
        return disk.exists(os.path.join(root, session + _ENDING))

    def file_of(self, entry: Entry, session: str) -> str:
        return session + _ENDING

    def files(self, disk: Disk, folder: str, session: str) -> list[str]:
        file = session + _ENDING
        return [file] if disk.exists(os.path.join(folder, file)) else []

    def is_session_file(self, name: str, session: str) -> bool:
        return name == session + _ENDING

    def encode_info(self, info: SessionInfo) -> bytes:
        metadata = json.loads(_encode_metadata({"created_at": info.created_text}, info, "context", "agent_ids"))
        return _CODEC.encode({"id": info.id, "type": "session", **metadata})

    def decode_info(self, data: bytes, session: str) -> SessionInfo:
        """From the fields of the metadata line, as JSON."""
        fields = json.loads(data)
        for name in ("id", "type"):
            fields.pop(name, None)
        return _decode_metadata(json.dumps(fields).encode(), session, "context", "agent_ids")


def _encode_metadata(fields: Fields, info: SessionInfo, context_name: str, agents_name: str) -> bytes:
    fields["user_id"] = info.user
    fields[agents_name] = list(info.agents)
    fields["status"] = info.status
    fields[context_name] = context_fields(info)
    if info.config:
        fields["config"] = info.config
    fields.update(without_derived_fields(info.other))
    fields["smp"] = engine_fields(info)
    return (json.dumps(fields, ensure_ascii=False, indent=2) + "\n").encode()


def _decode_metadata(data: bytes, session: str, context_name: str, agents_name: str) -> SessionInfo:
    fields = json.loads(data.decode("utf-8-sig"))
    if not isinstance(fields, dict):
        raise ValueError("not a JSON object")
    fields.pop("session_id", None)
    created = pop_checked(fields, "created_at", str, None)
    user = pop_checked(fields, "user_id", str, None)
    agents = pop_checked(fields, agents_name, list, [])
    status = pop_checked(fields, "status", str, "active")
    context = pop_checked(fields, context_name, dict, {})
    config = take_settings(fields)
    engine = pop_checked(fields, "smp", dict, {})
    return build_info(session, created, engine, context, fields, user=user, agents=agents, status=status, config=config)
