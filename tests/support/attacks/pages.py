"""Headers with which browsers describe the page that sends a request."""

OWN_PAGE = {"origin": "http://127.0.0.1", "sec-fetch-site": "same-origin"}
FOREIGN = {
    "another site": {"sec-fetch-site": "cross-site", "origin": "https://evil.example"},
    "a neighbour": {"sec-fetch-site": "same-site", "origin": "http://127.0.0.1:8081"},
    "a sandboxed frame": {"sec-fetch-site": "cross-site", "origin": "null"},
    "an old browser": {"origin": "https://evil.example"},
    "without an origin": {"sec-fetch-site": "cross-site"},
    "a neighbour without an origin": {"sec-fetch-site": "same-site"},
    "by hand": {"sec-fetch-site": "none"},
    "an unknown value": {"sec-fetch-site": "same-origin, cross-site"},
    "no headers": {},
}
