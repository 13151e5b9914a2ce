"""The drawings of concepts.md: boxes, arrows and words as SVG, in the colours of the reader's theme."""

from __future__ import annotations

from html import escape

STYLE = """
  svg { font: 14px system-ui, -apple-system, "Segoe UI", Roboto, "DejaVu Sans", sans-serif; }
  .paper { fill: #ffffff; } .box { fill: #f6f8fa; stroke: #8c959f; } .truth { fill: #ddf4ff; stroke: #0969da; }
  .cache { fill: #ffffff; stroke: #8c959f; stroke-dasharray: 5 4; } .end { fill: #ffebe9; stroke: #cf222e; }
  text { fill: #1f2328; } .title { font-weight: 600; } .note { fill: #59636e; font-size: 12.5px; }
  path { fill: none; stroke: #59636e; stroke-width: 1.5; } .head { fill: #59636e; stroke: none; }
  @media (prefers-color-scheme: dark) {
    .paper { fill: #0d1117; } .box { fill: #161b22; stroke: #656c76; } .truth { fill: #0c2d50; stroke: #58a6ff; }
    .cache { fill: #0d1117; stroke: #656c76; } .end { fill: #3c1618; stroke: #f85149; }
    text { fill: #e6edf3; } .note { fill: #9198a1; }
    path { stroke: #9198a1; } .head { fill: #9198a1; }
  }
"""


def box(x: int, y: int, width: int, height: int, title: str, notes: tuple[str, ...] = (), kind: str = "box") -> str:
    """A rectangle with a title and small lines below it."""
    lines = [f'<rect class="{kind}" x="{x}" y="{y}" width="{width}" height="{height}" rx="6"/>']
    lines.append(f'<text class="title" x="{x + 12}" y="{y + 23}">{escape(title)}</text>')
    lines += [
        f'<text class="note" x="{x + 12}" y="{y + 43 + 17 * index}">{escape(note)}</text>'
        for index, note in enumerate(notes)
    ]
    return "\n".join(lines)


def arrow(path: str, label: str = "", x: int = 0, y: int = 0) -> str:
    text = f'\n<text class="note" x="{x}" y="{y}">{escape(label)}</text>' if label else ""
    return f'<path d="{path}" marker-end="url(#head)"/>{text}'


def picture(width: int, height: int, title: str, parts: list[str]) -> str:
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" role="img">\n'
        f"<title>{escape(title)}</title>\n<style>{STYLE}</style>\n"
        '<defs><marker id="head" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="8" markerHeight="8" orient="auto-start-reverse">'
        '<path class="head" d="M0 0L8 4L0 8z"/></marker></defs>\n'
        f'<rect class="paper" width="{width}" height="{height}" rx="8"/>\n' + "\n".join(parts) + "\n</svg>\n"
    )


def parts_of_a_store() -> str:
    """Agents write to session files; the index is derived from them."""
    doors = ("hooks", "MCP server", "smp", "Python")
    parts = [box(20, 38 + 62 * index, 130, 40, door) for index, door in enumerate(doors)]
    parts += [
        arrow("M150 148H234", "write, read", 158, 140),
        '<rect class="box" x="236" y="20" width="404" height="270" rx="6"/>',
        '<text class="title" x="250" y="44">Store</text><text class="note" x="300" y="44">a folder, such as .bmad/memory</text>',
        box(252, 58, 372, 146, "Session checkout-review", (), "truth"),
        box(268, 92, 160, 96, "DEC-0002", ("Five tries a minute", "revision 1", "author, tags, times")),
        box(488, 92, 124, 96, "FIND-0001", ("No rate limit", "revisions 1 and 2", "resolved")),
        arrow("M428 150H486", "resolves", 433, 143),
        box(252, 216, 114, 60, "Sessions", ("one folder each",), "truth"),
        box(376, 216, 124, 60, "Archive", ("packed sessions",), "truth"),
        box(510, 216, 114, 60, "Trash", ("for 30 days",), "truth"),
        '<rect class="cache" x="706" y="20" width="214" height="270" rx="6"/>',
        '<text class="title" x="720" y="44">Your state folder</text>',
        box(722, 58, 182, 100, "Index", ("words and meaning;", "a cache: delete it", "when you like"), "cache"),
        box(722, 176, 182, 100, "For this machine", ("trusted stores,", "uses of memories,", "log of hooks"), "cache"),
        arrow("M640 108H720", "is built", 648, 100),
    ]
    return picture(940, 310, "The parts of a store", parts)


def life_of_a_memory() -> str:
    """From the write to the end, with every way back; below, the states of a whole session."""
    parts = [
        '<text class="title" x="20" y="30">A memory</text>',
        box(20, 46, 160, 62, "Written", ("synced to the disk",), "truth"),
        box(260, 46, 180, 62, "Active", ("found, used, changed",), "truth"),
        box(520, 46, 180, 62, "Faded", ("ranks lower, still found",), "truth"),
        box(780, 46, 180, 62, "Cold", ("moved out of the way",), "truth"),
        arrow("M180 77H258"),
        arrow("M440 68H518", "time", 464, 62),
        arrow("M518 88H442", "use", 466, 104),
        arrow("M700 68H778", "no room", 714, 62),
        arrow("M778 88H702", "restore", 718, 104),
        box(20, 180, 160, 62, "Erased", ("bytes gone, a receipt",), "end"),
        box(260, 180, 180, 62, "Trash", ("hidden, for 30 days",)),
        box(520, 180, 180, 62, "Purged", ("gone for good",), "end"),
        arrow("M320 108V178", "delete", 276, 148),
        arrow("M370 178V110", "restore", 378, 148),
        arrow("M440 211H518", "30 days", 456, 205),
        arrow("M270 108L160 178", "erase", 172, 138),
        '<text class="title" x="20" y="296">Its session</text>',
        box(20, 312, 160, 62, "Active", ("written or read",), "truth"),
        box(260, 312, 180, 62, "Idle, then decaying", ("after 1 and 7 days",), "truth"),
        box(520, 312, 180, 62, "Archived", ("after 30 days, packed",), "truth"),
        box(780, 312, 180, 62, "Trash, then purged", ("only if you delete it",), "end"),
        arrow("M180 343H258", "unused", 196, 337),
        arrow("M440 343H518", "unused", 456, 337),
        arrow("M700 343H778", "delete", 718, 337),
        arrow("M610 374V398H100V376", "opening it restores it", 300, 416),
    ]
    return picture(980, 430, "The life of a memory and of its session", parts)
