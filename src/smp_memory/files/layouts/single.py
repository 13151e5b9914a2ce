"""Layout `single`: one file `{session}.jsonl` for a session; its first line is the session's head.

The head's line has the type `session`; the last such line holds, so that the head can change without a rewrite.
"""

from __future__ import annotations

import json
import os

from smp_memory.files.field_names import FieldNames
from smp_memory.files.json_lines import JsonLines
from smp_memory.files.layouts.jsonl import decode_head, encode_head
from smp_memory.files.layouts.layout import PRIVATE, Layout
from smp_memory.model import ids

TYPE_CHECKING = False
if TYPE_CHECKING:
    from smp_memory.files.codec import Codec
    from smp_memory.files.disk import Disk
    from smp_memory.model.entry import Entry
    from smp_memory.model.session_info import SessionInfo

_ENDING = ".jsonl"
_CODEC = JsonLines()


class SingleLayout(Layout):
    name = "single"
    dialect = FieldNames(
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

    def is_own_file(self, name: str, session: str) -> bool:
        return name == session + _ENDING

    def codec_of(self, file: str) -> Codec:
        return _CODEC

    def encode_info(self, info: SessionInfo) -> bytes:
        head = json.loads(encode_head({"created_at": info.created_text}, info, "context", "agent_ids"))
        return _CODEC.encode({"id": info.id, "type": "session", **head})

    def decode_info(self, data: bytes, session: str) -> SessionInfo:
        """From the fields of the head's line, as JSON."""
        fields = json.loads(data)
        for name in ("id", "type"):
            fields.pop(name, None)
        return decode_head(json.dumps(fields).encode(), session, "context", "agent_ids")
