"""Writes the examples and tables of the docs, from the code itself: `python docs/make_examples.py`.

What stands between `<!-- example NAME -->` and `<!-- end example -->` in a document is replaced by what the code does
now. The stores live in this process and their clock is set by hand, so the same code gives the same text.
`tests/test_docs.py` fails when a document is out of date.
"""

from __future__ import annotations

import io
import json
import os
import re
import sys
from collections.abc import Callable, Iterable, Iterator
from datetime import UTC, datetime, timedelta
from typing import Any
from unittest import mock

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(os.path.dirname(HERE), "src"))  # the code beside these docs, installed or not

import smp_memory  # noqa: E402
from smp_memory.config.schema import SETTINGS, Setting  # noqa: E402
from smp_memory.files.disk import Disk  # noqa: E402
from smp_memory.files.layouts import NAMES, layout_named  # noqa: E402
from smp_memory.files.layouts.layout import OVERVIEW_FILES  # noqa: E402
from smp_memory.files.memory_system import MemorySystem  # noqa: E402
from smp_memory.integrations.hooks.preview import preview_hook  # noqa: E402
from smp_memory.integrations.store_metrics import STORE  # noqa: E402
from smp_memory.model.entry import PUT, Entry  # noqa: E402
from smp_memory.model.types import COMMON_FIELDS, KINDS  # noqa: E402
from smp_memory.observe import telemetry  # noqa: E402
from smp_memory.privacy import fence  # noqa: E402
from smp_memory.store.tidy import write_overviews  # noqa: E402
from smp_memory.testing import fixed_uids  # noqa: E402

DOCUMENTS = (
    "docs/concepts.md",
    "docs/FORMAT.md",
    "docs/observability.md",
    "docs/agents.md",
    "docs/configuration.md",
    "docs/guides/claude-code.md",
    "docs/hooks.md",
    "docs/health.md",
)
SESSION = "checkout-review"
_MARKS = re.compile(r"(<!-- example ([\w.-]+) -->\n).*?(<!-- end example -->)", re.DOTALL)


class Clock:
    """Moves only when told to."""

    def __init__(self) -> None:
        self.now = datetime(2026, 1, 31, 14, 30, tzinfo=UTC)

    def __call__(self) -> datetime:
        return self.now

    def pass_seconds(self, seconds: int) -> None:
        self.now += timedelta(seconds=seconds)


def tell(layout: str) -> tuple[MemorySystem, smp_memory.Memory]:
    """One small session, the same in every layout."""
    clock, system = Clock(), MemorySystem()
    memory = smp_memory.open(":memory:", layout=layout, clock=clock, system=system)
    session = memory.create_session(
        SESSION, user="ada", agents=["architect", "veritas"], project="shop", tags=["checkout"], phase="review"
    )
    for step in _steps(session):
        clock.pass_seconds(20)
        step()
    memory.store.refresh_written()  # as `close` does
    return system, memory


def _steps(session: smp_memory.SessionMemory) -> list[Callable[[], Any]]:
    return [
        lambda: session.add_turn("user", "How do customers log in?"),
        lambda: session.add_turn(
            "assistant",
            "A heading or a rule in a message is only text:\n\n## Turn 9 - 2026-01-31 14:00:00\n---\nNothing is lost.",
            author="architect",
        ),
        lambda: session.add_decision(
            "Use OAuth 2.0",
            rationale="Standard, supports single sign-on.\nEvery client library knows it.",
            alternatives_considered=["Own passwords", "Magic links"],
            author="architect",
            tags=["auth", "security.login"],
        ),
        lambda: session.add_finding("Login has no rate limit", severity="high", category="security", author="veritas"),
        lambda: session.add_preference("response_style", "concise", author="ada"),
        lambda: session.update_agent_state("veritas", {"task": "review", "checked": ["login", "cart"]}),
        lambda: session.add_artifact("plan.md", "# Plan\n\n1. Rate limit\n2. MFA\n", author="architect"),
        lambda: _in_one_transaction(session),
        lambda: session.update("DEC-0001", rationale="Standard, supports single sign-on.", importance=0.9, by="ada"),
        lambda: session.delete("TURN-0001", "typed by mistake", by="ada"),
        lambda: session.restore("TURN-0001", by="ada"),
    ]


