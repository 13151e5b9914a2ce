"""Labelled texts for redaction: secrets in many surroundings, and harmless texts that look like them.

The text files hold one sample per line, `class | text`. Values are generated from a fixed seed when the files are
read, so no file holds a string that a secret scanner would report: `{a:20}` stands for 20 letters and digits, the letter
names an alphabet of `ALPHABETS`; `{uuid}`, `{jwt}` and `{basic}` (base64 of `user:password`) are whole values. `⏎` stands
for a line break. A secret stands between « and ».
"""

from __future__ import annotations

import random
import re
from base64 import b64encode
from pathlib import Path
from typing import NamedTuple

_LOWER, _DIGITS = "abcdefghijklmnopqrstuvwxyz", "0123456789"
_ALNUM = _LOWER + _LOWER.upper() + _DIGITS
ALPHABETS = {
    "a": _ALNUM,
    "b": _ALNUM + "+/",
    "w": _ALNUM + "_-",
    "d": _DIGITS,
    "h": _DIGITS + "abcdef",
    "H": _DIGITS + "ABCDEF",
    "L": _LOWER + _DIGITS,
    "U": _LOWER.upper() + _DIGITS,
    "B": _LOWER.upper() + "234567",
    "q": _LOWER + "234567",
}
_FIELD = re.compile(r"\{(?:([abwdhHLUBq]):(\d+)|(uuid|jwt|basic))\}")
_SECRET = re.compile("«(.*?)»", re.DOTALL)
_LEFT = 8  # so many characters of a secret, or all of a shorter one, must not be left


class Sample(NamedTuple):
    place: str  # file and line
    kind: str
    text: str
    secret: str = ""  # empty: harmless

    def is_left_in(self, redacted: str) -> bool:
        size = min(_LEFT, len(self.secret))
        return any(self.secret[at : at + size] in redacted for at in range(len(self.secret) - size + 1))


def secrets(part: str) -> list[Sample]:
    """`part` is `first`, `held_back`, `last` or `second`; the first lines of each file say how it was used."""
    return _read(f"secrets_{part}.txt")


def harmless(part: str) -> list[Sample]:
    return _read(f"harmless_{part}.txt")


def _read(name: str) -> list[Sample]:
    lines = (Path(__file__).parent / name).read_text("utf-8").splitlines()
    numbered = ((number, line) for number, line in enumerate(lines, 1) if line and not line.startswith("#"))
    return [_sample(f"{name}:{number}", line) for number, line in numbered]


def _sample(place: str, line: str) -> Sample:
    kind, _, form = line.partition(" | ")
    rng = random.Random(form)
    text = _FIELD.sub(lambda match: _value(rng, match), form.replace("⏎", "\n"))
    marked = _SECRET.search(text)
    return Sample(place, kind, _SECRET.sub(r"\1", text), marked.group(1) if marked else "")


def _value(rng: random.Random, match: re.Match[str]) -> str:
    alphabet, size, whole = match.groups()
    if alphabet:
        return _some(rng, alphabet, int(size))
    if whole == "uuid":
        return "-".join(_some(rng, "h", size) for size in (8, 4, 4, 4, 12))
    if whole == "basic":
        return b64encode(f"ada:{_some(rng, 'a', 12)}".encode()).decode()
    header, claims = b'{"alg":"HS256","typ":"JWT"}', b'{"sub":"%s"}' % _some(rng, "d", 10).encode()
    parts = [b64encode(part).decode().rstrip("=") for part in (header, claims)]
    return ".".join([*parts, _some(rng, "w", 43)])


def _some(rng: random.Random, alphabet: str, size: int) -> str:
    return "".join(rng.choice(ALPHABETS[alphabet]) for _ in range(size))
