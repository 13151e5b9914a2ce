"""The command `told`: what hooks told agents at which prompt."""

from __future__ import annotations

from smp_memory.cli.arguments import ID_HELP, positive_int
from smp_memory.cli.hit_output import display_text
from smp_memory.cli.render import age_text, one_line, paint, plural, truncate
from smp_memory.context.trace import relevance_text
from smp_memory.errors import UserError
from smp_memory.integrations.hooks.told import MOST_SHOWN, counts_of, shown_events
from smp_memory.model.session_info import full_session_name, short_names
from smp_memory.model.told_log import told_events

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from smp_memory.cli.arguments import Parser
    from smp_memory.cli.invocation import Invocation
    from smp_memory.integrations.hooks.told import ShownEvent, ShownMemory
    from smp_memory.integrations.hooks.verdict import RecallVerdict
    from smp_memory.model.record import Record

_NEWEST = 20
_PIPE_COLUMNS = 240


def told_arguments(parser: Parser) -> None:
    parser.default_session = "all of them"
    parser.add_argument("id", metavar="ID", nargs="?", help=f"only when this memory was told: {ID_HELP}")
    parser.add_argument("--limit", type=positive_int, metavar="N", default=_NEWEST, help=f"the newest N (default: {_NEWEST})")  # fmt: skip

    parser.add_argument("--prompt", metavar="TEXT", help="say whether the memory would be told at this prompt now, why, and what would change that")  # fmt: skip


def run_told(call: Invocation) -> None:
    """Show what hooks told agents: each prompt with the memories that were told or pointed at, the newest last.

    The number after a memory is its relevance to the prompt. The log contains only ids; `smp config set hooks.log_told false` turns it off.

    Examples:
      smp told
      smp told DEC-0001
      smp told DEC-0001 --prompt "which database do we use?"
      smp told --session claude-code-2026-01-31-5f0c1a7e --limit 5
    """
    options = call.options
    session = full_session_name(call.session_name, call.memory.store.sessions()) if call.session_name else None
    record = _record_of(call, options.id) if options.id else None
    if options.prompt is not None:
        _tell_verdict(call, record, options.prompt, session if session != getattr(record, "session", None) else None)
        return
    ref = record.ref if record is not None else None
    in_session = None if ref else session
    events = shown_events(call.memory, limit=options.limit, ref=ref, session=in_session)
    data = [event.to_dict() for event in events] if options.json else None
    call.answer(data, _lines(call, events, ref), newest_last=True)


def _record_of(call: Invocation, reference: str) -> Record:
    session, memory_id = call.resolve(reference)
    return call.record(f"{session.id}/{memory_id}", include_deleted=True)


def _tell_verdict(call: Invocation, record: Record | None, prompt: str, session: str | None) -> None:
    from smp_memory.integrations.hooks.verdict import verdict

    if record is None:
        raise UserError('Name the memory: smp told DEC-0001 --prompt "…"')
    found = verdict(call.memory, record, prompt, session=session)
    call.answer(found.to_dict(), _verdict_lines(found))


def _verdict_lines(found: RecallVerdict) -> Iterator[str]:
    yield f"{paint('bold', found.answer.capitalize())}: {paint('cyan', found.ref)}"
    yield f"  {one_line(found.reason)}"
    if found.relevance is not None:
        relevance = relevance_text(found.relevance, found.min_relevance)
        yield f"  Relevance {relevance}; told at {found.min_relevance:g} or more, pointed at with {found.min_pointer:g} or more"
    if found.change:
        yield f"  {one_line(found.change)}"


def _lines(call: Invocation, events: list[ShownEvent], ref: str | None) -> Iterator[str]:
    if not events:
        what = f"{ref} was not told" if ref else "Hooks told nothing"
        why = "" if call.memory.config["hooks.log_told"] else " The log is off: smp config set hooks.log_told true"
        yield f"{what} since the log began.{why}"
        return
    names = short_names(event.event.session for event in events)
    columns = call.screen.width or _PIPE_COLUMNS
    now = call.memory.now()
    for event in reversed(events):
        age = age_text((now - event.event.when).total_seconds())
        about = [event.title, event.event.client, names[event.event.session], plural(event.event.tokens, "token")]
        yield truncate(f"{paint('cyan', age)}  {', '.join(about)}", columns)
        if event.prompt is not None:
            yield truncate(f"  “{one_line(event.prompt.text)}”", columns)
        elif event.without_prompt:
            yield paint("dim", f"  (prompt {event.without_prompt})")
        shown = [each for each in event.memories if ref in (None, each.ref)]
        yield from (_memory_line(each, columns) for each in shown[:MOST_SHOWN])
        if len(shown) > MOST_SHOWN:
            yield paint("dim", f"    and {len(shown) - MOST_SHOWN} more: --json")
        if not event.memories:
            yield paint("dim", "    told no memory, only a notice of SMP" if event.event.tokens else "    told nothing")
        yield ""
    yield paint("dim", _footer(call, events, ref))


def _memory_line(each: ShownMemory, columns: int) -> str:
    start = f"    {'points at' if each.is_pointer else 'told':9}  "
    text = one_line(display_text(each.record)) if each.record is not None else "(erased, deleted or archived)"
    session, _, memory_id = each.ref.rpartition("/")
    name = f"{short_names([session])[session]}/{memory_id}" if each.ref else ""
    relevance = "" if each.relevance is None else f"  {each.relevance:.2f}"
    room = max(columns - len(start) - len(name) - len(relevance) - 2, 20)
    return f"{start}{truncate(text, room)}  {paint('cyan', name)}{relevance}".rstrip()


def _footer(call: Invocation, events: list[ShownEvent], ref: str | None) -> str:
    if ref is None:
        return f"The newest {plural(len(events), 'event')}, newest last. More: --limit N"
    told, pointed = counts_of(told_events(call.memory.store.state, ref=ref), ref)
    parts = [f"told {plural(told, 'time')}" if told else "", f"pointed at {plural(pointed, 'time')}" if pointed else ""]
    last = age_text((call.memory.now() - events[0].event.when).total_seconds())
    return f"{ref}: {', '.join(part for part in parts if part)}, last {last}"
