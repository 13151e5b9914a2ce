"""The interface of a layout, which says which file holds what, and the layouts whose files are JSON lines: `jsonl`, `log`, `single`.

    jsonl    sessions/{session}/manifest.json  conversation.jsonl  decisions.jsonl  findings.jsonl  …  one file per type of memory
    log      sessions/{session}/metadata.json  memory.jsonl  tombstones.jsonl                          one log, deletions beside it
    single   {session}.jsonl                                                                           everything in one file

In `single` the first line is the session's metadata. It has the type `session`; the last such line holds, so that the metadata can
change without a rewrite. Every line but deletions has `data`, `priority` and `access`, because programs of design 000 read them.

The engine knows nothing else about folders and file names. A fifth layout is written by deriving from `Layout` with a name, field names,
the file of an entry and the codec of that file; then it is registered in `smp_memory.files.layouts`. No engine code is touched.
"""

from __future__ import annotations

import json
import os
from codecs import BOM_UTF8
from stat import S_ISDIR

from smp_memory.config.sources import CONVERTING
from smp_memory.errors import InvalidFormat
from smp_memory.files.codec import JsonLines
from smp_memory.files.entry_fields import FieldNames, fold_entries
from smp_memory.model import ids
from smp_memory.model.entry import DELETE, LARGEST_NUMBER, PUT, RESTORE
from smp_memory.model.session_info import SessionFigures, SessionInfo
from smp_memory.model.times import parse
from smp_memory.model.types import KINDS, STEMS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from smp_memory.files.codec import Codec, Fields
    from smp_memory.files.disk import Disk
    from smp_memory.model.entry import Entry

PRIVATE = ".smp"  # SMP's own folder: locks, journal, quarantine. It holds no memories but those in quarantine.
QUARANTINE = "quarantine"  # in that folder: what could not be read, or was set aside
CONFIG_FILE = "config.json"  # in the root of a store
STAGING = os.path.join(PRIVATE, CONVERTING)  # new files of a conversion
ARCHIVE_FOLDERS = ("archive", "archived")  # of archived sessions, one of them by layout
# Figures that the designs keep in a session's metadata. Those of SMP say as of when they are; others are not kept.
DERIVED_FIELDS = frozenset((
    "updated_at", "last_accessed", "statistics", "storage", "decay", "total_entries", "total_size_bytes",
    "last_compaction",
))  # fmt: skip
AS_OF = "as_of"  # beside the figures that SMP writes
OVERRIDES = ("decay_config", "compaction_config", "privacy_config")  # names of a session's settings in the designs
COLD_FILE = "cold.jsonl.gz"  # memories that compaction moved away, see `smp_memory.files.cold_segment`
OVERVIEWS = "indexes"  # overviews for people, made from the memories; see `smp_memory.store.tidy`
NOTICE = "# Made by SMP from the memories of this session. Edits here are not read and will be overwritten.\n"
OVERVIEWS_IGNORED = ".gitignore"  # in that folder: clones make their own overviews
OVERVIEW_FILES = ("topics.yaml", "timeline.yaml", "agents.yaml")  # in that folder, see `store.tidy`


