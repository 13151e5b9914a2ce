"""Generate labelled projects for the recall benchmark: memories, prompts, and which memory each prompt needs. Deterministic.

The texts are written by hand, in `recall_bank/`, one file per domain. A block of such a file is a fact:

    D refunds                 its type (D decision, F finding, L learning, P preference, A artifact, T turn) and topic, then
                              severity=, key=, name=, until= (valid until that day) or alias= (another name of its subject)
    s, t, c                   the fact as a sentence, as a terse note, as somebody says it in a conversation
    u                         the fact that replaces it later; for a finding r, how it was resolved
    q, m, p, w, x             prompts that need it: direct, partly in other words, wholly so, a request for work, by its alias
    n                         a prompt that is about something near to it, which no memory covers

A block that begins with `=` makes one fact for each of two names `x` with the values `v`; the third name is never covered.
`~` is a memory that nobody asks for, `-` a prompt that no memory answers. `common.txt` has standing wishes, chatter and
prompts for all domains.

The split is by domain and by style: no domain, no style, no name of a person and no common text is in both parts. The weights of
the ranking may be chosen on DEVELOPMENT; HELD_OUT is for checking only.
"""

from __future__ import annotations

import os
import random
import re
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import cache

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

DEVELOPMENT, HELD_OUT = "development", "held-out"
DOMAINS = {
    DEVELOPMENT: ("payments", "logistics", "hospital", "game", "pipeline", "household"),
    HELD_OUT: ("mobile", "compiler", "shop", "lab"),
}
SMALL = {DEVELOPMENT: ("german", "russian"), HELD_OUT: ("german_held", "japanese_held")}  # in other languages
STYLES = {DEVELOPMENT: ("sentences", "terse", "chat", "paths"), HELD_OUT: ("commits", "minutes", "talk")}
SEEDS = {DEVELOPMENT: 2, HELD_OUT: 1}  # projects of one domain and style
_PEOPLE = {
    DEVELOPMENT: ("Marta", "Jonas", "Priya", "Oleg", "Hanna", "Tariq", "Lucia", "Sven", "Amara", "Dimitri"),
    HELD_OUT: ("Beatriz", "Kenji", "Farida", "Anselm", "Noor", "Gwen", "Rasmus", "Ivana", "Tobias", "Zeynep"),
}
_TYPES = {
    "D": "decision",
    "F": "finding",
    "L": "learning",
    "P": "preference",
    "A": "artifact",
    "T": "conversation",
}
_BANK = os.path.join(os.path.dirname(os.path.abspath(__file__)), "recall_bank")
FIRST_DAY = datetime(2025, 10, 6, 9, tzinfo=UTC)
ASKED_AT = datetime(2026, 6, 30, 9, tzinfo=UTC)  # after every memory and every `until`
_SESSIONS = (5, 8)
_OPENINGS = ("Well, as I said,", "Right, so for the record:", "Hm, I think we agreed:", "Just so that you know,")
_COVERED = 0.8  # of the facts of a domain; prompts about the others need no memory
_MONTHS = "January February March April May June July August September October November December".split()  # noqa: SIM905

# Kinds of prompts, by what they need.
_ASKED = (("q", "direct"), ("m", "reworded"), ("p", "paraphrase"), ("w", "task"))
WORDED = (
    "direct",
    "reworded",
    "swapped",
    "typo",
    "alias",
    "dated",
    "superseded",
)  # names its subject or shares its words
OTHER_WORDS = ("paraphrase", "task", "wish")
NEED = WORDED + OTHER_WORDS
UNRELATED = ("general", "small talk", "coding")  # though it may share a word with a memory
NEAR = ("near miss", "uncovered", "uncovered name")  # about the same subject or the same kind of thing
NONE = UNRELATED + NEAR
HISTORY = ("resolved", "expired")  # what is there no longer holds: neither needed nor forbidden, and counted by itself


@dataclass
class Memory:
    """One memory to be stored. `number` names it inside its project."""

    number: int
    type: str
    fields: dict[str, Any]
    when: datetime
    supersedes: int | None = None  # the number of another one
    resolution: str | None = None  # stored as resolved with this text
    is_wish: bool = False
    text: str = ""


@dataclass
class Prompt:
    """A prompt and its labels: numbers of memories."""

    text: str
    kind: str
    gold: set[int] = field(default_factory=set)  # each of them answers it
    stale: set[int] = field(default_factory=set)  # was true once
    siblings: set[int] = field(default_factory=set)  # the same about another name
    neutral: set[int] = field(default_factory=set)  # neither right nor wrong, such as a turn that asks the same


