"""The notifier carries inbox items to their owner's destinations: webhooks and mail addresses.

Consumes `advice.produced`, as a hint that there is something; what there is it finds in the state. Emits nothing. Owns
deliveries, and stops destinations whose receiver is gone. Any number of replicas may run.
"""
