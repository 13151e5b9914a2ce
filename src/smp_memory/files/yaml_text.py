"""Write JSON values as YAML text, and read them back.

Written form of a value, chosen so that PyYAML (YAML 1.1) and this reader see the same thing:
- text: plain where no YAML reader can take it for anything else; several lines as a literal block (`|`, `|-`, `|+`,
  with the indentation digit 2 when the first line is empty or starts with white space); otherwise quoted on one line,
  with JSON's escapes for what a literal block cannot hold (controls, CR, U+0085, U+2028, U+2029, U+FEFF, ...).
- ISO times such as 2026-01-11T14:30:05Z are plain: the one place where PyYAML's own loader would not give text.
- numbers, true, false, null as in JSON (floats always with a dot: `1.0e+22`); short lists of plain words as `[a, b]`.
- mappings and other lists in block style, two spaces per level; keys plain if they are plain words, else quoted.

Read form: YAML without surprises. Only true/false/null (also True, TRUE, Null, NULL, ~ and nothing at all) and numbers
in JSON's form mean something else than text: `yes`, `012`, `12:30:45`, `2026-01-11` are text. Keys are always text.

Guarantees: every JSON value of valid Unicode and at most `DEPTH_LIMIT` levels comes back equal and of equal type.
Reading uses no recursion, builds nothing but JSON values, and refuses anchors, aliases, tags, a key given twice,
numbers that are not finite and deeper nesting (`InvalidYaml`), so hostile files cannot crash or inflate a process.
Non-guarantees: comments inside an entry are not kept.
"""

from __future__ import annotations

import functools
import json
import math
import re
from types import ModuleType, SimpleNamespace

from smp_memory.errors import StorageError, install_command
from smp_memory.files.codec import Fields
from smp_memory.observe import telemetry

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

DEPTH_LIMIT = 32
_BOM = b"\xef\xbb\xbf"

# What must be escaped: control characters and those that YAML 1.1 treats as line breaks or marks. Classes are
# given by what they exclude: a class of wide ranges takes `re` ten milliseconds to compile, at every start.
_HIGH = "\u2028\u2029\ud800-\udfff\ufeff\ufffe\uffff"
_NOT_IN_BLOCK = re.compile(f"[\x00-\x08\x0b-\x1f\x7f-\x9f{_HIGH}]")
_NOT_IN_QUOTES = re.compile(f"[\x00-\x1f\x7f-\x9f{_HIGH}]")

# A letter first rules out every indicator, number and date; `: `, ` #` and edge blanks would end or change the text.
_LETTER = f"[A-Za-z_/]|[^\x00-\xa0{_HIGH}]"
_INNER = f"[^#:\x00-\x1f\x7f-\x9f{_HIGH}]"
_PLAIN = re.compile(f"(?:[(]|{_LETTER}|[0-9]+ [A-Za-z]){_INNER}*(?:(?::(?![ ]|\\Z)|(?<! )#){_INNER}*)*(?<! )")
_PLAIN_IN_LIST = re.compile(f"(?:{_LETTER})(?:{_LETTER}|[0-9.@+= -])*(?<! )")
_PLAIN_KEY = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]{0,100}")
_PLAIN_TIME = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}(?:\.[0-9]+)?Z")
_NOT_TEXT = frozenset(("y", "n", "yes", "no", "on", "off", "true", "false", "null"))  # YAML 1.1, in any case

_json = json.JSONEncoder(ensure_ascii=False)
_LIST_LINE_LIMIT = 100  # a longer list is written one element per line
_SIMPLE_KEY_LIMIT = 900  # YAML ends an ordinary key at 1,024 characters; longer ones need the `? key` form


# ------------------------------------------------------------------------------------------------------- writing
def emit_mapping(fields: Fields, indent: str = "", depth: int = 1) -> str:
    """A mapping, every line indented by `indent`, ending in a newline."""
    inner = indent + "  "
    lines = []
    for key, value in fields.items():
        name = _short_key(key) if len(key) < 64 else _long_key(key, indent)
        text = f" {_text(value, inner)}" if type(value) is str else _value(value, inner, depth)
        lines.append(f"{indent}{name}:{text}\n")
    return "".join(lines)


def _emit_list(values: list[Any] | tuple[Any, ...], indent: str, depth: int) -> str:
    inner = indent + "  "
    return "".join([f"{indent}-{_element(value, inner, depth)}\n" for value in values])


def _element(value: Any, inner: str, depth: int) -> str:
    """The text after the dash of a list element: containers start on the line of the dash."""
    if depth < DEPTH_LIMIT and isinstance(value, dict) and value:
        return " " + emit_mapping(value, inner, depth + 1)[len(inner) : -1]
    if depth < DEPTH_LIMIT and isinstance(value, (list, tuple)) and value and _list_on_one_line(value) is None:
        return " " + _emit_list(value, inner, depth + 1)[len(inner) : -1]
    return _value(value, inner, depth)


