"""Read Markdown notes: a folder of Obsidian or of plain files, and the instructions of coding agents.

Instructions (`CLAUDE.md`, `AGENTS.md`, `GEMINI.md`, `.cursorrules`, `.cursor/rules/*.mdc`, `copilot-instructions.md`, …) are read item by
item: each rule is a preference with its heading as topic; below headings such as "Overview" or "Architecture" an item is a learning.

Notes are read section by section: each section is a learning that follows its file, with the title of the note as topic. Items below a
heading "Decisions", "Preferences", "Open questions", "To do" or "Lessons learned" are memories of that type. Tags come from the front
matter and from `#tag` in the text; links that lead to another note are references to its file; the date comes from the front matter or
from the name of a daily note.

Guarantees: read-only; links of the file system are not followed; the settings, the trash, templates and drawings of Obsidian, and folders
of tools and packages are not entered. What SMP or claude-mem wrote into a file of instructions is left out. The order is deterministic.
Non-guarantee: a section that was removed from its file, or a rule that was reworded there, stays as it was imported.
"""

from __future__ import annotations

import os
import posixpath
import re
from functools import partial
from typing import TYPE_CHECKING, Any

from smp_memory.errors import UserError
from smp_memory.importers.markdown_items import MarkdownItem, Section, date_in, first_title, items, properties, sections
from smp_memory.importers.registry import Found, found_files, json_settings
from smp_memory.importers.source import ImportFile, IngestedMemory, Source
from smp_memory.importers.values import tags_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from smp_memory.importers.registry import ImportOptions, Places

_TITLES = ("title", "name")
_DATES = ("created", "created_at", "date", "date created", "creation-date")
_BY_HEADING = (  # whole headings, because a section on risks is not a list of open risks
    (re.compile(r"(key |main |our )?decisions?( log| made| record)?"), "decision"),
    (re.compile(r"(my |user |user's |team )?preferences?"), "preference"),
    (re.compile(r"(open |unresolved )(questions?|issues?|items?|points?|tasks?)|to-?\s?dos?|action items?|next steps?|blockers?|questions?"), "finding"),
    (re.compile(r"(lessons?( learn(ed|t))?|learnings?|takeaways?|insights?|what (i|we) learn(ed|t))"), "learning"),
)  # fmt: skip
_FACTS = re.compile(
    r"\b(overview|architecture|structure|background|about|glossary|layout|stack|history|introduction|description"
    r"|repository|directories|folders|files|commands?|environment|resources|references|links)\b"
)
_TAG = re.compile(r"(?<![\w#&/\[(])#((?:\w|[-/])*[^\W\d](?:\w|[-/])*)")
_WIKILINK = re.compile(r"\[\[([^\[\]|#^]+)(?:[#^|][^\[\]]*)?\]\]")
_LINK = re.compile(r"\]\(<?([^()<>#\s]+\.md)(?:#[^()\s]*)?>?\)")
_CODE = re.compile(r"```.*?(?:```|\Z)|~~~.*?(?:~~~|\Z)|`[^`\n]*`", re.DOTALL)
_GENERATED = tuple(
    (re.compile(rf"{begin}.*?{end}", re.DOTALL))
    for begin, end in (
        (r"<!-- >>> smp\b", r"<!-- <<< smp -->"),
        (r"<claude-mem-context>", r"</claude-mem-context>"),
    )
)
_MOST_CHARACTERS = 6000  # of a section in one memory


# -- instructions of coding agents


def read_instructions(source: Source) -> Iterator[IngestedMemory]:
    """Rules, item by item."""
    fields, _ = properties(source.text)
    applies_to = [name for value in fields.get("globs", fields.get("applyTo", [])) for name in value.split(",") if name]
    text = without_generated(source.text)
    found = False
    for item in items(text):
        found = True
        yield _rule(item, source.name, [name.strip() for name in applies_to])
    if text.strip() and not found:
        source.cannot_read(1, "no rules: neither list items nor paragraphs")


def _rule(item: MarkdownItem, name: str, applies_to: list[str]) -> IngestedMemory:
    type = "learning" if _FACTS.search(item.heading.lower()) else "preference"
    topic = item.heading or posixpath.basename(name).rpartition(".")[0] or posixpath.basename(name)
    fields = {type: item.text, "category": "instructions", "topic": topic, "tags": ["instructions"]}
    if applies_to and type == "preference":
        fields["applies_to"] = applies_to
    return IngestedMemory(type, fields, item.line, f"{type} {item.text}")


