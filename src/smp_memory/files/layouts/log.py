"""Layout `log`: a folder per session with one log `memory.jsonl`, `tombstones.jsonl` for deletions, `metadata.json`."""

from __future__ import annotations

import os

from smp_memory.files.field_names import FieldNames
from smp_memory.files.json_lines import JsonLines
from smp_memory.files.layouts.jsonl import decode_head, encode_head
from smp_memory.files.layouts.layout import Layout
from smp_memory.model.entry import DELETE, RESTORE

TYPE_CHECKING = False
if TYPE_CHECKING:
    from smp_memory.files.codec import Codec
    from smp_memory.files.disk import Disk
    from smp_memory.model.entry import Entry
    from smp_memory.model.session_info import SessionInfo

_MEMORY, _TOMBSTONES = "memory.jsonl", "tombstones.jsonl"
_CODEC = JsonLines()


class LogLayout(Layout):
    name = "log"
    sessions = "sessions"
    info_file = "metadata.json"
    dialect = FieldNames(
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

    def is_own_file(self, name: str, session: str) -> bool:
        return name in (_MEMORY, _TOMBSTONES)

    def codec_of(self, file: str) -> Codec:
        return _CODEC

    def encode_info(self, info: SessionInfo) -> bytes:
        return encode_head({"session_id": info.id, "created_at": info.created_text}, info, "context", "agent_ids")

    def decode_info(self, data: bytes, session: str) -> SessionInfo:
        return decode_head(data, session, "context", "agent_ids")
