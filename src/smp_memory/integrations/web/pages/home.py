"""The first page: what needs a decision, what happened in the last seven days, sessions that are alive, open findings, what agents were told.

Everything comes from six calls of the index, and from the files only the memories that are shown. What takes longer is not begun here: proposals
are looked for in the newest small sessions, and of health the last report is shown with its time. What was not looked at is said. Lists are
counted up to a limit, and say so.
A client gets what it may see. Looking counts as no use.
"""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, NamedTuple

from smp_memory.errors import SMPError
from smp_memory.health.examination import PROBLEM, WARNING
from smp_memory.integrations.hooks.told import shown_events
from smp_memory.integrations.web.pages.health import last_check
from smp_memory.integrations.web.parts import counted, memory_url, quota_of, size_text, url
from smp_memory.integrations.web.renderer import page
from smp_memory.integrations.web.timeline import is_open_finding
from smp_memory.lifecycle.session_states import moment_of
from smp_memory.lifecycle.session_titles import SessionNames
from smp_memory.model.candidates import PROBLEMS, RELATIONS, Candidate, CandidateRequest
from smp_memory.model.session_info import short_names
from smp_memory.model.times import to_microseconds, to_moment
from smp_memory.model.types import KINDS, names_where, severity_rank

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime

    from starlette.responses import Response

    from smp_memory.integrations.web.pages.health import Checked
    from smp_memory.integrations.web.request import PageRequest
    from smp_memory.model.record import Record
    from smp_memory.model.reports import Problem
    from smp_memory.search.port import SearchIndex

MOST_COUNTED = 1000  # memories of each kind of event
_WEEK, _DAY, _HOUR = timedelta(days=7), timedelta(days=1), timedelta(hours=1)
_NEW = ("decision", "finding", "learning")
_FEW, _ALL = 3, 200  # memories of a group that are shown
_MOST_SESSIONS, _MOST_OPEN = 8, 6
_MOST_AUTHORS = 3
_MOST_TOLD = 5
_SMALL_SESSION, _MOST_REVIEWED, _REVIEW_SECONDS = 300, 3, 30.0  # sessions in which proposals are looked for
_NEARLY_FULL = 0.8
_MOST_NEEDS = 5  # of one kind


class Group(NamedTuple):
    """Memories to which the same happened: the newest few, and how many there are."""

    name: str
    title: str
    total: str
    href: str
    records: list[tuple[Record, datetime]]  # with the time at which it happened


class Alive(NamedTuple):
    """A session that was written in the last day."""

    id: str
    title: str
    short: str
    authors: str
    memories: int
    written: datetime
    is_now: bool  # written in the last hour


class Need(NamedTuple):
    """What waits for a person, and where it is decided."""

    text: str
    href: str
    link: str


class ProposalSearch(NamedTuple):
    """How many proposals were found, and in how many of the sessions they were looked for."""

    found: int
    searched: int
    sessions: int


class HomeFacts(NamedTuple):
    """What the index says, in one state."""

    names: SessionNames
    memories: dict[str, int]  # without deleted ones, by session
    groups: dict[str, list[Candidate]]
    open: list[Candidate]
    is_open_cut: bool
    authors: dict[str, list[str]]  # of the last day, by session
    records: dict[str, Record]
    problems: list[Problem]


def home_page(request: PageRequest) -> Response:
    checked = last_check(request)
    found = _found(request, _conflicts(checked))
    total = sum(found.memories.values())
    told = shown_events(request.memory, limit=_MOST_TOLD) if total else []
    return page(
        request,
        "home.html",
        "Home",
        "home",
        is_empty=not any(each.memories for each in found.names.activity.values()),
        total=total,
        session_count=len(found.names.activity),
        needs=_needs(request, found, checked) if total else [],
        not_looked_at=_not_looked_at(request, found, checked) if total else [],
        checked=checked,
        groups=[_group(request, found, name) for name, those in found.groups.items() if those],
        severities=_severities(found.open),
        open_count=_counted(len(found.open), found.is_open_cut),
        open=[record for each in found.open[:_MOST_OPEN] if (record := found.records.get(each.ref)) is not None],
        sessions=_alive(request, found),
        told=[(each, *map(len, (each.event.told, each.event.pointed))) for each in told],
    )


# -- from the index


def _found(request: PageRequest, conflicts: list[str]) -> HomeFacts:
    index, now = request.memory.store.indexer, request.now
    since, day = to_microseconds(now - _WEEK), to_microseconds(now - _DAY)
    kinds = names_where("is_open_until_closed")
    with index.snapshot(all_sessions=True):
        names = SessionNames(request.memory.store)
        memories = _memories(index, names)
        groups = _events(index, since)
        asked = CandidateRequest(types=kinds, limit=MOST_COUNTED, fetch=[PROBLEMS])
        findings = index.candidates(asked)
        recent = index.candidates(CandidateRequest(since=day, limit=MOST_COUNTED)).matches
        opened = sorted(filter(is_open_finding, findings.matches), key=lambda each: severity_rank(each.severity))
        shown = {each.ref for name, those in groups.items() for each in those[: _shown(request, name)]}
        shown |= {each.ref for each in groups["closed"][:_ALL]}
        records = index.records(shown.union(conflicts, (each.ref for each in opened[:_MOST_OPEN])))
    groups = _with_resolved(groups, records, since)
    authors: dict[str, list[str]] = {}
    for each in recent:
        own = authors.setdefault(each.session, [])
        if each.author and each.author not in own:
            own.append(each.author)
    is_cut = len(findings.matches) == MOST_COUNTED
    return HomeFacts(names, memories, groups, opened, is_cut, authors, dict(records), findings.every_problem)


