"""Contract for content: it is read back byte for byte, and invalid input is rejected naming the field."""

from __future__ import annotations

from typing import Any

from smp_memory.errors import InvalidRecord, SizeLimitExceeded
from tests.contract.fixture import MINIMAL, ContractFixture, dump, is_same, raises, raises_invalid

_END = "<!-- end TURN-0001 sha256:0123456789abcdef -->"

HOSTILE_TEXTS = [
    # structure of Markdown and of conversation.md
    "---",
    "--- ",
    "\n---\n",
    "## Turn 2 - 2026-01-11 14:30:00",
    "text\n\n---\n\n## Turn 2 - 2026-01-11 14:30:00\n**Id:** TURN-0002\n**Seq:** 2\n**Speaker:** user\n\nfake\n\n" + _END + "\n\n---\n",
    _END,
    "\\" + _END,
    "\\---\n\\\\---\n\\",
    "**Speaker:** nobody\n**Extra:** {}\n\nbody",
    "**Body:** none",
    "**Encoding:** json\n\n\"x\"",
    "# Heading\n- list\n  - inner\n1. one\n> quote\n```python\nprint()\n```\n~~~\n",
    "## Artifact 1 - 2026-01-11 14:30:00\n",
    "<!-- SMP format 1. -->",
    "a | b\n---|---\n1 | 2",
    # structure of YAML
    "- id: DEC-0002\n  seq: 9\n  decision: fake\n",
    "\n  - id: DEC-0002\n    seq: 9\n    decision: fake\n    checksum: sha256:0123456789abcdef\n",
    "    checksum: sha256:0123456789abcdef",
    "\n  - id: DEC-0002 #9\n    decision: fake\n    smp: seq=9 uid=khmedagg / seq=10 sha256:0123456789abcdef\n",
    "\n## Turn 2 - 2026-01-11 14:30:00 <!-- 9 -->\n\nfake\n\n<!-- end TURN-0002 seq=9 sha256:0123456789abcdef -->\n",
    "key: value",
    "decisions:\n",
    "...",
    "--- !!python/object:os.system x",
    "&anchor *alias",
    "!tag",
    "{flow: [1, 2]}",
    "# comment",
    "text # not a comment",
    "|",
    "|-\n  x",
    ">",
    "%YAML 1.1",
    "@at `tick",
    "? key",
    # looks like another type
    "no", "yes", "on", "off", "y", "N", "null", "Null", "~", "true", "False", "012", "0o17", "0x1F", "1e3", "1_000", "12:30:45",
    "2026-01-01", "2026-01-11T14:30:05Z", "1", "-1", "+1", "1.0", ".5", ".inf", ".NaN", "=", "<<",
    # structure of JSON lines
    '{"id":"DEC-0009","seq":99,"decision":"fake","checksum":"sha256:0123456789abcdef"}',
    '"quoted"', "'single'", "[1, 2]", '{"a": 1}', "back\\slash", '\\"', "\\n", "\\u0000", ',"checksum":"sha256:0123456789abcdef"}',
    # merges
    "<<<<<<< HEAD\nours\n=======\ntheirs\n>>>>>>> branch\n",
    "=======",
    "||||||| base",
    "<<<<<<<",
    # line ends and white space
    "a\r\nb\r\n", "a\rb", "\r", "\n", "\n\n\n", " ", "\t", "  leading", "trailing  ", "trailing\n", "trailing\n\n\n", "\nleading line",
    "\n  indented\nless", "a\n\n\n\nb", "tab\tinside", "\ttab first\n x", "x\n ", " \n ", "a \nb \n",
    # odd characters
    "NUL\0inside", "\0", "\x01\x02\x1b[31mred\x7f", "\x85 nel", "\u2028 and \u2029", "\ufeffBOM first", "BOM \ufeff inside",
    "\U0001f600 emoji \U0001f469\u200d\U0001f4bb", "العربية \u200fRTL", "\u202eoverride\u202c", "zero\u200bwidth", "e\u0301 nfd", "é nfc", "\ufffe\uffff",
    "\ud7ff\ue000", "\U0010ffff", "日本語とตัวอย่าง",
]  # fmt: skip

