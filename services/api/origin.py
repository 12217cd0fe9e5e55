"""Which pages a browser may use a session from: our own, and no others.

A browser sends its cookie along whoever made it ask, so what changes something must come from a page of this api. By
OWASP's Cross-Site Request Forgery Prevention Cheat Sheet of today (Fetch Metadata, with Origin where it is not sent) this
needs no token in every form, which every client would have to carry and every page could leak: browsers set `Sec-Fetch-Site`
and `Origin` themselves, and no page can change them. A request with neither is from no browser of this decade, and is
refused; programs have tokens, which no browser sends by itself. `same-site` is not enough: a neighbouring subdomain, and
on loopback every other port, is somebody else. The cookie's SameSite=Lax is a second wall behind this one.
"""

from typing import Final

from starlette.datastructures import Headers

from services.api.problems import ForbiddenError

OWN: Final = "same-origin"
BY_HAND: Final = "none"
"""No page asked: the person did, by the address bar or a bookmark."""


def demand_own_page(headers: Headers) -> None:
    """Raises ForbiddenError unless the browser says that a page of this host asks."""
    site, origin = headers.get("sec-fetch-site"), headers.get("origin")
    if site == OWN or (site is None and origin is not None and is_own(origin, headers)):
        return
    told = "another page" if site or origin else "no page that names itself"
    raise ForbiddenError(
        "foreign-page",
        f"With a session this is taken from Vigil's own pages only, and {told} asks for it. Programs use a token.",
    )


def refuse_other_pages(headers: Headers) -> None:
    """For what needs no session yet: who is no browser may ask too, but no other page. Raises ForbiddenError."""
    if headers.get("sec-fetch-site") not in (None, OWN, BY_HAND):
        raise ForbiddenError("foreign-page", "Pages of others may not sign anybody in here.")


def is_own(origin: str, headers: Headers) -> bool:
    """Whether that Origin is the host that was asked."""
    return origin.partition("://")[2] == headers.get("host", "")
