"""Writes docs/reference/ and docs/decisions.md from the code and the records: `python docs/make_reference.py`.

- `reference/api.md`: every public class and method with signature and docstring, by introspection;
- `decisions.md`: the list of the architecture decision records.

`tests/test_docs.py` fails when one of them is out of date.
"""

from __future__ import annotations

import inspect
import os
import re
import sys
from collections.abc import Callable, Iterator
from typing import Any

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(os.path.dirname(HERE), "src"))  # the code beside these docs, installed or not

import smp_memory  # noqa: E402
from smp_memory import errors  # noqa: E402
from smp_memory.global_memory import GlobalMemory  # noqa: E402
from smp_memory.model import options  # noqa: E402
from smp_memory.model.candidates import Hit, Hits  # noqa: E402
from smp_memory.model.record import Records  # noqa: E402
from smp_memory.search.records import Snapshot  # noqa: E402

_NOTE = "<!-- Made by docs/make_reference.py from the code. Do not edit. -->\n"

# -- the API

_CLASSES: list[tuple[type, str]] = [
    (smp_memory.Memory, "A store"),
    (smp_memory.SessionMemory, "A session"),
    (smp_memory.Transaction, "Several writes at once"),
    (smp_memory.Record, "A memory"),
    (Records, "A list of memories"),
    (Hits, "The answer to a query"),
    (Hit, "One search result"),
    (Snapshot, "A session at a time in the past"),
    (smp_memory.Context, "Memories for a prompt"),
    (smp_memory.AgentMemory, "A session as one agent sees it"),
    (GlobalMemory, "What holds in all sessions"),
    (smp_memory.Party, "Several agents in one session"),
    (smp_memory.Workflow, "Memory declarations of a workflow"),
    (smp_memory.ContextManager, "MACP"),
    (smp_memory.Placeholders, "Names replaced in exports"),
]
_OPTIONS = ["QueryOptions", "Criteria", "CommonFields", "TurnFields", "DecisionFields", "FindingFields", "PreferenceFields", "ArtifactFields", "LearningFields"]  # fmt: skip
_FALLBACK = (smp_memory.SessionMemory, smp_memory.Memory)  # an agent's methods are those of a session


def api_page() -> str:
    """Every public class: docstring, then each method with signature and docstring."""
    parts = [
        "# Python reference\n",
        _NOTE,
        "Signatures and docstrings, from the code. [api.md](../api.md) explains them by task, with an example of each.\n",
        " · ".join(f"[{kind.__name__}](#{kind.__name__.lower()})" for kind, _ in _CLASSES)
        + " · [Options and fields](#options-and-fields) · [Errors](#errors)\n",
        "## smp_memory.open\n",
        *_member("smp_memory.open", smp_memory.open),
    ]
    for kind, what in _CLASSES:
        parts += [f"## {kind.__name__}\n", f"{_text(inspect.getdoc(kind) or f'{what}.')}\n"]
        for name, member in _members(kind):
            parts += [f"### {kind.__name__}.{name}\n", *_member(name, member)]
    parts += ["## Options and fields\n", "What `**options` and `**fields` of the methods above take.\n"]
    for name in _OPTIONS:
        parts += _typed_dict(name)
    parts += [
        "## Errors\n",
        "When each is raised: [api.md](../api.md#errors).\n",
        "```text",
        *_error_tree(errors.SMPError, 0),
        "```\n",
    ]
    return "\n".join(parts).rstrip() + "\n"


def _members(kind: type) -> Iterator[tuple[str, Any]]:
    """Public methods and properties of SMP's own classes, in the order of the source."""
    seen: set[str] = set()
    for each in kind.__mro__:
        if not each.__module__.startswith("smp_memory"):
            continue
        for name, member in vars(each).items():
            if name.startswith("_") or name in seen:
                continue
            seen.add(name)
            if isinstance(member, property | classmethod | staticmethod) or inspect.isfunction(member):
                yield name, member


def _member(name: str, member: Any) -> list[str]:
    function = member.fget if isinstance(member, property) else inspect.unwrap(getattr(member, "__func__", member))
    text = inspect.getdoc(function) or next((doc for doc in _inherited(name) if doc), "")
    if isinstance(member, property):
        shown = f"{name}: {_plain(inspect.signature(function).return_annotation)}"
    else:
        shown = _signature(name, function)
    return [f"```text\n{shown}\n```\n", *_paragraphs(text)]


def _inherited(name: str) -> Iterator[str]:
    for kind in _FALLBACK:
        if text := inspect.getdoc(getattr(kind, name, None)):
            yield f"As `{kind.__name__}.{name}`: {text[:1].lower()}{text[1:]}" if not text.startswith("`") else text


