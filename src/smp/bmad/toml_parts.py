"""Where in a TOML text do tables begin, and where do the items of its lists stand? A look at its parts. Pure.

Guarantees: for a text that is TOML, every header and every key with its value is found, with its place; what is inside
strings or comments is not mistaken for anything else. It does not say whether a text is TOML: `tomllib` does that.
"""

from __future__ import annotations

_BLANK, _QUOTES = " \t\r\n", ("'''", '"""', "'", '"')


class Part:
    """A header, or a key with its value."""

    def __init__(self, header: str, key: str, start: int, end: int) -> None:
        self.header = header  # the table it belongs to, or that it begins; as written
        self.key = key  # empty for a header
        self.start = start
        self.end = end
        self.items: list[tuple[int, int]] | None = None  # of a list: where each item stands
        self.close = -1  # of a list: where its closing bracket stands


def parts(text: str) -> list[Part]:
    found: list[Part] = []
    header, at = "", 0
    while (at := _skip(text, at)) < len(text):
        end = _line_end(text, at)
        if text[at] == "[":
            header = text[at:end].partition("#")[0].strip()
            found.append(Part(header, "", at, end))
            at = end
            continue
        equals = _to(text, at, "=")
        part = Part(header, text[at:equals].strip(), at, end)
        value = _skip(text, equals + 1)
        if text[value : value + 1] == "[":
            part.items = []
            part.close = part.end = _list(text, value, part.items)
            part.close -= 1
        else:
            part.end = _value(text, value)
        found.append(part)
        at = max(part.end, at + 1)
    return found


def _skip(text: str, at: int) -> int:
    """Over blanks and comments."""
    while at < len(text):
        if text[at] == "#":
            at = _line_end(text, at)
        elif text[at] in _BLANK or text[at] == "\ufeff":
            at += 1
        else:
            break
    return at


def _line_end(text: str, at: int) -> int:
    end = text.find("\n", at)
    return len(text) if end < 0 else end


def _to(text: str, at: int, mark: str) -> int:
    """The next such character outside of strings."""
    while at < len(text) and text[at] != mark:
        at = _string(text, at) if text[at] in "'\"" else at + 1
    return at


def _string(text: str, at: int) -> int:
    """Behind the string that begins here."""
    quote = next(quote for quote in _QUOTES if text.startswith(quote, at))
    end = at + len(quote)
    while end < len(text):
        if text[end] == "\\" and quote[0] == '"':
            end += 2
        elif text.startswith(quote, end):
            end += len(quote)
            while (
                len(quote) == 3 and end < len(text) and text[end] == quote[0]
            ):  # quotes may stand before the last three
                end += 1
            return end
        else:
            end += 1
    return len(text)


def _value(text: str, at: int) -> int:
    """Behind the value that begins here."""
    if text[at : at + 1] in ("'", '"'):
        return _string(text, at)
    if text[at : at + 1] == "[":
        return _list(text, at, [])
    if text[at : at + 1] == "{":
        at += 1
        while at < len(text) and text[at] != "}":
            at = _string(text, at) if text[at] in "'\"" else _value(text, at) if text[at] in "[{" else at + 1
        return at + 1
    while at < len(text) and text[at] not in ",]}\n#":
        at += 1
    return at


def _list(text: str, at: int, items: list[tuple[int, int]]) -> int:
    """Behind the list that begins here; its items are noted."""
    at = _skip(text, at + 1)
    while at < len(text) and text[at] != "]":
        if text[at] == ",":
            at = _skip(text, at + 1)
            continue
        end = _value(text, at)
        items.append((at, at + len(text[at:end].rstrip())))
        at = _skip(text, max(end, at + 1))
    return at + 1
