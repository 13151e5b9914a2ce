"""Latency of queries over 10,000 to a million memories, beside the bare text engine on the same texts.

The texts are sentences from the standard library's own documentation, which every machine has, so that words are as
rare and as common as in English. The bare engine holds the same terms, and the texts, of which it hands out 20 with
their scores. It weighs single words alone, makes no records, and does not look whether anything has changed.
"""

from __future__ import annotations

import os
import pkgutil
import random
import re
import subprocess
import sys
import time

import reads
import sample_data
from timing import MILLISECONDS, Row, Target, alternate, each, progress, quantile, whole

from smp_memory.index import embeddings

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any

    from run import Plan

_SIZES: tuple[tuple[int, int, float | None], ...] = (  # memories, sessions, p95 in ms
    (1_000, 1, None),
    (10_000, 1, 5.0),
    (100_000, 10, 8.0),
    (1_000_000, 1000, 25.0),
)
_AGENTS = ("architect", "developer", "tester", "veritas", "owner")
_TAGS = ("auth.oauth", "auth.tokens", "database", "interface", "deployment", "billing", "search", "security")
_P95 = 0.95


def sentences() -> list[str]:
    """English out of the documentation of the standard library."""
    found: list[str] = []
    for module in sorted(info.name for info in pkgutil.iter_modules() if info.name.isalpha()):
        path = _source_of(module)
        if path:
            with open(path, encoding="utf-8", errors="replace") as file:
                for text in re.findall(r'"""(.*?)"""', file.read(), re.DOTALL):
                    found += [" ".join(part.split()) for part in re.split(r"(?<=[.!?])\s+", text) if len(part) > 30]
    return found


def _source_of(module: str) -> str:
    folder = os.path.dirname(os.__file__)
    for path in (os.path.join(folder, f"{module}.py"), os.path.join(folder, module, "__init__.py")):
        if os.path.exists(path):
            return path
    return ""


class Texts:
    """The same memories in every run."""

    def __init__(self) -> None:
        self._rng = random.Random(11)
        self._sentences = sentences()

    def text(self) -> str:
        rng = self._rng
        count = rng.choice((1, 2, 2, 3, 3, 4, 5, 7))
        words = " ".join(rng.choice(self._sentences) for _ in range(count))
        return f"{words} ref{rng.randrange(200_000)}" if rng.random() < 0.2 else words

    def memory(self) -> tuple[str, dict[str, Any]]:
        rng = self._rng
        draw = rng.random()
        if draw < 0.6:
            return "conversation", {"role": rng.choice(("user", "assistant")), "content": self.text()}
        fields = {"author": rng.choice(_AGENTS), "tags": rng.sample(_TAGS, 2)}
        if draw < 0.8:
            return "decision", {"decision": self.text(), **fields}
        return "finding", {"finding": self.text(), "severity": rng.choice(("low", "high")), **fields}

    def questions(self, count: int) -> list[str]:
        """Five words that stand somewhere in the texts, common ones among them."""
        rng = random.Random(13)
        found = []
        while len(found) < count:
            words = re.findall(r"[A-Za-z]{3,}", " ".join(rng.choice(self._sentences) for _ in range(3)))
            if len(words) >= 5:
                found.append(" ".join(rng.sample(words, 5)))
        return found


class Bare:
    """The text engine alone, with the terms that SMP gives it."""

    def __init__(self, folder: str) -> None:
        import tantivy

        self._tantivy = tantivy
        builder = tantivy.SchemaBuilder()
        builder.add_text_field("text", tokenizer_name="whitespace", index_option="position")
        builder.add_bytes_field("memory", stored=True)
        os.makedirs(folder)
        self._index = tantivy.Index(builder.build(), path=folder)
        tokenizer = tantivy.TextAnalyzerBuilder(tantivy.Tokenizer.whitespace()).build()
        self._index.register_tokenizer("whitespace", tokenizer)
        self._writer = self._index.writer(heap_size=64_000_000, num_threads=1)

    def add(self, text: str) -> None:
        from smp_memory.text.tokenizer import joined_terms

        document = self._tantivy.Document()
        document.add_text("text", joined_terms(text))
        document.add_bytes("memory", text.encode())
        self._writer.add_document(document)

    def done(self) -> None:
        self._writer.commit()
        self._writer.wait_merging_threads()
        self._index.reload()
        self._searcher = self._index.searcher()

    def search(self, question: str) -> list[tuple[float, bytes]]:
        from smp_memory.text.tokenizer import parse

        query, occur = self._tantivy.Query, self._tantivy.Occur
        words = [(occur.Should, query.term_query(self._index.schema, "text", word)) for word in parse(question).words]
        hits = self._searcher.search(query.boolean_query(words), 20, count=False).hits
        return [(score, self._searcher.doc(address)["memory"][0]) for score, address in hits]


