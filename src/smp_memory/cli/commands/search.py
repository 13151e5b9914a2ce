"""Commands that search: query, similar, related, watch, priority."""

from __future__ import annotations

from smp_memory.cli.arguments import (
    ID_HELP,
    add_filters,
    add_relation_options,
    add_result_options,
    add_words,
    query_from,
    relaxed_counts,
    words_from,
)
from smp_memory.cli.hit_output import (
    Highlighter,
    archived_not_searched,
    corrections,
    explanation_lines,
    hit_lines,
    not_valid_left_out,
    relation_tree,
    score_parts,
    watch_line,
)
from smp_memory.cli.render import bar, bars, one_line, paint, plural, safe, time_text
from smp_memory.errors import SMPError, UserError
from smp_memory.model.times import parse

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from smp_memory.cli.arguments import Parser, QueryOptions, Search
    from smp_memory.cli.invocation import Invocation
    from smp_memory.model.candidates import Hit, Hits
    from smp_memory.model.record import Record
    from smp_memory.search.explanation import Explanation

_MAX_COUNTS = 20
_FORECAST_DAYS = (7, 30, 90, 365)


# -- query


def query_arguments(parser: Parser) -> None:
    add_words(parser)
    add_filters(parser)
    add_result_options(parser)
    parser.add_argument("--why-not", metavar="REF", help="show at which rank this memory is found, or why it is not")


def run_query(call: Invocation) -> None:
    """Find memories, best first, in all sessions or the one named by --session.

    Give the words in any order. Any word may match, rare words count more, and memories with more of them rank higher.
    Without words the newest come first.

    'auth*'           words with this prefix
    '"rate limit"'    a phrase; mind both pairs of quotes
    -draft            memories without this word; also after --

    If nothing is found, the exit code is 0, and the output names the options to leave out to get results.

    Examples:
      smp query which database did we choose
      smp query login -draft --type finding,decision --time "last week"
      smp query --where severity=critical --where status=open --sort oldest
      smp query '"rate limit"' --explain
      smp query --agent veritas --count-by type,tag --limit 0
      smp query --related-to DEC-0001 --depth 2 --json
      smp query login --type finding --why-not review/DEC-0001
    """
    words = words_from(call)
    if call.options.why_not is not None:
        return _why_not(call, words)
    _answer(call, lambda scope, query: scope.query(words or None, **query), words)


def _why_not(call: Invocation, words: str) -> None:
    session, memory_id = call.resolve(call.options.why_not)
    ref = f"{session.id}/{memory_id}"
    query = query_from(call)
    if call.scope is not call.memory and "sessions" not in query:
        query["sessions"] = [call.session().id]
    found = call.memory.explain(ref, words or None, **query)
    call.answer(found.to_dict(), _explanation_of_one(call, found))


def _explanation_of_one(call: Invocation, found: Explanation) -> Iterator[str]:
    place = f" at rank {found.rank}" if found.rank is not None else ""
    yield f"{paint('cyan', found.ref)} is {'found' if found.found else 'not found'}{place}"
    for reason in found.reasons:
        yield f"  {safe(one_line(reason))}"
    if found.superseded_by is not None and found.found:
        yield f"  superseded by {found.superseded_by}"
    if found.score is not None and found.relevance is not None:
        condition = "" if found.found else ", if it were a candidate"
        yield paint("dim", f"  score {found.score:.2f}, relevance {found.relevance:.2f}{condition}")
        yield from explanation_lines(found.parts, call.screen.width, call.options.mode in (None, "default"))


def _answer(call: Invocation, search: Search, words: str) -> None:
    query = query_from(call)
    hits = search(call.scope, query)
    call.answer(_hits_data(call, hits) if call.options.json else None, _hits_lines(call, hits, query, search, words))


def _hits_data(call: Invocation, hits: Hits) -> dict[str, Any]:
    data: dict[str, Any] = {"hits": [hit.to_dict() for hit in hits], "more": hits.more, "counts": hits.counts}
    data["scope"] = call.scope_data
    if hits.left_out:
        data["left_out"] = [each._asdict() for each in hits.left_out]
    if hits.not_valid:
        data["not_valid"] = hits.not_valid
    if hits.corrected:
        data["corrected"] = hits.corrected
    if hits.archived_not_searched:
        data["archived_not_searched"] = hits.archived_not_searched
    if hits.problems:
        data["problems"] = [each.to_dict() for each in hits.problems]
    if hits.warnings:
        data["warnings"] = hits.warnings
    return data


