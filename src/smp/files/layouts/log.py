"""Layout `log`: a folder per session with one log `memory.jsonl`, `tombstones.jsonl` for deletions, `metadata.json`."""

from __future__ import annotations

import os

from smp.files.dialect import Dialect
from smp.files.json_lines import JsonLines
from smp.files.layouts.jsonl import decode_head, encode_head
from smp.files.layouts.layout import Layout
from smp.model.entry import DELETE, RESTORE

TYPE_CHECKING = False
if TYPE_CHECKING:
    from smp.files.codec import Codec
    from smp.files.disk import Disk
    from smp.model.entry import Entry
    from smp.model.session_info import SessionInfo

_MEMORY, _TOMBSTONES = "memory.jsonl", "tombstones.jsonl"
_CODEC = JsonLines()


class LogLayout(Layout):
    name = "log"
    sessions = "sessions"
    info_file = "metadata.json"
    dialect = Dialect(
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
