"""A native library that is missing or does not load: queries read the files, and there is one clear message."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import smp_memory
from smp_memory.index.text import TAIL_LIMIT

REFUSE = """
import sys
class Refuse:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {names!r}:
            raise ImportError(f"{{name}}: cannot open shared object file")
sys.meta_path.insert(0, Refuse())
"""


def run(names: set[str], code: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", REFUSE.format(names=names) + code, *arguments],
        capture_output=True,
        text=True,
        check=False,
    )


ASK = """
import smp_memory
with smp_memory.open(sys.argv[1]) as memory:
    print([hit.record.decision for hit in memory.query("zebra")])
    memory.session("s1").add_decision("A second zebra")
    print(len(memory.query("zebra")), len(memory.query(types="decision", limit=1)))
"""


@pytest.fixture(params=[3, TAIL_LIMIT + 100], ids=["few", "many"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """A store with an index on disk that was made with all libraries; `many` are in tantivy."""
    with smp_memory.open(tmp_path / "store") as memory:
        session = memory.create_session("s1")
        session.add_many([("learning", f"Number {number}") for number in range(request.param)])
        session.add_decision("A zebra crossing")
        assert len(memory.query("zebra")) == 1
    return tmp_path / "store"


@pytest.mark.parametrize(
    "names", [{"Stemmer"}, {"tantivy"}, {"Stemmer", "tantivy"}], ids=lambda names: "+".join(sorted(names))
)
def test_queries_answer_from_the_files_without_a_native_library(store: Path, names: set[str]) -> None:
    told = run(names, ASK, str(store))
    assert told.stdout.splitlines() == ["['A zebra crossing']", "2 1"], told.stderr
    assert "Traceback" not in told.stderr
    for name in names & {"Stemmer"}:
        assert told.stderr.count("PyStemmer cannot be loaded") == 1, name
    with smp_memory.open(store) as memory:  # the index on disk is whole
        assert len(memory.query("zebras")) == 2


def test_index_on_disk_is_not_discarded_by_a_process_without_a_library(store: Path) -> None:
    with smp_memory.open(store) as memory:
        folder = Path(memory.store.indexer.folder)
        before = sorted(path.name for path in folder.iterdir())
    assert run({"Stemmer", "tantivy"}, ASK, str(store)).returncode == 0
    assert sorted(path.name for path in folder.iterdir()) == before


def test_command_line_answers_without_native_libraries(store: Path) -> None:
    code = "from smp_memory.cli.main import main; sys.exit(main(sys.argv[1:]))"
    told = run({"Stemmer", "tantivy"}, code, "--root", str(store), "query", "zebra")
    assert told.returncode == 0
    assert "A zebra crossing" in told.stdout
    assert "Traceback" not in told.stderr


def test_markdown_store_without_yaml_gives_one_clear_error(tmp_path: Path) -> None:
    with smp_memory.open(tmp_path / "store", layout="markdown") as memory:
        memory.create_session("s1").add_decision("kept")
    code = "from smp_memory.cli.main import main; sys.exit(main(sys.argv[1:]))"
    told = run({"yaml", "_yaml"}, code, "--root", str(tmp_path / "store"), "list")
    assert told.returncode == 50
    assert "install PyYAML" in told.stderr
    assert "Traceback" not in told.stderr + told.stdout
    repaired = run({"yaml", "_yaml"}, code, "--root", str(tmp_path / "store"), "repair")
    assert repaired.returncode != 0
    with smp_memory.open(tmp_path / "store") as memory:
        assert [record.decision for record in memory.session("s1").records()] == ["kept"]


def test_yaml_without_its_c_parser_reads_the_same(tmp_path: Path) -> None:
    with smp_memory.open(tmp_path / "store", layout="markdown") as memory:
        memory.create_session("s1").add_decision("kept")
    code = """
import yaml
assert not hasattr(yaml, "CSafeLoader")
import smp_memory
print([record.decision for record in smp_memory.open(sys.argv[1]).session("s1").records()])
"""
    told = run({"_yaml"}, "sys.modules['yaml._yaml'] = None" + code, str(tmp_path / "store"))
    assert told.stdout.strip() == "['kept']", told.stderr
    assert told.stderr.count("no C parser") <= 1


BY_MEANING = """
import smp_memory
with smp_memory.open(sys.argv[1]) as memory:
    hits = memory.query("where is the zebra of the zoo")
    print(len(hits), hits.warnings)
"""


def test_query_by_meaning_goes_by_words_without_its_libraries(tmp_path: Path) -> None:
    with smp_memory.open(tmp_path) as memory:
        memory.create_session("s1").add_decision("The zebra is striped")
    for missing in ({"simsimd"}, {"simsimd", "numpy"}):
        done = run(missing, BY_MEANING, str(tmp_path))
        assert done.returncode == 0, done.stderr
        assert done.stdout.startswith("1 ")
        assert done.stderr.count("by words alone") <= 1


def test_doctor_says_that_the_embedding_model_is_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with smp_memory.open(tmp_path / "store") as memory:
        memory.create_session("s1").add_decision("The zebra is striped")
        assert memory.doctor().of("index") == []
        monkeypatch.setattr("smp_memory.index.embeddings.MODELS", str(tmp_path))
        (issue,) = memory.doctor().of("index")
        assert "by words alone" in issue.message
        assert memory.query("where is the zebra of the zoo")
    with smp_memory.open(tmp_path / "store", config={"search.semantic": "off"}) as memory:
        assert memory.doctor().of("index") == []
