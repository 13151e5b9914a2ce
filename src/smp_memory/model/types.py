"""The types of memory: names and aliases, fields, id prefix, file, statuses and other known values.

One vocabulary: the names here are used in Python, in `to_dict()` and in queries. The names of the original designs
are accepted on input as aliases; each layout writes the names of its own design (see `smp_memory.files.field_names`).
"""

from __future__ import annotations

from smp_memory.errors import InvalidRecord

SCHEMA = 1


COMMON_ALIASES = {
    "timestamp": "created",
    "ts": "created",
    "created_at": "created",
    "made_by": "author",
    "discovered_by": "author",
    "created_by": "author",
    "by": "author",
    "speaker": "author",
    "agent_id": "author",
    "refs": "references",
    "memory_refs": "references",
}

# In the order in which they are written after a type's own fields.
COMMON_FIELDS = (
    "author_kind",
    "turn_ref",
    "topic",
    "tags",
    "confidence",
    "importance",
    "pinned",
    "references",
    "relations",
    "access",
    "visibility",
    "trust",
    "idempotency_key",
)


class Kind:
    """One type of memory."""

    __slots__ = ("adding", "aliases", "file", "name", "prefix", "rank", "required", "text")

    def __init__(
        self,
        name: str,
        prefix: str,
        file: str,
        text: str,
        fields: tuple[str, ...],
        aliases: dict[str, str],
        required: tuple[tuple[str, ...], ...] = (),
    ) -> None:
        self.name = name
        self.adding = f"adding a {name}"  # shown to other processes while the lock is held
        self.prefix = prefix
        self.file = file  # the stem of its file in layouts with one file per type
        self.text = text  # the field with the main text
        self.rank = {field: place for place, field in enumerate((*fields, *COMMON_FIELDS))}  # the order of writing
        self.aliases = {**COMMON_ALIASES, **aliases}
        self.required = required or ((text,),)  # of each group at least one


KINDS: dict[str, Kind] = {
    kind.name: kind
    for kind in (
        Kind(
            "conversation",
            "TURN",
            "conversation",
            "content",
            ("author", "role", "kind", "content"),
            {"message": "content"},
        ),
        Kind(
            "decision",
            "DEC",
            "decisions",
            "decision",
            (
                "author",
                "decision",
                "rationale",
                "alternatives_considered",
                "impact",
                "reversible",
                "approved_by",
                "agreed_by",
                "agents_involved",
                "status",
                "resolution",
            ),
            {"alternatives": "alternatives_considered", "implementation_impact": "impact"},
        ),
        Kind(
            "finding",
            "FIND",
            "findings",
            "finding",
            (
                "author",
                "severity",
                "category",
                "finding",
                "evidence",
                "recommendation",
                "location",
                "impact",
                "root_cause",
                "status",
                "resolution",
            ),
            {"issue": "finding", "description": "finding"},
        ),
        Kind(
            "preference",
            "PREF",
            "preferences",
            "preference",
            ("author", "category", "key", "value", "preference", "context", "source", "applies_to", "learned_from"),
            {},
            (("preference", "value", "key"),),
        ),
        Kind(
            "agent_state",
            "STATE",
            "agent-states",
            "state",
            ("author", "agent", "state"),
            {"agent_id": "agent"},
            (("agent",),),
        ),
        Kind(
            "artifact",
            "ART",
            "artifacts",
            "content",
            ("author", "name", "path", "format", "content"),
            {"title": "name"},
            (("name", "path", "content"),),
        ),
        Kind(
            "learning",
            "LEARN",
            "learnings",
            "learning",
            ("author", "learning", "category"),
            {"pattern": "learning", "lesson": "learning"},
        ),
        Kind("summary", "SUM", "summaries", "summary", ("author", "summary", "covers"), {}),
    )
}

PREFIXES = frozenset(kind.prefix for kind in KINDS.values())

_NAMES_OF_TYPES = {
    "turn": "conversation",
    "turns": "conversation",
    "message": "conversation",
    "messages": "conversation",
    "conversations": "conversation",
    "conversation_turn": "conversation",
    "agent-state": "agent_state",
    "agent-states": "agent_state",
    "state": "agent_state",
    "summaries": "summary",
}
_NAMES_OF_TYPES.update({name + "s": name for name in KINDS if name != "conversation"})

# Known values. Others are stored, too; one that looks mistyped gives a warning (`smp_memory.write.typos`).
ROLES = ("user", "assistant", "system", "tool")
OPEN_STATUSES = ("open", "new", "active", "acknowledged", "confirmed", "reopened", "in_progress", "in-progress", "in progress", "pending", "deferred", "blocked")  # fmt: skip
CLOSED_STATUSES = ("resolved", "closed", "fixed", "done", "wontfix", "rejected", "dismissed", "duplicate", "invalid", "obsolete", "superseded")  # fmt: skip
VALID_STATUSES = ("proposed", "draft", "open", "pending", "active", "accepted", "approved", "agreed", "confirmed", "final", "deferred", "implemented", "resolved", "done", "closed")  # fmt: skip
OVERTURNED_STATUSES = ("superseded", "rejected", "reversed", "reverted", "revoked", "withdrawn", "cancelled", "obsolete", "deprecated")  # fmt: skip
STATUSES = {
    "finding": OPEN_STATUSES + CLOSED_STATUSES,
    "decision": VALID_STATUSES + OVERTURNED_STATUSES,
}
RELATIONS = ("relates_to", "related_to", "resolves", "resolved_by", "supersedes", "superseded_by", "supports", "contradicts", "causes", "caused_by", "led_to", "influenced", "derived_from", "depends_on", "blocks", "duplicates", "implements", "references", "refines", "part_of")  # fmt: skip

CONFIDENCE_WORDS = {"explicit": 1.0, "high": 0.9, "medium": 0.7, "inferred": 0.6, "low": 0.4, "uncertain": 0.3}


def kind_of(name: object) -> Kind:
    """The kind with this name, singular or plural, or an error that lists them all."""
    if isinstance(name, str):
        kind = KINDS.get(name) or KINDS.get(_NAMES_OF_TYPES.get(name.lower(), name.lower()))
        if kind:
            return kind
    raise InvalidRecord(f"type: {name!r} is not a type of memory. Use one of: {', '.join(KINDS)}.", field="type")