def without_generated(text: str) -> str:
    """The text without blocks that SMP or claude-mem wrote; its lines keep their numbers."""
    for block in _GENERATED:
        text = block.sub(lambda found: "\n" * found[0].count("\n"), text)
    return text


# -- notes


def read_note(source: Source, notes: Mapping[str, str] | None = None) -> Iterator[IngestedMemory]:
    """Sections and items of a note. `notes` has the files of all notes by their name in lower case."""
    fields, _ = properties(source.text)
    if "excalidraw-plugin" in fields:
        source.leave_out("a drawing of Excalidraw")
        return
    note = Note(source, fields, notes or {})
    for item in items(source.text):
        if type := type_below(item.headings):
            yield note.item(item, type)
    for section in sections(source.text):
        if not type_below(section.headings):
            yield from note.section(section)


def type_below(headings: tuple[str, ...]) -> str:
    """The type of the items below these headings; empty if it is a section of prose."""
    for heading in reversed(headings):
        words = heading.strip(" :*_").lower()
        for pattern, type in _BY_HEADING:
            if pattern.fullmatch(words):
                return type
    return ""


class Note:
    """What all memories of a note have in common."""

    def __init__(self, source: Source, fields: dict[str, list[str]], notes: Mapping[str, str]) -> None:
        self._source = source
        self._notes = notes
        stem = posixpath.basename(source.name).removesuffix(".md")
        stated = (fields[name][0] for name in _TITLES if fields.get(name))
        self.title = next(stated, "") or first_title(source.lines) or stem
        self._tags = [
            tag for value in fields.get("tags", fields.get("tag", [])) for tag in value.replace(",", " ").split()
        ]
        self._aliases = fields.get("aliases", fields.get("alias", []))
        dates = (date_in(fields[name][0]) for name in _DATES if fields.get(name))
        self._when = next(filter(None, dates), None) or date_in(stem)
        self._is_first = True

    def item(self, item: MarkdownItem, type: str, text: str = "", **more: Any) -> IngestedMemory:
        """A memory of one item; `text` instead of the whole of it."""
        fields = {**self.common(item.text), type: self.named(text or item.text), "section": item.heading or None}
        if type == "finding":
            fields |= {"category": "note", "status": "resolved" if item.checked else "open"}
        fields |= more
        when = date_in(item.text[:24]) or self._when
        follows = "status" if type == "finding" else ""
        return IngestedMemory(type, fields, item.line, f"{type} {item.text}", when, follows)

    def section(self, section: Section) -> Iterator[IngestedMemory]:
        title = section.headings[-1] if section.headings else ""
        for number, (text, line) in enumerate(_parts(section)):
            fields = {**self.common(text), "learning": self.named(text, title), "category": "note"}
            if title and title != self.title:
                fields["section"] = title
            key = "\n".join((*section.headings, f"part {number}"))
            yield IngestedMemory("learning", fields, line, key, self._when, "learning")

    def named(self, text: str, section: str = "") -> str:
        """A text with the title of its note and section before it, because a memory is read without its note."""
        if text.startswith(self.title) or type_below((self.title,)):
            return text
        names = f"{self.title}, {section}" if section and section != self.title else self.title
        return f"{names}:\n{text}" if "\n" in text else f"{names}: {text}"

    def common(self, text: str) -> dict[str, Any]:
        plain = _CODE.sub(" ", text)
        fields: dict[str, Any] = {"topic": self.title, "tags": tags_of([*self._tags, *_TAG.findall(plain)])}
        references = self._references(plain)
        if references:
            fields["references"] = references
        if self._is_first and self._aliases:
            fields["aliases"] = self._aliases
        self._is_first = False
        return fields

    def _references(self, text: str) -> list[str]:
        """The files of the notes that a text links to; a link that leads nowhere stays in the text alone."""
        names = [found.strip().removesuffix(".md") for found in _WIKILINK.findall(text)]
        names += [found.replace("%20", " ").removesuffix(".md") for found in _LINK.findall(text)]
        files = [self._notes.get(name.lower()) or self._notes.get(posixpath.basename(name).lower()) for name in names]
        return _unique([file for file in files if file and file != self._source.name])


