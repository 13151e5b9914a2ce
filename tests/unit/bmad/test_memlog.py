"""A memlog has the bytes that BMAD writes, and keeps every entry when several processes write."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from smp_memory.cli.main import main
from smp_memory.errors import InvalidFormat, LockTimeout, UserError
from smp_memory.files.system import RealSystem
from smp_memory.integrations.bmad.memlog import Memlog, append_entry, new_text

AT = "2026-06-07T14:22"
PROCESSES, EACH = 8, 50


def memlog(folder: Path) -> Memlog:
    log = Memlog(str(folder / ".memlog.md"))
    log.init([("topic", "Login")], AT)
    return log


def test_bytes_equal_those_that_bmad_writes(tmp_path: Path) -> None:
    log = Memlog(str(tmp_path / "run" / ".memlog.md"))
    assert log.init([(" topic ", " T: --- x "), ("goal", "one\ntwo"), ("updated", "never")], AT) == 0
    assert log.append("  first\n\n thing  ", minute=AT) == 1
    assert log.append("second", "idea", "user", AT) == 2
    assert log.append("third", None, "coach", AT) == 3
    assert log.set("goal", "three", AT) == 3
    assert log.set("mode", "partner", AT) == 3
    assert (tmp_path / "run" / ".memlog.md").read_bytes() == (
        b"---\ntopic: T: --- x\ngoal: three\nmode: partner\nupdated: 2026-06-07T14:22\n---\n\n"
        b"- first thing\n- (idea by user) second\n- (by coach) third\n"
    )
    assert sorted(os.listdir(tmp_path / "run")) == [".memlog.md"]


def test_a_new_memlog_has_one_blank_line_at_its_end() -> None:
    assert new_text([], AT) == f"---\nupdated: {AT}\n---\n\n\n"


def test_windows_line_ends_and_edited_lines_are_read(tmp_path: Path) -> None:
    path = tmp_path / ".memlog.md"
    path.write_bytes(b"---\r\ntopic: x\r\nno colon\r\n---\r\nprose\r\n- (note) a\r\n\r\n\r\n")
    assert Memlog(str(path)).append("b", minute=AT) == 2
    assert path.read_bytes() == f"---\ntopic: x\nupdated: {AT}\n---\n\nprose\n- (note) a\n- b\n".encode()


@pytest.mark.parametrize(
    ("content", "why"),
    [(b"", ":1:"), (b"topic: x\n", ":1:"), (b"---\ntopic: x\n", "no end"), (b"---\n\xff\n---\n", "UTF-8")],
)
def test_file_that_is_no_memlog_is_refused_unchanged(tmp_path: Path, content: bytes, why: str) -> None:
    path = tmp_path / ".memlog.md"
    path.write_bytes(content)
    with pytest.raises(InvalidFormat, match=why):
        Memlog(str(path)).append("x")
    assert path.read_bytes() == content


def test_init_is_refused_for_an_existing_memlog_and_append_for_a_missing_one(tmp_path: Path) -> None:
    log = memlog(tmp_path)
    with pytest.raises(UserError, match="already exists"):
        log.init([])
    for missing in (tmp_path / "other.md", tmp_path / "none" / ".memlog.md"):
        with pytest.raises(UserError, match="smp memlog init"):
            Memlog(str(missing)).append("x")
    with pytest.raises(InvalidFormat, match="surrogate"):
        log.append("\udcff")


def test_concurrent_init_creates_one_memlog(tmp_path: Path) -> None:
    refused: list[object] = []
    made: list[int] = []

    def make() -> None:
        try:
            made.append(Memlog(str(tmp_path / "run" / ".memlog.md")).init([("topic", "x")]))
        except UserError as error:
            refused.append(error)

    threads = [threading.Thread(target=make) for _ in range(12)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert made == [0]
    assert len(refused) == 11
    assert os.listdir(tmp_path / "run") == [".memlog.md"]


@pytest.mark.skipif(os.name == "nt", reason="modes and links")
def test_a_link_stays_a_link_and_the_mode_stays(tmp_path: Path) -> None:
    memlog(tmp_path)
    real, link = tmp_path / ".memlog.md", tmp_path / "link.md"
    assert real.stat().st_mode & 0o777 == 0o600
    real.chmod(0o644)
    link.symlink_to(real)
    Memlog(str(link)).append("x")
    assert link.is_symlink()
    assert real.stat().st_mode & 0o777 == 0o644
    assert real.read_text().endswith("- x\n")


@pytest.mark.skipif(os.name == "nt", reason="a folder is locked")
def test_lock_timeout_is_reported_and_nothing_written(tmp_path: Path) -> None:
    memlog(tmp_path)
    before = (tmp_path / ".memlog.md").read_bytes()
    system = RealSystem()
    folder = system.open(str(tmp_path), os.O_RDONLY)
    assert system.lock(folder)
    try:
        with pytest.raises(LockTimeout, match="Nothing was written"):
            Memlog(str(tmp_path / ".memlog.md"), timeout_seconds=0.05).append("x")
    finally:
        system.close(folder)
    assert (tmp_path / ".memlog.md").read_bytes() == before
    Memlog(str(tmp_path / ".memlog.md")).append("x")


class OftenReplaced(RealSystem):
    """Another program, which knows no lock, replaces the file right before we do, a few times."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.times = 3

    def chmod(self, path: str, mode: int, /) -> None:  # type: ignore[override]
        os.chmod(path, mode)
        if self.times:
            self.times -= 1
            other = self.path.with_suffix(".other")
            other.write_text(append_entry(self.path.read_text(), f"theirs {self.times}", None, None, AT))
            os.replace(other, self.path)


