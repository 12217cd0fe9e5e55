"""The web, through Tavily. Nothing else imports its client. Results are cached nowhere but in the call ledger."""