class Layout:
    """Folders, files, codecs and field names. Paths are relative to the session's folder unless stated otherwise."""

    name = ""
    sessions = ""  # the folder below the root that holds the sessions
    inner_folders: tuple[str, ...] = ()  # folders inside that of a session that may hold files with entries
    info_file = ""  # the file with a session's metadata; empty: a line among the entries
    field_names: FieldNames
    first_files: tuple[tuple[str, bytes], ...] = ()  # files of a new session beside its metadata

    # -- places

    def folder(self, root: str, session: str) -> str:
        return os.path.join(root, self.sessions, session)

    def private(self, root: str, session: str) -> str:
        return os.path.join(root, self.sessions, session, PRIVATE)

    def session_ids(self, disk: Disk, root: str) -> list[str]:
        base = os.path.join(root, self.sessions)
        names = [name for name in self.names(disk, root) if ids.is_valid(name)]
        folders = [each is not None and S_ISDIR(each.st_mode) for each in disk.system.lstat_below(base, names)]
        infos = disk.system.lstat_below(base, [os.path.join(name, self.info_file) for name in names])
        return [
            name
            for name, is_folder, info in zip(names, folders, infos, strict=True)
            if (is_folder and info is not None) or self.exists(disk, root, name)
        ]

    def names(self, disk: Disk, root: str) -> list[str]:
        """Names of what may be a session, from one listing of a folder."""
        return disk.names(os.path.join(root, self.sessions))

    def is_session(self, disk: Disk, folder: str) -> bool:
        return disk.exists(os.path.join(folder, self.info_file)) or bool(
            self.files(disk, folder, os.path.basename(folder))
        )

    def exists(self, disk: Disk, root: str, session: str) -> bool:
        folder = self.folder(root, session)
        return disk.is_folder(folder) and self.is_session(disk, folder)

    # -- files

    def file_of(self, entry: Entry, session: str) -> str:
        raise NotImplementedError

    def files(self, disk: Disk, folder: str, session: str) -> list[str]:
        """The existing files with entries."""
        raise NotImplementedError

    def may_hold_entries(self, file: str) -> bool:
        """Whether a file that a plan moves into place is one of `files`, not metadata, an overview or one of SMP's own."""
        folder = file.partition("/")[0]
        return file != self.info_file and not file.endswith(COLD_FILE) and folder not in (PRIVATE, OVERVIEWS)

    def cold_file(self, session: str) -> str:
        """The file with the cold segment."""
        return COLD_FILE

    def is_session_file(self, name: str, session: str) -> bool:
        """Whether a name that was read from a file can be one of `files`."""
        raise NotImplementedError

    def codec_of(self, file: str) -> Codec:
        raise NotImplementedError

    def arranged(self, file: str, size: int, read: Callable[[int], bytes]) -> bytes | None:
        """The content of a file in the form to which an entry can be appended; None if it has that form.

        `read` returns the bytes from an offset on.
        """
        return None

    def kind_of(self, file: str) -> str | None:
        """The type of all entries of this file; None if each entry has a type field."""
        return None

    def id_in_name(self, file: str) -> str:
        """The id of the only memory that a file of this name holds; empty if it can hold several."""
        return ""

    def title_of(self, file: str, session: str) -> str:
        return session

    def encode(self, entry: Entry, session: str) -> tuple[str, bytes]:
        """The file of an entry and the bytes to append to it."""
        name = self.file_of(entry, session)
        return name, self.codec_of(name).encode(self.field_names.encode(entry, session))

    def encode_all(self, entries: list[Entry], session: str) -> bytes:
        """The bytes of entries of one memory, oldest first: folded into one entry if possible, else one by one."""
        if len(entries) > 1 and self.field_names.folds:
            fields = fold_entries(self.field_names, entries, session)
            if fields is not None:
                return self.codec_of(self.file_of(entries[0], session)).encode(fields)
        return b"".join([self.encode(entry, session)[1] for entry in entries])

    # -- the metadata of a session

    def figures(self, found: SessionFigures) -> Fields:
        """The figures that the design of the layout shows in the metadata."""
        return {}

    def encode_info(self, info: SessionInfo) -> bytes:
        raise NotImplementedError

    def decode_info(self, data: bytes, session: str) -> SessionInfo:
        raise NotImplementedError


def engine_fields(info: SessionInfo) -> Fields:
    """The fields of a session that only SMP needs; empty ones are left out."""
    fields: Fields = {"format": info.format}
    if info.uid:
        fields["uid"] = info.uid
    if info.generation:
        fields.update(generation=info.generation, seq=info.seq, numbers=dict(info.numbers))
    if info.incomplete:
        fields["incomplete"] = list(info.incomplete)
    return fields


def take_figures(fields: Fields) -> Fields:
    """Remove the figures from metadata; those that SMP wrote are returned."""
    found = {name: fields.pop(name) for name in DERIVED_FIELDS if name in fields}
    return found if any(isinstance(each, dict) and AS_OF in each for each in found.values()) else {}


def take_settings(fields: Fields) -> Fields:
    """Remove and return a session's settings from its metadata: `config`, and the designs' names for parts of it."""
    config = pop_checked(fields, "config", dict, {})
    return {**{name: fields.pop(name) for name in OVERRIDES if isinstance(fields.get(name), dict)}, **config}


def settings_fields(config: Fields) -> Fields:
    """A session's settings as fields of its metadata; those of a design stay in their own places."""
    own = {name: value for name, value in config.items() if name not in OVERRIDES}
    return {**{name: config[name] for name in OVERRIDES if name in config}, **({"config": own} if own else {})}


