"""The page Analytics: what is used, topic trends, what followed from decisions, forecasts, decay rates that use suggests.

The figures are those of `Memory.analytics`; each part is computed when its tab is opened and kept for a minute. In a large store, where a part
takes seconds, it is computed when asked for and kept until it is asked for again; the page says when it was computed.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, NamedTuple

from smp_memory.analytics import charts
from smp_memory.analytics.facts import moment_of
from smp_memory.integrations.web.pages.health import known_figures
from smp_memory.integrations.web.parts import counted, duration, memories, memory_url, plural_of
from smp_memory.integrations.web.renderer import drawn, page
from smp_memory.integrations.web.timeline import relation_words

if TYPE_CHECKING:
    from collections.abc import Callable

    from markupsafe import Markup
    from starlette.responses import Response

    from smp_memory.analytics.decay_rates import DecayAdvice, RateSuggestion
    from smp_memory.analytics.facts import Periods
    from smp_memory.analytics.forecast import Forecast
    from smp_memory.analytics.impact import DecisionImpact, Impact
    from smp_memory.analytics.usage import Trends, Usage
    from smp_memory.integrations.web.request import PageRequest

KEPT_SECONDS = 60.0
MOST_AT_ONCE = 5000  # memories: in a larger store a part is computed when asked for
MOST_SESSIONS_AT_ONCE = 200
_LENGTHS = (("day", "days"), ("week", "weeks"), ("month", "months"))
_WIDE, _NARROW, _PHONE = 1076, 640, 330  # pixels
_TREND_KINDS = {"rising": "on", "new": "on", "falling": "warn", "quiet": "warn"}
_VERDICT_KINDS = {"suggested": "on", "agrees": "on", "does not fit": "warn"}


class Chart(NamedTuple):
    """A chart, drawn for a wide screen and for a phone."""

    wide: Markup
    narrow: Markup

    @classmethod
    def of(cls, draw: Callable[..., str], *data: Any, width: int = _WIDE, **options: Any) -> Chart:
        return cls(drawn(draw(*data, width=width, **options)), drawn(draw(*data, width=_PHONE, **options)))


class Computed(NamedTuple):
    """One part, and when it was computed."""

    part: Any
    at: float  # time.monotonic
    seconds: float


def analytics_page(request: PageRequest) -> Response:
    name = request.get("part") if request.get("part") in PARTS else "usage"
    by = request.get("by") if request.get("by") in dict(_LENGTHS) else "week"
    title, _, show = PARTS[name]
    known, _ = known_figures(request.memory)
    computed = _computed(request, name, by, known)
    since = duration(time.monotonic() - computed.at) if computed else ""
    return page(
        request,
        f"analytics_{name}.html" if computed else "analytics.html",
        f"{title} · Analytics",
        "analytics",
        tabs=PARTS,
        name=name,
        by=by,
        lengths=_LENGTHS,
        size=f"{memories(known)} in {counted(len(request.memory.store.sessions()), 'session')}",
        computed=computed,
        since="just now" if since == "less than a minute" else f"{since} ago",
        part=computed.part if computed else None,
        moment_of=moment_of,
        in_days=_in_days,
        **(show(computed.part) if computed else {}),
    )


def _computed(request: PageRequest, name: str, by: str, known: int) -> Computed | None:
    """The part from the memo or computed now; None if it takes long and was not asked for."""
    memo, key = request.inspector.memo, f"analytics/{name}/{by}"
    last: Computed | None = memo[key][1] if key in memo else None
    is_small = known <= MOST_AT_ONCE and len(request.memory.store.sessions()) <= MOST_SESSIONS_AT_ONCE
    is_fresh = last is not None and time.monotonic() - last.at < KEPT_SECONDS
    if request.get("compute") or (is_small and not is_fresh):
        began = time.monotonic()
        part = getattr(request.memory.analytics(by=by), name)
        last = Computed(part, time.monotonic(), time.monotonic() - began)
        memo[key] = (None, last)
    return last


# -- what each part shows


def _labels(periods: Periods) -> list[str]:
    return [f"{moment.day} {moment:%b}" if (moment := moment_of(start)) else "" for start in periods.starts]


def _usage(part: Usage) -> dict[str, Any]:
    chart = None
    if part.uses:
        label = f"Memories by the {part.periods.by} of their last use"
        lines = {"memories": part.last_uses}
        chart = Chart.of(charts.line_chart, lines, _labels(part.periods), label, height=200)
    were = "was" if part.memories == 1 else "were"
    groups = (
        ("Type", "type", part.by_type),
        ("Author", "agent", part.by_author),
        ("Tag", "tag", part.by_tag),
        ("Session", "session", part.by_session),
    )
    return {
        "heading": f"{part.used:,} of {memories(part.memories)} {were} used, {counted(part.uses, 'time')} in all",
        "chart": chart,
        "groups": [each for each in groups if each[2]],
    }


def _topics(part: Trends) -> dict[str, Any]:
    by = part.periods.by
    label = f"Mentions of the first topics by {by}"
    lines = {each.name: each.counts for each in part.topics[:5]}
    names = _labels(part.periods)
    wide = charts.line_chart(lines, names, label, width=_WIDE, height=240)
    narrow = charts.line_chart(dict(list(lines.items())[:2]), names, label, width=_PHONE, height=240)
    rows = [
        (
            each,
            drawn(charts.sparkline(each.counts, f"Mentions of {each.name} by {by}")),
            _TREND_KINDS.get(each.trend, ""),
        )
        for each in part.topics
    ]
    return {"chart": Chart(drawn(wide), drawn(narrow)), "rows": rows}


def _impact(part: Impact) -> dict[str, Any]:
    shown = {each.text or each.ref: each for each in part.decisions if each.followed_count}
    label = "Memories that followed"
    chart = None
    if shown:
        bars = [(name, float(each.followed_count)) for name, each in shown.items()]
        chart = Chart.of(charts.bar_list, bars, label, href=lambda name: memory_url(shown[name].ref))
    were = "was" if part.superseded == 1 else "were"
    followed = f"Effects were found for {part.with_effect:,} of {counted(part.total, 'decision')}"
    decisions = [each for each in part.decisions if each.followed or each.superseded_by]
    return {
        "heading": f"{followed}; {part.superseded:,} {were} superseded",
        "chart": chart,
        "decisions": [(each, _facts(each), _links(each)) for each in decisions],
    }


def _facts(each: DecisionImpact) -> str:
    facts = [f"{each.followed_count:,} followed", counted(each.uses, "use")]
    if each.resolved_findings:
        facts.append(f"{counted(len(each.resolved_findings), 'finding')} resolved")
    if each.days_until_superseded is not None:
        facts.append(f"superseded after {counted(round(each.days_until_superseded), 'day')}")
    return " · ".join(facts)


def _links(each: DecisionImpact) -> list[tuple[str, str, str]]:
    """What followed from a decision: how it is related, `session/ID`, text."""
    return [
        (relation_words(link.kind)[link.direction == "in"], link.ref, link.text)
        for link in (*each.followed, *each.superseded_by)
    ]


def _forecast(part: Forecast) -> dict[str, Any]:
    ahead = [(f"in {days} days", float(part.faded + count)) for days, count in part.horizons.items()]
    label = "Faded memories"
    return {"chart": Chart.of(charts.bar_list, [("now", float(part.faded)), *ahead], label, width=_NARROW)}


def _in_days(days: float | None) -> str:
    if days is None:
        return ""
    return f"in {counted(round(days * 24), 'hour')}" if days < 2 else f"in {counted(round(days), 'day')}"


def _decay(part: DecayAdvice) -> dict[str, Any]:
    known = [(_types(each), round(each.estimate.rate, 4)) for each in part.suggestions if each.estimate is not None]
    label = "Rate per day"
    chart = Chart.of(charts.bar_list, known, label, width=_NARROW) if known else None
    rows = [(each, _types(each), _VERDICT_KINDS.get(each.verdict, ""), _evidence(each)) for each in part.suggestions]
    return {"chart": chart, "rows": rows}


def _types(each: RateSuggestion) -> str:
    return ", ".join(map(plural_of, each.types))


def _evidence(each: RateSuggestion) -> str:
    if each.estimate is None:
        return ""
    days = each.median_age_days
    age = f", half of the uses within {days:.1f} days" if days is not None else ""
    interval = f"95 % interval {each.estimate.low:.2g} to {each.estimate.high:.2g}"
    return f"Evidence: use falls by {each.estimate.rate:.3g} per day ({interval}){age}."


PARTS: dict[str, tuple[str, str, Callable[[Any], dict[str, Any]]]] = {
    "usage": (
        "Use",
        "A use is counted when a memory is found, read or put into a context; what hooks tell and viewing it here do not count.",
        _usage,
    ),
    "topics": (
        "Topics",
        "Topics and tags by week. A topic is called rising or falling only if chance alone would hardly explain it.",
        _topics,
    ),
    "impact": (
        "Decisions",
        "What followed from each decision: memories that refer to it, findings it resolved, decisions that build on it.",
        _impact,
    ),
    "forecast": (
        "Forecast",
        "What will happen if nobody uses or changes anything: what fades, what fills up, what is archived.",
        _forecast,
    ),
    "decay": (
        "Decay rates",
        "How fast use falls with age, by type, next to the setting. A rate is suggested only if the evidence is good.",
        _decay,
    ),
}
