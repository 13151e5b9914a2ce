"""The merge driver that git calls: `smp git merge-driver %O %A %B %P`. The result is written to the file %A.

Guarantees: exit code 0 only when every entry was merged without a conflict; 1 for anything else, which git shows as a
conflict. If the files cannot be merged entry by entry, for whatever reason, %A gets git's own text merge; if that fails as
well, both sides as a whole between conflict markers. No side is ever lost. No store is opened; only the three files are read, and the metadata beside them.
"""

from __future__ import annotations

import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from smp_memory.git.merge import Merged

_DERIVED = b"# Made by SMP from the memories of this session."  # overviews, which maintenance rewrites
_SHOWN_CONFLICTS = 20
_NEXT = "smp: both sides are kept. To see them and choose: smp git resolve"


def main(words: list[str]) -> int:
    """Merge; `words` are the paths of base, ours and theirs, and the path in the work tree."""
    if len(words) != 4:
        print("usage: smp git merge-driver %O %A %B %P (called by git, see: smp git setup --help)", file=sys.stderr)
        return 129
    base, ours, theirs, path = words
    try:
        sides = _read(base), _read(ours), _read(theirs)
        if path.endswith(".yaml") and sides[1].startswith(_DERIVED) and sides[2].startswith(_DERIVED):
            return 0
        return _finish(ours, path, _merged(*sides, path))
    except Exception as error:
        try:
            return _fall_back(words, error)
        except OSError as failure:  # git keeps all three versions in its index
            print(f"smp: {path}: cannot be merged ({failure.strerror})", file=sys.stderr)
            return 1


def _merged(base: bytes, ours: bytes, theirs: bytes, path: str) -> Merged:
    from smp_memory.git.merge import merge

    return merge(base, ours, theirs, path, text_merge)


def _finish(target: str, path: str, merged: Merged) -> int:
    with open(target, "wb") as file:
        file.write(merged.data)
    for about in merged.conflicts[:_SHOWN_CONFLICTS]:
        print(f"smp: {path}: {about}", file=sys.stderr)
    if len(merged.conflicts) > _SHOWN_CONFLICTS:
        print(f"smp: {path}: {len(merged.conflicts) - _SHOWN_CONFLICTS} more conflicts", file=sys.stderr)
    _report_renumbered(path, merged)
    if merged.conflicts:
        print(_NEXT, file=sys.stderr)
    return 1 if merged.conflicts else 0


def _report_renumbered(path: str, merged: Merged) -> None:
    try:
        said = merged.renumbered(b"\n".join([*_metadata_beside(path), merged.data]))
    except Exception:  # what is said of a merge does not decide whether it succeeds
        return
    for each in said[:_SHOWN_CONFLICTS]:
        print(f"smp: {path}: {each}", file=sys.stderr)


def _metadata_beside(path: str) -> Iterator[bytes]:
    """The metadata of the session, whose numbers include those of purged memories."""
    import os

    folder = os.path.dirname(path)
    for place in (folder, os.path.dirname(folder)):  # a memory of `markdown` may have a file of its own in a folder
        for name in ("manifest.json", "metadata.yaml"):
            if os.path.isfile(os.path.join(place, name)):
                yield _read(os.path.join(place, name))


def _fall_back(words: list[str], error: Exception) -> int:
    """Write git's own text merge. Only a file that does not belong to the store may merge without a conflict this way."""
    from smp_memory.git.entry_files import CannotMerge, NotAStoreFile

    base, ours, theirs, path = words
    is_foreign = isinstance(error, NotAStoreFile)
    if not is_foreign:
        why = str(error) if isinstance(error, CannotMerge) else f"{type(error).__name__}"
        print(f"smp: {path}: merged as text ({why}). {_NEXT.removeprefix('smp: ')}", file=sys.stderr)
    code, data = _merge_file(base, ours, theirs)
    if data is None:
        data = b"".join(
            (b"<<<<<<< ours\n", _with_line_end(ours), b"=======\n", _with_line_end(theirs), b">>>>>>> theirs\n")
        )
        code = 1
    with open(ours, "wb") as file:
        file.write(data)
    return 0 if is_foreign and code == 0 else 1


def _merge_file(base: str, ours: str, theirs: str, style: str = "") -> tuple[int, bytes | None]:
    """The number of conflicts and the text that `git merge-file` gives; None if it cannot (binary files, no git)."""
    import subprocess

    labels = ("-L", "ours", "-L", "base", "-L", "theirs")
    words = ["git", "merge-file", "-p", *([style] if style else []), *labels, ours, base, theirs]
    try:
        done = subprocess.run(words, capture_output=True, check=False)
    except OSError:
        return 1, None
    return (done.returncode, done.stdout) if 0 <= done.returncode < 128 else (1, None)


def text_merge(base: bytes, ours: bytes, theirs: bytes) -> bytes | None:
    """Git's merge of three texts; None if there is a conflict."""
    return next((data for code, data in _text_merges(base, ours, theirs, "") if code == 0), None)


def text_merges(base: bytes, ours: bytes, theirs: bytes) -> list[bytes]:
    """Git's merge of three texts with its markers, in each style that a user may have set."""
    return [data for _, data in _text_merges(base, ours, theirs, "", "--diff3", "--zdiff3") if data is not None]


def _text_merges(base: bytes, ours: bytes, theirs: bytes, *styles: str) -> list[tuple[int, bytes | None]]:
    import os
    import tempfile

    with tempfile.TemporaryDirectory(prefix="smp-merge-") as folder:
        paths = []
        for name, data in (("base", base), ("ours", ours), ("theirs", theirs)):
            paths.append(os.path.join(folder, name))
            with open(paths[-1], "wb") as file:
                file.write(data)
        return [_merge_file(paths[0], paths[1], paths[2], style) for style in styles]


def _with_line_end(path: str) -> bytes:
    data = _read(path)
    return data if data.endswith(b"\n") or not data else data + b"\n"


def _read(path: str) -> bytes:
    with open(path, "rb") as file:
        return file.read()
