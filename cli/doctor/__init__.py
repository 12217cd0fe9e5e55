"""`vigil doctor`: looks at everything an installation stands on, and says how to mend what is wrong."""
