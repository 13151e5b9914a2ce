"""Hostile stores: planted links and pipes, hostile ids and files, and content that must not leak."""

from __future__ import annotations

import ast
import json
import os
import stat
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

import smp_memory
from smp_memory.errors import InvalidRecord, MemoryNotFound, SessionNotFound, SMPError, StoreNotFound
from smp_memory.files.layouts import NAMES
from smp_memory.model.reports import Report
from tests.conformance.layout_files import DECISIONS, FOLDERS, by_hand, decisions_file, filled, opened, texts

layouts = pytest.mark.parametrize("layout", NAMES)
ALL = ["Use OAuth", "Use Postgres", "Use Python"]
SOURCE = Path(smp_memory.__file__).parent
EVIL = ["..", "../up", "../../etc/passwd", "/etc/passwd", "a/../../b", "a\\..\\b", "a\0b", "~root", "$HOME", "C:", "a:b", "\u2025", "．．", "a\n../b", ".smp", ".git"]  # fmt: skip


def outside(tmp_path: Path) -> Path:
    place = tmp_path / "outside"
    place.mkdir()
    (place / "treasure.txt").write_text("gold")
    return place


def unharmed(place: Path) -> bool:
    return [path.name for path in place.iterdir()] == ["treasure.txt"] and (
        place / "treasure.txt"
    ).read_text() == "gold"


def within(seconds: float, act: Any) -> Any:
    """The outcome of an act, which must not hang."""
    outcome: list[Any] = []

    def work() -> None:
        try:
            outcome.append(act())
        except BaseException as error:
            outcome.append(error)

    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    thread.join(seconds)
    assert outcome, "it hangs"
    return outcome[0]


# -- ids


@layouts
@pytest.mark.parametrize("bad", EVIL)
def test_no_id_leads_out_of_the_store(tmp_path: Path, layout: str, bad: str) -> None:
    root = tmp_path / "deep" / "er" / "store"
    memory = smp_memory.open(root, layout=layout)
    session = memory.create_session("s1")
    for act in (
        lambda: memory.create_session(bad),
        lambda: memory.session(bad),
        lambda: memory.get(f"{bad}/DEC-0001"),
        lambda: session.add_decision("x", id=bad),
        lambda: session.add_artifact("x", "y", id=bad),
        lambda: session.update_agent_state(bad, {}),
        lambda: session.relate(session.add_decision("x"), bad),
    ):
        with pytest.raises((InvalidRecord, SessionNotFound, MemoryNotFound)):
            act()
    session.add_artifact(bad, "y", path=bad)
    session.add_decision("x", author=bad, topic=bad)
    memory.close()
    stray = [path for path in tmp_path.rglob("*") if not path.is_relative_to(root) and path not in root.parents]
    assert stray == []


@layouts
def test_ids_in_files_are_not_trusted(tmp_path: Path, layout: str) -> None:
    session = filled(tmp_path, layout)
    path = decisions_file(tmp_path, layout)
    with path.open("a") as file:
        for number, bad in enumerate(("../../up", "a b", "x" * 200)):
            file.write(by_hand(layout, bad, f"evil {number}"))
    assert texts(opened(tmp_path)) == ALL
    assert [each.code for each in session.validate().problems] == ["invalid"] * 3
    session.repair()
    session.memory.convert("markdown" if layout != "markdown" else "jsonl")
    assert not (tmp_path.parent / "up.md").exists()


# -- planted links and pipes


@layouts
def test_a_linked_session_folder_is_no_session(tmp_path: Path, layout: str) -> None:
    if layout == "single":
        pytest.skip("a session is one file in this layout")
    root, place = tmp_path / "store", outside(tmp_path)
    memory = smp_memory.open(root, layout=layout)
    memory.create_session("s1").memory.close()
    target = root / FOLDERS[layout]
    target.rename(place / "moved")
    target.symlink_to(place / "moved", target_is_directory=True)
    memory = smp_memory.open(root)
    assert memory.sessions() == []
    with pytest.raises(SessionNotFound):
        memory.session("s1")
    with pytest.raises(SMPError):
        memory.create_session("s1")
    assert {path.name for path in (place / "moved").iterdir()} <= {
        ".smp",
        "indexes",
        "manifest.json",
        "metadata.yaml",
        "metadata.json",
    }


