"""The command review: walk through the proposals of turns on a terminal, or list, keep and drop them.

Guarantees: each choice is written before the next proposal is shown, so a walk can be left at any time, also with Ctrl-C. Undo takes back
one choice after the other. Sessions are read one by one, the one written last first, until there are `--limit` proposals to show; further
ones are looked for when those are done.
"""

from __future__ import annotations

import os
from itertools import islice

from smp_memory.cli.arguments import positive_int
from smp_memory.cli.invocation import write_notices
from smp_memory.cli.render import one_line, paint, plural, table, text_lines, time_text, truncate, width_of, wrap
from smp_memory.cli.terminal import Keyboard, ask_line, has_editor, run_editor
from smp_memory.errors import SMPError, UserError
from smp_memory.lifecycle.review import TYPES, proposal_in, says_the_same, surroundings
from smp_memory.lifecycle.session_titles import session_title
from smp_memory.model.times import to_text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from smp_memory.cli.arguments import Parser
    from smp_memory.cli.invocation import Invocation
    from smp_memory.cli.terminal import ProgressLine
    from smp_memory.lifecycle.review import Proposal
    from smp_memory.model.record import Record
    from smp_memory.session import SessionMemory

_AROUND = 300  # characters of a turn before and after a proposal
_KEYS = "[k]eep [e]dit [t]ype [d]rop [s]kip [u]ndo [q]uit"
_TYPE_KEYS = {name[0]: name for name in TYPES}


def review_arguments(parser: Parser) -> None:
    parser.default_session = "all of them"
    parser.add_argument("action", nargs="?", choices=("keep", "drop"), metavar="keep|drop", help="write down what a turn proposes, or propose nothing more from it; without it: walk through the proposals")  # fmt: skip
    parser.add_argument("turns", nargs="*", metavar="TURN", help="the id of a turn, or session/ID")
    parser.add_argument("--type", help="with keep: decision, finding, learning or preference, if the turn proposes several or another one is right; with drop: only this proposal of the turn")  # fmt: skip
    parser.add_argument("--text", help="with keep: what to write in place of the turn's own words")
    parser.add_argument("--list", action="store_true", help="list the proposals, also on a terminal")
    parser.add_argument("--limit", type=positive_int, default=20, metavar="N", help="the largest number; on a terminal, how many to look for at a time (default: 20)")  # fmt: skip
    parser.add_argument("--all", action="store_true", help="all sessions, even if SMP_SESSION names one")


def run_review(call: Invocation) -> None:
    """Walk through sentences of turns that look like a decision, finding, learning or preference and were not written down.

    Rules find these sentences; agents do not see them. On a terminal you decide one by one, with single keys: keep it, edit it first, change its type, drop
    it, skip it, or undo the last choice. In a pipe, with --list or --json they are listed. `keep` writes one down as a memory with the turn as its
    source; its confidence is `inferred` unless you give it a text of your own. `drop` stops proposing it.

    Examples:
      smp review
      smp review --list
      smp review keep TURN-0004
      smp review keep checkout-review/TURN-0009 --type finding --text "The gateway drops idle connections after 60 s"
      smp review drop TURN-0012 TURN-0015
    """
    options = call.options
    if not options.action and call.is_interactive and not options.list:
        Walk(call, ProposalQueue(call)).run()
    elif not options.action:
        queue = ProposalQueue(call)
        queue.fill(options.limit)
        found = [each for _, each in queue.found[: options.limit]]
        call.answer([each.to_dict() for each in found], _list_lines(call, queue, found))
    elif not options.turns:
        raise UserError(f"{options.action}: name a turn, such as TURN-0004. See: smp review")
    elif options.action == "drop":
        _drop(call)
    else:
        _keep(call)


def _keep(call: Invocation) -> None:
    options = call.options
    if len(options.turns) > 1:
        raise UserError("keep: name one turn. See: smp review --help")
    session, turn = call.resolve(options.turns[0])
    record = session.keep_proposal(turn, options.type, options.text, by=call.author)
    call.answer_written(record, f"{paint('bold', record.id)} stored in session {record.session}: {record.text}")


def _drop(call: Invocation) -> None:
    options = call.options
    if options.text:
        raise UserError("--text belongs to keep. See: smp review --help")
    for session, ids in call.resolve_by_session(options.turns):
        session.drop_proposals(*([proposal_in(session.get(id), options.type) for id in ids] if options.type else ids))
    call.answer({"dropped": options.turns}, [f"{', '.join(options.turns)} dropped."])


# -- the proposals


