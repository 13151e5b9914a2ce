"""How present is it still? What is old fades, and what is used stays.

`policies` holds four policies, each as one of the original designs states it; `facts` is what a policy needs to know
of a memory. Pure: the time is handed in, nothing is read or written.
Guarantees: a priority is a number from 0 to 1; a pinned memory has 1 and never fades; the same facts at the same time
always give the same number. Fading never deletes or hides anything by itself.
"""
