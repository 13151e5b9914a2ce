"""The parts of the page Analytics: tables and charts of `smp_memory.analytics`, each with what it means."""

from __future__ import annotations

from typing import TYPE_CHECKING

from smp_memory.analytics import charts
from smp_memory.analytics.facts import moment_of
from smp_memory.integrations.web.html import Child, Html, el, join, url
from smp_memory.integrations.web.layout import panel
from smp_memory.integrations.web.parts import memory_link, memory_url, quota_meter, tag, when
from smp_memory.integrations.web.timeline import relation_words
from smp_memory.integrations.web.words import counted, date_text
from smp_memory.model.types import KINDS

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from smp_memory.analytics.decay_rates import DecayAdvice, RateSuggestion
    from smp_memory.analytics.facts import Periods
    from smp_memory.analytics.forecast import Forecast
    from smp_memory.analytics.impact import DecisionImpact, Impact
    from smp_memory.analytics.usage import Trends, Usage, UsageGroup, UsedMemory
    from smp_memory.integrations.web.request import PageRequest

_WIDE, _NARROW = 1076, 640  # pixels
_MOST_LINKS = 6  # of a decision
_TREND_KINDS = {"rising": "on", "new": "on", "falling": "warn", "quiet": "warn"}
_VERDICT_KINDS = {"suggested": "on", "agrees": "on", "does not fit": "warn"}


def table(titles: Sequence[str], rows: Iterable[Sequence[Child]], label: str) -> Html:
    """A table that scrolls by itself on a narrow screen; titles that begin with `>` are of numbers."""
    kinds = ["number" if title.startswith(">") else None for title in titles]
    head = el(
        "tr", [el("th", title.lstrip(">"), scope="col", class_=kind) for title, kind in zip(titles, kinds, strict=True)]
    )
    body = [el("tr", [el("td", cell, class_=kind) for cell, kind in zip(row, kinds, strict=True)]) for row in rows]
    made = el("table", el("thead", head), el("tbody", body))
    return el("div", made, class_="scroll", tabindex=0, role="region", aria_label=label)


def _chart(made: str, label: str) -> Html:
    """A chart in its own size; on a narrow screen it scrolls. The charts escape all text themselves."""
    return el("div", Html(made), class_="scroll chart-frame", tabindex=0, role="region", aria_label=label)


def _labels(periods: Periods) -> list[str]:
    return [f"{moment.day} {moment:%b}" if (moment := moment_of(start)) else "" for start in periods.starts]


# -- use


def usage(request: PageRequest, part: Usage) -> list[Child]:
    if not part.memories:
        return [panel("Use", el("p", "There are no memories yet.", class_="empty"))]
    title = f"{part.used:,} of {counted(part.memories, 'memory', 'memories')} {'was' if part.memories == 1 else 'were'} used, {counted(part.uses, 'time')} in all"
    made: list[Child] = []
    if part.uses:
        by = part.periods.by
        about = f"Memories by the {by} of their last use"
        chart = charts.line_chart({"memories": part.last_uses}, _labels(part.periods), about, width=_WIDE, height=200)
        made.append(
            panel(
                title,
                _chart(chart, about),
                el("p", f"Each memory counts once, in the {by} in which it was last used.", class_="hint"),
            )
        )
    else:
        made.append(
            panel(
                title,
                el(
                    "p",
                    "Nothing was recalled yet: agents use memories when a hook or a tool hands them out.",
                    class_="empty",
                ),
            )
        )
    groups = [
        (name, rows)
        for name, rows in (
            ("Type", part.by_type),
            ("Author", part.by_author),
            ("Tag", part.by_tag),
            ("Session", part.by_session),
        )
        if rows
    ]
    made.append(el("div", [_groups(name, rows) for name, rows in groups], class_="grid halves"))
    if part.most_used:
        made.append(panel("Most used", _used(request, part.most_used, "last use")))
    if part.never_used:
        more = f"Never used: {part.never_used_count:,}, the oldest first"
        made.append(panel(more, _used(request, part.never_used, "written")))
    return made


def _groups(name: str, rows: list[UsageGroup]) -> Html:
    shown = [
        (_group_name(name, each), f"{each.memories:,}", f"{each.uses:,}", f"{each.share_used:.0%}") for each in rows
    ]
    return panel(
        f"By {name.lower()}", table((name, ">memories", ">uses", ">used at all"), shown, f"Use by {name.lower()}")
    )


