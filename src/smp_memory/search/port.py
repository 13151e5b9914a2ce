"""Interface of a search index: what a backend must answer so that queries, contexts, overviews and statistics work on it.

This is the document for whoever writes an index. Everything above it (`search`, `context`, `analytics`, pages) is a function of the values
of `smp_memory.model.candidates`, and imports nothing of an index. A store has one index of its live sessions (`Store.indexer`), and can
make one of histories in RAM (`Store.index_of`), for archives. `smp_memory.index.full_text_index.FullTextIndex` is one for any storage that can
feed it; `tests/backends/naive_index.py` is the simplest one that answers everything.

Guarantees of every index
    complete   It is a cache: every answer contains all that was acknowledged before the call, by any process.
    names      What crosses the port are names and values: sessions and types by name, memories by `session/ID`, times in microseconds.
    viewer     A memory that the viewer of a request may not see is not returned, not counted and not followed along relations, takes
               nobody's place in a limit, and does not change the scores of others through its neighbours. Frequencies of words that
               many memories have, and the number of memories, may include hidden ones; a rare word must not be known by them alone. Memories
               outside of the viewer's sessions (`Viewer.sessions`) are in none of these figures, and their words are unknown to corrections.
    order      The same store and request give the same answer in the same order. Of equals by text, and of memories of one time, the order
               is that of the index; positions in a session are in the order of writing.
    sessions   A session that a request names must be live: else SessionNotFound or SessionArchived.
    errors     Those of `smp_memory.errors`. A damaged index is repaired or rebuilt during the call.
    threads    Threads may share an index. A child made by `fork` may use it, too.

Text: terms are those of `smp_memory.text.memory_text.index_terms`. A memory matches a parsed text if it has any of its words, or known terms for
mistyped ones (`corrected`), or characters; all words of every phrase, whatever their order; a term like each pattern; and none of the excluded
single words and patterns (`text.wildcards.term_matcher`). The caller checks the order of phrases, excluded phrases and loose patterns in the
records. Scores are BM25 (k1 1.2, b 0.75) with the weight `inverse_frequency ** (1 + RARITY)` of each term; a corrected term has 0.7 of its weight.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from contextlib import AbstractContextManager

    from smp_memory.model.candidates import (
        Candidate,
        CandidateRequest,
        Candidates,
        Facets,
        FoundRecords,
        RelatedRef,
        SessionActivity,
        Vocabulary,
    )
    from smp_memory.model.session_info import SessionInfo
    from smp_memory.privacy.visibility import Viewer


class SearchIndex(Protocol):
    """The index of a store."""

    @property
    def folder(self) -> str:
        """The folder of its files; empty if it has none."""

    def snapshot(self, *, all_sessions: bool = False, by_meaning: bool = False) -> AbstractContextManager[None]:
        """Inside this block, calls of one thread see one state: the first call catches up, the others need not. Blocks may be nested.

        A later call that asks for other sessions, or by meaning, may have to catch up again, which begins another state. `all_sessions` and
        `by_meaning` say at once that this will happen.

        An error inside of the block that is no SMPError may come from values of a damaged index: it is discarded, and a second attempt sees a
        rebuilt one (`smp_memory.search.path.repeated_once`). Other threads may have to wait meanwhile: code of callers does not belong into it.
        """

    def candidates(self, request: CandidateRequest) -> Candidates:
        """The memories that meet a request, by text the best first, else by time; with what ranking needs to know of the corpus.

        With a text: conditions that labels cannot express (importance, confidence, pinned, changes, refs, relations) do not decide which memories are
        the first by text; a candidate that does not meet them is marked (`meets`). `front` of the best matches bring others: with `by_meaning`
        the memories nearest to the words, with `with_neighbours` the turns up to two positions beside the ten best turns, by text
        and by meaning; these must meet the conditions. With REPEATED, a turn that repeats several memories names one: one that is visible, else
        nothing but HIDDEN_MEMORY; before others one that is not deleted, then the one of which it says the most, then the newest. With `sessions`,
        memories of other sessions do not count.
        """

    def records(self, wanted: Iterable[Candidate | str], viewer: Viewer | None = None) -> FoundRecords:
        """The records of candidates, or of memories named `session/ID`, as they are stored now."""

    def facets(self, request: CandidateRequest, fields: Sequence[str]) -> Facets:
        """How many memories a request finds in all, whatever its limit: by type, tag, agent, day, month, session and topic.

        With NEWER in `fetch`, also the memories that took the place of some of these and meet the conditions.
        """

    def related(
        self, refs: Iterable[str], depth: int = 1, kinds: Sequence[str] = (), viewer: Viewer | None = None
    ) -> dict[str, list[RelatedRef]]:
        """By each of these memories that exists, all memories up to `depth` steps away in either direction, nearest first.

        Findings of one turn are related as `same_turn`. If `kinds` names `repeats`, it is followed, too: a turn repeats a written memory
        (`smp_memory.text.echoes`), whatever the state of both.
        """

    def vocabulary(self, words: Iterable[str], viewer: Viewer | None = None) -> Vocabulary:
        """The number of memories, and in how many of them each of these terms is."""

    def activity(
        self, sessions: Sequence[str] | None = None, *, ids_from: int | None = None
    ) -> dict[str, SessionActivity]:
        """What the index knows of these sessions (None: all); with `ids_from` the ids of their memories from that position on.

        The `prompt` of a session is of the first turn among `text.memory_text.FIRST_MEMORIES` that is not deleted and has one.
        """

    def saved_metadata(self, session: str | None = None) -> dict[str, tuple[object, SessionInfo]]:
        """What the index knows of this session (None: all) without catching up: the `metadata_version`, user, project, settings and title.

        Sessions may be missing, and nothing else of the metadata is there. Valid if the version is still the same. May be empty.
        """

    def count_accesses(self, *, from_start: bool = False) -> None:
        """Count the access log now; `from_start`: the log was truncated."""

    def is_intact(self) -> bool:
        """Whether the index is undamaged, as far as a quick check finds out."""

    def rebuild(self, progress: Callable[[str, int], None] | None = None) -> int:
        """Rebuild the index; returns the number of memories."""

    def embed_missing(self, seconds: float | None = None) -> int:
        """Make the embeddings that queries left out, which takes them 50 ms at most; for this time at most (None: all of them).

        Returns how many memories still lack theirs. An index without embeddings has nothing to do. Echoes that answers did not look for are found, too.
        """

    def close(self) -> None: ...
