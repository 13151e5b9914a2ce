"""All rules that start from a literal in the text, the more exact ones first."""

from __future__ import annotations

from smp.privacy.configurations import CONFIGURATIONS
from smp.privacy.contexts import CONTEXTS
from smp.privacy.patterns import PROVIDERS
from smp.privacy.sentences import SENTENCES

RULES = (*PROVIDERS, *CONTEXTS, *CONFIGURATIONS, *SENTENCES)
