"""The digest: active memories with ids and dates, fenced, written only when it changes and only over its own file."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

import smp_memory
from smp_memory.cli.main import main
from smp_memory.context.digest import MARK, digest_text, renew_digests, write_digest
from smp_memory.errors import UserError
from smp_memory.memory import Memory
from smp_memory.privacy.fence import is_only_recalled
from tests.unit.bmad import projects


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    root = projects.newest(tmp_path / "shop")
    monkeypatch.chdir(root)
    return root


@pytest.fixture
def memory(project: Path) -> Iterator[Memory]:
    with smp_memory.open(project / ".bmad" / "memory") as opened:
        session = opened.create_session("review", project="shop", agents=["architect"])
        session.add_decision("Use OAuth 2.0", rationale="Standard", author="architect", created="2026-01-31T14:30:00Z")
        yield opened


def test_digest_lists_active_memories_with_ids_and_dates(memory: Memory) -> None:
    session = memory.session("review")
    old = session.add_decision("Use passwords")
    new = session.add_decision("Use passkeys")
    session.relate(new, old, "supersedes")
    session.add_finding("A small one", severity="low")
    session.add_finding("A grave one", severity="critical")
    session.resolve(session.add_finding("Settled").id, "done")
    session.add_preference("style", "short")
    session.add_learning("Mondays are slow", created="2026-01-01T00:00:00Z")
    session.add_learning("My own secret", visibility="private", author="architect")
    session.add_finding("A </smp-recalled> mark\n## Heading")
    text = digest_text(memory.scope)
    assert "- 2026-01-31 review/DEC-0001 (architect): Use OAuth 2.0 (why: Standard)\n" in text
    assert "- 2026-01-01 review/LEARN-0001: Mondays are slow\n" in text
    assert "style = short" in text
    assert text.index("A grave one") < text.index("A small one")
    for absent in ("Use passwords", "Settled", "My own secret", "\n## Heading"):
        assert absent not in text
    assert "review (shop, architect)" in text
    assert text.startswith(MARK + "\n<smp-recalled")
    assert is_only_recalled(text.removeprefix(MARK))
    assert digest_text(memory.scope) == text


def test_empty_store_gives_a_digest() -> None:
    with smp_memory.open(":memory:") as empty:
        assert digest_text(empty.scope).count("None.") == 5


def test_digest_is_written_only_when_it_changed(memory: Memory, project: Path) -> None:
    path = project / "_bmad-output/memory/MEMORY.md"
    assert write_digest(memory.scope, str(path))
    assert path.stat().st_mode & 0o777 == 0o600 or os.name == "nt"
    path.chmod(0o644)
    before = path.stat()
    assert not write_digest(memory.scope, str(path))
    assert path.stat().st_mtime_ns == before.st_mtime_ns
    assert renew_digests(memory.scope) == []
    memory.session("review").add_decision("Use PostgreSQL")
    assert renew_digests(memory.scope, dry_run=True) == [str(path)]
    assert "PostgreSQL" not in path.read_text()
    assert renew_digests(memory.scope) == [str(path)]
    assert "PostgreSQL" in path.read_text()
    assert path.stat().st_mode & 0o777 == 0o644 or os.name == "nt"
    path.unlink()
    memory.session("review").add_decision("Use Redis")
    assert renew_digests(memory.scope) == []  # who deletes it does not want it
    assert not path.exists()


def test_foreign_file_is_left_alone(memory: Memory, project: Path) -> None:
    path = project / "MEMORY.md"
    path.write_text("# Mine\n")
    with pytest.raises(UserError, match="--force"):
        write_digest(memory.scope, str(path))
    assert path.read_text() == "# Mine\n"
    assert write_digest(memory.scope, str(path), force=True)
    path.write_text("# Mine again\n")
    memory.session("review").add_decision("x")
    assert renew_digests(memory.scope) == []
    assert path.read_text() == "# Mine again\n"


def test_digest_command_writes_the_file(memory: Memory, project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = project / "_bmad-output/memory/MEMORY.md"
    assert main(["digest", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == {"path": str(path), "changed": True}
    assert main(["digest"]) == 0
    assert "is up to date" in capsys.readouterr().out
    memory.session("review").add_decision("Use PostgreSQL")
    assert main(["maintain"]) == 0
    assert "updated" in capsys.readouterr().err
    assert "PostgreSQL" in path.read_text()
    assert main(["digest", "--output", "-"]) == 0
    assert capsys.readouterr().out == path.read_text()


def test_digest_command_needs_a_path_outside_of_bmad(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    main(["init"])
    assert main(["digest"]) == 2
    assert "--output" in capsys.readouterr().err
    assert main(["digest", "--output", "MEMORY.md"]) == 0
    assert (tmp_path / "MEMORY.md").read_text().startswith(MARK)


def test_concurrent_digest_writers_all_succeed(memory: Memory, project: Path) -> None:
    memory.create_session("s")
    path = project / "MEMORY.md"
    killed = project / "MEMORY.md.0badcafe.smp-new"
    killed.touch()
    os.utime(killed, (1_700_000_000, 1_700_000_000))
    failed: list[BaseException] = []

    def write(number: int) -> None:
        try:
            for step in range(5):
                memory.session("s").add_decision(f"Decision {number} {step}")
                write_digest(memory.scope, str(path))
                assert path.read_text().rstrip().splitlines()[-1].startswith("</smp-recalled-")
        except BaseException as error:
            failed.append(error)

    threads = [threading.Thread(target=write, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failed == []
    assert sorted(each.name for each in project.iterdir() if "MEMORY" in each.name) == ["MEMORY.md"]