class Filled:
    """A store with so many memories, its index, and the bare engine beside it."""

    def __init__(self, plan: Plan, count: int, sessions: int) -> None:
        texts = Texts()
        self.root = plan.folder(f"find-{count}")
        self.bare = Bare(plan.folder(f"bare-{count}"))
        memory = sample_data.open_store(self.root, "jsonl", "os")
        each_session = count // sessions
        for number in range(sessions):
            session = memory.create_session(f"session-{number:04d}", user="ada")
            items = [texts.memory() for _ in range(each_session)]
            for start in range(0, each_session, 5000):
                session.add_many(items[start : start + 5000])
            for _, fields in items:
                self.bare.add(str(fields.get("content") or fields.get("decision") or fields.get("finding")))
        self.bare.done()
        memory.close()
        self.memory = sample_data.open_store(self.root, "jsonl", "os")
        started = time.perf_counter()
        self.memory.reindex()
        self.build_seconds = time.perf_counter() - started
        self.count = count
        self.questions = texts.questions(plan.count(200, 40))

    def sizes(self) -> tuple[int, int]:
        """Bytes of the index and of the files."""
        state = os.path.join(os.environ["SMP_STATE_DIR"], "stores")
        folders = [
            os.path.join(state, name, "index")
            for name in os.listdir(state)
            if name.startswith(f"{os.path.basename(self.root)}-")
        ]
        files = [os.path.join(at, name) for folder in folders for at, _, names in os.walk(folder) for name in names]
        index = sum(map(os.path.getsize, files))
        return index, sum(sample_data.data_files(self.root).values())


_filled: dict[int, Filled] = {}


def _store(plan: Plan, count: int, sessions: int) -> Filled:
    if count not in _filled:
        progress(f"a store of {count:,} memories in {sessions:,} sessions")
        _filled[count] = Filled(plan, count, sessions)
    return _filled[count]


def _stores(plan: Plan) -> Iterator[tuple[Filled, float | None]]:
    for count, sessions, limit in _SIZES:
        if not plan.quick or count <= 1_000:
            yield _store(plan, count, sessions), limit


def queries(plan: Plan) -> Iterator[Row]:
    """Five words, the best 20 with their records and scores; the bare engine's own search beside it."""
    for filled, limit in _stores(plan):
        memory = filled.memory
        ask: Callable[[str], Any] = memory.query
        sides = alternate(
            {"smp": lambda: each(ask, filled.questions), "bare": lambda: each(filled.bare.search, filled.questions)},
            plan.count(5, 2),
        )
        p95 = sides.at("smp", _P95) * 1e3
        case = f"{filled.count:,} memories"
        details = sides.details("smp", MILLISECONDS)
        yield Row(
            "query p95",
            case,
            "ms",
            p95,
            sides.at("bare", _P95) * 1e3,
            None,
            limit and Target("value", at_most=limit),
            details,
        )
        ratio = sides.ratio("smp", "bare")
        yield Row(
            "query p50 against the bare engine",
            case,
            "ms",
            sides.at("smp", 0.5) * 1e3,
            sides.at("bare", 0.5) * 1e3,
            ratio,
            Target("ratio", at_most=6) if limit else None,
        )


def newest(plan: Plan) -> Iterator[Row]:
    """The newest 20 of a type, an author, a tag: filters alone. And one memory by its id."""
    for filled, _ in _stores(plan):
        memory = filled.memory
        for asked in ({"types": "decision"}, {"tags": "auth"}, {"agents": "veritas", "types": "finding"}, {}):
            seconds = sorted(each(lambda _: memory.query(**asked, limit=20), range(plan.count(100, 20))))
            limit = Target("value", at_most=2.0) if filled.count >= 1_000_000 or plan.quick else None
            yield Row(
                "newest 20, p50",
                f"{filled.count:,}, {asked or 'all'}",
                "ms",
                quantile(seconds, 0.5) * 1e3,
                target=limit,
            )
        session = memory.session("session-0000")
        ids = [record.id for record in session.records()][:200]
        seconds = sorted(each(session.get, ids))
        yield Row(
            "get by id, p50",
            f"{filled.count:,}",
            "ms",
            quantile(seconds, 0.5) * 1e3,
            target=Target("value", at_most=0.3),
        )


_WRITER = """\
import sys, smp_memory
session = smp_memory.open({root!r}, config={{"storage": {{"max_session_size_mb": 250}}}}).session("session-0000")
for line in sys.stdin:
    session.add_decision(line.strip()); print("done", flush=True)
"""


