"""What a browser is told about every page: what it may load and run, and who may show it."""

from collections.abc import Mapping
from typing import Final


def _listed(policy: Mapping[str, str]) -> str:
    return "; ".join(f"{of} {what}" for of, what in policy.items())


_POLICY: Final = {
    "default-src": "'none'",
    "script-src": "'self'",
    "style-src": "'self'",
    "img-src": "'self'",
    "font-src": "'self'",
    "connect-src": "'self'",
    "form-action": "'self'",
    "frame-ancestors": "'none'",
    "base-uri": "'none'",
}

_WITHOUT_SCRIPTS: Final = {
    of: what for of, what in _POLICY.items() if of not in ("script-src", "connect-src", "font-src")
}

OF_PAGES: Final = {
    "Content-Security-Policy": _listed(_POLICY),
    "Cross-Origin-Opener-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
    # Not no-referrer, by which browsers would say of a form that it comes from nowhere.
    "Referrer-Policy": "same-origin",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    # What stands there is one user's; the pictures and scripts have headers of their own.
    "Cache-Control": "private, no-store",
    "Vary": "Cookie, HX-Request",
}
OF_SECRET_PAGES: Final = {
    **OF_PAGES,
    "Content-Security-Policy": _listed(_WITHOUT_SCRIPTS),
    "Cache-Control": "no-store",
}
"""Of pages with a secret in their address, where no script runs that could read it."""