def _group_name(name: str, each: UsageGroup) -> Child:
    if not each.name:
        return "none"
    key = {"Type": "type", "Author": "agent", "Tag": "tag", "Session": "session"}[name]
    label = _type(each.name) if name == "Type" else each.name
    return el("a", label, href=url("/search", **{key: each.name}), class_="plain-link")


def _type(name: str) -> str:
    return KINDS[name].plural.replace("_", " ") if name in KINDS else name


def _used(request: PageRequest, rows: list[UsedMemory], title: str) -> Html:
    shown = [
        (_memory(each.ref, each.text), f"{each.uses:,}", _moment(request, each.last_use or each.created))
        for each in rows
    ]
    return table(("Memory", ">uses", title), shown, f"Memories by {title}")


def _memory(ref: str, text: str) -> Html:
    return join(el("p", text, class_="said", dir="auto"), el("div", memory_link(ref), class_="meta"))


def _moment(request: PageRequest, microseconds: int | None) -> Child:
    moment = moment_of(microseconds)
    return when(moment, request.now) if moment else ""


# -- topics


def topics(request: PageRequest, part: Trends) -> list[Child]:
    if not part.topics:
        return [panel("Topics", el("p", "No memory has a topic or a tag yet.", class_="empty"))]
    drawn = {each.name: each.counts for each in part.topics[:5]}
    by = part.periods.by
    about = f"Mentions of the first topics by {by}"
    chart = charts.line_chart(drawn, _labels(part.periods), about, width=_WIDE, height=240)
    rows = [
        (
            tag(each.trend, _TREND_KINDS.get(each.trend, "")),
            el("a", each.name, href=url("/search", tag=each.name), class_="plain-link"),
            Html(charts.sparkline(each.counts, f"Mentions of {each.name} by {by}")),
            f"{each.before:,}",
            f"{each.recent:,}",
            _moment(request, each.last),
        )
        for each in part.topics
    ]
    titles = ("Trend", "Topic", f"By {by}", ">before", f">last {part.recent_periods}", "last mention")
    return [
        panel(f"Mentions by {by}, the last {part.periods.count}", _chart(chart, about)),
        panel(counted(part.total, "topic"), table(titles, rows, "Topics")),
    ]


# -- decisions


def impact(request: PageRequest, part: Impact) -> list[Child]:
    if not part.total:
        return [panel("Decisions", el("p", "There are no decisions yet.", class_="empty"))]
    title = f"Something followed from {part.with_effect:,} of {counted(part.total, 'decision')}; {part.superseded:,} {'was' if part.superseded == 1 else 'were'} superseded"
    shown = {each.text or each.ref: each for each in part.decisions if each.followed_count}
    made: list[Child] = []
    if shown:
        bars = [(name, float(each.followed_count)) for name, each in shown.items()]
        chart = charts.bar_list(
            bars, "Memories that followed", width=_WIDE, href=lambda name: memory_url(shown[name].ref)
        )
        made.append(
            panel(
                title,
                _chart(chart, "Memories that followed"),
                el(
                    "p", "The length of a bar is the number of memories that followed from the decision.", class_="hint"
                ),
            )
        )
    else:
        made.append(
            panel(
                title,
                el(
                    "p",
                    "No memory refers to a decision yet. Relate them: smp relate, or “Relate” on the page of a memory.",
                    class_="empty",
                ),
            )
        )
    made += [_decision(request, each) for each in part.decisions if each.followed or each.superseded_by]
    return made


def _decision(request: PageRequest, each: DecisionImpact) -> Html:
    facts = [f"{each.followed_count:,} followed", counted(each.uses, "use")]
    if each.resolved_findings:
        facts.append(f"{counted(len(each.resolved_findings), 'finding')} resolved")
    if each.days_until_superseded is not None:
        facts.append(f"superseded after {counted(round(each.days_until_superseded), 'day')}")
    links = [*each.followed, *each.superseded_by]
    rows = [
        el(
            "li",
            el("span", f"{relation_words(link.kind)[link.direction == 'in']} ", class_="meta"),
            memory_link(link.ref),
            " ",
            el("span", link.text, dir="auto"),
        )
        for link in links[:_MOST_LINKS]
    ]
    rest = len(links) - _MOST_LINKS
    more = el("li", f"and {rest:,} more") if rest > 0 else None
    return el(
        "section",
        el("p", each.text or each.ref, class_="said", dir="auto"),
        el(
            "div",
            memory_link(each.ref),
            " ",
            " · ".join(facts),
            " · decided ",
            _moment(request, each.created),
            class_="meta",
        ),
        el("ul", rows, more, class_="followed"),
        class_="panel",
    )


