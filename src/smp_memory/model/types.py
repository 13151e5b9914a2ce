"""The types of memory: ONE table with every fact of a type. A new type is one row; see docs/ARCHITECTURE.md.

One vocabulary: the names here are used in Python, in `to_dict()` and in queries. The names of the original designs
are accepted on input as aliases; each layout writes the names of its own design (see `smp_memory.files.entry_fields`).

Loaded by every process: no heavy imports here. `Kind` has class attributes as defaults, so that a row names only what is
special about its type.
"""

from __future__ import annotations

from smp_memory.errors import InvalidRecord

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

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
COMMON_FIELDS = ("author_kind", "turn_ref", "topic", "aliases", "tags", "valid_from", "valid_until", "confidence", "importance", "pinned", "muted", "references", "relations", "access", "visibility", "trust", "idempotency_key")  # fmt: skip

# Known values. Others are stored, too; one that looks mistyped gives a warning (`smp_memory.write.validation`).
ROLES = ("user", "assistant", "system", "tool")
RELATIONS = ("relates_to", "related_to", "resolves", "resolved_by", "supersedes", "superseded_by", "supports", "contradicts", "causes", "caused_by", "led_to", "influenced", "derived_from", "depends_on", "blocks", "duplicates", "implements", "references", "refines", "part_of")  # fmt: skip
CONFIDENCE_WORDS = {"explicit": 1.0, "high": 0.9, "medium": 0.7, "inferred": 0.6, "low": 0.4, "uncertain": 0.3}

# Severities, the most severe first: the level for comparisons, and the weight in a context from 0 to 1.
SEVERITY_LEVELS = {"critical": 4, "high": 3, "important": 3, "medium": 2, "low": 1, "minor": 1, "info": 0}
SEVERITY_WEIGHTS = {"critical": 0.9, "high": 0.78, "important": 0.7, "medium": 0.55, "low": 0.4, "minor": 0.35, "info": 0.3}  # fmt: skip
SEVERITIES = tuple(SEVERITY_LEVELS)
CRITICAL = SEVERITIES[0]

# Statuses
OPEN_STATUSES = ("open", "new", "active", "acknowledged", "confirmed", "reopened", "in_progress", "in-progress", "in progress", "pending", "deferred", "blocked")  # fmt: skip
CLOSED_STATUSES = ("resolved", "closed", "fixed", "done", "wontfix", "rejected", "dismissed", "duplicate", "invalid", "obsolete", "superseded")  # fmt: skip
VALID_STATUSES = ("proposed", "draft", "open", "pending", "active", "accepted", "approved", "agreed", "confirmed", "final", "deferred", "implemented", "resolved", "done", "closed")  # fmt: skip
OVERTURNED_STATUSES = ("superseded", "rejected", "reversed", "reverted", "revoked", "withdrawn", "cancelled", "obsolete", "deprecated", "overturned", "outdated", "replaced", "retired", "abandoned")  # fmt: skip
UNRESOLVED_STATUSES = frozenset(("open", "unresolved", "pending", "proposed", "in_progress"))  # somebody has to act
RESOLVED_STATUSES = frozenset(("resolved", "closed", "fixed", "done"))  # somebody has acted
# Nothing is left to do, whatever the type: all of the above that end a memory, and other words for them.
SETTLED = frozenset((*CLOSED_STATUSES, *OVERTURNED_STATUSES, "completed", "implemented", "wont_fix", "won't_fix", "not_a_bug", "canceled", "archived"))  # fmt: skip

# Rules for `Kind.floors`: what keeps a priority from falling further (design 002, 003).
IF_CRITICAL, IF_HIGH_IMPACT, IF_UNRESOLVED, IF_INFERRED = "critical", "high impact", "unresolved", "inferred"
# Values of `Kind.keeps`: what compaction never removes (design 003).
OPEN, ACTIVE, EXPLICIT, ALWAYS = "open", "active", "explicit", "always"

# Text fields of any type, in the order in which they are tried where a memory's own text field is not a text.
_TEXTS = ("decision", "finding", "preference", "learning", "summary", "content", "name", "value", "key", "agent", "path")  # fmt: skip


