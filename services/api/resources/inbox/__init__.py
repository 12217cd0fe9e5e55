"""The inbox: advice and notices, and what owners decide about them."""
