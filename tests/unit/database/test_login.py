"""A login in a URL is the one that was given, for libpq as for SQLAlchemy."""

import pytest
from psycopg.conninfo import conninfo_to_dict
from sqlalchemy import make_url

from shared.database.engine import with_login

URL = "postgresql://postgres:5432/vigil?application_name=a%20name"


@pytest.mark.parametrize("password", ["with a space", "a+b", "a%20b", "?&#/@:", "ä€", " "])
def test_any_password_reaches_both_clients(password: str) -> None:
    url = with_login(URL, role="vigil_api", password=password)
    seen = conninfo_to_dict(url)
    assert (seen["user"], seen["password"]) == ("vigil_api", password)
    assert seen["application_name"] == "a name"
    assert make_url(url).password == password