@dataclass
class Project:
    """A store's content in sessions, and the prompts about it."""

    name: str
    domain: str
    style: str
    sessions: list[list[Memory]]
    prompts: list[Prompt]

    @property
    def memories(self) -> list[Memory]:
        return [memory for session in self.sessions for memory in session]


# --- The bank ------------------------------------------------------------------------------------------------------


@dataclass
class _Fact:
    letter: str
    topic: str
    options: dict[str, str]
    lines: dict[str, list[str]]

    def one(self, key: str) -> str:
        return self.lines[key][0] if self.lines.get(key) else ""


@dataclass
class _Bank:
    facts: list[_Fact]
    pairs: list[_Fact]
    fillers: list[tuple[str, str]]
    prompts: list[str]
    wishes: list[_Fact] = field(default_factory=list)
    sections: dict[str, list[str]] = field(default_factory=dict)


@cache
def _read(name: str) -> _Bank:
    bank = _Bank([], [], [], [])
    with open(os.path.join(_BANK, f"{name}.txt"), encoding="utf-8") as file:
        text = "\n".join(line for line in file.read().splitlines() if not line.startswith("#"))
    for block in filter(None, (each.strip() for each in re.split(r"\n\s*\n", text))):
        head, *lines = block.split("\n")
        if head[0] in "~-":
            _add_lines(bank, "", [head, *lines])
        elif lines and lines[0][0] in "~-":
            _add_lines(bank, head, lines)
        else:
            fact = _fact(head, lines)
            {"=": bank.pairs, "W": bank.wishes}.get(fact.letter, bank.facts).append(fact)
    return bank


def _add_lines(bank: _Bank, section: str, lines: list[str]) -> None:
    bank.sections.setdefault(section, []).extend(lines)
    bank.fillers += [(line[1], line[2:].strip()) for line in lines if line[0] == "~"]
    bank.prompts += [line[1:].strip() for line in lines if line[0] == "-"]


def _fact(head: str, lines: list[str]) -> _Fact:
    letter, *words = head.split()
    options = dict(word.split("=", 1) for word in words if "=" in word)
    found: dict[str, list[str]] = {}
    for line in lines:
        key, _, text = line.partition(" ")
        found.setdefault(key, []).append(text.strip())
    return _Fact(letter, " ".join(word for word in words if "=" not in word), options, found)


# --- Projects ------------------------------------------------------------------------------------------------------


def projects(part: str = DEVELOPMENT, most: int | None = None) -> Iterator[Project]:
    """All projects of a part, or the first ones: every domain before the next style or seed."""
    plans = [(domain, style, seed) for seed in range(SEEDS[part]) for style in STYLES[part] for domain in DOMAINS[part]]
    small = [(domain, style, 0) for domain in SMALL[part] for style in STYLES[part][:2]]
    for domain, style, seed in (small[:1] + plans + small[1:])[:most]:
        yield _Maker(part, domain, style, seed).project()


