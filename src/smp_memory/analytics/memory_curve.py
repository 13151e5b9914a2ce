"""Read one memory with its history and uses, and compute the curve of its priority."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from smp_memory.analytics import curves
from smp_memory.analytics.options import number_of_days, share
from smp_memory.errors import InvalidQuery
from smp_memory.model.candidates import CandidateRequest

if TYPE_CHECKING:
    from smp_memory.scope import Scope


def decay_curve(scope: Scope, id: Any, *, threshold: float | None = None, days_ahead: float = 90) -> curves.DecayCurve:
    """The priority of one memory over time, with its history and all uses that are known."""
    name = getattr(id, "ref", None) or id
    session, memory_id = _split(name) if isinstance(name, str) else ("", "")
    if not session or not memory_id:
        raise InvalidQuery(f"id: give session/ID, such as review/DEC-0001, not {repr(id)[:80]}.", field="id")
    least = scope.config.section("compaction")["faded_below"] if threshold is None else threshold
    files = scope.store.existing_session(session)
    history = files.history(memory_id)
    record = None if history is None else history.record(session)
    if record is None or not scope.sees(record):
        raise files.memory_not_found(memory_id)
    assert history is not None  # the record is made of it
    uses = curves.known_uses(history) + _counted_uses(scope, session, memory_id)
    return curves.decay_points(
        record, scope.policy(), scope.now(), threshold=share("threshold", least), days_ahead=number_of_days("days_ahead", days_ahead),
        history=history, uses=uses,
    )  # fmt: skip


def _counted_uses(scope: Scope, session: str, id: str) -> list[curves.KnownUse]:
    """The last use that is counted, and the single uses that the access log still has."""
    asked = CandidateRequest(sessions=[session], refs=[f"{session}/{id}"], include_deleted=True, viewer=scope.viewer)
    found = scope.store.indexer.candidates(asked).matches
    if not found or found[0].last_access is None:
        return []
    access = scope.store.access
    times = sorted(
        round(at * 1_000_000) for name, at in (*access.read(0)[0], *access.pending()) if name == f"{session}/{id}"
    )
    total, last = found[0].access_count, found[0].last_access
    single = [curves.KnownUse(time, max(1, total - len(times) + place)) for place, time in enumerate(times[:-1], 1)]
    return [*single, curves.KnownUse(last, total)]


def _split(ref: str) -> tuple[str, str]:
    session, _, id = ref.rpartition("/")
    return session, id
