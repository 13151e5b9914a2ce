"""Description of the machine of a run: processor, memory, file system, load."""

from __future__ import annotations

import os
import platform
import subprocess
from datetime import UTC, datetime

import smp_memory


def describe(folder: str) -> dict[str, str]:
    kind, device = file_system(folder)
    return {
        "date": f"{datetime.now(UTC):%Y-%m-%d %H:%M} UTC",
        "smp": f"{smp_memory.__version__}{_revision()}",
        "python": f"{platform.python_implementation()} {platform.python_version()}",
        "processor": f"{len(os.sched_getaffinity(0)) if hasattr(os, 'sched_getaffinity') else os.cpu_count()} cores, {_processor()}",
        "memory": _memory(),
        "file system": f"{kind} on {device}",
        "system": f"{platform.system()} {platform.release()}",
        "load before": load(),
    }


def load() -> str:
    """How many processes wanted a core in the last minute: above zero, others disturbed the measurement."""
    return f"{os.getloadavg()[0]:.1f}" if hasattr(os, "getloadavg") else "unknown"


def file_system(folder: str) -> tuple[str, str]:
    """Its type and device: on tmpfs a sync costs nothing and the figures of durable writes say nothing."""
    folder = os.path.realpath(folder)
    best = ("", "unknown", "unknown")
    try:
        with open("/proc/mounts", encoding="utf-8", errors="replace") as file:
            for line in file:
                device, place, kind = line.split()[:3]
                if (folder + "/").startswith(place.rstrip("/") + "/") and len(place) >= len(best[0]):
                    best = (place, kind, device)
    except OSError:
        pass
    return best[1], best[2]


def _processor() -> str:
    for line in _lines("/proc/cpuinfo"):
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.machine()


def _memory() -> str:
    for line in _lines("/proc/meminfo"):
        if line.startswith("MemTotal"):
            return f"{int(line.split()[1]) / 1024 / 1024:.0f} GiB"
    return "unknown"


def _lines(path: str) -> list[str]:
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read().splitlines()
    except OSError:
        return []


def _revision() -> str:
    command = ["git", "--no-optional-locks", "rev-parse", "--short", "HEAD"]
    try:
        here = os.path.dirname(os.path.abspath(__file__))
        done = subprocess.run(command, cwd=here, capture_output=True, text=True, check=False)
    except OSError:
        return ""
    return f" ({done.stdout.strip()})" if done.returncode == 0 else ""
