"""The distribution: metadata, contents of the wheel, and the files that a public repository has.

The slow test runs `./dev build`: sdist and wheel, `twine check`, and the demo from the wheel in an empty environment.
"""

from __future__ import annotations

import email
import re
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from email.message import Message
from pathlib import Path
from typing import Any

import pytest
import yaml

import smp_memory

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
TEMPLATES = sorted((ROOT / ".github" / "ISSUE_TEMPLATE").glob("*.yml"))
PYTHONS = ["3.11", "3.12", "3.13", "3.14"]


def run(*words: str, **options: Any) -> str:
    done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=False, **options)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("dist")
    run(sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(folder))
    (path,) = folder.iterdir()
    return path


def names_in(wheel: Path) -> set[str]:
    with zipfile.ZipFile(wheel) as archive:
        return set(archive.namelist())


def metadata_of(wheel: Path) -> Message:
    with zipfile.ZipFile(wheel) as archive:
        (name,) = [name for name in archive.namelist() if name.endswith(".dist-info/METADATA")]
        return email.message_from_string(archive.read(name).decode())


# -- the wheel


def test_wheel_contains_the_package_and_nothing_else(wheel: Path) -> None:
    source = ROOT / "src"
    expected = {
        path.relative_to(source).as_posix()
        for path in (source / "smp_memory").rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    models = {f"smp_memory/index/models/{name}" for name in ("NOTICE", "static.rows", "static.tokens", "minilm.tokens")}
    assert {"smp_memory/py.typed", *models} <= expected
    found = names_in(wheel)
    info = {name for name in found if ".dist-info/" in name}
    assert found - info == expected
    assert {name.partition(".dist-info/")[2] for name in info} == {
        "METADATA",
        "WHEEL",
        "RECORD",
        "entry_points.txt",
        "licenses/LICENSE",
    }


def test_metadata_states_what_is_true(wheel: Path) -> None:
    metadata = metadata_of(wheel)
    assert (metadata["Name"], metadata["Version"]) == ("smp-memory", smp_memory.__version__)
    assert metadata["Requires-Python"] == ">=3.11"
    assert metadata["License-Expression"] == "MIT"
    classifiers = set(metadata.get_all("Classifier", []))
    assert {f"Programming Language :: Python :: {version}" for version in PYTHONS} <= classifiers
    assert "Typing :: Typed" in classifiers
    assert metadata.get_all("Project-URL") is None  # there is no public address yet


def test_readme_is_the_long_description(wheel: Path) -> None:
    metadata = metadata_of(wheel)
    assert metadata["Description-Content-Type"] == "text/markdown"
    assert str(metadata.get_payload()).strip() == (ROOT / "README.md").read_text(encoding="utf-8").strip()


def test_twine_accepts_the_wheel(wheel: Path) -> None:
    assert "PASSED" in run(sys.executable, "-m", "twine", "check", "--strict", str(wheel))


# -- the files of the repository


def test_citation_names_this_version() -> None:
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    assert {"cff-version", "message", "title", "authors"} <= set(citation)  # required by the schema 1.2.0
    assert (citation["cff-version"], citation["type"]) == ("1.2.0", "software")
    assert (citation["version"], citation["license"]) == (PROJECT["version"], PROJECT["license"])
    assert [author["name"] for author in citation["authors"]] == [author["name"] for author in PROJECT["authors"]]


def test_changelog_has_a_chapter_for_this_version() -> None:
    text = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    titles = re.findall(r"^## (.+)$", text, re.MULTILINE)
    title = re.compile(r"\[(\d+\.\d+\.\d+|Unreleased)\]( - (\d{4}-\d{2}-\d{2}|Unreleased))?")
    assert [each for each in titles if not title.fullmatch(each)] == []
    assert any(each.startswith(f"[{PROJECT['version']}]") for each in titles)
    kinds = set(re.findall(r"^### (.+)$", text, re.MULTILINE))
    assert kinds <= {"Added", "Changed", "Deprecated", "Removed", "Fixed", "Security"}


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.name)
def test_workflow_is_well_formed_and_says_that_it_has_not_run(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    workflow = yaml.safe_load(text)
    assert "has not run yet" in text
    assert workflow["permissions"] == {"contents": "read"}
    for job in workflow["jobs"].values():
        assert {"runs-on", "timeout-minutes", "steps"} <= set(job)
        assert all(len({"run", "uses"} & set(step)) == 1 for step in job["steps"])


def test_workflow_covers_three_systems_and_every_python() -> None:
    jobs = yaml.safe_load((ROOT / ".github/workflows/test.yml").read_text(encoding="utf-8"))["jobs"]
    systems = {jobs["linux"]["runs-on"], *jobs["others"]["strategy"]["matrix"]["system"]}
    assert systems == {"ubuntu-latest", "macos-latest", "windows-latest"}
    assert [jobs[name]["strategy"]["matrix"]["python"] for name in ("linux", "others")] == [PYTHONS, PYTHONS]


@pytest.mark.parametrize("path", TEMPLATES, ids=lambda path: path.name)
def test_issue_template_is_well_formed(path: Path) -> None:
    template = yaml.safe_load(path.read_text(encoding="utf-8"))
    if path.name == "config.yml":
        assert set(template) <= {"blank_issues_enabled", "contact_links"}
        return
    assert {"name", "description", "body"} <= set(template)
    fields = [each for each in template["body"] if each["type"] != "markdown"]
    assert len({field["id"] for field in fields}) == len(fields) > 0
    assert all(field["attributes"]["label"] for field in fields)


# -- the whole way


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.skipif(sys.platform == "win32", reason="./dev is a shell script")
def test_installed_wheel_runs_the_demo() -> None:
    told = run("sh", "./dev", "build")
    assert [line.split()[0] for line in told.splitlines()[:7]] == ["ok"] * 7, told
    (sdist,) = (ROOT / "dist").glob("*.tar.gz")
    with tarfile.open(sdist) as archive:
        folders = {name.split("/")[1] for name in archive.getnames() if "/" in name}
        assert not [name for name in archive.getnames() if "/index/models/" in name]
    assert {"src", "tests", "docs", "plugin", "README.md", "LICENSE", "pyproject.toml", "hatch_build.py"} <= folders
