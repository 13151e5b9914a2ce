"""The command demo: agents write at the same time, one is killed, and no acknowledged write is lost.

Each agent is a process, `python -m smp_memory.cli.commands.demo ROOT SESSION AGENT WRITES SECONDS`: it prints `ready`, waits for
a line on standard input, then writes memories and prints each id as soon as the write is acknowledged.
"""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from datetime import timedelta

from smp_memory.cli.commands.read import history_lines
from smp_memory.cli.commands.stores import LAYOUTS
from smp_memory.cli.hit_output import hit_lines, main_score_parts
from smp_memory.cli.render import pad, paint, plural, size_text, text_lines, wrap
from smp_memory.errors import UserError
from smp_memory.memory import open_memory

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from smp_memory.cli.arguments import Parser
    from smp_memory.cli.invocation import Invocation
    from smp_memory.memory import Memory
    from smp_memory.model.candidates import Hit

SESSION, VICTIM = "checkout-review", "veritas"
_WRITES, _SECONDS = 150, 2.0  # per agent, whichever comes first
_KILL_AFTER_WRITES, _KILL_AFTER_SECONDS = 40, 1.2
_FILE_LINES, _PIPE_COLUMNS = 14, 110
_QUERY, _SHOWN_HITS, _QUERY_LIMIT = "how do customers sign in, and does the login have a limit?", 3, 200
_NEEDLE, _LOGIN, _DAYS = "walnut bookcase", "password = Tr0ub4dor&3", 30
_TASK, _TOKENS = "make the sign-in safer", 420
_SOURCE = os.path.dirname(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))


def demo_arguments(parser: Parser) -> None:
    parser.add_argument("--keep", metavar="DIR", help="create the store in this new folder and keep it")
    parser.add_argument("--layout", choices=LAYOUTS, default="jsonl", help="the file layout (default: jsonl)")


def run_demo(call: Invocation) -> int:
    """Show in a minute what SMP does.

    Three agents, each in its own process, write to one session at the same time. One of them is killed in the middle.
    A new process opens the store and counts: every acknowledged memory must be there. Then it shows the files, a change,
    a query in plain words with its results, a memory that is erased, and the context that the next agent starts with.
    The exit code is 1 if anything was lost.

    Examples:
      smp demo
      smp demo --layout markdown --keep my-demo
    """
    if call.options.keep:
        return Demo(call, _new_folder(call.options.keep)).run()
    import tempfile

    with tempfile.TemporaryDirectory(prefix="smp-demo-") as folder:
        return Demo(call, os.path.join(folder, "memory")).run()


def _new_folder(folder: str) -> str:
    if os.path.exists(folder) and (not os.path.isdir(folder) or os.listdir(folder)):
        raise UserError(f"--keep: {folder} exists and is not empty. Choose a new folder.", path=folder)
    return os.path.abspath(folder)


class DemoAgent:
    """An agent process, and the ids of its acknowledged writes."""

    def __init__(self, name: str, root: str) -> None:
        self.name = name
        self.acknowledged: list[str] = []
        self.killed = False
        words = ["-m", "smp_memory.cli.commands.demo", root, SESSION, name, str(_WRITES), str(_SECONDS)]
        self.process = subprocess.Popen(
            [sys.executable, *words], stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=_environment(), text=True
        )
        self._listener = threading.Thread(target=self._listen, daemon=True)

    def get_ready(self) -> None:
        assert self.process.stdout is not None
        if self.process.stdout.readline() != "ready\n":
            raise UserError(f"The agent {self.name} did not start; its output is above.")

    def go(self) -> None:
        self._listener.start()
        assert self.process.stdin is not None
        self.process.stdin.write("go\n")
        self.process.stdin.flush()

    def _listen(self) -> None:
        assert self.process.stdout is not None
        self.acknowledged += (line.strip() for line in self.process.stdout)

    def kill_in_the_middle(self) -> None:
        deadline = time.monotonic() + _KILL_AFTER_SECONDS
        while len(self.acknowledged) < _KILL_AFTER_WRITES and time.monotonic() < deadline:
            time.sleep(0.002)
        self.process.kill()  # SIGKILL: the process cannot clean up
        self.killed = True

    def finish(self) -> None:
        self._listener.join()
        self.process.wait()

    def close(self) -> None:
        self.process.kill()
        self.process.communicate()