class _Maker:
    """Makes one project."""

    def __init__(self, part: str, domain: str, style: str, seed: int) -> None:
        self._rng = random.Random(f"{part} {domain} {style} {seed}")
        self._part, self._domain, self._style = part, domain, style
        self._name = f"{domain}-{style}-{seed}"
        self._bank, self._common = _read(domain), _read("common")
        self._people = dict(zip("ABC", self._rng.sample(_PEOPLE[part], 3), strict=True))
        self._memories: list[Memory] = []
        self._prompts: list[Prompt] = []
        days = (ASKED_AT - FIRST_DAY).days - 20
        self._days = sorted(self._rng.sample(range(days), self._rng.randint(*_SESSIONS)))

    def project(self) -> Project:
        rng, bank = self._rng, self._bank
        facts = rng.sample(bank.facts, len(bank.facts))
        covered = facts[: max(round(len(facts) * _COVERED), 1)]
        for fact in covered:
            self._add_fact(fact)
        for pair in bank.pairs:
            self._add_pair(pair)
        self._add_wishes()
        self._add_fillers()
        self._add_unneeded([fact for fact in facts if fact not in covered])
        rng.shuffle(self._prompts)
        wishes = {memory.number for memory in self._memories if memory.is_wish}
        for prompt in self._prompts:
            if not prompt.text.endswith(("?", "。")):  # a request for work: wishes may apply to it
                prompt.neutral |= wishes - prompt.gold
        return Project(self._name, self._domain, self._style, self._in_sessions(), self._prompts)

    # -- memories

    def _add(self, type: str, fields: dict[str, Any], day: int | None = None, **labels: Any) -> Memory:
        days = self._days
        when = FIRST_DAY + timedelta(
            days=self._rng.choice(days) if day is None else day, minutes=self._rng.randrange(480)
        )
        text = " ".join(str(fields.get(key, "")) for key in ("content", "decision", "finding", "learning", "value"))
        memory = Memory(len(self._memories), type, fields, when, text=text.strip(), **labels)
        self._memories.append(memory)
        return memory

    def _filled(self, text: str, **slots: str) -> str:
        for slot, value in {**self._people, **slots}.items():
            text = text.replace(f"{{{slot}}}", self._people.get(value[1:2], value) if value[:1] == "{" else value)
        return text

    def _fields(self, letter: str, text: str, topic: str, options: dict[str, str]) -> tuple[str, dict[str, Any]]:
        """Type and fields of a memory with this text."""
        rng, type = self._rng, _TYPES[letter]
        author = rng.choice(list(self._people.values()))
        if type == "conversation":
            return type, {"role": "user" if rng.random() < 0.7 else "assistant", "author": author, "content": text}
        common: dict[str, Any] = {"author": author}
        if topic and rng.random() < 0.6:
            common["topic"] = topic
        if topic and rng.random() < 0.4:
            common["tags"] = [topic, self._domain]
        if "until" in options:
            common["valid_until"] = options["until"]
        if type == "preference":
            return type, {"key": options.get("key", topic), "value": text, **common}
        if type == "artifact":
            return type, {"name": options.get("name", f"{topic or 'notes'}.md"), "content": text, **common}
        if type == "finding":
            common |= {"severity": options.get("severity", "medium"), "status": "open"}
        if type == "decision" and rng.random() < 0.5:
            common["status"] = "accepted"
        if type == "learning":
            common["confidence"] = rng.choice((0.6, 0.8, 0.9))
        return type, {type: text, **common}

    def _text(self, fact: _Fact, letter: str) -> str:
        """The text of a fact in the style of this project."""
        style, rng = self._style, self._rng
        said, terse, sentence = (fact.one(key) for key in "cts")
        if letter == "T" and style not in ("commits", "talk"):
            return said or sentence
        if style == "terse":
            return terse or sentence
        if style == "paths":
            stem = re.sub(r"\W+", "_", fact.topic or "notes")
            ticket = f"{self._domain[:3].upper()}-{rng.randint(100, 2999)}"
            ends = (
                f"See src/{self._domain}/{stem}.py:{rng.randint(8, 400)}.",
                f"({ticket}, {stem}_config.yaml)",
                ticket,
            )
            return f"{sentence} {rng.choice(ends)}"
        if style == "commits":
            kind = {"F": "fix", "D": "feat", "L": "docs", "P": "chore", "A": "docs"}.get(letter, "chore")
            return f"{kind}({fact.topic or self._domain}): {terse or sentence}"
        if style == "minutes":
            name = rng.choice(list(self._people.values()))
            return f"Item {rng.randint(1, 9)}, presented by {name}. {sentence} Noted without objection."
        if style == "talk":
            name = rng.choice(list(self._people.values()))
            return f"{name}: {rng.choice(_OPENINGS)} {said or sentence}"
        return sentence

    def _add_fact(self, fact: _Fact) -> None:
        rng = self._rng
        is_said = (
            self._style in ("chat", "talk") and fact.one("c") and "until" not in fact.options and not fact.one("r")
        )
        letter = "T" if is_said and rng.random() < 0.7 else fact.letter
        text = self._filled(self._text(fact, letter))
        aliases: dict[str, Any] = {}
        alias = fact.options.get("alias")
        if alias and rng.random() < 0.6:
            text = f"{text} We call it {alias}."
        elif alias:
            aliases["aliases"] = [alias]
        day = rng.choice(self._days[:-1]) if fact.one("u") or fact.one("r") else None
        type, fields = self._fields(letter, text, fact.topic, fact.options)
        memory = self._add(type, {**fields, **aliases}, day)
        gold, neutral = {memory.number}, set()
        if letter != "T" and fact.one("c") and rng.random() < 0.12:  # said before it was written down
            gold.add(self._add(*self._fields("T", self._filled(fact.one("c")), "", {})).number)
        if letter == "T" and rng.random() < 0.25:
            neutral.add(self._asked_before(fact, memory))
        if fact.one("u") and rng.random() < 0.75:
            self._supersede(fact, gold, memory)
        elif fact.one("r") and rng.random() < 0.6:
            memory.resolution = fact.one("r")
            self._ask(fact.one("q"), "resolved", neutral=gold | neutral, stale=gold)
        elif "until" in fact.options:
            self._ask(fact.one("q"), "expired", stale=gold)
        else:
            self._ask_about(fact, gold, neutral, memory)
        for text in fact.lines.get("n", []):
            self._ask(text, "near miss")

    def _asked_before(self, fact: _Fact, answer: Memory) -> int:
        """A turn that only asks, just before the one that answers."""
        text = self._filled(fact.one("q"))
        question = self._add(
            "conversation", {"role": "user", "author": self._people["C"], "content": f"Quick question: {text}"}
        )
        question.when = answer.when - timedelta(seconds=30)
        return question.number

    def _supersede(self, fact: _Fact, old: set[int], memory: Memory) -> None:
        rng = self._rng
        letter = "T" if memory.type == "conversation" else "D"
        replaced = _Fact(fact.letter, fact.topic, {}, {"s": [fact.one("u")]})
        type, fields = self._fields(letter, self._filled(self._text(replaced, letter)), fact.topic, {})
        way = rng.choice(("relation", "status", "implicit")) if type == memory.type == "decision" else "implicit"
        later = [day for day in self._days if FIRST_DAY + timedelta(days=day) > memory.when]
        new = self._add(type, fields, rng.choice(later or self._days[-1:]))
        if way == "relation":
            new.supersedes = memory.number
        elif way == "status":
            memory.fields["status"] = rng.choice(("superseded", "reversed", "deprecated"))
        for key, kind in (("q", "superseded"), ("m", "superseded")):
            self._ask(fact.one(key), kind, gold={new.number}, stale=old)

    def _ask_about(self, fact: _Fact, gold: set[int], neutral: set[int], memory: Memory) -> None:
        rng = self._rng
        if fact.one("x"):
            self._ask(fact.one("x"), "alias", gold=gold, neutral=neutral)
        is_named = fact.topic in memory.text.lower() or "topic" in memory.fields
        if is_named and rng.random() < 0.12 and self._domain in DOMAINS[self._part]:
            when = f"{_MONTHS[memory.when.month - 1]} {memory.when.year}"
            self._ask(f"What did we note about {fact.topic} in {when}?", "dated", gold=gold, neutral=neutral)
        kinds = [(key, kind) for key, kind in _ASKED if fact.one(key)]
        for key, kind in rng.sample(kinds, min(len(kinds), rng.choice((0, 1, 1, 2)))):
            self._ask(fact.one(key), kind, gold=gold, neutral=neutral)

    def _add_pair(self, pair: _Fact) -> None:
        names, values = ([each.strip() for each in pair.one(key).split("|")] for key in "xv")
        found: list[int] = []
        letter = self._rng.choice("DLT")
        for name, value in zip(names[:2], values[:2], strict=True):
            key = "t" if self._style in ("terse", "commits") else "s"
            text = self._filled(pair.one(key), X=name, V=value)
            found.append(self._add(*self._fields(letter, text, "", {})).number)
        for place in self._rng.sample((0, 1), 1):
            text = self._filled(self._rng.choice(pair.lines["q"] + pair.lines["p"]), X=names[place])
            labels = {"gold": {found[place]}, "siblings": {found[1 - place]}}
            self._ask(text, "swapped", **labels)
            wrong = self._filled(pair.one("q"), X=_mistyped(names[place], self._rng))
            if wrong != self._filled(pair.one("q"), X=names[place]):
                self._ask(wrong, "typo", **labels)
        if self._rng.random() < 0.7:
            text = self._filled(self._rng.choice(pair.lines["q"] + pair.lines["p"]), X=names[2])
            self._ask(text, "uncovered name", siblings=set(found))

    def _add_wishes(self) -> None:
        held = self._part == HELD_OUT
        wishes = [wish for wish in self._common.wishes if wish.topic.startswith("held-") == held]
        is_small = self._domain not in DOMAINS[self._part]
        for wish in self._rng.sample(wishes, 1 if is_small else 3):
            is_said = self._rng.random() < 0.5
            text = wish.one("c" if is_said else "s")
            options = {"key": wish.topic.removeprefix("held-")}
            memory = self._add(*self._fields("T" if is_said else "P", text, "", options), is_wish=True)
            if is_said:
                memory.fields["role"] = "user"
            self._ask(wish.one("w"), "wish", gold={memory.number})

    def _add_fillers(self) -> None:
        rng = self._rng
        section = "chatter held" if self._part == HELD_OUT else "chatter"
        lines = self._common.sections[section] if self._domain in DOMAINS[self._part] else []
        common = [(line[1], line[2:].strip()) for line in lines]
        for letter, text in [*self._bank.fillers, *rng.sample(common, min(len(common), rng.randint(10, 20)))]:
            options: dict[str, str] = {}
            if text.startswith("["):
                options["severity"], _, text = text[1:].partition("] ")
            if letter == "A":
                options["name"], _, text = text.partition(": ")
            self._add(*self._fields(letter, self._filled(text), "", options))

    # -- prompts

    def _ask(self, text: str, kind: str, **labels: set[int]) -> None:
        if text:
            labels = {name: set(numbers) for name, numbers in labels.items()}
            self._prompts.append(Prompt(self._filled(text), kind, **labels))

    def _add_unneeded(self, uncovered: list[_Fact]) -> None:
        rng, held = self._rng, " held" * (self._part == HELD_OUT)
        is_small = self._domain not in DOMAINS[self._part]
        for fact in uncovered:
            self._ask(fact.one(rng.choice("qmp")) or fact.one("q"), "uncovered")
        for text in rng.sample(self._bank.prompts, min(len(self._bank.prompts), 6)):
            self._ask(text, "general")
        for kind in ("small talk", "coding"):
            lines = self._common.sections[kind + held]
            for line in rng.sample(lines, 1 if is_small else 3):
                self._ask(line[1:].strip(), kind)

    def _in_sessions(self) -> list[list[Memory]]:
        sessions: list[list[Memory]] = [[] for _ in self._days]
        for memory in sorted(self._memories, key=lambda each: (each.when, each.number)):
            day = (memory.when - FIRST_DAY).days
            sessions[max(place for place, first in enumerate(self._days) if first <= day)].append(memory)
        return [session for session in sessions if session]


