"""`vigil upgrade --check` with the keys of the container and the Job `migrate`, which have no others."""

from cli.findings import Verdict
from cli.upgrade import examine_upgrade
from tests.support.secured_installation import SecuredInstallation


def test_the_migrations_own_keys_are_enough(installation: SecuredInstallation) -> None:
    findings = list(examine_upgrade(installation.migrator()))
    assert [each for each in findings if each.verdict is Verdict.BAD] == []
    assert {"version", "database", "nats"} <= {each.name for each in findings}
