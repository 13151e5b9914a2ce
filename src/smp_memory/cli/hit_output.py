"""Output of memories: one on a line, hits with highlighted words, explanations of scores, trees of related memories."""

from __future__ import annotations

import re

from smp_memory.cli.render import (
    bar,
    one_line,
    pad,
    paint,
    plural,
    safe,
    time_text,
    truncate,
    value_text,
    width_of,
    wrap,
)
from smp_memory.model.record import name_and_content
from smp_memory.model.times import validity_text
from smp_memory.model.types import KINDS, SEVERITIES

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from typing import Any

    from smp_memory.model.candidates import Hit, Related
    from smp_memory.model.record import Record

    Spans = list[tuple[int, int]]
    Explain = Callable[[Hit], dict[str, Any]]


def display_text(record: Record) -> str:
    """The content of a memory as one text; of a preference with its key, of an agent's state the state."""
    name, content = name_and_content(record)
    return (f"{value_text(name)}: " if name else "") + value_text("" if content is None else content)


def status_text(record: Record) -> str:
    """Severity, status, the time in which it holds, pin and hand edits, as far as there are any."""
    data = record.given
    is_always_said = KINDS[record.type].is_open_until_closed
    words = [data.get("severity"), record.status if is_always_said else data.get("status")]
    words += [validity_text(data)]
    words += ["pinned"] if record.pinned else []
    words += ["not told to agents"] if record.muted else []
    words += ["edited by hand"] if record.edited else []
    words += ["typed in by hand"] if record.typed_by_hand else []
    return ", ".join(str(word) for word in words if word)


_INDENT = " " * 15  # below the id
_TEXT_LINES, PIPE_COLUMNS = 2, 240
_MAX_SEARCHED = 20_000  # characters of a text in which words are highlighted
_NOT_EXCERPTED = ("id", "session", "type", "created", "updated", "author", "author_kind", "idempotency_key")

SCORE_LABELS = {
    "text": "words in the memory",
    "context": "words in its neighbours",
    "session": "best match in its session",
    "author": "query names its author",
    "time": "query names its time",
    "meaning": "similar meaning",
    "strength": "coverage by the best hit",
    "worth": "short or machine-made",
    "fading": "reduced by decay",
    "session_idle": "reduced, session is idle",
    "settled": "reduced, it is settled",
    "inherited": "match of what it supersedes",
}
_PUNCTUATION = "\"'()[]{}.,;:!?`*"
_FACTORS = ("strength", "worth", "fading", "session_idle", "settled")


# -- highlighting


