"""Export of what an agent may see, with the history that it may see.

Guarantees: as `smp.transfer.going_out`; of memories that the agent may not see nothing leaves, neither now nor from their
history. Revisions that were written while a memory was hidden from the agent are left out, and the memory says so
(`smp.agents.revisions`). The audit log says who exported.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import os

    from smp.agents.visibility import Viewer
    from smp.files.exchange import Exported
    from smp.session import SessionMemory


def export_seen(
    session: SessionMemory, viewer: Viewer, path: str | os.PathLike[str] | None, format: str | None, force: bool
) -> str:
    import os.path

    from smp.files import exchange
    from smp.model.time import to_text
    from smp.transfer import going_out

    memory, files, _ = session._exported()
    chosen = going_out.format_named(format, path)
    carried = _seen(going_out.carried_from(files[0]), viewer)
    counts: list[int] = []
    pieces = exchange.write(chosen, going_out.counting([carried], counts), 1)
    target = None if path is None else os.path.abspath(os.fspath(path))
    result = b"".join(pieces).decode() if target is None else going_out.write(target, pieces, force)
    memory.store.audit.note(
        "export",
        at=to_text(memory.now()),
        by=viewer.agent,
        session=session.id,
        count=counts[0],
        format=chosen,
        to=target,
    )
    return result


def _seen(carried: Exported, viewer: Viewer) -> Exported:
    """Without what may not be seen: memories that are hidden now, and revisions that were."""
    from smp.agents.revisions import entries_for
    from smp.model.fold import Fold

    fold = Fold()
    fold.add(carried.entries)
    seen = [trail for trail in fold.trails.values() if viewer.may_see(trail.first.type, trail.data())]
    entries = [entry for trail in seen for entry in entries_for(trail, viewer)]
    carried.entries = sorted(entries, key=lambda entry: entry.seq)
    return carried
