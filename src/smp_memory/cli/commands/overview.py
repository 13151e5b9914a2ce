"""Commands that give an overview: topics, timeline, agents, summary, index."""

from __future__ import annotations

from smp_memory.cli.arguments import add_scope
from smp_memory.cli.hit_output import display_text
from smp_memory.cli.render import bar, one_line, paint, plural, safe, table, time_text, truncate, value_text, wrap
from smp_memory.lifecycle.session_titles import session_title
from smp_memory.model.session_info import short_names
from smp_memory.session import SessionMemory

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from typing import Any

    from smp_memory.cli.arguments import Parser
    from smp_memory.cli.invocation import Invocation

_MAX_EVENTS = 8  # of an hour or day
_PIPE_COLUMNS = 240


def _arguments(parser: Parser) -> None:
    add_scope(parser)
    parser.add_argument("--yaml", action="store_true", help="print YAML, as in the overview files of the markdown layout")  # fmt: skip


def _answer(call: Invocation, overview: Any, lines: Iterable[str], title: str = "") -> None:
    if not call.options.yaml or call.options.json:
        unread = {"problems": [each.to_dict() for each in overview.problems]} if overview.problems else {}
        titled = {"title": title} if title else {}
        shown = [paint("bold", one_line(title)), *lines] if title else lines
        call.answer({**overview.to_dict(), **titled, "scope": call.scope_data, **unread}, _with_scope(call, shown))
        return
    from smp_memory.files.yaml_text import emit_mapping

    call.answer(None, (emit_mapping(overview.to_dict()) or "{}").splitlines())


def _with_scope(call: Invocation, lines: Iterable[str]) -> Iterator[str]:
    if not call.memory.store.sessions(limit=1):
        yield call.no_session_message()
        return
    yield from lines
    yield paint("dim", f"Of {call.scope_text}.")


# -- topics


topics_arguments = _arguments


def run_topics(call: Invocation) -> None:
    """Show topics and tags, those with the largest weight first.

    Examples:
      smp topics
      smp topics --session shop --yaml
    """
    topics = call.read_scope.topics()
    _answer(call, topics, _topic_table(call, list(topics)))


def _topic_table(call: Invocation, topics: list[Any]) -> Iterator[str]:
    if not topics:
        yield "No memory has a topic or a tag yet. To add some: smp add finding TEXT --topic login --tag security"
        return
    rows = [
        (
            f"{bar(topic.weight, 10)} {topic.weight:4.2f}",
            paint("cyan", topic.name),
            f"{topic.mentions:,}",
            str(topic.last)[:10],
            ", ".join(topic.subtopics),
        )
        for topic in topics
    ]
    yield from table(("weight", "topic", ">memories", "last (UTC)", "subtopics"), rows, call.screen.width)
    yield ""
    yield paint("dim", f"Memories of a topic: smp query --topic {value_text(topics[0].name)}")


# -- index


index_arguments = add_scope


def run_index(call: Invocation) -> None:
    """Print a lookup index of a session as JSON, in the form of index.json of the original designs.

    It is built on request; SMP neither keeps nor reads an index.json.

    Examples:
      smp index --json
      smp index --session shop
    """
    import json

    from smp_memory import search

    session = call.session()
    found = search.overviews.lookup_index(session.scope, session.id)
    call.answer(found, json.dumps(found, ensure_ascii=False, indent=2).splitlines())


# -- timeline


def timeline_arguments(parser: Parser) -> None:
    parser.add_argument("--per", choices=("hour", "day"), default="hour", help="the length of a period (default: hour)")
    parser.add_argument("--since", metavar="TIME", help="from then on: 2026-01-31, 2026-01-31T14:30:00Z")
    parser.add_argument("--until", metavar="TIME", help="before then")
    _arguments(parser)


