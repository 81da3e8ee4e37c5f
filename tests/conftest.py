"""What all tests share: `--rewrite-golden` writes the recorded texts anew instead of comparing with them."""

from __future__ import annotations

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--rewrite-golden", action="store_true", help="rewrite recorded texts (make golden)")


@pytest.fixture
def rewrite_golden(request: pytest.FixtureRequest) -> bool:
    """Whether recorded texts are to be rewritten."""
    return bool(request.config.getoption("--rewrite-golden"))
