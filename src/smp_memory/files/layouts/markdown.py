"""Layout `markdown`: a folder per session with Markdown for conversations and artifacts, and YAML for everything else.

active/{session}/metadata.yaml  conversation.md  decisions.yaml  findings.yaml  preferences.yaml  learnings.yaml
                 summaries.yaml  agent-states/{agent}.yaml  artifacts/{id}.md
"""

from __future__ import annotations

import os

from smp_memory.files.codec import DAMAGED, UNSIGNED, Piece
from smp_memory.files.entry_fields import FieldNames
from smp_memory.files.layouts.layout import (
    AS_OF,
    NOTICE,
    OVERVIEW_FILES,
    OVERVIEWS,
    Layout,
    build_info,
    context_fields,
    engine_fields,
    pop_checked,
    settings_fields,
    take_settings,
)
from smp_memory.files.markdown_blocks import ABOUT, MarkdownBlocks
from smp_memory.files.yaml_list import AgentStateYaml, YamlList
from smp_memory.files.yaml_text import emit_mapping, load_mapping
from smp_memory.model import ids
from smp_memory.model.types import KINDS, STEMS, PerKind

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from smp_memory.files.codec import Codec, Stored
    from smp_memory.files.disk import Disk
    from smp_memory.model.entry import Entry
    from smp_memory.model.session_info import SessionFigures, SessionInfo

_STATES, _ARTIFACTS = KINDS["agent_state"].file, KINDS["artifact"].file
_PARTICIPANTS = "participants"  # other fields of the participants in the metadata
_AGENTS, _ACTIVITY = "agents", ("message_count", "last_active")  # figures of agents
_CONVERSATION, _LIST = "conversation.md", ".yaml"
_USUAL_QUOTA_BYTES = 10 * 1024 * 1024
_LAST_LINE_BYTES = 1024  # longer than most machine lines
_NOT_IN_NAMES = {"/", "\\", "\0", ":"}
_BODY = "content"
_TITLE = b"# Artifact "  # how the files that SMP writes begin


class ArtifactMarkdown(MarkdownBlocks):
    """Codec of `artifacts/{id}.md`: SMP's entries under headings, and the plain document that design 003 keeps there.

    A file without a line "## Artifact" and without SMP's first lines is one unsigned artifact: all of its text is the content, the name
    of the file gives the id and its time of modification the time, until the next write to the session or `repair` puts both into the
    file: then the text stands under a heading (`smp_memory.files.reconciliation`).
    """

    def __init__(self) -> None:
        super().__init__(label="Artifact", time_key="timestamp", body_key=_BODY, id_prefix="ART")

    def _read(self, data: bytes, at_file_start: bool, stored: Stored) -> list[Piece]:
        if not at_file_start or not data.strip() or self._is_ours(data):
            return super()._read(data, at_file_start, stored)
        try:
            text = data.decode()
        except UnicodeDecodeError:
            return [Piece(0, len(data), 0, DAMAGED, None, "not valid UTF-8")]
        return [Piece(0, len(data), 0, UNSIGNED, {_BODY: text.replace("\r\n", "\n")})]

    def _is_ours(self, data: bytes) -> bool:
        """Whether SMP began this file, or a person in its form; an entry whose heading is gone is damage, not a document."""
        title, _, rest = data.rstrip(b"\0").partition(b"\n")  # a power loss may leave zeros
        about = rest.partition(b"\n")[0]
        return (
            self.boundary(b"\n" + data) >= 0
            or (data.startswith(b"#") and about != b"" and (about.startswith(ABOUT) or ABOUT.startswith(about)))
            or (not rest and title[: len(_TITLE)] == _TITLE[: len(title)])  # the torn beginning of a new file
            or b"\n<!-- end " in data
        )


_TURNS = MarkdownBlocks(label="Turn", time_key="timestamp", body_key="content", id_prefix="TURN")
_ARTIFACT = ArtifactMarkdown()
_STATE = AgentStateYaml()
_CODECS = PerKind(lambda kind: YamlList(kind.file))


