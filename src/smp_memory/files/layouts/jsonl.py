"""Layout `jsonl`: a folder per session, a `.jsonl` file per type of memory, `manifest.json` for the head."""

from __future__ import annotations

import json

from smp_memory.files.field_names import FieldNames
from smp_memory.files.json_lines import JsonLines
from smp_memory.files.layouts.layout import (
    Layout,
    build_info,
    context_fields,
    engine_fields,
    own_settings,
    take,
    without_figures,
)
from smp_memory.model.types import KINDS, STEMS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from smp_memory.files.codec import Codec, Fields
    from smp_memory.files.disk import Disk
    from smp_memory.model.entry import Entry
    from smp_memory.model.session_info import SessionInfo

_ENDING = ".jsonl"
_CODEC = JsonLines()


class JsonlLayout(Layout):
    name = "jsonl"
    sessions = "sessions"
    info_file = "manifest.json"
    dialect = FieldNames(
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
        there = disk.names(folder)  # cheaper than to ask for each
        return [file for stem in STEMS if (file := stem + _ENDING) in there]

    def is_own_file(self, name: str, session: str) -> bool:
        return self.kind_of(name) is not None

    def codec_of(self, file: str) -> Codec:
        return _CODEC

    def kind_of(self, file: str) -> str | None:
        return STEMS.get(file.removesuffix(_ENDING)) if file.endswith(_ENDING) else None

    def encode_info(self, info: SessionInfo) -> bytes:
        return encode_head({"session_id": info.id, "created_at": info.created_text}, info, "metadata", "agent_ids")

    def decode_info(self, data: bytes, session: str) -> SessionInfo:
        return decode_head(data, session, "metadata", "agent_ids")


def encode_head(fields: Fields, info: SessionInfo, context_name: str, agents_name: str) -> bytes:
    fields["user_id"] = info.user
    fields[agents_name] = list(info.agents)
    fields["status"] = info.status
    fields[context_name] = context_fields(info)
    if info.config:
        fields["config"] = info.config
    fields.update(without_figures(info.other))
    fields["smp"] = engine_fields(info)
    return (json.dumps(fields, ensure_ascii=False, indent=2) + "\n").encode()


def decode_head(data: bytes, session: str, context_name: str, agents_name: str) -> SessionInfo:
    fields = json.loads(data.decode("utf-8-sig"))
    if not isinstance(fields, dict):
        raise ValueError("not a JSON object")
    fields.pop("session_id", None)
    created = take(fields, "created_at", str, None)
    user = take(fields, "user_id", str, None)
    agents = take(fields, agents_name, list, [])
    status = take(fields, "status", str, "active")
    context = take(fields, context_name, dict, {})
    config = own_settings(fields)
    engine = take(fields, "smp", dict, {})
    return build_info(session, created, engine, context, fields, user=user, agents=agents, status=status, config=config)
