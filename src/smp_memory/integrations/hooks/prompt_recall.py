"""Memories to inject at a prompt. A memory is

    told         in full, if its relevance reaches `recall.min_relevance`; at most five, most relevant first, within the budget
    pointed at   on one short line with its id, if it reaches `recall.min_pointer`, or was written down about a file that is open or was
                 used last; at most three, in at most 60 tokens

Guarantees: what was told in this conversation is left out, unless it was changed since, and so are turns of the conversation itself, and turns for
which a memory that was written down has the last word (`smp_memory.search.succession.last_word`), and memories that are turned off (`muted`).
"""

from __future__ import annotations

from functools import partial

from smp_memory import search
from smp_memory.integrations.hooks.reader import HookRecall, visible_sessions
from smp_memory.integrations.hooks.session_state import injection_mark
from smp_memory.model.types import KINDS, names_where
from smp_memory.privacy.fence import strip
from smp_memory.text.memory_text import text_of
from smp_memory.text.prompt_cues import is_frame
from smp_memory.text.tokenizer import parse, without_signs

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from smp_memory.context.trace import ContextTrace
    from smp_memory.integrations.hooks.events import HookEvent
    from smp_memory.integrations.hooks.reader import Reader
    from smp_memory.integrations.hooks.session_state import HookSession
    from smp_memory.model.candidates import Hit

_CANDIDATES, _MOST = 30, 5  # hits that are judged at a prompt, and memories that are told, at most
_MOST_MATCHES = 210  # hits that are read at a prompt, at most: some may have been told before
_MOST_POINTERS, _POINTER_TOKENS, _POINTER_CHARACTERS = 3, 60, 40  # of each a few words
_CHARACTERS_PER_TOKEN, _LONGEST = 3, 600  # of a memory that is told, if it is alone
_MOST_WORDS, MOST_CHARACTERS = 48, 4000
_NO_CONTENT = "the prompt has no content words"


def recall_for_prompt(reader: Reader, event: HookEvent, state: HookSession, session: str) -> HookRecall:
    """What to inject at a prompt."""
    budget = reader.budget("hooks.prompt_tokens")
    words = query_words(event.prompt)
    files = _named_files([*event.files, *state.files], event.cwd)
    if not budget or not event.is_from_a_person or not words:
        if budget:
            reader.nothing_because(_NO_CONTENT if event.is_from_a_person else "the prompt was not written by a person")
        return HookRecall()
    prompt = _Prompt(reader, state, session)
    told, near = prompt.judge(words)
    pointed = {hit.record.ref: hit for hit in (*prompt.about(files), *near)}
    for hit in told:
        pointed.pop(hit.record.ref, None)
    return prompt.injected(told, list(pointed.values())[:_MOST_POINTERS], words, budget)


