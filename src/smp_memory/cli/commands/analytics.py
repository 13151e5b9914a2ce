"""The command that shows statistics: usage, topics, impact, forecast, decay."""

from __future__ import annotations

from functools import cache

from smp_memory.cli.arguments import add_scope
from smp_memory.cli.render import (
    bar,
    one_line,
    paint,
    plural,
    safe,
    size_text,
    sparkline,
    table,
    time_text,
    truncate,
    wrap,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from datetime import datetime
    from typing import Any

    from smp_memory.analytics.decay_rates import DecayAdvice, RateSuggestion
    from smp_memory.analytics.forecast import Forecast
    from smp_memory.analytics.impact import DecisionImpact, Impact
    from smp_memory.analytics.report import Analytics
    from smp_memory.analytics.usage import Trends, Usage, UsageGroup, UsedMemory
    from smp_memory.cli.arguments import Parser
    from smp_memory.cli.invocation import Invocation

PARTS = ("usage", "topics", "impact", "forecast", "decay")
_PIPE_COLUMNS = 160
_MAX_LINKS = 4  # of a decision
_TREND_STYLES = {"rising": "green", "new": "green", "falling": "yellow", "quiet": "yellow"}


def analytics_arguments(parser: Parser) -> None:
    add_scope(parser)
    parser.add_argument("part", nargs="?", choices=PARTS, metavar="PART", help=f"one of {', '.join(PARTS)} (default: all of them)")  # fmt: skip
    parser.add_argument("--time", metavar="RANGE", help='only memories created in this time: "last month", 2026-01')
    parser.add_argument("--since", metavar="TIME", help="from then on: 2026-01-31, 2026-01-31T14:30:00Z")
    parser.add_argument("--until", metavar="TIME", help="up to then, that day included")
    parser.add_argument("--per", choices=("day", "week", "month"), default="week", help="the length of the periods of trends (default: week)")  # fmt: skip
    parser.add_argument("--periods", type=int, default=12, metavar="N", help="how many periods (default: 12)")
    parser.add_argument("--limit", type=int, default=10, metavar="N", help="the length of each list (default: 10)")
    parser.add_argument("--threshold", type=float, metavar="X", help="the priority below which a memory counts as faded (default: the setting compaction.faded_below)")  # fmt: skip


def run_analytics(call: Invocation) -> None:
    """Show what is used, topic trends, the effects of decisions, forecasts, and decay rates that fit the use.

    It covers all sessions unless --session names one. It changes nothing, and does not count as use of a memory.

    Examples:
      smp analytics
      smp analytics usage --session shop
      smp analytics topics --per month
      smp analytics forecast --limit 20 --json
    """
    options = call.options
    parts = PARTS if options.part is None else (options.part,)
    found = call.memory.analytics(
        sessions=None if options.all else call.session_name,
        time=options.time,
        since=options.since,
        until=options.until,
        by=options.per,
        periods=options.periods,
        limit=options.limit,
        threshold=options.threshold,
    )
    data = found.to_dict(parts)
    call.answer(data, _lines(call, found, parts))


def _lines(call: Invocation, found: Analytics, parts: Iterable[str]) -> Iterator[str]:
    scope = call.scope_text
    yield paint("dim", f"{scope[:1].upper()}{scope[1:]} of {call.memory.root}{_range_text(call)}")
    show: dict[str, Callable[[Invocation, Any], Iterator[str]]] = {
        "usage": _usage, "topics": _topics, "impact": _impact, "forecast": _forecast, "decay": _decay,
    }  # fmt: skip
    for name in parts:
        part = getattr(found, name)
        yield ""
        yield from show[name](call, part)
        for note in part.notes:
            yield from (paint("dim", line) for line in wrap(note, call.screen.width))


def _range_text(call: Invocation) -> str:
    """The range of time that was asked for, in the words of the caller."""
    names = {"time": "", "since": "since ", "until": "until "}
    given = [f"{word}{value}" for name, word in names.items() if (value := getattr(call.options, name))]
    return f"; memories created {' '.join(given)} (the forecast uses all)" if given else ""


def _nothing(call: Invocation, nothing_yet: str, nothing_then: str) -> str:
    """What to say where there is nothing: in the range of time that was asked for, or at all."""
    return nothing_then if _range_text(call) else nothing_yet


def _shown(call: Invocation, ref: str) -> str:
    """`session/ID`, or the id alone if the scope is one session and the memory is in it."""
    return ref.removeprefix(_only_session(call))


@cache
def _only_session(call: Invocation) -> str:
    """`session/` if the scope is one session; else a text that no reference begins with."""
    return f"{call.scope_text.removeprefix('session ')}/" if call.has_one_session else "/"


# -- usage


def _usage(call: Invocation, usage: Usage) -> Iterator[str]:
    yield paint("bold", "Usage")
    if not usage.memories:
        yield _nothing(call, "There are no memories yet.", "No memory was created in this time.")
        return
    share = f"{usage.share_used:.0%}"
    yield f"{bar(usage.share_used)}  {usage.used:,} of {plural(usage.memories, 'memory')} {'was' if usage.memories == 1 else 'were'} used ({share}), {plural(usage.uses, 'time')} in all"
    if usage.uses:
        by = usage.periods.by
        yield f"{sparkline(usage.last_uses)}  memories by {by} of their last use, the last {len(usage.last_uses)} {by}s"
        if usage.logged.uses:
            yield f"{sparkline(usage.logged.counts)}  the {plural(usage.logged.uses, 'use')} in the access log, by {by}"
        yield ""
        yield from _used_table(call, "most used", usage.most_used)
        yield ""
        yield from _used_table(call, "used last", usage.last_used)
    if usage.never_used:
        yield ""
        yield from _used_table(call, f"never used: {usage.never_used_count:,}, the oldest first", usage.never_used)
    for name, groups in (("type", usage.by_type), ("author", usage.by_author), ("tag or topic", usage.by_tag), ("session", usage.by_session)):  # fmt: skip
        if len(groups) > 1 or (groups and name == "type"):
            yield ""
            yield from table(
                (name, ">memories", ">used", ">uses", "share used"), map(_group, groups), call.screen.width
            )


def _used_table(call: Invocation, title: str, those: list[UsedMemory]) -> Iterator[str]:
    if those[0].uses:
        used = [
            (paint("cyan", _shown(call, each.ref)), f"{each.uses:,}", _time(each.last_use), each.text) for each in those
        ]
        yield from table((title, ">uses", "last use (UTC)", "text"), used, call.screen.width)
    else:
        unused = [(paint("cyan", _shown(call, each.ref)), _time(each.created), each.text) for each in those]
        yield from table((title, "created (UTC)", "text"), unused, call.screen.width)


def _group(group: UsageGroup) -> tuple[str, ...]:
    share = f"{bar(group.share_used, 10)} {group.share_used:4.0%}"
    return group.name or "(none)", f"{group.memories:,}", f"{group.used:,}", f"{group.uses:,}", share


# -- topics


def _topics(call: Invocation, trends: Trends) -> Iterator[str]:
    by = trends.periods.by
    yield paint("bold", f"Topics, the last {trends.periods.count} {by}s")
    if not trends.topics:
        yet = "No memory has a topic or a tag yet. To add some: smp add finding TEXT --topic login --tag security"
        yield _nothing(call, yet, "No memory of this time has a topic or a tag.")
        return
    rows = [
        (
            paint(_TREND_STYLES.get(each.trend, "dim"), each.trend),
            paint("cyan", each.name),
            sparkline(each.counts),
            f"{each.before:,}",
            f"{each.recent:,}",
            _time(each.last)[:10],
        )
        for each in trends.topics
    ]
    recent = f">last {trends.recent_periods}"
    yield from table(("trend", "topic", f"by {by}", ">before", recent, "last (UTC)"), rows, call.screen.width)


# -- impact


def _impact(call: Invocation, impact: Impact) -> Iterator[str]:
    yield paint("bold", "Impact of decisions")
    if not impact.total:
        yet = 'There are no decisions yet. To add one: smp add decision TEXT --rationale "…"'
        yield _nothing(call, yet, "No decision was made in this time.")
        return
    yield f"Effects were found for {impact.with_effect:,} of {plural(impact.total, 'decision')}; {impact.superseded:,} were superseded."
    for each in impact.decisions:
        yield ""
        yield from _decision(call, each)


def _decision(call: Invocation, each: DecisionImpact) -> Iterator[str]:
    columns = call.screen.width or _PIPE_COLUMNS
    yield truncate(f"{paint('cyan', safe(_shown(call, each.ref)))}  {safe(one_line(each.text))}", columns)
    facts = [f"{each.followed_count:,} followed", plural(each.uses, "use")]
    if each.resolved_findings:
        facts.append(f"{plural(len(each.resolved_findings), 'finding')} resolved")
    days = each.days_until_superseded
    if each.superseded_by:
        after = f" after {_days(days)}" if days is not None else ""
        facts.append(
            f"superseded{after} by {', '.join(dict.fromkeys(_shown(call, link.ref) for link in each.superseded_by))}"
        )
    yield truncate(f"  {safe(' · '.join(facts))}", columns)
    for link in each.followed[:_MAX_LINKS]:
        arrow = f"→ {link.kind}" if link.direction == "out" else f"← {link.kind}"
        yield truncate(f"  {paint('dim', safe(arrow))}  {paint('cyan', safe(_shown(call, link.ref)))}  {safe(one_line(link.text))}", columns)  # fmt: skip
    if len(each.followed) > _MAX_LINKS:
        yield paint("dim", f"  … and {len(each.followed) - _MAX_LINKS:,} more: --json")


# -- forecast


def _forecast(call: Invocation, forecast: Forecast) -> Iterator[str]:
    yield paint("bold", "Forecast")
    ahead = ", ".join(f"{count:,} more within {days} days" for days, count in forecast.horizons.items())
    yield f"{forecast.faded:,} of {plural(forecast.memories, 'memory')} {'has' if forecast.memories == 1 else 'have'} faded below {forecast.threshold:g}; {ahead}."
    width = call.screen.width
    if forecast.fading:
        rows: list[tuple[str, ...]] = [
            (
                paint("cyan", _shown(call, each.ref)),
                f"{each.priority:.2f}",
                f"in {_days(each.days)}",
                _time(each.when)[:10],
                each.text,
            )
            for each in forecast.fading
        ]
        yield ""
        yield from table(
            ("fades next", ">priority", f"below {forecast.threshold:g}", "date (UTC)", "text"), rows, width
        )
    if forecast.ending:
        rows = [(paint("cyan", _shown(call, each.ref)), f"in {_days(each.days)}", _time(each.when)[:10], each.text) for each in forecast.ending]  # fmt: skip
        yield ""
        yield from table(("holds no longer", "when", "date (UTC)", "text"), rows, width)
    if forecast.sessions:
        rows = [
            (
                paint("cyan", each.session),
                each.state,
                f"{size_text(each.size_bytes)} of {size_text(each.quota_bytes)}",
                f"in {_days(each.full_in_days)}" if each.full_in_days is not None else "not within a year",
                f"{each.next_state} {_date(each.when)}".strip() if each.when else each.why,
            )
            for each in forecast.sessions
        ]
        yield ""
        yield from table(("session", "state", "size", "full", "next"), rows, width)
        if forecast.session_count > len(forecast.sessions):
            yield paint("dim", f"… and {forecast.session_count - len(forecast.sessions):,} more sessions: --limit")
    if forecast.trash:
        rows = [(paint("cyan", _shown(call, each.ref)), _date(each.deleted), _date(each.purged_from) or "not by itself") for each in forecast.trash]  # fmt: skip
        yield ""
        yield from table((f"trash: {forecast.trash_count:,}", "deleted", "removed from"), rows, width)
    if forecast.maintenance:
        now = call.memory.now()
        rows = [("now" if each.due <= now else _date(each.due, minutes=True), each.name, each.effect) for each in forecast.maintenance]  # fmt: skip
        yield ""
        yield from table(("maintenance due (UTC)", "task", "effect"), rows, width)


# -- decay


def _decay(call: Invocation, advice: DecayAdvice) -> Iterator[str]:
    yield paint("bold", f"Decay rates from use, policy {advice.policy}")
    for each in advice.suggestions:
        setting = "" if each.setting is None else f"  {each.setting} = {each.current:g}"
        used = f"{each.used_once:,} of {plural(each.memories, 'memory')} used once"
        yield f"{paint('cyan', ', '.join(each.types))}{paint('dim', setting)}  {used}"
        verdict = paint(_VERDICT_STYLES.get(each.verdict, "dim"), each.verdict)
        columns = None if call.screen.width is None else max(20, call.screen.width - 2)
        yield from (f"  {line}" for line in wrap(f"{verdict}: {each.reason}{_evidence(each)}", columns))
        if each.command:
            yield f"  {paint('bold', each.command)}"


_VERDICT_STYLES = {"suggested": "green", "agrees": "green", "does not fit": "yellow"}


def _evidence(each: RateSuggestion) -> str:
    """The estimate, in words."""
    if each.estimate is None:
        return ""
    low, high = each.estimate.low, each.estimate.high
    age = f", half of the uses within {_days(each.median_age_days)}" if each.median_age_days is not None else ""
    return f" (use falls by {each.estimate.rate:.3g} per day, 95 % interval {low:.2g} to {high:.2g}{age})"


# -- words


def _time(microseconds: int | None) -> str:
    from smp_memory.analytics.facts import time_text as text_of

    return time_text(text_of(microseconds) or "")


def _date(moment: datetime | None, *, minutes: bool = False) -> str:
    return "" if moment is None else str(moment)[: 16 if minutes else 10]


def _days(days: float | None) -> str:
    if days is None:
        return ""
    if days < 2:
        hours = round(days * 24)
        return "1 hour" if hours == 1 else f"{hours} hours"
    return f"{days:,.0f} days"
