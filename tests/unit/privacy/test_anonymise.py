"""Anonymisation: names are replaced, the structure is kept, and only the key restores the names."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as some

import smp_memory
from smp_memory.errors import InvalidFormat
from smp_memory.model import ids
from smp_memory.privacy.anonymisation import Anonymiser, Placeholders

HEAD = {
    "id": "checkout-review",
    "user": "Ada Lovelace",
    "project": "E-Commerce",
    "agents": ["architect"],
    "created": "2026-01-11T10:30:00Z",
    "context": {"root": "~/shop/src"},
    "tags": [],
}
RECORDS: list[dict[str, Any]] = [
    {
        "id": "TURN-0001",
        "session": "checkout-review",
        "type": "conversation",
        "created": "2026-01-11T10:31:00Z",
        "role": "user",
        "author": "Ada Lovelace",
        "content": "ada here: /srv/ada/shop/src/cart.py fails, mail ada@corp.example.com. ADA",
    },
    {
        "id": "DEC-0001",
        "session": "checkout-review",
        "type": "decision",
        "created": "2026-01-11T10:32:00Z",
        "author": "architect",
        "decision": "Use https://git.acme.example/ada/shop at 10.1.2.3 for E-Commerce, not /srv/ada/shop/src/old.py",
        "approved_by": ["Grace Hopper", "architect"],
        "references": ["checkout-review/TURN-0001", "TURN-0001"],
        "relations": [{"kind": "derived_from", "target": "checkout-review/TURN-0001"}],
        "tags": ["e-commerce.cart"],
        "state": {"Grace": 3, "pi": 3.14, "ok": True, "none": None},
    },
]


@pytest.fixture
def placeholders() -> Placeholders:
    return Placeholders()


def anonymised(placeholders: Placeholders, **options: Any) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    (head,), records = Anonymiser(placeholders, **options).anonymise([HEAD], RECORDS)
    return head, records


def test_names_projects_and_paths_become_placeholders_as_in_design_003(placeholders: Placeholders) -> None:
    head, (turn, decision) = anonymised(placeholders)
    assert (head["user"], head["project"], head["id"]) == ("User-1", "Project-A", "Session-1")
    assert turn["author"] == "User-1"
    assert (
        turn["content"]
        == "User-1b here: /path/dir-3/dir-4/dir-5/src/file-2.py fails, mail email-1@example.invalid. User-1c"
    )
    assert decision["decision"].startswith(
        "Use https://host-1.example.invalid/User-1b/shop at host-2.example.invalid for Project-A"
    )
    assert decision["tags"] == ["Project-Ab.cart"]
    assert decision["state"] == {"User-2b": 3, "pi": 3.14, "ok": True, "none": None}


def test_no_name_remains(placeholders: Placeholders) -> None:
    left = json.dumps(anonymised(placeholders)).lower()
    assert [
        name for name in ("ada", "lovelace", "commerce", "grace", "acme", "10.1.2.3", "checkout") if name in left
    ] == []


def test_structure_and_relations_are_kept(placeholders: Placeholders) -> None:
    head, (turn, decision) = anonymised(placeholders)
    assert list(decision) == list(RECORDS[1])
    assert (turn["id"], decision["id"], decision["created"]) == ("TURN-0001", "DEC-0001", "2026-01-11T10:32:00Z")
    assert decision["references"] == [f"{head['id']}/TURN-0001", "TURN-0001"]
    assert decision["relations"] == [{"kind": "derived_from", "target": f"{turn['session']}/TURN-0001"}]


def test_anonymised_records_can_be_imported(placeholders: Placeholders) -> None:
    head, (_, decision) = anonymised(placeholders)
    ids.check(head["id"], "id")
    assert all(ids.check_tag(tag) for tag in decision["tags"])


def test_files_of_one_folder_stay_together(placeholders: Placeholders) -> None:
    _, (turn, decision) = anonymised(placeholders)
    assert "/path/dir-3/dir-4/dir-5/src/file-2.py" in turn["content"]
    assert "/path/dir-3/dir-4/dir-5/src/file-3.py" in decision["decision"]


def test_agent_names_are_kept_unless_requested(placeholders: Placeholders) -> None:
    assert anonymised(placeholders)[1][1]["author"] == "architect"
    _, (_, decision) = anonymised(Placeholders(), agents=True)
    assert decision["author"] == "Agent-1"
    assert decision["approved_by"] == ["User-2", "Agent-1"]


@pytest.mark.parametrize("off", ["users", "projects", "paths", "emails", "hosts", "sessions"])
def test_each_kind_of_name_can_be_kept(off: str) -> None:
    kept = {"users": "Ada Lovelace", "projects": "E-Commerce", "paths": "cart.py", "emails": "@corp.example.com", "hosts": "10.1.2.3", "sessions": "checkout-review"}  # fmt: skip
    assert kept[off] in json.dumps(anonymised(Placeholders(), off=[off]))
    assert kept[off] not in json.dumps(anonymised(Placeholders()))


def test_names_given_by_the_caller_are_replaced(placeholders: Placeholders) -> None:
    anonymiser = Anonymiser(placeholders, names={"user": ["Charles"], "project": ["Engine"]})
    assert anonymiser.text("Charles built the ENGINE, not Charlesworth's engines") == (
        "User-1 built the Project-A, not Charlesworth's engines"
    )


def test_input_is_not_changed(placeholders: Placeholders) -> None:
    before = json.dumps([HEAD, RECORDS])
    anonymised(placeholders)
    assert json.dumps([HEAD, RECORDS]) == before


def test_key_restores_everything(placeholders: Placeholders) -> None:
    head, records = anonymised(placeholders)
    other = Anonymiser(Placeholders.from_key(placeholders.key()))
    assert other.restore(head) == HEAD
    assert [other.restore(record) for record in records] == RECORDS


def test_nothing_is_restored_without_the_key(placeholders: Placeholders) -> None:
    head, records = anonymised(placeholders)
    stranger = Anonymiser(Placeholders())
    assert [stranger.restore(each) for each in (head, *records)] == [head, *records]


def test_placeholders_are_the_same_in_later_calls_and_after_loading(placeholders: Placeholders) -> None:
    first = anonymised(placeholders)
    assert anonymised(placeholders) == first
    again = Placeholders.from_key(placeholders.key())
    assert anonymised(again) == first
    assert again.key() == placeholders.key()


def test_new_names_after_loading_get_new_placeholders(placeholders: Placeholders) -> None:
    anonymised(placeholders)
    loaded = Placeholders.from_key(placeholders.key())
    new = Anonymiser(loaded, names={"user": ["Charles"]}).text("Charles and AdA, /srv/ada/shop/src/new.py, /opt/x/y")
    assert new.startswith("User-3 and User-1d, /path/dir-3/dir-4/dir-5/src/file-")
    assert len(set(loaded._back)) == len(loaded)


def test_text_that_already_looks_like_a_placeholder_is_restored(placeholders: Placeholders) -> None:
    anonymiser = Anonymiser(placeholders, names={"user": ["Ada"]})
    text = "Ada is not User-1, see /path/dir-1/file-1 and host-1.example.invalid, email-1@example.invalid, Project-A"
    changed = anonymiser.text(text)
    assert "Ada" not in changed
    assert anonymiser.restore_text(changed) == text


_PIECES = some.sampled_from(
    ["Ada", "ada", "User-1", "User-1b", "User-", "Project-A", "-", "/", "/path", "/srv/ada/x.py", "src/a.py", "~", " ",
     "ada@x.example", "email-1@example.invalid", "@", ".", ":", "https://", "acme.example", "10.1.2.3", "host-1.example.invalid",
     "C:\\", "x", "\\", "1", "b", "_", "\n", "Ünï", "é", "[REDACTED:email]", "E-Commerce", "dir-1", "file-1.py"]
)  # fmt: skip


@given(some.lists(some.lists(_PIECES, max_size=14).map("".join), max_size=4))
def test_any_text_is_restored_exactly(texts: list[str]) -> None:
    placeholders = Placeholders()
    anonymiser = Anonymiser(placeholders, names={"user": ["Ada"], "project": ["E-Commerce", "Ünï"]})
    changed = [anonymiser.text(text) for text in texts]
    other = Anonymiser(Placeholders.from_key(placeholders.key()))
    assert [other.restore_text(text) for text in changed] == texts


@pytest.mark.parametrize(
    "key", ["", "[]", "{}", '{"smp_key": 2}', '{"smp_key": 1}', '{"smp_key": 1, "user": [1]}', "[" * 5000]
)
def test_invalid_key_is_rejected(key: str) -> None:
    with pytest.raises(InvalidFormat):
        Placeholders.from_key(key)


def test_key_with_a_duplicate_placeholder_is_rejected(placeholders: Placeholders) -> None:
    key = json.loads(placeholders.key())
    key["user"] = {"Ada": "User-1", "Grace": "User-1"}
    with pytest.raises(InvalidFormat, match="twice"):
        Placeholders.from_key(json.dumps(key))


@pytest.mark.parametrize("piece", ["a", "a/", "/a", "a.", "a@", "1.", "://a.", "C:\\a\\", "User-", "/path/", "~/"])
def test_long_words_are_processed_in_linear_time(piece: str) -> None:
    """A quadratic pattern would not come back before the time limit."""
    text = piece * (50_000 // len(piece))
    anonymiser = Anonymiser(Placeholders(), names={"user": ["Ada"]})
    assert anonymiser.restore_text(anonymiser.text(text)) == text


_HOSTS = [
    "db7.corp.com",
    "srv-1.internal",
    "host.lan",
    "build.corp",
    "nas.home.arpa",
    "db-1.local",
    "api.github.io",
    "www.shop.dev",
    "jira.company.de",
    "mail.example.org",
    "staging.shop.app",
    "node-3.cluster.local",
    "ci.intra",
    "DB7.corp.com",
    "ip-10-0-0-1.ec2.internal",
    "git.company.net",
    "shop.co.uk",
    "my-app.cloud",
]
_NOT_HOSTS = [
    "main.py",
    "config.json",
    "README.md",
    "os.path",
    "java.io",
    "java.net",
    "System.IO",
    "threading.local",
    "logger.info",
    "logging.info(x)",
    "user.name",
    "user.id",
    "self.app",
    "flask.app",
    "node.js",
    "ASP.NET",
    ".env.local",
    "settings.local",
    "1.2.3",
    "v1.0.0-rc.1",
    "e.g.",
    "i.e.",
    "foo.tar.gz",
    "docker-compose.yml",
    "org.apache.commons",
    "com.sun.internal",
    "com.example.app",
    "std.io",
    "Path.home()",
    "request.app.test",
    "index.d.ts",
    "app.module.ts",
    "Cargo.toml",
    "a.b.c",
    "np.test",
    "sys.stdout",
    "os.environ.get",
    "self.config.info",
    "event.co",
    "window.me",
    "core.private",
    "Console.app",
    "test-1.py",
    "libfoo.so.2",
    "utils.test.js",
    "user-2.json",
    "session.close()",
    "df.at[0]",
    "array.at(0)",
    "this.no",
    "model-2.pt",
    "s3.tf",
    "README-2.md",
    "re.IGNORECASE",
    "datetime.now",
    "weights.pt",
]


@pytest.mark.parametrize("host", _HOSTS)
def test_bare_host_gets_the_placeholder_of_the_same_host_in_an_address(host: str) -> None:
    anonymiser = Anonymiser(Placeholders())
    text = f"Restart {host}. It answers at https://{host}/status and {host}:5432, not in main.py"
    result = anonymiser.text(text)
    assert result == text.replace(host, "host-1.example.invalid")
    assert anonymiser.restore_text(result) == text


@pytest.mark.parametrize("name", _NOT_HOSTS)
def test_name_of_a_file_a_module_or_a_version_is_no_host(name: str) -> None:
    text = f"It is {name} that fails"
    assert Anonymiser(Placeholders()).text(text) == text


def test_states_of_frameworks_are_left_out_because_nobody_sees_the_names_in_them():
    with smp_memory.open(":memory:") as memory:
        session = memory.create_session("langgraph-x", user="ada", framework="langgraph", opaque="WyJhZGEiXQ==")
        session.add_turn("system", "checkpoint 1", opaque={"state": "WyJhZGEiXQ=="}, embedding=[0.5])
        text = memory.export(format="json", anonymise=Placeholders())
        assert "WyJhZGEiXQ" not in text
        assert "embedding" not in text
        assert "checkpoint 1" in text
