"""The peers: what is installed for each, by name and version, and how it is driven.

Environments are made in a folder outside of the repository and kept. One that cannot be made is listed with the reason.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import sys
from dataclasses import dataclass, field

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
_INSTALL_SECONDS = 600


@dataclass(frozen=True)
class Peer:
    """One row of the tables."""

    name: str
    adapter: str  # a module of adapters/
    environment: str  # peers with the same one share it
    packages: tuple[str, ...] = ()  # for pip
    npm: tuple[str, ...] = ()
    python: tuple[int, int] = (3, 11)
    search: str = (
        ""  # what its search is: words, vectors, words and vectors, substring, filter, last items; empty: it has none
    )
    options: dict[str, Any] = field(default_factory=dict)  # of the adapter
    steps: tuple[str, ...] = ()  # only these; empty: all
    largest: int = 1_000_000  # memories
    node: bool = False  # a new process is compared with node, not python

    @property
    def is_smp(self) -> bool:
        return self.name.startswith("SMP")

    @property
    def is_limit(self) -> bool:
        return self.name.startswith("limit")

    @property
    def is_ranked(self) -> bool:
        """Whether recall can be asked of it."""
        return self.search in {"words", "vectors", "words and vectors"}


_SMP = (".",)  # this checkout
# The index does not depend on the layout, so meaning is measured with one of them.
PEERS = (
    Peer("SMP jsonl", "smp", "smp", _SMP, search="words and vectors", options={"layout": "jsonl"}),
    Peer("SMP markdown", "smp", "smp", _SMP, search="words", options={"layout": "markdown", "semantic": "off"}, largest=100_000),
    Peer("SMP single", "smp", "smp", _SMP, search="words", options={"layout": "single", "semantic": "off"}, largest=100_000),
    Peer("SMP log", "smp", "smp", _SMP, search="words", options={"layout": "log", "semantic": "off"}, largest=100_000),
    Peer(
        "SMP jsonl, words alone", "smp", "smp", _SMP, search="words",
        options={"layout": "jsonl", "semantic": "off"}, steps=("sizes",),
    ),
    Peer(
        "SMP as MCP memory server", "mcp_graph", "smp-mcp", (".[mcp]",), search="substring",
        options={
            "prepare": ["{environment}/bin/smp", "init", "--root", "{folder}/store"],
            "command": ["{environment}/bin/smp", "mcp", "--compat", "memory", "--root", "{folder}/store"],
        },
    ),
    Peer("limit: append and sync", "append", ""),
    Peer("limit: SQLite FTS5", "fts5", "", search="words"),
    Peer(
        "reference MCP memory server", "mcp_graph", "mcp-memory", npm=("@modelcontextprotocol/server-memory@2026.8.31",),
        search="substring", node=True,
        options={"command": ["node", "{environment}/node_modules/@modelcontextprotocol/server-memory/dist/index.js"]},
    ),
    Peer("mem0, qdrant", "mem0_store", "mem0", ("mem0ai==2.2.1", "faiss-cpu==1.15.1"), search="vectors", options={"store": "qdrant"}),
    Peer("mem0, FAISS", "mem0_store", "mem0", ("mem0ai==2.2.1", "faiss-cpu==1.15.1"), search="vectors", options={"store": "faiss"}),
    Peer("LangGraph SqliteStore", "langgraph", "langgraph", ("langgraph-checkpoint-sqlite==3.1.2",), search="filter"),
    Peer("OpenAI Agents SQLiteSession", "openai_agents", "openai-agents", ("openai-agents==0.24.0",), search="last items"),
    Peer("Chroma", "chroma", "chroma", ("chromadb==1.5.9",), search="vectors"),
    Peer("LanceDB", "lance", "lancedb", ("lancedb==0.40.0",), search="vectors"),
    Peer("MemPalace", "palace", "mempalace", ("mempalace==3.11.0",), search="words and vectors"),
    Peer("memvid", "memvid", "memvid", ("memvid-sdk==2.0.160",), search="words"),
    Peer(
        "basic-memory", "basic", "basic-memory", ("basic-memory==0.23.2", "fastmcp==4.0.0b1"), python=(3, 12), search="words",
        options={"command": ["{environment}/bin/basic-memory"]},
    ),
    Peer("claude-mem", "", "claude-mem", npm=("claude-mem@13.25.3",), search="words", node=True),
)  # fmt: skip

PLOTS = Peer("plots", "", "matplotlib", ("matplotlib==3.11.2",))


class NotInstalled(Exception):
    """An environment cannot be made; the text says why."""


def chosen(words: Iterable[str]) -> list[Peer]:
    """The peers whose name contains one of the words; all without any."""
    wanted = [word.lower() for word in words]
    return [peer for peer in PEERS if not wanted or any(word in peer.name.lower() for word in wanted)]


class Environments:
    """The environments in a folder, made when they are needed."""

    def __init__(self, folder: str) -> None:
        self._folder = os.path.join(folder, "environments")
        self._failed: dict[str, str] = {}
        os.makedirs(self._folder, exist_ok=True)

    def path(self, peer: Peer) -> str:
        return os.path.join(self._folder, peer.environment)

    def python(self, peer: Peer) -> str:
        """The Python that runs the driver: the environment's, or this one for peers that are no Python packages."""
        return os.path.join(self.path(peer), "bin", "python") if peer.packages else sys.executable

    def install(self, peer: Peer) -> None:
        if not peer.environment:
            return  # the standard library is enough
        wanted = json.dumps([*peer.packages, *peer.npm, _sources() if peer.is_smp else ""])
        stamp = os.path.join(self.path(peer), "smp-bench-stamp")
        if os.path.exists(stamp) and _read(stamp) == wanted:
            return
        if peer.environment in self._failed:
            raise NotInstalled(self._failed[peer.environment])
        shutil.rmtree(self.path(peer), ignore_errors=True)
        try:
            _pip(self.path(peer), peer) if peer.packages else _npm(self.path(peer), peer)
        except NotInstalled as error:
            self._failed[peer.environment] = str(error)
            raise
        with open(stamp, "w", encoding="utf-8") as file:
            file.write(wanted)

    def megabytes(self, peer: Peer) -> float:
        """What the packages take, without pip and compiled modules."""
        if not peer.environment:
            return 0.0
        skipped = {"pip", "__pycache__", ".cache", "include", "setuptools"}
        total = 0
        for place, folders, names in os.walk(self.path(peer)):
            folders[:] = [name for name in folders if name not in skipped]
            total += sum(os.lstat(os.path.join(place, name)).st_size for name in names)
        return total / 1e6