def _type_of_list(file: str) -> str:
    """The type of the memories in a file that is a list in YAML; empty for other files."""
    name = STEMS.get(file.removesuffix(_LIST)) if file.endswith(_LIST) else None
    return name if name and not KINDS[name].is_turn and not KINDS[name].has_own_files else ""


class MarkdownLayout(Layout):
    name = "markdown"
    sessions = "active"
    info_file = "metadata.yaml"
    inner_folders = (_STATES, _ARTIFACTS)
    first_files = (  # empty overviews, as `store.tidy` writes them; clones make their own
        (f"{OVERVIEWS}/.gitignore", b"*\n"),
        *(
            (f"{OVERVIEWS}/{file}", f"{NOTICE}{name}:\n  version: 1\n  last_updated: null\n{empty}".encode())
            for file, name, empty in zip(
                OVERVIEW_FILES,
                ("topic_index", "timeline_index", "agent_index"),
                ("  topics: {}\n", "  events: []\n  buckets: {}\n", "  agents: {}\n"),
                strict=True,
            )
        ),
    )
    field_names = FieldNames(
        time="timestamp",
        names={
            "conversation": {"author": "speaker", "kind": "type", "references": "memory_refs"},
            "decision": {"author": "made_by"},
            "finding": {"author": "discovered_by"},
        },
        folds=True,
    )

    def file_of(self, entry: Entry, session: str) -> str:
        if entry.type == "conversation":
            return _CONVERSATION
        if entry.type == "artifact":
            return f"{_ARTIFACTS}/{entry.id}.md"
        if entry.type == "agent_state":
            return f"{_STATES}/{entry.id.removeprefix(ids.STATE_PREFIX)}.yaml"
        return f"{KINDS[entry.type].file}.yaml"

    def files(self, disk: Disk, folder: str, session: str) -> list[str]:
        existing = disk.names(folder)  # cheaper than a stat of each
        lists = [f"{kind.file}{_LIST}" for kind in KINDS.values() if not kind.is_turn and not kind.has_own_files]
        files = [file for file in (_CONVERSATION, *lists) if file in existing]
        for inner, ending in ((_STATES, ".yaml"), (_ARTIFACTS, ".md")):
            if inner in existing and disk.is_folder(os.path.join(folder, inner)):
                files += [
                    f"{inner}/{name}" for name in disk.names(os.path.join(folder, inner)) if name.endswith(ending)
                ]
        return files

    def is_session_file(self, name: str, session: str) -> bool:
        if name == _CONVERSATION or _type_of_list(name):
            return True
        folder, _, file = name.partition("/")
        ending = file.rpartition(".")[2]
        return (folder, ending) in ((_STATES, "yaml"), (_ARTIFACTS, "md")) and _NOT_IN_NAMES.isdisjoint(file)

    def codec_of(self, file: str) -> Codec:
        if file == _CONVERSATION:
            return _TURNS
        if file.startswith(_ARTIFACTS):
            return _ARTIFACT
        kind = _type_of_list(file)
        return _CODECS[kind] if kind else _STATE

    def arranged(self, file: str, size: int, read: Callable[[int], bytes]) -> bytes | None:
        codec = self.codec_of(file)
        if not isinstance(codec, YamlList) or codec.ends_signed(read(max(0, size - _LAST_LINE_BYTES))):
            return None
        data = read(0)
        new = codec.arranged(data)
        return new if new != data and codec.arranged(new) == new else None

    def kind_of(self, file: str) -> str | None:
        if file == _CONVERSATION:
            return "conversation"
        if file.startswith(_ARTIFACTS):
            return "artifact"
        return _type_of_list(file) or "agent_state"

    def id_in_name(self, file: str) -> str:
        return os.path.basename(file)[:-3] if file.startswith(_ARTIFACTS) else ""

    def title_of(self, file: str, session: str) -> str:
        if file == _CONVERSATION:
            return f"Conversation {session}"
        if file.startswith(_ARTIFACTS):
            return f"Artifact {os.path.basename(file)[:-3]} of {session}"
        if file.startswith(_STATES):
            return f"What {os.path.basename(file)[:-5]} knows, in {session}"
        return f"{file.partition('.')[0].capitalize()} of {session}"

    def figures(self, found: SessionFigures) -> dict[str, object]:
        used = round(100 * found.bytes / found.quota_bytes, 1) if found.quota_bytes else None
        storage = {"total_bytes": found.bytes, "quota_bytes": found.quota_bytes, "utilization_pct": used}
        return {
            "last_accessed": found.last_accessed,
            "storage": {**storage, AS_OF: found.as_of},
            _AGENTS: found.agents,
        }

    def encode_info(self, info: SessionInfo) -> bytes:
        known = info.other.get(_PARTICIPANTS) or {}
        active = info.figures.get(_AGENTS, {})
        agents = [
            {"agent_id": name, **known.get("agents", {}).get(name, {}), **active.get(name, {})} for name in info.agents
        ]
        agents += [
            {"agent_id": name, "listed": False, **each} for name, each in active.items() if name not in info.agents
        ]
        participants = {**known, "user_id": info.user, "agents": agents}
        session = {"id": info.id, "created_at": info.created_text, "status": info.status, "participants": participants}
        session["context"] = context_fields(info)
        session.update(settings_fields(info.config))
        session.update({name: value for name, value in info.other.items() if name != _PARTICIPANTS})
        session.update({name: value for name, value in info.figures.items() if name != _AGENTS})
        session["smp"] = engine_fields(info)
        return (
            f"# The head of session {info.id}. SMP format 1; edit it as you like.\n"
            + emit_mapping({"session": session})
        ).encode()

    def decode_info(self, data: bytes, session: str) -> SessionInfo:
        fields = load_mapping(data).get("session")
        if not isinstance(fields, dict):
            raise ValueError("the key `session:` is missing")
        fields.pop("id", None)
        participants = pop_checked(fields, "participants", dict, {})
        items = pop_checked(participants, "agents", list, [])
        agents = [item.get("agent_id") if isinstance(item, dict) else item for item in items if _is_listed(item)]
        created = pop_checked(fields, "created_at", str, None)
        status = pop_checked(fields, "status", str, "active")
        context = pop_checked(fields, "context", dict, {})
        config = {**_quota(fields), **take_settings(fields)}
        engine = pop_checked(fields, "smp", dict, {})
        user = pop_checked(participants, "user_id", str, None)
        details = {item["agent_id"]: _details(item) for item in items if _is_listed(item) and _details(item)}
        if participants or details:
            fields[_PARTICIPANTS] = {**participants, "agents": details}
        info = build_info(
            session, created, engine, context, fields, user=user, agents=agents, status=status, config=config
        )
        if info.figures:
            info.figures[_AGENTS] = {item["agent_id"]: _activity(item) for item in items if _activity(item)}
        return info


def _quota(fields: dict[str, object]) -> dict[str, object]:
    """The session's quota beside the figures of its storage (design 003), which are not kept, as a setting of the session."""
    storage = fields.get("storage")
    quota = storage.get("quota_bytes") if isinstance(storage, dict) and AS_OF not in storage else None
    if type(quota) is not int or quota < 1 or quota == _USUAL_QUOTA_BYTES:
        return {}
    return {"quota_policy": {"max_session_size_bytes": quota}}


def _is_listed(agent: object) -> bool:
    """Whether an agent belongs to the session, and is not there because of its figures alone."""
    return not isinstance(agent, dict) or agent.get("listed") is not False


def _details(agent: object) -> dict[str, object]:
    """The fields of an agent in the metadata, without its name and its figures."""
    if not isinstance(agent, dict) or "agent_id" not in agent:
        return {}
    return {name: value for name, value in agent.items() if name not in ("agent_id", *_ACTIVITY)}


def _activity(agent: object) -> dict[str, object]:
    """The figures of an agent in the metadata."""
    if not isinstance(agent, dict) or "agent_id" not in agent:
        return {}
    return {name: agent[name] for name in _ACTIVITY if name in agent}
