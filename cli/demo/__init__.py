"""`vigil demo`: a fresh agent on a throwaway installation, watched while it works, and told about at the end."""
