"""Verdicts of models on evidence, by value: SQL of what was read of a row of `evidence`, and of what was refused.

The fragments have no braces, so that they can be part of a template.
"""

from typing import Final

from shared.enums import Entailment
from shared.tools.readings import EXISTS

IS_REFUSING_SQL: Final = f"verdict <> '{Entailment.SUPPORTED}'"
"""SQL condition on a row of `entailment_verdicts`: it is a refusal."""
IS_BY_MODEL_SQL: Final = "not starts_with(model, 'sandbox-')"
"""SQL condition on a row of `entailment_verdicts`: what the sandbox of earlier releases found by rules is no reading."""
_HAS_NO_VALUES_SQL: Final = "evidence.claims = jsonb_build_object()"
_IS_ON_ALL_SQL: Final = f"({_HAS_NO_VALUES_SQL} or evidence.edge_id is not null or verdict = '{Entailment.CONTRADICTED}')"
"""SQL condition on a verdict without a property: it is on the existence of the node or edge, too."""
READ_VALUES_SQL: Final = f"""
  select distinct on (name) found.*, name from entailment_verdicts as found cross join lateral (
    select property as name where property = '{EXISTS}' or jsonb_exists(evidence.claims, property)
    union all select key from jsonb_object_keys(evidence.claims) as key where property is null
    union all select '{EXISTS}' where property is null and {_IS_ON_ALL_SQL}
  ) as of_value
  where found.evidence_id = evidence.id
  order by name, property nulls last
"""
"""SQL of the verdicts on a row of `evidence`, one for each `name` of its values that was read. A verdict without a property
is of an earlier release, and counts for all values that have none of their own.
"""
REFUSED_SQL: Final = f"array(select name from ({READ_VALUES_SQL}) as read where {IS_REFUSING_SQL})"
"""SQL of the names of the refused values of a row of `evidence`."""
VERDICTS_SQL: Final = f"(select jsonb_object_agg(name, verdict) from ({READ_VALUES_SQL}) as read)"
"""SQL of the verdicts on a row of `evidence` as JSON, by name; null if it was not read."""
STATED_SQL: Final = f"""
cross join lateral (select {REFUSED_SQL} as refused offset 0) as judged
cross join lateral (select evidence.claims - refused as stated_claims offset 0) as kept
"""
"""SQL that joins a row of `evidence` with its `stated_claims`, which are not refused. For `COUNTS_SQL`."""
COUNTS_SQL: Final = f"'{EXISTS}' <> all (refused) and ({_HAS_NO_VALUES_SQL} or stated_claims <> jsonb_build_object())"
"""SQL condition on a row of `STATED_SQL`: a reading has left something of it."""
IS_DUE_SQL: Final = f"{IS_REFUSING_SQL} and (applied_at is null or due_at is not null)"
"""SQL condition on a row of `entailment_verdicts`: its node or edge, or what cites them, does not follow it yet."""


def is_not_refused_sql(name: str) -> str:
    """SQL condition on a row of `evidence`: its value with the name in the SQL expression was not refused."""
    return f"not exists (select from ({READ_VALUES_SQL}) as read where name = {name} and {IS_REFUSING_SQL})"
