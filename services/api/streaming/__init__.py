"""The bus for people: one reader of the stream for the whole process, and whoever listens to it over HTTP.

The hub follows the stream and keeps its newest events in a window. Each listener has a place in the stream, and is sent
what stands behind it: from the window, or, where its place lies before that, from the stream itself.
"""
