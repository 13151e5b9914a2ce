"""What is there, all in all: topics, timeline, agents, summary."""

from __future__ import annotations

from smp_memory.cli.commands.read import gist
from smp_memory.cli.render import bar, cut, one_line, paint, plural, safe, table, time_text, value_text, wrapped

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from typing import Any

    from smp_memory.cli.arguments import Parser
    from smp_memory.cli.invocation import Call
    from smp_memory.memory import Memory
    from smp_memory.session import SessionMemory

_SHOWN_EVENTS = 8
_PIPE_COLUMNS = 240


def _arguments(parser: Parser) -> None:
    parser.add_argument("--all", action="store_true", help="all sessions of the store")
    parser.add_argument("--yaml", action="store_true", help="print it as YAML, as the files of the markdown layout have it")  # fmt: skip


def _of(call: Call) -> Memory | SessionMemory:
    return call.memory if call.options.all else call.session()


def _answer(call: Call, overview: Any, lines: Iterable[str]) -> None:
    if not call.options.yaml or call.options.json:
        unread = {"problems": [each.to_dict() for each in overview.problems]} if overview.problems else {}
        call.answer({**overview.to_dict(), **unread}, lines)
        return
    from smp_memory.store.overview_files import to_yaml

    for line in to_yaml(overview).splitlines():
        call.screen.line(line)


# -- topics


def topics_arguments(parser: Parser) -> None:
    _arguments(parser)


def run_topics(call: Call) -> None:
    """Show what a session is about: topics and tags, the weightiest first, with what belongs to them.

    Examples:
      smp topics
      smp topics --all
      smp topics --session shop --yaml
    """
    topics = _of(call).topics()
    _answer(call, topics, _topic_table(call, list(topics)))


def _topic_table(call: Call, topics: list[Any]) -> Iterator[str]:
    if not topics:
        yield "No memory has a topic or a tag yet. Give it some: smp note TEXT --topic login --tag security"
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
    yield from table(("weight", "topic", ">memories", "last (UTC)", "with it"), rows, call.screen.width)
    yield ""
    yield paint("dim", f"Its memories: smp query --topic {value_text(topics[0].name)}")


# -- timeline


def timeline_arguments(parser: Parser) -> None:
    parser.add_argument("--by", choices=("hour", "day"), default="hour", help="in one piece (default: hour)")
    parser.add_argument("--since", metavar="TIME", help="from then on: 2026-01-31, 2026-01-31T14:30:00Z")
    parser.add_argument("--until", metavar="TIME", help="before then")
    _arguments(parser)


def run_timeline(call: Call) -> None:
    """Show what happened when, oldest first, by hour or by day.

    Examples:
      smp timeline
      smp timeline --by day --all
      smp timeline --since 2026-01-31 --until 2026-02-01 --json
    """
    options = call.options
    asked = {name: getattr(options, name) for name in ("since", "until") if getattr(options, name)}
    timeline = _of(call).timeline(by=options.by, **asked)
    _answer(call, timeline, _buckets(call, timeline))


def _buckets(call: Call, timeline: Any) -> Iterator[str]:
    if not timeline.buckets:
        yield "Nothing happened."
        return
    most = max(map(len, timeline.buckets.values()))
    events = iter(timeline)
    for name, ids in timeline.buckets.items():
        yield f"{paint('bold', name.replace('T', ' '))}  {bar(len(ids) / most)}  {plural(len(ids), 'memory')}"
        own = [next(events) for _ in ids]
        for event in own[:_SHOWN_EVENTS]:
            yield _event_line(event, call.screen.width)
        if len(own) > _SHOWN_EVENTS:
            yield paint("dim", f"  … and {len(own) - _SHOWN_EVENTS:,} more: --json")


def _event_line(event: Any, columns: int | None) -> str:
    when = time_text(event.record["created"])[11:]
    severity = f"  {paint('yellow', one_line(event.severity))}" if event.severity else ""
    head = f"  {paint('dim', when)}  {paint('cyan', event.id)}  {one_line(event.author)}{severity}"
    return cut(safe(f"{head}  {one_line(gist(event.record))}"), columns or _PIPE_COLUMNS)


# -- agents


def agents_arguments(parser: Parser) -> None:
    _arguments(parser)


def run_agents(call: Call) -> None:
    """Show who took part, the busiest first: how much they wrote, when last, and about what.

    Examples:
      smp agents
      smp agents --all --json
    """
    agents = _of(call).agents()
    _answer(call, agents, _agent_table(call, list(agents)))


def _agent_table(call: Call, agents: list[Any]) -> Iterator[str]:
    if not agents:
        yield "Nobody wrote anything yet."
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
    yield from table(("name", "kind", "memories", ">turns", "last (UTC)", "about"), rows, call.screen.width)
    yield ""
    yield paint("dim", f"What they wrote: smp query --agent {value_text(agents[0].name)}")


# -- summary


def summary_arguments(parser: Parser) -> None:
    _arguments(parser)


def run_summary(call: Call) -> None:
    """Show what matters in a session on a page: decisions that stand, open findings, preferences, topics, figures.

    It is taken from the memories themselves; nothing is made up.

    Examples:
      smp summary
      smp summary --session shop --json
      smp summary --all
    """
    summary = _of(call).summarize()
    _answer(call, summary, _page(str(summary), call.screen.width))


def _page(text: str, columns: int | None) -> Iterator[str]:
    """Its lines, long ones on several; chapters stand out: all else begins with a dash or ends in a full stop."""
    for line in text.splitlines():
        if line and not line.startswith("-") and not line.endswith("."):
            yield paint("bold", line)
            continue
        first, *others = wrapped(line, None if columns is None else max(20, columns - 2))
        yield first
        yield from (f"  {other}" for other in others)