def _environment() -> dict[str, str]:
    """The environment of child processes: they use this installation of SMP and only the demo's store."""
    excluded = ("SMP_ROOT", "SMP_SESSION", "SMP_AUTHOR")
    inherited = {name: value for name, value in os.environ.items() if name not in excluded}
    return {**inherited, "PYTHONPATH": os.pathsep.join(filter(None, (_SOURCE, os.environ.get("PYTHONPATH"))))}


class Demo:
    """The demo, chapter by chapter; with --json only its figures."""

    def __init__(self, call: Invocation, root: str) -> None:
        self.call = call
        self.root = root

    def run(self) -> int:
        memory = open_memory(self.root, layout=self.call.options.layout)
        self.call.use_store(memory)
        memory.create_session(SESSION, user="ada", agents=list(ROLES), project="shop")
        self.title("1", "Three agents, three processes, one session; one is killed")
        result = self.count(self.run_agents())
        if not self.call.options.json:
            self.show_files(memory)
            self.show_history(memory)
            self.show_query(memory)
            self.show_deletion(memory)
            self.show_context(memory)
            self.show_next_steps()
        self.call.answer(result, ())
        return 1 if result["lost"] or not result["valid"] else 0

    # -- chapter 1

    def run_agents(self) -> list[DemoAgent]:
        agents = [DemoAgent(name, self.root) for name in ROLES]
        try:
            for agent in agents:
                agent.get_ready()
            for agent in agents:
                agent.go()
            next(agent for agent in agents if agent.name == VICTIM).kill_in_the_middle()
            for agent in agents:
                agent.finish()
        finally:
            for agent in agents:
                agent.close()
        for agent in agents:
            self.print(_agent_line(agent))
        return agents

    # -- chapter 2

    def count(self, agents: list[DemoAgent]) -> dict[str, Any]:
        """Read the memories in a new process, and compare them with the acknowledged writes."""
        self.title("2", "A new process opens the store and counts")
        found = {record["id"] for record in self.run_command("list")}
        report = self.run_command("validate")
        acknowledged = {memory_id for agent in agents for memory_id in agent.acknowledged}
        lost = sorted(acknowledged - found)
        self.print(f"  acknowledged {len(acknowledged):>5,}    writes were confirmed to the agents")
        self.print(f"  found        {len(acknowledged & found):>5,}    of those, read back from the files")
        mark = paint("green", "✓ nothing") if not lost else paint("red", f"✗ {', '.join(lost)}")
        self.print(f"  lost         {len(lost):>5,}    {mark}")
        self.show_validation(len(found - acknowledged), report)
        return {
            "folder": self.root if self.call.options.keep else None,
            "layout": self.call.options.layout,
            "killed": VICTIM,
            "acknowledged": len(acknowledged),
            "found": len(acknowledged & found),
            "lost": lost,
            "valid": report["ok"],
        }

    def run_command(self, command: str) -> Any:
        """The JSON output of a command that reads the demo's session, run in a new process."""
        import json

        words = ["-m", "smp_memory", command, "--json", "--root", self.root, "--session", SESSION]
        done = subprocess.run([sys.executable, *words], stdout=subprocess.PIPE, env=_environment(), check=False)
        return json.loads(done.stdout)

    def show_validation(self, unacknowledged: int, report: dict[str, Any]) -> None:
        if unacknowledged:
            self.print(
                f"  {plural(unacknowledged, 'memory')} more: stored, but {VICTIM} was killed before the write returned."
            )
        problems = report["sessions"][SESSION]["problems"]
        if report["ok"] and not problems:
            self.print(f"  validate: {paint('green', '✓')} every checksum, id and reference is valid")
        for problem in problems:
            self.print(f"  validate: {problem['severity']}: {os.path.basename(problem['path'])}: {problem['message']}")

    # -- chapter 3

    def show_files(self, memory: Memory) -> None:
        self.title("3", "The files on disk")
        for line in _tree(self.root):
            self.print("  " + line)
        session = memory.session(SESSION)
        name = next((name for name in session.stats().files if "decision" in name), next(iter(session.stats().files)))
        path = os.path.join(session.folder, name)
        self.print("")
        self.print(paint("dim", f"  The first lines of {os.path.relpath(path, self.root)}:"))
        for line in _first_lines(path, self.columns - 6):
            self.print(f"  {paint('cyan', '│')} {line}".rstrip())

    @property
    def columns(self) -> int:
        return self.call.screen.width or _PIPE_COLUMNS

    # -- chapter 4

    def show_history(self, memory: Memory) -> None:
        self.title("4", "A change keeps the old values in the history")
        session = memory.session(SESSION, author="ada")
        decision = session.update("DEC-0001", rationale="Fewest parts that can fail, and customers know it")
        for line in history_lines(decision.id, session.history(decision.id)):
            self.print(f"  {line}".rstrip())

    # -- chapter 5

    def show_query(self, memory: Memory) -> None:
        self.title("5", "A query in plain words, with explained results")
        self.print(f'  {paint("dim", "$")} smp query "{_QUERY}" --explain')
        self.print("")
        started = time.perf_counter()
        memory.reindex()
        built = time.perf_counter()
        hits = memory.query(_QUERY, limit=_QUERY_LIMIT)
        milliseconds = [(built - started) * 1000, (time.perf_counter() - built) * 1000]
        best = _distinct_texts(hits)[:_SHOWN_HITS]
        for line in hit_lines(best, _QUERY, self.columns - 2, short_ids=True, explain=main_score_parts):
            self.print(f"  {line}")
        self.print("")
        count = plural(memory.session(SESSION).stats().memories, "memory")
        times = f"The index of {count} took {milliseconds[0]:.0f} ms, the query {milliseconds[1]:.0f} ms."
        self.print(paint("dim", f"  {times} Repeated texts left out."))

    # -- chapter 6

    def show_deletion(self, memory: Memory) -> None:
        self.title("6", "Decay, deletion, erasure")
        session = memory.session(SESSION, author="ada")
        note = session.add_finding(f"Ada hides the spare key behind the {_NEEDLE}. Login: {_LOGIN}", severity="low")
        self.print(f"  stored   {note.id}: {note.finding}")
        self.print(paint("dim", "           the password was redacted before it reached the disk"))
        today, later = session.priority(note.id), session.priority(note.id, at=memory.now() + timedelta(days=_DAYS))
        self.print(f"  decay    priority {today:.2f} today, {later:.2f} in {_DAYS} days; decay removes nothing")
        session.delete(note.id, reason="not for the record")
        hidden = self.query_needle(memory)
        session.restore(note.id)
        self.print(f"  deleted  query: {hidden}; after restoring: {self.query_needle(memory)}")
        receipt = session.erase(note.id, reason="never meant to be kept")
        searched = f"{plural(receipt.searched_files, 'file')}, {size_text(receipt.searched_bytes)} searched"
        left = sum(_NEEDLE.encode() in content for content in _contents(self.root))
        mark = paint("green", "✓ removed") if not left else paint("red", "✗ not removed")
        self.print(f"  erased   {mark} from every file of the store: {searched}")

    def query_needle(self, memory: Memory) -> str:
        found = any(_NEEDLE in hit.record.text for hit in memory.query(_NEEDLE, limit=5))
        return "found" if found else "not found"

    # -- chapter 7

    def show_context(self, memory: Memory) -> None:
        self.title("7", "The context of the next agent")
        self.print(f'  {paint("dim", "$")} smp context --agent dev --task "{_TASK}" --max-tokens {_TOKENS}')
        self.print("")
        recalled = memory.context("dev", task=_TASK, max_tokens=_TOKENS)
        for line in str(recalled).splitlines():
            for part in wrap(line, self.columns - 4) if line else [""]:
                self.print(f"  {paint('cyan', '│')} {part}".rstrip())

    def show_next_steps(self) -> None:
        self.title("→", "Next steps")
        program = _program()
        steps = _steps_with_store(self.root, program) if self.call.options.keep else _steps_without_store(program)
        widest = max(len(command) for command, _ in steps)
        for command, purpose in steps:
            self.print(f"  {paint('bold', pad(command, widest))}  {paint('dim', purpose)}")

    # -- output

    def title(self, number: str, text: str) -> None:
        self.print("")
        self.print(f"{paint('cyan', number)}  {paint('bold', text)}")
        self.print("")

    def print(self, line: str) -> None:
        if not self.call.options.json:
            self.call.screen.line(line)
            self.call.screen.flush()


