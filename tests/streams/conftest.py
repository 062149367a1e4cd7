from __future__ import annotations

from tests.job_rows import make_job, make_writer

__all__ = ["make_job", "make_writer"]
