"""The error tree: unique codes, pickling, and the tree in the docstring."""

from __future__ import annotations

import copy
import errno
import importlib.util
import inspect
import os
import pickle
import sys

import pytest

from smp_memory import errors
from smp_memory.errors import SMPError, StorageError, StorageFull, StorageReadOnly, from_os_error, install_command


def tree(kind=SMPError):
    return [kind, *(below for child in kind.__subclasses__() for below in tree(child))]


CLASSES = [kind for kind in tree() if kind.__module__ == errors.__name__]
EACH = pytest.mark.parametrize("kind", CLASSES, ids=lambda kind: kind.__name__)


def drawn():
    """The picture in the docstring: name -> (parent, the rest of its line)."""
    found, path = {}, []
    for line in errors.__doc__.splitlines():
        bare = line.lstrip(" │├└─")
        if not bare or not line.startswith("    "):
            continue
        depth = (len(line) - len(bare)) // 4 - 1
        name, _, rest = bare.partition(" ")
        del path[depth:]
        found[name] = (path[-1] if path else None, rest.split())
        path.append(name)
    return found


def test_tree_is_complete():
    defined = [kind for _, kind in inspect.getmembers(errors, inspect.isclass) if issubclass(kind, Exception)]
    assert set(defined) == set(CLASSES)
    assert len(CLASSES) > 25


@pytest.mark.parametrize("attribute", ["code", "exit_code"])
def test_codes_and_exit_codes_are_unique(attribute):
    values = [getattr(kind, attribute) for kind in CLASSES]
    assert sorted(set(values)) == sorted(values)


def test_numbers_of_the_designs_are_each_used_once():
    # `number` of a class itself, not one that it inherits
    numbers = [kind.__dict__["number"] for kind in CLASSES if kind.__dict__.get("number")]
    assert sorted(numbers) == [f"MEM_E00{n}" for n in range(1, 7)]


@EACH
def test_codes_have_their_form(kind):
    assert kind.code.startswith("E_")
    assert kind.code == kind.code.upper()
    assert 0 < kind.exit_code < 126  # 126 and up belong to the shell
    assert "code" in kind.__dict__
    assert "exit_code" in kind.__dict__


@EACH
def test_docstring_shows_each_error_in_its_place(kind):
    parent, rest = drawn()[kind.__name__]
    assert parent == (kind.__base__.__name__ if kind is not SMPError else None)
    codes = [word for word in rest if word.startswith("E_")]
    assert codes in ([], [kind.code])
    numbers = [word for word in rest if word.startswith("MEM_E")]
    assert numbers == ([kind.number] if kind.number else [])


def test_docstring_shows_no_other_errors():
    assert set(drawn()) == {kind.__name__ for kind in CLASSES}


def test_every_error_that_is_raised_as_such_shows_its_code_in_the_docstring():
    leaves = [kind for kind in CLASSES if not kind.__subclasses__()]
    assert [kind.__name__ for kind in leaves if kind.code not in drawn()[kind.__name__][1]] == []


@EACH
def test_errors_are_pickled_with_their_attributes(kind):
    details = {"session": "s-1", "path": "a/b.jsonl", "line": 3, "field": "tags", "limit": 10, "since": None}
    error = kind("What went wrong – ünïcode.", **details)
    for protocol in range(pickle.HIGHEST_PROTOCOL + 1):
        again = pickle.loads(pickle.dumps(error, protocol))
        assert type(again) is kind
        assert str(again) == again.message == "What went wrong – ünïcode."
        assert again.details == details
        assert {name: getattr(again, name) for name in details} == details
        assert (again.code, again.exit_code, again.number) == (kind.code, kind.exit_code, kind.number)


@EACH
def test_errors_can_be_copied_and_caught_as_the_base(kind):
    with pytest.raises(SMPError) as caught:
        raise kind("x", line=1)
    assert copy.copy(caught.value).line == 1
    assert copy.deepcopy(caught.value).line == 1


def test_a_record_error_without_a_field_has_none():
    assert errors.InvalidRecord("x").field is None


FULL = [errno.ENOSPC, errno.EDQUOT, errno.EFBIG]
READ_ONLY = [errno.EROFS, errno.EACCES, errno.EPERM]
OTHER = [errno.EIO, errno.ENOENT, errno.EMFILE, errno.EINTR]
MAPPING = [
    *((number, StorageFull) for number in FULL),
    *((number, StorageReadOnly) for number in READ_ONLY),
    *((number, StorageError) for number in OTHER),
]


@pytest.mark.parametrize(("number", "kind"), MAPPING, ids=lambda value: errno.errorcode.get(value, "") or None)
def test_os_errors_are_mapped(number, kind):
    error = from_os_error(OSError(number, os.strerror(number)), "s/turns.jsonl", "appending")
    assert type(error) is kind
    assert (error.path, error.errno) == ("s/turns.jsonl", number)
    for part in ("appending", "s/turns.jsonl", os.strerror(number)):
        assert part in str(error)
    again = pickle.loads(pickle.dumps(error))
    assert (type(again), again.errno, again.path) == (kind, number, "s/turns.jsonl")


def test_os_error_without_a_number_is_mapped():
    error = from_os_error(OSError("something odd"), "p", "reading")
    assert type(error) is StorageError
    assert error.errno is None
    assert "something odd" in str(error)


def test_real_os_error_is_mapped(tmp_path):
    with pytest.raises(FileNotFoundError) as caught:
        open(tmp_path / "no" / "file").close()
    assert type(from_os_error(caught.value, "no/file", "opening")) is StorageError


@pytest.mark.parametrize(
    ("prefix", "expected"),
    [
        ("/home/ada/.local/share/pipx/venvs/smp-memory", "pipx inject smp-memory 'mcp>=2.3'"),
        ("/home/ada/.local/share/uv/tools/smp-memory", "uv pip install --python /home/ada/bin/python 'mcp>=2.3'"),
        ("/home/ada/venv", "/home/ada/bin/python -m pip install 'mcp>=2.3'"),
    ],
)
def test_advice_to_install_fits_the_way_smp_was_installed(monkeypatch, prefix, expected):
    monkeypatch.setattr(sys, "prefix", prefix)
    monkeypatch.setattr(sys, "executable", "/home/ada/bin/python")
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: object())
    assert install_command("mcp>=2.3") == expected
    if "pipx" not in prefix:
        monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
        assert install_command("mcp>=2.3").startswith("uv pip install --python /home/ada/bin/python")