def pop_checked(fields: Fields, name: str, kind: type, default: Any) -> Any:
    """Remove and return a value of fields that a person may have edited; a wrong type is an error that names the field."""
    value = fields.pop(name, None)
    if value is None:
        return default
    if not isinstance(value, kind) or isinstance(value, bool):
        raise InvalidFormat(f"{name}: expected {kind.__name__}, found {repr(value)[:80]}.", field=name)
    return value


def build_info(
    session: str,
    created: Any,
    engine: Fields,
    context: Fields,
    other: Fields,
    *,
    user: Any,
    agents: list[Any],
    status: str,
    config: Fields,
) -> SessionInfo:
    figures = take_figures(other)
    numbers = pop_checked(engine, "numbers", dict, {})
    info = SessionInfo(
        session,
        parse(created or "1970-01-01T00:00:00Z", "created"),
        user=user,
        agents=[str(name) for name in agents],
        project=pop_checked(context, "project_name", str, None),
        tags=[str(tag) for tag in pop_checked(context, "tags", list, [])],
        context={**context, **pop_checked(context, "context", dict, {})} if "context" in context else context,
        config=config,
        status=status,
        generation=_number("generation", pop_checked(engine, "generation", int, 0)),
        numbers={prefix: _number(f"numbers.{prefix}", each) for prefix, each in numbers.items()},
        seq=_number("seq", pop_checked(engine, "seq", int, 0)),
        format=pop_checked(engine, "format", int, 0),
        uid=pop_checked(engine, "uid", str, ""),
        incomplete=[str(mark) for mark in pop_checked(engine, "incomplete", list, [])],
        other=other,
    )
    info.figures = figures
    return info


def _number(field: str, value: Any) -> int:
    if type(value) is not int or not 0 <= value <= LARGEST_NUMBER:
        raise InvalidFormat(f"{field}: expected a number from 0, found {repr(value)[:80]}.", field=field)
    return value


def context_fields(info: SessionInfo) -> Fields:
    """Project, tags and the caller's context of a session in one mapping; reserved names go one level down."""
    fields: Fields = {}
    if info.project is not None:
        fields["project_name"] = info.project
    if info.tags:
        fields["tags"] = list(info.tags)
    reserved = ("project_name", "tags", "context")
    fields.update({name: value for name, value in info.context.items() if name not in reserved})
    inner = {name: value for name, value in info.context.items() if name in reserved}
    if inner:
        fields["context"] = inner
    return fields


_COUNTED = (("conversation", "messages"), ("decision", "decisions"), ("finding", "findings"))
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

    def figures(self, found: SessionFigures) -> Fields:
        statistics: Fields = {f"total_{name}": found.counts.get(type, 0) for type, name in _COUNTED}
        statistics.update(size_bytes=found.bytes, last_accessed=found.last_accessed, as_of=found.as_of)
        return {"updated_at": found.updated, "statistics": statistics}

    def encode_info(self, info: SessionInfo) -> bytes:
        return _encode_metadata({"session_id": info.id, "created_at": info.created_text}, info, "metadata")

    def decode_info(self, data: bytes, session: str) -> SessionInfo:
        return _decode_metadata(data, session, "metadata")


class LogLayout(_JsonLinesLayout):
    name = "log"
    sessions = "sessions"
    info_file = "metadata.json"
    field_names = FieldNames(
        time="timestamp",
        names={"conversation": {"content": "message"}},
        nest="content",
        outside=("importance", "tags", "references", "relations", "pinned", "muted", "idempotency_key"),
        writes_type=True,
        writes_session=True,
    )

    def file_of(self, entry: Entry, session: str) -> str:
        return _TOMBSTONES if entry.op in (DELETE, RESTORE) else _MEMORY

    def files(self, disk: Disk, folder: str, session: str) -> list[str]:
        return [file for file in (_MEMORY, _TOMBSTONES) if disk.exists(os.path.join(folder, file))]

    def is_session_file(self, name: str, session: str) -> bool:
        return name in (_MEMORY, _TOMBSTONES)

    def figures(self, found: SessionFigures) -> Fields:
        names = ("conversation", "decision", "finding", "preference")
        return {
            "last_accessed": found.last_accessed,
            "total_entries": sum(found.counts.values()),
            "total_size_bytes": found.bytes,
            "statistics": {**{f"{name}s": found.counts.get(name, 0) for name in names}, AS_OF: found.as_of},
        }

    def encode_info(self, info: SessionInfo) -> bytes:
        return _encode_metadata({"session_id": info.id, "created_at": info.created_text}, info, "context")

    def decode_info(self, data: bytes, session: str) -> SessionInfo:
        return _decode_metadata(data, session, "context")


