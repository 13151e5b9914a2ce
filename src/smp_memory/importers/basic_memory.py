"""Read the notes of basic-memory: Markdown with observations and relations.

    - [decision] Use OAuth 2.0 #security (agreed with ops)     an observation: category, text, tags, context
    - implements [[Token service]] (first version)             a relation to another note

An observation is a memory of its category: a decision, a preference, an open finding for issues, questions and the like, else a learning. A
relation is a learning such as "Auth design implements Token service", with the file of the other note as a reference if it
exists. All other text is read as `markdown_notes` reads it: section by section.

Guarantees and non-guarantees: those of `markdown_notes`. Times in brackets (`[00:01:30]`), checkboxes and links are no categories, as in basic-memory.
"""

from __future__ import annotations

import os
import re
from functools import partial
from typing import TYPE_CHECKING, Any

from smp_memory.errors import UserError
from smp_memory.importers.markdown_items import MarkdownItem, items, properties, sections
from smp_memory.importers.markdown_notes import Note, note_files, notes_by_name, offers_of_notes, type_below
from smp_memory.importers.registry import Found, json_settings
from smp_memory.importers.source import ImportFile, IngestedMemory, Source

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from smp_memory.importers.registry import ImportOptions, Places

_OBSERVATION = re.compile(r"\[([^\[\]()]{2,60})\]\s+(\S.*)", re.DOTALL)
_CLOCK = re.compile(r"[\d:., -]+")
_CONTEXT = re.compile(r"(.*\S)\s+\(([^()]+)\)", re.DOTALL)
_RELATION = re.compile(r"""(?:"([^"]+)"|'([^']+)'|([^\s\[\]"']+))\s+\[\[([^\[\]]+)\]\](?:\s+\((.*)\))?""")
_FINDINGS = ("issue", "problem", "bug", "question", "todo", "risk", "blocker", "concern", "gap", "limitation")


def found(places: Places) -> list[Found]:
    projects = _projects(places).items()
    return [offer for name, path in projects for offer in offers_of_notes(path, f"basic-memory, project {name}")]


def files(path: str | None, options: ImportOptions) -> list[ImportFile]:
    listed = [path] if path else [each for each in _projects(options.places).values() if os.path.isdir(each)]
    if not listed:
        raise UserError("There is no project of basic-memory. Give the folder with its notes.", field="path")
    result = []
    for each in listed:
        notes = note_files(each, options.store)
        reader = partial(read_note, notes=notes_by_name(notes))
        result += [file._replace(reader=reader, kind="note") for file in notes]
    if not result:
        raise UserError(f"{path} has no Markdown files.", path=path)
    return result


def _projects(places: Places) -> dict[str, str]:
    """The folders of all projects, by name, from the configuration; else the usual one."""
    folder = places.path("BASIC_MEMORY_CONFIG_DIR", ".basic-memory")
    if not os.path.isdir(folder) and places.environ.get("XDG_CONFIG_HOME"):
        folder = os.path.join(places.environ["XDG_CONFIG_HOME"], "basic-memory")
    config = json_settings(os.path.join(folder, "config.json"))
    listed = config.get("projects") if isinstance(config, dict) else None
    folders: dict[str, str] = {}
    for name, value in listed.items() if isinstance(listed, dict) else ():
        path = value.get("path") if isinstance(value, dict) else value
        if isinstance(path, str) and os.path.isabs(path):
            folders[name] = path
    return folders or {"main": places.path("BASIC_MEMORY_HOME", "basic-memory")}


def read_note(source: Source, notes: Mapping[str, str] | None = None) -> Iterator[IngestedMemory]:
    fields, _ = properties(source.text)
    note = Note(source, fields, notes or {})
    taken: set[int] = set()  # lines of observations and relations
    for item in items(source.text):
        memory = _relation(item, note) or _observation(item, note)
        type = "" if memory else type_below(item.headings)
        if memory or type:
            taken |= set(range(item.line, item.line + item.text.count("\n") + 1))
            yield memory or note.item(item, type)
    for section in sections(source.text):
        kept = [line if number not in taken else "" for number, line in enumerate(section.lines, section.line)]
        yield from note.section(section._replace(lines=kept))


def _observation(item: MarkdownItem, note: Note) -> IngestedMemory | None:
    matched = _OBSERVATION.fullmatch(item.text)
    if matched is None or _CLOCK.fullmatch(matched[1]):
        return None
    category, text = matched[1].strip(), matched[2].strip()
    context = _CONTEXT.fullmatch(text)
    if context:
        text = context[1]
    more: dict[str, Any] = {"category": category, "context": context[2] if context else None}
    return note.item(item, _type(category.lower()), text, **more)


def _type(category: str) -> str:
    if "decision" in category:
        return "decision"
    if "preference" in category:
        return "preference"
    return "finding" if any(word in category for word in _FINDINGS) else "learning"


def _relation(item: MarkdownItem, note: Note) -> IngestedMemory | None:
    matched = _RELATION.fullmatch(item.text)
    if matched is None:
        return None
    kind = matched[1] or matched[2] or matched[3]
    target = matched[4].partition("|")[0].strip()
    more = {"category": "relation", "relation": kind, "target": target, "context": matched[5] or None}
    return note.item(item, "learning", f"{note.title} {kind.replace('_', ' ')} {target}", **more)
