"""Plain-text mail, by SMTP, where the settings name a server. Nothing else imports the client library."""