def _memories(index: SearchIndex, names: SessionNames) -> dict[str, int]:
    """How many memories each session has, deleted ones left out; they are counted only if there are any."""
    if not any(each.has_deleted for each in names.activity.values()):
        return {name: each.memories for name, each in names.activity.items()}
    counts = index.facets(CandidateRequest(), ["session"]).counts["session"]
    return {name: counts.get(name, 0) for name in names.activity}


def _events(index: SearchIndex, since: int) -> dict[str, list[Candidate]]:
    """What happened since then, by kind, the newest first; `closed` are the closed findings that were changed since."""
    written = [name for name, kind in KINDS.items() if kind.is_written_down]
    asked = CandidateRequest(types=written, limit=MOST_COUNTED)
    new = index.candidates(asked.with_changes(since=since, fetch=[RELATIONS])).matches
    changed = index.candidates(asked.with_changes(changed_since=since, include_deleted=True)).matches
    changed.sort(key=lambda each: -each.updated)  # of a deleted one the last change before
    groups = {name: [each for each in new if each.type == name] for name in _NEW}
    groups["closed"] = [
        each
        for each in changed
        if not each.deleted and KINDS[each.type].is_open_until_closed and not is_open_finding(each)
    ]
    groups["superseding"] = [each for each in new if any(kind == "supersedes" for kind, _ in each.relations)]
    groups["deleted"] = [each for each in changed if each.deleted]
    return groups


def _with_resolved(
    groups: dict[str, list[Candidate]], records: Mapping[str, Record], since: int
) -> dict[str, list[Candidate]]:
    """The groups with `resolved` in place of `closed`, if the records have the time of every resolution."""
    closed = groups["closed"]
    times = [resolved_at(records.get(each.ref)) for each in closed[:_ALL]]
    if len(closed) > _ALL or None in times:
        return groups
    resolved = [each for each, at in zip(closed, times, strict=True) if at is not None and at >= since]
    return {("resolved" if name == "closed" else name): resolved if name == "closed" else those for name, those in groups.items()}  # fmt: skip


def resolved_at(record: Record | None) -> int | None:
    """When a memory was resolved; None: it does not say so. Anybody may have written anything there."""
    resolution = record.get("resolution") if record is not None else None
    at = resolution.get("resolved_at") if isinstance(resolution, dict) else None
    try:
        return to_microseconds(to_moment(at)) if isinstance(at, str) else None
    except (SMPError, ValueError, OverflowError):
        return None


def _shown(request: PageRequest, name: str) -> int:
    return _ALL if request.get("all") == name else _FEW


# -- what happened


_TITLES = {
    "resolved": "Resolved",
    "closed": "Closed, and changed in these days",
    "superseding": "Superseding earlier ones",
    "deleted": "Deleted",
}


def _group(request: PageRequest, found: HomeFacts, name: str) -> Group:
    those, shown = found.groups[name], _shown(request, name)
    known = [record for each in those[:shown] if (record := found.records.get(each.ref)) is not None]
    records = [(record, _happened(record, name)) for record in known]
    title = _TITLES.get(name) or f"New {KINDS[name].plural}"
    if name in KINDS:
        href = url("/search", type=name, time="last 7 days", sort="newest")
    else:
        href = "/trash" if name == "deleted" else f"{url('/', all=name)}#{name}"
    return Group(name, title, _counted(len(those), len(those) >= MOST_COUNTED), href, records)


def _happened(record: Record, name: str) -> datetime:
    """When a memory was written, resolved or deleted."""
    if name == "deleted" and record.deletion is not None:
        return to_moment(record.deletion.at)
    at = resolved_at(record) if name == "resolved" else None
    return record.created if at is None else moment_of(at)


def _counted(number: int, is_cut: bool) -> str:
    return f"{number:,} or more" if is_cut else f"{number:,}"


def _severities(opened: list[Candidate]) -> list[tuple[str, int]]:
    """How many open findings have each severity, the worst first."""
    counts: dict[str, int] = {}
    for each in opened:
        word = each.severity or "no severity"
        counts[word] = counts.get(word, 0) + 1
    return list(counts.items())


# -- sessions


def _alive(request: PageRequest, found: HomeFacts) -> list[Alive]:
    now, names = request.now, found.names
    written = {name: moment_of(each.written) for name, each in names.activity.items() if each.memories}
    recent = sorted((name for name in written if now - written[name] <= _DAY), key=lambda name: (written[name], name))
    short = short_names(names.activity)
    return [
        Alive(
            name,
            names.title(name),
            short[name],
            _few(found.authors.get(name, [])),
            found.memories[name],
            written[name],
            now - written[name] <= _HOUR,
        )
        for name in recent[-_MOST_SESSIONS:][::-1]
    ]


