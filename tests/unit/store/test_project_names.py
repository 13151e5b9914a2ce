"""The name of a project is that of its git repository, in every work tree and subfolder; a `.git` file that lies gives the folder's own name."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import smp_memory
from smp_memory.discovery import project_name
from tests.e2e.hook_host import Project


def git(folder: Path, *words: str) -> None:
    identity = ["-c", "user.name=a", "-c", "user.email=a@b", "-c", "protocol.file.allow=always"]
    subprocess.run(["git", "-C", str(folder), *identity, *words], check=True, capture_output=True)


def repository(folder: Path) -> Path:
    folder.mkdir(parents=True)
    git(folder, "init", "-q", "-b", "main")
    git(folder, "commit", "-q", "--allow-empty", "-m", "first")
    return folder


def test_subfolders_and_work_trees_have_the_name_of_the_repository(tmp_path: Path) -> None:
    shop = repository(tmp_path / "shop")
    git(shop, "worktree", "add", "-q", str(tmp_path / "shop-feature"))
    git(shop, "worktree", "add", "-q", str(shop / ".trees/inner"))
    for folder in (
        shop,
        shop / "src/deep",
        tmp_path / "shop-feature",
        tmp_path / "shop-feature/src",
        shop / ".trees/inner",
    ):
        folder.mkdir(parents=True, exist_ok=True)
        assert project_name(str(folder)) == "shop", folder
    (tmp_path / "moved").symlink_to(tmp_path / "shop-feature")
    assert project_name(str(tmp_path / "moved")) == "shop"


@pytest.mark.parametrize(("place", "name"), [("shop.git", "shop"), ("shop/.bare", "shop"), ("shop", "shop")])
def test_work_trees_of_a_bare_repository_have_its_name(tmp_path: Path, place: str, name: str) -> None:
    repository(tmp_path / "first")
    git(tmp_path, "clone", "-q", "--bare", str(tmp_path / "first"), str(tmp_path / place))
    git(tmp_path / place, "worktree", "add", "-q", str(tmp_path / "feature"), "main")
    assert project_name(str(tmp_path / "feature")) == name


def test_submodule_is_a_project_of_its_own(tmp_path: Path) -> None:
    library, shop = repository(tmp_path / "library"), repository(tmp_path / "shop")
    git(shop, "submodule", "add", "-q", str(library), "vendor/lib")
    assert (shop / "vendor/lib/.git").is_file()
    assert project_name(str(shop / "vendor/lib")) == "lib"
    git(shop / "vendor/lib", "worktree", "add", "-q", str(tmp_path / "lib-feature"))
    assert project_name(str(tmp_path / "lib-feature")) == "lib"


def test_repository_with_its_git_folder_elsewhere_has_the_name_of_its_folder(tmp_path: Path) -> None:
    (tmp_path / "shop").mkdir()
    git(tmp_path, "init", "-q", "--separate-git-dir", str(tmp_path / "away"), str(tmp_path / "shop"))
    assert project_name(str(tmp_path / "shop")) == "shop"


def test_folder_without_a_repository_has_its_own_name(tmp_path: Path) -> None:
    (tmp_path / "notes/inner").mkdir(parents=True)
    assert project_name(str(tmp_path / "notes/inner")) == "inner"
    assert project_name(str(tmp_path / "gone/away")) == "away"


@pytest.mark.parametrize(
    "target", ["../other/.git/worktrees/x", "../other/.git", "/", "", "\0", "../mine/.git", "a" * 9000]
)
def test_git_file_that_lies_gives_the_name_of_its_folder(tmp_path: Path, target: str) -> None:
    """The named repository has a work tree, but not this folder."""
    other = repository(tmp_path / "other")
    git(other, "worktree", "add", "-q", str(tmp_path / "x"))
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine/.git").write_text(f"gitdir: {target}\n")
    assert project_name(str(tmp_path / "x")) == "other"
    assert project_name(str(tmp_path / "mine")) == "mine"


def test_files_that_are_pipes_or_large_do_not_block(tmp_path: Path) -> None:
    own = tmp_path / "other/.git/worktrees/x"
    own.mkdir(parents=True)
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine/.git").write_text(f"gitdir: {own}\n")
    os.mkfifo(own / "commondir")
    (own / "gitdir").write_text("../.." + "\n" * (1 << 20))
    assert project_name(str(tmp_path / "mine")) == "mine"


@given(st.binary(max_size=60), st.binary(max_size=20), st.binary(max_size=20))
def test_any_bytes_in_the_files_of_git_give_a_name(
    tmp_path_factory: pytest.TempPathFactory, link: bytes, common: bytes, back: bytes
) -> None:
    folder = tmp_path_factory.mktemp("any")
    (folder / "mine").mkdir()
    (folder / "own").mkdir()
    (folder / "mine/.git").write_bytes(link if link else b"gitdir: ../own\n")
    (folder / "own/commondir").write_bytes(common)
    (folder / "own/gitdir").write_bytes(back)
    assert project_name(str(folder / "mine")) == "mine"


def test_hooks_name_the_repository_in_a_work_tree_and_in_a_subfolder(tmp_path: Path) -> None:
    """One store for all projects: what is decided in a work tree is recalled in the main one, and not in another repository."""
    shop, other = repository(tmp_path / "shop"), repository(tmp_path / "other")
    git(shop, "worktree", "add", "-q", str(tmp_path / "shop-feature"))
    (tmp_path / "shop-feature/src").mkdir()
    store = Project(tmp_path / "runner")

    def prompt(folder: Path, text: str) -> str:
        event = {"hook_event_name": "UserPromptSubmit", "session_id": folder.name, "cwd": str(folder), "prompt": text}
        return store.call(event, "--wait", SMP_ROOT=str(tmp_path / "store")).stdout.decode()

    with smp_memory.open(tmp_path / "store"):
        pass
    for folder in (tmp_path / "shop-feature/src", other):
        prompt(folder, "Customers log in with OAuth 2.0 from now on")
    with smp_memory.open(tmp_path / "store") as memory:
        assert sorted(str(session.info.project) for session in memory.sessions()) == ["other", "shop"]
        for session in memory.sessions():
            session.add_decision(f"Customers of {session.info.project} log in with OAuth 2.0")
    told = prompt(shop, "How do customers log in?")
    assert "Customers of shop log in" in told
    assert "Customers of other" not in told


def test_store_of_a_work_tree_is_its_own_and_names_the_repository(tmp_path: Path) -> None:
    shop = repository(tmp_path / "shop")
    git(shop, "worktree", "add", "-q", str(tmp_path / "shop-feature"))
    main, feature = Project(shop), Project(tmp_path / "shop-feature")
    feature.decide("Customers log in with OAuth 2.0", session="earlier")
    event = {"hook_event_name": "UserPromptSubmit", "session_id": "s", "cwd": str(feature.folder), "prompt": "How do customers log in?"}  # fmt: skip
    assert b"OAuth 2.0" in feature.call(event, "--wait").stdout
    with feature.open() as memory:
        assert [session.info.project for session in memory.sessions() if session.id != "earlier"] == ["shop"]
    assert main.sessions() == []
