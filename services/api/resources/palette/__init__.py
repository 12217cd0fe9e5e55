"""The palette, which finds what an owner has by words."""