@layouts
def test_nothing_is_written_through_a_linked_file(tmp_path: Path, layout: str) -> None:
    root, place = tmp_path / "store", outside(tmp_path)
    session = filled(root, layout)
    session.records()
    path = decisions_file(root, layout)
    path.unlink()
    path.symlink_to(place / "treasure.txt")
    for seen in (session, smp_memory.open(root).session("s1")):
        for act in (lambda: seen.add_decision("x"), lambda: seen.update("DEC-0001", n=1), seen.repair):
            assert isinstance(within(20, act), SMPError)
        assert "gold" not in repr(seen.records())
        report = seen.validate()
        assert [each.path for each in report.problems if each.severity == "error"][:1] == [str(path)]
    assert unharmed(place)
    if layout in ("jsonl", "markdown"):
        assert session.get("TURN-0001").content == "First words"
        assert session.add_turn("user", "other files still work").id == "TURN-0002"


@layouts
@pytest.mark.parametrize("what", ["hard link", "fifo", "folder"])
def test_irregular_file_affects_no_other_file(tmp_path: Path, layout: str, what: str) -> None:
    root, place = tmp_path / "store", outside(tmp_path)
    session = filled(root, layout)
    session.records()
    path = decisions_file(root, layout)
    path.unlink()
    if what == "hard link":
        os.link(place / "treasure.txt", path)
    elif what == "fifo":
        os.mkfifo(path)
    else:
        path.mkdir()
    for seen in (session, smp_memory.open(root).session("s1")):
        assert isinstance(within(20, lambda: seen.add_decision("x")), SMPError)
        assert within(20, lambda: texts(seen)) == []
        report = within(20, seen.validate)
        assert str(path) in [each.path for each in report.problems if each.severity == "error"]
    assert unharmed(place)
    if layout in ("jsonl", "markdown"):
        assert session.get("TURN-0001").content == "First words"
        assert within(20, lambda: session.add_turn("user", "other files still work")).id == "TURN-0002"


@layouts
@pytest.mark.parametrize("name", ["lock", "queue"])
@pytest.mark.parametrize("what", ["link", "hard link", "fifo"])
def test_planted_lock_is_neither_followed_nor_waited_for(tmp_path: Path, layout: str, name: str, what: str) -> None:
    root, place = tmp_path / "store", outside(tmp_path)
    filled(root, layout).memory.close()
    private = root / ".smp" / "s1" if layout == "single" else root / FOLDERS[layout] / ".smp"
    (private / name).unlink(missing_ok=True)
    if what == "link":
        (private / name).symlink_to(place / "treasure.txt")
    elif what == "hard link":
        os.link(place / "treasure.txt", private / name)
    else:
        os.mkfifo(private / name)
    session = smp_memory.open(root).session("s1")
    assert within(20, lambda: texts(session)) == ALL
    outcome = within(20, lambda: session.add_decision("x"))
    assert isinstance(outcome, SMPError)
    assert unharmed(place)
    assert within(20, lambda: texts(smp_memory.open(root).session("s1"))) == ALL


@layouts
def test_a_linked_private_folder_is_not_followed(tmp_path: Path, layout: str) -> None:
    root, place = tmp_path / "store", outside(tmp_path)
    filled(root, layout).memory.close()
    private = root / ".smp" / "s1" if layout == "single" else root / FOLDERS[layout] / ".smp"
    for path in private.iterdir():
        path.unlink()
    private.rmdir()
    private.symlink_to(place, target_is_directory=True)
    session = smp_memory.open(root).session("s1")
    assert texts(session) == ALL
    assert isinstance(within(20, lambda: session.add_decision("x")), SMPError)
    assert unharmed(place)


