"""All rules that start from a literal in the text, the more exact ones first."""

from __future__ import annotations

from smp.privacy.general import GENERAL
from smp.privacy.patterns import PROVIDERS
from smp.privacy.sentences import SENTENCES

RULES = (*PROVIDERS, *GENERAL, *SENTENCES)