# -- forecast


def forecast(request: PageRequest, part: Forecast) -> list[Child]:
    title = f"{part.faded:,} of {counted(part.memories, 'memory', 'memories')} have faded below {part.threshold:g}"
    ahead = [(f"in {days} days", float(part.faded + count)) for days, count in part.horizons.items()]
    chart = charts.bar_list([("now", float(part.faded)), *ahead], "Faded memories", width=_NARROW)
    hint = "Faded memories rank lower and are the first that compaction moves out; none is deleted by fading. A use brings one back."
    made: list[Child] = [panel(title, _chart(chart, "Faded memories"), el("p", hint, class_="hint"))]
    if part.fading:
        rows = [(_memory(each.ref, each.text), f"{each.priority:.2f}", _in_days(each.days)) for each in part.fading]
        made.append(
            panel(
                "Fade next",
                table(("Memory", ">priority now", f"below {part.threshold:g}"), rows, "Memories that fade next"),
            )
        )
    if part.ending:
        rows = [(_memory(each.ref, each.text), "", _in_days(each.days)) for each in part.ending]
        made.append(panel("Hold no longer", table(("Memory", "", "when"), rows, "Memories whose validity ends")))
    if part.sessions:
        made.append(panel("Sessions", _sessions(request, part)))
    return made


def _sessions(request: PageRequest, part: Forecast) -> Html:
    rows = [
        (
            el("a", each.session, href=url("/session/{}", each.session), class_="plain-link"),
            each.state,
            quota_meter(each.size_bytes, each.quota_bytes),
            _in_days(each.full_in_days) if each.full_in_days is not None else "not within a year",
            f"{each.next_state} {date_text(each.when, request.now)}" if each.when else each.why,
        )
        for each in part.sessions
    ]
    made = table(("Session", "State", "Size", "Full", "Next"), rows, "Sessions")
    rest = part.session_count - len(part.sessions)
    return join(made, el("p", f"And {counted(rest, 'more session')}.", class_="note") if rest > 0 else None)


def _in_days(days: float | None) -> str:
    if days is None:
        return ""
    return f"in {counted(round(days * 24), 'hour')}" if days < 2 else f"in {counted(round(days), 'day')}"


# -- decay rates


def decay(request: PageRequest, part: DecayAdvice) -> list[Child]:
    if not part.suggestions:
        return [panel("Decay rates", el("p", f"The policy {part.policy} has no rates to set.", class_="empty"))]
    rows = [
        (
            ", ".join(map(_type, each.types)),
            f"{each.used_once:,} of {each.memories:,}",
            join(el("code", each.setting), f" = {each.current:g}") if each.setting and each.current is not None else "",
            _suggestion(each),
        )
        for each in part.suggestions
    ]
    titles = ("Type", "Used once", "Setting now", "What use suggests")
    return [_rates(part), panel(f"Policy {part.policy}", table(titles, rows, "Decay rates"))]


def _rates(part: DecayAdvice) -> Html | None:
    known = [
        (", ".join(map(_type, each.types)), round(each.estimate.rate, 4))
        for each in part.suggestions
        if each.estimate is not None
    ]
    if not known:
        return None
    chart = charts.bar_list(known, "Rate per day", width=_NARROW)
    return panel("How fast use falls, per day", _chart(chart, "Rate per day"))


def _suggestion(each: RateSuggestion) -> Html:
    evidence = command = None
    if each.estimate is not None:
        days = each.median_age_days
        age = f", half of the uses within {days:.1f} days" if days is not None else ""
        interval = f"95 % interval {each.estimate.low:.2g} to {each.estimate.high:.2g}"
        rate = f"Evidence: use falls by {each.estimate.rate:.3g} per day ({interval}){age}."
        evidence = el("p", rate, class_="hint")
    if each.command:
        command = el("p", "To apply it: ", el("code", each.command), class_="hint")
    return join(tag(each.verdict, _VERDICT_KINDS.get(each.verdict, "")), " ", each.reason, evidence, command)
