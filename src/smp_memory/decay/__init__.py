"""Decay: the priority of a memory, which falls with age and rises with use.

`policies` has four policies, each as one of the designs states it; `inputs` is what a policy reads of a memory. Pure:
the time is an argument, nothing is read or written.
Guarantees: a priority is a number from 0 to 1; a pinned memory has 1 and never decays; the same inputs at the same
time always give the same number. Decay alone never deletes or hides anything.
"""
