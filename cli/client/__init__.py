"""The API as the commands use it. Kept empty: `vigil --help` waits for no HTTP client."""
