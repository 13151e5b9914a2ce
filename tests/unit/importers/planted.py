"""Files of other tools as their current versions write them."""

from __future__ import annotations

import json
import sqlite3
from pathlib import Path
from typing import Any

DAY = "2026-01-05T10:00:00Z"
EPOCH_MS = 1_767_607_200_000


def put(root: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, "utf-8")
    return root


# -- claude-mem

_SESSIONS = "id INTEGER PRIMARY KEY AUTOINCREMENT, {content} TEXT NOT NULL, {memory} TEXT UNIQUE, project TEXT NOT NULL, user_prompt TEXT, started_at TEXT NOT NULL, started_at_epoch INTEGER NOT NULL, status TEXT NOT NULL DEFAULT 'active'"
_TIMES = "created_at TEXT NOT NULL, created_at_epoch INTEGER NOT NULL"
_PARTS = "request TEXT, investigated TEXT, learned TEXT, completed TEXT, next_steps TEXT, files_read TEXT, files_edited TEXT, notes TEXT"


def claude_mem(path: Path, *, first_version: bool = False, wal: bool = False) -> sqlite3.Connection:
    """A database with two sessions; of version 4 if `first_version`, else of 13. With `wal`, it stays open and its rows are in the log."""
    path.parent.mkdir(parents=True, exist_ok=True)
    db = sqlite3.connect(path)
    if wal:
        db.execute("PRAGMA journal_mode=WAL")
        db.execute("PRAGMA wal_autocheckpoint=0")
    content, memory = (
        ("claude_session_id", "sdk_session_id") if first_version else ("content_session_id", "memory_session_id")
    )
    db.execute(f"CREATE TABLE sdk_sessions ({_SESSIONS.format(content=content, memory=memory)})")
    details = (
        ""
        if first_version
        else "title TEXT, subtitle TEXT, facts TEXT, narrative TEXT, concepts TEXT, files_read TEXT, files_modified TEXT, prompt_number INTEGER, "
    )
    db.execute(
        f"CREATE TABLE observations (id INTEGER PRIMARY KEY, {memory} TEXT NOT NULL, project TEXT NOT NULL, text TEXT, type TEXT NOT NULL, {details}{_TIMES})"
    )
    db.execute(
        f"CREATE TABLE session_summaries (id INTEGER PRIMARY KEY, {memory} TEXT NOT NULL, project TEXT NOT NULL, {_PARTS}, {_TIMES})"
    )
    if not first_version:
        db.execute(
            f"CREATE TABLE user_prompts (id INTEGER PRIMARY KEY, session_db_id INTEGER, content_session_id TEXT NOT NULL, prompt_number INTEGER NOT NULL, prompt_text TEXT NOT NULL, {_TIMES})"
        )
    for number in (1, 2):
        row(
            db,
            "sdk_sessions",
            **{content: f"c{number}", memory: f"m{number}"},
            project="shop",
            user_prompt="Add login",
            started_at=DAY,
            started_at_epoch=EPOCH_MS,
        )
    if first_version:
        observation(db, 1, sdk_session_id="m1", text="The cart is stored in Redis", type="discovery")
    else:
        for id, (kind, title) in enumerate(
            (
                ("decision", "Use OAuth 2.0 for login"),
                ("bugfix", "Login loop fixed"),
                ("discovery", "Cart lives in Redis"),
                ("security_alert", "Token in log file"),
            ),
            1,
        ):
            more = {
                "subtitle": "in short",
                "narrative": f"Why: {title}",
                "facts": '["fact one"]',
                "concepts": '["how-it-works"]',
                "files_modified": '["src/login.py"]',
            }
            observation(db, id, memory_session_id="m1" if id < 4 else "m2", type=kind, title=title, **more)
        row(
            db,
            "user_prompts",
            session_db_id=1,
            content_session_id="c1",
            prompt_number=1,
            prompt_text="Add login with OAuth",
            created_at=DAY,
            created_at_epoch=EPOCH_MS,
        )
    row(
        db,
        "session_summaries",
        **{memory: "m1"},
        project="shop",
        request="Add login",
        learned="OAuth needs PKCE",
        next_steps="Rotate keys",
        created_at=DAY,
        created_at_epoch=EPOCH_MS + 9000,
    )
    db.commit()
    if not wal:
        db.close()
    return db


def observation(db: sqlite3.Connection, id: int, **values: Any) -> None:
    row(db, "observations", id=id, project="shop", created_at=DAY, created_at_epoch=EPOCH_MS + 1000 * id, **values)


def row(db: sqlite3.Connection, table: str, **values: Any) -> None:
    places = ", ".join("?" * len(values))
    db.execute(f"INSERT INTO {table} ({', '.join(values)}) VALUES ({places})", tuple(values.values()))


# -- mem0


def mem0_history(path: Path) -> None:
    db = sqlite3.connect(path)
    db.execute(
        "CREATE TABLE history (id TEXT PRIMARY KEY, memory_id TEXT, old_memory TEXT, new_memory TEXT, event TEXT, created_at DATETIME, updated_at DATETIME, is_deleted INTEGER, actor_id TEXT, role TEXT)"
    )
    rows = [
        ("1", "a", None, "Likes tea", "ADD", "2026-01-05T02:00:00-08:00", None, 0),
        ("2", "b", None, "Lives in Rome", "ADD", DAY, None, 0),
        (
            "3",
            "a",
            "Likes tea",
            "Likes green tea",
            "UPDATE",
            "2026-01-05T02:00:00-08:00",
            "2026-01-06T02:00:00-08:00",
            0,
        ),
        ("4", "b", "Lives in Rome", None, "DELETE", DAY, None, 1),
    ]
    names = ("id", "memory_id", "old_memory", "new_memory", "event", "created_at", "updated_at", "is_deleted")
    for values in rows:
        row(db, "history", **dict(zip(names, values, strict=True)))
    db.commit()
    db.close()


