"""What should this agent know now? Memory in a prompt, and who may see what.

Guarantees: nothing here stores anything by itself; reads go through a session or a store, writes through `smp.writing`.
Loading this package loads almost nothing: what is used is loaded where it is used.
"""

from smp.model.ids import GLOBAL_SESSION

__all__ = ["GLOBAL_SESSION"]