def _value(value: Any, inner: str, depth: int) -> str:
    """The text after a key's colon, without the last newline. `inner` is the indent of the lines below it."""
    kind = type(value)
    if kind is str:
        return " " + _text(value, inner)
    if value is None or kind is bool or kind is int or kind is float:
        return " " + _number_or_word(value)
    if depth >= DEPTH_LIMIT and isinstance(value, (dict, list, tuple)):
        raise ValueError(f"nested deeper than {DEPTH_LIMIT} levels")
    if isinstance(value, dict):
        return "\n" + emit_mapping(value, inner, depth + 1)[:-1] if value else " {}"
    if isinstance(value, (list, tuple)):
        on_one_line = _list_on_one_line(value)
        return " " + on_one_line if on_one_line is not None else "\n" + _emit_list(value, inner, depth + 1)[:-1]
    if isinstance(value, (str, int, float)):  # an enum or another subclass is written as its base type
        plain = next(base for base in (str, int, float) if isinstance(value, base))
        return _value(plain.__str__(value) if plain is str else plain(value), inner, depth)
    raise TypeError(f"{kind.__name__} is not a JSON value")


def _number_or_word(value: Any) -> str:
    if value is None:
        return "null"
    if value is True or value is False:
        return "true" if value else "false"
    if not isinstance(value, float):
        return int.__repr__(value)
    if not math.isfinite(value):
        raise ValueError("numbers must be finite")
    text = float.__repr__(value)
    return text if "." in text else text.replace("e", ".0e")  # YAML 1.1 takes 1e+22 for text


def _text(text: str, inner: str) -> str:
    if "\n" not in text and _PLAIN.fullmatch(text) and not (len(text) < 6 and text.lower() in _NOT_TEXT):
        return text
    if "\n" in text and text.strip("\n") and not _NOT_IN_BLOCK.search(text):
        return _literal_block(text, inner)
    if _PLAIN_TIME.fullmatch(text):
        return text
    if ('"' in text or "\\" in text) and "'" not in text and not _NOT_IN_QUOTES.search(text):
        return f"'{text}'"  # needs no escape
    return _quoted(text)


def _literal_block(text: str, inner: str) -> str:
    mark = "|"
    if text[0] in " \t\n":
        mark += "2"
    if text[-1] != "\n":
        mark += "-"
    else:
        if text[-2] == "\n":
            mark += "+"
        text = text[:-1]
    return mark + "\n" + "\n".join([inner + line if line else "" for line in text.split("\n")])


def _quoted(text: str) -> str:
    return _NOT_IN_QUOTES.sub(lambda found: f"\\u{ord(found[0]):04x}", _json.encode(text))


def _list_on_one_line(values: list[Any] | tuple[Any, ...]) -> str | None:
    """`[a, b]` for a short list of plain words and numbers, else None."""
    words = []
    for value in values:
        if type(value) is str:
            if len(value) > _LIST_LINE_LIMIT or not _is_plain_in_list(value):
                return None
            words.append(value)
        elif value is None or type(value) in (bool, int, float):
            words.append(_number_or_word(value))
        else:
            return None
    line = f"[{', '.join(words)}]"
    return line if len(line) <= _LIST_LINE_LIMIT else None


@functools.lru_cache(maxsize=1024)
def _is_plain_in_list(word: str) -> bool:
    return _PLAIN_IN_LIST.fullmatch(word) is not None and word.lower() not in _NOT_TEXT


def _long_key(key: str, indent: str) -> str:
    name = _quoted(key)
    return name if len(name) <= _SIMPLE_KEY_LIMIT else f"? {name}\n{indent}"


@functools.lru_cache(maxsize=1024)
def _short_key(key: str) -> str:
    return key if _PLAIN_KEY.fullmatch(key) and key.lower() not in _NOT_TEXT else _quoted(key)


# ------------------------------------------------------------------------------------------------------- reading
class InvalidYaml(ValueError):
    """The text is not YAML that SMP accepts; the message says why, for the person who edited it."""


_WORDS: dict[str, bool | None] = {
    **dict.fromkeys(("", "~", "null", "Null", "NULL")),
    **dict.fromkeys(("true", "True", "TRUE"), True),
    **dict.fromkeys(("false", "False", "FALSE"), False),
}
_INT = re.compile(r"-?(?:0|[1-9][0-9]*)")
_FLOAT = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][-+]?[0-9]+)?")
_NOT_FINITE = re.compile(r"[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN)")


def yaml_library() -> ModuleType:
    """PyYAML, loaded late because it costs 46 ms and writers never need it. Without it YAML files cannot be read."""
    try:
        import yaml
    except (ImportError, OSError) as error:
        raise StorageError(
            f"PyYAML cannot be loaded ({type(error).__name__}: {error}). YAML files and the markdown layout need it. "
            f"Nothing was changed. Install it: {install_command('PyYAML')}",
            library="PyYAML",
        ) from error
    return yaml


