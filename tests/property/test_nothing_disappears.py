"""Nothing acknowledged disappears without a trace, and nothing deleted comes back, after any operations and crashes.

A machine does at random all that can be done to two sessions, and loses power in the middle of some of it. After each step:
each memory that was acknowledged is in the files, in the trash, in the cold segment, in an archive or in the trash of
sessions, as it was, with its history and relations; or a purge or an erasure names it in the audit log. What was deleted
stays deleted. Of what was erased no byte is left in any file, compressed ones unpacked. No id is given out twice.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from typing import Any, NamedTuple

import pytest
from hypothesis import HealthCheck, note, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule, run_state_machine_as_test

from smp_memory.files.disk import Disk
from smp_memory.files.layouts import NAMES
from smp_memory.files.memory_system import MemorySystem
from smp_memory.lifecycle.clock_trust import NO_EVIDENCE
from smp_memory.lifecycle.purge import PurgeNotes, purged_ids
from smp_memory.memory import Memory, open_memory
from smp_memory.session import SessionMemory
from smp_memory.store.remnants import scan_folder
from smp_memory.testing import CrashingSystem, FrozenClock, PowerLoss
from tests.session_files import storage_of

ROOT = "/store"
SESSIONS = ("s", "t")
LIVE, TRASH, COLD = "live", "trash", "cold"  # where a memory is in its session
HERE, ARCHIVED, DELETED = "here", "archived", "deleted"  # where a session is
SOAK = int(os.environ.get("SMP_SOAK", "0"))

Do = Callable[[Memory], Any]


class Seen(NamedTuple):
    """One memory: where it is, what it says and what happened to it."""

    state: str
    record: dict[str, Any]
    history: list[dict[str, Any]]


class View(NamedTuple):
    """All that is there, put away or not."""

    places: dict[str, str]  # of the sessions
    memories: dict[str, Seen]  # by `session/ID`
    named: frozenset[
        str
    ]  # by a purge or an erasure, in the audit log or on its way there; of a purged session `session/`


class Crash(NamedTuple):
    """The machine stops before a call of what is done, and one of the states that this may leave is what there is."""

    call: int
    state: int  # 0: killed, all that was written is there; else one of those after a power loss


CRASHES = st.one_of(st.none(), st.none(), st.builds(Crash, st.integers(1, 45), st.integers(0, 5)))
WHICH = st.integers(0, 1)
PICKS = st.lists(st.integers(0, 99), min_size=1, max_size=3)  # what is there depends on the seconds of the clock
FIELDS: dict[str, Callable[[str], dict[str, Any]]] = {
    "turn": lambda text: {"role": "user", "content": text},
    "decision": lambda text: {"decision": text, "rationale": f"because of {text}"},
    "finding": lambda text: {"finding": text, "severity": "low"},
    "preference": lambda text: {"preference": text},
    "artifact": lambda text: {"name": "notes.md", "content": f"# Notes\n\n{text}\n"},
    "learning": lambda text: {"learning": text},
    "summary": lambda text: {"summary": text},
    "agent_state": lambda text: {"agent": "coder", "state": {"doing": text}},
}


def open_on(system: MemorySystem, clock: FrozenClock, layout: str | None = None) -> Memory:
    return open_memory(ROOT, layout=layout, system=system, clock=clock)


def look(system: MemorySystem, clock: FrozenClock) -> View:
    """Everything that is there, found on a copy of the disk on which everything is brought back."""
    with open_on(MemorySystem(disk=system), clock) as memory:
        places = {session.id: HERE for session in memory.sessions()}
        for place, aways in ((ARCHIVED, memory.archived_sessions()), (DELETED, memory.deleted_sessions())):
            for away in aways:
                assert away.session not in places, f"{away.session} is {places[away.session]} and {place}"
                places[away.session] = place
        memories: dict[str, Seen] = {}
        named: set[str] = set()
        for name, place in places.items():
            if place == DELETED:
                memory.undelete_session(name)
            session = memory.session(name)
            memories |= _memories(session)
            named |= {f"{name}/{id}" for id in _taken(session)}
        named |= {  # last: what a purge that was interrupted had to say is noted by whoever comes next
            f"{line['session']}/{id}"
            for line in memory.store.audit.entries()
            if line["action"] in ("purge", "erase", "purge_session")
            for id in line.get("ids", [""])
        }
    return View(places, memories, frozenset(named))


def _taken(session: SessionMemory) -> list[str]:
    """What a purge has taken that could not note it in the audit log yet."""
    storage = storage_of(session)
    storage.run_locked("finishing what was under way", lambda: None)
    return purged_ids(storage, PurgeNotes(session.memory.store.state, session.id))


def _memories(session: SessionMemory) -> dict[str, Seen]:
    report = session.validate()
    assert report.ok, report.problems
    cold = [each for each in session.archived() if not each.is_history]
    assert not {each.id for each in cold} & {record.id for record in session.records(include_deleted=True)}
    if session.archived():
        session.restore_archived(*(each.id for each in session.archived()))
    found = {}
    names = {each.id for each in cold}
    for record in session.records(include_deleted=True):
        state = TRASH if record.deleted else COLD if record.id in names else LIVE
        found[record.ref] = Seen(state, record.to_dict(), session.history(record.id))
    return found


class Nothing(RuleBasedStateMachine):
    """`seen` is what was there after the last step; the sets say what was asked for, and never unlearn it."""

    @initialize(layout=st.sampled_from(NAMES))
    def begin(self, layout: str) -> None:
        self.clock = FrozenClock()
        self.system = CrashingSystem(now_ns=self._now_ns)
        self.memory = open_on(self.system, self.clock, layout)
        for name in SESSIONS:
            self.memory.create_session(name)
        self.seen = look(self.system, self.clock)
        self.given: set[str] = set()  # every id that was ever given out
        self.trashed: set[str] = set()  # what somebody deleted, and nobody restored
        self.needles: dict[str, list[str]] = {}  # words that only this memory has, the one of its last state at the end
        self.erased: set[str] = set()  # the words of what was erased
        self.count = 0

    def _now_ns(self) -> int:
        self._ticks = getattr(self, "_ticks", 0) + 1_000_000
        return self._ticks + int(self.clock().timestamp() * 1e9)

    # -- doing, with or without a crash

    def do(self, what: Do, crash: Crash | None, touched: set[str], *, goes: bool = False) -> bool:
        """Do it; whether it was acknowledged. Only what is `touched` may change, and only what `goes` may be gone."""
        before = self.seen
        acknowledged = True
        if crash is None:
            self._run(what)
        else:
            after = self._what_would_be(what)
            acknowledged = self._crashed(what, crash)
            self.seen = look(self.system, self.clock)
            self._old_or_new(before, after, self.seen, acknowledged)
        self.seen = look(self.system, self.clock)
        self._check(before, touched, goes)
        return acknowledged

    def _run(self, what: Do) -> None:
        result = what(self.memory)
        if isinstance(result, Memory):  # a conversion gives a new one
            self.memory = result

    def _what_would_be(self, what: Do) -> View:
        twin = MemorySystem(disk=self.system)
        memory = open_on(twin, self.clock)
        what(memory)
        memory.close()
        return look(twin, self.clock)

    def _crashed(self, what: Do, crash: Crash) -> bool:
        self.system.crash_at = self.system.calls + crash.call
        try:
            self._run(what)
            self.system.crash_at = None
            return True
        except PowerLoss:
            pass
        note(f"the machine stops before call {crash.call}")
        if crash.state == 0:
            self.system = CrashingSystem(
                disk=self.system, now_ns=self._now_ns
            )  # what was not acknowledged is synced by now
        else:
            states = [*self.system.crash_states(limit=crash.state, seed=crash.call)]
            note(states[-1].story)
            self.system = CrashingSystem(disk=states[-1], now_ns=self._now_ns)
        self.memory = open_on(self.system, self.clock)
        return False

    @staticmethod
    def _old_or_new(before: View, after: View, found: View, acknowledged: bool) -> None:
        """After a crash each memory and each session is as it was or as it would be."""
        for name in before.places.keys() | after.places.keys() | found.places.keys():
            places = {view.places.get(name) for view in ((after,) if acknowledged else (before, after))}
            assert found.places.get(name) in places, f"{name} is {found.places.get(name)}, not one of {places}"
        for ref in before.memories.keys() | after.memories.keys() | found.memories.keys():
            allowed = [view.memories.get(ref) for view in ((after,) if acknowledged else (before, after))]
            assert found.memories.get(ref) in allowed, f"{ref} is {found.memories.get(ref)}, not one of {allowed}"

    def _check(self, before: View, touched: set[str], goes: bool) -> None:
        seen = self.seen
        for ref, was in before.memories.items():
            now = seen.memories.get(ref)
            if now is None:
                assert ref in seen.named or f"{ref.partition('/')[0]}/" in seen.named, f"{ref} is gone without a trace"
                assert goes, f"{ref} is gone, and nobody asked for that"
                assert ref in touched, f"{ref} is gone, and was not meant"
            elif ref not in touched:
                assert now.record == was.record, f"{ref} has changed"
                assert now.history == was.history, f"{ref} has another history"
                assert (now.state == TRASH) == (was.state == TRASH), f"{ref} was {was.state} and is {now.state}"
        for ref in seen.memories.keys() - before.memories.keys():
            if "/STATE-" not in ref:  # an agent's state is named after the agent
                assert ref in touched or ref not in self.given, f"{ref} has come back"
            self.given.add(ref)
        self.trashed &= seen.memories.keys()
        assert {ref for ref in self.trashed if seen.memories[ref].state != TRASH} == set(), "deleted, and back"
        self._no_erased_byte()

    def _no_erased_byte(self) -> None:
        needles = [needle.encode() for needle in sorted(self.erased)]
        if needles:
            looked = scan_folder(Disk(self.system), ROOT, needles)
            assert not looked.found, f"erased, and still in {looked.found}"
            assert not looked.unreadable, f"cannot be looked through: {looked.unreadable}"

    # -- who is meant

    def refs(self, *states: str, place: str = HERE) -> list[str]:
        return sorted(
            ref
            for ref, seen in self.seen.memories.items()
            if seen.state in states and self.seen.places[ref.partition("/")[0]] == place and ref in self.needles
        )

    def some(self, picks: list[int], *states: str, place: str = HERE) -> list[str]:
        refs = self.refs(*states, place=place)
        return list(dict.fromkeys(refs[pick % len(refs)] for pick in picks)) if refs else []

    def at(self, *places: str) -> list[str]:
        return sorted(name for name, where in self.seen.places.items() if where in places)

    def one(self, which: int, *places: str) -> str | None:
        names = self.at(*places)
        return names[which % len(names)] if names else None

    def text(self, words: int) -> tuple[str, str]:
        self.count += 1
        needle = f"wombat{self.count:04}quagga"
        return needle, " ".join([needle, *["and so it goes on"] * words])

    # -- writing

    @rule(
        which=WHICH,
        kinds=st.lists(st.sampled_from(sorted(FIELDS)), min_size=1, max_size=4),
        words=st.sampled_from([0, 3, 60]),
        crash=CRASHES,
    )
    def write(self, which: int, kinds: list[str], words: int, crash: Crash | None) -> None:
        name = self.one(which, HERE)
        if name is None:
            return
        needles, items = [], []
        for kind in kinds:
            needle, text = self.text(words)
            needles.append(needle)
            items.append((kind, FIELDS[kind](text)))
        before = self.seen.memories
        states = {ref for ref in before if ref.startswith(f"{name}/STATE-coder")}  # may be changed by this
        self.do(lambda memory: memory.session(name).add_many(items), crash, states)
        self._learn(needles, [ref for ref, seen in self.seen.memories.items() if seen != before.get(ref)])

    def _learn(self, needles: list[str], refs: list[str]) -> None:
        """Which of these words stand in which memory."""
        for ref in refs:
            said = str((self.seen.memories[ref].record, self.seen.memories[ref].history))
            found = [needle for needle in needles if needle in said]
            if found:
                self.needles.setdefault(ref, []).extend(found)

    @rule(which=WHICH, crash=CRASHES)
    def turns_of_old(self, which: int, crash: Crash | None) -> None:
        """Enough of them that compaction leaves a summary, made of their own sentences."""
        name = self.one(which, HERE)
        if name is None:
            return
        pairs = [self.text(20) for _ in range(14)]
        items = [("turn", {"role": "user", "content": f"{text}. {needle} it was."}) for needle, text in pairs]
        before = self.seen.memories.keys()
        self.do(lambda memory: memory.session(name).add_many(items), crash, set())
        self._learn([needle for needle, _ in pairs], sorted(self.seen.memories.keys() - before))

    @rule(which=WHICH, key=st.sampled_from(["first", "second"]), crash=CRASHES)
    def write_once(self, which: int, key: str, crash: Crash | None) -> None:
        """With an idempotency key: what is there, in the files or in the cold segment, is not stored again."""
        name = self.one(which, HERE)
        if name is None:
            return
        needle, text = self.text(0)
        before = self.seen.memories
        holders = {
            ref
            for ref, seen in before.items()
            if ref.startswith(f"{name}/") and seen.record.get("idempotency_key") == key and seen.state != TRASH
        }
        stored: list[str] = []
        fields = {"finding": text, "status": "resolved", "idempotency_key": key}
        acknowledged = self.do(
            lambda memory: stored.append(memory.session(name).add("finding", fields).ref), crash, set()
        )
        new = self.seen.memories.keys() - before.keys()
        self._learn([needle], sorted(new))
        if holders:
            assert not new, f"{holders} have the key, and there is {new}"
        if acknowledged:
            assert stored[-1] in (holders or new)

    @rule(picks=PICKS, crash=CRASHES, together=st.booleans())
    def change(self, picks: list[int], crash: Crash | None, together: bool) -> None:
        refs = [ref for ref in self.some(picks, LIVE) if self.seen.memories[ref].record["type"] != "conversation"]
        if not refs:
            return
        name = refs[0].partition("/")[0]
        ids = [ref.partition("/")[2] for ref in refs if ref.startswith(f"{name}/")]
        texts = {id: self.text(1) for id in ids}

        def what(memory: Memory) -> None:
            session = memory.session(name)
            if together:
                with session.transaction() as transaction:
                    for id in ids:
                        transaction.update(id, note=texts[id][1])
                    transaction.relate(ids[0], ids[-1])
            else:
                session.update(ids[0], note=texts[ids[0]][1])

        self.do(what, crash, {f"{name}/{id}" for id in ids})
        self._learn([needle for needle, _ in texts.values()], refs)

    # -- forgetting and bringing back

    @rule(picks=PICKS, crash=CRASHES, by_words=st.booleans())
    def delete(self, picks: list[int], crash: Crash | None, by_words: bool) -> None:
        refs = self.some(picks, LIVE)
        if not refs:
            return
        if by_words:
            refs = refs[:1]
            words = self.needles[refs[0]][-1]
            acknowledged = self.do(lambda memory: memory.delete(text=words, reason="by words"), crash, set(refs))
        else:
            acknowledged = self.do(lambda memory: memory.delete(refs, "by id"), crash, set(refs))
        if acknowledged:
            self.trashed.update(refs)
            assert {self.seen.memories[ref].state for ref in refs} == {TRASH}
        else:
            self.trashed.update(ref for ref in refs if self.seen.memories[ref].state == TRASH)

    @rule(picks=PICKS, crash=CRASHES)
    def restore(self, picks: list[int], crash: Crash | None) -> None:
        """From the trash and from the cold segment in one call."""
        refs = self.some(picks, TRASH, COLD)
        self.trashed.difference_update(refs)
        if not refs:
            return
        acknowledged = self.do(lambda memory: memory.restore(refs), crash, set(refs))
        if acknowledged:
            assert {self.seen.memories[ref].state for ref in refs} == {LIVE}
        self.trashed.update(ref for ref in refs if self.seen.memories[ref].state == TRASH)

    @rule(crash=CRASHES, session=st.sampled_from([None, *SESSIONS]))
    def purge(self, crash: Crash | None, session: str | None) -> None:
        def what(memory: Memory) -> None:
            (memory if session is None else memory.session(session)).purge(older_than=0, evidence=NO_EVIDENCE)

        if session is None or session in self.at(HERE):
            self.do(what, crash, set(self.refs(TRASH)), goes=True)

    @rule(picks=PICKS, crash=CRASHES, place=st.sampled_from([HERE, HERE, ARCHIVED, DELETED]))
    def erase(self, picks: list[int], crash: Crash | None, place: str) -> None:
        refs = self.some(picks, LIVE, TRASH, COLD, place=place)
        if not refs:
            return
        places = self.seen.places
        summaries = {ref for ref, seen in self.seen.memories.items() if seen.record["type"] == "summary"}
        receipts: list[Any] = []
        acknowledged = self.do(
            lambda memory: receipts.append(memory.erase(refs, reason="asked to")), crash, {*refs, *summaries}, goes=True
        )
        assert self.seen.places == places
        gone = [ref for ref in refs if ref not in self.seen.memories]
        if acknowledged:
            assert gone == refs
            assert receipts[-1].verified
            assert receipts[-1].left == []
        self.erased.update(needle for ref in gone for needle in self.needles[ref])
        self._no_erased_byte()

    # -- time and upkeep

    @rule(days=st.sampled_from([1, 2, 45]))
    def pass_time(self, days: int) -> None:
        self.clock.advance(days=days)

    @rule(which=WHICH, how=st.sampled_from(["gentle", "forced", 1 << 40, 1 << 40]), crash=CRASHES)
    def compact(self, which: int, how: Any, crash: Crash | None) -> None:
        name = self.one(which, HERE)
        if name is not None:
            self.do(lambda memory: memory.session(name).compact(how), crash, set())

    @rule(which=WHICH, crash=CRASHES)
    def archive(self, which: int, crash: Crash | None) -> None:
        name = self.one(which, HERE)
        if name is not None:
            self.do(lambda memory: memory.archive_session(name), crash, set())

    @rule(which=WHICH, crash=CRASHES)
    def restore_session(self, which: int, crash: Crash | None) -> None:
        name = self.one(which, ARCHIVED)
        if name is not None:
            self.do(lambda memory: memory.restore_session(name), crash, set())

    @rule(which=WHICH, crash=CRASHES)
    def delete_session(self, which: int, crash: Crash | None) -> None:
        name = self.one(which, HERE, ARCHIVED)
        if name is not None:
            self.do(lambda memory: memory.delete_session(name, "not needed"), crash, set())

    @rule(which=WHICH, crash=CRASHES)
    def undelete_session(self, which: int, crash: Crash | None) -> None:
        name = self.one(which, DELETED)
        if name is not None:
            self.do(lambda memory: memory.undelete_session(name), crash, set())

    @rule(which=WHICH, crash=CRASHES)
    def purge_session(self, which: int, crash: Crash | None) -> None:
        name = self.one(which, DELETED)
        if name is None or len(self.at(DELETED)) < len(SESSIONS):
            return
        touched = {ref for ref in self.seen.memories if ref.startswith(f"{name}/")}
        self.do(lambda memory: memory.purge_session(name), crash, touched, goes=True)

    @rule(to=st.sampled_from(NAMES), crash=CRASHES)
    def convert(self, to: str, crash: Crash | None) -> None:
        self.do(lambda memory: memory.convert(to), crash, set())

    @rule()
    def open_again(self) -> None:
        self.memory.close()
        self.memory = open_on(self.system, self.clock)

    # -- asking

    @rule(picks=PICKS, anew=st.booleans())
    def ask(self, picks: list[int], anew: bool) -> None:
        """A question finds what is live, and what was put away if asked for it; never what is in the trash, or gone."""
        if anew:
            self.memory.reindex()
        refs = sorted(self.needles)
        if not refs:
            return
        for ref in dict.fromkeys(refs[pick % len(refs)] for pick in picks):
            seen = self.seen.memories.get(ref)
            place = self.seen.places.get(ref.partition("/")[0])
            word = self.needles[ref][-1]
            own = {hit.ref for hit in self.memory.query(word)} & self.needles.keys()
            assert own == ({ref} if seen and seen.state == LIVE and place == HERE else set())
            hits = {hit.ref: hit for hit in self.memory.query(word, include_archived=True)}
            there = seen is not None and seen.state != TRASH and place in (HERE, ARCHIVED)
            assert hits.keys() & self.needles.keys() == ({ref} if there else set())
            if seen is not None and there:
                assert bool(hits[ref].archived) == (seen.state == COLD or place == ARCHIVED)


class _Steady:
    """A clock for the locks, which write down who holds them once in a second: the same calls in every run."""

    def __init__(self) -> None:
        self._seconds = 0.0

    def __getattr__(self, name: str) -> Any:
        return getattr(time, name)

    def time(self) -> float:
        return 0.0

    def monotonic(self) -> float:
        self._seconds += 0.001
        return self._seconds


@pytest.mark.timeout(600)
@pytest.mark.crash
def test_nothing_acknowledged_disappears_and_nothing_forgotten_comes_back(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("smp_memory.files.lock.time", _Steady())
    run_state_machine_as_test(
        Nothing,
        settings=settings(
            max_examples=400 * SOAK if SOAK else 30,
            stateful_step_count=40 if SOAK else 25,
            deadline=None,
            suppress_health_check=list(HealthCheck),
        ),
    )
