"""The web UI: server-rendered pages that follow the event stream.

A page is a route in `pages/` that uses the same queries as the API's routes, and a template in
`templates/`. Scripts and styles come from `assets` only; there are no inline or third-party ones.
"""
