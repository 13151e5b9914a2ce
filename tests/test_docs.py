"""Documents: examples run and are up to date, links resolve, and everything public is explained."""

from __future__ import annotations

import hashlib
import importlib.util
import re
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

import smp_memory
from smp_memory import errors
from smp_memory.cli.commands import COMMANDS
from smp_memory.config.settings import SETTINGS
from smp_memory.files.layouts import NAMES
from smp_memory.search.records import Snapshot

ROOT = Path(__file__).parents[1]
DOCUMENTS = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")])
ids = [str(path.relative_to(ROOT)) for path in DOCUMENTS]
every_document = pytest.mark.parametrize("path", DOCUMENTS, ids=ids)

_FENCE = re.compile(r"^(`{3,})(\w*)\n(.*?)^\1$", re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")


def text(name: str) -> str:
    return (ROOT / name).read_text(encoding="utf-8")


def blocks(name: str, language: str) -> list[str]:
    return [body for _, found, body in _FENCE.findall(text(name)) if found == language]


def section(name: str, title: str) -> str:
    """A chapter of a document, with its heading."""
    return re.split(r"^## ", text(name).partition(f"## {title}\n")[2], maxsplit=1, flags=re.MULTILINE)[0]


def load_script(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, ROOT / "docs" / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def maker() -> ModuleType:
    return load_script("make_examples")


# -- examples


def test_examples_are_as_the_code_makes_them_now(maker: ModuleType) -> None:
    for name in maker.DOCUMENTS:
        assert maker.renewed(text(name)) == text(name), f"{name} is out of date; run: ./dev renew"


def test_generated_pages_are_as_the_code_makes_them_now() -> None:
    maker = load_script("make_reference")
    for name, page in maker.PAGES.items():
        assert page() == text(name), f"{name} is out of date; run: ./dev renew"


def test_every_public_name_has_a_docstring() -> None:
    api = text("docs/reference/api.md")
    undocumented = re.findall(r"^### (\S+)\n\n```text\n[^`]+```\n+(?=#)", api, re.MULTILINE)
    assert undocumented == []


def test_every_option_and_field_has_a_meaning() -> None:
    table = section("docs/reference/api.md", "Options and fields")
    assert re.findall(r"^\| `(\w+)` \| .* \|  \|$", table, re.MULTILINE) == []


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.skipif(sys.platform == "win32", reason="./dev is a shell script")
def test_site_is_built_without_broken_links() -> None:
    done = subprocess.run(["sh", "./dev", "docs"], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    pages = list((ROOT / "build" / "site").rglob("*.html"))
    assert len(pages) > 60
    loaded = re.compile(r"""<(?:script|img|link rel="?stylesheet)[^>]*(?:src|href)="?https?:""")
    assert [page.name for page in pages if loaded.search(page.read_text(encoding="utf-8"))] == []


def test_every_example_is_shown_somewhere(maker: ModuleType) -> None:
    shown = {name for document in maker.DOCUMENTS for name in re.findall(r"<!-- example ([\w.-]+) -->", text(document))}
    assert shown == set(maker.EXAMPLES)


def test_the_quick_start_in_python_runs(tmp_path: Path) -> None:
    (code,) = blocks("README.md", "python")
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", code], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "checkout-review/DEC-0002 Five attempts a minute" in done.stdout
    assert "<smp-recalled-" in done.stdout


def test_the_guide_to_asyncio_runs(tmp_path: Path) -> None:
    code = "\n".join(blocks("docs/guides/asyncio.md", "python"))
    done = subprocess.run(
        [sys.executable, "-W", "error", "-X", "dev", "-c", code],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "Round once, at output" in done.stdout


def test_the_commands_of_the_quick_start_work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (lines,) = [block for block in blocks("README.md", "sh") if "smp init" in block]
    assert run_commands(lines, tmp_path, monkeypatch) == [0] * 5


def test_query_of_the_quick_start_finds_something(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A newcomer's first question had no answer."""
    (lines,) = [block for block in blocks("README.md", "sh") if "smp init" in block]
    until, question, _ = lines.partition(next(line for line in lines.splitlines() if line.startswith("smp query")))
    run_commands(until, tmp_path, monkeypatch)
    capsys.readouterr()
    assert run_commands(question, tmp_path, monkeypatch) == [0]
    assert "FIND-0001" in capsys.readouterr().out


def test_packages_of_servers_are_named_like_the_extras() -> None:
    import tomllib

    from smp_memory.cli.commands.servers import MCP_PACKAGES, WEB_PACKAGES

    extras = tomllib.loads(text("pyproject.toml"))["project"]["optional-dependencies"]
    assert (list(MCP_PACKAGES), list(WEB_PACKAGES)) == (extras["mcp"], extras["web"])


def test_every_command_in_the_docs_is_understood(empty_store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ids that the examples speak of may be missing here; a wrong option or command is not forgiven."""
    lines = [
        line for line in "".join(blocks("docs/cli.md", "sh")).splitlines() if "demo" not in line and "|" not in line
    ]
    lines = [line.replace("~/projects/shop", "shop") for line in lines if line != "smp edit DEC-0001"]
    codes = run_commands("\n".join(lines), empty_store, monkeypatch)
    assert len(codes) > 25
    assert [line for line, code in zip(lines, codes, strict=True) if code not in (0, 11, 32)] == []


def test_commands_of_the_server_files_are_understood() -> None:
    from smp_memory.cli.arguments import build_parser

    yaml = pytest.importorskip("yaml")
    services = yaml.safe_load("".join(blocks("docs/server.md", "yaml")))["services"]
    calls = [services[name]["command"] for name in ("mcp", "web")]
    unit = "".join(blocks("docs/server.md", "ini"))
    calls += [line.split()[1:] for line in unit.splitlines() if line.startswith("ExecStart=")]
    assert len(calls) == 3
    for name, *words in calls:
        assert build_parser(name)[0].parse_args(words).allow_host == ["memory.example"]


@pytest.fixture
def empty_store(tmp_path: Path) -> Path:
    (tmp_path / ".bmad").mkdir()
    return tmp_path


def run_commands(text_of_commands: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    import shlex

    from smp_memory.cli.main import main

    monkeypatch.chdir(folder)
    return [main(shlex.split(line, comments=True)[1:]) for line in text_of_commands.strip().splitlines()]


# -- the checksum is what FORMAT.md says it is


@pytest.mark.parametrize(
    ("pattern", "count"),
    [
        (r'^(\{"id".*),"checksum":"(sha256:\w{16})"\}$', 13 + 14 + 13),
        (r"^(  - id: (?:(?!^    smp: ).)*\n    smp: [^\n]*?)(sha256:\w{16})$", 1 + 4 + 2 + 1 + 1),
        (r"^(## (?:Turn|Artifact) (?:(?!^<!-- end ).)*\n<!-- end [^\n]*?)(sha256:\w{16}) -->$", 4 + 1),
    ],
    ids=["jsonl", "yaml", "md"],
)
def test_the_checksum_rule_holds_for_every_entry_shown(pattern: str, count: int) -> None:
    flags = re.MULTILINE if pattern.startswith("^(\\{") else re.MULTILINE | re.DOTALL
    found = re.findall(pattern, text("docs/FORMAT.md"), flags)
    assert len(found) == count
    for signed, checksum in found:
        assert checksum == "sha256:" + hashlib.sha256(signed.encode()).hexdigest()[:16]


# -- nothing is left out


def test_every_error_is_explained() -> None:
    table = section("docs/reference/api.md", "Errors")
    kinds = [kind for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, errors.SMPError)]
    assert len(kinds) > 20
    for kind in kinds:
        row = f"| `{kind.__name__}` | `{kind.code}` | {kind.number or ''} | {kind.exit_code} |"
        assert row in table


def test_every_setting_is_explained() -> None:
    table = section("docs/configuration.md", "All settings")
    for setting in SETTINGS:
        assert f"`{setting.path}`" in table
        assert f"`{setting.variable}=" in table


def test_examples_of_settings_are_allowed(maker: ModuleType) -> None:
    for setting in SETTINGS:
        value = setting.check.parse(maker.example_value(setting))
        assert setting.check.accepts(value), setting.path
        assert value != setting.default or setting.path == "format", setting.path


def test_every_command_is_explained() -> None:
    explained = text("docs/reference/cli.md")
    assert [name for name in COMMANDS if f"\n### smp {name}\n" not in explained] == []


def test_every_operator_and_part_of_a_query_is_explained() -> None:
    from smp_memory.search.filters import OPERATORS
    from smp_memory.search.query import Query

    known = set(re.findall(r"`(\w+)`", text("docs/finding.md")))
    assert sorted(set(OPERATORS) - known) == []
    assert sorted(set(Query.__slots__) - known - {"now", "topics"}) == []  # told as at, topic


def test_every_option_is_explained() -> None:
    from smp_memory.cli.arguments import build_parser

    known = {"--help", *re.findall(r"(?<![\w-])--[a-z][a-z-]+", text("docs/cli.md") + text("docs/reference/cli.md"))}
    options = {
        f"{name} {option}"
        for name in COMMANDS
        for action in build_parser(name)[0]._actions
        for option in action.option_strings
        if option[1] == "-" and option not in known
    }
    assert sorted(options) == []


@pytest.mark.parametrize(
    "kind", [smp_memory.Memory, smp_memory.SessionMemory, smp_memory.Transaction, smp_memory.Record, Snapshot]
)
def test_every_public_name_is_in_the_api(kind: type) -> None:
    known = set(re.findall(r"[`.(\s]([a-z_]+)\b", text("docs/reference/api.md")))
    public = {name for each in kind.__mro__[:-1] for name in vars(each) if not name.startswith("_")}
    assert sorted(public - known) == []


def test_calls_in_the_guide_to_python_are_those_of_the_code() -> None:
    """A call in the table of tasks names a method that exists and no argument that it does not take."""
    import inspect

    kinds = {"memory": smp_memory.Memory, "session": smp_memory.SessionMemory}
    calls = re.findall(r"`(memory|session)\.(\w+)\(([^`]*)\)`", section("docs/guides/python.md", "By task"))
    assert len(calls) > 30
    wrong = []
    for owner, name, arguments in calls:
        parameters = inspect.signature(getattr(kinds[owner], name)).parameters
        takes_any = any(each.kind is each.VAR_KEYWORD for each in parameters.values())
        named = set(re.findall(r"(?:^|, )([a-z_]\w*)=", arguments))
        wrong += [f"{owner}.{name}: {each}" for each in named - set(parameters) if not takes_any]
    assert wrong == []


@pytest.mark.parametrize("name", NAMES)
def test_every_layout_has_a_chapter(name: str) -> None:
    assert f"\n## Layout {name}\n" in text("docs/FORMAT.md")


def test_every_test_folder_is_on_the_map() -> None:
    table = section("docs/ARCHITECTURE.md", "What each test folder proves")
    folders = {path.parent.relative_to(ROOT / "tests").parts[0] for path in (ROOT / "tests").glob("*/**/test_*.py")}
    assert sorted(folder for folder in folders if f"`tests/{folder}/`" not in table) == []


# -- every document


@every_document
def test_links_resolve(path: Path) -> None:
    for target in _LINK.findall(_FENCE.sub("", path.read_text(encoding="utf-8"))):
        if target.startswith("https://"):
            continue
        name, _, anchor = target.partition("#")
        there = (path.parent / name).resolve() if name else path
        assert there.exists(), f"{target} is not there"
        if anchor:
            assert anchor in anchors(there), f"{target}: there is no such heading"


def anchors(path: Path) -> set[str]:
    """The names that headings get on the web."""
    headings = re.findall(r"^#+ (.+)$", _FENCE.sub("", path.read_text(encoding="utf-8")), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def test_files_that_are_named_exist() -> None:
    named = re.compile(r"`((?:tests|docs|benchmarks)/[\w./-]+|\./dev)`")
    found = [(path.name, name) for path in DOCUMENTS for name in named.findall(path.read_text(encoding="utf-8"))]
    assert [(document, name) for document, name in found if not (ROOT / name).exists()] == []


def test_documents_contain_no_path_of_a_machine() -> None:
    machine = re.compile(r"(?<![\w.~<])/(?:home|work|tmp|root|Users|var|opt|mnt)\b\S*")
    found = {path.name: machine.findall(path.read_text(encoding="utf-8")) for path in DOCUMENTS}
    assert {name: paths for name, paths in found.items() if paths} == {}


def test_every_decision_record_has_a_number_of_its_own() -> None:
    names = sorted(path.name for path in (ROOT / "docs" / "adr").glob("[0-9]*.md"))
    numbers = [int(name[:4]) for name in names]
    assert len(set(numbers)) == len(numbers)
    for name in names:
        assert (ROOT / "docs" / "adr" / name).read_text(encoding="utf-8").startswith(f"# {int(name[:4])}. "), name