class ProposalQueue:
    """The proposals of a session or of all, read session by session as they are needed."""

    def __init__(self, call: Invocation) -> None:
        self._call = call
        self.found: list[tuple[SessionMemory, Proposal]] = []
        self.has_more = True  # sessions that were not read, or proposals beyond those that were asked for
        self.sessions_off = 0  # sessions read so far for which proposals are off
        self._sessions_read = 0
        self._progress: ProgressLine | None = None
        self._next = self._proposals()

    def fill(self, count: int) -> None:
        """Read on until there are so many, or no more."""
        self._progress = self._call.progress_line()
        self.found += islice(self._next, max(count + 1 - len(self.found), 0))
        self._progress.clear()
        self.has_more = len(self.found) > count

    def _proposals(self) -> Iterator[tuple[SessionMemory, Proposal]]:
        call = self._call
        if call.scope is call.memory:
            by_session = call.memory.proposals_by_session()
        else:
            by_session = iter([(call.session(), call.session().proposals())])
        for session, found in by_session:
            self.sessions_off += not session.config["proposals.enabled"]
            self._sessions_read += 1
            if self._progress is not None:
                self._progress.show(f"{plural(self._sessions_read, 'session')} read …")
            for each in found:
                yield session, each

    @property
    def empty_text(self) -> str:
        return f"No proposals were found in the turns of {self._call.scope_text}."

    def notes(self) -> Iterator[str]:
        """What somebody who looks for a proposal should know."""
        if self.sessions_off:
            propose = "proposes" if self.sessions_off == 1 else "propose"
            yield f"{plural(self.sessions_off, 'session')} {propose} nothing: proposals.enabled is off."


def _list_lines(call: Invocation, queue: ProposalQueue, found: list[Proposal]) -> Iterator[str]:
    if not found:
        yield queue.empty_text
    else:
        short_ids = call.has_one_session
        rows = [(each.turn if short_ids else each.ref, each.type, each.text) for each in found]
        yield from table(("turn", "proposes", "text"), rows, call.screen.width)
        if queue.has_more:
            yield paint("dim", f"There are more than {len(found)}; --limit N lists more of them.")
        first = rows[0][0]
        yield paint("dim", f"To write one down: smp review keep {first}; to forget it: smp review drop {first}")
    yield from queue.notes()


# -- the walk


KEPT, DROPPED, SKIPPED, CLOSED = "kept", "dropped", "skipped", "closed"


class Choice:
    """What was done with a proposal, for undo and for the summary."""

    def __init__(self, kind: str, session: SessionMemory, proposal: Proposal, kept: Record | None = None) -> None:
        self.kind = kind
        self.session = session
        self.proposal = proposal
        self.kept = kept