MEM0 = {
    "results": [
        {
            "id": "a",
            "memory": "Likes green tea",
            "hash": "x",
            "metadata": {"source": "chat"},
            "created_at": DAY,
            "updated_at": None,
            "user_id": "ada",
        },
        {
            "id": "c",
            "memory": "Prefers short answers",
            "categories": ["user_preferences"],
            "created_at": DAY,
            "user_id": "ada",
        },
    ]
}
OPENMEMORY = {
    "user": {"user_id": "ada"},
    "categories": [{"id": "k1", "name": "travel"}],
    "memories": [
        {
            "id": "d",
            "content": "Flies to Oslo in May",
            "metadata": {},
            "state": "active",
            "created_at": DAY,
            "category_ids": ["k1"],
        },
        {"id": "e", "content": "Old", "state": "deleted", "created_at": DAY},
    ],
}


# -- notes

VAULT = {
    ".obsidian/app.json": "{}",
    ".obsidian/templates.json": '{"folder": "Blueprints"}',
    ".trash/old.md": "old\n",
    "Blueprints/meeting.md": "# {{title}}\n\nattendees\n",
    "Templates/day.md": "attendees\n",
    "Projects/Auth.md": """---
title: Auth design
tags: [security, oauth/flows]
aliases:
  - login
created: 2026-01-05
---
Tokens are described in [[Tokens|the other note]], not in [[Nowhere]]. #review

## Decisions
- Use OAuth 2.0 with PKCE

## Open questions
- [ ] Who rotates the keys?
- [x] Where are the keys?

## Risk of replay
```sh
# no heading
```
Replay is prevented by a nonce.
""",
    "Tokens.md": "Tokens live 15 minutes. See [auth](Projects/Auth.md).\n",
    "Drawing.md": "---\nexcalidraw-plugin: parsed\n---\n{}\n",
}
CLAUDE_MD = """# Shop

## Overview
A web shop in Django.

## Style
- Use tabs
- Never mock the database
  because it hid a bug

<!-- >>> smp, for Claude Code -->
- also not a rule
<!-- <<< smp -->

<claude-mem-context>
# Recent Activity
- not a rule
</claude-mem-context>
"""
RULES = {
    "CLAUDE.md": CLAUDE_MD,
    "AGENTS.md": "Run the linter before each commit.\n",
    ".cursorrules": "Answer in English.\n",
    ".cursor/rules/ts.mdc": "---\ndescription: TypeScript\nglobs: src/**/*.ts, *.tsx\nalwaysApply: false\n---\n- Prefer unknown to any\n",
    ".github/copilot-instructions.md": "- Write docstrings\n",
    "GEMINI.md": "- Keep functions short\n",
}
BASIC_MEMORY = {
    "design/Coffee.md": """---
title: Coffee brewing
type: note
permalink: design/coffee-brewing
tags:
- coffee
created: 2026-01-05
---
# Coffee brewing

Notes on methods.

## Observations
- [method] Pour over gives clear flavour #brewing (from a friend)
- [decision] Grind at 18 clicks
- [issue] Kettle leaks
- [00:01:30] not a category
- [ ] buy filters

## Relations
- requires [[Good water]] (soft)
- "relates to" [[Nowhere]]
""",
    "Good water.md": "---\ntitle: Good water\n---\nSoft water is best.\n",
}

# -- logs of the original design

LOG = """# Conversation History
**Session:** session-2026-01-11-abc123
**Started:** 2026-01-11 14:30:00 UTC
**Participants:** user-123, bmad-master, veritas

---

## Turn 1 - 2026-01-11 14:30:00
**Speaker:** user
**Type:** message

Let's review the authentication requirements.

---

## Turn 2 - 2026-01-11 14:30:30
**Speaker:** veritas
**Type:** message
**Memory-Refs:** [FIND-001, FIND-002]

I found two concerns:

1. **CRITICAL:** No MFA [FIND-001]

**Memory Stored:**
- Finding: Missing MFA requirement [FIND-001]
- Finding: Missing session timeout [FIND-002]

---

<!-- Conversation continues... -->
"""
FINDINGS = """findings:
  - id: "FIND-001"
    timestamp: "2026-01-11T14:30:30Z"
    discovered_by: "veritas"
    severity: "critical"
    finding: "No MFA requirement specified"
    resolution:
      status: "resolved"
      resolved_by: "user"
    tags: ["security", "mfa"]
    decay:
      priority: 0.8
"""
STATE = """agent_state:
  agent_id: "veritas"
  last_updated: "2026-01-11T16:45:00Z"
  current_context:
    current_task: "verify_requirements"
  decay:
    priority: 0.95
"""
MEMORY_JSONL = [
    {"type": "entity", "name": "Ada", "entityType": "person", "observations": ["likes tea", "plays chess"]},
    {"type": "relation", "from": "Ada", "to": "Acme", "relationType": "works at"},
]


def json_lines(values: list[Any]) -> str:
    return "".join(json.dumps(value) + "\n" for value in values)