@layouts
def test_a_planted_journal_reaches_nothing_outside(tmp_path: Path, layout: str) -> None:
    """A plan on disk is carried out; one that somebody else wrote must not name files outside of the session."""
    from smp_memory.files.codec import signature

    root, place = tmp_path / "store", outside(tmp_path)
    session = filled(root, layout)
    private = root / ".smp" / "s1" if layout == "single" else root / FOLDERS[layout] / ".smp"
    up = os.path.relpath(place, root / FOLDERS[layout])
    for plan in (
        {"appends": [], "moves": [], "removes": [f"{up}/treasure.txt"]},
        {"appends": [[f"{up}/treasure.txt", 4, "spoiled"]], "moves": [], "removes": []},
        {"appends": [], "moves": [[f"{up}/treasure.txt", "stolen"]], "removes": []},
        {"appends": [], "moves": [], "removes": [str(place)]},
    ):
        body = json.dumps(plan, separators=(",", ":"))
        (private / "journal.json").write_text(f'{body[:-1]},"checksum":"{signature(body.encode())}"}}\n')
        within(20, session.repair)
        within(20, lambda: session.add_decision("x"))
        assert place.exists()
        assert unharmed(place)


# -- hostile content of files

BOMB = '{"a":' * 100_000 + "1" + "}" * 100_000
JSON_HARM = [BOMB, "[" * 200_000, '{"id":"x","n":' + "9" * 5000 + "}", '{"id":"x","n":NaN}', '{"id":"x","id":"y"}', '"text"', "null", "\\u0000", '{"\\ud800":1}']  # fmt: skip
YAML_HARM = [
    "  - &a id: x\n    decision: *a\n",
    "  - id: x\n    timestamp: 2026-01-01T00:00:00Z\n    decision: !!python/object/apply:os.system [touch /tmp/smp-owned]\n",
    "  - id: x\n    decision: !!binary aGk=\n",
    "  - id: x\n    n: " + "[" * 20_000 + "\n",
    "  - id: x\n    n: " + "9" * 5000 + "\n",
    "  - id: x\n    n: .nan\n",
    "  - id: x\n    id: y\n",
    "  - id: x\n    <<: {a: 1}\n    decision: \"\n",
    "  - id: a\n    b: &b [x,x]\n    c: &c [*b,*b]\n    d: [*c,*c]\n",
    "%TAG ! x\n",
    "  - ? [a]\n    : b\n",
    "\x00\x01\n",
]  # fmt: skip


@layouts
def test_harmful_entries_are_reported_and_affect_no_other(tmp_path: Path, layout: str) -> None:
    session = filled(tmp_path, layout)
    path = decisions_file(tmp_path, layout)
    data = path.read_bytes()
    harms = YAML_HARM if layout == "markdown" else JSON_HARM
    for harm in harms:
        more = by_hand(layout, "after", "After").encode()
        path.write_bytes(data + b"\n" + harm.encode() + b"\n" + more)
        found = within(60, lambda: texts(opened(tmp_path)))
        assert [text for text in found if text != "After"] == ALL, harm[:80]
        report = within(60, opened(tmp_path).validate)
        assert str(path) in [each.path for each in report.problems if each.severity != "note"], harm[:80]
        if layout != "markdown":
            assert found[-1] == "After", harm[:80]
        assert all(len(each.message) < 1000 for each in report.problems)
    assert isinstance(within(60, session.repair), Report)
    assert set(ALL) <= set(texts(opened(tmp_path)))
    assert not Path("/tmp/smp-owned").exists()


@pytest.mark.parametrize(
    "harm", ["{" * 100_000, BOMB, '{"layout": "jsonl", "n": ' + "9" * 5000 + "}", "[]", "null", "\xff", ""]
)
def test_harmful_config_is_named_and_nothing_is_written(tmp_path: Path, harm: str) -> None:
    filled(tmp_path, "jsonl").memory.close()
    (tmp_path / "config.json").write_bytes(harm.encode("latin-1"))
    memory = smp_memory.open(tmp_path)
    assert "config.json" in memory.config.notices()[0]
    with pytest.raises(smp_memory.errors.InvalidConfig, match=r"config\.json"):
        memory.create_session("another")


