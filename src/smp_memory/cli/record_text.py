"""A memory on one line: its text and its state in words."""

from __future__ import annotations

from smp_memory.cli.render import value_text
from smp_memory.model.record import name_and_content
from smp_memory.model.times import validity_text
from smp_memory.model.types import KINDS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from smp_memory.model.record import Record


def display_text(record: Record) -> str:
    """The content of a memory as one text; of a preference with its key, of an agent's state the state."""
    name, content = name_and_content(record)
    return (f"{value_text(name)}: " if name else "") + value_text("" if content is None else content)


def status_text(record: Record) -> str:
    """Severity, status, the time in which it holds, pin and hand edits, as far as there are any."""
    data = record.given
    is_always_said = KINDS[record.type].is_open_until_closed
    words = [data.get("severity"), record.status if is_always_said else data.get("status")]
    words += [validity_text(data)]
    words += ["pinned"] if record.pinned else []
    words += ["edited by hand"] if record.edited else []
    words += ["typed in by hand"] if record.typed_by_hand else []
    return ", ".join(str(word) for word in words if word)