def _in_one_transaction(session: smp_memory.SessionMemory) -> None:
    with session.transaction() as transaction:
        decision = transaction.add_decision("Five attempts a minute", author="architect")
        transaction.relate(decision, "FIND-0001", "resolves", by="architect")
        transaction.resolve("FIND-0001", "Rate limit added", by="architect")


# -- what a document shows


def files_of(system: MemorySystem, folder: str) -> Iterator[str]:
    """The paths below a folder, but not those of SMP's private folders and of overviews."""
    for name in sorted(system.listdir(folder)):
        path = f"{folder}/{name}"
        if name in (".smp", "indexes"):
            continue
        if system.lstat(path).st_mode & 0o040000:
            yield from files_of(system, path)
        else:
            yield path


def text_of(system: MemorySystem, path: str) -> str:
    descriptor = system.open(path, os.O_RDONLY)
    try:
        return system.pread(descriptor, 1 << 20, 0).decode()
    finally:
        system.close(descriptor)


def _language(path: str) -> str:
    return {".md": "markdown", ".yaml": "yaml", ".json": "json", ".jsonl": "json"}[os.path.splitext(path)[1]]


def whole_store(layout: str) -> str:
    """Every file of the example store, one after the other."""
    system, memory = tell(layout)
    with memory:
        parts = []
        for path in files_of(system, memory.root):
            shown = path.removeprefix(memory.root + "/")
            parts.append(f"`{shown}`\n\n````{_language(path)}\n{text_of(system, path)}````\n")
        return "\n".join(parts)


def one_file(layout: str, name: str, *, tidy: bool = False) -> str:
    system, memory = tell(layout)
    if tidy:
        memory.session(SESSION).tidy()
    with memory:
        path = next(path for path in files_of(system, memory.root) if path.endswith("/" + name))
        return f"````{_language(path)}\n{text_of(system, path)}````\n"


def overviews() -> str:
    """The files that a session in the layout `markdown` has for its readers."""
    system, memory = tell("markdown")
    with memory:
        session = memory.session(SESSION)
        write_overviews(Disk(system), session.folder, session.records())
        names = [f"indexes/{name}" for name in OVERVIEW_FILES]
        texts = [text_of(system, f"{session.folder}/{name}") for name in names]
        return "\n".join(f"`{name}`\n\n````yaml\n{text}````\n" for name, text in zip(names, texts, strict=True))


def session_folder(layout: str) -> str:
    system, memory = tell(layout)
    with memory:
        folder = memory.session(SESSION).folder
        paths = [path.removeprefix(memory.root + "/") for path in files_of(system, folder)]
        return "```text\n" + "".join(f"{path}\n" for path in paths) + "```\n"


def context() -> str:
    """What an agent would have in its prompt."""
    _, memory = tell("jsonl")
    with memory:
        session = memory.session(SESSION)
        session.add_finding("Passwords are logged", severity="critical", author="veritas", recommendation="Mask them")
        memory.global_memory.set_preference("language", "English")
        with mock.patch.object(fence, "new_nonce", return_value="1f2e3d4c"):  # a random number otherwise
            return f"```text\n{session.context('veritas', task='review OAuth and the login attempts')}\n```\n"


def digest() -> str:
    """What an agent is told when a session starts."""
    _, memory = tell("jsonl")
    with memory, mock.patch.object(fence, "new_nonce", return_value="1f2e3d4c"):
        return f"```text\n{memory.context()}\n```\n"


def prompt() -> str:
    """What a hook tells at a prompt, and what it points at."""
    with smp_memory.open(":memory:", clock=Clock()) as memory:
        session = memory.create_session("claude-code-2026-01-30-5f0c1a7e")
        session.add_decision(
            "Login allows five attempts a minute, then answers 429 with Retry-After",
            rationale="Clients back off by themselves",
            author="architect",
        )
        session.add_decision("Sign-in goes through OAuth 2.0 with PKCE", author="architect")
        session.add_learning("src/auth/limits.py is generated: change limits.toml", author="veritas")
        session.add_finding("Orders are accepted twice", severity="critical", author="veritas")
        with mock.patch.object(fence, "new_nonce", return_value="1f2e3d4c"):
            shown = preview_hook(memory, "prompt", prompt="Add a setting for the limit of our login attempts")
        return f"```text\n{shown.text}\n```\n"


