"""The main job in a minute: agents write at the same time, one is killed, nothing acknowledged is lost."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from datetime import timedelta

from smp_memory.cli.commands.read import story
from smp_memory.cli.commands.stores import LAYOUTS
from smp_memory.cli.demo_agent import ROLES
from smp_memory.cli.hit_output import hit_lines, main_parts
from smp_memory.cli.render import pad, paint, plural, size_text, text_lines, wrapped
from smp_memory.errors import UserError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from smp_memory.cli.arguments import Parser
    from smp_memory.cli.invocation import Call
    from smp_memory.memory import Memory
    from smp_memory.model.hits import Hit

SESSION, VICTIM = "checkout-review", "veritas"
_WRITES, _SECONDS = 150, 2.0  # per agent, whichever comes first
_KILL_AFTER_WRITES, _KILL_AFTER_SECONDS = 40, 1.2
_SHOWN_LINES, _SHOWN_COLUMNS = 14, 110
_QUESTION, _SHOWN_HITS, _ASKED_HITS = "how do customers sign in, and does the login have a limit?", 3, 200
_NEEDLE, _LOGIN, _DAYS = "walnut bookcase", "password = Tr0ub4dor&3", 30
_TASK, _TOKENS = "make the sign-in safer", 420
_SOURCE = os.path.dirname(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))


def demo_arguments(parser: Parser) -> None:
    parser.add_argument("--keep", metavar="DIR", help="make the store in this new folder and keep it")
    parser.add_argument("--layout", choices=LAYOUTS, default="jsonl", help="how memories look on disk (default: jsonl)")


def run_demo(call: Call) -> int:
    """See the main job in a minute.

    Three agents, each a process of its own, write one session at the same time. One of them is killed in the middle.
    A new process opens the store and counts: everything that was acknowledged must be there. Then you see the files, a
    change, a question in plain words with its answer, something that is forgotten for good, and what the next agent
    starts with. The exit code is 1 if anything was lost.

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
        raise UserError(f"{folder} is there already and not empty. Choose a new folder for --keep.", path=folder)
    return os.path.abspath(folder)


class DemoAgent:
    """A process that writes, and the ids that it was given."""

    def __init__(self, name: str, root: str) -> None:
        self.name = name
        self.acknowledged: list[str] = []
        self.killed = False
        words = ["-m", "smp_memory.cli.demo_agent", root, SESSION, name, str(_WRITES), str(_SECONDS)]
        self.process = subprocess.Popen(
            [sys.executable, *words], stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=_environment(), text=True
        )
        self._listener = threading.Thread(target=self._listen, daemon=True)

    def get_ready(self) -> None:
        assert self.process.stdout is not None
        if self.process.stdout.readline() != "ready\n":
            raise UserError(f"The agent {self.name} could not start; what it said is above.")

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
        self.process.kill()  # SIGKILL: no clean-up, no last words
        self.killed = True

    def finish(self) -> None:
        self._listener.join()
        self.process.wait()

    def close(self) -> None:
        self.process.kill()
        self.process.communicate()


def _environment() -> dict[str, str]:
    """So that a new process finds this very smp, and no store but the demo's."""
    mine = {name: value for name, value in os.environ.items() if name not in ("SMP_ROOT", "SMP_SESSION", "SMP_AUTHOR")}
    return {**mine, "PYTHONPATH": os.pathsep.join(filter(None, (_SOURCE, os.environ.get("PYTHONPATH"))))}


