from __future__ import annotations

import pytest

from tests.builders import FakeAgent, make_node


@pytest.fixture
def pair(db):
    """Two nodes of two devices, spoken for; the first gets what fits on either."""
    return FakeAgent(make_node("gpu-1", address="10.0.0.1")), FakeAgent(make_node("gpu-2", address="10.0.0.2"))