def _hits_lines(call: Invocation, hits: Hits, query: QueryOptions, search: Search, words: str) -> Iterator[str]:
    options = call.options
    short_ids = len({hit.record.session for hit in hits}) < 2 and call.has_one_session
    has_labels = options.mode in (None, "default")
    explain = score_parts if options.explain else None
    yield from hit_lines(hits, words, call.screen.width, short_ids=short_ids, explain=explain, has_labels=has_labels)
    for number, (by, counts) in enumerate(hits.counts.items()):
        if hits or number:
            yield ""
        yield from _count_lines(by, counts, call.screen.width)
    if hits:
        yield from _next_steps(call, hits, query)
    elif not any(hits.counts.values()) and not hits.not_valid:
        yield from _no_hits_lines(call, query, search, words)
    numbers = [hit.relevance for hit in hits]
    if words and query.get("sort", "relevance") == "relevance" and numbers != sorted(numbers, reverse=True):
        yield paint("dim", "The number is the relevance; the order is by score: --explain")
    if hits.corrected:
        yield paint("dim", safe(one_line(corrections(hits.corrected))))
    if hits.not_valid:
        yield paint("dim", f"{not_valid_left_out(hits.not_valid)} To find them, too: --include-expired")
    if hits.archived_not_searched:
        note = archived_not_searched(hits.archived_not_searched)
        yield paint("dim", f"{note} To search them, too: --include-archived")


def _count_lines(by: str, counts: dict[str, int], columns: int | None) -> Iterator[str]:
    largest = dict(list(counts.items())[:_MAX_COUNTS])
    yield f"{paint('bold', f'By {by}')}"
    yield from bars(largest, lambda number: f"{number:,}", columns)
    if len(counts) > len(largest):
        yield f"  … and {len(counts) - len(largest):,} more: --json"


def _next_steps(call: Invocation, hits: Hits, query: QueryOptions) -> Iterator[str]:
    yield ""
    if hits.more:
        more = f"There are more results: --offset {query.get('offset', 0) + len(hits)}, or a larger --limit"
        yield paint("dim", f"Searched {call.scope_text}. {more}")
    else:
        yield paint("dim", f"Searched {call.scope_text}.")
    first = next((hit for hit in hits if not hit.archived), hits[0])
    if not first.archived:
        step = (
            f"To see all fields of a memory: smp show {first.record.id if call.has_one_session else first.record.ref}"
        )
    elif first.archived.endswith(".tar.gz"):
        step = f"To restore its session: smp session restore {first.record.session}"
    else:
        step = f"To restore a memory: smp restore {first.record.ref}"
    yield paint("dim", step)


def _no_hits_lines(call: Invocation, query: QueryOptions, search: Search, words: str) -> Iterator[str]:
    yield f"No results in {call.scope_text}."
    relaxed = list(relaxed_counts(call, query, search, words))
    for option, number in relaxed:
        yield f"  without {option}: {number}"
    if not relaxed and words:
        scope = "No memory" if query.get("include_archived") else "No memory outside of archives"
        yield f"{scope} matches these words. Try other words, or a prefix: 'auth*'"
    elif not relaxed and not query.get("offset"):
        yield 'There is no memory yet. Add one: smp add finding "Login has no rate limit"'


# -- similar


def similar_arguments(parser: Parser) -> None:
    add_words(parser)
    add_filters(parser)
    add_result_options(parser)


def run_similar(call: Invocation) -> None:
    """Find memories whose text is similar to a given text, or to that of a memory.

    Examples:
      smp similar DEC-0001
      smp similar shop/FIND-0003 --type finding
      smp similar the login form can be tried again and again
    """
    from smp_memory.text.tokenizer import without_signs

    words = words_from(call)
    if not words:
        raise UserError("Give a text or the id of a memory. See: smp similar --help")
    record = _find_record(call, words)
    text = without_signs(record.text if record is not None else words)
    _answer(call, lambda scope, query: scope.find_similar(record or words, **query), text)


def _find_record(call: Invocation, words: str) -> Record | None:
    """The memory if the words are its id, else None; raises for a missing id of the form `DEC-0001`."""
    import re

    if re.fullmatch(r"([\w.-]+/)?[A-Z]+-\d+", words):
        return call.record(words)
    if not re.fullmatch(r"([\w.-]+/)?[\w.-]+", words):
        return None
    try:
        return call.record(words)
    except SMPError:
        return None


# -- related


