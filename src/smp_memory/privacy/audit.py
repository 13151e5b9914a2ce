"""Audit log `.smp/audit.jsonl`: what was deleted, changed or exported, by whom and why, without the content; and what clients of a shared server did.

    {"at":"2026-01-31T14:30:05.123Z","action":"delete","session":"s1","count":1,"ids":["DEC-0001"],…,"checksum":"sha256:…"}

Lines are appended; only an erasure rewrites lines, to remove the reasons given for what it erases. Each line has a checksum
over itself and the checksum of the line before; `audit.last` holds the length of the log and the last checksum, so that
changed or removed lines are detected, at the end of the log, too.
After a power loss, a line that was being written is ignored and overwritten by the next one; a finished line of which only a
part is left stays, and the next line is written below it.
Guarantees: mode 0600; ids, counts, kinds and reasons only, and reasons are redacted. A log that cannot be written never
undoes or fails the action: it is reported (`failure`, and a warning of the logger `smp_memory.audit`).
Non-guarantees: forging checksums and `audit.last` together is not detected. Without `sync` the last lines may be lost in a
power failure.
"""

from __future__ import annotations

import hashlib
import json
import os
import time

from smp_memory.errors import SMPError
from smp_memory.model.times import system_clock, to_text
from smp_memory.observe import telemetry

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from typing import Any

    from smp_memory.files.disk import Disk
    from smp_memory.model.storage_reports import AppendLog

FILE, LAST = "audit.jsonl", "audit.last"
_START = "sha256:0000000000000000"  # the checksum before the first line
_MARK = b',"checksum":"'
_LAST_BYTES = 64
_WAIT_SECONDS = 2.0
_POLL_SECONDS = 0.001
_MAX_REASON_CHARACTERS = 500


class Audit:
    """The audit log of a store: what was done to it. Any number of threads and processes may write to it."""

    def __init__(self, log: AppendLog) -> None:
        self.log = log
        self.path = log.path
        self.failure: str | None = None  # why the last note was not written

    def note(
        self,
        action: str,
        *,
        at: str | None = None,
        by: str | None = None,
        session: str | None = None,
        ids: Iterable[str] = (),
        count: int | None = None,
        kinds: Mapping[str, int] | None = None,
        reason: str | None = None,
        sync: bool = True,
        **facts: Any,
    ) -> bool:
        """Log an action. Returns False, with the reason in `failure`, if the log could not be written.

        `ids` are ids of memories, `count` the number of affected items (default: the number of ids), `kinds` counts by kind,
        `facts` further fields. Never pass content: no texts, no search words.
        """
        names = list(ids)
        fields = {
            "at": at or _now(),
            "action": action,
            "session": session,
            "count": len(names) if count is None else count,
            "ids": names or None,
            "kinds": dict(kinds) if kinds else None,
            "by": by,
            "reason": _without_secrets(reason) if reason else None,
            **facts,
        }
        return self.note_all([fields], sync=sync)

    def note_all(self, notes: list[dict[str, Any]], *, sync: bool = True) -> bool:
        """Log several actions at once, given by their fields; those that are None are left out."""
        try:
            lines = [encode({name: value for name, value in fields.items() if value is not None}) for fields in notes]
            if lines:
                self.log.append(lines, sync=sync)
        except (OSError, SMPError) as error:
            self._report(str(notes[0]["action"]), error)
            return False
        self.failure = None
        return True

    def _report(self, action: str, error: Exception) -> None:
        self.failure = f"{action} was done but could not be logged in {self.path}: {error}"
        telemetry.emit("audit", telemetry.WARNING, "audit_failed", self.failure, action=action)

    def entries(self) -> list[dict[str, Any]]:
        """All readable lines, oldest first."""
        return [fields for line in self.log.read()[0] if (fields := decoded(line)) is not None]

    def problems(self) -> list[str]:
        """Lines that were changed, removed or damaged; empty if the log is intact."""
        return self.log.problems()


def decoded(line: bytes) -> dict[str, Any] | None:
    """The fields of a line; None if it cannot be read."""
    try:
        fields = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return fields if isinstance(fields, dict) else None


def gives_reason(fields: dict[str, Any], session: str, ids: set[str]) -> bool:
    """Whether a line has a reason for what was done to one of these memories."""
    named = fields.get("ids")
    return (
        "reason" in fields
        and fields.get("session") == session
        and isinstance(named, list)
        and not ids.isdisjoint(map(str, named))
    )


def without_reason(fields: dict[str, Any]) -> dict[str, Any]:
    return {**{name: value for name, value in fields.items() if name != "reason"}, "reason_erased": True}


