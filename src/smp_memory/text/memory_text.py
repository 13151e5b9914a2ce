"""The text of a memory: what is searched and embedded, its terms, the keys of its labels, its status and the wishes that it tells. Pure."""

from __future__ import annotations

from functools import lru_cache

from smp_memory import privacy
from smp_memory.import_lock import loading
from smp_memory.model.candidates import ASKS, NAMES_TIME, ROLES
from smp_memory.model.record import text_in
from smp_memory.model.statuses import SUCCESSION_KINDS
from smp_memory.text.tokenizer import bag_of_terms

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from smp_memory.model.types import Kind

_NOT_SEARCHED = frozenset([
    "author_kind", "idempotency_key", "access", "visibility", "trust", "relations", "references", "turn_ref", "role",
    "superseded_by", "supersedes", "valid_from", "valid_until", "parts", "exact", "opaque", "text_field", "embedding",
])  # fmt: skip

_NUMBERS_NOT_SEARCHED = frozenset(["confidence", "importance", "muted", "pinned", "format"])

_MAX_KEY = 300  # characters of a tag or topic that are indexed

_LABELS = 2000  # cached

FIRST_MEMORIES = 20  # of a session: among these its first prompt is looked for
_BEGINNING, _LOOKED_AT = 80, 2000  # characters

_MAX_TURN = 10**9


def index_terms(data: dict[str, Any], id: str) -> str:
    """The terms of a memory; the last one is its id. Other names of its subject count twice: they name it."""
    names = bag_of_terms("\n".join(_texts("aliases", data["aliases"]))) if "aliases" in data else ""
    return f"{bag_of_terms(text_of(data))}{names}{id.lower()}"


def wish_of(data: dict[str, Any]) -> str:
    """The standing wishes in a turn of a user, without recalled text; empty if there are none."""
    text = data.get("content")
    if data.get("role") != "user" or not isinstance(text, str):
        return ""
    with loading:
        from smp_memory.model.standing_instructions import instructions_in  # large, and no query needs it
    return instructions_in(privacy.fence.strip(text))


