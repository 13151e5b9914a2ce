"""The types of `smp_memory.aio`: the stub is up to date, mypy accepts right calls and rejects wrong ones."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]

RIGHT = """
from smp_memory import aio
from smp_memory.model.record import Decision, Record


async def main() -> None:
    async with aio.open("store", layout="markdown") as memory:
        session: aio.AsyncSessionMemory = await memory.create_session("review", user="ada")
        decision: Decision = await session.add_decision("Use OAuth 2.0", tags=["auth"], author="architect")
        async with session.transaction() as tx:
            await tx.relate(await tx.add_finding("No MFA", severity="high"), decision)
        async for hit in session.watch(types="finding", timeout=1):
            text: str = hit.record.text
        records: list[Record] = [record async for record in session]
        agent: aio.AsyncAgentMemory = await memory.agent("architect", session=session)
        names: list[str] = [each.id for each in await memory.sessions()]
        user: str | None = (await session.info()).user
        length: int = await aio.call(len, "text")
    opened: aio.AsyncMemory = await aio.open()
"""
WRONG = {
    "await session.add_decision('Use OAuth', tagz=['auth'])": "call-arg",
    "await session.add_decision(27)": "arg-type",
    "await session.no_such_method()": "attr-defined",
    "session.info.user": "attr-defined",
    "(await session.query('x')).no_such_field": "attr-defined",
    "await aio.call(len, 27)": "arg-type",
    "await aio.open(layuot='single')": "call-arg",
    "session.add_decision('not awaited')": "unused-coroutine",
}


def test_stub_is_as_the_code_makes_it_now() -> None:
    spec = importlib.util.spec_from_file_location("make_aio_stub", ROOT / "docs" / "make_aio_stub.py")
    assert spec is not None
    assert spec.loader is not None
    maker = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(maker)
    assert Path(maker.PATH).read_text("utf-8") == maker.stub(), "aio/__init__.pyi is out of date; run: ./dev renew"


def test_mypy_accepts_right_calls_and_rejects_wrong_ones(tmp_path: Path) -> None:
    pytest.importorskip("mypy", reason="mypy is not installed")
    calls = "".join(f"    {call}\n" for call in WRONG)
    right, wrong = tmp_path / "right.py", tmp_path / "wrong.py"
    right.write_text(RIGHT, "utf-8")
    head = "from smp_memory import aio\n\nasync def main(session: aio.AsyncSessionMemory) -> None:\n"
    wrong.write_text(head + calls, "utf-8")
    command = [sys.executable, "-m", "mypy", "--config-file=pyproject.toml", str(right), str(wrong)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    found = {
        line.split(":")[1]: line.rpartition("[")[2].rstrip("]")
        for line in done.stdout.splitlines()
        if ": error:" in line
    }
    assert str(right) not in done.stdout, done.stdout
    assert found == {str(number): code for number, code in enumerate(WRONG.values(), 4)}, done.stdout
