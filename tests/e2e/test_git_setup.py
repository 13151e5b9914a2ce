"""`smp git setup`, `smp init` in a work tree, `smp git check`, and what doctor and validate say of a clone without the driver."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import smp_memory
from smp_memory.cli.main import main
from smp_memory.integrations.git import attribute_lines, ignore_lines, with_block, without_block
from tests.e2e.git_clones import environment

pytestmark = pytest.mark.skipif(shutil.which("git") is None, reason="needs git")
TOKEN = "ghp_" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "my shop"
    folder.mkdir()
    for name in list(os.environ):
        if name.startswith(("GIT_", "SMP_")):
            monkeypatch.delenv(name)
    for name, value in environment(tmp_path).items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("SMP_STATE_DIR", str(tmp_path / "state"))
    monkeypatch.chdir(folder)
    git("init", "-q")
    return folder


def git(*words: str) -> str:
    return subprocess.run(["git", *words], check=True, capture_output=True, text=True).stdout


def tree(folder: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file() and (".git" not in path.parts or path.name in ("config", "pre-commit"))
    }


def store(folder: Path) -> Path:
    smp_memory.open(folder / ".bmad" / "memory", layout="jsonl").close()
    return folder / ".bmad" / "memory"


def attribute(path: str) -> str:
    return git("check-attr", "merge", path).rpartition(": ")[2].strip()


# -- setup


def test_setup_names_the_driver_for_every_file_and_registers_it(project: Path) -> None:
    store(project)
    assert main(["git", "setup", "--command", "smp"]) == 0
    for name in ("sessions/s1/findings.jsonl", "sessions/s1/manifest.json", "active/s1/decisions.yaml", "active/s1/artifacts/A.md", "s1.jsonl"):  # fmt: skip
        assert attribute(f".bmad/memory/{name}") == "smp"
    assert attribute("notes.md") == "unspecified"
    assert git("config", "merge.smp.driver").strip() == "smp git merge-driver %O %A %B %P"
    assert (
        git("check-ignore", ".bmad/memory/sessions/s1/.smp/lock", ".bmad/memory/config.json.smp-new").count("\n") == 2
    )


def test_setup_twice_changes_nothing_and_undo_restores_every_byte(project: Path) -> None:
    store(project)
    (project / ".gitattributes").write_bytes(b"*.png binary\r\n# mine")
    (project / ".gitignore").write_bytes(b"node_modules/\n")
    before = tree(project)
    assert main(["git", "setup", "--pre-commit"]) == 0
    first = tree(project)
    assert first != before
    assert b"*.png binary\r\n# mine\r\n" in first[".gitattributes"]
    assert main(["git", "setup", "--pre-commit"]) == 0
    assert tree(project) == first
    assert main(["git", "setup", "--undo"]) == 0
    after = tree(project)
    assert after.pop(".gitattributes").rstrip() == before.pop(".gitattributes").rstrip()
    assert after == before


def test_dry_run_changes_nothing(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    store(project)
    before = tree(project)
    assert main(["git", "setup", "--dry-run", "--json"]) == 0
    assert len(json.loads(capsys.readouterr().out)["would_change"]) == 3
    assert main(["git", "setup", "--dry-run"]) == 0
    assert "merge=smp" in capsys.readouterr().out
    assert tree(project) == before


def test_a_link_in_the_place_of_gitattributes_is_refused(project: Path, tmp_path: Path) -> None:
    store(project)
    (tmp_path / "target").write_text("mine\n")
    (project / ".gitattributes").symlink_to(tmp_path / "target")
    assert main(["git", "setup"]) == 2
    assert (tmp_path / "target").read_text() == "mine\n"
    assert not (project / ".gitignore").exists()


def test_the_program_is_named_by_its_path_in_a_virtual_environment(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    store(project)
    assert main(["git", "setup"]) == 0
    driver = git("config", "merge.smp.driver")
    if sys.prefix != sys.base_prefix:
        assert driver.startswith((os.path.dirname(sys.executable), f"'{os.path.dirname(sys.executable)}"))
        assert "exists on this machine only" in capsys.readouterr().out


def test_a_foreign_driver_of_that_name_is_not_replaced(project: Path) -> None:
    store(project)
    git("config", "merge.smp.driver", "other %A")
    assert main(["git", "setup"]) == 2
    assert git("config", "merge.smp.driver").strip() == "other %A"


def test_an_existing_hook_is_not_changed(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    store(project)
    hook = project / ".git" / "hooks" / "pre-commit"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text("#!/bin/sh\nmake lint\n")
    assert main(["git", "setup", "--pre-commit", "--command", "smp"]) == 0
    assert "Add this line to it: smp git check --root .bmad/memory || exit 1" in capsys.readouterr().out
    assert main(["git", "setup", "--undo"]) == 0
    assert hook.read_text() == "#!/bin/sh\nmake lint\n"


def test_two_stores_of_one_work_tree_have_a_block_each(project: Path) -> None:
    one, other = store(project), project / "odd [name]" / "mem ory"
    smp_memory.open(other, layout="single").close()
    assert (
        main(["git", "setup", "--root", str(one), "--pre-commit"])
        == main(["git", "setup", "--root", str(other), "--pre-commit"])
        == 0
    )
    assert attribute("odd [name]/mem ory/s1.jsonl") == attribute(".bmad/memory/sessions/s1/manifest.json") == "smp"
    assert git("check-ignore", "odd [name]/mem ory/.smp/s1/lock")
    assert (project / ".git" / "hooks" / "pre-commit").read_text().count(" git check --root ") == 2
    assert main(["git", "setup", "--root", str(one), "--undo"]) == 0
    assert attribute("odd [name]/mem ory/s1.jsonl") == "smp"
    assert git("config", "merge.smp.driver")
    assert (project / ".git" / "hooks" / "pre-commit").read_text().count(" git check --root ") == 1
    assert main(["git", "setup", "--root", str(other), "--undo"]) == 0
    assert not (project / ".gitattributes").exists()


def test_outside_of_a_work_tree_setup_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    store(tmp_path)
    assert main(["git", "setup"]) == 2


@pytest.mark.parametrize("text", ["", "a\n", "a", "a\r\nb\r\n", "# >>> smp other\nx\n# <<< smp other\n"])
def test_blocks_are_put_in_once_and_taken_out_again(text: str) -> None:
    for lines in (attribute_lines("a b/[c]"), ignore_lines("")):
        once = with_block(text, "a b/[c]", lines)
        assert with_block(once, "a b/[c]", lines) == once
        assert without_block(once, "a b/[c]").rstrip("\r\n") == text.rstrip("\r\n")


# -- init


def test_init_in_a_work_tree_sets_git_up_and_reports_it(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["init", "--layout", "markdown", "--json"]) == 0
    told = capsys.readouterr()
    assert len(json.loads(told.out)["git"]["changed"]) == 3
    assert "is a git work tree" in told.err
    assert attribute(".bmad/sessions/active/s1/decisions.yaml") == "smp"


def test_init_outside_a_work_tree_suggests_the_name_of_gits_user(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    settings = tmp_path / "gitconfig"
    settings.write_text("[user]\n\tname = Ada Lovelace\n")
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(settings))
    folder = tmp_path / "outside"
    folder.mkdir()
    monkeypatch.chdir(folder)
    assert main(["init"]) == 0
    assert "smp session new --user 'Ada Lovelace' --project outside" in capsys.readouterr().out


def test_init_with_no_git_leaves_the_repository_alone(project: Path) -> None:
    before = tree(project)
    assert main(["init", "--no-git"]) == 0
    assert {name: data for name, data in tree(project).items() if not name.startswith(".bmad")} == before


def test_init_of_an_ignored_store_leaves_the_repository_alone(project: Path) -> None:
    (project / ".gitignore").write_text(".bmad/\n")
    assert main(["init"]) == 0
    assert not (project / ".gitattributes").exists()


def test_init_makes_the_store_even_if_git_cannot_be_set_up(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (project / ".gitattributes").symlink_to("elsewhere")
    assert main(["init"]) == 0
    assert "git was not set up" in capsys.readouterr().err
    assert (project / ".bmad" / "memory" / "config.json").exists()


# -- a clone without the driver


def test_doctor_and_validate_report_a_clone_without_the_driver(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["init"]) == main(["session", "new", "s1"]) == 0
    git("config", "--remove-section", "merge.smp")
    capsys.readouterr()
    assert main(["validate"]) == 0
    assert "this clone does not have" in capsys.readouterr().err
    main(["doctor", "--quick", "--json"])
    assert [each["check"] for each in json.loads(capsys.readouterr().out)["findings"]].count("git") == 1
    assert main(["git", "setup"]) == 0
    capsys.readouterr()
    assert main(["validate"]) == 0
    assert "this clone does not have" not in capsys.readouterr().err
    main(["doctor", "--quick", "--json"])
    assert "git" not in [each["check"] for each in json.loads(capsys.readouterr().out)["findings"]]


# -- check


@pytest.mark.parametrize("layout", ["jsonl", "markdown", "single", "log"])
def test_check_names_file_and_line_of_a_secret_and_never_the_secret(
    project: Path, layout: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with smp_memory.open(
        project / ".bmad" / "sessions", layout=layout, config={"privacy.redaction.enabled": False}
    ) as memory:
        session = memory.create_session("s1", user="ada@example.org")
        session.add_decision("Harmless", author="bob@example.org")
        session.add_decision(f"The token is {TOKEN}")
    assert main(["git", "setup"]) == 0
    git("add", "-A")
    capsys.readouterr()
    assert main(["git", "check", "--json"]) == 1
    told = capsys.readouterr()
    (found,) = json.loads(told.out)["findings"]
    lines = (project / found["path"]).read_bytes()[: (project / found["path"]).read_bytes().index(TOKEN.encode())]
    entry = 2 if layout == "markdown" else 0  # id and timestamp come first
    assert found["line"] == lines.count(b"\n") + 1 - entry
    assert "github_token" in found["what"]
    assert TOKEN not in told.out + told.err
    assert main(["git", "check"]) == 1
    assert TOKEN not in capsys.readouterr().out


def test_check_refuses_private_files_and_conflict_markers(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    root = store(project)
    with smp_memory.open(root) as memory:
        memory.create_session("s1").add_finding("Something")
    git("add", "-fA")
    capsys.readouterr()
    assert main(["git", "check", "--json"]) == 1
    assert all("/.smp/" in each["path"] for each in json.loads(capsys.readouterr().out)["findings"])
    assert main(["git", "setup"]) == 0
    git("rm", "-rq", "--cached", ".")
    git("add", "-A")
    assert main(["git", "check"]) == 0
    path = root / "sessions" / "s1" / "findings.jsonl"
    path.write_text(f"<<<<<<< ours\n{path.read_text()}=======\n>>>>>>> theirs\n")
    git("add", "-A")
    capsys.readouterr()
    assert main(["git", "check", "--json"]) == 1
    assert [each["line"] for each in json.loads(capsys.readouterr().out)["findings"]] == [1, 4]


def test_a_commit_with_a_secret_is_stopped_by_the_hook(project: Path) -> None:
    root = store(project)
    (project / "notes.txt").write_text(f"{TOKEN}\n")  # not the store's
    assert main(["git", "setup", "--pre-commit", "--command", f"'{sys.executable}' -m smp_memory"]) == 0
    git("add", "-A")
    git("commit", "-qm", "one")
    with smp_memory.open(root, config={"privacy.redaction.enabled": False}) as memory:
        memory.create_session("s1").add_finding(f"The token is {TOKEN}")
    git("add", "-A")
    done = subprocess.run(["git", "commit", "-qm", "two"], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "findings.jsonl:1" in done.stdout + done.stderr
    assert TOKEN not in done.stdout + done.stderr


# -- the driver as git calls it


def driver(
    folder: Path, base: bytes, ours: bytes, theirs: bytes, path: str = "sessions/s1/findings.jsonl"
) -> tuple[int, bytes]:
    for name, data in (("base", base), ("ours", ours), ("theirs", theirs)):
        (folder / name).write_bytes(data)
    code = main(["git", "merge-driver", *(str(folder / name) for name in ("base", "ours", "theirs")), path])
    return code, (folder / "ours").read_bytes()


@pytest.mark.parametrize(
    ("base", "ours", "theirs"),
    [
        (b"", b'{"id":"A"}\n{"id', b'{"id":"B"}\n'),
        (b"", b'<<<<<<< ours\n{"id":"A"}\n', b'{"id":"B"}\n'),
        (b"\xff\0", b"\0\xfe\0binary ours", b"\0\xfd\0binary theirs"),
    ],
)
def test_input_that_cannot_be_read_becomes_a_conflict_with_both_sides(
    tmp_path: Path, base: bytes, ours: bytes, theirs: bytes, capsys: pytest.CaptureFixture[str]
) -> None:
    code, data = driver(tmp_path, base, ours, theirs)
    assert code == 1
    assert ours.strip() in data
    assert theirs.strip() in data
    assert b"=======" in data


def test_any_error_of_the_driver_becomes_a_conflict(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from smp_memory.git import merge

    def fails(*_: object) -> None:
        raise ZeroDivisionError("memory content")

    monkeypatch.setattr(merge, "merge", fails)
    code, data = driver(tmp_path, b"", b'{"id":"A"}\n', b'{"id":"B"}\n')
    assert (code, b'{"id":"A"}' in data, b'{"id":"B"}' in data) == (1, True, True)
    assert "memory content" not in capsys.readouterr().err


def test_files_that_are_not_there_are_a_conflict_without_a_traceback(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["git", "merge-driver", *(str(tmp_path / name) for name in "oab"), "s.jsonl"]) == 1
    assert "cannot be merged" in capsys.readouterr().err


def test_text_merge_of_unreadable_input_is_reported(tmp_path: Path) -> None:
    """Git merges the text, but nobody has checked what it means."""
    base = b"<<<<<<< x\n" + b"".join(b'{"id":"%d"}\n' % n for n in range(20))
    code, data = driver(tmp_path, base, base + b'{"id":"A"}\n', b'{"id":"B"}\n' + base)
    assert code == 1
    assert data.startswith(b'{"id":"B"}\n<<<<<<< x\n')
    assert data.endswith(b'{"id":"A"}\n')


def test_files_of_others_merge_as_git_merges_text(tmp_path: Path) -> None:
    base = b"".join(b"%d\n" % n for n in range(20))
    assert driver(tmp_path, base, base + b"end\n", b"start\n" + base, "README.md") == (0, b"start\n" + base + b"end\n")


def test_overviews_are_not_merged(tmp_path: Path) -> None:
    head = b"# Made by SMP from the memories of this session. Edits here are not read and will be overwritten.\n"
    assert driver(tmp_path, head, head + b"a: 1\n", head + b"a: 2\n", "active/s1/indexes/topics.yaml") == (
        0,
        head + b"a: 1\n",
    )


def test_the_driver_loads_neither_the_store_nor_argparse(tmp_path: Path) -> None:
    for name in ("base", "ours", "theirs"):
        (tmp_path / name).write_bytes(b'{"id":"%s"}\n' % name.encode())
    code = (
        "import sys; from smp_memory.cli.main import main\n"
        "code = main(['git', 'merge-driver', 'base', 'ours', 'theirs', 's.jsonl'])\n"
        "wrong = {'argparse', 'yaml', 'subprocess', 'smp_memory.memory', 'smp_memory.store.file_store', 'smp_memory.session'} & set(sys.modules)\n"
        "print(code, sorted(wrong))"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "0 []"
