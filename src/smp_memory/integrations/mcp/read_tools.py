"""The tools that read: recall, get, context, overview.

Guarantees: nothing is changed but access counts. Every answer is fenced as fenced_reply data, keeps to its budget, and
names memories by `session/ID`, which the other tools take.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from smp_memory import search
from smp_memory.context.budget import ELLIPSIS, count_tokens, one_line
from smp_memory.errors import InvalidRecord, NotAllowed
from smp_memory.integrations.mcp.answers import (
    ENVELOPE_TOKENS,
    Reply,
    cut_text,
    fenced_reply,
    fit_items,
    fit_lines,
    shrink,
    token_cost,
)
from smp_memory.model.record import name_and_content
from smp_memory.model.times import to_text, validity_text
from smp_memory.model.types import KINDS
from smp_memory.overview.summary import counted
from smp_memory.privacy.fence import inside

if TYPE_CHECKING:
    from collections.abc import Iterable

    from smp_memory.integrations.mcp import arguments
    from smp_memory.integrations.mcp.request_context import Caller
    from smp_memory.model.record import Record

_NOT_TEXTS = ("tags", "relevance")
MOST_CHARACTERS = 800  # of one memory in a list; `get` gives it whole


def recall(caller: Caller, given: arguments.RecallArguments) -> Reply:
    options: dict[str, Any] = {
        name: value
        for name, value in (
            ("text", given.query),
            ("types", list(given.types)),
            ("tags", given.tags),
            ("agents", given.agent),
            ("topic", given.topic),
            ("time", given.time),
            ("where", given.where),
            ("sort", given.sort),
            ("include_expired", given.include_expired),
        )
        if value
    }
    scope = caller.scope(given.session, all_by_default=True)
    hits = search.path.query(scope, None, {**options, "limit": given.limit, "offset": given.offset})
    found = search.path.relevant_hits(
        hits, given.query, given.sort, scope.config["recall.min_pointer"], given.min_relevance
    )
    weak = len(hits) - len(found)
    matches = [
        _item(
            hit.record,
            relevance=round(hit.relevance, 3) if given.query else None,
            superseded_by=hit.superseded_by or hit.outdated_by,
            repeats=f"{hit.repeats} {hit.repeats_state}".strip() if hit.repeats else None,
        )
        for hit in found
    ]
    items = fit_items(matches, given.max_tokens, _line)
    more = len(items) < len(matches) or (hits.more and not weak)
    after = given.offset + len(items) if more and items else None
    lines = [_line(item) for item in items] or ["Nothing relevant found." if weak else "Nothing found."]
    if weak:
        lines.append(f"(left out: {weak} weak {'match' if weak == 1 else 'matches'}; min_relevance 0 lists them)")
    if after is not None:
        lines.append(f"(more: offset {after})")
    if hits.corrected:
        words = ", ".join(f"{one_line(word)} as {one_line(known)}" for word, known in hits.corrected.items())
        lines.append(f"(unknown words, also searched: {words})")
    if hits.not_valid:
        lines.append(f"(left out: {hits.not_valid:,} not valid now; include_expired lists them)")
    lines += _not_searched(hits.archived_not_searched)
    problems, notices = caller.context.problem_lines(hits.problems)
    data = {
        "items": items,
        "next_offset": after,
        "weak": weak or None,
        "not_searched": hits.archived_not_searched or None,
        "not_valid": hits.not_valid or None,
        "corrected": hits.corrected or None,
    }
    caller.warnings += [text for text in hits.warnings if text not in caller.warnings]
    return fenced_reply({**data, "problems": problems}, "\n".join([*lines, *notices]))


def _not_searched(archived: int) -> list[str]:
    """A line that archived sessions were not searched; a person can search them."""
    return [f"(not searched: {archived:,} archived, see `smp query --include-archived`)"] if archived else []


def get(caller: Caller, given: arguments.GetArguments) -> Reply:
    records = [caller.record(ref, given.session) for ref in given.ids]
    if given.start and len(records) > 1:
        raise InvalidRecord("start: can only be given with one id.", field="start")
    left = given.max_tokens - ENVELOPE_TOKENS
    items: list[dict[str, Any]] = []
    next_start = None
    for record in records:
        data = _all_fields(caller, record, given)
        text = str(data["text"])[given.start :]
        item = {**data, "text": text} if given.start else data
        cost = token_cost(item, _field_lines)
        if cost > left and not items:
            item = shrink(item, left, _field_lines)
            if item["text"] != text:
                next_start = given.start + len(item["text"].rstrip(ELLIPSIS))
        elif cost > left:
            break
        items.append(item)
        left -= cost
    left_out = [record.ref for record in records[len(items) :]] or None
    lines = [_field_lines(item) for item in items]
    lines += [f"(left out, ask again: {', '.join(left_out)})"] if left_out else []
    lines += [f"(the text goes on: start {next_start})"] if next_start is not None else []
    problems, notices = caller.problem_lines(sorted({record.session for record in records}))
    data = {"memories": items, "left_out": left_out, "next_start": next_start, "problems": problems}
    return fenced_reply(data, "\n\n".join([*lines, *notices]))


def context(caller: Caller, given: arguments.ContextArguments) -> Reply:
    from smp_memory.context.builder import context

    server_agent = caller.context.author
    if server_agent and given.agent not in (None, server_agent):
        raise NotAllowed(f"agent: this server was started for {server_agent}; leave it out.", field="agent")
    session = caller.session(given.session).id if given.session or caller.memory.latest_session() else None
    built = context(
        caller.memory.scope,
        given.agent or caller.name,
        given.task,
        given.topic,
        tags=given.tags or None,
        project=given.project,
        session=session,
        max_tokens=given.max_tokens,
        counter=_json_tokens,
    )
    archived = built.archived_not_searched
    nothing = "\n".join([*built.notes, "Nothing to recall.", *_not_searched(archived)])
    problems, notices = caller.context.problem_lines(built.problems)
    data = {"text": inside(built.text), "not_searched": archived or None, "problems": problems}
    reply = fenced_reply(data, nothing)
    if built.text:
        reply.text = built.text  # it is fenced already
    reply.text = "\n".join([reply.text, *notices])
    return reply


def overview(caller: Caller, given: arguments.OverviewArguments) -> Reply:
    scope = caller.scope(given.session or caller.context.default_session or caller.session().id, all_by_default=False)
    session = scope.sessions[0] if scope.sessions is not None else None
    lines: Iterable[str]
    if given.what == "summary":
        lines = list(search.overviews.summarize(scope))
    elif given.what == "topics":
        lines = [
            f"- {each.name}: {_count(each.mentions, 'mention')}, last {to_text(each.last)[:10]}"
            for each in search.overviews.topics(scope)
        ]
    elif given.what == "agents":
        lines = [f"- {each.name} ({each.kind}): {_count(each.memories, 'memory', 'memories')}, last {to_text(each.last)[:10]}" for each in search.overviews.agents(scope)]  # fmt: skip
    elif given.what == "timeline":
        events = list(search.overviews.timeline(scope, "day", given.time, None, None))
        lines = [f"- {to_text(each.time)[:16]} {each.id}: {one_line(each.text)[:200]}" for each in reversed(events)]
    else:
        lines = _counts(caller, session)
    chosen, cut = fit_lines(map(one_line, lines), given.max_tokens)
    text = "\n".join(chosen) or "Nothing yet."
    problems, notices = caller.problem_lines(scope.sessions)
    more = ["(more: raise max_tokens)"] if cut else []
    return fenced_reply({"text": text, "cut": cut or None, "problems": problems}, "\n".join([text, *more, *notices]))


def _counts(caller: Caller, session: str | None) -> list[str]:
    """Counts of the memories that the caller may see. File sizes are left out, because they include hidden memories."""
    sessions = [caller.session(session)] if session else caller.memory.sessions()
    lines = []
    for each in sessions:
        by_type, deleted = caller.counts(each)
        types = ", ".join(counted(count, name) for name, count in by_type.items())
        memories = _count(sum(by_type.values()), "memory", "memories")
        lines.append(f"- {each.id}: {memories} ({types or 'none'}), {deleted} in the trash")
    return lines


def _count(number: int, one: str, many: str = "") -> str:
    return f"1 {one}" if number == 1 else f"{number:,} {many or one + 's'}"


# -- formats of a memory


def _item(record: Record, **more: Any) -> dict[str, Any]:
    """A memory as an item of a list: text, author, time and some fields; a long text is cut."""
    given = record.given
    item = {
        "id": record.ref,
        "type": record.type,
        "created": to_text(record.created),
        "author": record.author,
        "text": memory_text(record),
        "rationale": given.get("rationale"),
        "severity": given.get("severity"),
        "status": getattr(record, "status", None) if KINDS[record.type].statuses else None,
        "topic": record.topic,
        "tags": record.tags or None,
        "valid": validity_text(given) or None,
        **more,
    }
    item = {name: value if name in _NOT_TEXTS else _text(value) for name, value in item.items() if value is not None}
    return cut_text(item, MOST_CHARACTERS)


def memory_text(record: Record) -> str:
    """The text of a memory; of an agent's state or a preference its value."""
    name, content = name_and_content(record)
    text = _text(content)
    return f"{name}: {text}" if name and text != name else text