class Kind:
    """One type of memory."""

    # -- names
    number = -1  # in the index; never given to another type
    place = 99  # the order in lists for models and in digests
    noun = ""  # in counts: 1 turn; default: the name
    plural = ""  # of the name, in overviews: turns; default: the name with an s
    other_names: tuple[str, ...] = ()  # accepted for the name, besides the name with an s
    definition = ""  # for models, in the tool `remember`
    author_name = "author"  # what design 003 calls the author, in timelines and summaries

    # -- fields
    parts: tuple[str, ...] = ()  # the fields that say it, if there are several: key, value, …
    is_named_by_agent = False  # one per agent, with the agent in its id; the agent owns it and only it sees it
    is_named_by_key = False  # one per key: a new value of a key replaces the old one
    is_turn = False  # a turn: cannot be changed, only deleted or redacted; compaction sums old ones up
    keeps_line_end = False  # standard input is taken as it is
    is_own_object = False  # its text may be an object that holds no other fields of it

    # -- statuses
    statuses: tuple[str, ...] = ()  # known ones; empty: it has no status and cannot be resolved
    closed: tuple[str, ...] = ()  # of these, those that end it
    default_status: str | None = None
    is_open_until_closed = False  # an unknown status leaves it open
    unresolved: frozenset[str] = frozenset()  # statuses by which somebody has to act, if not all but the closed ones
    resolution_wins = False  # `resolution.status` counts before `status`

    # -- decay
    decay = (0.90, 0.04, 0.015, 0.3)  # base priority, rate per day, boost per access (design 003), floor (design 002)
    floors: tuple[str, ...] = ()  # rules for other floors, the first that applies
    is_faster_resolved = False  # decays faster once it is resolved
    half_life_hours: int | None = None  # designs 001, 004; None: that of other types
    fades_by_half_life = True  # with the policy half-life
    importance = 0.5  # design 001

    # -- retention, compaction, consolidation
    retention_days: int | None = None  # by default; None: for ever
    keeps = ""  # what compaction never removes of it; empty: nothing
    kept_because = ""  # the reason shown in a plan; default: an open finding
    is_merged = False  # near-duplicates are merged

    # -- how it reads
    is_written_down = False  # recalled before what was said
    is_said = False  # part of the conversation
    reason = ("", "")  # on one line behind the text: label and field
    context_place = 99  # the order of sections in a context
    context_title = ""  # default: the plural; only what was written down has a section
    context_newest = 30  # of the newest ones that are considered
    digest_title = ""  # empty: it is not in the digest
    digest_most = 40
    has_own_files = False  # a file for each, in a folder, in the layout `markdown`

    # -- visibility
    is_shared = False  # never one agent's own

    def __init__(
        self,
        name: str,
        prefix: str,
        file: str,
        text: str,
        fields: tuple[str, ...],
        aliases: dict[str, str] | None = None,
        required: tuple[tuple[str, ...], ...] = (),
        **facts: Any,
    ) -> None:
        self.name = name
        self.prefix = prefix
        self.file = file  # the stem of its file in layouts with one file per type
        self.text = text  # the field with the main text
        self.rank = {field: place for place, field in enumerate((*fields, *COMMON_FIELDS))}  # the order of writing
        self.aliases = {**COMMON_ALIASES, **(aliases or {})}
        self.required = required or ((text,),)  # of each group at least one
        self.fields = fields  # its own, in the order of writing
        for fact, value in facts.items():
            if not hasattr(Kind, fact):
                raise TypeError(f"{name}: {fact} is not a fact of a type")
            setattr(self, fact, value)
        self.noun = self.noun or name
        self.plural = self.plural or f"{name}s"
        self.context_title = self.context_title or self.plural.replace("_", " ").capitalize()
        self.kept_because = self.kept_because or (
            f"a {self.noun}" if self.keeps == ALWAYS else f"an {self.keeps} {self.noun}"
        )
        self.component = file.replace("-", "_")  # in figures of sizes
        self.adding = f"adding a {name}"  # shown to other processes while the lock is held
        self.has_severity = "severity" in fields
        self.settled = SETTLED.union(self.closed)  # statuses by which nothing is left to do
        texts = _TEXTS if self.is_named_by_agent else (text, *_TEXTS)
        self.texts = tuple(dict.fromkeys(texts))  # where to look for the main text

    def text_field(self, given: dict[str, Any]) -> str:
        """The field for the text of a new memory with these fields: of one that has a key it is the value."""
        has_key = self.is_named_by_key and given.get("key") is not None and given.get("value") is None
        return "value" if has_key else self.text

    def __repr__(self) -> str:
        return f"Kind({self.name})"


_DECISION_FIELDS = ("author", "decision", "rationale", "alternatives_considered", "impact", "reversible", "approved_by", "agreed_by", "agents_involved", "status", "resolution")  # fmt: skip
_FINDING_FIELDS = ("author", "severity", "category", "finding", "evidence", "recommendation", "location", "impact", "root_cause", "status", "resolution")  # fmt: skip

