"""The page Review: what turns propose to write down, with Keep, Edit and Drop.

Guarantees: nothing is written before a person chooses. Keeping and dropping can be undone. Sessions are read one by one, the one written last
first, until there are enough proposals for a page or some seconds have passed; the page says how many sessions were not looked at, and links to them.
"""

from __future__ import annotations

import re
import time
from typing import TYPE_CHECKING, NamedTuple

from smp_memory.errors import InvalidRecord, SMPError
from smp_memory.integrations.web.forms import Form, done, field, form_response, with_notices
from smp_memory.integrations.web.parts import shortened, url
from smp_memory.integrations.web.renderer import page
from smp_memory.lifecycle.review import TYPES, proposal_in, surroundings
from smp_memory.lifecycle.session_titles import session_title
from smp_memory.model.types import KINDS

if TYPE_CHECKING:
    from starlette.responses import Response

    from smp_memory.integrations.web.request import PageRequest
    from smp_memory.lifecycle.review import Proposal
    from smp_memory.model.record import Record
    from smp_memory.session import SessionMemory

PAGE_PROPOSALS = 20
PAGE_SECONDS = 2.0  # how long a page looks through sessions
_AROUND = 300  # characters of a turn before and after a proposal
_MOST_TITLE = 80


class ProposalRow(NamedTuple):
    """A proposal with the turn around it."""

    proposal: Proposal
    turn: Record
    title: str  # of the session
    before: str
    said: str
    after: str

    @property
    def action(self) -> str:
        return url("/review/{}/{}/{}", self.proposal.session, self.proposal.turn, self.proposal.type)


class ProposalPage(NamedTuple):
    """The proposals of a page, and what was not looked at."""

    rows: list[ProposalRow]
    has_more: bool  # in the sessions that were read
    sessions_read: int
    sessions_left: int
    sessions_off: int  # read ones for which proposals are off


def review_page(request: PageRequest) -> Response:
    after = int(request.number("after", 0, 0, 10_000_000))
    shown = _read(request, after)
    older = request.address(after=after + shown.sessions_read) if shown.sessions_left else None
    return page(request, "review.html", "Review", "review", shown=shown, older=older, after=after)


def _read(request: PageRequest, after: int) -> ProposalPage:
    sessions = [session for _, session in reversed(request.memory.sessions_by_time())][after:]
    until = time.monotonic() + PAGE_SECONDS
    rows: list[ProposalRow] = []
    read = off = 0
    for session in sessions:
        if len(rows) > PAGE_PROPOSALS or (read and time.monotonic() > until):
            break
        read += 1
        off += not session.config["proposals.enabled"]
        found = [(each, session.find(each.turn)) for each in session.proposals(PAGE_PROPOSALS + 1 - len(rows))]
        rows += [_row(session, each, turn) for each, turn in found if turn is not None]
    return ProposalPage(rows[:PAGE_PROPOSALS], len(rows) > PAGE_PROPOSALS, read, len(sessions) - read, off)


def _row(session: SessionMemory, proposal: Proposal, turn: Record) -> ProposalRow:
    title = session_title(session.memory.store, session.id)
    before, said, after = (_without_empty_lines(each) for each in surroundings(turn.text, proposal.text, _AROUND))
    return ProposalRow(proposal, turn, shortened(title, _MOST_TITLE), before, said, after)


def _without_empty_lines(text: str) -> str:
    return re.sub(r"\n\s*\n", "\n", text)


# -- keep, edit, drop


class ReviewTarget(NamedTuple):
    """The proposal that a form is about."""

    request: PageRequest
    session: SessionMemory
    proposal: Proposal

    @property
    def author(self) -> str | None:
        return self.request.inspector.author


def _target(request: PageRequest) -> ReviewTarget:
    session = request.memory.opened_session(request.parts["session"], author=request.inspector.author)
    return ReviewTarget(request, session, proposal_in(session.get(request.parts["id"]), request.parts["type"]))


def edit_page(request: PageRequest) -> Response:
    """The form in which a proposal is changed before it is kept."""
    return form_response(request, _form(_target(request)))


def _form(target: ReviewTarget, error: SMPError | None = None) -> Form:
    request, proposal = target.request, target.proposal
    types = [(name, KINDS[name].noun) for name in TYPES]
    text = request.form.get("text", proposal.text)
    fields = [
        field("type", "Type", "select", value=request.form.get("type", proposal.type), options=types, error=error),
        field("text", "Text", "textarea", value=text, error=error, rows=5, required=True, autofocus=True),
    ]
    note = (
        "It is written down with the turn as its source. Word it so that it can be understood without the conversation."
    )
    action = url("/review/{}/{}/{}/keep", proposal.session, proposal.turn, proposal.type)
    return Form(f"Edit and keep {proposal.turn}", action, "/review", "Keep", fields=fields, notes=[note])


def keep(request: PageRequest) -> Response:
    """POST: write a proposal down, as it is or in the words and with the type of the form."""
    target = _target(request)
    try:
        record = _kept(target)
    except SMPError as error:
        return form_response(request, _form(target, error), error)

    def undo() -> str:
        target.session.reopen_proposal(target.proposal, record, by=target.author)
        return f"{record.id} is in the trash, and {target.proposal.turn} proposes it again."

    return done(request, "/review", with_notices(f"Kept as {record.ref}.", record), undo)


def _kept(target: ReviewTarget) -> Record:
    form, proposal = target.request.form, target.proposal
    text = form.get("text", proposal.text).replace("\r\n", "\n").strip()
    type = form.get("type", proposal.type)
    if not text:
        raise InvalidRecord("text: must not be empty.", field="text")
    if type not in TYPES:
        raise InvalidRecord(f"type: {type[:40]!r} cannot be kept.", field="type")
    return target.session.keep_proposal(proposal, type, text if text != proposal.text else None, by=target.author)


def drop(request: PageRequest) -> Response:
    """POST: propose this no more."""
    target = _target(request)
    target.session.drop_proposals(target.proposal)

    def undo() -> str:
        target.session.reopen_proposal(target.proposal)
        return f"{target.proposal.turn} proposes it again."

    return done(request, "/review", f"Dropped what {target.proposal.ref} proposed.", undo)
