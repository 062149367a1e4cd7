"""How much of a job's series one page holds. Pure: the messages of live pages say so too."""

DEFAULT_POINTS = 2_000  # buckets or points of one piece
MAX_POINTS = 20_000
MAX_NAMES = 100
