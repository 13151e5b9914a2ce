"""Redaction according to the settings of a store: choose the redactor, clean session metadata and reasons, log redactions.

Guarantees: nothing is loaded before the first write; with redaction off nothing is loaded or done. A wrong setting is
found when the store is opened, not when the first secret is written.
"""

from __future__ import annotations

from smp_memory import privacy
from smp_memory.config.settings import WRITE
from smp_memory.errors import InvalidConfig
from smp_memory.import_lock import loading

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any, Protocol

    from smp_memory.config.settings import Config
    from smp_memory.model.session_info import SessionInfo
    from smp_memory.privacy.redaction import RedactedSpan, Redactor

    class AuditedStore(Protocol):
        @property
        def audit(self) -> Any: ...


_OFTEN_ALLOWED = ("email", "phone")  # kinds that not every user considers secret
_OFF, _PATTERNS = "privacy.redaction.off", "privacy.redaction.patterns"
_REPLACEMENT = "privacy.redaction.replacement"


def redactor_of(config: Config) -> Redactor | None:
    """The redactor for these settings; None if redaction is off."""
    return redactor_even_if_off(config) if config["privacy.redaction.enabled"] else None


def redactor_even_if_off(config: Config) -> Redactor:
    """The redactor for these settings, also if redaction is off. Equal settings share one redactor."""
    with loading:
        import base64  # noqa: F401 - loaded later by the rules; here under the import lock
        import re  # noqa: F401

        from smp_memory.privacy.redaction import Redactor

    settings = {"off": config[_OFF], "patterns": config[_PATTERNS], "replacement": config[_REPLACEMENT]}
    key = repr(settings)
    known = _cache.get(key)
    if known is None:
        if len(_cache) >= _MAX_CACHED:
            _cache.clear()
        known = _cache[key] = Redactor(settings)
    return known


_cache: dict[str, Redactor] = {}
_MAX_CACHED = 100


def session_settings(config: Config, info: SessionInfo) -> Config:
    """The settings overridden by those in a session's metadata; errors name where they are."""
    return checked(config.override_session(info.config, info.id, info.path)) if info.config else config


def checked(config: Config) -> Config:
    """The settings without redaction settings that cannot be used; those become `config.invalid`. Raises for an argument."""
    while config[_OFF] or config[_PATTERNS]:  # the built-in rules need no check
        try:
            redactor_even_if_off(config)
            break
        except InvalidConfig as error:
            config = config.without(str(error.details["key"]), error.message)
    return config


def clean_metadata(config: Config, metadata: dict[str, Any]) -> tuple[dict[str, Any], list[RedactedSpan]]:
    """Session metadata without recalled text and secrets. Mail addresses of participants are kept as names."""
    config.require(WRITE)
    metadata = privacy.fence.strip_metadata(metadata)
    texts = {name: metadata[name] for name in ("project", "tags", "context") if metadata.get(name)}
    redactor = redactor_of(config) if texts else None
    if redactor is None:
        return metadata, []
    opaque = {name: value for name, value in texts.get("context", {}).items() if name == "opaque"}
    if opaque:  # identifiers of a framework are not touched, as in memories
        texts["context"] = {name: value for name, value in texts["context"].items() if name != "opaque"}
    cleaned, removals = redactor.redact_fields(texts)
    if opaque:
        cleaned["context"] = {**cleaned["context"], **opaque}
    return {**metadata, **cleaned}, removals


def clean_reason(config: Config, reason: str | None) -> tuple[str | None, dict[str, int]]:
    """Why something was done, as it may be stored: without recalled text and without secrets; how many of each kind went."""
    if reason:
        config.require(WRITE)
    reason = privacy.fence.strip_reason(reason)
    redactor = redactor_of(config) if reason else None
    if redactor is None or type(reason) is not str:
        return reason, {}
    reason, removals = redactor.redact(reason)
    return reason, count_kinds(removals)


def log_metadata_redaction(
    store: AuditedStore, at: str, session: str, by: str | None, removals: list[RedactedSpan]
) -> dict[str, int]:
    """Log the redactions in session metadata to the audit log; return the counts by kind."""
    kinds = count_kinds(removals)
    if kinds:
        store.audit.note("redact", at=at, by=by, session=session, count=1, kinds=kinds, part="head", sync=False)
    return kinds


def redaction_notice(kinds: dict[str, int]) -> str:
    """A sentence about redacted kinds, without any content; empty if nothing was redacted."""
    if not kinds:
        return ""
    names = ", ".join(f"{kind} ({count:,} times)" if count > 1 else kind for kind, count in kinds.items())
    allowed = [kind for kind in _OFTEN_ALLOWED if kind in kinds]
    hint = f" If you want them stored: smp config set {_OFF} {','.join(allowed)}" if allowed else ""
    return f"removed before saving: {names}.{hint}"


def count_kinds(removals: Iterable[RedactedSpan]) -> dict[str, int]:
    """Count the redactions by kind."""
    kinds: dict[str, int] = {}
    for removal in removals:
        kinds[removal.kind] = kinds.get(removal.kind, 0) + 1
    return kinds
