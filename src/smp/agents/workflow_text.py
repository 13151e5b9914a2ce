"""What stands in a workflow file, and on which line? YAML, or the front matter or a YAML block of a Markdown file.

Guarantees: nothing of the file is run; only texts, lists and mappings are read, each scalar with its line. A file that is
too large, or not YAML, is an `InvalidFormat` with file and line.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, NamedTuple

from smp.errors import InvalidFormat, from_os_error
from smp.files.yaml_list import yaml_library

if TYPE_CHECKING:
    from collections.abc import Iterator

LIMIT_BYTES = 1 << 20
_MOST_NODES = 50_000
_FENCES = ("```yaml", "```yml", "~~~yaml", "~~~yml")


class Said(NamedTuple):
    """A text and the line it stands on."""

    text: str
    line: int


class Text(NamedTuple):
    content: str
    path: str


def read(source: str | os.PathLike[str]) -> Text:
    """A file, or the text itself: a text has more than one line, or a colon and no such file."""
    if isinstance(source, str) and ("\n" in source or (not os.path.exists(source) and ": " in source)):
        return Text(source, "the workflow")
    path = os.fspath(source)
    try:
        with open(path, "rb") as file:
            data = file.read(LIMIT_BYTES + 1)
    except (FileNotFoundError, IsADirectoryError):
        raise InvalidFormat(f"{path}: there is no such file.", path=path) from None
    except OSError as error:
        raise from_os_error(error, path, "reading a workflow") from error
    if len(data) > LIMIT_BYTES:
        raise InvalidFormat(f"{path}: larger than {LIMIT_BYTES:,} bytes; that is no workflow.", path=path)
    try:
        return Text(data.decode("utf-8-sig"), path)
    except UnicodeDecodeError as error:
        raise InvalidFormat(f"{path}: not UTF-8 text (byte {error.start}).", path=path) from None


def parse(text: Text) -> Any:
    """The first part that says `memory_requirements`, else the first that is a mapping; {} if there is none."""
    first: Any = None
    for content, line in _parts(text.content):
        found = _composed(content, line, text.path)
        if isinstance(found, dict):
            if "memory_requirements" in content:
                return found
            first = found if first is None else first
    return first or {}


def _parts(content: str) -> Iterator[tuple[str, int]]:
    """The YAML in a file and the line before it: front matter, blocks, or all of it."""
    lines = content.splitlines()
    marked = False
    if lines and lines[0].strip() == "---":
        end = next((number for number, line in enumerate(lines[1:], 1) if line.strip() in ("---", "...")), len(lines))
        yield "\n".join(lines[1:end]), 1
        marked = end < len(lines)
    number = 0
    while number < len(lines):
        if lines[number].strip().lower().startswith(_FENCES):
            mark = lines[number].strip()[:3]
            start = number + 1
            end = next((at for at in range(start, len(lines)) if lines[at].strip().startswith(mark)), len(lines))
            yield "\n".join(lines[start:end]), start
            number, marked = end, True
        number += 1
    if not marked:
        yield content, 0


def _composed(content: str, line: int, path: str) -> Any:
    yaml = yaml_library()
    try:
        loader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
        node = yaml.compose(content, Loader=loader)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        at = line + (mark.line + 1 if mark is not None else 1)
        problem = getattr(error, "problem", None) or "not YAML"
        raise InvalidFormat(f"{path}:{at}: {problem}.", path=path, line=at) from None
    except RecursionError:
        raise InvalidFormat(f"{path}: nested too deeply.", path=path, line=line + 1) from None
    return _plain(node, line, path, [0], ())


def _plain(node: Any, line: int, path: str, count: list[int], above: tuple[int, ...]) -> Any:
    """Mappings, lists and texts with their lines; aliases may not be used to make much out of little."""
    count[0] += 1
    if count[0] > _MOST_NODES or len(above) > 60 or id(node) in above:
        raise InvalidFormat(f"{path}: too large or nested too deeply for a workflow.", path=path, line=line + 1)
    if node is None:
        return None
    kind = node.id
    within = (*above, id(node))
    if kind == "mapping":
        return {
            str(key.value): _plain(value, line, path, count, within)
            for key, value in node.value
            if isinstance(key.value, str)
        }
    if kind == "sequence":
        return [_plain(value, line, path, count, within) for value in node.value]
    return Said(str(node.value), line + node.start_mark.line + 1)
