"""Whether a hook tells an agent one memory at a prompt, why, and what would change that.

    verdict(memory, record, "Which database do we use?").answer     "yes", "pointed at" or "no"

The answer is that of `smp_memory.integrations.hooks.preview`, so of the code that hooks run. `relevance` is the number that the floors test.
Guarantees: nothing is written, nothing counts as used.
"""

from __future__ import annotations

from math import floor

from smp_memory.context import trace
from smp_memory.errors import SMPError
from smp_memory.integrations.hooks.preview import preview_hook
from smp_memory.integrations.hooks.prompt_recall import query_words
from smp_memory.model.statuses import SETTLED, SUPERSEDED
from smp_memory.search.succession import OUTDATED, REPEATS, SILENCED

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from smp_memory.memory import Memory
    from smp_memory.model.previews import Preview, PreviewItem
    from smp_memory.model.record import Record

YES, POINTED, NO = "yes", "pointed at", "no"
_CONSIDERED = 200
_LEAST_FLOOR = 0.05  # a lower floor would tell everything
_OTHER_WORDS = "Use more of its words in the prompt, or add the words that people use for it to the memory."
_CHANGES = {
    trace.EXPIRED: "Change valid_until: smp edit {ref} valid_until=…",
    trace.NOT_YET: "Change valid_from: smp edit {ref} valid_from=…",
    trace.HIDDEN: "Make it shared: smp edit {ref} visibility=shared",
    trace.NO_ROOM: "Raise hooks.prompt_tokens: smp config set hooks.prompt_tokens …",
    trace.SHARE_USED: "Raise hooks.prompt_tokens: smp config set hooks.prompt_tokens …",
    trace.ALREADY_TOLD: "It is told again in another conversation, or when it was changed.",
    trace.SAID_HERE: "It is told in other conversations.",
    trace.OTHER_USER: "Tell memories of other users, too: smp config set context.share_users true",
    trace.NOT_FOR_AGENT: "Write it down as a decision or finding: states of agents are not told at prompts.",
    trace.MUTED: "Turn it on: smp unmute {ref}",
    trace.CUT: "Ask more precisely: other memories match the prompt better.",
    SETTLED: "Reopen it: smp edit {ref} status=…",
    SUPERSEDED: "Change the memory that took its place, or remove the relation: smp history {ref}",
    OUTDATED: "Change or delete the newer memory that says the same.",
    REPEATS: "Change the memory that it repeats.",
    SILENCED: "Change the memory that was written down later about the same.",
}


class RecallVerdict:
    """The answer for one memory and one prompt."""

    def __init__(self, ref: str, answer: str, reason: str, change: str = "", relevance: float | None = None) -> None:
        self.ref = ref
        self.answer = answer
        self.reason = reason
        self.change = change  # what would change the answer; empty: nothing, or nothing needs to
        self.relevance = relevance
        self.min_relevance = self.min_pointer = 0.0  # the floors

    def to_dict(self) -> dict[str, Any]:
        relevance = None if self.relevance is None else round(self.relevance, 4)
        floors = {"min_relevance": self.min_relevance, "min_pointer": self.min_pointer}
        return {
            "ref": self.ref,
            "answer": self.answer,
            "relevance": relevance,
            **floors,
            "reason": self.reason,
            "change": self.change,
        }


def verdict(memory: Memory, record: Record, prompt: str, *, session: str | None = None) -> RecallVerdict:
    """Whether hooks tell this memory at this prompt; `session`: the SMP session of the conversation, else a new one."""
    config = memory.store.session(session).config if session and memory.store.sessions(id=session) else memory.config
    told, pointed = float(config["recall.min_relevance"]), float(config["recall.min_pointer"])
    found = _verdict(memory, record, prompt, session, told, min(told, pointed))
    found.min_relevance, found.min_pointer = told, min(told, pointed)
    return found


def _verdict(
    memory: Memory, record: Record, prompt: str, session: str | None, told: float, pointed: float
) -> RecallVerdict:
    ref = record.ref
    if record.deleted:
        return RecallVerdict(ref, NO, "It is deleted.", f"Restore it: smp restore {ref}")
    shown = preview_hook(memory, "prompt", prompt=prompt, session=session, limit=_CONSIDERED)
    item = next((each for each in (*shown.included, *shown.left_out) if each.ref == ref), None)
    if item is None:
        return _not_considered(memory, ref, prompt, shown)
    relevance = item.relevance
    if not item.reason:
        if item.lane != "pointers":
            return RecallVerdict(ref, YES, f"It reaches the floor of {told:g}.", "", relevance)
        return _pointed(ref, relevance, told)
    return _left_out(item, shown, pointed)


def _pointed(ref: str, relevance: float | None, told: float) -> RecallVerdict:
    if relevance is None or relevance >= told:
        return RecallVerdict(ref, POINTED, "It is about a file that is in use.", "", relevance)
    reason = f"It is below the floor of {told:g} from which memories are told in full."
    return RecallVerdict(ref, POINTED, reason, _lower("recall.min_relevance", relevance), relevance)


def _left_out(item: PreviewItem, shown: Preview, pointed: float) -> RecallVerdict:
    reason = f"{item.reason}: {item.detail}." if item.detail else f"{item.reason}."
    change = _CHANGES.get(item.reason, "").format(ref=item.ref)
    if item.reason == trace.BELOW_FLOOR:
        change = _lower("recall.min_pointer", item.relevance or 0.0)
    elif item.reason == trace.CUT and (item.relevance or 0.0) < pointed:
        reason = f"{trace.BELOW_FLOOR}: {trace.below_floor(item.relevance or 0.0, pointed)}."
        change = _lower("recall.min_pointer", item.relevance or 0.0)
    if shown.nothing_because.endswith((" is off", " is 0")):
        return RecallVerdict(item.ref, NO, f"{shown.nothing_because}.", _set(shown.nothing_because), item.relevance)
    return RecallVerdict(item.ref, NO, reason[:1].upper() + reason[1:], change, item.relevance)


def _lower(setting: str, relevance: float) -> str:
    """The setting that would tell it; else that the prompt must be another one."""
    value = floor(relevance * 100) / 100
    if value < _LEAST_FLOOR:
        return _OTHER_WORDS
    return f"Lower the floor for all memories: smp config set {setting} {value:g}"


def _not_considered(memory: Memory, ref: str, prompt: str, shown: Preview) -> RecallVerdict:
    """Of a memory that the search for the prompt did not find: why not, as a query explains it."""
    words, nothing = query_words(prompt), shown.nothing_because
    if nothing.endswith((" is off", " is 0")):
        return RecallVerdict(ref, NO, f"{nothing}.", _set(nothing))
    if not words:
        return RecallVerdict(ref, NO, "The prompt has no content words.", "Ask with words that say what it is about.")
    if nothing.startswith("the store is not trusted"):
        return RecallVerdict(ref, NO, "The store is not trusted.", "Trust it: smp trust")
    try:
        known = memory.explain(ref, words)
    except SMPError as error:
        return RecallVerdict(ref, NO, error.message)
    reasons = "; ".join(known.reasons).replace("the query", "the prompt") or "is behind the other matches"
    return RecallVerdict(
        ref, NO, f"It {reasons}.", _CHANGES[trace.CUT] if known.found else _OTHER_WORDS, known.relevance
    )


def _set(nothing: str) -> str:
    """The advice to change the setting that such a reason begins with."""
    return f"Change the setting: smp config set {nothing.partition(' ')[0]} …"