def _mistyped(name: str, rng: random.Random) -> str:
    """A name with one typing error in its longest word: two letters swapped, one left out, one doubled."""
    words = re.findall(r"[A-Za-zА-яäöüß]{5,}", name)
    if not words:
        return name
    word = max(words, key=len)
    place = rng.randrange(1, len(word) - 2)
    a, b = word[place], word[place + 1]
    wrong = rng.choice((word[:place] + b + a + word[place + 2 :], word[:place] + word[place + 1 :], word[:place] + a + word[place:]))  # fmt: skip
    return name.replace(word, wrong)


# --- Noise ---------------------------------------------------------------------------------------------------------


def noise(count: int, apart_from: str, seed: int = 0) -> Iterator[tuple[str, dict[str, Any]]]:
    """Memories about other matters: halves of sentences from other domains, joined, with other names and numbers."""
    rng = random.Random(f"noise {seed} {apart_from}")
    starts, ends = [], []
    for domain in DOMAINS[DEVELOPMENT]:
        if domain == apart_from:
            continue
        bank = _read(domain)
        texts = [fact.one("s") for fact in bank.facts] + [text for _, text in bank.fillers if text[0] != "["]
        for text in texts:
            words = text.rstrip(".").split()
            half = len(words) // 2
            starts.append(" ".join(words[:half]))
            ends.append(" ".join(words[half:]))
    letters = "TTTTTTDDFFL"
    for _ in range(count):
        text = f"{rng.choice(starts)} {rng.choice(ends)} {_invented(rng)}."
        text = re.sub(r"\d+", lambda _: str(rng.randint(2, 9999)), re.sub(r"\{[A-Z]\}", lambda _: _invented(rng), text))
        type = _TYPES[rng.choice(letters)]
        if type == "conversation":
            yield type, {"role": "user", "author": _invented(rng), "content": text}
        else:
            yield type, {type: text, "author": _invented(rng)}


_SYLLABLES = "ka lo mi ren tas vor bel dun fi gra hol jur nas pel qui sto tri ulm wex zan".split()  # noqa: SIM905


def _invented(rng: random.Random) -> str:
    return "".join(rng.choice(_SYLLABLES) for _ in range(rng.randint(2, 3))).capitalize()