def _signature(name: str, function: Callable[..., Any]) -> str:
    signature = inspect.signature(function)
    parameters = [each for each in signature.parameters.values() if each.name not in ("self", "cls")]
    shown: list[str] = []
    star = False
    for each in parameters:
        if each.kind is each.KEYWORD_ONLY and not star:
            star = True
            shown.append("*")
        star = star or each.kind is each.VAR_POSITIONAL
        shown.append(_parameter(each))
    answer = _plain(signature.return_annotation)
    line = f"{name}({', '.join(shown)}) -> {answer}"
    if len(line) <= 100:
        return line
    return f"{name}(\n" + "".join(f"    {each},\n" for each in shown) + f") -> {answer}"


def _parameter(each: inspect.Parameter) -> str:
    name = {each.VAR_POSITIONAL: "*", each.VAR_KEYWORD: "**"}.get(each.kind, "") + each.name
    typed = f"{name}: {_plain(each.annotation)}" if each.annotation is not each.empty else name
    return typed if each.default is each.empty else f"{typed} = {each.default!r}"


def _plain(annotation: Any) -> str:
    text = annotation if isinstance(annotation, str) else getattr(annotation, "__name__", str(annotation))
    return "None" if text in ("NoneType", "_empty") else re.sub(r"Unpack\[(\w+)\]", r"\1", text)


def _typed_dict(name: str) -> Iterator[str]:
    kind = getattr(options, name)
    yield f"### {name}\n"
    if kind.__doc__:
        yield f"{_text(inspect.cleandoc(kind.__doc__))}\n"
    yield "| name | type | meaning |\n|---|---|---|"
    inherited = (
        set(options.CommonFields.__annotations__) if name.endswith("Fields") and name != "CommonFields" else set()
    )
    comments = _comments(name)
    for field, annotation in kind.__annotations__.items():
        if field not in inherited:
            yield f"| `{field}` | `{_cell(getattr(annotation, '__forward_arg__', str(annotation)))}` | {_cell(comments.get(field, ''))} |"
    if inherited:
        yield "\nand those of [CommonFields](#commonfields)."
    yield ""


def _comments(name: str) -> dict[str, str]:
    """What the source says behind the fields of a class and of those that it inherits from."""
    found = re.search(
        rf"^class {name}\((\w+)[^)]*\):\n((?:    .*\n|\n(?=    ))*)", inspect.getsource(options), re.MULTILINE
    )
    if found is None:  # TypedDict itself
        return {}
    return {**_comments(found[1]), **dict(re.findall(r"^    (\w+): [^#\n]+# (.+)$", found[2], re.MULTILINE))}


def _error_tree(kind: type[errors.SMPError], depth: int) -> Iterator[str]:
    yield f"{'  ' * depth}{kind.__name__}  {kind.code}"
    for child in kind.__subclasses__():
        if child.__module__ == errors.__name__:
            yield from _error_tree(child, depth + 1)


# -- decisions


def decisions_page() -> str:
    folder = os.path.join(HERE, "adr")
    lines = ["# Decisions\n", _NOTE, "What was decided, why, and what was turned down. One record each.\n"]
    for name in sorted(os.listdir(folder)):
        with open(os.path.join(folder, name), encoding="utf-8") as file:
            title = file.readline().removeprefix("# ").strip()
        lines.append(f"- [{title}](adr/{name})")
    return "\n".join(lines) + "\n"


# -- text


def _text(text: str) -> str:
    """Prose of a docstring as Markdown: text that would be taken for HTML is escaped."""
    return re.sub(r"<(?=[A-Za-z/!])", "&lt;", text)


def _paragraphs(text: str) -> Iterator[str]:
    """Paragraphs that have columns are shown as they are, as in `--help`."""
    for paragraph in filter(None, text.split("\n\n")):
        yield f"```text\n{paragraph}\n```\n" if "  " in paragraph else f"{_text(paragraph)}\n"


def _cell(text: str) -> str:
    return _text(text).replace("|", "\\|").replace("\n", " ")


PAGES: dict[str, Callable[[], str]] = {
    "docs/reference/api.md": api_page,
    "docs/decisions.md": decisions_page,
}


def main() -> None:
    for name, page in PAGES.items():
        path = os.path.join(os.path.dirname(HERE), name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w", encoding="utf-8", newline="\n") as file:
            file.write(page())
        sys.stdout.write(f"{name}: written\n")


if __name__ == "__main__":
    main()