@layouts
def test_harmful_metadata_affects_no_memory(tmp_path: Path, layout: str) -> None:
    if layout == "single":
        pytest.skip("the head is an entry here, see above")
    session = filled(tmp_path, layout)
    name = {"jsonl": "manifest.json", "markdown": "metadata.yaml", "log": "metadata.json"}[layout]
    for harm in (
        BOMB,
        "[" * 100_000,
        "&a [*a]",
        "9" * 5000,
        '{"session_id": [], "agent_ids": 5}',
        "\x00",
        "session: !!python/name:os.system",
    ):
        (tmp_path / FOLDERS[layout] / name).write_text(harm)
        assert within(60, lambda: texts(opened(tmp_path))) == ALL
        with pytest.raises(smp_memory.errors.SessionCorrupt):
            _ = session.info
        assert not within(60, session.validate).ok


# -- what others may see


@layouts
@pytest.mark.parametrize("umask", [0, 0o022, 0o077])
def test_files_are_readable_by_their_owner_only(tmp_path: Path, layout: str, umask: int) -> None:
    before = os.umask(umask)
    try:
        root = tmp_path / "store"
        session = filled(root, layout)
        session.update_agent_state("v", {})
        session.add_artifact("a", "b")
        with session.transaction() as tx:
            tx.add_finding("x")
            tx.add_turn("user", "x")
            tx.delete("DEC-0001")
        path = decisions_file(root, layout)
        path.write_bytes(path.read_bytes()[:-20])
        session.add_decision("after a torn end")
        session.change_info(project="other")
        path.write_bytes(path.read_bytes().replace(b"Use OAuth", b"Use SAML!"))
        session.repair()
        converted = session.memory.convert("markdown" if layout != "markdown" else "log")
        converted.session("s1").add_decision("x")
        converted.create_session("s2")
        converted.set_config("durability", "os")
        converted.close()
    finally:
        os.umask(before)
    wrong = {
        str(path): oct(stat.S_IMODE(path.lstat().st_mode))
        for path in [root, *root.rglob("*")]
        if stat.S_IMODE(path.lstat().st_mode) != (0o700 if path.is_dir() else 0o600)
    }
    assert wrong == {}


NEEDLE = "n33dle-in-a-haystack"


@layouts
def test_content_is_in_the_data_files_only(tmp_path: Path, layout: str) -> None:
    session = filled(tmp_path, layout)
    with session.transaction() as tx:
        turn = tx.add_turn("user", NEEDLE, topic=NEEDLE)
        tx.add_finding(NEEDLE, evidence=NEEDLE)
        tx.add_artifact("a", NEEDLE)
        tx.relate(turn, tx.add_decision(NEEDLE, idempotency_key=NEEDLE))
    session.update_agent_state("v", {"x": NEEDLE})
    session.update("FIND-0001", recommendation=NEEDLE)
    session.add_many([("learning", NEEDLE)] * 3)
    private = [path for path in tmp_path.rglob("*") if ".smp" in path.parts and path.is_file()]
    assert {path.name for path in private} <= {"lock", "queue", "changes", "id"}
    for path in private:
        assert NEEDLE.encode() not in path.read_bytes()


@layouts
def test_messages_do_not_repeat_what_is_stored(tmp_path: Path, layout: str) -> None:
    session = filled(tmp_path, layout)
    session.add_decision(NEEDLE, id="DEC-0009", rationale=NEEDLE)
    path = decisions_file(tmp_path, layout)
    said: list[str] = []
    for act in (
        lambda: session.update("DEC-0009", 7, status="x"),
        lambda: session.add_decision("y", id="DEC-0009"),
        lambda: session.update("DEC-0009", tags=["a b"]),
        lambda: session.get("DEC-0010"),
        lambda: session.restore("DEC-0009"),
    ):
        with pytest.raises(SMPError) as caught:
            act()
        said.append(f"{caught.value} {caught.value.details}")
    for spoil in (
        lambda data: data[:-9],
        lambda data: data.replace(b"DEC-0009", b"DEC-0001"),
        lambda data: data.replace(b"Z", b"Q"),
    ):
        good = path.read_bytes()
        path.write_bytes(spoil(good))
        report = opened(tmp_path).validate()
        assert report.problems
        said += [str(each) for each in report.problems]
        path.write_bytes(good)
    path.write_bytes(path.read_bytes().replace(b"DEC-0009", b"DEC 0009"))
    said += session.repair().actions
    assert NEEDLE not in " ".join(said)


