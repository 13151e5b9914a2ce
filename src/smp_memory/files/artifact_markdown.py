"""Codec of `artifacts/{id}.md`: SMP's entries under headings, and the plain document that design 003 keeps there.

A file without a line "## Artifact" and without SMP's first lines is one unsigned artifact: all of its text is the content, the name
of the file gives the id and its time of modification the time, until the next write to the session or `repair` puts both into the file:
then the text stands under a heading (`smp_memory.files.incomplete_entries`).
"""

from __future__ import annotations

from smp_memory.files.codec import DAMAGED, UNSIGNED, Piece
from smp_memory.files.markdown_blocks import ABOUT, MarkdownBlocks

TYPE_CHECKING = False
if TYPE_CHECKING:
    from smp_memory.files.codec import Stored

_BODY = "content"
_TITLE = b"# Artifact "  # how the files that SMP writes begin


class ArtifactMarkdown(MarkdownBlocks):
    """Reads both forms, writes entries under headings."""

    def __init__(self) -> None:
        super().__init__(label="Artifact", time_key="timestamp", body_key=_BODY, id_prefix="ART")

    def _read(self, data: bytes, at_file_start: bool, stored: Stored) -> list[Piece]:
        if not at_file_start or not data.strip() or self._is_ours(data):
            return super()._read(data, at_file_start, stored)
        try:
            text = data.decode()
        except UnicodeDecodeError:
            return [Piece(0, len(data), 0, DAMAGED, None, "not valid UTF-8")]
        return [Piece(0, len(data), 0, UNSIGNED, {_BODY: text.replace("\r\n", "\n")})]

    def _is_ours(self, data: bytes) -> bool:
        """Whether SMP began this file, or a person in its form; an entry whose heading is gone is damage, not a document."""
        title, _, rest = data.rstrip(b"\0").partition(b"\n")  # a power loss may leave zeros
        about = rest.partition(b"\n")[0]
        return (
            self.boundary(b"\n" + data) >= 0
            or (data.startswith(b"#") and about != b"" and (about.startswith(ABOUT) or ABOUT.startswith(about)))
            or (not rest and title[: len(_TITLE)] == _TITLE[: len(title)])  # the torn beginning of a new file
            or b"\n<!-- end " in data
        )