def fresh(plan: Plan) -> Iterator[Row]:
    """Another process writes a memory; how much longer does it take until a query finds it?"""
    filled = _store(plan, *_SIZES[0 if plan.quick else 2][:2])
    children = reads.Children(plan)
    script = _WRITER.format(root=filled.root)
    with subprocess.Popen(
        [sys.executable, "-c", script],
        env=children.environment,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as child:
        assert child.stdin is not None and child.stdout is not None
        filled.memory.query("warm up")
        seconds = []
        for number in range(plan.count(100, 10)):
            word = f"unheard{number}of"
            child.stdin.write(f"A decision that is {word}\n")
            child.stdin.flush()
            child.stdout.readline()
            started = time.perf_counter()
            hits = filled.memory.query(word)
            seconds.append(time.perf_counter() - started)
            if not hits or word not in hits[0].record.decision:
                raise RuntimeError(f"{word} was not found")
        child.stdin.close()
    yield Row(
        "a foreign write, then the query that finds it, p95",
        f"{filled.count:,}",
        "ms",
        quantile(sorted(seconds), _P95) * 1e3,
        target=Target("value", at_most=10),
    )


def building(plan: Plan) -> Iterator[Row]:
    """Making the index, catching up, its size."""
    for filled, _ in _stores(plan):
        case = f"{filled.count:,} memories"
        rate = filled.count / filled.build_seconds
        yield Row("index build", case, "memories/s", rate, target=Target("value", at_least=15_000))
        index, files = filled.sizes()
        yield Row(
            "index against files", case, "MB", index / 1e6, files / 1e6, index / files, Target("ratio", at_most=0.7)
        )
    filled = _store(plan, *_SIZES[0 if plan.quick else 1][:2])
    texts = Texts()
    seconds = []
    for _ in range(plan.count(5, 2)):
        other = sample_data.open_store(filled.root, "jsonl", "os")
        other.session("session-0000").add_many([texts.memory() for _ in range(1000)])
        other.close()
        seconds += whole(lambda: filled.memory.query("nothing like it"))
    yield Row(
        "catch up with 1,000 foreign writes",
        f"{filled.count:,} memories",
        "ms",
        quantile(sorted(seconds), 0.5) * 1e3,
        target=Target("value", at_most=100),
    )


_FIRST = """\
import smp_memory
hits = smp_memory.open({root!r}).query("which connection is closed when the timeout expires")
if len(hits) != 20: raise SystemExit("not 20 hits")
"""


def first_answer(plan: Plan) -> Iterator[Row]:
    """A new process: import, open, first answer; against `python -c pass`."""
    filled = _store(plan, *_SIZES[0 if plan.quick else 2][:2])
    children = reads.Children(plan)
    script = _FIRST.format(root=filled.root)
    filled.memory.query("caught up")
    sides = alternate(
        {"smp": lambda: children.seconds(script), "python": lambda: children.seconds("pass")}, plan.count(15, 3)
    )
    yield Row(
        "first answer of a new process",
        f"{filled.count:,} memories",
        "ms",
        sides.at("smp", 0.5) * 1e3,
        sides.at("python", 0.5) * 1e3,
        sides.ratio("smp", "python"),
        Target("ratio", at_most=8),
    )


def with_meaning(plan: Plan) -> Iterator[Row]:
    """The same queries and first answer by words and meaning; vectors are made before."""
    if not embeddings.available():
        return
    for count, sessions, limit in _SIZES[:1] if plan.quick else _SIZES[:3]:
        filled = _store(plan, count, sessions)
        case = f"{count:,} memories"
        memory = sample_data.open_store(filled.root, "jsonl", "os", "auto")
        rate = count / whole(memory.reindex)[0]
        yield Row("index build with meaning", case, "memories/s", rate)
        each(memory.query, filled.questions)
        seconds = sorted(each(memory.query, filled.questions))
        target = limit and Target("value", at_most=limit)
        yield Row("query p95 with meaning", case, "ms", quantile(seconds, _P95) * 1e3, target=target)
        memory.close()
    children = reads.Children(plan)
    children.environment["SMP_SEARCH_SEMANTIC"] = "auto"
    script = _FIRST.format(root=filled.root)
    sides = alternate(
        {"smp": lambda: children.seconds(script), "python": lambda: children.seconds("pass")}, plan.count(15, 3)
    )
    yield Row(
        "first answer of a new process with meaning",
        case,
        "ms",
        sides.at("smp", 0.5) * 1e3,
        sides.at("python", 0.5) * 1e3,
        sides.ratio("smp", "python"),
        Target("ratio", at_most=7.5),
    )
