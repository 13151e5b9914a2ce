"""Small projects with BMAD in them, one for each of its generations. Made up, but in BMAD's shapes."""

from __future__ import annotations

from pathlib import Path

MANIFEST = "installation:\n  version: {version}\nmodules:\n  - name: core\n    version: {version}\n  - name: bmm\nides:\n  - claude-code\n"
SKILLS = '''canonicalId,name,description,module,path
"bmad-agent-architect","bmad-agent-architect","An architect, ""calm""","bmm","_bmad/bmm/bmad-agent-architect/SKILL.md"
"bmad-party-mode","bmad-party-mode","A party","core","_bmad/core/bmad-party-mode/SKILL.md"
"bmad-spec","bmad-spec","A spec","bmm","_bmad/bmm/bmad-spec/SKILL.md"
"bmad-help","bmad-help","Help","core","_bmad/core/bmad-help/SKILL.md"
'''
LISTS = "activation_steps_prepend = []\nactivation_steps_append = []\npersistent_facts = []\n"

MEMLOG = """---
topic: Login
goal: fewer passwords
updated: 2026-03-01T10:30
---

- (decision by pm) use OAuth 2.0
- (question) who pays for single sign-on?
- (insight) people forget passwords on Mondays
- (idea by user) a magic link
- (event) session complete
- a plain note
- (by coach) keep it short
- (see the appendix) not a label
"""
SPRINT = """# generated: 05-06-2025 21:30
generated: 05-06-2025 21:30
last_updated: 05-07-2025 09:00
project: Shop
development_status:
  epic-1: in-progress
  1-1-login: done
  1-2-cart: backlog

action_items:
  - epic: 1
    action: "Add error handling to the checklist"
    owner: "Charlie"
    status: open
    id: epic-1-retro-item-1-add
  - epic: 1
    action: "Pin the database version"
    owner: "Dana"
    status: done
"""
RETRO = """---
epic: 1
date: 2026-03-02
verdict: accepted-with-open-items
criteria: declared
headless: false
---

# Epic 1 retrospective

## Epic summary

Login and cart were built.

## Findings

- God class in `cart.py` grew to 900 lines (cart.py:12). Disposition: fix now
- Two date formats (a.py:3). Disposition: accept as-is

## Action items

- Add error handling to the checklist (owner: Charlie)

## Lessons learned

- Small stories review faster.

## Acceptance verdict

Criteria were met; one finding is deferred.

## Open questions

- Is the cart needed offline?
"""
STORY = """# Story 1.1: Login

## Status

Done

## Story

**As a** customer, **I want** to log in.

## Dev Agent Record

### Agent Model Used

Some model 4

### Debug Log References

- Token refresh raced with logout

### Completion Notes List

- Sessions are kept in Redis
- {{nothing here}}

### File List

- src/login.py

## QA Results

### Review

- No rate limit on login
- [ ] Add a test for lockout
"""
SIDECAR = """# Tech writer memories

## User preferences

- Short sentences, please

## Decisions

- 2026-01-15: one README for each package

## Notes

Diagrams are
kept in Mermaid.

<!-- a comment -->
- None
"""


def put(root: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text.encode())
    return root


def v4(root: Path) -> Path:
    return put(
        root,
        {
            ".bmad-core/core-config.yaml": "markdownExploder: true\ndevDebugLog: .ai/debug-log.md\ndevStoryLocation: docs/stories\n",
            ".bmad-core/install-manifest.yaml": "version: 4.44.3\n",
            ".ai/debug-log.md": "# Debug Log\n\n| Task | File | Change | Reverted? |\n|---|---|---|---|\n| 1.1 | login.py | print of the token | no |\n",
            "docs/stories/1.1.login.md": STORY,
        },
    )


def alpha(root: Path, home: str = "bmad") -> Path:
    return put(
        root,
        {
            f"{home}/_cfg/manifest.yaml": MANIFEST.format(version="6.0.0-alpha.7"),
            f"{home}/bmm/agents/sage-sidecar/memories.md": "# Memories\n\n- The user is Ada\n",
            f"{home}/bmm/agents/sage-sidecar/instructions.md": "# Instructions\n\nBe kind.\n",
        },
    )


def plain(root: Path) -> Path:
    return put(
        root,
        {
            "_bmad/_config/manifest.yaml": MANIFEST.format(version="6.0.4"),
            "_bmad/_config/agent-manifest.csv": "name,displayName\n",
            "_bmad/core/config.yaml": 'user_name: Ada\noutput_folder: "{project-root}/out"\n',
            "_bmad/_memory/tech-writer-sidecar/memories.md": SIDECAR,
            "_bmad/bmm/agents/tech-writer-sidecar/memories.md": "# A template\n\n- not a memory\n",
        },
    )


def skills(root: Path, version: str = "6.8.0") -> Path:
    return put(
        root,
        {
            "_bmad/_config/manifest.yaml": MANIFEST.format(version=version),
            "_bmad/_config/skill-manifest.csv": SKILLS,
            "_bmad/config.toml": '[core]\noutput_folder = "_bmad-output"\n',
            "_bmad/custom/config.toml": "# of the team\n",
            "_bmad/scripts/resolve_customization.py": "",
            ".claude/skills/bmad-agent-architect/customize.toml": f'[agent]\nname = "Winston"\n{LISTS}',
            ".claude/skills/bmad-agent-architect/SKILL.md": "# Winston\n",
            ".claude/skills/bmad-party-mode/customize.toml": f"[workflow]\n{LISTS}",
            ".claude/skills/bmad-party-mode/SKILL.md": "# Party\n",
            ".claude/skills/bmad-party-mode/references/party-memory.md": "uv run {project-root}/_bmad/scripts/memlog.py append\n",
            ".claude/skills/bmad-spec/customize.toml": f"[workflow]\n{LISTS}",
            ".claude/skills/bmad-spec/SKILL.md": "`_bmad/scripts/memlog.py init`\n",
            ".claude/skills/bmad-help/SKILL.md": "# Help\n",
            "_bmad-output/specs/spec-login/.decision-log.md": "# Log\n\n## 2026-02-03 Storage\n\n- Keep sessions in Redis\n",
            "_bmad/memory/sage/MEMORY.md": "# Memory\n\n- Releases go out on Tuesdays\n",
            "_bmad/memory/sage/BOND.md": "# Bond\n\n- Ada likes tables\n",
            "_bmad/memory/sage/PERSONA.md": "# Persona\n\nA sage.\n",
            "_bmad/memory/sage/sessions/2026-02-04.md": "# Session\n\nWe talked about releases.\n",
        },
    )


def newest(root: Path) -> Path:
    skills(root, "6.12.0")
    return put(
        root,
        {
            "_bmad/scripts/memlog.py": "",
            "_bmad-output/specs/spec-login/.memlog.md": MEMLOG,
            "_bmad-output/implementation-artifacts/sprint-status.yaml": SPRINT,
            "_bmad-output/implementation-artifacts/epic-1-retro-2026-03-02.md": RETRO,
            "_bmad-output/implementation-artifacts/1-1-login.md": STORY,
            ".claude/skills/bmad-sprint-planning/sprint-status.yaml": "development_status: {a: b}\n",
            "node_modules/x/.memlog.md": "---\n---\n\n- not ours\n",
        },
    )