_ROWS = (
    Kind(
        "conversation",
        "TURN",
        "conversation",
        "content",
        ("author", "role", "kind", "content", "parts"),
        {"message": "content"},
        number=0,
        place=5,
        noun="turn",
        plural="turns",
        other_names=("turn", "turns", "message", "messages", "conversation_turn"),
        definition="one message, with its role",
        is_turn=True,
        decay=(1.0, 0.05, 0.01, 0.1),
        half_life_hours=168,
        retention_days=90,
        is_said=True,
        is_shared=True,
    ),
    Kind(
        "decision",
        "DEC",
        "decisions",
        "decision",
        _DECISION_FIELDS,
        {"alternatives": "alternatives_considered", "implementation_impact": "impact"},
        number=1,
        place=1,
        definition="what was chosen, and why",
        author_name="made_by",
        statuses=VALID_STATUSES + OVERTURNED_STATUSES,
        closed=OVERTURNED_STATUSES,
        default_status="active",
        unresolved=UNRESOLVED_STATUSES,
        resolution_wins=True,
        decay=(0.95, 0.03, 0.02, 0.4),
        floors=(IF_HIGH_IMPACT, IF_UNRESOLVED),
        half_life_hours=720,
        importance=1.0,
        retention_days=365,
        keeps=ACTIVE,
        is_written_down=True,
        reason=("why", "rationale"),
        context_place=3,
        context_title="Decisions",
        context_newest=40,
        digest_title="Decisions",
        digest_most=60,
    ),
    Kind(
        "finding",
        "FIND",
        "findings",
        "finding",
        _FINDING_FIELDS,
        {"issue": "finding", "description": "finding"},
        number=2,
        place=2,
        definition="something noticed that may need action",
        author_name="discovered_by",
        statuses=OPEN_STATUSES + CLOSED_STATUSES,
        closed=CLOSED_STATUSES,
        default_status="open",
        is_open_until_closed=True,
        decay=(0.90, 0.04, 0.015, 0.3),
        floors=(IF_CRITICAL,),
        is_faster_resolved=True,
        half_life_hours=336,
        importance=0.8,
        retention_days=180,
        keeps=OPEN,
        is_merged=True,
        is_written_down=True,
        reason=("do", "recommendation"),
        context_place=2,
        context_title="Open findings",
        context_newest=120,  # grave findings may be older
        digest_title="Open findings",
        digest_most=60,
    ),
    Kind(
        "preference",
        "PREF",
        "preferences",
        "preference",
        ("author", "category", "key", "value", "preference", "context", "source", "applies_to", "learned_from"),
        {},
        (("preference", "value", "key"),),
        number=3,
        place=3,
        definition="how the user wants things done; a new value of a key replaces the old one",
        parts=("key", "value", "preference"),
        is_named_by_key=True,
        decay=(0.85, 0.02, 0.03, 0.6),
        floors=(IF_INFERRED,),
        half_life_hours=1440,
        fades_by_half_life=False,
        importance=0.7,
        retention_days=730,
        keeps=EXPLICIT,
        is_merged=True,
        is_written_down=True,
        context_place=1,
        context_title="Preferences",
        digest_title="Preferences",
        is_shared=True,
    ),
    Kind(
        "agent_state",
        "STATE",
        "agent-states",
        "state",
        ("author", "agent", "state"),
        {"agent_id": "agent"},
        (("agent",),),
        number=4,
        place=6,
        noun="agent state",
        other_names=("agent-state", "agent-states", "state"),
        definition="your own working notes, replaced each time",
        is_named_by_agent=True,
        decay=(0.80, 0.06, 0.01, 0.0),
        keeps=ALWAYS,
        kept_because="an agent's current state",
        has_own_files=True,
    ),
    Kind(
        "artifact",
        "ART",
        "artifacts",
        "content",
        ("author", "name", "path", "format", "content"),
        {"title": "name"},
        (("name", "path", "content"),),
        number=5,
        place=7,
        definition="something made, with its name or path",
        keeps_line_end=True,
        is_own_object=True,
        decay=(0.90, 0.04, 0.015, 0.3),
        has_own_files=True,
    ),
    Kind(
        "learning",
        "LEARN",
        "learnings",
        "learning",
        ("author", "learning", "category"),
        {"pattern": "learning", "lesson": "learning"},
        number=6,
        place=4,
        definition="a fact or lesson for later work",
        decay=(0.80, 0.02, 0.01, 0.3),
        is_written_down=True,
        context_place=4,
        context_title="Learned before",
        digest_title="Learned",
    ),
    Kind(
        "summary",
        "SUM",
        "summaries",
        "summary",
        ("author", "summary", "covers"),
        number=7,
        place=8,
        plural="summaries",
        other_names=("summaries",),
        definition="what happened over a longer time",
        decay=(0.95, 0.03, 0.02, 0.4),
        keeps=ALWAYS,
        is_said=True,
        is_shared=True,
    ),
)

