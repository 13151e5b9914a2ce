"""Change the settings that a session has of its own, in its head."""

from __future__ import annotations

from smp.config_file import with_setting

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from smp.config import Config
    from smp.store.file_session import FileSession


def set_session_config(files: FileSession, config: Config, name: str, value: Any) -> None:
    """Set or, for None, take out one setting under the session's lock. A wrong one changes nothing; raises InvalidConfig."""
    config.source(name)  # an unknown one is an error that suggests the right one

    def change() -> None:
        info = files.info()
        info.config = with_setting(info.config, name, value)
        config.override_session(info.config, files.session)
        files.write_info(info)

    files.exclusively("changing the session's settings", change)
