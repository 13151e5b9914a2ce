"""Measure the structure of the code: ports, imports, modules on the way of a call, sizes. Takes a few seconds.

    python benchmarks/house.py [--json] [--list FIGURE]

`--json` prints every figure for programs; `--list` prints what a figure counts (`late`, `cycles`, `index`, `docs`, `single`,
`short`, `longest`, `way`). Definitions:

operations      methods and properties of the protocols in `store/port.py` and `search/port.py`.
index imports   modules of `index` that a module above the store imports; late imports and annotations count.
docs            lines outside of `index/` that compute with document numbers.
way             modules of smp_memory with a function that runs during the call; warm, in the calling thread.
port calls      calls of functions of `store/` and `index/` by functions of `search/`; a generator counts once.
importers       modules that import a module: at the top, late or for annotations. A door that loads its modules by name is an importer.
lines of code   lines with a token that is neither a comment nor part of a docstring.
late imports    imports inside functions of modules of the same package (the root is none), those of DOORS excepted; pairs: each
                module and what it imports, once. What a package loads by its door (`door(…)` in its `__init__`) is not counted.
cycles          groups of modules that import each other at run time, late imports included; doors of packages are not followed.
"""

from __future__ import annotations

import argparse
import ast
import io
import json
import os
import re
import sys
import tempfile
import tokenize
from collections import Counter
from functools import cache
from pathlib import Path

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from types import CodeType, FrameType
    from typing import Any, NamedTuple
else:
    from typing import NamedTuple

PACKAGE = "smp_memory"
SOURCE = Path(__file__).resolve().parents[1] / "src" / PACKAGE
PORTS = ("store/port.py", "search/port.py")
# Not above the store: the store itself, and what it is made of.
BELOW_THE_STORE = {"store", "index", "files", "git", "text", "model", "testing"}
# Modules whose late imports are their purpose: each loads one of its neighbours when a user asks for it.
DOORS: frozenset[str] = frozenset({"cli.main", "integrations.hooks.entry_point", "integrations.mcp.transport"})
SHORT = 30
ONE_WORD, FIVE_WORDS = "invoices", "invoices printed recycled paper house"
TOP, LATE, ANNOTATION = "top", "late", "annotation"


class Import(NamedTuple):
    module: str  # the importing module, without the name of the package
    target: str
    when: str  # top, late or annotation
    line: int


# ---- source ----------------------------------------------------------------------------------------------------------


@cache
def modules() -> dict[str, Path]:
    """Every module by its dotted name without `smp_memory.`; the package itself is ''."""
    found = {}
    for path in sorted(SOURCE.rglob("*.py")):
        parts = path.relative_to(SOURCE).with_suffix("").parts
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


@cache
def source(name: str) -> str:
    return modules()[name].read_text("utf-8")


@cache
def tree(name: str) -> ast.Module:
    return ast.parse(source(name))


def package_of(name: str) -> str:
    """The top-level package of a module; '' for a module of the root."""
    first, dot, _ = name.partition(".")
    return first if dot or modules()[name].name == "__init__.py" else ""


@cache
def code_lines(name: str) -> frozenset[int]:
    """Numbers of the lines of code: without blank lines, comments and docstrings."""
    quiet = {tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER}
    lines: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(source(name)).readline):
        if token.type not in quiet:
            lines.update(range(token.start[0], token.end[0] + 1))
    for node in ast.walk(tree(name)):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            lines.difference_update(range(node.lineno, (node.end_lineno or node.lineno) + 1))
    return frozenset(lines)


def function_lengths() -> dict[str, int]:
    """Lines of code of every function, with its signature and the functions inside it."""
    found = {}
    for name in modules():
        lines = code_lines(name)
        for node in ast.walk(tree(name)):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                length = sum(line in lines for line in range(node.lineno, (node.end_lineno or node.lineno) + 1))
                found[f"{name}:{node.lineno} {node.name}"] = length
    return found


# ---- imports ---------------------------------------------------------------------------------------------------------


@cache
def imports() -> tuple[Import, ...]:
    """Every import of a module of the package by another one."""
    return tuple(each for name in modules() for each in dict.fromkeys(_imports_of(name)) if each.target != name)


def _imports_of(name: str) -> Iterator[Import]:
    for node, when in _import_nodes(tree(name), TOP):
        for target in _targets(node):
            yield Import(name, target, when, node.lineno)


