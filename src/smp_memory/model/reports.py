"""Problems, reports and statistics. Problems in files are values, not exceptions: one damaged line never hides the rest."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


class Problem:
    """Something in the files that needs attention.

    `severity` is `error` (a memory or part of one cannot be read), `warning` (everything was read, but needs attention) or `note`.
    `archived` is the id of an archived session; then `path` is `archive:member`.
    """

    __slots__ = ("archived", "code", "id", "line", "message", "path", "severity")

    def __init__(
        self,
        path: str,
        line: int,
        code: str,
        message: str,
        severity: str = "error",
        id: str | None = None,
        archived: str | None = None,
    ) -> None:
        self.archived = archived
        self.path = path
        self.line = line
        self.code = code
        self.message = message
        self.severity = severity
        self.id = id

    def __str__(self) -> str:
        where = f"{self.path}:{self.line}" if self.line else self.path
        return f"{where}: {self.severity}: {self.message}"

    def __repr__(self) -> str:
        return f"Problem({self.code}, {self})"

    def to_dict(self) -> dict[str, Any]:
        data = {name: getattr(self, name) for name in ("path", "line", "code", "severity", "id", "message")}
        return data if self.archived is None else {**data, "archived": self.archived}


class Report:
    """The outcome of `validate` or `repair`."""

    __slots__ = ("actions", "checked", "problems")

    def __init__(self, problems: list[Problem], checked: int, actions: list[str] | None = None) -> None:
        self.problems = problems
        self.checked = checked
        self.actions = actions or []

    @property
    def ok(self) -> bool:
        """True if every memory can be read: there is no problem of severity `error`."""
        return not any(problem.severity == "error" for problem in self.problems)

    def __bool__(self) -> bool:
        return self.ok

    def __repr__(self) -> str:
        return f"Report(ok={self.ok}, checked={self.checked}, problems={self.problems!r}, actions={self.actions!r})"

    def to_dict(self) -> dict[str, Any]:
        return {
            "ok": self.ok,
            "checked": self.checked,
            "problems": [problem.to_dict() for problem in self.problems],
            "actions": list(self.actions),
        }


class Stats:
    """Figures of a session."""

    __slots__ = ("_figures",)

    def __init__(self, figures: dict[str, Any]) -> None:
        self._figures = figures

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):  # also while it is being copied and has no figures yet
            raise AttributeError(name)
        try:
            return self._figures[name]
        except KeyError:
            raise AttributeError(name) from None

    def __getitem__(self, name: str) -> Any:
        return self._figures[name]

    def to_dict(self) -> dict[str, Any]:
        return dict(self._figures)

    def __repr__(self) -> str:
        return f"Stats({self._figures!r})"


class StoreStatus:
    """What is known of a store at a glance. The figures are true unless `changed` is above 0 or `is_indexed` is False."""

    def __init__(self, root: str, layout: str, is_trusted: bool) -> None:
        self.root = root
        self.layout = layout
        self.is_trusted = is_trusted
        self.sessions = 0
        self.is_indexed = False  # False: there are no figures
        self.changed = 0  # sessions that changed since the figures were taken
        self.counts: dict[str, int] = {}  # memories by type, without deleted ones
        self.open_findings: dict[str, int] = {}  # by severity; an empty name for those without one
        self.unreadable = 0  # entries that cannot be read
        self.last_session: tuple[str, int] | None = None  # its id, and its last write in microseconds since 1970
        self.notices: list[str] = []  # settings that cannot be used or do not count yet
        self.newest: list[Any] = []  # records, the newest first
