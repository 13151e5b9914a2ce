"""What does an answer look like? Memories that were found, the words that were asked for, and why each one came."""

from __future__ import annotations

import re

from smp_memory.cli.commands.read import gist, state_of
from smp_memory.cli.render import bar, cut, one_line, pad, paint, safe, time_text, value_text, width_of, wrapped
from smp_memory.model.types import SEVERITIES

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from typing import Any

    from smp_memory.model.hits import Hit, Related
    from smp_memory.model.record import Record

    Spans = list[tuple[int, int]]
    Explain = Callable[[Hit], dict[str, Any]]

_INDENT = " " * 15  # below the id
_TEXT_LINES, _PIPE_COLUMNS = 2, 240
_SEARCHED = 20_000  # letters of a text in which words are marked
_NOT_SAID = ("id", "session", "type", "created", "updated", "author", "author_kind", "idempotency_key")

MEANINGS = {
    "text": "its own words",
    "context": "the words beside it",
    "session": "the best of its session",
    "author": "the question names who",
    "time": "the question names when",
    "meaning": "it means the same",
    "strength": "how much the best one has",
    "worth": "few words, or a machine's",
    "fading": "less, as it has faded",
    "session_idle": "less, as nobody writes",
}
_AROUND = "\"'()[]{}.,;:!?`*"
_FACTORS = ("strength", "worth", "fading", "session_idle")


# -- the words that were asked for


