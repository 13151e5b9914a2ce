"""Which memories, how good, why? What a caller may ask, and how an answer is judged. Pure: no disk, no clock."""
