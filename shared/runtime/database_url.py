"""Who a process is for Postgres, from the settings."""

from shared.runtime.settings import Settings
from shared.store.database import role_in, with_login
from shared.store.rights import role_of


def database_url_of(settings: Settings, name: str) -> str:
    """For any client of Postgres; holds the password, so it is not for showing."""
    role, password = settings.database_user, settings.database_password
    if role is None and password is not None and role_in(settings.database_url) is None:
        role = role_of(name)
    if role is None and password is None:
        return settings.database_url
    return with_login(
        settings.database_url,
        role=role,
        password=password.get_secret_value() if password else None,
    )