def _import_nodes(node: ast.AST, when: str) -> Iterator[tuple[ast.Import | ast.ImportFrom, str]]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.Import | ast.ImportFrom):
            yield child, when
        elif isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            yield from _import_nodes(child, LATE)
        elif isinstance(child, ast.If) and "TYPE_CHECKING" in ast.unparse(child.test):
            for each in child.body:
                yield from _import_nodes(ast.Module([each], []), ANNOTATION)
            for each in child.orelse:
                yield from _import_nodes(ast.Module([each], []), when)
        else:
            yield from _import_nodes(child, when)


def _targets(node: ast.Import | ast.ImportFrom) -> Iterator[str]:
    if isinstance(node, ast.Import):
        names = [alias.name for alias in node.names]
    else:
        names = [f"{node.module}.{alias.name}" for alias in node.names]
    for full in names:
        outer, _, name = full.partition(".")
        if outer == PACKAGE:
            yield name if name in modules() else name.rpartition(".")[0]


def late_imports_inside_packages() -> list[Import]:
    """Imports inside functions, of modules of the same top-level package."""
    return [
        each
        for each in imports()
        if each.when == LATE and each.module not in DOORS and package_of(each.module) == package_of(each.target) != ""
    ]


def cycles(*kinds: str) -> list[list[str]]:
    """Groups of modules that import each other, the largest first; at run time, late imports included, unless kinds are given."""
    graph: dict[str, set[str]] = {name: set() for name in modules()}
    for each in imports():
        is_door = modules()[each.module].name == "__init__.py" and each.when == ANNOTATION
        if each.when in (kinds or (TOP, LATE)) and not is_door:
            graph[each.module].add(each.target)
    return sorted((sorted(group) for group in _components(graph) if len(group) > 1), key=len, reverse=True)


def _components(graph: dict[str, set[str]]) -> list[set[str]]:
    """Strongly connected components, by what each node reaches and is reached by."""
    reached = {name: _reachable(name, graph) for name in graph}
    done: set[str] = set()
    found = []
    for name in graph:
        if name not in done:
            group = {name} | {other for other in reached[name] if name in reached[other]}
            done |= group
            found.append(group)
    return found


def _reachable(name: str, graph: dict[str, set[str]]) -> set[str]:
    found: set[str] = set()
    waiting = list(graph[name])
    while waiting:
        other = waiting.pop()
        if other not in found:
            found.add(other)
            waiting += graph[other]
    return found


def index_imports() -> list[Import]:
    """Imports of `index` above the store, annotations and late ones included."""
    return [
        each
        for each in imports()
        if package_of(each.target) == "index" and package_of(each.module) not in BELOW_THE_STORE
    ]


def importers() -> Counter[str]:
    """How many modules import each module. Package modules are no parts of their own."""
    pairs = {(each.module, each.target) for each in imports()}
    found = Counter(target for _, target in pairs)
    return Counter({name: found[name] for name, path in modules().items() if path.name != "__init__.py"})


# ---- ports -----------------------------------------------------------------------------------------------------------


def port_operations() -> dict[str, dict[str, bool]]:
    """The operations of each protocol of the ports, each with whether it is a method and not a property."""
    found = {}
    for file in PORTS:
        name = file.removesuffix(".py").replace("/", ".")
        for node in tree(name).body if name in modules() else ():
            if isinstance(node, ast.ClassDef) and any("Protocol" in ast.unparse(base) for base in node.bases):
                found[f"{name.partition('.')[0]}.{node.name}"] = dict(_operations(node))
    return found


def _operations(node: ast.ClassDef) -> Iterator[tuple[str, bool]]:
    for each in node.body:
        if isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef):
            yield each.name, "property" not in map(ast.unparse, each.decorator_list)
        elif isinstance(each, ast.AnnAssign) and isinstance(each.target, ast.Name):
            yield each.target.id, False


_SHIFTS = {"POSITION_BITS", "SESSION_SHIFT"}
_IN_TEXT = re.compile(r"(<<|>>) ?24\b")


def document_arithmetic() -> list[str]:
    """Lines outside of `index/` that compute with document numbers, in Python or in SQL."""
    found: dict[str, None] = {}
    for name in modules():
        if package_of(name) != "index":
            for node in ast.walk(tree(name)):
                if _computes_with_documents(node):
                    found[f"{name}:{node.lineno}"] = None  # type: ignore[attr-defined]
    return list(found)