def test_file_replaced_by_another_program_is_read_again(tmp_path: Path) -> None:
    memlog(tmp_path)
    path = tmp_path / ".memlog.md"
    assert Memlog(str(path), OftenReplaced(path)).append("ours", minute=AT) == 4
    assert [line[2:] for line in path.read_text().splitlines() if line.startswith("- ")] == [
        "theirs 2",
        "theirs 1",
        "theirs 0",
        "ours",
    ]


def test_lock_file_is_used_where_a_folder_cannot_be_locked(tmp_path: Path) -> None:
    class NoFolderLocks(RealSystem):
        def lock(self, fd: int, /) -> bool:
            import stat

            if stat.S_ISDIR(os.fstat(fd).st_mode):
                raise OSError(9, "not here")
            return super().lock(fd)

    memlog(tmp_path)
    assert Memlog(str(tmp_path / ".memlog.md"), NoFolderLocks()).append("x") == 1
    assert sorted(os.listdir(tmp_path)) == [".memlog.md", ".memlog.md.lock"]


_WRITER = """
import sys
from smp_memory.integrations.bmad.memlog import Memlog
path, who, count = sys.argv[1], sys.argv[2], int(sys.argv[3])
for number in range(count):
    Memlog(path, timeout_seconds=100).append(f"{who}-{number}", "note", who)
"""


@pytest.mark.crash
def test_entries_of_eight_concurrent_processes_are_all_kept(tmp_path: Path) -> None:
    memlog(tmp_path)
    path = tmp_path / ".memlog.md"
    command = [sys.executable, "-c", _WRITER, str(path)]
    running = [subprocess.Popen([*command, f"p{number}", str(EACH)]) for number in range(PROCESSES)]
    assert [process.wait(timeout=110) for process in running] == [0] * PROCESSES
    said = re.findall(r"^- \(note by p\d+\) (p\d+)-(\d+)$", path.read_text(), re.MULTILINE)
    assert len(said) == PROCESSES * EACH
    for number in range(PROCESSES):  # each in its own order
        assert [int(at) for who, at in said if who == f"p{number}"] == list(range(EACH))
    assert os.listdir(tmp_path) == [".memlog.md"]


def test_command_prints_what_the_bmad_script_prints(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = f"{tmp_path}/./run//x"
    assert main(["memlog", "init", "--workspace", run, "--field", "topic=T", "--field", "a=b=c"]) == 0
    assert main(["memlog", "append", "--workspace", run, "--text", "-", "--type", "idea"]) == 0
    assert main(["memlog", "set", "--path", f"{run}/.memlog.md", "--key", "mode", "--value", "x"]) == 0
    path = str(tmp_path / "run" / "x" / ".memlog.md")
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == json.dumps({"ok": True, "memlog": path, "entries": 0})
    assert [json.loads(line)["entries"] for line in lines] == [0, 1, 1]
    assert re.search(
        r"\na: b=c\nmode: x\nupdated: \d{4}-\d\d-\d\dT\d\d:\d\d\n---\n\n- \(idea\) -\n$", Path(path).read_text()
    )
    assert main(["memlog", "init", "--workspace", run]) == 2
    assert main(["memlog", "init", "--workspace", f"{tmp_path}/new", "--field", "noequals"]) == 2
    assert main(["memlog", "append", "--text", "orphan"]) == 2
    assert not (tmp_path / "new").exists()
    assert capsys.readouterr().out == ""
