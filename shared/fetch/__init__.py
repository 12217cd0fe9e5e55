"""Requests to addresses that users or web pages have named, which are not trusted."""