def load_value(data: bytes) -> Any:
    """The JSON value that a whole file holds; `ValueError` says what is wrong with it."""
    yaml = yaml_library()
    try:
        text = data.removeprefix(_BOM).replace(b"\r\n", b"\n").decode()
    except UnicodeDecodeError:
        raise InvalidYaml("not valid UTF-8") from None
    return read_value(text, yaml)


def load_mapping(data: bytes) -> Fields:
    """The mapping that a whole file holds; `ValueError` says what is wrong with it."""
    fields = load_value(data)
    if fields is not None and not isinstance(fields, dict):
        raise InvalidYaml("not a mapping of fields")
    return fields or {}


def read_item(text: str, yaml: ModuleType) -> Any:
    """The one element of the list that `text` holds, as a JSON value. `yaml` is PyYAML, which the caller imports."""
    items = read_value(text, yaml)
    if not isinstance(items, list) or len(items) != 1:
        raise InvalidYaml("not one list item")
    return items[0]


def read_value(text: str, yaml: ModuleType) -> Any:
    """The JSON value of a whole text; None if it is empty."""
    known = _events(yaml)
    parser = None
    try:
        parser = known.parser(text)  # this reads the first bytes already
        documents = _build(parser.get_event, known)
    except known.error as error:
        raise InvalidYaml(_error_reason(error)) from None
    finally:
        if parser is not None:
            parser.dispose()
    if len(documents) > 1:
        raise InvalidYaml("more than one document")
    return documents[0] if documents else None


@functools.lru_cache(maxsize=1)
def _events(yaml: ModuleType) -> SimpleNamespace:
    """The parser, in C if there is one, and its events."""
    if not hasattr(yaml, "CSafeLoader"):
        text = "PyYAML has no C parser here; YAML files are read by its Python parser, which is slower."
        telemetry.emit("storage", telemetry.INFO, "library_missing", text, library="libyaml")
    return SimpleNamespace(
        parser=getattr(yaml, "CSafeLoader", None) or yaml.SafeLoader,
        error=(yaml.YAMLError, UnicodeError),
        scalar=yaml.ScalarEvent,
        mapping=yaml.MappingStartEvent,
        nodes=(yaml.ScalarEvent, yaml.MappingStartEvent, yaml.SequenceStartEvent, yaml.AliasEvent),
        ends=(yaml.MappingEndEvent, yaml.SequenceEndEvent),
        stream_end=yaml.StreamEndEvent,
    )


def _build(next_event: Any, known: SimpleNamespace) -> list[Any]:
    """Values from parser events, without recursion and YAML constructors, so that depth and tags do no harm."""
    container: Any = []  # the container being filled; the outermost one holds the documents
    outer: list[Any] = []
    key: str | None = None
    scalar, nodes = known.scalar, known.nodes
    while True:
        event = next_event()
        kind = type(event)
        if kind in nodes:
            if event.anchor is not None or event.tag is not None:  # an alias has an anchor too
                raise InvalidYaml("anchors (&), aliases (*) and tags (!) are not allowed; put the text in quotes")
            if key is None and type(container) is dict:
                key = _new_key(event, container, kind is scalar)
                continue
            if kind is scalar:
                value = _resolve_scalar(event.value) if event.implicit[0] else event.value
            else:
                value = {} if kind is known.mapping else []
            if key is None:
                container.append(value)
            else:
                container[key] = value
                key = None
            if kind is not scalar:
                outer.append(container)
                container = value
                if len(outer) > DEPTH_LIMIT + 1:  # the list that contains the item is one more level
                    raise InvalidYaml(f"nested deeper than {DEPTH_LIMIT} levels")
        elif kind in known.ends:
            container = outer.pop()
        elif kind is known.stream_end:
            return container  # type: ignore[no-any-return]


def _new_key(event: Any, mapping: dict[str, Any], is_text: bool) -> str:
    if not is_text:
        raise InvalidYaml("a key must be text")
    key: str = event.value
    if key in mapping:
        raise InvalidYaml(f"the key {key[:40]!r} is given twice")
    return key


def _resolve_scalar(text: str) -> Any:
    """The value of an unquoted scalar."""
    if text in _WORDS:
        return _WORDS[text]
    if text[0] not in "-+.0123456789":
        return text
    try:
        if _INT.fullmatch(text):
            return int(text)
        if _FLOAT.fullmatch(text) and math.isfinite(number := float(text)):
            return number
    except ValueError:  # Python refuses integers of more than 4,300 digits
        raise InvalidYaml("a number is too long") from None
    if _NOT_FINITE.fullmatch(text) or _FLOAT.fullmatch(text):
        raise InvalidYaml("numbers must be finite")
    return text


def _error_reason(error: Any) -> str:
    problem = getattr(error, "problem", None) or getattr(error, "reason", None) or "not valid YAML"
    mark = getattr(error, "problem_mark", None)
    return f"{problem}, in line {mark.line + 1} of the entry" if mark is not None else str(problem)
