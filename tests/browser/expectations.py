"""Playwright's `expect`, imported by the first test that calls it: most runs select none."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from playwright.sync_api import expect
else:

    def expect(*given: Any) -> Any:
        """Return what Playwright's own function returns."""
        from playwright import sync_api

        return sync_api.expect(*given)


__all__ = ["expect"]