class Demo:
    """The story, chapter by chapter; with --json only its figures."""

    def __init__(self, call: Call, root: str) -> None:
        self.call = call
        self.root = root

    def run(self) -> int:
        from smp_memory.memory import open_memory

        memory = open_memory(self.root, layout=self.call.options.layout)
        self.call.use(memory)
        memory.create_session(SESSION, user="ada", agents=list(ROLES), project="shop")
        self.title("1", "Three agents, three processes, one session; one is killed")
        facts = self.count(self.let_agents_write())
        if not self.call.options.json:
            self.show_files(memory)
            self.show_history(memory)
            self.show_answer(memory)
            self.show_forgetting(memory)
            self.show_context(memory)
            self.show_next_steps()
        self.call.answer(facts, ())
        return 1 if facts["lost"] or not facts["valid"] else 0

    # -- chapter 1

    def let_agents_write(self) -> list[DemoAgent]:
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
            self.say(_told(agent))
        return agents

    # -- chapter 2

    def count(self, agents: list[DemoAgent]) -> dict[str, Any]:
        """Ask a new process what is there, and compare with what the agents were told."""
        self.title("2", "A new process opens the store and counts")
        found = {record["id"] for record in self.ask("list")}
        report = self.ask("validate")
        told = {memory_id for agent in agents for memory_id in agent.acknowledged}
        lost = sorted(told - found)
        self.say(f"  acknowledged {len(told):>5,}    every agent was told: this is stored")
        self.say(f"  found        {len(told & found):>5,}    of those, read back from the files")
        mark = paint("green", "✓ nothing") if not lost else paint("red", f"✗ {', '.join(lost)}")
        self.say(f"  lost         {len(lost):>5,}    {mark}")
        self.tell_the_rest(len(found - told), report)
        return {
            "folder": self.root if self.call.options.keep else None,
            "layout": self.call.options.layout,
            "killed": VICTIM,
            "acknowledged": len(told),
            "found": len(told & found),
            "lost": lost,
            "valid": report["ok"],
        }

    def ask(self, command: str) -> Any:
        import json

        words = ["-m", "smp_memory", command, "--json", "--root", self.root, "--session", SESSION]
        answer = subprocess.run([sys.executable, *words], stdout=subprocess.PIPE, env=_environment(), check=False)
        return json.loads(answer.stdout)

    def tell_the_rest(self, unreported: int, report: dict[str, Any]) -> None:
        if unreported:
            self.say(f"  {plural(unreported, 'memory')} more: stored, but {VICTIM} was killed before it could say so.")
        problems = report["sessions"][SESSION]["problems"]
        if report["ok"] and not problems:
            self.say(f"  validate: {paint('green', '✓')} every signature, id and reference is right")
        for problem in problems:
            self.say(f"  validate: {problem['severity']}: {os.path.basename(problem['path'])}: {problem['message']}")

    # -- chapter 3

    def show_files(self, memory: Memory) -> None:
        self.title("3", "The files, as they are")
        for line in _tree(self.root):
            self.say("  " + line)
        session = memory.session(SESSION)
        name = next((name for name in session.stats().files if "decision" in name), next(iter(session.stats().files)))
        path = os.path.join(session.folder, name)
        self.say("")
        self.say(paint("dim", f"  {os.path.relpath(path, self.root)} begins like this:"))
        for line in _beginning(path, self.columns - 6):
            self.say(f"  {paint('cyan', '│')} {line}".rstrip())

    @property
    def columns(self) -> int:
        return self.call.screen.width or _SHOWN_COLUMNS

    # -- chapter 4

    def show_history(self, memory: Memory) -> None:
        self.title("4", "A change keeps what was there before")
        session = memory.session(SESSION, author="ada")
        decision = session.update("DEC-0001", rationale="Fewest parts that can fail, and customers know it")
        for line in story(decision.id, session.history(decision.id)):
            self.say(f"  {line}".rstrip())

    # -- chapter 5

    def show_answer(self, memory: Memory) -> None:
        self.title("5", "A question in plain words, and why each answer came")
        self.say(f'  {paint("dim", "$")} smp query "{_QUESTION}" --explain')
        self.say("")
        started = time.perf_counter()
        hits = memory.query(_QUESTION, limit=_ASKED_HITS)
        milliseconds = (time.perf_counter() - started) * 1000
        best = _each_sentence_once(hits)[:_SHOWN_HITS]
        for line in hit_lines(best, _QUESTION, self.columns - 2, bare=True, explain=main_parts):
            self.say(f"  {line}")
        self.say("")
        answered = f"Asked for the first time of {plural(memory.session(SESSION).stats().memories, 'memory')}"
        self.say(paint("dim", f"  {answered}: {milliseconds:.0f} ms, the index made on the way. Each sentence once."))

    # -- chapter 6

    def show_forgetting(self, memory: Memory) -> None:
        self.title("6", "What fades, what is hidden, what is gone")
        session = memory.session(SESSION, author="ada")
        note = session.add_finding(f"Ada hides the spare key behind the {_NEEDLE}. Login: {_LOGIN}", severity="low")
        self.say(f"  stored   {note.id}: {note.finding}")
        self.say(paint("dim", "           the password never reached the disk"))
        today, later = session.priority(note.id), session.priority(note.id, at=memory.now() + timedelta(days=_DAYS))
        self.say(
            f"  fading   how present it is: {today:.2f} today, {later:.2f} in {_DAYS} days; nothing is removed by that"
        )
        session.delete(note.id, reason="not for the record")
        hidden = self.tells_of_needle(memory)
        session.restore(note.id)
        self.say(f"  deleted  asked again: {hidden}; restored: {self.tells_of_needle(memory)}")
        receipt = session.erase(note.id, reason="never meant to be kept")
        searched = f"{plural(receipt.searched_files, 'file')}, {size_text(receipt.searched_bytes)} looked through"
        left = sum(_NEEDLE.encode() in content for content in _contents(self.root))
        mark = paint("green", "✓ gone") if not left else paint("red", "✗ still there")
        self.say(f"  erased   {mark} from every byte of the store: {searched}")

    def tells_of_needle(self, memory: Memory) -> str:
        found = any(_NEEDLE in hit.record.text for hit in memory.query(_NEEDLE, limit=5))
        return "found" if found else "not found"

    # -- chapter 7

    def show_context(self, memory: Memory) -> None:
        self.title("7", "The next agent already knows")
        self.say(f'  {paint("dim", "$")} smp context --agent dev --task "{_TASK}" --max-tokens {_TOKENS}')
        self.say("")
        recalled = memory.context("dev", task=_TASK, max_tokens=_TOKENS)
        for line in str(recalled).splitlines():
            for part in wrapped(line, self.columns - 4) if line else [""]:
                self.say(f"  {paint('cyan', '│')} {part}".rstrip())

    def show_next_steps(self) -> None:
        self.title("→", "What to try next")
        program = _program()
        steps = _with_files(self.root, program) if self.call.options.keep else _without_files(program)
        widest = max(len(command) for command, _ in steps)
        for command, purpose in steps:
            self.say(f"  {paint('bold', pad(command, widest))}  {paint('dim', purpose)}")

    # -- telling

    def title(self, number: str, text: str) -> None:
        self.say("")
        self.say(f"{paint('cyan', number)}  {paint('bold', text)}")
        self.say("")

    def say(self, line: str) -> None:
        if not self.call.options.json:
            self.call.screen.line(line)
            self.call.screen.flush()


