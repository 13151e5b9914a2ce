"""Entries that a memlog keeps when several processes append at once: BMAD's own script, and ours.

    python benchmarks/memlog.py path/to/_bmad/scripts/memlog.py [--processes 8] [--each 50] [--rounds 3]

Each process appends its entries one after the other, as an agent does, within one process and in a new one for each entry.
Every call that says that it went well is counted, and so are the entries that are in the file at the end.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time

_WITHIN = """
import contextlib, importlib.util, io, sys
which, path, who, count = sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4])
if which == "smp":
    from smp_memory.cli.main import main
    run = lambda words: main(["memlog", *words])
else:
    spec = importlib.util.spec_from_file_location("memlog", which)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    run = module.main
said = 0
for number in range(count):
    try:
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
            said += run(["append", "--path", path, "--text", f"{who}-{number}"]) == 0
    except Exception:
        pass
print(said)
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("script")
    parser.add_argument("--processes", type=int, default=8)
    parser.add_argument("--each", type=int, default=50)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    print(f"{options.processes} processes, {options.each} entries each, {options.rounds} rounds")
    for name, which in (("BMAD's script", os.path.abspath(options.script)), ("smp memlog", "smp")):
        for _ in range(options.rounds):
            asked = options.processes * options.each
            said, kept, seconds = one_round(which, options.processes, options.each)
            print(f"{name:14} asked {asked}, acknowledged {said}, in the file {kept}, {asked / seconds:,.0f} a second")
    for name, words in (
        ("BMAD's script", [sys.executable, os.path.abspath(options.script)]),
        (
            "smp memlog",
            [sys.executable, "-c", "import sys; from smp_memory.cli.main import main; sys.exit(main())", "memlog"],
        ),
    ):
        print(f"{name:14} a new process for one entry: {one_call(words) * 1000:.0f} ms (the best of 15)")


def one_round(which: str, processes: int, each: int) -> tuple[int, int, float]:
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, ".memlog.md")
        with open(path, "w", encoding="utf-8") as file:
            file.write("---\ntopic: x\nupdated: 2026-01-01T00:00\n---\n\n\n")
        words = [sys.executable, "-c", _WITHIN, which, path]
        started = time.perf_counter()
        running = [
            subprocess.Popen([*words, f"p{number}", str(each)], stdout=subprocess.PIPE) for number in range(processes)
        ]
        said = sum(int(process.communicate()[0]) for process in running)
        seconds = time.perf_counter() - started
        with open(path, encoding="utf-8") as file:
            return said, sum(line.startswith("- ") for line in file), seconds


def one_call(words: list[str]) -> float:
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([*words, "init", "--workspace", folder], check=True, stdout=subprocess.DEVNULL)
        times = []
        for _ in range(15):
            started = time.perf_counter()
            subprocess.run(
                [*words, "append", "--workspace", folder, "--text", "x"], check=True, stdout=subprocess.DEVNULL
            )
            times.append(time.perf_counter() - started)
        return min(times)


if __name__ == "__main__":
    main()