def related_arguments(parser: Parser) -> None:
    parser.add_argument("id", metavar="ID", help=ID_HELP)
    add_relation_options(parser.add_argument, used_by="")


def run_related(call: Invocation) -> None:
    """Show the memories related to one as a tree: those that it refers to and those that refer to it, in any session.

    → resolves: the upper memory resolves the lower one; ← resolves: the lower one resolves the upper one.

    Examples:
      smp related DEC-0002
      smp related shop/FIND-0001 --depth 3
      smp related DEC-0002 --kind resolves,supersedes --json
    """
    record = call.record(call.options.id, include_deleted=True)
    session = call.memory.session(record.session)
    related = session.find_related(record.id, call.options.depth or 1, call.options.kinds)
    data = {"id": record.ref, "related": [each.to_dict() for each in related]}
    call.answer(data, _related_lines(call, record, related))


def _related_lines(call: Invocation, record: Record, related: list[Any]) -> Iterator[str]:
    short_ids = all(each.record.session == record.session for each in related) and "/" not in call.options.id
    yield from relation_tree(record, related, call.screen.width, short_ids=short_ids)
    if not related:
        yield paint("dim", f"It has no relations. To add one: smp relate {record.id} OTHER-ID --kind resolves")


# -- watch


def watch_arguments(parser: Parser) -> None:
    add_words(parser)
    add_filters(parser)
    parser.add_argument("--for", type=float, dest="seconds", metavar="SECONDS", help="end after this many seconds")


def run_watch(call: Invocation) -> None:
    """Print matching memories as any process writes them, one per line, until Ctrl-C or for some seconds.

    With --json each line is one JSON object. Existing memories are not printed.

    Examples:
      smp watch
      smp watch login --type finding --session shop
      smp watch --where severity=critical --json --for 60
    """
    try:
        words, short_ids = words_from(call), call.has_one_session
        hits = call.scope.watch(words or None, timeout=call.options.seconds, **query_from(call))
        if not call.options.json:
            call.notify(paint("dim", f"Watching {call.scope_text} in {call.memory.root}. Press Ctrl-C to end."))
        _print_each(call, hits, Highlighter(words), short_ids)
    except KeyboardInterrupt:
        pass  # the usual way to end it


def _print_each(call: Invocation, hits: Iterator[Hit], highlighter: Highlighter, short_ids: bool) -> None:
    for hit in hits:
        if call.options.json:
            call.screen.json(hit.to_dict(), on_one_line=True)
        else:
            call.screen.line(watch_line(hit, highlighter, call.screen.width, short_ids))
        call.screen.flush()


# -- priority


def priority_arguments(parser: Parser) -> None:
    parser.add_argument("id", metavar="ID", help=ID_HELP)
    parser.add_argument("--at", metavar="TIME", help="at this time instead of now: 2026-12-24")


def run_priority(call: Invocation) -> None:
    """Show the priority of a memory, from 0 to 1, and how it will decay if nobody uses it.

    Pinned memories do not decay. `smp config get decay.policy` shows the rule for the others.

    Examples:
      smp priority DEC-0001
      smp priority shop/FIND-0003 --at 2026-12-24
    """
    record = call.record(call.options.id)
    session = call.memory.session(record.session)
    times = {"now": call.options.at or call.memory.now(), **(_forecast_times(call) if not call.options.at else {})}
    steps = [{"at": _time(at), "priority": session.priority(record.id, at)} for at in times.values()]
    data = {"id": record.id, "session": record.session, **steps[0], "ahead": steps[1:]}
    names = [f"at {call.options.at}" if call.options.at else "now", *list(times)[1:]]
    call.answer(data, _priority_lines(record, list(zip(names, steps, strict=True))))


def _forecast_times(call: Invocation) -> dict[str, Any]:
    from datetime import timedelta

    return {f"in {plural(days, 'day')}": call.memory.now() + timedelta(days=days) for days in _FORECAST_DAYS}


def _time(at: Any) -> str:
    return parse(at, "at")


def _priority_lines(record: Record, steps: list[tuple[str, dict[str, Any]]]) -> Iterator[str]:
    pinned = "  " + paint("yellow", "pinned") if record.pinned else ""
    yield f"{paint('bold', record.ref)}  {record.type} of {time_text(record['created'])[:10]}{pinned}"
    widest = max(len(name) for name, _ in steps)
    for name, step in steps:
        yield f"  {name:{widest}}  {bar(step['priority'])}  {step['priority']:.2f}"
