"""Finding memories: query, similar, related, watch, priority."""

from __future__ import annotations

from smp_memory.cli.hit_output import (
    Highlighter,
    all_parts,
    arrival,
    hit_lines,
    not_searched,
    shared_not_searched,
    tree,
)
from smp_memory.cli.query_options import add_filters, add_page, add_steps, add_words, asked_of, loosened, words_of
from smp_memory.cli.render import bar, bars, paint, plural, time_text
from smp_memory.errors import UserError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from smp_memory.cli.arguments import Parser
    from smp_memory.cli.invocation import Call
    from smp_memory.cli.query_options import Ask, Asked
    from smp_memory.model.hits import Hit, Hits
    from smp_memory.model.record import Record

_ID_HELP = "DEC-0001, or session/DEC-0001 for one of another session"
_MOST_COUNTS = 20
_AHEAD_DAYS = (7, 30, 90, 365)


# -- query


def query_arguments(parser: Parser) -> None:
    add_words(parser)
    add_filters(parser)
    add_page(parser)


def run_query(call: Call) -> None:
    """Find memories, best first, over all sessions or the one named with --session.

    Write the words as they come, in any order. Any word may match, rare ones count more, and a memory that says more of
    them comes first. Without words the newest come first.

    'auth*'           words that begin so
    '"rate limit"'    these words in this order; mind both pairs of quotes
    -draft            only what does not say this; also behind --

    Nothing found is an answer, too: the exit code is 0, and you are told what to leave out.

    Examples:
      smp query which database did we choose
      smp query login -draft --type finding,decision --time "last week"
      smp query --where severity=critical --where status=open --sort oldest
      smp query '"rate limit"' --explain
      smp query --agent veritas --count-by type,tag --limit 0
      smp query --related-to DEC-0001 --depth 2 --json
    """
    words = words_of(call)
    _answer(call, lambda who, asked: who.query(words or None, **asked), words)


def _answer(call: Call, ask: Ask, words: str) -> None:
    asked = asked_of(call)
    with call.waiting("Making the index from the files …"):
        hits = ask(call.asked, asked)
    data: dict[str, Any] = {"hits": [hit.to_dict() for hit in hits], "more": hits.more, "counts": hits.counts}
    if hits.left_out:
        data["left_out"] = [each._asdict() for each in hits.left_out]
    if hits.archived_not_searched:
        data["archived_not_searched"] = hits.archived_not_searched
    if hits.shared_not_searched:
        data["shared_not_searched"] = hits.shared_not_searched
    if hits.problems:
        data["problems"] = [each.to_dict() for each in hits.problems]
    if hits.warnings:
        data["warnings"] = hits.warnings
    call.answer(data, _told(call, hits, asked, ask, words))


def _told(call: Call, hits: Hits, asked: Asked, ask: Ask, words: str) -> Iterator[str]:
    options, bare = call.options, call.is_one_session
    meanings = options.mode in (None, "default")
    explain = all_parts if options.explain else None
    yield from hit_lines(hits, words, call.screen.width, bare=bare, explain=explain, meanings=meanings)
    for number, (by, counts) in enumerate(hits.counts.items()):
        if hits or number:
            yield ""
        yield from _counts(by, counts, call.screen.width)
    if hits:
        yield from _next_steps(hits, asked)
    elif not any(hits.counts.values()):
        yield from _nothing(call, asked, ask, words)
    if hits.archived_not_searched:
        yield paint("dim", f"{not_searched(hits.archived_not_searched)} Search them, too: --include-archived")
    if hits.shared_not_searched:
        yield paint("dim", shared_not_searched(hits.shared_not_searched))


def _counts(by: str, counts: dict[str, int], columns: int | None) -> Iterator[str]:
    most = dict(list(counts.items())[:_MOST_COUNTS])
    yield f"{paint('bold', f'By {by}')}"
    yield from bars(most, lambda number: f"{number:,}", columns)
    if len(counts) > len(most):
        yield f"  … and {len(counts) - len(most):,} more: --json"


def _next_steps(hits: Hits, asked: Asked) -> Iterator[str]:
    yield ""
    if hits.more:
        yield paint("dim", f"There is more: --offset {asked.get('offset', 0) + len(hits)}, or a larger --limit")
    first = next((hit for hit in hits if not hit.archived), hits[0])
    if not first.archived:
        told = f"Read one whole: smp show {first.record.ref}"
    elif first.archived.endswith(".tar.gz"):
        told = f"Bring its session back: smp session restore {first.record.session}"
    else:
        told = f"Bring one back: smp restore {first.record.ref}"
    yield paint("dim", told)


def _nothing(call: Call, asked: Asked, ask: Ask, words: str) -> Iterator[str]:
    where = f"in {call.memory.root}" if call.asked is call.memory else f"in session {call.session_name}"
    yield f"Nothing found {where}."
    ways = list(loosened(call, asked, ask, words))
    for option, number in ways:
        yield f"  without {option}: {number}"
    if not ways and words:
        known = "No memory" if asked.get("include_archived") else "No memory of the sessions in use"
        yield f"{known} has any of these words. Try others, or a beginning: 'auth*'"
    elif not ways and not asked.get("offset"):
        yield 'There is no memory yet. Add one: smp note "Login has no rate limit"'


# -- similar


def similar_arguments(parser: Parser) -> None:
    add_words(parser)
    add_filters(parser)
    add_page(parser)