_FIGURES = ("priority", "access")


class _SingleNames(FieldNames):
    """Names with the figures that programs of design 000 read in every line. They are computed, so those of SMP's own lines are not read."""

    def encode(self, entry: Entry, session: str) -> Fields:
        fields = super().encode(entry, session)
        if entry.op == PUT:
            fields["priority"], fields["access"] = _figures(entry)
        elif entry.op != DELETE:
            fields.update(_no_memory())
        return fields

    def decode(self, fields: Fields, kind_hint: str | None, state: str, file: str, line: int, last_seq: int) -> Entry:
        if "schema" in fields:
            fields = {name: value for name, value in fields.items() if name not in _FIGURES}
        return super().decode(fields, kind_hint, state, file, line, last_seq)


def _no_memory() -> Fields:
    """What programs of design 000 read in a line that is no memory."""
    return {"data": {}, "priority": 0, "access": 0}


def _figures(entry: Entry) -> tuple[float, int]:
    """Priority and access count of a new memory at its own time, by the formula of design 000."""
    access, base = entry.data.get("access"), KINDS[entry.type].decay[0]
    count = access.get("count") if isinstance(access, dict) else None
    if type(count) is not int or count <= 0:
        return base, 0
    return round(min(1.0, base + min(0.2, 0.02 * count)), 4), count


class SingleLayout(_JsonLinesLayout):
    name = "single"
    field_names = _SingleNames(
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
        return [name for name in self.names(disk, root) if ids.is_valid(name)]

    def names(self, disk: Disk, root: str) -> list[str]:
        return [name[: -len(_ENDING)] for name in disk.names(root) if name.endswith(_ENDING)]

    def exists(self, disk: Disk, root: str, session: str) -> bool:
        return disk.exists(os.path.join(root, session + _ENDING))

    def file_of(self, entry: Entry, session: str) -> str:
        return session + _ENDING

    def files(self, disk: Disk, folder: str, session: str) -> list[str]:
        file = session + _ENDING
        return [file] if disk.exists(os.path.join(folder, file)) else []

    def is_session_file(self, name: str, session: str) -> bool:
        return name == session + _ENDING

    def cold_file(self, session: str) -> str:
        return f"{session}.{COLD_FILE}"

    def encode_info(self, info: SessionInfo) -> bytes:
        metadata = json.loads(_encode_metadata({"created_at": info.created_text}, info, "context"))
        return _CODEC.encode({"id": info.id, "type": "session", **metadata, **_no_memory()})

    def decode_info(self, data: bytes, session: str) -> SessionInfo:
        """From the fields of the metadata line, as JSON."""
        fields = json.loads(data)
        for name in ("id", "type", *_no_memory()):
            fields.pop(name, None)
        return _decode_metadata(json.dumps(fields).encode(), session, "context")


def _encode_metadata(fields: Fields, info: SessionInfo, context_name: str) -> bytes:
    fields["user_id"] = info.user
    fields["agent_ids"] = list(info.agents)
    fields["status"] = info.status
    fields[context_name] = context_fields(info)
    fields.update(settings_fields(info.config))
    fields.update({**info.other, **info.figures})
    fields["smp"] = engine_fields(info)
    return (json.dumps(fields, ensure_ascii=False, indent=2) + "\n").encode()


def _decode_metadata(data: bytes, session: str, context_name: str) -> SessionInfo:
    fields = json.loads(data.removeprefix(BOM_UTF8).decode())
    if not isinstance(fields, dict):
        raise ValueError("not a JSON object")
    fields.pop("session_id", None)
    created = pop_checked(fields, "created_at", str, None)
    user = pop_checked(fields, "user_id", str, None)
    agents = pop_checked(fields, "agent_ids", list, [])
    status = pop_checked(fields, "status", str, "active")
    context = pop_checked(fields, context_name, dict, {})
    config = take_settings(fields)
    engine = pop_checked(fields, "smp", dict, {})
    return build_info(session, created, engine, context, fields, user=user, agents=agents, status=status, config=config)