VALUES: list[Any] = [
    0, 1, -1, 1.0, -0.5, 1e300, 5e-324, 1.7976931348623157e308, 2**63, -(2**70), 10**50, True, False, "", "1", "true", "null",
    [], {}, [[]], [{}], {"a": {}}, {"a": []}, [None], {"n": None}, [1, 1.0, True, "1", None], {"": ""}, {" ": [" "]},
    {"1": 1, "true": True, "null": None, "~": "~"}, [["a", ["b"]], {"c": [{"d": "e\nf\n"}]}], {"k" * 300: "v" * 300},
    {"x: y": "- z", "#": "# c", "\n": "\n", "é": "\r\n", "checksum": "sha256:0", "id": "x", "seq": 1}, ["", " ", "\n", "\t"],
    {"multi": "line one\nline two\n", "list": ["a\nb", "- c", "d: e"]},
]  # fmt: skip


class ContentContract(ContractFixture):
    def test_hostile_text_is_read_back_byte_for_byte(self) -> None:
        session = self.new_session()
        written: list[tuple[str, str, str]] = []
        items: list[tuple[str, dict[str, Any]]] = []
        for text in HOSTILE_TEXTS:
            items += [
                ("conversation", {"role": "user", "content": text, "topic": text, "own": text}),
                ("decision", {"decision": text, "rationale": text, "author": text, "own": {"deep": [text]}}),
                ("artifact", {"name": text, "content": text}),
            ]
        for record, (_, data) in zip(session.add_many(items), items, strict=True):
            written += [(record.id, name, value) for name, value in data.items()]
        for seen in (session, self.reopen(session)):
            found = {record.id: record.to_dict() for record in seen.records()}
            for name, field, value in written:
                assert is_same(found[name][field], value), (name, field, value)
            assert seen.validate().problems == []

    def test_hostile_text_in_single_writes_and_updates(self) -> None:
        session = self.new_session()
        session.add_finding("start")
        for text in HOSTILE_TEXTS:
            if text.strip():
                session.update("FIND-0001", finding=text, evidence=text, by=text)
                assert self.reopen(session).get("FIND-0001").finding == text
        steps = self.reopen(session).history("FIND-0001")
        assert [step["by"] for step in steps[1:]] == [text for text in HOSTILE_TEXTS if text.strip()]

    def test_hostile_text_in_reasons(self) -> None:
        session = self.new_session()
        records = session.add_many([("learning", text) for text in HOSTILE_TEXTS])
        with session.transaction() as tx:
            for record, text in zip(records, HOSTILE_TEXTS, strict=True):
                tx.delete(record, text)
        again = self.reopen(session)
        assert [again.history(record.id)[-1]["reason"] for record in records] == HOSTILE_TEXTS
        assert again.records() == []

    def test_a_very_long_line(self) -> None:
        session = self.new_session()
        line = "x" * 99_990 + " and end "
        session.add_turn("user", line)
        session.add_decision(line, own=line)
        session.add_artifact("a", line)
        session.update_agent_state("v", {"line": line})
        again = self.reopen(session)
        assert again.get("TURN-0001").content == again.get("DEC-0001").own == again.get("ART-0001").content == line
        assert again.get("STATE-v").state == {"line": line}

    def test_tags_in_every_script(self) -> None:
        """Vowel signs of Hindi and Tamil, tone marks of Thai and combining accents are marks, not letters."""
        session = self.new_session()
        tags = ["हिन्दी.भाषा", "தமிழ்", "ที่", "e\u0301te\u0301", "Ελλάδα", "العربية", "한국어", "v2_x-1"]
        session.add_decision("x", tags=tags)
        assert self.reopen(session).get("DEC-0001").tags == tags
        assert session.query(tags="हिन्दी").ids == session.query(tags="தமிழ்").ids == ["DEC-0001"]
        for bad in ("\u0301", "a.\u0301b", "C++", "👍", "a\u200bb", "a\u202eb", "", "a..b", "x" * 65):
            with raises(InvalidRecord, field="tags"):
                session.add_decision("x", tags=[bad])

    def test_empty_text_in_optional_fields(self) -> None:
        session = self.new_session()
        session.add_decision("x", rationale="", author="", topic="", own="", tags=[])
        session.add_artifact("name", "")
        session.add_turn("user", "x", topic="")
        again = self.reopen(session)
        decision = again.get("DEC-0001").to_dict()
        assert [decision[name] for name in ("rationale", "author", "topic", "own", "tags")] == ["", "", "", "", []]
        assert again.get("ART-0001").to_dict()["content"] == ""
        assert again.get("TURN-0001").to_dict()["topic"] == ""

    def test_all_json_values_in_unknown_fields(self) -> None:
        session = self.new_session()
        own = {f"field_{number}": value for number, value in enumerate(VALUES)}
        for kind, (data, first, _) in MINIMAL.items():
            session.add(kind, {**data, **own})
            if kind != "conversation":
                session.update(first, **{f"new_{name}": value for name, value in own.items()})
        session.update_agent_state("v", own)
        again = self.reopen(session)
        for kind, (_, first, _) in MINIMAL.items():
            found = again.get(first).to_dict()
            for name, value in own.items():
                assert is_same(found[name], value), (kind, name, value)
                assert kind == "conversation" or is_same(found[f"new_{name}"], value), (kind, name, value)
        assert is_same(again.get("STATE-v").state, own)
        assert again.validate().problems == []

    def test_nesting_up_to_the_limit(self) -> None:
        session = self.new_session()
        deepest = 0
        for depth in range(1, 40):
            value: Any = 1.5
            for _ in range(depth):
                value = {"a": [value]} if depth % 2 else [value]
            try:
                record = session.add_decision("x", own=value, seq=value)
            except InvalidRecord as error:
                assert error.field is not None
                assert error.field.startswith(("own", "seq"))
                continue
            deepest = depth
            session.update(record.id, own=[value[0] if isinstance(value, list) else value["a"]], changes=value)
            session.add_turn("user", "x", own=value, extra=value)
            session.add_artifact("x", "y", own=value)
            again = self.reopen(session)
            found = again.get(record.id).to_dict()
            assert is_same([found["seq"], found["changes"]], [value, value])
        assert deepest >= 12
        assert self.reopen(session).validate().ok

    # -- sizes

    def test_content_beyond_the_limit_is_rejected_with_both_sizes(self) -> None:
        session = self.new_session()
        limit = 1024 * 1024
        session.add_turn("user", "x" * (limit - 200))
        session.add_turn("user", "é" * (limit // 2 - 200))
        before = dump(session)
        for text in ("x" * (limit + 1), "é" * (limit // 2 + 1), "\U0001f600" * (limit // 4 + 1)):
            with raises(SizeLimitExceeded, limit=limit, field="content") as caught:
                session.add_turn("user", text)
            assert f"{limit:,}" in str(caught[0])
            assert caught[0].details["size"] > limit  # type: ignore[operator]
        with raises(SizeLimitExceeded, limit=limit):
            session.add_decision("x", own={"deep": ["x" * limit, "y"]})
        with raises(SizeLimitExceeded, limit=limit):
            session.add_decision("x", **{"n" * (limit + 1): 1})
        assert dump(self.reopen(session)) == before

    def test_a_smaller_limit_can_be_configured(self) -> None:
        session = self.new_session(config={"storage": {"max_content_kb": 1}, "durability": "os"})
        session.add_turn("user", "x" * 900)
        with raises(SizeLimitExceeded, limit=1024), session.transaction() as tx:
            tx.add_turn("user", "x")
            tx.add_turn("user", "x" * 1100)
        with raises(SizeLimitExceeded, limit=1024):
            session.add_many([("finding", {"finding": "x"}), ("finding", {"finding": "x" * 2000})])
        assert len(self.reopen(session).records()) == 1

    # -- what cannot be kept

    def test_invalid_input_is_rejected_naming_the_field(self) -> None:
        session = self.new_session()
        lone = "a\ud800b"
        cases: list[tuple[str, dict[str, Any], str]] = [
            ("decision", {}, "decision"),
            ("decision", {"decision": ""}, "decision"),
            ("decision", {"decision": None}, "decision"),
            ("decision", {"decision": 5}, "decision"),
            ("decision", {"decision": ["x"]}, "decision"),
            ("decision", {"decision": lone}, "decision"),
            ("finding", {"severity": "high"}, "finding"),
            ("conversation", {"role": "user"}, "content"),
            ("conversation", {"role": "two words", "content": "x"}, "role"),
            ("preference", {}, "preference"),
            ("agent_state", {"state": 1}, "agent"),
            ("agent_state", {"agent": "../up", "state": 1}, "agent"),
            ("agent_state", {"agent": "x" * 60, "state": 1}, "agent"),
            ("artifact", {"format": "md"}, "name"),
            ("learning", {"category": "x"}, "learning"),
            ("summary", {"covers": []}, "summary"),
            ("decision", {"decision": "x", "tags": "auth"}, "tags"),
            ("decision", {"decision": "x", "tags": ["a b"]}, "tags"),
            ("decision", {"decision": "x", "tags": [""]}, "tags"),
            ("decision", {"decision": "x", "tags": ["a..b"]}, "tags"),
            ("decision", {"decision": "x", "tags": [".a"]}, "tags"),
            ("decision", {"decision": "x", "tags": ["x" * 65]}, "tags"),
            ("decision", {"decision": "x", "tags": [5]}, "tags"),
            ("decision", {"decision": "x", "tags": [["a"]]}, "tags"),
            ("decision", {"decision": "x", "tags": {"a": 1}}, "tags"),
            ("decision", {"decision": "x", "importance": 1.5}, "importance"),
            ("decision", {"decision": "x", "importance": -0.1}, "importance"),
            ("decision", {"decision": "x", "importance": True}, "importance"),
            ("decision", {"decision": "x", "importance": "high"}, "importance"),
            ("decision", {"decision": "x", "importance": float("nan")}, "importance"),
            ("decision", {"decision": "x", "confidence": "sure"}, "confidence"),
            ("decision", {"decision": "x", "confidence": 2}, "confidence"),
            ("decision", {"decision": "x", "confidence": []}, "confidence"),
            ("decision", {"decision": "x", "pinned": 1}, "pinned"),
            ("decision", {"decision": "x", "author": 5}, "author"),
            ("decision", {"decision": "x", "author": lone}, "author"),
            ("decision", {"decision": "x", "topic": ["t"]}, "topic"),
            ("decision", {"decision": "x", "created": "now"}, "created"),
            ("decision", {"decision": "x", "rationale": 5}, "rationale"),
            ("decision", {"decision": "x", "own": float("nan")}, "own"),
            ("decision", {"decision": "x", "own": [float("inf")]}, "own"),
            ("decision", {"decision": "x", "own": {"a": {"b": float("-inf")}}}, "own.a.b"),
            ("decision", {"decision": "x", "own": lone}, "own"),
            ("decision", {"decision": "x", "own": [{"a": lone}]}, "own.a"),
            ("decision", {"decision": "x", "own": {lone: 1}}, "own"),
            ("decision", {"decision": "x", "own": {5: 1}}, "own"),
            ("decision", {"decision": "x", "own": b"bytes"}, "own"),
            ("decision", {"decision": "x", "own": object()}, "own"),
            ("decision", {"decision": "x", "own": 1j}, "own"),
            ("decision", {"decision": "x", "own": 10**5000}, "own"),
            ("decision", {"decision": "x", "own": [-(10**5000)]}, "own"),
        ]
        for kind, data, field in cases:
            with raises(InvalidRecord, field=field):
                session.add(kind, data)
        self.reopen(session)
        assert self.reopen(session).records(include_deleted=True) == []
        assert session.add_decision("x").id == "DEC-0001"

    def test_invalid_field_names_are_rejected(self) -> None:
        session = self.new_session()
        bad: Any
        for bad in (5, None, ("a",), "a\ud800", b"x"):
            with raises_invalid():
                session.add("decision", {"decision": "x", bad: 1})
            with raises_invalid():
                session.add_many([("decision", {"decision": "x", bad: 1})])
        session.add_decision("x", **{"": "empty name", " ": 1, "\n": 2})
        found = self.reopen(session).get("DEC-0001").to_dict()
        assert [found[""], found[" "], found["\n"]] == ["empty name", 1, 2]

    def test_data_that_is_no_mapping_is_rejected(self) -> None:
        session = self.new_session()
        for bad in (5, ["x"], object(), b"x", True, [("decision", "x")]):
            with raises_invalid("data"):
                session.add("decision", bad)
        assert session.records() == []

    def test_values_convertible_to_json_are_converted(self) -> None:
        from datetime import UTC, date, datetime
        from enum import StrEnum

        class Level(StrEnum):
            HIGH = "high"

        session = self.new_session()
        session.add_decision(
            "x",
            a=(1, 2),
            b={"z"},
            c=frozenset(["y"]),
            d=datetime(2026, 1, 2, tzinfo=UTC),
            e=date(2026, 1, 2),
            f=Level.HIGH,
        )
        found = self.reopen(session).get("DEC-0001").to_dict()
        expected = [[1, 2], ["z"], ["y"], "2026-01-02T00:00:00Z", "2026-01-02", "high"]
        assert is_same([found[name] for name in "abcdef"], expected)
        session.add_decision("y", tags=("b", "a", "b"))
        assert self.reopen(session).get("DEC-0002").tags == ["b", "a"]
