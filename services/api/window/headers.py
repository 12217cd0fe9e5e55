"""What a browser is told about every page: what it may load and run, and who may show it."""

from typing import Final

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

OF_PAGES: Final = {
    "Content-Security-Policy": "; ".join(f"{of} {what}" for of, what in _POLICY.items()),
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