def _parts(section: Section) -> Iterator[tuple[str, int]]:
    """The text of a section and its line; a long one in parts that end at a blank line."""
    lines: list[str] = []
    size, line = 0, section.line
    for number, text in enumerate(section.lines, section.line):
        if size > _MOST_CHARACTERS and not text.strip():
            yield "\n".join(lines).strip(), line
            lines, size = [], 0
        if not lines:
            line = number
        if lines or text.strip():
            lines.append(text)
            size += len(text) + 1
    if lines:
        yield "\n".join(lines).strip(), line


def _unique(values: list[str]) -> list[str]:
    return list(dict.fromkeys(value for value in values if value))


# -- files

_INSTRUCTIONS = frozenset(
    ["claude.md", "claude.local.md", "agents.md", "agent.md", "gemini.md", "copilot-instructions.md", ".cursorrules", ".windsurfrules", ".clinerules", ".goosehints"]
)  # fmt: skip
_RULE_FOLDERS = (
    ".cursor/rules",
    ".windsurf/rules",
    ".clinerules",
    ".claude/rules",
    ".github/instructions",
    ".kiro/steering",
)
_ENTERED_HIDDEN = frozenset((".cursor", ".windsurf", ".clinerules", ".claude", ".github", ".kiro"))
_NOT_ENTERED = frozenset(
    [
        "node_modules",
        "__pycache__",
        "venv",
        "env",
        "dist",
        "build",
        "target",
        "vendor",
        "templates",
        "_templates",
        "template",
    ]
)
_ROOT_MARKS = (".obsidian", ".git")
_MAX_FILES = 200_000


def found(places: Places) -> list[Found]:
    """The instructions of the project and of the user, what Claude Code noted about the project, and the vaults of Obsidian."""
    single = [("instructions of this project", file.path) for file in _instructions_in(places.project)]
    single += [("your own instructions", path) for path in _own_instructions(places)]
    offers = [
        offer for title, path in single for offer in found_files(path, f"{title}, {os.path.basename(path)}", [path])
    ]
    return [*offers, *(offer for title, folder in _folders(places) for offer in offers_of_notes(folder, title))]


def offers_of_notes(folder: str, title: str) -> list[Found]:
    """One offer for the notes in a folder; none if it does not exist or is too large."""
    try:
        return found_files(folder, title, [file.path for file in note_files(folder)] if os.path.isdir(folder) else [])
    except UserError:
        return []


def files(path: str | None, options: ImportOptions) -> list[ImportFile]:
    listed = note_files(path, options.store) if path else _instructions_in(options.places.project)
    if not listed:
        where = path or options.places.project
        what = "Markdown files" if path else "CLAUDE.md, AGENTS.md or other instructions; give a folder of notes"
        raise UserError(f"{where} has no {what}.", path=where)
    return listed


def _instructions_in(project: str) -> list[ImportFile]:
    """The instructions in the folder of a project itself, not those deeper in it."""
    places = [project, *(os.path.join(project, *folder.split("/")) for folder in (".github", *_RULE_FOLDERS))]
    walked = (next(os.walk(folder), (folder, [], [])) for folder in places)  # a folder that cannot be read has no files
    listed = [os.path.join(folder, name) for folder, _, names in walked for name in names]
    return [
        file
        for path in sorted(listed)
        if os.path.isfile(path) and is_instructions(path.replace(os.sep, "/"))
        for file in note_files(path)
    ]


def _own_instructions(places: Places) -> list[str]:
    return [
        os.path.join(places.path("CLAUDE_CONFIG_DIR", ".claude"), "CLAUDE.md"),
        os.path.join(places.path("CODEX_HOME", ".codex"), "AGENTS.md"),
        os.path.join(places.home, ".gemini", "GEMINI.md"),
    ]


def _folders(places: Places) -> list[tuple[str, str]]:
    slug = re.sub(r"[^A-Za-z0-9]", "-", os.path.abspath(places.project))
    claude = os.path.join(places.path("CLAUDE_CONFIG_DIR", ".claude"), "projects", slug, "memory")
    return [("Claude Code's notes on this project", claude), *(("Obsidian", folder) for folder in _vaults(places))]


def _vaults(places: Places) -> list[str]:
    """The folders that Obsidian knows."""
    if places.platform == "darwin":
        settings = os.path.join(places.home, "Library", "Application Support")
    elif places.platform == "win32":
        settings = places.path("APPDATA", "AppData", "Roaming")
    else:
        settings = places.path("XDG_CONFIG_HOME", ".config")
    known = json_settings(os.path.join(settings, "obsidian", "obsidian.json"))
    vaults = known.get("vaults") if isinstance(known, dict) else None
    listed = (
        [each.get("path") for each in vaults.values() if isinstance(each, dict)] if isinstance(vaults, dict) else []
    )
    return [path for path in listed if isinstance(path, str) and os.path.isdir(path)]


