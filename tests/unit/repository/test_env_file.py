"""`.env` names exactly the variables that the cluster reads from the environment."""

import re
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[3]
COMPOSE_VARIABLES: Final = {"COMPOSE_PROFILES"}


def cluster_variables() -> set[str]:
    """Return the variables used as `${NAME…}`, or passed on by a name without a value."""
    files = [ROOT / "compose.yaml", *(ROOT / "deploy").glob("*.yaml")]
    text = "\n".join(file.read_text() for file in files)
    passed_on = re.findall(r"^\s+((?:VIGIL|OPENAI|TAVILY|OTEL)_[A-Z_]+):\s*$", text, re.M)
    from_secrets = re.findall(r"\{environment: (\w+)\}", text)
    return {*from_secrets, *re.findall(r"(?<!\$)\$\{([A-Z_]+)", text), *passed_on}


def test_the_env_file_names_every_variable_of_the_cluster() -> None:
    names = re.findall(r"^(?:# )?([A-Z_]+)=", (ROOT / ".env").read_text(), re.M)
    assert len(names) == len(set(names))
    assert {*names} - COMPOSE_VARIABLES == cluster_variables()


def test_the_env_file_names_each_secret_without_a_value() -> None:
    """Compose does not start if the variable of a secret is not defined at all."""
    compose = (ROOT / "compose.yaml").read_text()
    secrets = set(re.findall(r"^  \w+: \{environment: (\w+)\}$", compose, re.M))
    settings = dict(re.findall(r"^([A-Z_]+)=(.*)$", (ROOT / ".env").read_text(), re.M))
    assert len(secrets) == 5
    assert {name: settings.get(name) for name in secrets} == dict.fromkeys(secrets, "")
