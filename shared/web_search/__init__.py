"""Web search through Tavily. Only this package imports its client. Results are cached only in the call ledger."""
