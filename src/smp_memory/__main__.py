"""`python -m smp_memory` is the command `smp`."""

from __future__ import annotations

import sys

from smp_memory.cli.main import main

sys.exit(main())