def _computes_with_documents(node: ast.AST) -> bool:
    if isinstance(node, ast.Name):
        return node.id in _SHIFTS
    if isinstance(node, ast.Constant):
        return isinstance(node.value, str) and "doc" in node.value and bool(_IN_TEXT.search(node.value))
    if not isinstance(node, ast.BinOp):
        return False
    if isinstance(node.op, ast.LShift | ast.RShift):
        return isinstance(node.right, ast.Constant) and node.right.value == 24
    if isinstance(node.op, ast.Add | ast.Sub):
        left = node.left.attr if isinstance(node.left, ast.Attribute) else getattr(node.left, "id", "")
        return left == "doc" and isinstance(node.right, ast.Constant)
    return False


# ---- ways ------------------------------------------------------------------------------------------------------------


class Trace:
    """Which functions run during a call, in this thread."""

    def __init__(self) -> None:
        self.codes: set[CodeType] = set()
        self.calls: Counter[tuple[str, str]] = Counter()  # (file of the caller, file of the function)
        self._generators: dict[int, FrameType] = {}

    def __call__(self, frame: FrameType, event: str, argument: object) -> None:
        if event != "call" or frame.f_code.co_name == "<module>":
            return
        self.codes.add(frame.f_code)
        if frame.f_code.co_flags & 0x20:  # a generator: only its start
            if self._generators.get(id(frame)) is frame:
                return
            self._generators[id(frame)] = frame
        if frame.f_back is not None:
            self.calls[frame.f_back.f_code.co_filename, frame.f_code.co_filename] += 1

    def modules(self) -> list[str]:
        """The modules of the package in which something ran."""
        files = {str(path): name for name, path in modules().items()}
        return sorted({files[code.co_filename] for code in self.codes if code.co_filename in files})

    def between(self, outer: str, inner: Iterable[str]) -> int:
        """Calls from functions of one package to functions of others."""
        files = {str(path): package_of(name) for name, path in modules().items()}
        wanted = set(inner)
        return sum(
            count
            for (caller, called), count in self.calls.items()
            if files.get(caller) == outer and files.get(called) in wanted
        )


def traced(call: Callable[[], Any]) -> Trace:
    """Run it three times; the last run, which finds everything loaded and cached, is traced."""
    for _ in range(2):
        call()
    trace = Trace()
    sys.setprofile(trace)
    try:
        call()
    finally:
        sys.setprofile(None)
    return trace


def ways() -> dict[str, Trace]:
    """The ways of a write, of two queries and of a prompt, on a small store of its own."""
    with tempfile.TemporaryDirectory(prefix=".smp-house-", ignore_cleanup_errors=True) as folder:
        os.environ.update(SMP_STATE_DIR=os.path.join(folder, "state"), SMP_ROOT=os.path.join(folder, "memory"))
        return _traces(folder)


def _traces(folder: str) -> dict[str, Trace]:
    import smp_memory

    with smp_memory.open(os.environ["SMP_ROOT"]) as memory:
        session = memory.create_session("before")
        for number in range(60):
            session.add_decision(f"House {number} gets another lift", rationale="The old one is out of order")
            session.add_finding(f"The lift of house {number} is out of order", severity="critical")
        session.add_decision("Invoices are printed on recycled paper in every house", rationale="The printer takes it")
        found = {
            "add_decision": traced(lambda: session.add_decision("Another house", rationale="There is room")),
            "query, one word": traced(lambda: memory.query(ONE_WORD)),
            "query, five words": traced(lambda: memory.query(FIVE_WORDS)),
        }
    found["hook prompt"] = _traced_prompt(folder, to_the_end=False)
    found["hook prompt, with recording"] = _traced_prompt(folder, to_the_end=True)
    return found


def _traced_prompt(folder: str, *, to_the_end: bool) -> Trace:
    """`smp hook` at a prompt, in this process. The recording behind the answer is part of it or left out."""
    from smp_memory.integrations.hooks import entry_point

    numbers = iter(range(10))

    def prompt() -> None:
        number = f"house-{to_the_end}-{next(numbers)}"
        event = {"hook_event_name": "UserPromptSubmit", "session_id": number, "prompt_id": number, "cwd": folder}
        _give_input({**event, "prompt": "Which paper are the invoices printed on?", "transcript_path": None})
        entry_point.main(["--client=claude-code", *(["--wait"] if to_the_end else [])])

    saved = os._exit, os.fork, sys.stdout, os.dup(0)
    os._exit = lambda code: None  # type: ignore[assignment, return-value]
    os.fork = lambda: 1  # the parent of a child that does not exist
    sys.stdout = io.TextIOWrapper(io.BytesIO())
    try:
        trace = traced(prompt)
        if b"recycled" not in sys.stdout.buffer.getvalue():
            raise RuntimeError("The prompt was not answered.")
        return trace
    finally:
        os._exit, os.fork, sys.stdout = saved[:3]
        os.dup2(saved[3], 0)
        os.close(saved[3])