class Walk:
    """One walk through the proposals, at a terminal."""

    def __init__(self, call: Invocation, queue: ProposalQueue) -> None:
        self._call = call
        self._queue = queue
        self._choices: list[Choice] = []
        self._keyboard = Keyboard()

    def run(self) -> None:
        self._call.stop_waiting()
        limit = self._call.options.limit
        try:
            with self._keyboard:
                while self._has_next(limit) and self._decide():
                    pass
        finally:
            self._show_summary()

    def _has_next(self, limit: int) -> bool:
        at, found = len(self._choices), self._queue.found
        if at >= len(found) - self._queue.has_more and (self._queue.has_more or not found):
            self._queue.fill(at + limit)
        return at < len(self._queue.found)

    def _decide(self) -> bool:
        """Show the next proposal and do what the person says; False: the walk is over."""
        session, proposal = self._queue.found[len(self._choices)]
        closed = self._why_closed(session, proposal)
        if closed:
            self._say(f"{proposal.ref}: {closed}")
            self._choices.append(Choice(CLOSED, session, proposal))
            return True
        self._show(session, proposal)
        type = proposal.type
        while True:
            key = self._ask(f"{type}: {_KEYS} ")
            if key in ("", "q"):
                return False
            try:
                if key == "t":
                    type = self._choose_type(type)
                elif self._act(key, session, proposal, type):
                    return True
            except SMPError as error:
                self._say(paint("red", error.message))

    def _act(self, key: str, session: SessionMemory, proposal: Proposal, type: str) -> bool:
        """Do what a key means; whether the walk goes on to another proposal."""
        if key == "k":
            return self._keep(session, proposal, type)
        if key == "e":
            return self._edit(session, proposal, type)
        if key == "d":
            session.drop_proposals(proposal)
            self._choices.append(Choice(DROPPED, session, proposal))
            self._say("Dropped.")
        elif key == "s":
            self._choices.append(Choice(SKIPPED, session, proposal))
        return self._undo() if key == "u" else key in ("d", "s")

    def _why_closed(self, session: SessionMemory, proposal: Proposal) -> str:
        """Why a proposal needs no decision any more; empty if it does."""
        for each in self._choices:
            if each.kept is not None and each.session.id == session.id and says_the_same(proposal.text, each.kept.text):
                return f"closed, {each.kept.id} says about the same."
        try:
            session.get(proposal.turn)
        except SMPError as error:  # another process deleted it meanwhile
            return error.message
        return ""

    def _ask(self, prompt: str) -> str:
        screen = self._call.screen
        screen.write(screen.printable(prompt))
        screen.flush()
        key = self._keyboard.read().lower()
        screen.line(key if key.isprintable() else "")
        screen.flush()
        return key

    def _say(self, text: str) -> None:
        self._call.screen.line(text)

    # what a key does

    def _keep(self, session: SessionMemory, proposal: Proposal, type: str, text: str | None = None) -> bool:
        record = session.keep_proposal(proposal, type, text, by=self._call.author)
        self._choices.append(Choice(KEPT, session, proposal, record))
        self._say(f"{paint('green', '✓')} {record.id} stored in session {record.session}.")
        for each in write_notices(record):
            self._say(each)
        return True

    def _edit(self, session: SessionMemory, proposal: Proposal, type: str) -> bool:
        self._keyboard.__exit__()  # the editor, or the line, has the terminal meanwhile
        try:
            text = _edited(proposal.text)
        finally:
            self._keyboard.__enter__()
        if not text:
            self._say("Nothing was written: the text is empty.")
            return False
        return self._keep(session, proposal, type, text if text != proposal.text else None)

    def _choose_type(self, type: str) -> str:
        names = " ".join(f"[{key}]{name[1:]}" for key, name in _TYPE_KEYS.items())
        return _TYPE_KEYS.get(self._ask(f"{names} "), type)

    def _undo(self) -> bool:
        made = [each for each in self._choices if each.kind != CLOSED]
        if not made:
            self._say("There is nothing to undo.")
            return False
        last = made[-1]
        if last.kind != SKIPPED:
            last.session.reopen_proposal(last.proposal, last.kept, by=self._call.author)
        del self._choices[self._choices.index(last) :]
        self._say(f"Undone: {last.proposal.turn} is not {last.kind}.")
        return True

    # what is shown

    def _show(self, session: SessionMemory, proposal: Proposal) -> None:
        turn = session.get(proposal.turn)
        columns, total = self._call.screen.width or 80, len(self._queue.found) - self._queue.has_more
        place = f"{len(self._choices) + 1} of {total}{'+' if self._queue.has_more else ''}"
        self._say("")
        head = f"{place}  {proposal.type}"
        ref = truncate(proposal.ref, max(columns - width_of(head) - 2, 20))
        self._say(f"{paint('dim', place)}  {paint('bold', proposal.type)}  {paint('cyan', ref)}")
        who = str(turn.author or turn.given.get("role") or "somebody")
        about = [who, time_text(to_text(turn.created)), one_line(session_title(self._call.memory.store, session.id))]
        self._say(paint("dim", truncate(", ".join(filter(None, about)), columns)))
        for line in _turn_lines(turn.text, proposal.text, columns):
            self._say(line)

    def _show_summary(self) -> None:
        kinds = [each.kind for each in self._choices]
        self._say("")
        if not self._queue.found:
            self._say(self._queue.empty_text)
        else:
            left = len(self._queue.found) - len(self._choices)
            counts = [f"{kinds.count(kind)} {kind}" for kind in (KEPT, DROPPED, SKIPPED)]
            more = f"{'more than ' if self._queue.has_more else ''}{left - self._queue.has_more} left"
            self._say(", ".join([*counts, more]) + ".")
        for each in self._choices:
            if each.kept is not None:
                line = f"  {each.kept.ref}  {each.kept.type}: {one_line(each.kept.text)}"
                self._say(truncate(line, self._call.screen.width or 80))
        for note in self._queue.notes():
            self._say(note)


def _turn_lines(turn: str, said: str, columns: int) -> Iterator[str]:
    """The turn around a proposal; the lines of the proposal begin with `>`."""
    before, middle, after = surroundings(turn, said, _AROUND)
    for text, mark in ((before, " "), (middle, ">"), (after, " ")):
        for line in text_lines(text.strip()) if text.strip() else ():
            for part in wrap(line, columns - 4):
                shown = f"  {mark} {part}".rstrip()
                yield shown if mark == ">" else paint("dim", shown)


def _edited(text: str) -> str:
    """The text as the person changed it, in the editor or on the line."""
    if not has_editor():
        return ask_line("Text: ", one_line(text)).strip()
    import tempfile

    descriptor, path = tempfile.mkstemp(prefix="smp-review-", suffix=".txt")
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        file.write(text + "\n")
    run_editor(path, "or press k to keep the text as it is.")
    with open(path, encoding="utf-8") as file:
        changed = file.read().strip()
    os.unlink(path)
    return changed
