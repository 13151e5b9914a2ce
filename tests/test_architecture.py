"""Rules of the code that no linter checks. Each test reads all modules and lists every offender."""

from __future__ import annotations

import ast
import importlib
import inspect
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import smp_memory
import smp_memory.errors
from benchmarks import house

SOURCE = Path(smp_memory.__file__).parent
MODULES = sorted(SOURCE.rglob("*.py"))
ROOT = Path(__file__).parent.parent
TESTS = sorted((ROOT / "tests").rglob("*.py"))
QUESTION = re.compile(r"test_(what|who|whom|whose|which|when|where|why|how|is|are|does|do|did|can|could|would|will)_")
TOUCH_BYTES = {
    "files/disk.py",
    "files/system.py",
    "files/memory_system.py",
    "files/lock.py",
}
TOUCH_BYTES |= {"files/ownership.py"}  # reads config.json before a store is opened
TOUCH_BYTES |= {"files/activity.py"}  # hints beside the files
TOUCH_BYTES |= {
    "index/index.py",
    "index/rows.py",
    "index/engine.py",
    "index/inspection.py",
    "index/vectors.py",
}  # what can be thrown away
OS_CALLS = {"open", "write", "pwrite", "replace", "rename", "renames", "unlink", "remove", "rmdir", "mkdir", "makedirs", "truncate", "ftruncate", "fsync", "fdatasync", "link", "symlink", "chmod", "fdopen", "removedirs", "sync"}  # fmt: skip
PATH_CALLS = {"write_text", "write_bytes", "touch", "symlink_to", "hardlink_to"}
LINES = 450
MAY_BE_LONGER = {
    "integrations/hooks/record.py": 490,
    "files/memory_system.py": 500,
    "files/disk.py": 560,  # the only module that changes files, with its retries
    "files/system.py": 515,  # every primitive, for three operating systems
    "index/rows.py": 530,  # every table of the index
    "store/archive_index.py": 475,  # every place of a session that is not live
    "index/searcher.py": 530,  # every read of rows, with names and visibility
    "model/decay.py": 460,  # four policies
    "store/file_session.py": 460,  # the operations of a session in files
    "store/file_store.py": 525,  # the operations of a store in files
    "files/reader.py": 490,
    "store/erasure.py": 460,
    "files/entry_fields.py": 460,
    "files/locked_files.py": 460,
    "store/rewrite.py": 480,  # the engine of every change of what is stored, with its verification
    "files/layouts/layout.py": 465,  # the interface, and three layouts of JSON lines
    "git/merge.py": 475,
    "model/history.py": 505,  # histories, their snapshots, ids and hand edits
    "designs.py": 465,  # every method of five designs
    "memory.py": 950,  # one facade with every method of a store
    "cli/commands/sessions.py": 460,  # every command about whole sessions, and their tables
    "session.py": 660,  # and of a session
    "index/text_candidates.py": 480,
    "lifecycle/deletion.py": 500,
    "search/filters.py": 470,
    "privacy/redaction.py": 470,
    "context/budget.py": 560,  # lines, their passages, and the choice of those that fit
    "model/candidates.py": 490,  # every value of a search
    "search/ranking.py": 485,  # ranking, and the check of records
    "text/tokenizer.py": 465,
    "observe/telemetry.py": 470,  # metrics, log events and spans of one operation
    "write/validation.py": 530,  # the checks of every field, and the warnings about typing errors
}


def name_of(path: Path) -> str:
    return path.relative_to(SOURCE).as_posix()


@cache
def source(path: Path) -> str:
    return path.read_text("utf-8")


@cache
def tree(path: Path) -> ast.Module:
    return ast.parse(source(path))


def first_sentence(path: Path) -> str:
    paragraph = (ast.get_docstring(tree(path)) or "").split("\n\n")[0].strip()
    return re.split(r"(?<=[.?!])\s", paragraph)[0]


