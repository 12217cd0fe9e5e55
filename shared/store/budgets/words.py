"""What is said of a budget that is used up."""

from decimal import Decimal
from typing import Final

from shared.store.budgets.caps import Refusal, Scope, Unit

_SHOWN: Final = Decimal("0.0001")


def amount(value: Decimal, unit: Unit) -> str:
    """`1.5 USD`, `20 calls`; rounded to a hundredth of a cent."""
    if unit is Unit.CALLS:
        return f"{value:.0f} {'call' if value == 1 else 'calls'}"
    return f"{_plain(value)} USD"


def notice_title(name: str, refused: Refusal) -> str:
    whose = "its" if refused.scope is Scope.AGENT else "the installation's"
    cap = amount(_cap(refused), refused.unit)
    return f"{name} rests until tomorrow: {whose} budget of {cap} a day is used up"


def refused_in_words(refused: Refusal, name: str = "the agent") -> str:
    """What is wrong, and what to do."""
    whose = f"the budget of {name}" if refused.scope is Scope.AGENT else "the installation's budget"
    spent = amount(refused.account.spent, refused.unit)
    cap = amount(_cap(refused), refused.unit)
    next_call = (
        f"the next call could cost {amount(refused.wanted, refused.unit)}"
        if refused.unit is Unit.USD
        else "none is left"
    )
    option = "--usd" if refused.unit is Unit.USD else "--calls"
    raised = "AGENT" if refused.scope is Scope.AGENT else "--installation"
    return (
        f"{whose} for {refused.day} is used up: of {cap} a day {spent} {'is' if spent == '1 call' else 'are'} spent,"
        f" and {next_call}. {_capital(name)} rests until midnight (UTC); a higher budget"
        f" (`vigil budget {raised} {option} …`) ends its rest at once"
    )


def _cap(refused: Refusal) -> Decimal:
    assert refused.account.cap is not None, "what has no cap refuses nothing"
    return refused.account.cap


def _capital(text: str) -> str:
    return f"{text[0].upper()}{text[1:]}"


def _plain(value: Decimal) -> str:
    """Without an exponent, and without zeros at its end."""
    rounded = f"{value.quantize(_SHOWN):f}"
    return rounded.rstrip("0").rstrip(".")
