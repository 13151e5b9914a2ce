"""Set-up of all tests: compiled modules, temporary folders in RAM, no settings from outside, Hypothesis without deadlines.

Modules are compiled once, into .venv/pycache, whatever the environment says: tests start about a thousand processes.

The folders of `tmp_path` and the user's state are on /dev/shm where that is a large tmpfs: a third of the time of the suite
would be waiting for fsync, and a fsync on a real disk proves nothing unless the power fails, which the crash tests simulate.
`SMP_TEST_DISK=1 ./dev test` uses the disk.
"""

from __future__ import annotations

import gc
import logging
import os
import re
import shutil
import sys
import tempfile
from collections.abc import Iterator

if sys.prefix != sys.base_prefix and sys.pycache_prefix is None:
    sys.dont_write_bytecode = False
    sys.pycache_prefix = os.environ["PYTHONPYCACHEPREFIX"] = os.path.join(sys.prefix, "pycache")
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)

import pytest
from hypothesis import HealthCheck, settings

pytest_plugins = ["tests.postgres_server"]  # the fixture `postgres`

_RAM = "/dev/shm"
_ENOUGH_BYTES = 1 << 30  # a run needs 200 MB, and pytest keeps three


def _folder_in_ram() -> str | None:
    if os.environ.get("SMP_TEST_DISK") or not os.access(_RAM, os.W_OK):
        return None
    return _RAM if shutil.disk_usage(_RAM).free > _ENOUGH_BYTES else None


if _folder := _folder_in_ram():
    os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", _folder)

# The user's state of all stores that this process makes; set before test modules copy the environment.
_STATE = tempfile.TemporaryDirectory(prefix="smp-test-state-", dir=_folder, ignore_cleanup_errors=True)
os.environ["SMP_STATE_DIR"] = _STATE.name

_CALM = {"deadline": None, "suppress_health_check": [HealthCheck.too_slow, HealthCheck.data_too_large]}
settings.register_profile("dev", max_examples=50, **_CALM)
settings.register_profile("ci", max_examples=500, print_blob=True, **_CALM)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "dev"))


@pytest.fixture(autouse=True)
def no_settings_from_outside(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in os.environ if name.startswith("SMP_") and name != "SMP_STATE_DIR"]:
        monkeypatch.delenv(name)


@pytest.fixture(autouse=True)
def log_as_it_was() -> Iterator[None]:
    """A command that ran in this process with --verbose leaves the level and the handlers of the log as it set them."""
    logger, root = logging.getLogger("smp_memory"), logging.getLogger()
    before = logger.level, logger.handlers[:], logger.propagate
    yield
    logger.setLevel(before[0])
    logger.handlers[:], logger.propagate = before[1], before[2]
    for handler in root.handlers[:]:  # of a library that called logging.basicConfig; its stream is closed by now
        if not type(handler).__module__.startswith("_pytest"):
            root.removeHandler(handler)


@pytest.fixture(autouse=True)
def words_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """The same answers whether the embedding model is installed or not; the tests of meaning ask for it."""
    monkeypatch.setattr("smp_memory.index.embeddings.available", lambda: False)


@pytest.fixture(autouse=True)
def no_pauses_between_reads(monkeypatch: pytest.MonkeyPatch) -> None:
    """Failing reads are repeated as always, but at once."""
    monkeypatch.setattr("smp_memory.files.disk.PAUSES_SECONDS", (0.0, 0.0, 0.0))


_MANY_DESCRIPTORS = 300


@pytest.fixture(autouse=True)
def few_open_files() -> Iterator[None]:
    """Stores that tests never close are closed by the garbage collector, which rarely runs in a process of this size."""
    yield
    try:
        many = len(os.listdir("/proc/self/fd")) > _MANY_DESCRIPTORS
    except OSError:  # no /proc here
        return
    if many:
        gc.collect()


# Bugs that are known and not fixed yet: a pattern of test ids, and what is wrong. A test that begins to pass is
# reported as a failure (xfail is strict): then take its line out.
KNOWN_BUGS: dict[str, str] = {}
FLICKERING: dict[str, str] = {}


def pytest_collection_finish() -> None:
    """The garbage collector need not look again and again at what thousands of collected tests consist of."""
    gc.collect()
    gc.freeze()


def pytest_unconfigure() -> None:
    _STATE.cleanup()  # a worker of xdist ends without finalizers


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for known, strict in ((KNOWN_BUGS, True), (FLICKERING, False)):
        for pattern, reason in known.items():
            for item in items:
                if re.search(pattern, item.nodeid):
                    item.add_marker(pytest.mark.xfail(reason=reason, strict=strict))