def _pip(place: str, peer: Peer) -> None:
    _run([find_python(peer.python), "-m", "venv", place])
    packages = [package.replace(".", ROOT, 1) if package.startswith(".") else package for package in peer.packages]
    words = [os.path.join(place, "bin", "python"), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    _run([*words, "--no-input", *packages])


def _npm(place: str, peer: Peer) -> None:
    if shutil.which("npm") is None:
        raise NotInstalled("npm is not there")
    os.makedirs(place)
    _run(["npm", "install", "--loglevel=error", "--no-fund", "--no-audit", "--prefix", place, *peer.npm])


def _run(words: list[str]) -> None:
    environment = {**os.environ, "PYENV_VERSION": _all_of_pyenv()} if shutil.which("pyenv") else None
    try:
        done = subprocess.run(
            words, capture_output=True, text=True, timeout=_INSTALL_SECONDS, check=False, env=environment
        )
    except subprocess.TimeoutExpired as error:
        raise NotInstalled(f"installing took more than {_INSTALL_SECONDS} s") from error
    if done.returncode:
        lines = [line for line in (done.stderr or done.stdout).splitlines() if "error" in line.lower()]
        raise NotInstalled(_reason(lines) or f"{words[0]} failed with {done.returncode}")


def _reason(lines: list[str]) -> str:
    """The line that names what is missing, else the last."""
    named = [line for line in lines if "No matching" in line]
    return (named or lines or [""])[-1][:200]


def find_python(version: tuple[int, int]) -> str:
    """The name of a Python of this version or newer that can make environments."""
    environment = {**os.environ, "PYENV_VERSION": _all_of_pyenv()} if shutil.which("pyenv") else None
    for minor in range(version[1], 15):
        name = f"python3.{minor}"
        if shutil.which(name):
            words = [name, "-c", "import ensurepip, venv, sys; print(sys.executable)"]
            done = subprocess.run(words, capture_output=True, text=True, check=False, env=environment)
            if done.returncode == 0:
                return done.stdout.strip()
    raise NotInstalled(f"it needs Python {version[0]}.{version[1]} or newer, which is not there")


def _all_of_pyenv() -> str:
    """All versions that pyenv has, so that each of its commands is found."""
    words = ["pyenv", "versions", "--bare"]
    return ":".join(subprocess.run(words, capture_output=True, text=True, check=False).stdout.split())


def _sources() -> str:
    """A digest of this checkout's package, which is installed again when it has changed."""
    digest = hashlib.sha256()
    for place, folders, names in os.walk(os.path.join(ROOT, "src")):
        folders[:] = sorted(name for name in folders if name != "__pycache__")
        for name in sorted(names):
            with open(os.path.join(place, name), "rb") as file:
                digest.update(file.read())
    return digest.hexdigest()


def _read(path: str) -> str:
    with open(path, encoding="utf-8") as file:
        return file.read()
