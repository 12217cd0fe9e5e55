"""Simulations of the services in virtual time, and of their broken builds."""