def run_similar(call: Call) -> None:
    """Find memories that say much the same as a text, or as the memory with an id.

    Examples:
      smp similar DEC-0001
      smp similar shop/FIND-0003 --type finding
      smp similar the login form can be tried again and again
    """
    from smp_memory.index.tokens import without_signs

    words = words_of(call)
    if not words:
        raise UserError("Give a text or the id of a memory. See: smp similar --help")
    record = _meant(call, words)
    text = without_signs(record.text if record is not None else words)
    _answer(call, lambda who, asked: who.find_similar(record or words, **asked), text)


def _meant(call: Call, words: str) -> Record | None:
    """The memory, if the words are an id. One that looks like `DEC-0001` must be there."""
    import re

    if re.fullmatch(r"([\w.-]+/)?[A-Z]+-\d+", words):
        return call.record(words)
    if not re.fullmatch(r"([\w.-]+/)?[\w.-]+", words):
        return None
    from smp_memory.errors import SMPError

    try:
        return call.record(words)
    except SMPError:
        return None


# -- related


def related_arguments(parser: Parser) -> None:
    parser.add_argument("id", metavar="ID", help=_ID_HELP)
    add_steps(parser.add_argument, used_by="")


def run_related(call: Call) -> None:
    """Draw what a memory is connected with: what it points to, and what points to it, in any session.

    → resolves says that the upper memory resolves the lower one, ← that the lower one resolves the upper one.

    Examples:
      smp related DEC-0002
      smp related shop/FIND-0001 --depth 3
      smp related DEC-0002 --kind resolves,supersedes --json
    """
    record = call.record(call.options.id, include_deleted=True)
    session = call.memory.session(record.session)
    near = session.find_related(record.id, call.options.depth or 1, call.options.kinds)
    data = {"id": record.ref, "related": [each.to_dict() for each in near]}
    call.answer(data, _connected(call, record, near))


def _connected(call: Call, record: Record, near: list[Any]) -> Iterator[str]:
    bare = all(each.record.session == record.session for each in near) and "/" not in call.options.id
    yield from tree(record, near, call.screen.width, bare=bare)
    if not near:
        yield paint("dim", f"Nothing is connected with it. smp relate {record.id} OTHER-ID --kind resolves does that.")


# -- watch


def watch_arguments(parser: Parser) -> None:
    add_words(parser)
    add_filters(parser)
    parser.add_argument("--for", type=float, dest="seconds", metavar="SECONDS", help="end after so many seconds")


def run_watch(call: Call) -> None:
    """Print memories that match as any process writes them, a line for each, until Ctrl-C or for some seconds.

    With --json each line is one JSON object. What is there already is not printed.

    Examples:
      smp watch
      smp watch login --type finding --session shop
      smp watch --where severity=critical --json --for 60
    """
    try:
        words, bare = words_of(call), call.is_one_session
        arrivals = call.asked.watch(words or None, timeout=call.options.seconds, **asked_of(call))
        if not call.options.json:
            call.remark(paint("dim", f"Watching {call.memory.root}. Ctrl-C ends."))
        _print_each(call, arrivals, Highlighter(words), bare)
    except KeyboardInterrupt:
        pass  # this is how it ends


def _print_each(call: Call, arrivals: Iterator[Hit], words: Highlighter, bare: bool) -> None:
    for hit in arrivals:
        if call.options.json:
            call.screen.json(hit.to_dict(), on_one_line=True)
        else:
            call.screen.line(arrival(hit, words, call.screen.width, bare))
        call.screen.flush()


# -- priority


def priority_arguments(parser: Parser) -> None:
    parser.add_argument("id", metavar="ID", help=_ID_HELP)
    parser.add_argument("--at", metavar="TIME", help="at this time instead of now: 2026-12-24")


def run_priority(call: Call) -> None:
    """Show how present a memory is, from 0 to 1, and how it will fade if nobody uses it.

    Pinned memories do not fade. `smp config decay.policy` says by which rule the others do.

    Examples:
      smp priority DEC-0001
      smp priority shop/FIND-0003 --at 2026-12-24
    """
    record = call.record(call.options.id)
    session = call.memory.session(record.session)
    times = {"now": call.options.at or call.memory.now(), **(_ahead(call) if not call.options.at else {})}
    steps = [{"at": _time(at), "priority": session.priority(record.id, at)} for at in times.values()]
    data = {"id": record.id, "session": record.session, **steps[0], "ahead": steps[1:]}
    names = [f"at {call.options.at}" if call.options.at else "now", *list(times)[1:]]
    call.answer(data, _fading(record, list(zip(names, steps, strict=True))))


def _ahead(call: Call) -> dict[str, Any]:
    from datetime import timedelta

    return {f"in {plural(days, 'day')}": call.memory.now() + timedelta(days=days) for days in _AHEAD_DAYS}


def _time(at: Any) -> str:
    from smp_memory.model.times import parse

    return parse(at, "at")


def _fading(record: Record, steps: list[tuple[str, dict[str, Any]]]) -> Iterator[str]:
    pinned = "  " + paint("yellow", "pinned") if record.pinned else ""
    yield f"{paint('bold', record.ref)}  {record.type} of {time_text(record['created'])[:10]}{pinned}"
    widest = max(len(name) for name, _ in steps)
    for name, step in steps:
        yield f"  {name:{widest}}  {bar(step['priority'])}  {step['priority']:.2f}"
