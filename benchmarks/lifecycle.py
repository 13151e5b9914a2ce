"""Cost of compaction, archives, deletion, erasure and maintenance, each beside a raw probe of the machine.

    python benchmarks/lifecycle.py [--quick] [--markdown docs/speed.md]

is the same as `./dev bench` with `--only` for each of these figures.
"""

from __future__ import annotations

import os
import random
import shutil
import sys
import tarfile
import time
from datetime import UTC, datetime
from statistics import median

import sample_data
from timing import MILLISECONDS, Row, Target, alternate, each, progress, whole

import smp_memory
from smp_memory.testing import FrozenClock

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any

    from run import Plan

LAYOUTS = sample_data.LAYOUTS
SESSION = "large"
_BYTES = 10 << 20
_MEMORIES = 100_000
_CONFIG: dict[str, Any] = {
    "compaction": {"enabled": False},
    "maintenance": {"auto": False},
    "privacy": {"redaction": {"enabled": False}},
    "storage": {"max_session_size_mb": 40},
}
_ALL = 1 << 40


# -- stores


def _opened(root: str, clock: FrozenClock | None = None, **config: Any) -> smp_memory.Memory:
    return smp_memory.open(root, clock=clock, config={**_CONFIG, **config})


def _filled(plan: Plan, layout: str, memories: int = 0) -> str:
    """A store with one session of 10 MB and, if asked for, so many memories in all; it has an index."""
    root, chance = plan.folder(f"forgetting-{layout}"), random.Random(4)
    with smp_memory.open(root, layout=layout, config={**_CONFIG, "durability": "os"}) as memory:
        session = memory.create_session(SESSION)
        count = size = 0
        while size < plan.size(_BYTES):
            session.add_many([("turn", sample_data.turn(chance)) for _ in range(500)])
            count, size = count + 500, sum(session.stats().files.values())
        for number in range((plan.count(memories, memories // 30) - count) // 5000 + 1 if memories else 0):
            other = memory.create_session(f"other-{number}")
            other.add_many([("turn", sample_data.turn(chance)) for _ in range(plan.count(5000, 500))])
        memory.query("warm up", limit=1)
    return root


def _copy(plan: Plan, root: str) -> str:
    twin = plan.folder("copy")
    shutil.copytree(root, twin)
    return twin


def _later() -> FrozenClock:
    clock = FrozenClock(datetime.now(UTC))
    clock.advance(days=40)
    return clock


# -- raw probes


def _write_and_sync(plan: Plan, size: int) -> float:
    """A file of this size written and synced, as any program must."""
    data = os.urandom(size)
    path = plan.folder("probe")

    def work() -> None:
        with open(path, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())

    seconds = whole(work)[0]
    os.remove(path)
    return seconds


def _read_all(root: str) -> float:
    def work() -> None:
        for folder, _, names in os.walk(root):
            for name in names:
                with open(os.path.join(folder, name), "rb") as file:
                    file.read()

    return whole(work)[0]


def _tar(plan: Plan, folder: str) -> tuple[float, float]:
    """Python's own tar.gz of a folder, synced, and unpacked again."""
    path, target = plan.folder("probe") + ".tar.gz", plan.folder("probe")

    def pack() -> None:
        with tarfile.open(path, "w:gz", compresslevel=6) as tar:
            tar.add(folder, "session")
        with open(path, "rb") as file:
            os.fsync(file.fileno())

    def unpack() -> None:
        with tarfile.open(path) as tar:
            if hasattr(tarfile, "data_filter"):  # Python 3.11.4 and later
                tar.extractall(target, filter="data")
            else:
                tar.extractall(target)  # noqa: S202 - packed a moment ago, by ourselves

    return whole(pack)[0], whole(unpack)[0]


def _of(plan: Plan, figure: str, case: str, seconds: list[float], raw: list[float], at_most: float | None) -> Row:
    target = Target("value", at_most=at_most) if at_most is not None and not plan.quick else None
    return Row(
        figure,
        case,
        "s",
        median(seconds),
        median(raw),
        target=target,
        details={"least s": min(seconds), "most s": max(seconds)},
    )


# -- the figures


def compaction(plan: Plan) -> Iterator[Row]:
    """Compacting a session of 10 MB, all layouts."""
    for layout in LAYOUTS:
        root = _filled(plan, layout)
        for case, target in (("forced", "forced"), ("all that may go", _ALL)):
            progress(f"{layout}, {case}")
            seconds, raw = [], []
            for _ in range(plan.count(3, 1)):
                with _opened(_copy(plan, root), _later()) as memory:
                    session = memory.session(SESSION)
                    raw.append(_write_and_sync(plan, plan.size(_BYTES)))
                    seconds += whole(lambda session=session, target=target: session.compact(target))  # type: ignore[misc]
            yield _of(plan, "compaction of a 10 MB session", f"{layout}, {case}", seconds, raw, 2.0)


def archiving(plan: Plan) -> Iterator[Row]:
    """Packing a session of 10 MB away, searching in it, erasing from it, bringing it back."""
    for layout in LAYOUTS:
        progress(layout)
        root = _filled(plan, layout)
        found: dict[str, list[float]] = {}
        for _ in range(plan.count(3, 1)):
            twin = _copy(plan, root)
            with _opened(twin) as memory:
                packed, unpacked = _tar(plan, memory.session(SESSION).folder)
                steps: dict[str, Callable[[], Any]] = {
                    "archive": lambda memory=memory: memory.archive_session(SESSION),  # type: ignore[misc]
                    "search": lambda memory=memory: memory.query("token refresh", include_archived=True),  # type: ignore[misc]
                    "search again": lambda memory=memory: memory.query("nightly export", include_archived=True),  # type: ignore[misc]
                    "erase": lambda memory=memory: memory.erase(f"{SESSION}/TURN-0007"),  # type: ignore[misc]
                    "restore": lambda memory=memory: memory.restore_session(SESSION),  # type: ignore[misc]
                }
                for name, work in steps.items():
                    found.setdefault(name, []).extend(whole(work))
            found.setdefault("packed", []).append(packed)
            found.setdefault("unpacked", []).append(unpacked)
        yield _of(plan, "archive a 10 MB session", layout, found["archive"], found["packed"], 3.0)
        yield _of(plan, "restore a 10 MB session", layout, found["restore"], found["unpacked"], 3.0)
        yield _of(plan, "search inside a 10 MB archive", f"{layout}, first", found["search"], found["unpacked"], None)
        yield _of(
            plan, "search inside a 10 MB archive", f"{layout}, again", found["search again"], found["unpacked"], None
        )
        yield _of(plan, "erase inside a 10 MB archive", layout, found["erase"], found["packed"], None)


def deleting(plan: Plan) -> Iterator[Row]:
    """Deleting a memory against adding one, and deleting a whole session."""
    for layout in LAYOUTS:
        progress(layout)
        root, chance = plan.folder(f"deleting-{layout}"), random.Random(5)
        count, rounds = plan.each_round(20), plan.count(20, 3)
        with smp_memory.open(root, layout=layout, config=_CONFIG) as memory:
            session = memory.create_session("s")
            records = session.add_many(
                [("decision", sample_data.decision(chance)) for _ in range(count * (rounds + 1))]
            )
            ids = iter([record.id for record in records])
            sides = alternate(
                {
                    "delete": lambda: each(session.delete, [next(ids) for _ in range(count)]),
                    "append": lambda: each(
                        lambda fields: session.add("decision", fields),
                        [sample_data.decision(chance) for _ in range(count)],
                    ),
                },
                rounds,
            )
        name, factor = MILLISECONDS
        yield Row(
            "delete by id against an append, p50",
            layout,
            name,
            sides.at("delete", 0.5) * factor,
            sides.at("append", 0.5) * factor,
            sides.ratio("delete", "append"),
            None if plan.quick else Target("ratio", at_most=2.0),
            sides.details("delete", MILLISECONDS),
        )
        yield _deleting_a_session(plan, layout)


def _deleting_a_session(plan: Plan, layout: str) -> Row:
    root = _filled(plan, layout)
    seconds, raw = [], []
    with _opened(root) as memory:
        for _ in range(plan.count(9, 3)):
            raw += whole(lambda: _rename_durably(root))
            seconds += whole(lambda: memory.delete_session(SESSION))
            memory.undelete_session(SESSION)
    name, factor = MILLISECONDS
    row = _of(
        plan,
        "delete_session of 10 MB",
        layout,
        [each * factor for each in seconds],
        [each * factor for each in raw],
        50.0,
    )
    row.unit = name
    row.details = {"most ms": max(seconds) * factor}
    return row


def _rename_durably(root: str) -> None:
    """What a move of a folder takes at least: a rename, and a sync of the folder above."""
    before, after = os.path.join(root, "probe-1"), os.path.join(root, "probe-2")
    os.makedirs(before, exist_ok=True)
    os.rename(before, after)
    folder = os.open(root, os.O_RDONLY)
    os.fsync(folder)
    os.close(folder)
    os.rmdir(after)


def erasing(plan: Plan) -> Iterator[Row]:
    """Erasing one memory of a session of 10 MB, in a store of 100,000 memories, as a new process does it."""
    for layout in LAYOUTS:
        progress(f"{layout}: making a store")
        root = _filled(plan, layout, _MEMORIES)
        seconds, raw, after = [], [], []
        for number in range(plan.count(3, 1)):
            raw.append(_write_and_sync(plan, plan.size(_BYTES)) + _read_all(root))
            with _opened(root) as memory:
                started = time.perf_counter()
                receipt = memory.session(SESSION).erase(f"TURN-{100 + 50 * number:04}")
                seconds.append(time.perf_counter() - started)
                if not receipt.complete:
                    raise AssertionError(receipt.to_dict())
                after += whole(lambda memory=memory: memory.query("nightly export", limit=1))  # type: ignore[misc]
        yield _of(plan, "erase one memory of 10 MB in a store of 100,000", layout, seconds, raw, 2.0)
        yield _of(plan, "first question after an erasure, 100,000 memories", layout, after, raw, None)
        shutil.rmtree(root)


def maintenance(plan: Plan) -> Iterator[Row]:
    """Maintenance of 1,000 sessions that nobody uses."""
    for layout in LAYOUTS:
        progress(layout)
        root, count = plan.folder(f"many-{layout}"), plan.count(1000, 50)
        clock = FrozenClock(datetime.now(UTC))
        seconds, raw = [], []
        with smp_memory.open(root, layout=layout, clock=clock, config={**_CONFIG, "durability": "os"}) as memory:
            for number in range(count):
                memory.create_session(f"s{number}").add_decision(f"Decision {number} about tokens")
            memory.query("warm up", limit=1)
            for _ in range(plan.count(3, 1)):
                clock.advance(days=3)
                raw.append(_read_all(root))
                seconds += whole(memory.maintain)
        yield _of(plan, "maintenance of 1,000 idle sessions", layout, seconds, raw, 5.0)


FIGURES = {
    "compaction": compaction,
    "archiving": archiving,
    "deleting": deleting,
    "erasing": erasing,
    "maintenance": maintenance,
}


if __name__ == "__main__":
    import run

    chosen = [word for name in FIGURES for word in ("--only", name)]
    sys.exit(run.main([*chosen, *sys.argv[1:]]))
