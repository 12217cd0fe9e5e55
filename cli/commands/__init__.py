"""The commands, a file for each or for a group. They parse and print; what they do stands beside them.

What a command needs is imported when it runs: `vigil --help` must not wait for a database driver.
"""
