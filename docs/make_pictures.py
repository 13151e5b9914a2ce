"""Draws the pictures of the docs: `python docs/make_pictures.py`.

- `images/start.svg`: the commands of `start.md` as they look in a terminal. They run for real, in a pseudo-terminal, in an empty
  project; times, random numbers and paths are replaced by fixed ones, so the same code gives the same picture.
- `images/store.svg`, `images/life.svg`: the two drawings of `concepts.md`.

`tests/test_pictures.py` fails when a picture is out of date. Needs a system with pseudo-terminals, so not Windows.
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Callable

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)
sys.path.insert(0, os.path.join(os.path.dirname(HERE), "src"))

from drawings import life_of_a_memory, parts_of_a_store  # noqa: E402
from terminal_picture import Step, render  # noqa: E402

COLUMNS = 96
_FIXED = (
    (re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d"), "2026-01-31 14:30:00"),
    (re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d(?!:)"), "2026-01-31 14:30"),
    (re.compile(r"(?<=[ (])20\d\d-\d\d-\d\d(?= )(?! \d\d:)"), "2026-01-31"),
    (re.compile(r"session-\d{4}-\d\d-\d\d-[0-9a-f]{6}"), "session-2026-01-31-4f1c9a"),
)


def commands_of(page: str, mark: str) -> list[str]:
    """The commands of the block below a comment, such as `<!-- recorded -->`."""
    with open(os.path.join(HERE, page), encoding="utf-8") as file:
        block = file.read().partition(f"<!-- {mark} -->")[2].partition("```sh\n")[2].partition("```")[0]
    return [line for line in block.splitlines() if line]


def record(commands: list[str]) -> list[Step]:
    """Run the commands in a new project, one after the other, and keep what they show."""
    with tempfile.TemporaryDirectory(prefix="smp-picture-") as folder:
        project = os.path.join(os.path.realpath(folder), "shop")
        os.mkdir(project)
        return [Step(command, fixed(in_terminal(command, project), project)) for command in commands]


def in_terminal(command: str, project: str) -> str:
    """What a command shows on a terminal of a fixed width."""
    import fcntl
    import pty
    import struct
    import termios

    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 50, COLUMNS, 0, 0))
    process = subprocess.Popen(
        [sys.executable, "-m", "smp_memory", *shlex.split(command)[1:]],
        cwd=project,
        env=_environment(project),
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
    )
    os.close(theirs)
    shown = bytearray()
    while True:
        try:
            piece = os.read(ours, 4096)
        except OSError:  # Linux: the other side was closed
            break
        if not piece:
            break
        shown += piece
    os.close(ours)
    if process.wait() != 0:
        raise SystemExit(f"{command} failed:\n{shown.decode()}")
    return shown.decode()


def _environment(project: str) -> dict[str, str]:
    home = os.path.dirname(project)
    kept = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith("SMP_") and name not in ("NO_COLOR", "PAGER")
    }
    source = os.path.join(os.path.dirname(HERE), "src")
    return {
        **kept,
        "PYTHONPATH": os.pathsep.join(filter(None, [source, os.environ.get("PYTHONPATH")])),
        "HOME": home,
        "LOGNAME": "ada",
        "SMP_STATE_DIR": os.path.join(home, "state"),
        "TERM": "xterm-256color",
        "COLUMNS": str(COLUMNS),
        "LC_ALL": "C.UTF-8",
    }


def fixed(text: str, project: str) -> str:
    """The text with fixed times, numbers and paths."""
    text = text.replace(project, "~/shop").replace(os.path.dirname(project), "~")
    for number, nonce in enumerate(dict.fromkeys(re.findall(r"smp-recalled-([0-9a-f]{8})", text))):
        text = text.replace(nonce, f"{0x1F2E3D4C + number:08x}")
    for pattern, replacement in _FIXED:
        text = pattern.sub(replacement, text)
    return text


PICTURES: dict[str, Callable[[], str]] = {
    "images/start.svg": lambda: render(
        record(commands_of("start.md", "recorded")), "A first session with smp", COLUMNS
    ),
    "images/store.svg": parts_of_a_store,
    "images/life.svg": life_of_a_memory,
}


def main() -> None:
    for name, draw in PICTURES.items():
        path = os.path.join(HERE, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w", encoding="utf-8", newline="\n") as file:
            file.write(draw())
        sys.stdout.write(f"docs/{name}: written\n")


if __name__ == "__main__":
    main()