def is_instructions(name: str) -> bool:
    """Whether a file, by its path with slashes, has rules for a coding agent."""
    base = posixpath.basename(name).lower()
    below = any(f"/{folder}/" in f"/{name.lower()}" for folder in _RULE_FOLDERS)
    return base in _INSTRUCTIONS or base.endswith(".instructions.md") or (below and base.endswith((".md", ".mdc")))


def note_files(path: str, store: str | None = None) -> list[ImportFile]:
    """The files of a folder, or the one file, with their readers."""
    start = os.path.abspath(path)
    root = _root(start)
    prefix = os.path.basename(root)
    found = []
    for each in _walk(start, root, store):
        name = os.path.relpath(each, root).replace(os.sep, "/")
        found.append(
            ImportFile(each, f"{prefix}/{name}" if prefix else name, read_note, "note", prefix, has_git_times=True)
        )
    reader = partial(read_note, notes=notes_by_name(found))
    return [
        file._replace(reader=read_instructions, kind="instructions")
        if is_instructions(file.name)
        else file._replace(reader=reader)
        for file in sorted(found, key=lambda file: file.name)
    ]


def notes_by_name(files: list[ImportFile]) -> dict[str, str]:
    """The names of files by how links call them, in lower case: with or without folders; of equal names the shortest path counts."""
    notes: dict[str, str] = {}
    for name in sorted((file.name for file in files), key=lambda name: (name.count("/"), name), reverse=True):
        stem = name.removesuffix(".md").lower()
        notes[posixpath.basename(stem)] = notes[stem.partition("/")[2]] = name
    return notes


def _root(start: str) -> str:
    """The folder to which names of files are relative: the vault or repository, else the folder itself."""
    first = start if os.path.isdir(start) else os.path.dirname(start)
    for below in (*_RULE_FOLDERS, ".github"):
        first = first.removesuffix(os.sep + below.replace("/", os.sep))
    folder = first
    while True:
        if any(os.path.exists(os.path.join(folder, mark)) for mark in _ROOT_MARKS):
            return folder
        parent = os.path.dirname(folder)
        if parent == folder:
            return first
        folder = parent


def _walk(start: str, root: str, store: str | None) -> Iterator[str]:
    if not os.path.isdir(start):
        yield start
        return
    excluded = {os.path.realpath(store)} if store else set()
    excluded |= {os.path.realpath(os.path.join(root, folder)) for folder in _template_folders(root)}
    count = 0
    for folder, folders, names in os.walk(start):
        folders[:] = sorted(name for name in folders if _is_entered(os.path.join(folder, name), name, excluded))
        count += len(names)
        if count > _MAX_FILES:
            raise UserError(f"{start} has more than {_MAX_FILES:,} files; give a smaller folder.", path=start)
        below = os.path.relpath(folder, root).replace(os.sep, "/")
        is_hidden = any(part.startswith(".") and part != "." for part in below.split("/"))
        for name in sorted(names):
            if is_instructions(f"{below}/{name}") or (not is_hidden and _is_note(name)):
                yield os.path.join(folder, name)


def _is_note(name: str) -> bool:
    lower = name.lower()
    return lower.endswith((".md", ".markdown")) and not lower.startswith(".") and not lower.endswith(".excalidraw.md")


def _is_entered(path: str, name: str, excluded: set[str]) -> bool:
    if name.lower() in _NOT_ENTERED or (name.startswith(".") and name not in _ENTERED_HIDDEN):
        return False
    return not os.path.islink(path) and os.path.realpath(path) not in excluded


def _template_folders(root: str) -> list[str]:
    """The folders with templates, from the settings of Obsidian and of its plugin Templater."""
    found = []
    for file, field in (("templates.json", "folder"), ("plugins/templater-obsidian/data.json", "templates_folder")):
        settings = json_settings(os.path.join(root, ".obsidian", *file.split("/")))
        folder = settings.get(field) if isinstance(settings, dict) else None
        if isinstance(folder, str) and folder.strip("/ "):
            found.append(folder.strip("/ "))
    return found