class Highlighter:
    """The words of a question, to be found again in a text."""

    def __init__(self, question: str) -> None:
        self._terms: set[str] = set()
        self._matchers: list[Any] = []
        self._loose: list[str] = []
        if question:
            from smp_memory.index.text_query import is_loose, term_matcher
            from smp_memory.index.tokens import parse

            asked = parse(question)
            self._terms = {*asked.words, *(term for phrase in asked.phrases for term in phrase)}
            patterns = (*asked.patterns, *asked.characters)
            self._matchers = [term_matcher(pattern) for pattern in patterns if not is_loose(pattern)]
            self._loose = [pattern for pattern in patterns if is_loose(pattern)]

    def spans(self, text: str) -> Spans:
        """Where they stand, in order and apart."""
        if not self._terms and not self._matchers and not self._loose:
            return []
        found: Spans = []
        for piece in re.finditer(r"\S+", text):
            found += self._inside(piece[0], piece.start())
        return found

    def _inside(self, piece: str, start: int) -> Spans:
        from smp_memory.index.tokens import terms

        if self._loose and self._is_meant(piece):
            whole = piece.strip(_AROUND)
            at = start + piece.find(whole)
            return [(at, at + len(whole))]
        known = [term for term in terms(piece) if self._any([term])]
        if not known:
            return []
        found: Spans = []
        whole = piece.strip(_AROUND)
        if whole.casefold() in known:  # `auth_service.py`, asked for as a whole
            at = piece.find(whole)
            return [(start + at, start + at + len(whole))]
        for word in re.finditer(r"[^\W_]+", piece):
            parts = terms(word[0])
            if any(len(part) == 2 and not part.isascii() and part in word[0] for part in parts):
                found += self._pairs(word[0], word.start())  # a run without spaces: only what was asked for
            elif self._any(parts):
                found.append(word.span())
        return [(start + first, start + end) for first, end in found]

    def _pairs(self, run: str, start: int) -> Spans:
        found: Spans = []
        for at in range(len(run)):
            size = 2 if run[at : at + 2] in self._terms else 1 if self._any([run[at]]) else 0
            if size and found and found[-1][1] >= start + at:
                found[-1] = (found[-1][0], start + at + size)
            elif size:
                found.append((start + at, start + at + size))
        return found

    def _is_meant(self, piece: str) -> bool:
        from smp_memory.index.text_query import matches_spelling
        from smp_memory.index.tokens import spellings

        words = spellings(piece)
        return any(matches_spelling(pattern, words) for pattern in self._loose)

    def _any(self, terms: Iterable[str]) -> bool:
        return any(term in self._terms or any(fits(term) for fits in self._matchers) for term in terms)

    def mark(self, text: str) -> str:
        marked, at = "", 0
        for start, end in self.spans(text):
            marked += text[at:start] + paint("match", text[start:end])
            at = end
        return marked + text[at:]

    def excerpt(self, text: str, columns: int, lines: int) -> list[str]:
        """So many lines of a text, from its beginning or, if the words stand further on, from there; words marked."""
        whole = safe(one_line(text[:_SEARCHED]))
        spans = self.spans(whole)
        if spans and width_of(whole[: spans[0][1]]) > columns * lines - 4:
            begin = whole.find(" ", max(0, spans[0][0] - columns // 3)) + 1
            whole = "… " + whole[begin if 0 < begin <= spans[0][0] else spans[0][0] :]
        parts = wrapped(whole, columns)
        if len(parts) > lines or len(text) > _SEARCHED:
            parts = [*parts[: lines - 1], cut(" ".join(parts[lines - 1 : lines + 1]) + " …", columns)]
        return [self.mark(part) for part in parts]


# -- hits


def shared_not_searched(number: int) -> str:
    """That files of the designs for all sessions were left out, and how many memories they hold."""
    were = "memory in global/ or shared/ was" if number == 1 else "memories in global/ or shared/ were"
    return f"{number:,} {were} not searched; `smp context` uses them."


def not_searched(archived: int) -> str:
    """That archived sessions were left out, and how many."""
    return (
        "1 archived session was not searched."
        if archived == 1
        else f"{archived:,} archived sessions were not searched."
    )


def hit_lines(
    hits: Sequence[Hit],
    question: str,
    columns: int | None,
    *,
    bare: bool,
    explain: Explain | None = None,
    meanings: bool = True,
) -> Iterator[str]:
    """A head and a text for each, and the parts of its relevance if wanted; `bare`: ids without their session."""
    words = Highlighter(question)
    heads = [_head(hit, bare) for hit in hits]
    widths = [max(map(width_of, column)) for column in zip(*heads, strict=True)]
    if columns is not None and hits and len(_INDENT) + sum(widths) + 2 * len(widths) - 2 > columns:
        heads = [[head[0], head[1][:10], *head[2:]] for head in heads]  # where it is narrow the day must do
        widths[1] = 10
    for hit, head in zip(hits, heads, strict=True):
        name, *others = [pad(cell, widths[at]) for at, cell in enumerate(head[:4])]
        told = f"{paint('cyan', name)}  {paint('dim', '  '.join(others).rstrip())}"
        if head[4]:
            told = f"{paint('cyan', name)}  {paint('dim', '  '.join(others))}  {_state(hit.record, head[4])}"
        line = f"{bar(hit.relevance, 8)} {hit.relevance:4.2f}  {told}"
        yield cut(line, columns) if columns else line
        yield from _said(hit.record, words, columns)
        if explain is not None:
            yield from explanation(explain(hit), columns, meanings)
        for record in hit.related:
            yield from _beside(record, bare, columns)


def _head(hit: Hit, bare: bool) -> list[str]:
    """Name, time, type, author and state."""
    record = hit.record
    name = record.id if bare else record.ref
    when = time_text(record["created"])[:16]
    state = "deleted" if record.deleted else "archived" if hit.archived else state_of(record)
    return [safe(one_line(cell)) for cell in (name, when, record.type, value_text(record.author or ""), state)]


def _state(record: Record, text: str) -> str:
    grave = record.deleted or text.startswith(SEVERITIES[:2])
    return paint("red" if grave else "yellow", text) if text else ""


def _said(record: Record, words: Highlighter, columns: int | None) -> Iterator[str]:
    room = max(30, columns - len(_INDENT)) if columns else _PIPE_COLUMNS
    lines = _TEXT_LINES if columns else 1
    text = gist(record)
    for line in words.excerpt(text, room, lines):
        yield _INDENT + line
    if not words.spans(text[:_SEARCHED]):
        for name, value in record.to_dict().items():
            other = value if isinstance(value, str) else value_text(value) if isinstance(value, list | dict) else ""
            if name not in _NOT_SAID and other and words.spans(other[:_SEARCHED]):
                shown = words.excerpt(other, max(20, room - len(name) - 2), 1)
                yield f"{_INDENT}{paint('dim', safe(one_line(name)) + ':')} {shown[0]}"
                return


def _beside(record: Record, bare: bool, columns: int | None) -> Iterator[str]:
    line = f"{_INDENT}{paint('dim', '└─')} {paint('cyan', record.id if bare else record.ref)}  {one_line(gist(record))}"
    yield cut(line, columns or _PIPE_COLUMNS)


def arrival(hit: Hit, words: Highlighter, columns: int | None, bare: bool) -> str:
    """A memory that has just come, on one line."""
    name, when, _, author, state = _head(hit, bare)
    told = "  ".join(filter(None, (paint("dim", when[11:]), paint("cyan", name), author, _state(hit.record, state))))
    return cut(f"{told}  {words.mark(safe(one_line(gist(hit.record))))}", columns or _PIPE_COLUMNS)


# -- why


def all_parts(hit: Hit) -> dict[str, Any]:
    return hit.explain


def main_parts(hit: Hit) -> dict[str, Any]:
    """Without those that have parts of their own."""
    return {name: value for name, value in hit.explain.items() if not isinstance(value, dict)}


def explanation(parts: dict[str, Any], columns: int | None, meanings: bool = True) -> Iterator[str]:
    """The parts of a score: numbers as bars, those that change nothing left out; what has parts of its own on a line."""
    widest = max(map(width_of, parts), default=0)
    for name, value in parts.items():
        title = f"{_INDENT}{paint('dim', pad(safe(one_line(name)), widest))}  "
        if isinstance(value, dict):
            told = " ".join(f"{key}={_short(item)}" for key, item in value.items() if item is not None)
            room = max(20, columns - len(_INDENT) - widest - 2) if columns else None
            for number, line in enumerate(wrapped(told, room)):
                yield (" " * (len(_INDENT) + widest + 2) if number else title) + paint("dim", line)
        elif isinstance(value, int | float):
            is_factor = meanings and name in _FACTORS
            if round(value, 2) != (1 if is_factor else 0):
                meaning = f"  {paint('dim', MEANINGS[name])}" if meanings and name in MEANINGS else ""
                line = f"{title}{bar(value, 20 if columns is None or columns >= 100 else 10)} {'×' if is_factor else ' '}{value:4.2f}{meaning}"
                yield cut(line, columns) if columns else line


def _short(value: Any) -> str:
    return f"{round(value, 3):g}" if isinstance(value, float) else value_text(value).replace(" ", "_")


# -- what is connected


def tree(start: Record, related: Sequence[Related], columns: int | None, *, bare: bool) -> Iterator[str]:
    """A memory and what is connected with it, each below the one from which it was reached."""
    known = {start.ref, *(each.record.ref for each in related)}
    below: dict[str, list[Related]] = {}
    for each in related:
        below.setdefault(each.via if each.via in known else start.ref, []).append(each)

    def branch(ref: str, indent: str) -> Iterator[str]:
        children = below.get(ref, [])
        for each in children:
            last = each is children[-1]
            yield _cut(
                f"{paint('dim', indent + ('└─' if last else '├─'))} {_kind(each)}{_leaf(each.record, bare)}", columns
            )
            yield from branch(each.record.ref, indent + ("   " if last else "│  "))

    yield _cut(_leaf(start, bare), columns)
    yield from branch(start.ref, "")


def _cut(line: str, columns: int | None) -> str:
    return cut(safe(line), columns or _PIPE_COLUMNS)


def _kind(each: Related) -> str:
    """`→ resolves`: the upper one resolves the lower one; `←`: the other way round."""
    arrow = "←" if _points_to(each.record, each.kind, each.via) else "→"
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


def _leaf(record: Record, bare: bool) -> str:
    author = f"  {paint('dim', value_text(record.author))}" if record.author else ""
    return f"{paint('cyan', record.id if bare else record.ref)}{author}  {one_line(gist(record))}"