class AuditFile:
    """The audit log in a file, an `AppendLog` whose lines have checksums."""

    def __init__(self, disk: Disk, folder: str) -> None:
        self._disk = disk
        self._folder = folder
        self.path = os.path.join(folder, FILE)
        self._last_path = os.path.join(folder, LAST)

    def append(self, lines: list[bytes], *, sync: bool = False) -> None:
        self._append([line[:-1] for line in lines], sync)

    def replace_before(self, offset: int, lines: list[bytes]) -> None:
        raise NotImplementedError  # only an erasure changes lines

    def size_bytes(self) -> int:
        return len(self._content(self.path))

    def _append(self, bodies: list[bytes], sync: bool) -> None:
        self._disk.make_folder(self._folder)
        system = self._disk.system
        last = self._open_locked()
        try:
            file = self._disk.open_append(self.path)
            try:
                before, end, is_torn = self._checksum_before(last, file.size_before)
                if end < file.size_before:
                    file.truncate_torn(end)
                written, checksum = [b"\n" * is_torn], before
                for body in bodies:
                    checksum = _checksum(checksum, body)
                    written += [body, _MARK, checksum.encode(), b'"}\n']
                data = b"".join(written)
                file.append(data)
                if sync:
                    file.sync()
                size = end + len(data)
            finally:
                file.close()
            system.pwrite(last, f"{size} {checksum}".encode().ljust(_LAST_BYTES - 1) + b"\n", 0)
        finally:
            system.close(last)

    def forget_reasons(self, session: str, ids: Iterable[str]) -> bool:
        """Remove the reasons from lines about erased memories, because a reason may repeat their content.

        The checksums are recomputed. Returns False, without a change, if the log has problems.
        """
        erased = set(ids)
        system = self._disk.system
        last = self._open_locked()
        try:
            known_size, _ = _parse_last(system.pread(last, _LAST_BYTES, 0))
            data = self._content(self.path)
            if any(problem for _, problem in self._read()) or len(data) < known_size:
                return False
            before, lines, changed = _START, [], False
            for fields, _ in self._read():
                if fields and gives_reason(fields, session, erased):
                    fields, changed = without_reason(fields), True
                body = encode(fields)[:-1]
                before = _checksum(before, body)
                lines.append(b"".join((body, _MARK, before.encode(), b'"}\n')))
            if changed:  # written first: a log longer than `audit.last` says is valid, a shorter one is not
                size = sum(map(len, lines))
                system.pwrite(last, f"{size} {before}".encode().ljust(_LAST_BYTES - 1) + b"\n", 0)
                system.sync(last)
                self._disk.replace(self.path, b"".join(lines))
            return True
        finally:
            system.close(last)

    def _open_locked(self) -> int:
        system = self._disk.system
        descriptor, _, _ = self._disk.open_write(self._last_path, create=True)
        try:
            deadline = time.monotonic() + _WAIT_SECONDS
            while not system.lock(descriptor):
                if time.monotonic() > deadline:
                    raise TimeoutError(f"another process holds the lock on {self._last_path}")
                time.sleep(_POLL_SECONDS)
        except BaseException:
            system.close(descriptor)
            raise
        return descriptor

    def _checksum_before(self, last: int, size: int) -> tuple[str, int, bool]:
        """The checksum before the next line, its offset, and whether a line break must be added first.

        The rest of a line from a power loss is overwritten, unless the line had been finished and is cut off now.
        """
        known_size, known = _parse_last(self._disk.system.pread(last, _LAST_BYTES, 0))
        if size == known_size:
            return known, size, False
        data = self._disk.read(self.path) if size else b""
        end = _end_of_lines(data, known_size)
        if size < known_size:  # the end was cut off; the checksum of the next line keeps that detectable
            return known, end, end > 0 and not data.endswith(b"\n", 0, end)
        lines = [line for line in data[:end].split(b"\n") if _MARK in line]
        return (_parts(lines[-1])[1] if lines else _START), end, False

    # -- reading

    def read(self, offset: int = 0) -> tuple[list[bytes], int]:
        """All readable lines, without checksums; an offset is not needed here."""
        return [encode(fields) for fields, _ in self._read() if fields is not None], self.size_bytes()

    def problems(self) -> list[str]:
        """Lines that were changed, removed or damaged; empty if the log is intact."""
        found = [problem for _, problem in self._read() if problem]
        known_size, _ = _parse_last(self._content(self._last_path))
        if len(self._content(self.path)) < known_size:
            found.append(f"{self.path}: lines at the end are missing.")
        return found

    def _read(self) -> Iterable[tuple[dict[str, Any] | None, str]]:
        before, data = _START, self._content(self.path)
        data = data[: _end_of_lines(data, _parse_last(self._content(self._last_path))[0])]
        for number, line in enumerate(data.split(b"\n"), 1):
            if not line:
                continue
            body, checksum = _parts(line)
            try:
                fields = json.loads(line)
                fields.pop("checksum")
            except (ValueError, RecursionError, AttributeError, KeyError, TypeError):
                yield None, f"{self.path}:{number}: this line cannot be read."
                continue
            is_valid = checksum == _checksum(before, body)
            problem = (
                "" if is_valid else f"{self.path}:{number}: this line was changed, or lines before it were removed."
            )
            yield fields, problem
            before = checksum

    def _content(self, path: str) -> bytes:
        try:
            return self._disk.read(path)
        except FileNotFoundError:
            return b""


def encode(fields: object) -> bytes:
    return json.dumps(fields, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "replace")


def _checksum(before: str, body: bytes) -> str:
    return "sha256:" + hashlib.sha256(before.encode() + b"\n" + body).hexdigest()[:16]


def _end_of_lines(data: bytes, known_size: int) -> int:
    """The end of the log without an unfinished line of a power loss: torn, or zeros, after all finished lines."""
    end = data.rfind(b"\n") + 1
    while end > known_size:
        start = data.rfind(b"\n", 0, end - 1) + 1
        if b"\0" not in data[start:end] and _MARK in data[start:end]:
            break
        end = start
    return end if end >= known_size else len(data)


def _parts(line: bytes) -> tuple[bytes, str]:
    """The fields of a line as bytes, and its checksum."""
    body, _, rest = line.rpartition(_MARK)
    return body, rest[:-2].decode("ascii", "replace")


def _parse_last(data: bytes) -> tuple[int, str]:
    size, _, checksum = data.decode("ascii", "replace").strip().partition(" ")
    return (int(size), checksum) if size.isdigit() and len(checksum) == len(_START) else (0, _START)


def _without_secrets(reason: str) -> str:
    from smp_memory.privacy.redaction import Redactor

    return Redactor().redact(reason)[0][:_MAX_REASON_CHARACTERS]


def _now() -> str:
    return to_text(system_clock())