# -- the table, and views of it that follow `register`

KINDS: dict[str, Kind] = {}
PREFIXES: dict[str, str] = {}  # the name of the type by its id prefix
STEMS: dict[str, str] = {}  # the name of the type by the stem of its file
NUMBERED: dict[int, str] = {}  # the name of the type by its number in the index
_NAMES: dict[str, str] = {}  # the name of the type by its other names
_retired: dict[str, Kind] = {}  # types that were unregistered; tables that were derived from them are still there

if TYPE_CHECKING:
    _Table = dict[str, Any]
else:
    _Table = dict


class PerKind(_Table):
    """Something derived from the facts of a type, by its name. Derived once, when it is first needed."""

    def __init__(self, derive: Callable[[Kind], Any]) -> None:
        super().__init__()
        self._derive = derive

    def __missing__(self, name: str) -> Any:
        value = self[name] = self._derive(KINDS[name])
        return value


def register(kind: Kind) -> None:
    """Add a type to the table. Types of SMP itself are rows above; this is for tests, and for types of an application.

    Every process that opens a store with memories of the type has to register it first: others report them as unreadable.
    """
    if kind.number < 0:
        kind.number = max(NUMBERED, default=-1) + 1
    names = _names_of(kind)
    taken = kind.prefix in PREFIXES or kind.file in STEMS or kind.number in NUMBERED
    if taken or names & (KINDS.keys() | _NAMES.keys()):
        raise ValueError(f"{kind.name}: a name, the id prefix, the number or the file belongs to another type")
    if kind.name in _retired and vars(_retired[kind.name]) != vars(kind):
        raise ValueError(f"{kind.name}: was registered with other facts in this process; use another name")
    for fact in ("is_turn", "is_named_by_agent", "is_named_by_key", "has_own_files"):
        if getattr(kind, fact) and kind not in _ROWS:
            raise ValueError(f"{kind.name}: {fact}: only {' and '.join(names_where(fact))} can be such a type")
    KINDS[kind.name] = kind
    PREFIXES[kind.prefix] = STEMS[kind.file] = NUMBERED[kind.number] = kind.name
    _NAMES.update(dict.fromkeys(names - {kind.name}, kind.name))


def unregister(name: str) -> None:
    """Take a type out of the table again."""
    kind = _retired[name] = KINDS.pop(name)
    del PREFIXES[kind.prefix], STEMS[kind.file], NUMBERED[kind.number]
    for other in _names_of(kind) - {name}:
        del _NAMES[other]


def _names_of(kind: Kind) -> set[str]:
    return {kind.name, f"{kind.name}s", *kind.other_names}


def names_where(fact: str) -> tuple[str, ...]:
    """The names of the types for which this fact holds, in the order of the table."""
    return tuple(name for name, kind in KINDS.items() if getattr(kind, fact))


def markdown_folders() -> list[str]:
    """The folders with one file per memory in the layout `markdown`."""
    return [kind.file for kind in KINDS.values() if kind.has_own_files]


def in_order(fact: str) -> list[Kind]:
    """The types in the order of a fact such as `place`."""
    return sorted(KINDS.values(), key=lambda kind: getattr(kind, fact))


def kind_of(name: object) -> Kind:
    """The kind with this name, singular or plural, or an error that lists them all."""
    if isinstance(name, str):
        kind = KINDS.get(name) or KINDS.get(_NAMES.get(name.lower(), name.lower()))
        if kind:
            return kind
    raise InvalidRecord(f"type: {name!r} is not a type of memory. Use one of: {', '.join(KINDS)}.", field="type")


def severity_rank(value: object) -> int:
    """0 for the most severe; behind all known words for any other value."""
    word = value.strip().lower() if isinstance(value, str) else ""
    return SEVERITIES.index(word) if word in SEVERITIES else len(SEVERITIES)


for _kind in _ROWS:
    register(_kind)
