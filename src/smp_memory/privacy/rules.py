"""All redaction rules that start from a literal in the text, the more exact ones first."""

from __future__ import annotations

from smp_memory.privacy.context_rules import CONFIGURATIONS, CONTEXTS, SENTENCES
from smp_memory.privacy.token_rules import PROVIDERS

RULES = (*PROVIDERS, *CONTEXTS, *CONFIGURATIONS, *SENTENCES)
