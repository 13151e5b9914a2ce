"""The command git resolve: what a merge left to decide, both sides of it, and the choice."""

from __future__ import annotations

import shlex

from smp_memory.cli.arguments import parse_assignment
from smp_memory.cli.commands.git import find_repository
from smp_memory.cli.commands.write import edit_in_editor
from smp_memory.cli.invocation import update_fields
from smp_memory.cli.render import age_text, one_line, paint, plural, safe, truncate, value_text, wrap
from smp_memory.cli.terminal import Keyboard
from smp_memory.errors import SMPError, UserError
from smp_memory.git.marked_files import OURS, THEIRS
from smp_memory.integrations.git_conflicts import CURRENT, FIELDS, METADATA, OTHER, ConflictedStore
from smp_memory.model.session_info import full_session_name
from smp_memory.model.times import to_moment

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from typing import Any

    from smp_memory.cli.arguments import Parser
    from smp_memory.cli.invocation import Invocation
    from smp_memory.git.repository import Repository
    from smp_memory.integrations.git_conflicts import GitConflict, Side

_COLUMNS = 80
_MOST_LINES = 6  # of one value
_CONTINUE = {
    "rebase": "git rebase --continue",
    "cherry-pick": "git cherry-pick --continue",
    "revert": "git revert --continue",
    "merge": "git commit",
}


def git_resolve_arguments(parser: Parser) -> None:
    parser.add_argument("ids", metavar="ID", nargs="*", help="FIND-0001, session/FIND-0001, or session/metadata (default: go through all)")  # fmt: skip
    parser.add_argument("--take", choices=(OURS, THEIRS, CURRENT, OTHER), help="the side to keep; current and other: the value in use, and the other one")  # fmt: skip
    parser.add_argument("--list", action="store_true", help="only show them")
    parser.add_argument("--all", action="store_true", help="all conflicts")
    parser.add_argument("--field", metavar="FIELD=VALUE", action="append", type=parse_assignment, default=[], help="a value of your own, of one memory")  # fmt: skip
    parser.add_argument("--text", metavar="TEXT", help="a text of your own, of one memory")


def run_git_resolve(call: Invocation) -> int:
    """Show both sides of each conflict that a merge left, and keep one of them or a value of your own.

    At a terminal it goes from conflict to conflict; --list only shows them, as in a pipe. Files that git merged as text, because the
    merge driver was missing, are merged again first. Markers are taken out of a session when nothing is left to decide in it; nothing is
    staged or committed. In a rebase `ours` is the branch you rebase onto, and `theirs` is your commit.

    The side that is not kept stays in the memory's history or, if a part of a file had to go, in the quarantine. The exit code is 1 while
    something is left to decide.

    Examples:
      smp git resolve
      smp git resolve FIND-0001 --take theirs
      smp git resolve FIND-0001 --field severity=medium
      smp git resolve --all --take ours
    """
    options = call.options
    own = {**dict(options.field), **({"text": options.text} if options.text is not None else {})}
    _check_options(call, own)
    repository, _ = find_repository(call)
    store = ConflictedStore(call.memory, repository, call.session() if call.session_name is not None else None)
    again = store.merge_again()
    for path in again:
        call.notify(f"{path} was merged as text; merged again entry by entry.")
    found = store.conflicts()
    chosen = _chosen(call, found)
    resolution = Resolution(call, store, len(chosen))
    if options.take or own:
        for conflict in chosen:
            resolution.settle(conflict, options.take, own)
    elif not options.list and call.is_interactive:
        resolution.walk(chosen)
    else:
        resolution.show(chosen)
    return _finish(call, repository, resolution, is_changed=not options.list)


def _check_options(call: Invocation, own: dict[str, Any]) -> None:
    options = call.options
    if options.take and own:
        raise UserError("Give --take, or --field and --text, not both. See: smp git resolve --help")
    if own and (options.all or len(options.ids) != 1):
        raise UserError("--field and --text belong to one memory: name it. See: smp git resolve --help")
    if options.all and (options.ids or not options.take):
        raise UserError("--all requires --take and takes no ids: smp git resolve --all --take ours")
    if options.take and not (options.ids or options.all):
        raise UserError(f"--take needs ids, or --all: smp git resolve --all --take {options.take}")


def _chosen(call: Invocation, found: list[GitConflict]) -> list[GitConflict]:
    """The conflicts with the ids that were given; all without ids."""
    chosen: list[GitConflict] = []
    for ref in call.options.ids:
        name, _, id = ref.rpartition("/")
        session = full_session_name(name, call.memory.store.sessions()) if name else ""
        matching = [each for each in found if each.id == id and session in ("", each.session.id)]
        if not matching:
            raise UserError(f"{ref} has no open conflict. To list open conflicts: smp git resolve --list")
        if len({each.session.id for each in matching}) > 1:
            raise UserError(
                f"{ref} has a conflict in several sessions. Name one: {', '.join(each.ref for each in matching)}"
            )
        chosen += [each for each in matching if each not in chosen]
    return chosen if call.options.ids else found


