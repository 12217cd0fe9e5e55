"""Broken builds. The simulator must find each of them."""

from enum import StrEnum


class Breakage(StrEnum):
    """One thing that an implementation could do wrong."""

    NO_FENCE_STEP = "the step is updated without comparing epoch and sequence"
    NO_FENCE_RUN = "the phase run is written without the fence"
    NO_FENCE_CALLS = "calls are written without the fence"
    NO_FENCE_HEAD = "the graph's head and journal are written without the fence"
    NO_FENCE_GRAPH = "names, nodes and evidence are written without the fence"
    NO_FENCE_BUDGET = "the agent's budget is written without the fence"
    NO_FENCE_SLICE = "the slice is written without the fence"
    NO_FENCE_PLAN = "planned steps are written without the fence"
    FENCE_BY_SEQUENCE = "statements join the step by epoch and sequence, not by the transaction"
    NO_JOURNAL_ROW = "a commit that changes the graph leaves out its journal row"
    HEAD_NOT_COMPARED = "an answer is written although the graph has moved on since it was resolved"
    NOT_RESOLVED_AGAIN = "an answer keeps its resolution when the graph has moved on"
    MERGE_WITHOUT_HEAD = "a merge does not lock and advance the graph's head"
    SLICE_SPENT_TWICE = "a reservation compares the slice, and does not add to it"
    SLICE_RETURNED_WHILE_HELD = (
        "a lapsed slice is returned although a running step holds some of it"
    )
    SLICE_ID_USED_AGAIN = "a worker goes on with the id of a slice that was returned"
    LAPSED_SLICE_USED = "a worker reserves from its slice after the slice's lease has lapsed"
    NO_BUDGET_CHECK = "a reservation does not compare the agent's cap"
    WRITE_REPORTED_EARLY = "the queue reports a write as done before its commit"
    MESSAGE_ACKNOWLEDGED_EARLY = "a message is acknowledged before the step's end is committed"
    BATCH_FAILS_TOGETHER = "one entry's error fails the whole batch"
    UNKNOWN_COMMIT_IS_DONE = "a write that did not pass, or may not have, is reported as done"
    SENT_BEFORE_COMMIT = "a call is sent before its record is committed"
    RESENT_WITHOUT_RECORD = "a resumed step sends a call again without recording the new attempt"
    NOT_WRITTEN_OFF = "a resumed step forgets the calls whose outcome is unknown"
    ANSWER_PAID_AGAIN = "a resumed step does not look into the ledger"
    JOIN_WITHOUT_COMPARISON = "the join writes what it decided although the iteration has moved on"
    JOIN_ABANDONS_WITHOUT_SETTLING = "an abandoned step keeps its reservations"
    LOCKS_OUT_OF_ORDER = "a batch waits for the locks of its entries as they came, in no order"
    CONTEXT_NOT_PINNED = "each step takes the context of the moment in place of the pinned one"
