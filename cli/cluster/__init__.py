"""Keys, certificates and provisioning of a cluster."""