class Resolution:
    """Choices of one run, and what is said about them."""

    def __init__(self, call: Invocation, store: ConflictedStore, total: int) -> None:
        self._call = call
        self._total = total
        self.store = store
        self.lines: list[str] = []
        self.kept: list[dict[str, Any]] = []

    # -- showing

    def show(self, conflicts: list[GitConflict]) -> None:
        for conflict in conflicts:
            self.lines += [*self._shown(conflict), ""]

    def _shown(self, conflict: GitConflict) -> Iterator[str]:
        columns = self._columns
        text = (
            f"{conflict.record.type}: {one_line(conflict.record.text)}"
            if conflict.record is not None
            else "of the session"
        )
        yield safe(f"{paint('bold', conflict.ref)}  {truncate(text, max(columns - len(conflict.ref) - 2, 20))}")
        for side in conflict.sides:
            yield from self._side_lines(side, conflict.sides[side is conflict.sides[0]])

    @property
    def _columns(self) -> int:
        return self._call.screen.width or _COLUMNS

    def _side_lines(self, side: Side, other: Side) -> Iterator[str]:
        age = age_text((self._call.memory.now() - to_moment(side.at)).total_seconds()) if side.at else ""
        used = "used until you choose" if side.is_used else ""
        about = ", ".join(filter(None, [self.store.writer(side), age, used]))
        yield truncate(safe(f"  {paint('cyan', side.name)}  {one_line(about)}".rstrip()), self._columns)
        if side.fields is None:
            yield "    removed"
        for name, value in _differing(side, other):
            shown = "nothing" if value is None else one_line(value_text(value))
            parts = wrap(safe(f"{name}: {shown}"), self._columns - 6)
            for at, part in enumerate(parts[:_MOST_LINES]):
                yield f"    {'  ' if at else ''}{part}{' …' if at == _MOST_LINES - 1 and len(parts) > _MOST_LINES else ''}"

    # -- choosing

    def settle(self, conflict: GitConflict, side: str | None, own: dict[str, Any]) -> None:
        """Keep a side, or values that a person gave."""
        by, actions = self._call.author, []
        if side:
            actions = self.store.take(conflict, side, by=by)
        else:
            if conflict.kind != FIELDS:
                raise UserError(
                    f"{conflict.ref}: keep a side first, then change it: smp git resolve {conflict.ref} --take ours"
                )
            update_fields(conflict.session, conflict.id, {**own, **({"by": by} if by else {})}, None)
        self._report(conflict, side, own, actions)

    def _report(self, conflict: GitConflict, side: str | None, own: dict[str, Any], actions: list[str]) -> None:
        kept = conflict.side(side).fields if side else own
        others = [each for each in conflict.sides if each.name != side]
        said = (
            "removed" if kept is None else _values(_differing(conflict.side(side), others[0]) if side else kept.items())
        )
        self.kept.append({"ref": conflict.ref, "kept": side or "own", "fields": kept, "others": [each.to_dict() for each in others], "actions": actions})  # fmt: skip
        self._add(f"{paint('green', '✓')} ", f"{conflict.ref}: kept {f'{side}, ' if side else ''}{said}")
        for other in others:
            values = _values(_differing(other, conflict.sides[other is conflict.sides[0]]))
            self._add("  ", f"not {other.name}, {'removed' if other.fields is None else values}")
        for line in _way_back(conflict, others, has_quarantine=bool(actions)):
            self._add("  ", line)

    def _add(self, mark: str, text: str) -> None:
        """Say something about a choice, on several lines if it is long."""
        first, *more = wrap(safe(text), self._columns - 4)
        self.lines += [f"{mark}{first}", *(f"    {each}" for each in more)]

    def walk(self, conflicts: list[GitConflict]) -> None:
        """Ask at the terminal, conflict by conflict."""
        self._call.stop_waiting()
        keyboard = Keyboard()
        with keyboard:
            for number, conflict in enumerate(conflicts, 1):
                self._say([paint("dim", f"{number} of {self._total}"), *self._shown(conflict)])
                if not self._decide(conflict, keyboard):
                    break

    def _decide(self, conflict: GitConflict, keyboard: Keyboard) -> bool:
        """Do what a person says about a conflict; False: they want to end."""
        sides = {each.name[0]: each.name for each in conflict.sides}
        edit = "" if conflict.kind == METADATA else " [e]dit"
        prompt = f"{' '.join(f'[{key}]{name[1:]}' for key, name in sides.items())}{edit} [s]kip [q]uit: "
        while True:
            self._call.screen.write(prompt)
            self._call.screen.flush()
            key = keyboard.read().lower()
            self._say([key if key.isprintable() else ""])
            try:
                if key in sides:
                    self.settle(conflict, sides[key], {})
                elif key == "e" and edit:
                    keyboard.__exit__()  # the editor has the terminal meanwhile
                    try:
                        self._edit(conflict)
                    finally:
                        keyboard.__enter__()
                elif key not in ("s", "q", ""):
                    continue
            except SMPError as error:
                self._say([paint("red", safe(error.message))])
                continue
            self._say(self.lines)
            self.lines = []
            return key not in ("q", "")

    def _edit(self, conflict: GitConflict) -> None:
        """Let a person edit the memory; of a file with two versions of it, after one was kept."""
        session = conflict.session
        if conflict.kind != FIELDS:
            self.store.take(conflict, next(each.name for each in conflict.sides if each.fields is not None))
        after = edit_in_editor(session, session.get(conflict.id), None, None)
        own = {name: after.given.get(name) for name in conflict.sides[0].fields or conflict.sides[1].fields or {}}
        if conflict.kind == FIELDS:
            session.update(conflict.id, by=self._call.author, **own)  # also settles what was left as it is
        self._report(conflict, None, own, [])

    def _say(self, lines: list[str]) -> None:
        for line in lines:
            self._call.screen.line(line)
        self._call.screen.flush()


