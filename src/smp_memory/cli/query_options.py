"""What is asked? The options of a question, and the question that they make."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any

    from smp_memory.cli.arguments import Parser
    from smp_memory.cli.invocation import Call
    from smp_memory.memory import Memory
    from smp_memory.model.hits import Hits
    from smp_memory.session import SessionMemory

    Asked = dict[str, Any]
    Ask = Callable[[Memory | SessionMemory, Asked], Hits]

_SORTS = ("relevance", "newest", "oldest", "priority", "importance")
_MODES = ("default", "weighted", "product")
_COUNTABLE = "type, tag, agent, day, session, topic"

# Parts of a question that leave memories out, and the options that ask for them.
_OPTIONS = {
    "types": "--type",
    "tags": "--tag",
    "all_tags": "--all-tags",
    "not_tags": "--not-tag",
    "agents": "--agent",
    "topic": "--topic",
    "time": "--time",
    "since": "--since",
    "until": "--until",
    "where": "--where",
    "pinned": "--pinned",
    "min_priority": "--min-priority",
    "min_relevance": "--min-relevance",
    "min_importance": "--min-importance",
    "min_confidence": "--min-confidence",
    "include_decayed": "--no-decayed",
    "related_to": "--related-to",
    "references": "--references",
    "offset": "--offset",
}
_ENOUGH = 100


# -- options


def add_words(parser: Parser) -> None:
    parser.words = "words"
    parser.without_session = "all of them"
    parser.add_argument("words", metavar="WORD", nargs="*", help="what to look for, in any words; rare ones count most")


def add_filters(parser: Parser) -> None:
    """The options that say which memories are meant."""
    add = parser.add_argument_group("which memories").add_argument
    add("--type", action="extend", type=_names, dest="types", metavar="TYPE", help="only this type: decision, finding, …; repeat for more")  # fmt: skip
    add("--tag", action="extend", type=_names, dest="tags", metavar="TAG", help="only with this tag or one below it; repeat for: any of them")  # fmt: skip
    add("--all-tags", action="store_true", help="all of the tags must be there, not one of them")
    add("--not-tag", action="extend", type=_names, dest="not_tags", metavar="TAG", help="only without this tag")
    add("--agent", action="append", dest="agents", metavar="NAME", help="only by this author; repeat for more")
    add("--topic", help="only about this topic: those that say so, and those with the tag")
    add("--time", metavar="WHEN", help='"last 24 hours", yesterday, "since monday", 2026-01, 2026-01-05..2026-01-10')
    add("--since", metavar="WHEN", help="from then on")
    add("--until", metavar="WHEN", help="up to then, that day included")
    add("--where", action="append", metavar="CONDITION", help="severity=critical, 'impact.score>3', tags~auth, status!=open, evidence?; repeat for: all of them")  # fmt: skip
    add("--pinned", action="store_true", default=None, help="only those that are pinned")
    add("--min-priority", type=float, metavar="N", help="from 0 to 1: only what is still so present")
    add("--min-importance", type=float, metavar="N", help="from 0 to 1")
    add("--min-confidence", type=_number_or_word, metavar="N", help="from 0 to 1, or a word such as high")
    add("--no-decayed", action="store_false", default=None, dest="include_decayed", help="leave out what has faded")
    add("--include-deleted", action="store_true", default=None, help="also those that are deleted")
    add("--include-archived", action="store_true", default=None, help="also those of archived sessions")
    add("--related-to", action="append", metavar="ID", help="only what is connected with this memory")
    add("--references", action="append", metavar="ID", help="only what points to this memory")
    add_steps(add)
    add("--all", action="store_true", help="all sessions, even if SMP_SESSION names one")


def add_steps(add: Any, used_by: str = "of --related-to and --include-related: ") -> None:
    add("--depth", type=int, metavar="N", help=f"{used_by}so many steps away (default: 1)")
    add("--kind", action="extend", type=_names, dest="kinds", metavar="KIND", help=f"{used_by}only this kind of relation; repeat for more")  # fmt: skip


def add_page(parser: Parser) -> None:
    """The options that say in which order, how many, and what else."""
    add = parser.add_argument_group("the answer").add_argument
    add("--sort", choices=_SORTS, help="the order (default: relevance with words, else newest)")
    add("--limit", type=int, default=10, metavar="N", help="at most so many (default: 10; 0: only counts)")
    add("--offset", type=int, metavar="N", help="leave out the first N: the next page")
    add("--min-relevance", type=float, metavar="N", help="from 0 to 1")
    add("--include-related", action="store_true", default=None, help="with each memory what is connected with it")
    add("--count-by", action="extend", type=_names, metavar="WHAT", help=f"count all that match, by {_COUNTABLE}")
    add("--mode", choices=_MODES, help="how relevance is made (default: default)")
    add("--explain", action="store_true", help="draw what the relevance of each memory is made of")


def _names(text: str) -> list[str]:
    """`decision,finding` is two."""
    return [name.strip() for name in text.split(",") if name.strip()]


def _number_or_word(text: str) -> float | str:
    try:
        return float(text)
    except ValueError:
        return text


# -- the question

_PARTS = (*_OPTIONS, "include_deleted", "include_archived", "include_related", "depth", "kinds", "sort", "limit", "count_by", "mode")  # fmt: skip


def words_of(call: Call) -> str:
    return " ".join(call.options.words)


def asked_of(call: Call) -> Asked:
    """The question that the options ask, its words left out."""
    options = call.options
    asked: Asked = {name: getattr(options, name, None) for name in _PARTS}
    asked["all_tags"] = options.tags if options.all_tags else None
    asked["tags"] = None if options.all_tags else options.tags
    for name in ("related_to", "references"):
        if asked[name]:
            asked[name] = [call.record(each, include_deleted=True).ref for each in asked[name]]
    return {name: value for name, value in asked.items() if value is not None}


def loosened(call: Call, asked: Asked, ask: Ask, words: str) -> Iterator[tuple[str, str]]:
    """What would be found without each part of a question that found nothing: the option, and how many."""
    who, plain = call.asked, {**asked, "limit": _ENOUGH, "track_access": False, "count_by": None}
    tries = [(option, ask, who, {**plain, name: None}) for name, option in _OPTIONS.items() if name in asked]
    if who is not call.memory:
        tries.append(("--session", ask, call.memory, plain))
    if words and tries:
        tries.append(("the words", without_words, who, plain))
    ways = [(option, way(whom, part)) for option, way, whom, part in tries]
    if len(tries) > 1 and not any(found for _, found in ways):
        ways = [("any option", ask(call.memory, {**plain, **dict.fromkeys(_OPTIONS)}))]
    for option, found in ways:
        if found:
            yield option, f"{len(found):,} or more" if found.more else f"{len(found):,}"


def without_words(who: Memory | SessionMemory, asked: Asked) -> Hits:
    return who.query(**asked)