CHAPTERS = {
    "": "The store",
    "concurrency": "Locks",
    "storage": "Size of sessions and memories",
    "search": "Search",
    "privacy": "Redaction",
    "context": "Contexts",
    "decay": "Fading",
    "compaction": "Compaction",
    "lifecycle": "Life of sessions",
    "maintenance": "Maintenance",
    "health": "Health",
    "recall": "Recall",
    "hooks": "Hooks",
    "retention": "Retention",
}
EXAMPLE_VALUES = {
    "search.embedder": "my_models:embed",
    "privacy.redaction.off": "email,phone",
    "privacy.redaction.patterns": '[{"type": "ticket", "regex": "TICKET-[0-9]+"}]',
    "privacy.redaction.replacement": "[REMOVED:{kind}]",
    "storage.warning_percent": "70",
    "storage.critical_percent": "90",
    "recall.min_relevance": "0.8",
    "copy_of": '{"store": "ab", "address": "laptop:/memory", "session": "cd", "seq": 3, "checksum": "sha256:ef"}',
}


def settings_table() -> str:
    """Every setting, in chapters by the first part of its name, with an example that differs from the default."""
    chapters: dict[str, list[Setting]] = {}
    for each in SETTINGS:
        first, dot, _ = each.path.partition(".")
        chapters.setdefault(CHAPTERS.get(first if dot else "", first), []).append(each)
    lines: list[str] = []
    for title, settings in chapters.items():
        lines += [
            f"### {title}\n",
            "| setting | default | meaning | allowed | in the environment |",
            "|---|---|---|---|---|",
        ]
        lines += [*map(_setting_row, settings), ""]
    return "\n".join(lines)


def _setting_row(setting: Setting) -> str:
    where = " For the whole store; set by `smp init` and `smp convert`." if setting.store_wide else ""
    example = f"{setting.variable}={example_value(setting)}"
    default = json.dumps(setting.default, ensure_ascii=False)
    return f"| `{setting.path}` | `{default}` | {setting.doc}{where} | {setting.check.allowed} | `{example}` |"


def example_value(setting: Setting) -> str:
    """A value in the form of the environment: not the default, where another one is allowed."""
    default = setting.default
    if setting.path in EXAMPLE_VALUES:
        return EXAMPLE_VALUES[setting.path]
    if isinstance(default, bool):
        return str(not default).lower()
    if isinstance(default, str):
        return next(word for word in setting.check.allowed.removeprefix("one of ").split(", ") if word != default)
    candidates = [default * 2, default / 2, 0.2, 1, default]
    tidy = (int(value) if float(value).is_integer() else round(value, 3) for value in candidates)
    return str(
        next(value for value in tidy if setting.check.accepts(value) and (value != default or setting.store_wide))
    )


def metrics_table(metrics: Iterable[telemetry.Metric]) -> str:
    """The metrics that Prometheus gets, with the help text that it gets."""
    lines = ["| metric | type | labels | meaning |", "|---|---|---|---|"]
    for each in metrics:
        labels = ", ".join(f"`{label}`" for label in each.labels)
        lines.append(f"| `{each.name}` | {each.kind} | {labels} | {each.help} |".replace("|  |", "| |"))
    return "\n".join(lines) + "\n"


def fields_table() -> str:
    """Every field that has another name on input or in a layout."""
    lines = [
        f"| type | SMP's name | other names on input | {' | '.join(NAMES)} |",
        "|---|---|---|" + "---|" * len(NAMES),
    ]
    lines.append(_row("all", "created", _columns(lambda layout: layout_named(layout).field_names.time)))
    lines.append(_row("all", "references", _columns(lambda layout: _name_in(layout, "decision", "references"))))
    for kind in KINDS.values():
        for field in kind.rank:
            names = {_name_in(layout, kind.name, field).rpartition(".")[2] for layout in NAMES}
            if names != {field} or (field not in COMMON_FIELDS and _names_on_input(kind.name, field)):
                lines.append(_row(kind.name, field, _columns(lambda layout: _name_in(layout, kind.name, field))))  # noqa: B023
    return "\n".join(lines) + "\n"


