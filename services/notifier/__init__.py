"""The notifier delivers inbox items to their owner's destinations: webhooks and mail addresses.

Consumes `advice.produced` as a hint to look for new items. Emits nothing. Owns deliveries, and deactivates destinations
whose receiver is gone. Any number of replicas may run.
"""