def prompt_beginning(data: dict[str, Any]) -> str:
    """The first words of a user's turn on one line, without recalled text; empty for other memories, and for one with a visibility of its own."""
    text = data.get("content")
    if data.get("role") != "user" or "visibility" in data or not isinstance(text, str):
        return ""
    line = " ".join(privacy.fence.strip(text)[:_LOOKED_AT].split()).encode(errors="replace").decode()
    if len(line) <= _BEGINNING:
        return line
    words = line[: _BEGINNING - 1].rpartition(" ")[0]
    return (words if len(words) > _BEGINNING // 2 else line[: _BEGINNING - 1]) + "…"


def label_key(name: Any) -> str:
    """The index key of a tag or topic: case-folded, white space collapsed, cut to `_MAX_KEY` characters."""
    return _key(name) if isinstance(name, str) else ""


@lru_cache(_LABELS)
def _key(name: str) -> str:
    return " ".join(name.casefold().split())[:_MAX_KEY]


def text_of(data: dict[str, Any]) -> str:
    """The searchable text of a memory, without its id, which is a term of its own."""
    parts: list[str] = []
    for name, value in data.items():
        if name not in _NOT_SEARCHED:
            if type(value) is str:
                parts.append(value)
            else:
                parts += _texts(name, value)
        elif name == "references":
            parts += [each for each in as_list(value) if type(each) is str and "." in each]  # files: no id has a dot
    return "\n".join(parts)


def statement_of(kind: Kind, data: dict[str, Any]) -> str:
    """What a written memory says, which turns may repeat; empty for other types."""
    if not kind.is_written_down:
        return ""
    parts = (as_word(data.get(name)) for name in kind.parts)
    return " ".join(filter(None, parts)) if kind.parts else text_in(kind, data)


def embedded_text(data: dict[str, Any]) -> str:
    """The text of a memory that is embedded: all but its author."""
    return text_of({name: value for name, value in data.items() if name != "author"})


def _texts(name: str, value: Any) -> Iterator[str]:
    if type(value) is str:
        yield value
    elif type(value) is list:
        for item in value:
            yield from _texts(name, item)
    elif type(value) is dict:
        for key, item in value.items():
            if type(item) in (str, list, dict):
                yield key
            yield from _texts(key, item)
    elif type(value) in (int, float) and name not in _NUMBERS_NOT_SEARCHED:
        yield str(value)


def status_of(kind: Kind, data: dict[str, Any]) -> str:
    """The status, from either field that the designs use; a finding without one is open."""
    resolution = data.get("resolution")
    inner = resolution.get("status") if isinstance(resolution, dict) else None
    status = data.get("status") or inner
    if status is None and kind.is_open_until_closed:
        status = kind.default_status
    return as_word(status)


def turn_id(value: Any) -> Any:
    """The id of a turn given by its number, as in the designs: 3 is TURN-0003."""
    return f"TURN-{value:04d}" if type(value) is int and 0 < value < _MAX_TURN else value


def as_list(value: Any) -> list[Any]:
    """A list from a field that should be one; a person may have typed a single element, or anything."""
    return value if type(value) is list else [value] if type(value) is str else []


def as_word(value: Any) -> str:
    return value if isinstance(value, str) else ""


_TIME_TERMS = frozenset(
    """ago yesterday today tonight tomorrow weekend recent week weeks month months year years day days morning night
    januari january februari february march april june juli july august septemb september octob october novemb november
    decemb december monday tuesday wednesday thursday friday saturday sunday summer winter spring autumn""".split()  # noqa: SIM905
)  # with and without endings


def questions_in(text: str) -> tuple[int, bool]:
    """The number of words in the sentences of a text that end with a question mark, and whether the last one does."""
    if _QUESTION_MARKS.isdisjoint(text):
        return 0, False
    sentences = text.rstrip(_AROUND_END).translate(_SENTENCE_ENDS).split("\0")
    words = sum(len(each[:-1].split()) for each in sentences if each.endswith("?"))
    return words, len(sentences) > 1 and not sentences[-1] and sentences[-2].endswith("?")


_QUESTION_MARKS = frozenset("?\uff1f\u061f")

_AROUND_END = " \t\r\n\"')]}*_\u201d\u2019\u300d"

_SENTENCE_ENDS = str.maketrans(dict.fromkeys(".!\n\u3002\uff01", "\0") | dict.fromkeys(_QUESTION_MARKS, "?\0"))


def turn_facts(data: dict[str, Any], terms: str) -> tuple[int, int]:
    """The number of words in questions of a turn, and its marks."""
    content = data.get("content")
    words, asks = questions_in(content) if isinstance(content, str) else (0, False)
    marks = 0 if _TIME_TERMS.isdisjoint(terms.split()) else NAMES_TIME
    return words, marks | ASKS if asks else marks


def role_number(role: Any) -> int:
    """The number of a role; a name that is not a role is an agent's."""
    return 0 if role is None else ROLES.get(role, ROLES["agent"]) if isinstance(role, str) else 0


def relations_of(data: dict[str, Any], session: str) -> Iterator[tuple[str, str, str]]:
    """Kind, session and id of each relation; plain references are of the kind `references`."""
    for relation in as_list(data.get("relations")):
        if isinstance(relation, dict):
            yield from _pointer(relation.get("kind"), relation.get("target"), session)
    for reference in as_list(data.get("references")):
        yield from _pointer("references", reference, session)
    for kind in SUCCESSION_KINDS:
        for target in as_list(data.get(kind)):
            yield from _pointer(kind, target, session)
    yield from _pointer("turn", turn_id(data.get("turn_ref")), session)


def _pointer(kind: Any, target: Any, session: str) -> Iterator[tuple[str, str, str]]:
    if isinstance(kind, str) and isinstance(target, str) and target:
        other, _, name = target.rpartition("/")
        yield kind, other or session, name
