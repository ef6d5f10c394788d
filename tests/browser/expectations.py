"""Playwright's `expect`, imported by the first test that calls it: most runs select none."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from playwright.sync_api import expect
else:

    def expect(*given: Any) -> Any:
        """Return what Playwright's own function returns."""
        from playwright import sync_api

        return sync_api.expect(*given)


def wait_at_most(milliseconds: int) -> None:
    """Let each further expectation of this process wait as long, then fail."""
    from playwright import sync_api

    sync_api.expect.set_options(timeout=milliseconds)


__all__ = ["expect", "wait_at_most"]