def _differing(side: Side, other: Side) -> Iterator[tuple[str, Any]]:
    """The fields of a side; of an object only the parts that differ."""
    for name, value in (side.fields or {}).items():
        against = (other.fields or {}).get(name)
        if isinstance(value, dict) and isinstance(against, dict):
            yield from (
                (f"{name}.{key}", value.get(key)) for key in {**value, **against} if value.get(key) != against.get(key)
            )
        else:
            yield name, value


def _values(fields: Iterable[tuple[str, Any]]) -> str:
    said = (
        f"{name}: {'nothing' if value is None else truncate(one_line(value_text(value)), 40)}" for name, value in fields
    )
    return ", ".join(said)


def _way_back(conflict: GitConflict, others: list[Side], *, has_quarantine: bool) -> list[str]:
    if conflict.kind == FIELDS:
        fields = [(name, value) for each in others[:1] for name, value in (each.fields or {}).items()]
        is_short = len(fields) == 1 and isinstance(fields[0][1], str) and fields[0][1].isalnum()
        change = f" {fields[0][0]}={fields[0][1]}" if is_short else ""
        return [f"All versions: smp history {conflict.ref}", f"To take the other: smp edit {conflict.ref}{change}"]
    where = "smp quarantine, and " if has_quarantine else ""
    return [f"The other version: {where}the commits of its side have it."]


# -- the end


def _finish(call: Invocation, repository: Repository, resolution: Resolution, *, is_changed: bool) -> int:
    """Take markers out where nothing is left to decide, and say what is left and what to do next."""
    store = resolution.store
    actions = store.finish() if is_changed else []
    left, unmerged, marked = store.conflicts(), store.unmerged(), store.marked()
    ready = [
        path
        for path, ids in unmerged.items()
        if {2, 3} <= ids.keys() and path not in marked and store.is_of_session(path)
    ]
    foreign = [path for path in unmerged if path not in ready and path not in marked]
    operation = repository.operation()[0]
    lines = list(resolution.lines)
    lines += [each for each in actions if "allocated twice" in each or "quarantine" in each]
    lines += [line for path in foreign for line in _by_hand(path, unmerged[path])]
    if left:
        lines += [
            f"{plural(len(left), 'conflict')} left. Choose: smp git resolve",
            "In a script: smp git resolve ID --take SIDE",
        ]
    elif not marked and not foreign:
        lines += _ended(repository, store, operation, unmerged, call.screen.width or _COLUMNS)
    data = {
        "resolved": resolution.kept,
        "open": [each.to_dict() for each in left],
        "actions": actions,
        "to_stage": ready,
        "unmerged": foreign,
        "operation": operation or None,
    }
    call.answer(data, lines)
    return 1 if left or marked or foreign else 0


def _by_hand(path: str, ids: dict[int, str]) -> list[str]:
    """The next steps for a file that git alone can settle."""
    shown = shlex.quote(path)
    if {2, 3} <= ids.keys():
        steps = [f"  Keep one side (or --theirs): git checkout --ours -- {shown}", f"  Then: git add {shown}"]
        return [f"{safe(path)} is not a file of a session.", *steps]
    gone = OURS if 2 not in ids else THEIRS
    steps = [f"  Delete it: git rm -- {shown}", f"  Keep it: git add -- {shown}"]
    return [f"{safe(path)} was deleted by {gone}", "  and changed by the other side.", *steps]


def _ended(
    repository: Repository, store: ConflictedStore, operation: str, unmerged: Iterable[str], columns: int
) -> Iterator[str]:
    if not unmerged and not operation:
        yield "Nothing is left to decide."
        return
    add = f"git add {store.below or '.'} && " if unmerged else ""
    said = f"Nothing is left to decide. Next, in {safe(repository.top)}:"
    yield from [said] if len(said) <= columns else ["Nothing is left to decide. Next, in", f"  {safe(repository.top)}:"]
    yield f"  {add}{_CONTINUE.get(operation, 'git status')}"
