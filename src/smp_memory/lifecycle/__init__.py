"""Operations on sessions over their lifetime: opening, archiving, compaction, deletion, erasure, maintenance."""
