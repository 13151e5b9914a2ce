"""A pytest plugin: Anthropic's tests of its memory tool in files run against SMPMemoryTool."""

from __future__ import annotations

import asyncio
import inspect
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from anthropic.lib.tools import _beta_builtin_memory_tool as library

import smp_memory
from smp_memory.adapters.anthropic import SMPAsyncMemoryTool, SMPMemoryTool

NOT_APPLICABLE = (
    "symlink",  # there are none in a store
    "permissive_umask",
    "too_many_lines",  # modes of files; a file of 5 MB, which is refused
    "TestBetaAsyncLocalFilesystemMemoryTool::test_view_preserves_crlf",  # these write files beside the tool; the sync ones run
    "TestBetaAsyncLocalFilesystemMemoryTool::test_str_replace_preserves_crlf",
    "TestBetaAsyncLocalFilesystemMemoryTool::test_insert_preserves_crlf",
)
tools: dict[str, SMPMemoryTool] = {}  # by folder


class StoredFile:
    """A file of the tool, as tests read and write it behind its back."""

    def __init__(self, tool: SMPMemoryTool, path: str) -> None:
        self._tool = tool
        self._path = path

    def write_bytes(self, data: bytes) -> None:
        self._tool.create(SimpleNamespace(path=self._path, file_text=data.decode()))  # type: ignore[arg-type]

    def read_bytes(self) -> bytes:
        found = texts(self._tool)
        return found[self._path.lstrip("/")].encode()


class StoredRoot:
    def __init__(self, tool: SMPMemoryTool) -> None:
        self._tool = tool

    def __truediv__(self, name: str) -> StoredFile:
        return StoredFile(self._tool, f"/memories/{name}")

    def is_dir(self) -> bool:
        return self._tool.view(SimpleNamespace(path="/memories", view_range=None)).startswith("Here're")  # type: ignore[arg-type]


class AsyncRoot(StoredRoot):
    async def is_dir(self) -> bool:  # type: ignore[override]
        return await asyncio.to_thread(super().is_dir)


class SyncTool(SMPMemoryTool):
    def __init__(self, base_path: str = "./memory") -> None:
        super().__init__(smp_memory.open(Path(base_path) / "store", config={"durability": "os"}))
        self.base_path, self.memory_root = base_path, StoredRoot(self)
        tools[base_path] = self


class AsyncTool(SMPAsyncMemoryTool):
    def __init__(self, base_path: str = "./memory") -> None:
        super().__init__(smp_memory.open(Path(base_path) / "store", config={"durability": "os"}))
        self.base_path, self.memory_root = base_path, AsyncRoot(self.tool)
        tools[base_path] = self.tool


library.BetaLocalFilesystemMemoryTool = SyncTool  # type: ignore[misc,assignment]
library.BetaAsyncLocalFilesystemMemoryTool = AsyncTool  # type: ignore[misc,assignment]


def texts(tool: SMPMemoryTool) -> dict[str, str]:
    """The files of a tool as the suite's snapshots show them."""
    found: dict[str, str] = {}
    for name in tool.bridge.namespaces():
        for record in tool.bridge.memory.session(tool.bridge.session(*name).id).records("artifact"):
            if not record.name.endswith("/"):
                found[f"memories/{record.name}"] = record.content or ""
    return found


def pytest_pyfunc_call(pyfuncitem: Any) -> bool | None:
    """Run an async test. A plugin for that would be one more package, with settings for all other tests."""
    if not inspect.iscoroutinefunction(pyfuncitem.obj):
        return None
    names = inspect.signature(pyfuncitem.obj).parameters
    asyncio.run(pyfuncitem.obj(**{name: pyfuncitem.funcargs[name] for name in names}))
    return True


def pytest_collection_modifyitems(config: Any, items: list[Any]) -> None:
    left_out = [item for item in items if any(name in item.nodeid for name in NOT_APPLICABLE)]
    config.hook.pytest_deselected(items=left_out)
    items[:] = [item for item in items if item not in left_out]
    for item in items:
        item.module.get_directory_snapshot = lambda folder: texts(tools[folder])