class Highlighter:
    """Finds the words of a query in a text."""

    def __init__(self, query: str) -> None:
        self._terms: set[str] = set()
        self._matchers: list[Any] = []
        self._loose: list[str] = []
        if query:
            from smp_memory.text.tokenizer import parse
            from smp_memory.text.wildcards import is_loose, term_matcher

            parsed = parse(query)
            self._terms = {*parsed.words, *(term for phrase in parsed.phrases for term in phrase)}
            patterns = (*parsed.patterns, *parsed.characters)
            self._matchers = [term_matcher(pattern) for pattern in patterns if not is_loose(pattern)]
            self._loose = [pattern for pattern in patterns if is_loose(pattern)]

    def spans(self, text: str) -> Spans:
        """Start and end of each match, in order and without overlap."""
        if not self._terms and not self._matchers and not self._loose:
            return []
        found: Spans = []
        for piece in re.finditer(r"\S+", text):
            found += self._spans_in_piece(piece[0], piece.start())
        return found

    def _spans_in_piece(self, piece: str, start: int) -> Spans:
        from smp_memory.text.tokenizer import terms

        if self._loose and self._matches_loosely(piece):
            whole = piece.strip(_PUNCTUATION)
            at = start + piece.find(whole)
            return [(at, at + len(whole))]
        matching = [term for term in terms(piece) if self._matches([term])]
        if not matching:
            return []
        found: Spans = []
        whole = piece.strip(_PUNCTUATION)
        if whole.casefold() in matching:  # `auth_service.py` as a whole
            at = piece.find(whole)
            return [(start + at, start + at + len(whole))]
        for word in re.finditer(r"[^\W_]+", piece):
            parts = terms(word[0])
            if any(len(part) == 2 and not part.isascii() and part in word[0] for part in parts):
                found += self._bigram_spans(word[0], word.start())  # a script without spaces: only the matching part
            elif self._matches(parts):
                found.append(word.span())
        return [(start + first, start + end) for first, end in found]

    def _bigram_spans(self, run: str, start: int) -> Spans:
        found: Spans = []
        for at in range(len(run)):
            is_pair = at + 1 < len(run) and run[at : at + 2] in self._terms
            size = 2 if is_pair else 1 if self._matches([run[at]]) else 0
            if size and found and found[-1][1] >= start + at:
                found[-1] = (found[-1][0], start + at + size)
            elif size:
                found.append((start + at, start + at + size))
        return found

    def _matches_loosely(self, piece: str) -> bool:
        from smp_memory.text.tokenizer import spellings
        from smp_memory.text.wildcards import matches_spelling

        words = spellings(piece)
        return any(matches_spelling(pattern, words) for pattern in self._loose)

    def _matches(self, terms: Iterable[str]) -> bool:
        return any(term in self._terms or any(fits(term) for fits in self._matchers) for term in terms)

    def mark(self, text: str) -> str:
        marked, at = "", 0
        for start, end in self.spans(text):
            marked += text[at:start] + paint("match", text[start:end])
            at = end
        return marked + text[at:]

    def excerpt(self, text: str, columns: int, lines: int) -> list[str]:
        """At most `lines` lines of a text, from its beginning or from the first match if that is further on; highlighted."""
        whole = safe(one_line(text[:_MAX_SEARCHED]))
        spans = self.spans(whole)
        if spans and width_of(whole[: spans[0][1]]) > columns * lines - 4:
            begin = whole.find(" ", max(0, spans[0][0] - columns // 3)) + 1
            whole = "… " + whole[begin if 0 < begin <= spans[0][0] else spans[0][0] :]
        parts = wrap(whole, columns)
        if len(parts) > lines or len(text) > _MAX_SEARCHED:
            parts = [*parts[: lines - 1], truncate(" ".join(parts[lines - 1 : lines + 1]) + " …", columns)]
        return [self.mark(part) for part in parts]


# -- hits


def not_valid_left_out(memories: int) -> str:
    """The note that memories which do not hold now were left out."""
    were = (
        "1 memory that is not valid now was" if memories == 1 else f"{memories:,} memories that are not valid now were"
    )
    return f"{were} left out."


def corrections(corrected: dict[str, str]) -> str:
    """The note that unknown words were taken for typing errors."""
    return f"No memory has {', '.join(corrected)}; searched for {', '.join(corrected.values())}, too."


def archived_not_searched(sessions: int) -> str:
    """The note that archived sessions were left out."""
    were = "1 archived session was" if sessions == 1 else f"{sessions:,} archived sessions were"
    return f"{were} not searched."


def hit_lines(
    hits: Sequence[Hit],
    query: str,
    columns: int | None,
    *,
    short_ids: bool,
    explain: Explain | None = None,
    has_labels: bool = True,
) -> Iterator[str]:
    """For each hit a header, an excerpt, the parts of its relevance if `explain` is given, and related memories.

    `short_ids` prints ids without their session, `has_labels` labels the parts of the default ranking.
    """
    highlighter = Highlighter(query)
    headers = [_header_cells(hit, short_ids) for hit in hits]
    widths = [max(map(width_of, column)) for column in zip(*headers, strict=True)]
    if columns is not None and hits and len(_INDENT) + sum(widths) + 2 * len(widths) - 2 > columns:
        headers = [[cells[0], cells[1][:10], *cells[2:]] for cells in headers]  # too narrow for times: only the date
        widths[1] = 10
    for hit, cells in zip(hits, headers, strict=True):
        name, *others = [pad(cell, widths[at]) for at, cell in enumerate(cells[:4])]
        header = f"{paint('cyan', name)}  {paint('dim', '  '.join(others).rstrip())}"
        if cells[4]:
            header = f"{paint('cyan', name)}  {paint('dim', '  '.join(others))}  {_state(hit.record, cells[4])}"
        line = f"{bar(hit.relevance, 8)} {hit.relevance:4.2f}  {header}"
        yield truncate(line, columns) if columns else line
        yield from _excerpt_lines(hit.record, highlighter, columns)
        if explain is not None:
            yield from explanation_lines(explain(hit), columns, has_labels)
        for record in hit.related:
            yield from _related_line(record, short_ids, columns)


def _header_cells(hit: Hit, short_ids: bool) -> list[str]:
    """Id, time, type, author and state."""
    record = hit.record
    name = record.id if short_ids else record.ref
    when = time_text(record["created"])[:16]
    state = "deleted" if record.deleted else "archived" if hit.archived else status_text(record)
    others = ("superseded by", hit.superseded_by), ("older than", hit.outdated_by), ("repeats", hit.repeats)
    for word, ref in others:
        if ref:
            name_of_other = ref.rpartition("/")[2] if ref.startswith(f"{record.session}/") else ref
            more = f" ({hit.repeats_state})" if word == "repeats" and hit.repeats_state else ""
            state = ", ".join(filter(None, (state, f"{word} {name_of_other}{more}")))
    if hit.echoes:
        state = ", ".join(filter(None, (state, f"said in {plural(len(hit.echoes), 'turn')}")))
    return [safe(one_line(cell)) for cell in (name, when, record.type, value_text(record.author or ""), state)]


def _state(record: Record, text: str) -> str:
    grave = record.deleted or text.startswith(SEVERITIES[:2])
    return paint("red" if grave else "yellow", text) if text else ""


def _excerpt_lines(record: Record, highlighter: Highlighter, columns: int | None) -> Iterator[str]:
    """An excerpt of the text; if the words are not in the text, also of the first field that has them."""
    width = max(30, columns - len(_INDENT)) if columns else PIPE_COLUMNS
    lines = _TEXT_LINES if columns else 1
    text = display_text(record)
    for line in highlighter.excerpt(text, width, lines):
        yield _INDENT + line
    if not highlighter.spans(text[:_MAX_SEARCHED]):
        for name, value in record.to_dict().items():
            other = value if isinstance(value, str) else value_text(value) if isinstance(value, list | dict) else ""
            if name not in _NOT_EXCERPTED and other and highlighter.spans(other[:_MAX_SEARCHED]):
                excerpt = highlighter.excerpt(other, max(20, width - len(name) - 2), 1)
                yield f"{_INDENT}{paint('dim', safe(one_line(name)) + ':')} {excerpt[0]}"
                return


def _related_line(record: Record, short_ids: bool, columns: int | None) -> Iterator[str]:
    line = f"{_INDENT}{paint('dim', '└─')} {paint('cyan', record.id if short_ids else record.ref)}  {one_line(display_text(record))}"
    yield truncate(line, columns or PIPE_COLUMNS)


def watch_line(hit: Hit, highlighter: Highlighter, columns: int | None, short_ids: bool) -> str:
    """A newly written memory on one line."""
    name, when, _, author, state = _header_cells(hit, short_ids)
    header = "  ".join(filter(None, (paint("dim", when[11:]), paint("cyan", name), author, _state(hit.record, state))))
    text = highlighter.mark(safe(one_line(display_text(hit.record))))
    return truncate(f"{header}  {text}", columns or PIPE_COLUMNS)


# -- explanations


def score_parts(hit: Hit) -> dict[str, Any]:
    return hit.explain


def main_score_parts(hit: Hit) -> dict[str, Any]:
    """The parts of a score that have no parts themselves."""
    return {name: value for name, value in hit.explain.items() if not isinstance(value, dict)}


def explanation_lines(parts: dict[str, Any], columns: int | None, has_labels: bool = True) -> Iterator[str]:
    """The parts of a score: numbers as bars, nested parts on one line. Summands of 0 and factors of 1 are left out."""
    widest = max(map(width_of, parts), default=0)
    for name, value in parts.items():
        title = f"{_INDENT}{paint('dim', pad(safe(one_line(name)), widest))}  "
        if isinstance(value, dict):
            nested = " ".join(f"{key}={_short(item)}" for key, item in value.items() if item is not None)
            width = max(20, columns - len(_INDENT) - widest - 2) if columns else None
            for number, line in enumerate(wrap(nested, width)):
                yield (" " * (len(_INDENT) + widest + 2) if number else title) + paint("dim", line)
        elif isinstance(value, int | float):
            is_factor = has_labels and name in _FACTORS
            if round(value, 2) != (1 if is_factor else 0):
                label = f"  {paint('dim', SCORE_LABELS[name])}" if has_labels and name in SCORE_LABELS else ""
                line = f"{title}{bar(value, 20 if columns is None or columns >= 100 else 10)} {'×' if is_factor else ' '}{value:4.2f}{label}"
                yield truncate(line, columns) if columns else line


def _short(value: Any) -> str:
    return f"{round(value, 3):g}" if isinstance(value, float) else value_text(value).replace(" ", "_")


# -- related memories


def relation_tree(start: Record, related: Sequence[Related], columns: int | None, *, short_ids: bool) -> Iterator[str]:
    """A memory and its related memories as a tree, each below the one from which it was reached."""
    refs = {start.ref, *(each.record.ref for each in related)}
    below: dict[str, list[Related]] = {}
    for each in related:
        below.setdefault(each.via if each.via in refs else start.ref, []).append(each)

    def branch(ref: str, indent: str) -> Iterator[str]:
        children = below.get(ref, [])
        for each in children:
            last = each is children[-1]
            yield _cut(
                f"{paint('dim', indent + ('└─' if last else '├─'))} {_kind(each)}{_leaf(each.record, short_ids)}",
                columns,
            )
            yield from branch(each.record.ref, indent + ("   " if last else "│  "))

    yield _cut(_leaf(start, short_ids), columns)
    yield from branch(start.ref, "")


def _cut(line: str, columns: int | None) -> str:
    return truncate(safe(line), columns or PIPE_COLUMNS)


def _kind(each: Related) -> str:
    """`→ resolves`: the upper memory resolves the lower one; `←`: the lower one resolves the upper one."""
    is_echo = each.kind == "repeats" and KINDS[each.record.type].is_turn
    arrow = "←" if is_echo or _points_to(each.record, each.kind, each.via) else "→"
    return f"{paint('yellow', f'{arrow} {one_line(each.kind)}')}  "


def _points_to(record: Record, kind: str, ref: str) -> bool:
    data = record.to_dict()
    relations = [each for each in data.get("relations") or () if isinstance(each, dict)]
    targets = [each.get("target") for each in relations if each.get("kind") == kind]
    if kind == "references":
        named = data.get("references") or []
        targets += [named] if isinstance(named, str) else named
    if kind == "turn":
        targets.append(data.get("turn_ref"))
    return ref in {each if "/" in each else f"{record.session}/{each}" for each in targets if isinstance(each, str)}


def _leaf(record: Record, short_ids: bool) -> str:
    author = f"  {paint('dim', value_text(record.author))}" if record.author else ""
    return f"{paint('cyan', record.id if short_ids else record.ref)}{author}  {one_line(display_text(record))}"