# -- what the code may use


def test_no_module_uses_the_network_or_executes_data() -> None:
    script = (
        "import sys, smp_memory, tempfile, os\n"
        "for name in ('jsonl', 'markdown', 'single', 'log'):\n"
        "    session = smp_memory.open(os.path.join(tempfile.mkdtemp(), 'x'), layout=name).create_session()\n"
        "    session.add_decision('x'); session.validate(); session.repair()\n"
        "found = {'socket', 'ssl', '_socket', 'http', 'urllib.request', 'pickle', 'ctypes', 'subprocess'} & set(sys.modules)\n"
        "print(sorted(found))\n"
    )
    environment = {**os.environ, "PYTHONPATH": str(SOURCE.parent)}
    result = subprocess.run([sys.executable, "-I", "-c", f"import sys; sys.path.insert(0, {str(SOURCE.parent)!r})\n{script}"], env=environment, capture_output=True, text=True, check=True)  # fmt: skip
    assert result.stdout == "[]\n"


BAD_MODULES = {"socket", "ssl", "http", "urllib", "pickle", "marshal", "shelve", "ctypes", "requests", "asyncio"}
BAD_CALLS = {"eval", "exec", "compile", "__import__"}
LISTENING = {  # asyncio without a network: the event loop of the caller
    "aio/faces.py": {"asyncio"},
    # the only parts that do; tests/e2e/test_mcp_http.py has who is let in, test_mcp_http_slow.py for how long
    "integrations/mcp/http.py": {"socket", "asyncio"},  # asyncio: names of types
    "integrations/store_metrics.py": {"asyncio"},  # a thread of the server that asks for the metrics
    "integrations/web/app.py": {
        "asyncio"
    },  # queues of the server's loop; tests/e2e/test_web_access.py has who is let in
}


def test_the_source_has_no_dangerous_calls() -> None:
    found = []
    for path in sorted(SOURCE.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            names: list[str] = []
            if isinstance(node, ast.Import):
                names = [alias.name.partition(".")[0] for alias in node.names]
            elif isinstance(node, ast.ImportFrom):
                names = [] if node.module == "urllib.parse" else [(node.module or "").partition(".")[0]]
            if names and BAD_MODULES & set(names) - LISTENING.get(path.relative_to(SOURCE).as_posix(), set()):
                found.append(f"{path}:{node.lineno}: {names}")  # type: ignore[attr-defined]
            if isinstance(node, ast.Call):
                called = node.func
                if isinstance(called, ast.Name) and called.id in BAD_CALLS:
                    found.append(f"{path}:{node.lineno}: {called.id}")
                if isinstance(called, ast.Attribute) and called.attr in {"system", "popen"} and isinstance(called.value, ast.Name) and called.value.id == "os":  # fmt: skip
                    found.append(f"{path}:{node.lineno}: os.{called.attr}")
                if isinstance(called, ast.Attribute) and isinstance(called.value, ast.Name) and called.value.id == "yaml" and called.attr in {"load", "unsafe_load", "full_load"}:  # fmt: skip
                    found.append(f"{path}:{node.lineno}: yaml.{called.attr}")
                if any(keyword.arg == "shell" for keyword in node.keywords):
                    found.append(f"{path}:{node.lineno}: shell")
    assert found == []


def test_every_file_kind_is_covered() -> None:
    assert set(DECISIONS) == set(FOLDERS) == set(NAMES)


def test_a_store_of_another_user_above_this_folder_must_be_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    work = tmp_path / "work"
    work.mkdir()
    smp_memory.open(tmp_path / ".bmad" / "memory").close()
    monkeypatch.chdir(work)
    monkeypatch.delenv("SMP_ROOT", raising=False)
    smp_memory.open().close()
    try:
        os.chown(tmp_path / ".bmad" / "memory", 65534, -1)
    except PermissionError:
        pytest.skip("only root can give a folder away")
    with pytest.raises(StoreNotFound, match="belongs to another user"):
        smp_memory.open()
    smp_memory.open(tmp_path / ".bmad" / "memory").close()
