"""basic-memory: its MCP server over standard input and output; Markdown files and its own index command to fill a store.

Search is by words alone: its search by meaning needs a Python with loadable extensions and a model from the network.
"""

from __future__ import annotations

import json
import os
import subprocess

from adapters.mcp_graph import Server

_NOTE = "---\ntitle: {key}\ntype: note\npermalink: notes/{key}\n---\n\n{text}\n"


class Peer:
    def __init__(self, folder: str, command: list[str]) -> None:
        self._notes = os.path.join(folder, "notes", "notes")
        os.makedirs(self._notes, exist_ok=True)
        self._command = command
        self._environment = {
            "HOME": folder,
            "BASIC_MEMORY_HOME": os.path.join(folder, "notes"),
            "BASIC_MEMORY_SEMANTIC_SEARCH_ENABLED": "false",
        }
        self._start()

    def _start(self) -> None:
        self._server = Server([*self._command, "mcp"], self._environment)

    def add(self, key: str, text: str) -> None:
        self._server.call("write_note", title=key, content=text, directory="notes")

    def fill(self, pairs: list[tuple[str, str]]) -> None:
        for key, text in pairs:
            with open(os.path.join(self._notes, f"{key}.md"), "w", encoding="utf-8") as file:
                file.write(_NOTE.format(key=key, text=text))
        self._server.close()  # its watcher would index the files a second time
        environment = {**os.environ, **self._environment}
        subprocess.run([*self._command, "reindex", "--search"], env=environment, check=True, stdout=subprocess.DEVNULL)
        self._start()

    def search(self, text: str, limit: int) -> list[tuple[str, float]]:
        given = {"query": text, "page_size": limit, "search_type": "text", "output_format": "json"}
        found = self._server.call("search_notes", **given)["structuredContent"]
        found = found.get("result", found)
        found = json.loads(found) if isinstance(found, str) else found
        return [(each["title"], abs(each.get("score") or 0.0)) for each in found["results"]]

    def keys(self) -> list[str]:
        return [name.removesuffix(".md") for name in os.listdir(self._notes) if name.endswith(".md")]

    def delete(self, key: str) -> None:
        self._server.call("delete_note", identifier=f"notes/{key}")

    def close(self) -> None:
        self._server.close()
