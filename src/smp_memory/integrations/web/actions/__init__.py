"""Actions of the inspector: changes with a preview, in the name of the person who runs it, and with an undo where there is one.

    frame        forms, errors beside their fields, the notice after an action, undo
    edit         change the fields of a memory; what happens when somebody else changed it meanwhile
    marks        pin, unpin, resolve, reopen, relate, remove a relation
    removal      delete, restore, redact, erase
    sessions     archive, restore, delete, undelete, purge, compact, redact, add a memory; maintenance and fixes
    exports      download a memory, a session, the result of a search, or the store

Guarantees: the core checks every value; what it refuses is shown beside the field, with what was typed. A form that is sent twice does
nothing harmful the second time: changes expect a revision, and what is done already is not done again. What redaction took out is said.
"""

from smp_memory.integrations.web.actions.exports import export, export_form_page
from smp_memory.integrations.web.actions.frame import result_page, undo
from smp_memory.integrations.web.actions.memories import form_page, run
from smp_memory.integrations.web.actions.sessions import run_session, session_form_page
from smp_memory.integrations.web.actions.upkeep import maintain_page, run_fix, run_maintain

__all__ = [
    "export",
    "export_form_page",
    "form_page",
    "maintain_page",
    "result_page",
    "run",
    "run_fix",
    "run_maintain",
    "run_session",
    "session_form_page",
    "undo",
]
