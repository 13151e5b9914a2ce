"""What should this agent know now? Memory in a prompt, and who may see what.

Guarantees: nothing here stores anything by itself; reads go through a session or a store, writes through `smp.writing`.
Loading this package loads nothing: what is used is loaded where it is used.
"""

GLOBAL_SESSION = "global"  # the session of what holds in all sessions, see `smp.agents.global_memory`