def calls(path: Path) -> Iterator[tuple[int, str]]:
    for node in ast.walk(tree(path)):
        if not isinstance(node, ast.Call):
            continue
        called = node.func
        if isinstance(called, ast.Name) and called.id == "open" and _only_reads(node):
            continue
        if isinstance(called, ast.Name):
            yield node.lineno, called.id
        elif isinstance(called, ast.Attribute):
            owner = called.value.id if isinstance(called.value, ast.Name) else "?"
            yield node.lineno, f"{owner}.{called.attr}"


def _only_reads(call: ast.Call) -> bool:
    mode = (
        call.args[1] if len(call.args) > 1 else next((each.value for each in call.keywords if each.arg == "mode"), None)
    )
    return mode is None or (isinstance(mode, ast.Constant) and set(mode.value) <= set("rbt"))


def test_bytes_are_written_only_in_the_listed_modules() -> None:
    offenders = [
        f"{name_of(path)}:{line} {call}"
        for path in MODULES
        if name_of(path) not in TOUCH_BYTES
        and not name_of(path).startswith(("cli/", "git/merge_driver", "integrations/git.py"))
        for line, call in calls(path)
        if call in {"open", "io.open", "shutil.rmtree", "shutil.move", "shutil.copy", "shutil.copytree"}
        or (call.startswith("os.") and call[3:] in OS_CALLS)
        or call.rpartition(".")[2] in PATH_CALLS
    ]
    assert offenders == []


def test_every_module_has_a_docstring() -> None:
    assert [name_of(path) for path in MODULES if not first_sentence(path)] == []


def test_no_module_docstring_begins_with_a_question() -> None:
    written = [*MODULES, *TESTS, *sorted((ROOT / "benchmarks").glob("*.py"))]
    assert [str(path) for path in written if first_sentence(path).endswith("?")] == []


def test_no_module_is_long() -> None:
    lines = {name_of(path): len(source(path).splitlines()) for path in MODULES}
    assert {name: count for name, count in lines.items() if count > MAY_BE_LONGER.get(name, LINES)} == {}


def test_source_contains_no_path_of_a_machine() -> None:
    pattern = re.compile(r"[\"'](/(?:home|root|Users|work|tmp|var|opt|mnt)\b[^\"']*)")
    found = {name_of(path): pattern.findall(source(path)) for path in MODULES}
    assert {name: paths for name, paths in found.items() if paths} == {}


def test_no_public_class_name_is_defined_twice() -> None:
    modules: dict[str, list[str]] = {}
    for path in MODULES:
        for node in tree(path).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                modules.setdefault(node.name, []).append(name_of(path))
    assert {name: where for name, where in modules.items() if len(where) > 1} == {}


def test_names_of_tests_are_statements() -> None:
    names = [
        (path, node.name)
        for path in TESTS
        for node in ast.walk(tree(path))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    ]
    names += [(path, path.stem) for path in TESTS]
    offenders = [f"{path.relative_to(ROOT)}: {name}" for path, name in names if QUESTION.match(name)]
    assert offenders == []
    assert sum(name.startswith("test_") for _, name in names) > 1000  # the tests were found


# Tests that still name private attributes of the code under test. The number only becomes smaller.
FILES_WITH_PRIVATE_NAMES = 41
PRIVATE = re.compile(r"(?<!\bself)(?<!\bcls)(?<!\bos)(?<!\bsys)(?<=[\w\])])\._[a-z]\w*")
NOT_PRIVATE = {"._replace", "._repr_html_", "._actions", "._option_string_actions", "._httpx_utils", "._yaml"}


def test_number_of_test_files_with_private_names_does_not_grow() -> None:
    found = [str(path.relative_to(ROOT)) for path in TESTS if set(PRIVATE.findall(source(path))) - NOT_PRIVATE]
    assert len(found) <= FILES_WITH_PRIVATE_NAMES, found


