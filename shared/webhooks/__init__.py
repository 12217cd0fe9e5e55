"""Webhooks as the Standard Webhooks specification has them: where one may go, and how it is signed."""
