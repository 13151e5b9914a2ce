"""Adapters: one module for each peer, run in the peer's environment.

Each has a class `Peer(folder, **options)` with `add(key, text)`, `fill(pairs)` (the peer's own bulk call, if it has one),
`search(text, limit)` which returns pairs of key and score, `keys()`, `delete(key)`, `close()`; `erase(key)` where a peer has more
than a deletion, and `settle()` where it has work to do after it was filled. A store is whatever is in `folder`; opening an empty folder makes one.
"""