def _give_input(event: dict[str, object]) -> None:
    with tempfile.TemporaryFile() as file:
        file.write(json.dumps(event).encode())
        file.seek(0)
        os.dup2(file.fileno(), 0)


# ---- the table -------------------------------------------------------------------------------------------------------


def figures() -> dict[str, Any]:
    """Every figure of the table."""
    operations, docs = port_operations(), document_arithmetic()
    sizes = {name: len(code_lines(name)) for name in modules()}
    lengths = sorted(function_lengths().values())
    traces = ways()
    return {
        "operations": {
            "total": sum(map(len, operations.values())),
            "of them methods": sum(sum(each.values()) for each in operations.values()),
            **{name: len(each) for name, each in operations.items()},
        },
        "index imports above the store": len(index_imports()),
        "document numbers outside index": {"lines": len(docs), "packages": sorted({_first(each) for each in docs})},
        "way": {name: len(trace.modules()) for name, trace in traces.items()},
        "port calls": {
            name: trace.between("search", ("store", "index")) for name, trace in traces.items() if "query" in name
        },
        "modules": len(sizes),
        "with one importer": len(single_importer()),
        "under 30 lines": sum(size < SHORT for size in sizes.values()),
        "lines of code": sum(sizes.values()),
        "late imports inside a package": dict(
            total=len(late := late_imports_inside_packages()),
            pairs=len({(each.module, each.target) for each in late}),
            **Counter(package_of(each.module) for each in late),
        ),
        "cycles": [len(group) for group in cycles()],
        "function lines": {
            name: lengths[min(len(lengths) - 1, int(len(lengths) * part))]
            for name, part in (("p50", 0.5), ("p90", 0.9), ("p99", 0.99), ("max", 1.0))
        },
    }


def _first(place: str) -> str:
    name = place.partition(":")[0]
    return package_of(name) or name


def single_importer() -> list[str]:
    return [name for name, count in importers().items() if count == 1]


def table(found: dict[str, Any]) -> Iterator[str]:
    for name, value in found.items():
        if isinstance(value, dict):
            text = ", ".join(f"{key} {_text(each)}" for key, each in value.items())
        else:
            text = _text(value)
        yield f"| {name} | {text} |"


def _text(value: object) -> str:
    if isinstance(value, list):
        return f"{len(value)} ({', '.join(map(str, value))})" if value else "0"
    return f"{value:,}" if isinstance(value, int) else str(value)


def listing(which: str) -> Iterator[str]:
    if which in {"late", "index"}:
        for each in late_imports_inside_packages() if which == "late" else index_imports():
            yield f"{each.module}:{each.line} {each.target} ({each.when})"
    elif which == "cycles":
        yield from (" ".join(group) for group in cycles())
    elif which == "docs":
        yield from document_arithmetic()
    elif which == "single":
        yield from single_importer()
    elif which == "short":
        yield from (name or PACKAGE for name in modules() if len(code_lines(name)) < SHORT)
    elif which == "longest":
        lengths = function_lengths()
        yield from (f"{lengths[name]:4} {name}" for name in sorted(lengths, key=lengths.__getitem__)[:-41:-1])
    else:
        for name, trace in ways().items():
            yield f"{name}: {' '.join(trace.modules())}"


def main(words: list[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true", help="for programs")
    names = ["late", "cycles", "index", "docs", "single", "short", "longest", "way"]
    parser.add_argument("--list", choices=names, metavar="FIGURE", help=f"what a figure counts: {', '.join(names)}")
    chosen = parser.parse_args(words)
    if chosen.list:
        print("\n".join(listing(chosen.list)))
        return 0
    found = figures()
    print(json.dumps(found, indent=2) if chosen.json else "\n".join(["| | measured |", "|---|---|", *table(found)]))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
