"""Notifications: destinations, deliveries, webhooks and mail. The only importer of the SMTP client library."""
