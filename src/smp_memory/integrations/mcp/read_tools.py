"""What is known? The tools that read: recall, get, context, overview.

Guarantees: nothing is changed but the note of what was used. Every answer is fenced as recalled data, keeps to its budget, and
names memories by `session/ID`, which the other tools take.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from smp_memory.context.budget import ELLIPSIS, count_tokens, one_line
from smp_memory.errors import InvalidRecord, NotAllowed
from smp_memory.integrations.mcp.answer_budget import (
    AROUND_TOKENS,
    cost_of,
    fitting,
    lines_fitting,
    shortened,
    squeezed,
)
from smp_memory.integrations.mcp.answers import Reply, recalled
from smp_memory.model.record import name_and_content
from smp_memory.model.times import to_text
from smp_memory.model.types import KINDS
from smp_memory.overview.summary import counted
from smp_memory.privacy.fence import inside
from smp_memory.search import api

if TYPE_CHECKING:
    from collections.abc import Iterable

    from smp_memory.integrations.mcp import arguments
    from smp_memory.integrations.mcp.request_context import Caller
    from smp_memory.model.record import Record

_NOT_TEXTS = ("tags", "relevance")
LONGEST_CHARACTERS = 800  # of one memory in a list; `get` gives it whole


def recall(caller: Caller, given: arguments.RecallArguments) -> Reply:
    asked: dict[str, Any] = {
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
        )
        if value
    }
    hits = api.query(
        caller.scope(given.session, all_by_default=True), None, {**asked, "limit": given.limit, "offset": given.offset}
    )
    found = [_item(hit.record, relevance=round(hit.relevance, 3) if given.query else None) for hit in hits]
    items = fitting(found, given.max_tokens, _line)
    more = hits.more or len(items) < len(found)
    after = given.offset + len(items) if more and items else None
    lines = [_line(item) for item in items] or ["Nothing found."]
    if after is not None:
        lines.append(f"(more: offset {after})")
    lines += _not_searched(hits.archived_not_searched)
    if hits.shared_not_searched:
        lines.append(
            f"(not searched: {hits.shared_not_searched:,} for all sessions in global/ or shared/, see context)"
        )
    problems, remarks = caller.context.problem_lines(hits.problems)
    data = {"items": items, "next_offset": after, "not_searched": hits.archived_not_searched or None}
    return recalled({**data, "problems": problems}, "\n".join([*lines, *remarks]))


def _not_searched(archived: int) -> list[str]:
    """That archived sessions were left out; a person can search them."""
    return [f"(not searched: {archived:,} archived, see `smp query --include-archived`)"] if archived else []


def get(caller: Caller, given: arguments.GetArguments) -> Reply:
    records = [caller.record(ref, given.session) for ref in given.ids]
    if given.start and len(records) > 1:
        raise InvalidRecord("start: goes with one id.", field="start")
    left = given.max_tokens - AROUND_TOKENS
    shown: list[dict[str, Any]] = []
    next_start = None
    for record in records:
        data = _whole(caller, record, given)
        text = str(data["text"])[given.start :]
        item = {**data, "text": text} if given.start else data
        cost = cost_of(item, _fields)
        if cost > left and not shown:
            item = squeezed(item, left, _fields)
            if item["text"] != text:
                next_start = given.start + len(item["text"].rstrip(ELLIPSIS))
        elif cost > left:
            break
        shown.append(item)
        left -= cost
    left_out = [record.ref for record in records[len(shown) :]] or None
    lines = [_fields(item) for item in shown]
    lines += [f"(left out, ask again: {', '.join(left_out)})"] if left_out else []
    lines += [f"(the text goes on: start {next_start})"] if next_start is not None else []
    problems, remarks = caller.problem_lines(sorted({record.session for record in records}))
    data = {"memories": shown, "left_out": left_out, "next_start": next_start, "problems": problems}
    return recalled(data, "\n\n".join([*lines, *remarks]))


def context(caller: Caller, given: arguments.ContextArguments) -> Reply:
    from smp_memory.context.builder import context

    fixed = caller.context.author
    if fixed and given.agent not in (None, fixed):
        raise NotAllowed(f"agent: this server was started for {fixed}; leave it out.", field="agent")
    session = caller.session(given.session).id if given.session or caller.memory.latest_session() else None
    made = context(
        caller.memory.scope,
        given.agent or caller.name,
        given.task,
        given.topic,
        session=session,
        max_tokens=given.max_tokens,
        counter=_as_json,
    )
    archived = made.archived_not_searched
    nothing = "\n".join(["Nothing to recall.", *_not_searched(archived)])
    problems, remarks = caller.context.problem_lines(made.problems)
    data = {"text": inside(made.text), "not_searched": archived or None, "problems": problems}
    reply = recalled(data, nothing)
    if made.text:
        reply.text = made.text  # it is fenced already
    reply.text = "\n".join([reply.text, *remarks])
    return reply


def overview(caller: Caller, given: arguments.OverviewArguments) -> Reply:
    scope = caller.scope(given.session or caller.context.default_session or caller.session().id, all_by_default=False)
    session = scope.sessions[0] if scope.sessions is not None else None
    lines: Iterable[str]
    if given.what == "summary":
        lines = list(api.summarize(scope))
    elif given.what == "topics":
        lines = [
            f"- {each.name}: {_counted(each.mentions, 'mention')}, last {to_text(each.last)[:10]}"
            for each in api.topics(scope)
        ]
    elif given.what == "agents":
        lines = [f"- {each.name} ({each.kind}): {_counted(each.memories, 'memory', 'memories')}, last {to_text(each.last)[:10]}" for each in api.agents(scope)]  # fmt: skip
    elif given.what == "timeline":
        events = list(api.timeline(scope, "day", given.time, None, None))
        lines = [f"- {to_text(each.time)[:16]} {each.id}: {one_line(each.text)[:200]}" for each in reversed(events)]
    else:
        lines = _figures(caller, session)
    chosen, cut = lines_fitting(map(one_line, lines), given.max_tokens)
    text = "\n".join(chosen) or "Nothing yet."
    problems, remarks = caller.problem_lines(scope.sessions)
    more = ["(more: raise max_tokens)"] if cut else []
    return recalled({"text": text, "cut": cut or None, "problems": problems}, "\n".join([text, *more, *remarks]))


def _figures(caller: Caller, session: str | None) -> list[str]:
    """Counts of what the caller may see. Sizes of files are left out, because hidden memories are part of them."""
    sessions = [caller.session(session)] if session else caller.memory.sessions()
    lines = []
    for each in sessions:
        by_type, deleted = caller.counts(each)
        types = ", ".join(counted(count, name) for name, count in by_type.items())
        memories = _counted(sum(by_type.values()), "memory", "memories")
        lines.append(f"- {each.id}: {memories} ({types or 'none'}), {deleted} in the trash")
    return lines


def _counted(number: int, one: str, many: str = "") -> str:
    return f"1 {one}" if number == 1 else f"{number:,} {many or one + 's'}"


# -- how a memory is shown


def _item(record: Record, **more: Any) -> dict[str, Any]:
    """A memory in a list: what it says, by whom and when; long texts cut."""
    given = record.given
    item = {
        "id": record.ref,
        "type": record.type,
        "created": to_text(record.created),
        "author": record.author,
        "text": said(record),
        "rationale": given.get("rationale"),
        "severity": given.get("severity"),
        "status": getattr(record, "status", None) if KINDS[record.type].statuses else None,
        "topic": record.topic,
        "tags": record.tags or None,
        **more,
    }
    item = {name: value if name in _NOT_TEXTS else _text(value) for name, value in item.items() if value is not None}
    return shortened(item, LONGEST_CHARACTERS)


def said(record: Record) -> str:
    """What a memory says, in a text."""
    name, content = name_and_content(record)
    text = _text(content)
    return f"{name}: {text}" if name and text != name else text


def _text(value: Any) -> str:
    return value if isinstance(value, str) else "" if value is None else json.dumps(value, ensure_ascii=False)


def _line(item: dict[str, Any]) -> str:
    by = f" by {one_line(item['author'])}" if item.get("author") else ""
    words = [item.get("severity"), item.get("status"), *(f"#{tag}" for tag in item.get("tags", ()))]
    marks = " ".join(one_line(str(word)) for word in words if word)
    why = f" — because: {one_line(item['rationale'])[:300]}" if item.get("rationale") else ""
    return f"- {item['id']} {item['created'][:10]} {item['type']}{by}{f' ({marks})' if marks else ''}: {one_line(item['text'])}{why}"


def line_of(record: Record) -> str:
    """A memory on a line."""
    return _line(shortened(_item(record), 300))


def _whole(caller: Caller, record: Record, given: arguments.GetArguments) -> dict[str, Any]:
    """All of a memory, with its text under `text`."""
    data = record.to_dict()
    data.pop(KINDS[record.type].text, None)
    shown: dict[str, Any] = {"id": record.ref, "type": record.type, "text": said(record)}
    shown |= {name: value for name, value in data.items() if name not in shown and value not in ([], False, None)}
    if given.related:
        near = api.find_related(caller.scope(record.session, all_by_default=False), record.id, 1, None, {})
        shown["related"] = [
            {"id": each.record.ref, "kind": each.kind, "text": shortened(_item(each.record), 200)["text"]}
            for each in near
        ]
    if given.history:
        shown["history"] = caller.agent(caller.session(record.session)).history(record.id)
    return shown


def _fields(item: dict[str, Any]) -> str:
    rest = {name: value for name, value in item.items() if name not in ("id", "type", "text")}
    lines = [f"{name}: {one_line(_text(value))}" for name, value in rest.items()]
    return "\n".join([f"{item['id']} ({item['type']})", *lines, f"text: {item['text']}"])


def _as_json(text: str) -> int:
    """How much a text takes in an answer; as JSON that is never less."""
    return count_tokens(json.dumps(text, ensure_ascii=False)) + 20


def tokens_of(reply: Reply) -> int:
    """How many tokens a reply takes in a prompt, at most."""
    return max(count_tokens(reply.text), count_tokens(json.dumps(reply.data, ensure_ascii=False)))