def _few(authors: list[str]) -> str:
    more = len(authors) - _MOST_AUTHORS
    return ", ".join(authors[:_MOST_AUTHORS]) + (f" and {more:,} more" if more > 0 else "")


# -- what needs a decision


def _needs(request: PageRequest, found: HomeFacts, checked: Checked | None) -> list[Need]:
    needs = [
        Need(f"{ref} has two versions", f"{memory_url(ref)}#versions", "Choose")
        for ref in _conflicts(checked)
        if _is_open(request, found.records.get(ref), checked)
    ]
    is_named = bool(needs)  # then the check that found the versions need not be named, too
    needs += _failed(checked, PROBLEM)
    search = _proposals(request, found.names)
    if search.found:
        more = " or more" if search.searched < search.sessions else ""
        needs.append(Need(f"{counted(search.found, 'proposal')}{more} to review", "/review", "Review"))
    needs += _nearly_full(request, found.names)
    if found.problems:
        said = counted(len(found.problems), "entry", "entries")
        needs.append(Need(f"{said} of the files cannot be read", "/health?check=quick", "Health"))
    if request.memory.config.notices():
        needs.append(Need("Settings of this store wait for your trust, see above", "/health", "Health"))
    return needs + _failed(checked, WARNING, but="conflicts" if is_named else "")


def _failed(checked: Checked | None, severity: str, but: str = "") -> list[Need]:
    """The checks of the last report that failed so."""
    checks = [] if checked is None else checked.report.checks
    failed = [each for each in checks if each.severity == severity and not each.skipped and each.name != but]
    return [Need(f"{each.title[:1].upper()}{each.title[1:]}", "/health", "Health") for each in failed]


def _conflicts(checked: Checked | None) -> list[str]:
    """The memories in which the last check found several versions, the first few."""
    issues = checked.report.of("conflicts") if checked is not None else []
    return list(dict.fromkeys(f"{each.session}/{id}" for each in issues for id in each.ids))[:_MOST_NEEDS]


def _is_open(request: PageRequest, record: Record | None, checked: Checked | None) -> bool:
    """Whether a memory still has several versions; it is read again only if it was changed since the check."""
    if record is None or record.deleted or checked is None:
        return False
    if record.updated < checked.at:
        return True
    try:
        return bool(request.memory.opened_session(record.session).conflicts(record.id))
    except SMPError:
        return True


def _not_looked_at(request: PageRequest, found: HomeFacts, checked: Checked | None) -> list[Need]:
    """What could wait for a person without being known here."""
    unknown, search = [], _proposals(request, found.names)
    if checked is None:
        unknown.append(Need("Health has not been checked yet:", "/health?check=quick", "Check now"))
    else:
        written = max((each.written for each in found.names.activity.values()), default=0)
        left_out = [each.name for each in checked.report.checks if each.skipped or each.not_checked]
        if written > to_microseconds(checked.at):
            unknown.append(
                Need("Memories were written since health was checked:", "/health?check=quick", "Check again")
            )
        if left_out:
            unknown.append(Need(f"The quick check left out all or parts of {', '.join(left_out)}:", "/health?check=full", "Full check"))  # fmt: skip
    if search.searched < search.sessions:
        said = f"Proposals were looked for in {search.searched} of {counted(search.sessions, 'session')}:"
        unknown.append(Need(said, "/review", "Review"))
    return unknown


def _proposals(request: PageRequest, names: SessionNames) -> ProposalSearch:
    """The proposals of the newest small sessions; half a minute old at most."""
    found: ProposalSearch = request.inspector.kept("proposals", _REVIEW_SECONDS, lambda: _search_proposals(request, names))  # fmt: skip
    return found


def _search_proposals(request: PageRequest, names: SessionNames) -> ProposalSearch:
    found = searched = 0
    newest = sorted(names.activity, key=lambda name: -names.activity[name].written)
    small = [name for name in newest[: 2 * _MOST_REVIEWED] if names.activity[name].memories <= _SMALL_SESSION]
    for name in small[:_MOST_REVIEWED]:
        try:
            found += len(request.memory.opened_session(name).proposals(_MOST_NEEDS + 1))
        except SMPError:
            continue
        searched += 1
    return ProposalSearch(found, searched, len(names.activity))


def _nearly_full(request: PageRequest, names: SessionNames) -> list[Need]:
    """The sessions written last that are nearly full: only what is written grows."""
    needs: list[Need] = []
    newest = sorted(names.activity, key=lambda name: -names.activity[name].written)
    for name in newest[: 2 * _MOST_SESSIONS]:
        try:
            storage = request.memory.store.session(name)
            used, quota = sum(storage.sizes().values()), storage.config.quota_bytes
        except SMPError:
            continue
        if quota_of(used, quota).share >= _NEARLY_FULL:
            said = f"{names.title(name) or name} is nearly full: {size_text(used)} of {size_text(quota)}"
            needs.append(Need(said, url("/session/{}/compact", name), "Compact"))
    return needs[:_MOST_NEEDS]