def _text(value: Any) -> str:
    return value if isinstance(value, str) else "" if value is None else json.dumps(value, ensure_ascii=False)


def _line(item: dict[str, Any]) -> str:
    by = f" by {one_line(item['author'])}" if item.get("author") else ""
    replaced = f"superseded by {item['superseded_by']}" if item.get("superseded_by") else None
    repeats = f"repeats {item['repeats']}" if item.get("repeats") else None
    facts = (item.get("severity"), item.get("status"), item.get("valid"), replaced, repeats)
    words = [*facts, *(f"#{tag}" for tag in item.get("tags", ()))]
    marks = " ".join(one_line(str(word)) for word in words if word)
    why = f" — because: {one_line(item['rationale'])[:300]}" if item.get("rationale") else ""
    return f"- {item['id']} {item['created'][:10]} {item['type']}{by}{f' ({marks})' if marks else ''}: {one_line(item['text'])}{why}"


def memory_line(record: Record) -> str:
    """A memory on one line."""
    return _line(cut_text(_item(record), 300))


def _all_fields(caller: Caller, record: Record, given: arguments.GetArguments) -> dict[str, Any]:
    """All fields of a memory, with its text under `text`."""
    data = record.to_dict()
    data.pop(KINDS[record.type].text, None)
    fields: dict[str, Any] = {"id": record.ref, "type": record.type, "text": memory_text(record)}
    fields |= {name: value for name, value in data.items() if name not in fields and value not in ([], False, None)}
    if given.related:
        neighbours = search.related.find_related(
            caller.scope(record.session, all_by_default=False), record.id, 1, None, {}
        )
        fields["related"] = [
            {"id": each.record.ref, "kind": each.kind, "text": cut_text(_item(each.record), 200)["text"]}
            for each in neighbours
        ]
    if given.history:
        fields["history"] = caller.agent(caller.session(record.session)).history(record.id)
    return fields


def _field_lines(item: dict[str, Any]) -> str:
    rest = {name: value for name, value in item.items() if name not in ("id", "type", "text")}
    lines = [f"{name}: {one_line(_text(value))}" for name, value in rest.items()]
    return "\n".join([f"{item['id']} ({item['type']})", *lines, f"text: {item['text']}"])


def _json_tokens(text: str) -> int:
    """The tokens of a text in an answer; as JSON they are never fewer."""
    return count_tokens(json.dumps(text, ensure_ascii=False)) + 20
