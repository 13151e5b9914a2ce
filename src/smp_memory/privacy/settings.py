"""What may be stored of what is given? The redactor that a store's settings ask for, and the note of what it took out.

Guarantees: nothing is loaded before the first write; a store that switched redaction off loads and does nothing. A wrong
setting is an `InvalidConfig` that names it when the store is opened, not when the first secret comes.
"""

from __future__ import annotations

from smp_memory.import_lock import loading
from smp_memory.privacy.fence import strip_head, strip_reason

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any

    from smp_memory.config import Config
    from smp_memory.privacy.redaction import RedactedSpan, Redactor
    from smp_memory.store.file_store import FileStore

_OFTEN_WANTED = ("email", "phone")  # kinds that are no secrets to everybody
_OFF, _PATTERNS = "privacy.redaction.off", "privacy.redaction.patterns"
_REPLACEMENT = "privacy.redaction.replacement"


def redactor_of(config: Config) -> Redactor | None:
    """None if nothing is to be taken out. The same settings give the same one."""
    return redactor_always(config) if config["privacy.redaction.enabled"] else None


def redactor_always(config: Config) -> Redactor:
    """The same for a caller that asks for it, whether it is switched on or not."""
    with loading:
        import base64  # noqa: F401 - what the rules load later
        import re  # noqa: F401

        from smp_memory.privacy.redaction import Redactor

    settings = {"off": config[_OFF], "patterns": config[_PATTERNS], "replacement": config[_REPLACEMENT]}
    key = repr(settings)
    known = _made.get(key)
    if known is None:
        if len(_made) >= _MOST_MADE:
            _made.clear()
        known = _made[key] = Redactor(settings)
    return known


_made: dict[str, Redactor] = {}
_MOST_MADE = 100


def check_settings(config: Config) -> None:
    """Whether the rules and patterns can be used; those that SMP brings along need no check."""
    if config[_OFF] or config[_PATTERNS]:
        redactor_always(config)


def without_secrets(config: Config, head: dict[str, Any]) -> tuple[dict[str, Any], list[RedactedSpan]]:
    """What a session's head may say: no recalled text, and no secrets. Of who takes part, a mail address is a name and stays."""
    head = strip_head(head)
    texts = {name: head[name] for name in ("project", "tags", "context") if head.get(name)}
    redactor = redactor_of(config) if texts else None
    if redactor is None:
        return head, []
    cleaned, removals = redactor.redact_fields(texts)
    return {**head, **cleaned}, removals


def cleaned_reason(config: Config, reason: str | None) -> tuple[str | None, dict[str, int]]:
    """Why something was done, as it may be stored: without recalled text and without secrets; how many of each kind went."""
    reason = strip_reason(reason)
    redactor = redactor_of(config) if reason else None
    if redactor is None or type(reason) is not str:
        return reason, {}
    reason, removals = redactor.redact(reason)
    return reason, counted(removals)


def note_head(store: FileStore, at: str, session: str, by: str | None, removals: list[RedactedSpan]) -> dict[str, int]:
    """Note in the audit log what was taken out of a session's head; how many of each kind."""
    kinds = counted(removals)
    if kinds:
        store.audit.note("redact", at=at, by=by, session=session, count=1, kinds=kinds, part="head", sync=False)
    return kinds


def told(kinds: dict[str, int]) -> str:
    """What was taken out, in a sentence without any of it; empty if nothing was."""
    if not kinds:
        return ""
    names = ", ".join(f"{kind} ({count:,} times)" if count > 1 else kind for kind, count in kinds.items())
    wanted = [kind for kind in _OFTEN_WANTED if kind in kinds]
    hint = f" If you want them stored: smp config --set {_OFF}={','.join(wanted)}" if wanted else ""
    return f"redaction took out: {names}.{hint}"


def counted(removals: Iterable[RedactedSpan]) -> dict[str, int]:
    """How many of each kind."""
    kinds: dict[str, int] = {}
    for removal in removals:
        kinds[removal.kind] = kinds.get(removal.kind, 0) + 1
    return kinds
