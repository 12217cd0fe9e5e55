"""How things look in a terminal: calm, and readable where there is no terminal too."""
