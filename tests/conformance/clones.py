"""Clones of a store, and the union of what was appended in each, as a merge of two branches leaves it."""

from __future__ import annotations

import shutil
from pathlib import Path

import smp_memory
from smp_memory.files.layouts import layout_named

SESSION = "s1"
_NOT_MEMORIES = ("config.json", "manifest.json", "metadata.json", "metadata.yaml")


def memory_files(root: Path) -> dict[str, bytes]:
    found = {}
    for path in sorted(root.rglob("*")):
        name = path.relative_to(root).as_posix()
        if (
            path.is_file()
            and ".smp" not in name
            and path.name not in _NOT_MEMORIES
            and not name.startswith("deleted/")
            and "indexes/" not in name
        ):
            found[name] = path.read_bytes()
    return found


def clone(source: Path, target: Path) -> Path:
    """What git brings: without private files."""
    shutil.copytree(source, target, ignore=shutil.ignore_patterns(".smp"))
    return target


def united(base: dict[str, bytes], sides: list[Path], target: Path, layout: str) -> Path:
    """A clone with the base and what each side appended to it, in the order of the sides."""
    clone(sides[0], target)
    contents = dict(base)
    for side in sides:
        for name, data in memory_files(side).items():
            if name not in contents:
                contents[name] = data
                continue
            start = len(base[name]) if name in base else len(_header(layout, target, name))
            assert name not in base or data.startswith(base[name])
            contents[name] += data[start:]
    for name, data in contents.items():
        (target / name).parent.mkdir(parents=True, exist_ok=True)
        (target / name).write_bytes(data)
    return target


def _header(layout_name: str, root: Path, name: str) -> bytes:
    layout = layout_named(layout_name)
    inner = (root / name).relative_to(layout.folder(str(root), SESSION)).as_posix()
    return layout.codec_of(inner).header(layout.title_of(inner, SESSION))


def opened(root: Path) -> smp_memory.SessionMemory:
    return smp_memory.open(root).session(SESSION)


def said(record: smp_memory.Record) -> str:
    return str(record.text)


def serious(session: smp_memory.SessionMemory) -> list[str]:
    return [str(each) for each in session.validate().problems if each.severity != "note"]