class _Prompt:
    """The search for one prompt."""

    def __init__(self, reader: Reader, state: HookSession, session: str) -> None:
        self._reader = reader
        self._trace = reader.trace
        self._injected = set(state.injected)
        self._session = session
        self._visible = visible_sessions(reader, state)
        self._matches: list[
            Hit
        ] = []  # all that were read, also what is deleted, settled or in the conversation already

    def judge(self, words: str) -> tuple[list[Hit], list[Hit]]:
        """The hits to tell and those to point at, most relevant first; none that is in the conversation already."""
        least, least_pointer = self._reader.floor(), self._reader.pointer_floor()
        found: list[Hit] = []
        for page in self._pages(words, _recalled_types()):
            new = [hit for hit in page if not self._is_known(hit)]
            relevant = [hit for hit in new if hit.relevance >= least_pointer]
            found += relevant
            if self._trace is not None:
                self._trace_page(page, least_pointer)
            weak = [hit for hit in new if 0 < hit.relevance < least_pointer]  # 0: says no more than the prompt
            if len(found) >= _MOST + _MOST_POINTERS or weak or not new:
                break
        found = self._without_silenced(sorted(found, key=lambda hit: -hit.relevance))
        told = [hit for hit in found if hit.relevance >= least]
        near = [hit for hit in found if hit.relevance < least and not self._was_pointed_at(hit)]
        if self._trace is not None:
            for hit in told[_MOST:]:
                self._trace.drop_hit(hit, "cut by limit", f"a prompt gets {_MOST} memories at most")
            for hit in near[_MOST_POINTERS:]:
                self._trace.drop_hit(hit, "cut by limit", f"a prompt gets {_MOST_POINTERS} pointers at most")
        return told[:_MOST], near

    def _without_silenced(self, hits: list[Hit]) -> list[Hit]:
        """The same hits without the turns for which a memory that was written down has the last word."""
        written = [hit for hit in self._matches if KINDS[hit.record.type].is_written_down]
        kept = []
        for hit in hits:
            last = search.succession.last_word(hit.record, hit.relevance, written)
            if last is None:
                kept.append(hit)
            elif self._trace is not None:
                self._trace.drop_hit(hit, search.succession.SILENCED, search.succession.describe_silenced(last))
        return kept

    def about(self, files: list[str]) -> list[Hit]:
        """What was written down about one of these files, as far as it names them."""
        if not files:
            return []
        names = [file.rpartition("/")[2].casefold() for file in files]
        page = next(self._pages(" ".join(files), names_where("is_written_down")), [])
        texts = [(hit, text_of(hit.record.given).casefold()) for hit in page]
        found = [hit for hit, text in texts if any(name in text for name in names)]
        return [hit for hit in found if not self._is_known(hit) and not self._was_pointed_at(hit)]

    def injected(self, told: list[Hit], pointed: list[Hit], words: str, budget: int) -> HookRecall:
        """The text of the memories that fit the budget."""
        from smp_memory.context.budget import (
            Lane,
            QuestionWords,
            context_item,
            count_tokens,
            fit_lanes,
            pointer_item,
            section_of,
        )

        looked_for = QuestionWords(words)
        items = [
            context_item(hit.record, section_of(hit.record.type), hit.relevance, "matches the prompt", looked_for)
            for hit in told
        ]
        pointers = [pointer_item(hit.record, hit.relevance) for hit in pointed]
        if self._trace is not None:
            self._trace.words, self._trace.floor = words, self._reader.pointer_floor()
            for hit, item in zip([*told, *pointed], [*items, *pointers], strict=True):
                self._trace.offer_hit(hit, item)
        if not items and not pointers:
            return HookRecall()
        share = min(_POINTER_TOKENS / budget, 1.0)
        longest = min(budget * _CHARACTERS_PER_TOKEN // max(len(items), 1), _LONGEST)
        lanes = [Lane(items, longest=longest), Lane(pointers, most=share, rank=1, longest=_POINTER_CHARACTERS)]
        text, chosen = fit_lanes(lanes, "", budget, count_tokens)
        return HookRecall(text, chosen)

    def _trace_page(self, page: list[Hit], least: float) -> None:
        from smp_memory.context.trace import ALREADY_TOLD, BELOW_FLOOR, SAID_HERE

        assert self._trace is not None
        for hit in page:
            if self._is_said_here(hit):
                self._trace.drop_hit(hit, SAID_HERE, f"a turn of {self._session}")
            elif self._is_known(hit):
                self._trace.drop_hit(hit, ALREADY_TOLD, "it is in the conversation already")
            elif hit.relevance < least:
                self._trace.drop_hit(hit, BELOW_FLOOR, f"relevance {hit.relevance:.2f}, the floor is {least:g}")

    def _is_known(self, hit: Hit) -> bool:
        """Whether the memory is in the conversation: it was said there, or told and not changed since."""
        return self._is_said_here(hit) or injection_mark(hit.record) in self._injected

    def _was_pointed_at(self, hit: Hit) -> bool:
        return injection_mark(hit.record, is_told=False) in self._injected

    def _is_muted(self, hit: Hit) -> bool:
        if hit.record.muted and self._trace is not None:
            from smp_memory.context.trace import MUTED, MUTED_DETAIL

            self._trace.drop_hit(hit, MUTED, MUTED_DETAIL)
        return bool(hit.record.muted)

    def _is_said_here(self, hit: Hit) -> bool:
        return KINDS[hit.record.type].is_said and hit.record.session == self._session

    def _pages(self, words: str, types: tuple[str, ...]) -> Iterator[list[Hit]]:
        """Pages of matching memories of visible sessions, best first. The next one is read when the caller asks for it."""
        options: dict[str, Any] = {
            "types": list(types),
            "limit": _CANDIDATES,
            "include_deleted": True,
            "track_access": False,
        }
        trace, allows = self._trace, self._visible.allows
        offset = 0
        while offset < _MOST_MATCHES:
            hits = search.path.query(self._reader.scope, words, {**options, "offset": offset})
            if trace is not None:
                trace.warnings, trace.problems = hits.warnings, hits.problems
            if "sessions" not in options and not all(allows(hit.record.session) for hit in hits):
                options["sessions"], offset = self._visible.sessions(), 0
                if not options["sessions"]:
                    return
                continue
            self._matches += hits
            stored = [hit for hit in hits if not hit.record.deleted]
            current = search.succession.current_hits(stored, allows, partial(_trace_replaced, trace) if trace else None)
            yield [hit for hit in current if not self._is_muted(hit)]
            if not hits.more:
                return
            offset += _CANDIDATES


def _trace_replaced(trace: ContextTrace, hit: Hit, reason: str, other: str) -> None:
    from smp_memory.context.trace import describe_replaced

    trace.drop_hit(hit, reason, describe_replaced(reason, other))


def _recalled_types() -> tuple[str, ...]:
    """The types that are injected at a prompt: what was written down or said, and artifacts."""
    return tuple(name for name, kind in KINDS.items() if not kind.is_named_by_agent)


def query_words(prompt: str) -> str:
    """The words of a prompt to search for; empty if none of them has content: "yes, go on"."""
    text = without_signs(beginning_and_end(strip(prompt)))
    words = list(dict.fromkeys(text.split()))
    if len(words) > _MOST_WORDS:
        words = words[: _MOST_WORDS // 2] + words[-_MOST_WORDS // 2 :]
    query = " ".join(words)
    parsed = parse(query)
    return query if parsed.characters or not all(map(is_frame, parsed.words)) else ""


def _named_files(paths: list[str], cwd: str) -> list[str]:
    """The names of files as a memory would name them: relative to the folder of the project, if they are in it."""
    base = cwd.replace("\\", "/").rstrip("/") + "/"
    found = (path.replace("\\", "/").removeprefix(base) for path in paths)
    return list(dict.fromkeys(file for file in found if file.rpartition("/")[2]))


def beginning_and_end(prompt: str) -> str:
    """A long prompt without its middle: the question stands before or after what was pasted."""
    if len(prompt) <= MOST_CHARACTERS:
        return prompt
    half = MOST_CHARACTERS // 2
    return f"{prompt[:half]} {prompt[-half:]}"