def _distinct_texts(hits: list[Hit]) -> list[Hit]:
    """The best hit of each text: the agents repeat a few texts."""
    best: dict[str, Hit] = {}
    for hit in hits:
        best.setdefault(hit.record.text, hit)
    return list(best.values())


def _contents(root: str) -> Iterator[bytes]:
    for folder, _, names in os.walk(root):
        for name in names:
            with open(os.path.join(folder, name), "rb") as file:
                yield file.read()


def _agent_line(agent: DemoAgent) -> str:
    kind = ROLES[agent.name][0]
    end = paint("red", "  killed in the middle (SIGKILL)") if agent.killed else ""
    return f"  {pad(agent.name, 10)} {len(agent.acknowledged):>5,} writes acknowledged ({kind}){end}"


def _tree(folder: str, indent: str = "") -> Iterator[str]:
    """The files below a folder with their sizes; SMP's private folder only by its name."""
    if not indent:
        yield paint("bold", os.path.basename(folder) + "/")
    names = sorted(os.listdir(folder), key=lambda name: (os.path.isdir(os.path.join(folder, name)), name))
    for name in names:
        path, last = os.path.join(folder, name), name == names[-1]
        branch = indent + ("└── " if last else "├── ")
        if name == ".smp":
            yield f"{branch}{name}/ {paint('dim', 'private files of SMP')}"
        elif os.path.isdir(path):
            yield f"{branch}{paint('bold', name + '/')}"
            yield from _tree(path, indent + ("    " if last else "│   "))
        else:
            yield f"{pad(branch + name, 44)}{paint('dim', size_text(os.path.getsize(path)).rjust(10))}"