def run_timeline(call: Invocation) -> None:
    """Show memories by hour or by day, oldest first.

    Examples:
      smp timeline
      smp timeline --per day --session shop
      smp timeline --since 2026-01-31 --until 2026-02-01 --json
    """
    options = call.options
    period = {name: getattr(options, name) for name in ("since", "until") if getattr(options, name)}
    timeline = call.read_scope.timeline(by=options.per, **period)
    _answer(call, timeline, _timeline_lines(call, timeline))


def _timeline_lines(call: Invocation, timeline: Any) -> Iterator[str]:
    if not timeline.buckets:
        yield "There are no memories in this period."
        return
    most = max(map(len, timeline.buckets.values()))
    events = iter(timeline)
    names = {} if call.screen.width is None else short_names(event.record["session"] for event in timeline)
    columns = call.screen.width or _PIPE_COLUMNS
    for name, ids in timeline.buckets.items():
        count = plural(len(ids), "memory")
        room = max(min(24, columns - len(name) - len(count) - 4), 4)
        yield f"{paint('bold', name.replace('T', ' '))}  {bar(len(ids) / most, room)}  {count}"
        bucket = [next(events) for _ in ids]
        for event in bucket[:_MAX_EVENTS]:
            yield _event_line(event, names, call.screen.width)
        if len(bucket) > _MAX_EVENTS:
            yield paint("dim", f"  … and {len(bucket) - _MAX_EVENTS:,} more: --json")


def _event_line(event: Any, names: dict[str, str], columns: int | None) -> str:
    when = time_text(event.record["created"])[11:]
    severity = f"  {paint('yellow', one_line(event.severity))}" if event.severity else ""
    session, slash, id = event.id.rpartition("/")
    header = f"  {paint('dim', when)}  {paint('cyan', f'{names.get(session, session)}{slash}{id}')}  {one_line(event.author)}{severity}"
    return truncate(safe(f"{header}  {one_line(display_text(event.record))}"), columns or _PIPE_COLUMNS)


# -- agents


agents_arguments = _arguments


def run_agents(call: Invocation) -> None:
    """Show the authors, those with most memories first: counts, last write, topics.

    Examples:
      smp agents
      smp agents --session shop --json
    """
    agents = call.read_scope.agents()
    _answer(call, agents, _agent_table(call, list(agents)))


def _agent_table(call: Invocation, agents: list[Any]) -> Iterator[str]:
    if not agents:
        yield "There are no memories yet."
        return
    most = max(agent.memories for agent in agents)
    rows = [
        (
            paint("cyan", agent.name),
            agent.kind,
            f"{bar(agent.memories / most, 10)} {agent.memories:,}",
            f"{agent.messages:,}",
            str(agent.last)[:16],
            ", ".join(agent.topics),
        )
        for agent in agents
    ]
    yield from table(("name", "kind", "memories", ">turns", "last (UTC)", "topics"), rows, call.screen.width)
    yield ""
    yield paint("dim", f"Memories of an author: smp query --agent {value_text(agents[0].name)}")


# -- summary


summary_arguments = _arguments


def run_summary(call: Invocation) -> None:
    """Show the most important memories on one page: active decisions, open findings, preferences, topics, counts.

    It consists of texts of the memories themselves; no text is generated.

    Examples:
      smp summary
      smp summary --session shop --json
    """
    scope = call.read_scope
    summary = scope.summarize()
    title = session_title(call.memory.store, scope.id) if isinstance(scope, SessionMemory) else ""
    _answer(call, summary, _summary_lines(str(summary), call.screen.width), title)


def _summary_lines(text: str, columns: int | None) -> Iterator[str]:
    """Wrapped lines with bold headings; all other lines begin with a dash or end in a full stop."""
    for line in text.splitlines():
        if line and not line.startswith("-") and not line.endswith("."):
            yield paint("bold", line)
            continue
        first, *others = wrap(line, None if columns is None else max(20, columns - 2))
        yield first
        yield from (f"  {other}" for other in others)
