"""Writes src/smp_memory/aio/__init__.pyi, the types of the classes for asyncio, from the sources: `python docs/make_aio_stub.py`.

A method has the signature of the method that it delegates to, with the classes for asyncio in place of the others. What
`smp_memory/aio/faces.py` defines itself has the annotations that it has there. `tests/unit/aio/test_types.py` fails when the file is out of date.
"""

from __future__ import annotations

import ast
import builtins
import inspect
import os
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(os.path.dirname(HERE), "src"))  # the code beside these docs, installed or not

from smp_memory import aio, memory  # noqa: E402
from smp_memory.aio import faces  # noqa: E402

PATH = os.path.join(os.path.dirname(HERE), "src", "smp_memory", "aio", "__init__.pyi")
_NOTE = "# Made by docs/make_aio_stub.py from the code. Do not edit.\n"
_FACES = {sync: face for sync, face in faces.FACES.items() if face.__name__ in aio.__all__}
_NAMES = {sync.__name__: face.__name__ for sync, face in _FACES.items()}
_FOREIGN = {"AsyncWatch": faces.AsyncWatch, "Opening": faces.Opening}


class Module:
    """The source of a module: its classes, its functions, and where the names in its annotations come from."""

    def __init__(self, name: str) -> None:
        self.name = name
        module = sys.modules[name]
        self.tree = ast.parse(inspect.getsource(module))
        self.imports: dict[str, str] = {}
        for node in ast.walk(self.tree):
            if isinstance(node, ast.Import):
                self.imports |= {each.asname or each.name: f"import {each.name}" for each in node.names}
            elif isinstance(node, ast.ImportFrom):
                self.imports |= {each.name: f"from {node.module} import {each.name}" for each in node.names}

    def functions(self, kind: str | None) -> dict[str, ast.FunctionDef | ast.AsyncFunctionDef]:
        """The functions of a class, or of the module."""
        bodies = [node.body for node in self.tree.body if isinstance(node, ast.ClassDef) and node.name == kind]
        body = bodies[0] if kind is not None else self.tree.body
        return {node.name: node for node in body if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)}


class Stub:
    """The lines of the stub, and the imports that they need."""

    def __init__(self) -> None:
        self.imports: set[str] = set()
        self._modules: dict[str, Module] = {}

    def module(self, name: str) -> Module:
        if name not in self._modules:
            self._modules[name] = Module(name)
        return self._modules[name]

    def text(self) -> str:
        bodies = [self._opening()]
        bodies += ["\n".join(self._face(sync, face)) for sync, face in _FACES.items()]
        bodies += ["\n".join(self._own(face)) for face in _FOREIGN.values()]
        head = [
            _NOTE,
            *sorted(self.imports),
            "from smp_memory.aio.faces import call as call",
            f"__all__ = {aio.__all__}",
        ]
        return _formatted("\n".join([*head, *bodies]))

    def _opening(self) -> str:
        node = self.module(memory.__name__).functions(None)[memory.open_memory.__name__]
        node.name, node.returns = "open", ast.Name("Opening")
        return self._function(node, self.module(memory.__name__))

    # -- classes

    def _face(self, sync: type, face: type) -> Iterator[str]:
        """A class that delegates: values, then the methods in the order of the source, then what only the face has."""
        yield f"class {face.__name__}:"
        yield _indented(f'"""{_first_line(face)}"""')
        source = self.module(face.__module__)
        for name, annotation in face.__annotations__.items():
            yield _indented(f"@property\ndef {name}(self) -> {self._checked(ast.parse(annotation), source)}: ...")
        yield _indented(f"@property\ndef blocking(self) -> {sync.__name__}: ...")
        self.imports.add(f"from {sync.__module__} import {sync.__name__}")
        for kind in sync.__mro__[:-1]:
            module = self.module(kind.__module__)
            for name, node in module.functions(kind.__name__).items():
                member = vars(face).get(name)
                if inspect.isfunction(member) and not name.startswith("_") and kind is _home(sync, name):
                    yield _indented(self._delegating(node, member, module))
        yield from self._specials(face)

    def _delegating(self, node: Any, member: Any, module: Module) -> str:
        """A method of the sync class; one that the face defines itself may return something else, at once."""
        node.decorator_list = []
        if inspect.iscoroutinefunction(member):
            node = ast.AsyncFunctionDef(**{field: getattr(node, field) for field in node._fields})
        else:
            node.returns = ast.parse(member.__annotations__["return"], mode="eval").body
        return self._function(node, module)

    def _own(self, face: type) -> Iterator[str]:
        yield f"class {face.__name__}:"
        yield _indented(f'"""{_first_line(face)}"""')
        yield from self._specials(face)

    def _specials(self, face: type) -> Iterator[str]:
        """Context managers and iterators, as the face defines them."""
        for name, member in vars(face).items():
            if name.startswith("__") and name != "__init__" and inspect.isfunction(member):
                home, _, _ = member.__qualname__.partition(".")
                node = self.module(face.__module__).functions(home)[name]
                if inspect.isasyncgenfunction(member):
                    node = ast.FunctionDef(**{field: getattr(node, field) for field in node._fields})
                yield _indented(self._function(node, self.module(face.__module__)))

    # -- functions

    def _function(self, node: Any, module: Module) -> str:
        doc = ast.get_docstring(node)
        node.body = [ast.Expr(ast.Constant(doc.splitlines()[0] if doc else ...))]
        given = node.args
        given.defaults = [_default(each) for each in given.defaults]
        given.kw_defaults = [each and _default(each) for each in given.kw_defaults]
        return self._checked(node, module)

    def _checked(self, node: ast.AST, module: Module) -> str:
        """The source of a node, with the classes for asyncio; the names that it uses are imported."""
        for each in ast.walk(node):
            if isinstance(each, ast.Name):
                each.id = _NAMES.get(each.id, each.id)
                if each.id in module.imports:
                    self.imports.add(module.imports[each.id])
                elif not hasattr(builtins, each.id) and each.id not in {*_NAMES.values(), *_FOREIGN}:
                    self.imports.add(f"from {module.name} import {each.id}")
        return ast.unparse(ast.fix_missing_locations(node))


def _default(node: ast.expr) -> ast.expr:
    """A default of a parameter; the name of a constant says nothing in a stub."""
    return ast.Constant(...) if isinstance(node, ast.Name) else node


def _home(sync: type, name: str) -> type:
    return next(kind for kind in sync.__mro__ if name in vars(kind))


def _first_line(face: type) -> str:
    return (inspect.getdoc(face) or "").splitlines()[0]


def _indented(text: str) -> str:
    return "".join(f"    {line}\n" for line in text.splitlines())


def _formatted(text: str) -> str:
    for command in (["check", "--select=I", "--fix", "--exit-zero", "--quiet"], ["format", "--quiet"]):
        called = [sys.executable, "-m", "ruff", *command, f"--stdin-filename={PATH}", "-"]
        text = subprocess.run(called, input=text, capture_output=True, text=True, check=True).stdout
    return text


def stub() -> str:
    return Stub().text()


if __name__ == "__main__":
    made = stub()
    with open(PATH, "w", encoding="utf-8", newline="\n") as file:
        file.write(made)
