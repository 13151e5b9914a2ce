"""BMAD's working memory: memlog init, append, set. The same words and the same answer as its own script."""

from __future__ import annotations

import sys

from smp.errors import UserError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from smp.cli.arguments import Parser
    from smp.cli.call import Call


def _add_target(parser: Parser) -> None:
    target = parser.add_mutually_exclusive_group(required=True)
    target.add_argument("--workspace", metavar="DIR", help="the run folder; its memlog is DIR/.memlog.md")
    target.add_argument("--path", metavar="FILE", help="the memlog itself")


def _path(call: Call) -> str:
    from pathlib import Path  # writes paths as BMAD's script does

    from smp.bmad.memlog_text import NAME

    return str(Path(call.options.path) if call.options.path else Path(call.options.workspace) / NAME)


def _say(path: str, entries: int) -> None:
    import json

    sys.stdout.write(json.dumps({"ok": True, "memlog": path, "entries": entries}) + "\n")


def memlog_init_arguments(parser: Parser) -> None:
    _add_target(parser)
    parser.add_argument("--field", action="append", metavar="KEY=VALUE", help="a field of its head; repeat for more")


def run_memlog_init(call: Call) -> None:
    """Make a memlog: BMAD's working memory of a piece of work. One that is there is refused.

    Examples:
      smp memlog init --workspace _bmad-output/specs/spec-login --field topic="Login"
    """
    from smp.bmad.memlog import Memlog

    fields = []
    for pair in call.options.field or []:
        name, equals, value = pair.partition("=")
        if not equals:
            raise UserError(f"--field expects key=value, not {pair!r}.", field="field")
        fields.append((name, value))
    path = _path(call)
    _say(path, Memlog(path).init(fields))


def memlog_append_arguments(parser: Parser) -> None:
    _add_target(parser)
    parser.add_argument("--text", required=True, help="what is to be remembered; it becomes one line")
    parser.add_argument("--type", help="what kind it is: decision, idea, question, …")
    parser.add_argument("--by", metavar="WHO", help="who it came from")


def run_memlog_append(call: Call) -> None:
    """Append one entry to a memlog. It takes the place of BMAD's memlog.py: the same options, the same file, the same
    answer; but when several processes append at once, no entry is lost.

    Examples:
      smp memlog append --workspace _bmad-output/specs/spec-login --type decision --text "use OAuth 2.0" --by architect
    """
    from smp.bmad.memlog import Memlog

    options, path = call.options, _path(call)
    _say(path, Memlog(path).append(options.text, options.type, options.by))


def memlog_set_arguments(parser: Parser) -> None:
    _add_target(parser)
    parser.add_argument("--key", required=True, help="the name of the field")
    parser.add_argument("--value", required=True, help="its value")


def run_memlog_set(call: Call) -> None:
    """Set or replace a field in the head of a memlog.

    Examples:
      smp memlog set --workspace _bmad-output/specs/spec-login --key status --value complete
    """
    from smp.bmad.memlog import Memlog

    path = _path(call)
    _say(path, Memlog(path).set(call.options.key, call.options.value))
