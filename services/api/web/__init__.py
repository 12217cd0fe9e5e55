"""The window: Vigil for people, in a browser. Pages are rendered here, and follow the events as they come.

A page is a route in `pages/` that reads as the api's own routes do, and a template of the same name in `templates/`.
What a page loads besides comes from `assets`; nothing comes from elsewhere, and no script or style stands in a page.
"""