def _row(kind: str, field: str, columns: str) -> str:
    return f"| {kind} | `{field}` | {_names_on_input('decision' if kind == 'all' else kind, field)} | {columns} |"


def _name_in(layout: str, kind: str, field: str) -> str:
    """What a field is called in the files of a layout, `data.by` if it stands inside another one."""
    written = layout_named(layout).field_names.encode(Entry(PUT, kind, "id", "time", {field: "sought"}), SESSION)
    for name, value in written.items():
        if value == "sought":
            return name
        if isinstance(value, dict) and "sought" in value.values():
            return f"{name}.{next(inner for inner in value if value[inner] == 'sought')}"
    raise AssertionError(f"{layout} does not write {field}")


def _names_on_input(kind: str, field: str) -> str:
    return ", ".join(f"`{alias}`" for alias, name in KINDS[kind].aliases.items() if name == field)


def _columns(name: Callable[[str], str]) -> str:
    return " | ".join(f"`{name(layout)}`" for layout in NAMES)


def health() -> str:
    """What `smp doctor` says of the example store after some accidents."""
    from smp_memory.cli.commands.checks import doctor_lines
    from smp_memory.cli.render import Screen
    from smp_memory.privacy.fence import fence

    clock = Clock()
    with smp_memory.open(":memory:", clock=clock, config={"privacy": {"redaction": {"enabled": False}}}) as careless:
        session = careless.create_session(SESSION, project="shop")
        for step in _steps(session)[:5]:
            step()
        session.add_finding("Login has no rate limit at all", author="ada")
        session.add_finding("The key in deploy.sh is ghp_" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8", author="veritas")
        session.add_decision("Search Grace about the gateway", status="pending", references=["TURN-0042"])
        system, path = careless.store.disk.system, f"{session.folder}/learnings.jsonl"
        with_fence = json.dumps(
            {"id": "LEARN-0001", "learning": fence("Use OAuth 2.0"), "timestamp": "2026-01-31T14:30:00Z"}
        )
        Disk(system).write_new(path, f"{with_fence}\n{{half a line\n".encode())
        system.chmod(path, 0o644)
        clock.pass_seconds(120 * 86400)
        with smp_memory.open(":memory:", clock=clock, system=system) as memory:
            shown = io.StringIO()
            screen = Screen(shown)
            for line in doctor_lines(memory.doctor(), 116):
                screen.line(line)
    return f"```text\n{shown.getvalue()}```\n"


EXAMPLES: dict[str, Callable[[], str]] = {
    **{layout: (lambda layout=layout: whole_store(layout)) for layout in NAMES},
    "folder": lambda: session_folder("markdown"),
    "decisions": lambda: one_file("markdown", "decisions.yaml", tidy=True),
    "overviews": overviews,
    "fields": fields_table,
    "context": context,
    "hook": digest,
    "prompt": prompt,
    "settings": settings_table,
    "store-metrics": lambda: metrics_table(STORE),
    "process-metrics": lambda: metrics_table(telemetry.PROCESS),
    "health": health,
}


def renewed(text: str) -> str:
    """A document with its examples as the code makes them now."""

    def made(found: re.Match[str]) -> str:
        with fixed_uids():
            return f"{found[1]}\n{EXAMPLES[found[2]]()}\n{found[3]}"

    return _MARKS.sub(made, text)


def main() -> None:
    for name in DOCUMENTS:
        path = os.path.join(os.path.dirname(HERE), name)
        with open(path, encoding="utf-8") as file:
            before = file.read()
        after = renewed(before)
        if after != before:
            with open(path, "w", encoding="utf-8", newline="\n") as file:
                file.write(after)
        sys.stdout.write(f"{name}: {'written' if after != before else 'up to date'}\n")


if __name__ == "__main__":
    main()
