"""Fast validation of a new memory gives the same result as full validation, for any input in any order."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from smp_memory.errors import SMPError
from smp_memory.model.types import KINDS
from smp_memory.privacy.fence import fence
from smp_memory.privacy.redaction import Redactor
from smp_memory.write.path import Writer
from smp_memory.write.plain_fields import plain_fields, plain_form
from tests.privacy_samples import hard_negatives, hard_positives, positives

LIMIT = 2000
OWN = {"patterns": [{"type": "ticket", "regex": "TICKET-[0-9]{4}"}]}
REDACTORS = [Redactor(), Redactor({"enabled": False}), Redactor({"off": ["email", "password"]}), Redactor(OWN)]

sayings = st.sampled_from(
    [
        "Use OAuth 2.0 for all customers",
        "The cache forgets every request, and nobody noticed before the review.",
        "Größe der Tabelle: 3 × größer — 表は大きい 🙂",
        "password: hunter2hunter2",
        "the token is TICKET-1234, see ada@example.org",
        f"as said {fence('old')} before",
        fence("nothing else"),
        "half a pair \ud83d of surrogates",
        "",
        " ",
        "nul \0 and \r\n line ends \u2028",
        "x" * 480,
        "ü" * 480,
        *(sample.text for sample in (*positives()[::9], *hard_positives()[::4])),
        *hard_negatives()[::2],
    ]
)
tags = st.one_of(
    st.lists(st.sampled_from(["auth", "auth.oauth", "größe", "no tag", "", "a..b", "ada@example.org"]), max_size=4),
    st.sampled_from([None, "auth", ("auth", "b"), {"auth"}, [["auth"]], [1], frozenset()]),
)
values = st.one_of(sayings, st.sampled_from([None, 7, 0.5, True, ["a", "b"], {"a": "b"}, []]))
NAMES = sorted(
    {name for kind in KINDS.values() for name in (*kind.rank, *kind.aliases)}
    | {
        "data",
        "api_key",
        "password",
        "type",
        "session",
        "mood",
        "n" * 30,
        "who@example.org",
        "checksum",
        "id",
        "created",
    }
)


@st.composite
def memories(draw: st.DrawFn) -> tuple[str, dict[str, Any]]:
    kind = KINDS[draw(st.sampled_from(sorted(KINDS)))]
    names = [
        *draw(st.lists(st.sampled_from(NAMES), max_size=3)),
        *(group[0] for group in kind.required),
        "tags",
        "author",
    ]
    if kind.name == "conversation":
        names.append("role")
    given: dict[str, Any] = {}
    for name in draw(st.permutations(sorted(set(names)))):
        if name == "tags":
            if draw(st.booleans()):
                given[name] = draw(tags)
        elif name == "role":
            given[name] = draw(
                st.sampled_from(["user", "assistant", "system", "tool", "architect", "no role", "", None, 3, ["x"]])
            )
        elif name != "author" or draw(st.booleans()):
            given[name] = draw(values if draw(st.integers(0, 3)) == 0 else sayings)
    return kind.name, given


class Rules:
    """What a writer knows of a session."""

    content_limit = LIMIT

    def __init__(self, user: str | None, redactor: Redactor | None) -> None:
        self.user, self.redactor = user, redactor

    def now(self) -> datetime:
        raise AssertionError("not needed for a new memory")


def writer(author: str | None, user: str | None, redactor: Redactor | None) -> Writer:
    return Writer(Rules(user, redactor), lambda operation, name: operation, author)


def outcome(look: Any, kind: str, given: dict[str, Any]) -> Any:
    try:
        wish = look(KINDS[kind], dict(given))
    except SMPError as error:
        return type(error), str(error), error.details
    draft = wish.draft
    fields = [(name, repr(value)) for name, value in draft.data.items()]
    removals = [(removal.kind, removal.field, removal.length) for removal in wish.removals]
    return (
        draft.kind,
        draft.id,
        draft.created,
        fields,
        removals,
        wish.needs_histories,
        wish.key,
        wish.replaces,
        wish.memory_id,
    )


@settings(max_examples=400)
@given(
    memories(),
    st.sampled_from([None, "architect", "ada@example.org", "tool ü"]),
    st.sampled_from([None, "ada", "architect"]),
    st.sampled_from([None, *range(len(REDACTORS))]),
)
@example(("decision", {"decision": "Use OAuth", "author": "architect", "tags": ["a", "a"]}), None, None, 0)
@example(("decision", {"made_by": "ada", "decision": "Use OAuth"}), "architect", "ada", 0)
@example(("conversation", {"content": "x", "role": ["user"]}), None, None, 0)
@example(("conversation", {"content": "x", "role": "tool"}), None, "ada", 0)
@example(("decision", {"decision": "x" * 475}), None, None, 0)
@example(("decision", {"decision": "x" * 1990}), None, None, None)
@example(("decision", {"decision": "x", "type": "finding", "session": 7}), None, None, 0)
@example(("decision", {"decision": "Use it", "password": "hunter2hunter2"}), None, None, 0)
@example(("decision", {"decision": "Use OAuth"}), positives()[0].text, None, 0)
def test_fast_validation_equals_full_validation(
    memory: tuple[str, dict[str, Any]], author: str | None, user: str | None, redactor: int | None
) -> None:
    made = writer(author, user, None if redactor is None else REDACTORS[redactor])
    assert outcome(made.addition, *memory) == outcome(made._step_by_step, *memory)


@pytest.mark.parametrize(
    ("kind", "given_fields"),
    [
        ("conversation", {"role": "user", "content": "How do customers log in?"}),
        ("conversation", {"role": "assistant", "content": "Mit Passwort, 表.", "author": "architect"}),
        ("decision", {"decision": "Use OAuth"}),
        ("decision", {"decision": "Use OAuth", "rationale": "Standard", "author": "a", "tags": ["auth", "b.c"]}),
        ("finding", {"finding": "No rate limit", "severity": "high", "tags": []}),
        ("learning", {"learning": "Reviews find more before lunch", "topic": "reviews"}),
    ],
)
def test_fast_validation_covers_most_memories(
    kind: str, given_fields: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    form = plain_form(KINDS[kind], tuple(given_fields))
    assert form is not None
    found = plain_fields(form, given_fields, lambda role: None, LIMIT, Redactor())
    assert found is not None
    assert {name: found[name] for name in given_fields} == given_fields