def _each_sentence_once(hits: list[Hit]) -> list[Hit]:
    """The agents go round a few sentences: the best of each is enough to see."""
    best: dict[str, Hit] = {}
    for hit in hits:
        best.setdefault(hit.record.text, hit)
    return list(best.values())


def _contents(root: str) -> Iterator[bytes]:
    for folder, _, names in os.walk(root):
        for name in names:
            with open(os.path.join(folder, name), "rb") as file:
                yield file.read()


def _told(agent: DemoAgent) -> str:
    kind = ROLES[agent.name][0]
    end = paint("red", "  killed in the middle (SIGKILL)") if agent.killed else ""
    return f"  {pad(agent.name, 10)} {len(agent.acknowledged):>5,} writes acknowledged ({kind}){end}"


def _tree(folder: str, indent: str = "") -> Iterator[str]:
    """The files below a folder with their sizes; SMP's own folder only by its name."""
    if not indent:
        yield paint("bold", os.path.basename(folder) + "/")
    names = sorted(os.listdir(folder), key=lambda name: (os.path.isdir(os.path.join(folder, name)), name))
    for name in names:
        path, last = os.path.join(folder, name), name == names[-1]
        branch = indent + ("└── " if last else "├── ")
        if name == ".smp":
            yield f"{branch}{name}/ {paint('dim', 'locks and notes of SMP itself')}"
        elif os.path.isdir(path):
            yield f"{branch}{paint('bold', name + '/')}"
            yield from _tree(path, indent + ("    " if last else "│   "))
        else:
            yield f"{pad(branch + name, 44)}{paint('dim', size_text(os.path.getsize(path)).rjust(10))}"


def _beginning(path: str, columns: int) -> list[str]:
    """The first lines of a file, long ones on several, and only whole ones."""
    shown: list[str] = []
    with open(path, encoding="utf-8") as file:
        for line in file:
            parts = wrapped(text_lines(line.rstrip("\n"))[0], columns)
            if len(shown) + len(parts) > _SHOWN_LINES:
                break
            shown += parts
    return shown


def _program() -> str:
    """How to call this command again, as it was called now."""
    from shlex import quote
    from shutil import which

    called = sys.argv[0]
    if os.path.basename(called) == "smp":
        return "smp" if which("smp") else quote(min(called, os.path.relpath(called), key=len))
    return f"{quote(sys.executable)} -m smp_memory"


def _with_files(root: str, program: str) -> list[tuple[str, str]]:
    from shlex import quote

    return [
        (f"export SMP_ROOT={quote(root)}", "use the demo's store from now on"),
        (f"{program} list findings --last 5", "what veritas noticed before it was killed"),
        (f"{program} show DEC-0001", "one memory with all its fields"),
        (f"{program} query reset link --explain", "a question of your own, and why each answer came"),
        (
            f"{program} convert --to {'jsonl' if os.path.isdir(os.path.join(root, 'active')) else 'markdown'}",
            "the same memories, other files",
        ),
    ]


def _without_files(program: str) -> list[tuple[str, str]]:
    return [
        (f"{program} demo --keep my-demo", "the same again, and the files stay for you to look at"),
        (f"{program} demo --layout markdown", "the same again, in Markdown and YAML"),
        (f"{program} --help", "all commands"),
    ]
