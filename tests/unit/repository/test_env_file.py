"""`.env` names every variable that the cluster takes from outside, and no other."""

import re
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[3]
OF_COMPOSE_ITSELF: Final = {"COMPOSE_PROFILES"}


def taken() -> set[str]:
    """By `${NAME…}`, or by a name without a value, which is passed on as it is."""
    files = [ROOT / "compose.yaml", *(ROOT / "deploy").glob("*.yaml")]
    text = "\n".join(file.read_text() for file in files)
    passed_on = re.findall(r"^\s+((?:VIGIL|OPENAI|TAVILY)_[A-Z_]+):\s*$", text, re.M)
    from_secrets = re.findall(r"\{environment: (\w+)\}", text)
    return {*from_secrets, *re.findall(r"(?<!\$)\$\{([A-Z_]+)", text), *passed_on}


def test_every_variable_of_the_cluster_is_told_in_the_env_file() -> None:
    told = re.findall(r"^(?:# )?([A-Z_]+)=", (ROOT / ".env").read_text(), re.M)
    assert len(told) == len(set(told))
    assert {*told} - OF_COMPOSE_ITSELF == taken()


def test_the_env_file_holds_no_secret_but_names_each() -> None:
    """Compose refuses to start where the variable that a secret comes from is not there at all."""
    compose = (ROOT / "compose.yaml").read_text()
    secrets = set(re.findall(r"^  \w+: \{environment: (\w+)\}$", compose, re.M))
    settings = dict(re.findall(r"^([A-Z_]+)=(.*)$", (ROOT / ".env").read_text(), re.M))
    assert len(secrets) == 3
    assert {name: settings.get(name) for name in secrets} == dict.fromkeys(secrets, "")
