"""The classes for asyncio: every method of the sync classes is there, objects are wrapped, errors are the same."""

from __future__ import annotations

import asyncio
import inspect
import time
from contextvars import ContextVar
from pathlib import Path

import pytest

from smp_memory import aio
from smp_memory.aio.faces import FACES, HIDDEN
from smp_memory.errors import InvalidRecord, SessionNotFound, StoreClosed
from smp_memory.files.system import RealSystem


def sync_class(face: type) -> type:
    return next(sync for sync, made in FACES.items() if made is face)


def all_optional(face: type) -> list[str]:
    """The methods of a face that can be called without arguments, in the order of their names."""
    names = []
    for name, _ in inspect.getmembers(face, inspect.iscoroutinefunction):
        delegated = inspect.getattr_static(sync_class(face), name, None)
        function = delegated.fget if isinstance(delegated, property) else delegated
        given = list(inspect.signature(function).parameters.values())[1:] if function is not None else []
        if not name.startswith("_") and all(
            each.default is not each.empty or each.kind in (each.VAR_POSITIONAL, each.VAR_KEYWORD) for each in given
        ):
            names.append(name)
    return names


@pytest.mark.parametrize("sync", FACES, ids=lambda sync: sync.__name__)
def test_every_public_method_and_property_is_there(sync: type) -> None:
    names = {name for kind in sync.__mro__[:-1] for name in vars(kind) if not name.startswith("_")}
    missing = [name for name in names - set(HIDDEN) if not hasattr(FACES[sync], name)]
    assert missing == []


def test_methods_keep_names_and_docstrings() -> None:
    for sync, face in FACES.items():
        for name, method in inspect.getmembers(face, inspect.iscoroutinefunction):
            if not name.startswith("_"):
                assert method.__name__ == name
                assert method.__doc__ or not getattr(sync, name).__doc__


async def test_a_story(tmp_path: Path) -> None:
    async with aio.open(tmp_path / "store") as memory:
        session = await memory.create_session("review", user="ada")
        decision = await session.add_decision("Use OAuth 2.0", author="architect")
        hits = await memory.query("oauth")
        assert [hit.id for hit in hits] == [decision.id]
        assert (await session.info()).user == "ada"
        assert [record.id async for record in session] == [decision.id]
        assert session.memory == memory
        assert memory.root == str(tmp_path / "store")
    with pytest.raises(StoreClosed):
        await session.add_decision("Too late")


async def test_objects_that_read_the_store_are_wrapped(memory: aio.AsyncMemory) -> None:
    session = await memory.create_session("review")
    (listed,), ((_, timed),), latest = (
        await memory.sessions(),
        await memory.sessions_by_time(),
        await memory.latest_session(),
    )
    for each in (session, listed, timed, latest):
        assert isinstance(each, aio.AsyncSessionMemory)
        assert each.id == "review"
    assert isinstance(await memory.agent("architect", session), aio.AsyncAgentMemory)
    assert isinstance(await session.agent("architect"), aio.AsyncAgentMemory)
    assert isinstance(memory.global_memory, aio.AsyncGlobalMemory)
    assert isinstance(await memory.global_memory.session(), aio.AsyncSessionMemory)
    assert isinstance(await memory.analytics(), aio.AsyncAnalytics)
    assert isinstance(await memory.convert("markdown"), aio.AsyncMemory)


async def test_faces_are_taken_as_arguments(memory: aio.AsyncMemory) -> None:
    session = await memory.create_session("review")
    await session.add_decision("Use OAuth 2.0")
    agent = await memory.agent("architect", session=session)
    assert agent.id == "review"
    assert "OAuth" in str(await memory.context("architect", task="login with oauth", session=session))


async def test_party_and_agents(memory: aio.AsyncMemory) -> None:
    session = await memory.create_session("review")
    party = await session.party(["architect", "veritas"])
    assert party.agents == ["architect", "veritas"]
    assert [member.agent for member in party] == party.agents
    await party["veritas"].add_finding("Login has no rate limit")
    assert [record.author async for record in party["architect"]] == ["veritas"]


async def test_transaction_is_stored_whole(memory: aio.AsyncMemory) -> None:
    session = await memory.create_session("review")
    async with session.transaction() as tx:
        decision = await tx.add_decision("Use OAuth 2.0")
        finding = await tx.add_finding("No MFA")
        await tx.relate(decision, finding, "resolves")
        assert len(await session.records()) == 0
    assert [record.id for record in await session.records()] == [decision.id, finding.id]


async def test_exception_rolls_a_transaction_back(memory: aio.AsyncMemory) -> None:
    session = await memory.create_session("review")
    with pytest.raises(ZeroDivisionError):
        async with session.transaction() as tx:
            await tx.add_decision("Use OAuth 2.0")
            raise ZeroDivisionError
    assert len(await session.records()) == 0


async def test_errors_are_those_of_the_sync_classes(memory: aio.AsyncMemory) -> None:
    with pytest.raises(SessionNotFound):
        await memory.session("missing")
    session = await memory.create_session("review")
    with pytest.raises(InvalidRecord, match="decision"):
        await session.add_decision("")


async def test_context_variables_reach_the_thread() -> None:
    name: ContextVar[str] = ContextVar("name")
    name.set("ada")
    assert await aio.call(name.get) == "ada"


async def test_calls_of_one_task_are_stored_in_order(memory: aio.AsyncMemory) -> None:
    session = await memory.create_session("review")

    async def write(task: int) -> None:
        for number in range(10):
            await session.add_turn("user", f"{task} {number}")

    await asyncio.gather(*(write(task) for task in range(8)))
    texts = [record.content for record in await session.records()]
    for task in range(8):
        assert [text for text in texts if text.startswith(f"{task} ")] == [f"{task} {number}" for number in range(10)]


class SlowDisk(RealSystem):
    """A disk whose syncs take long enough for others to come; it counts them."""

    syncs = 0

    def sync(self, descriptor: int) -> None:
        self.syncs += 1
        time.sleep(0.002)


async def test_gathered_writes_share_syncs(tmp_path: Path) -> None:
    disk = SlowDisk(str(tmp_path / "store"))
    async with aio.open(tmp_path / "store", system=disk) as memory:
        session = await memory.create_session("review")
        disk.syncs = 0
        await asyncio.gather(*(session.add_decision(f"Decision {number}") for number in range(100)))
        assert disk.syncs < 50
        assert len(await session.records()) == 100