def _first_lines(path: str, columns: int) -> list[str]:
    """The first complete lines of a file, wrapped."""
    lines: list[str] = []
    with open(path, encoding="utf-8") as file:
        for line in file:
            parts = wrap(text_lines(line.rstrip("\n"))[0], columns)
            if len(lines) + len(parts) > _FILE_LINES:
                break
            lines += parts
    return lines


def _program() -> str:
    """How to run `smp` again in the way in which it was run now."""
    from shlex import quote
    from shutil import which

    called = sys.argv[0]
    if os.path.basename(called) == "smp":
        return "smp" if which("smp") else quote(min(called, os.path.relpath(called), key=len))
    return f"{quote(sys.executable)} -m smp_memory"


def _steps_with_store(root: str, program: str) -> list[tuple[str, str]]:
    from shlex import quote

    return [
        (f"export SMP_ROOT={quote(root)}", "use the demo's store from now on"),
        (f"{program} list findings --last 5", "the last findings of veritas before it was killed"),
        (f"{program} show DEC-0001", "one memory with all its fields"),
        (f"{program} query reset link --explain", "your own query, with explained results"),
        (
            f"{program} convert --to {'jsonl' if os.path.isdir(os.path.join(root, 'active')) else 'markdown'}",
            "the same memories in another layout",
        ),
    ]


def _steps_without_store(program: str) -> list[tuple[str, str]]:
    return [
        (f"{program} demo --keep my-demo", "the demo again, and keep its files"),
        (f"{program} demo --layout markdown", "the demo again, with Markdown and YAML files"),
        (f"{program} --help", "all commands"),
    ]


# Agent -> the type of memory that it writes, common fields, and texts that are used in turn.
ROLES: dict[str, tuple[str, dict[str, Any], tuple[str, ...]]] = {
    "architect": (
        "decision",
        {"rationale": "Fewest parts that can fail", "tags": ["design"]},
        (
            "Use OAuth 2.0 for sign-in",
            "Keep the cart in the session, not in the database",
            "Prices are whole cents, never floats",
            "One table for orders, status as a column",
            "Send mail from a queue, never from a request",
        ),
    ),
    "veritas": (
        "finding",
        {"severity": "high", "category": "security", "tags": ["security.review"]},
        (
            "Login has no rate limit",
            "The reset link never expires",
            "Coupons can be used twice when two tabs race",
            "The admin page lacks a second factor",
            "Order ids can be guessed",
        ),
    ),
    "developer": (
        "conversation",
        {"role": "assistant"},
        (
            "The sign-in page works; next is the reset mail.",
            "Cart tests are green. I moved the price rules to one place.",
            "The queue retries three times now, then asks a person.",
            "Found the slow query: the index was on the wrong column.",
            "Coupon race fixed with a unique constraint.",
        ),
    ),
}


def write_as_agent(root: str, session_id: str, agent: str, writes: str, seconds: str) -> None:
    kind, fields, sentences = ROLES[agent]
    with open_memory(root) as memory:
        session = memory.session(session_id, author=agent)
        session.records(kind, last=1)
        os.write(1, b"ready\n")
        sys.stdin.readline()
        deadline = time.monotonic() + float(seconds)
        for number in range(int(writes)):
            if time.monotonic() > deadline:
                break
            record = session.add(kind, sentences[number % len(sentences)], **fields)
            os.write(1, f"{record.id}\n".encode())  # unbuffered and in one call: a kill must not lose or split it


if __name__ == "__main__":
    write_as_agent(*sys.argv[1:])