def test_docstring_of_errors_shows_every_error_with_its_code() -> None:
    drawing = smp_memory.errors.__doc__ or ""
    codes: dict[str, str] = {}
    exits: dict[int, str] = {}
    for name, kind in inspect.getmembers(smp_memory.errors, inspect.isclass):
        if not issubclass(kind, smp_memory.errors.SMPError):
            continue
        assert re.search(rf"\b{name}\b", drawing), f"{name} is not drawn"
        own = "code" in vars(kind)
        assert own, f"{name} has no code of its own"
        assert kind.code not in codes, f"{name} and {codes[kind.code]} share a code"
        assert kind.exit_code not in exits, f"{name} and {exits[kind.exit_code]} share an exit code"
        codes[kind.code], exits[kind.exit_code] = name, name
        if not any(
            issubclass(other, kind) and other is not kind
            for other in vars(smp_memory.errors).values()
            if inspect.isclass(other)
        ):
            assert kind.code in drawing, f"{kind.code} is not in the drawing"
        if kind.number:
            assert kind.number in drawing


def test_public_names_can_be_imported() -> None:
    for name in smp_memory.__all__:
        assert getattr(smp_memory, name) is not None
    for module in (
        "smp_memory.testing",
        "smp_memory.config.settings",
        "smp_memory.errors",
        "smp_memory.store.port",
        "smp_memory.files.layouts.layout",
    ):
        found = importlib.import_module(module)
        for name in getattr(found, "__all__", ()):
            assert getattr(found, name) is not None


BELOW_THE_PORT = ("store/", "files/", "index/", "git/", "testing/")


def test_layers_above_the_store_name_only_its_port_and_its_door() -> None:
    """Also in annotations, which import-linter does not see."""
    wrong = {}
    for path in MODULES:
        found = set(re.findall(r"from smp_memory(?:\.store(?:\.(\w+))? import| import store\b)", path.read_text()))
        found -= {"port", "opening"}
        if found and not name_of(path).startswith(BELOW_THE_PORT):
            wrong[name_of(path)] = found
    assert wrong == {}


def test_layers_above_the_store_name_no_index() -> None:
    """Also in annotations: a search index is known by its port, `search.port`."""
    found = re.compile(r"from smp_memory(?:\.index\b| import index\b)")
    above = [path for path in MODULES if not name_of(path).startswith(BELOW_THE_PORT)]
    assert [name_of(path) for path in above if found.search(path.read_text())] == []


def test_sql_is_only_in_the_index_in_the_database_backend_and_in_importers() -> None:
    found = re.compile(r"[\"'](?:SELECT|INSERT|UPDATE|DELETE FROM|PRAGMA) ")
    places = ("index/", "store/postgres/", "importers/")  # importers read databases of other programs
    assert [
        name_of(path) for path in MODULES if found.search(source(path)) and not name_of(path).startswith(places)
    ] == []


def test_numbers_of_the_index_stay_in_it() -> None:
    """Nothing else computes with the numbers of memories: a candidate has its session and its position."""
    outside = [path for path in MODULES if not name_of(path).startswith("index/")]
    assert [name_of(path) for path in outside if "POSITION_BITS" in source(path) or "doc >>" in source(path)] == []


def test_no_module_has_a_meaningless_name() -> None:
    words = {"utils", "util", "helpers", "helper", "common", "base", "handler", "service", "misc"}
    assert [name_of(path) for path in MODULES if path.stem in words] == []


# Modules that still import each other in annotations. The list only becomes shorter.
IN_CYCLES = {
    "agents.agent_memory", "agents.party", "global_memory", "memory", "session", "store.file_session", "store.file_store",
}  # fmt: skip


def test_modules_do_not_import_each_other_in_cycles() -> None:
    in_cycles = {module for group in house.cycles(house.TOP, house.ANNOTATION) for module in group}
    assert in_cycles - IN_CYCLES == set()


# Both counts only become smaller: whoever removes some lowers the number. `python benchmarks/house.py --list late` shows them.
LATE_IMPORTS_INSIDE_PACKAGES = 38
MODULES_IN_CYCLES = 0  # late imports included


def test_number_of_late_imports_inside_packages_does_not_grow() -> None:
    late = house.late_imports_inside_packages()
    assert len(late) <= LATE_IMPORTS_INSIDE_PACKAGES, [f"{each.module}:{each.line} {each.target}" for each in late]


def test_number_of_modules_in_cycles_with_late_imports_does_not_grow() -> None:
    assert sum(map(len, house.cycles())) <= MODULES_IN_CYCLES, house.cycles()
