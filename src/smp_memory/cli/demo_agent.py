"""An agent process of `smp demo`: writes memories and prints each id as soon as the write is acknowledged.

Run as `python -m smp_memory.cli.demo_agent ROOT SESSION AGENT WRITES SECONDS`. It prints `ready`, waits for a line on
standard input, then writes.
"""

from __future__ import annotations

import os
import sys
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

# Agent -> the type of memory that it writes, common fields, and texts that are used in turn.
ROLES: dict[str, tuple[str, dict[str, Any], tuple[str, ...]]] = {
    "architect": (
        "decision",
        {"rationale": "Fewest parts that can fail", "tags": ["design"]},
        (
            "Use OAuth 2.0 for sign-in",
            "Keep the cart in the session, not in the database",
            "Prices are whole cents, never floats",
            "One table for orders, status as a column",
            "Send mail from a queue, never from a request",
        ),
    ),
    "veritas": (
        "finding",
        {"severity": "high", "category": "security", "tags": ["security.review"]},
        (
            "Login has no rate limit",
            "The reset link never expires",
            "Coupons can be used twice when two tabs race",
            "The admin page lacks a second factor",
            "Order ids can be guessed",
        ),
    ),
    "developer": (
        "conversation",
        {"role": "assistant"},
        (
            "The sign-in page works; next is the reset mail.",
            "Cart tests are green. I moved the price rules to one place.",
            "The queue retries three times now, then asks a person.",
            "Found the slow query: the index was on the wrong column.",
            "Coupon race fixed with a unique constraint.",
        ),
    ),
}


def main(root: str, session_id: str, agent: str, writes: str, seconds: str) -> None:
    import smp_memory

    kind, fields, sentences = ROLES[agent]
    with smp_memory.open(root) as memory:
        session = memory.session(session_id, author=agent)
        session.records(kind, last=1)
        report("ready")
        sys.stdin.readline()
        deadline = time.monotonic() + float(seconds)
        for number in range(int(writes)):
            if time.monotonic() > deadline:
                break
            report(session.add(kind, sentences[number % len(sentences)], **fields).id)


def report(word: str) -> None:
    os.write(1, f"{word}\n".encode())  # unbuffered and in one call: a kill must not lose or split it


if __name__ == "__main__":
    main(*sys.argv[1:])
