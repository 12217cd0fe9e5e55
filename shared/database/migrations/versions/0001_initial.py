"""Every table of Vigil, with its constraints and indexes.

Revision ID: 0001
Revises:
"""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None

EXTENSIONS = ("pg_trgm", "btree_gin")
"""For the search of nodes: parts of words, and ids in the same index."""


def upgrade() -> None:
    for extension in EXTENSIONS:
        op.execute(f"create extension if not exists {extension}")
    # Ends a transaction whose statements are sent all at once, when one of them has an unusual result.
    op.execute(
        "create function roll_back() returns boolean language plpgsql as "
        "$$begin raise exception 'an unusual result' using errcode = 'VG001'; end$$"
    )
    op.create_table(
        "budget_days",
        sa.Column("scope", sa.Uuid(), nullable=False),
        sa.Column("day", sa.Date(), nullable=False),
        sa.Column(
            "spent_usd", sa.Numeric(precision=14, scale=8), server_default="0", nullable=False
        ),
        sa.Column(
            "reserved_usd", sa.Numeric(precision=14, scale=8), server_default="0", nullable=False
        ),
        sa.Column("spent_calls", sa.Integer(), server_default="0", nullable=False),
        sa.Column("reserved_calls", sa.Integer(), server_default="0", nullable=False),
        sa.PrimaryKeyConstraint("scope", "day", name=op.f("budget_days_pkey")),
    )
    op.create_table(
        "installation_budget",
        sa.Column("id", sa.Integer(), server_default="1", autoincrement=False, nullable=False),
        sa.Column("usd_per_day", sa.Numeric(precision=14, scale=8), nullable=True),
        sa.Column("calls_per_day", sa.Integer(), nullable=True),
        sa.CheckConstraint("id = 1", name=op.f("installation_budget_one_row_check")),
        sa.PrimaryKeyConstraint("id", name=op.f("installation_budget_pkey")),
    )
    op.create_table(
        "users",
        sa.Column("id", sa.Uuid(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("email", sa.Text(), nullable=True),
        sa.Column("operator", sa.Boolean(), server_default=sa.text("false"), nullable=False),
        sa.Column("disabled_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("signed_in_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column(
            "created_at",
            sa.DateTime(timezone=True),
            server_default=sa.text("clock_timestamp()"),
            nullable=False,
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("users_pkey")),
        sa.UniqueConstraint("name", name=op.f("users_name_key")),
    )
    op.create_index("users_email_key", "users", [sa.literal_column("lower(email)")], unique=True)
    op.create_table(
        "agents",
        sa.Column("id", sa.Uuid(), nullable=False),
        sa.Column("owner_id", sa.Uuid(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("mission", sa.Text(), nullable=False),
        sa.Column("conversation_system_prompt", sa.Text(), nullable=False),
        sa.Column("observer_system_prompt", sa.Text(), nullable=False),
        sa.Column("knowledge_acquisition_system_prompt", sa.Text(), nullable=False),
        sa.Column("graph_construction_system_prompt", sa.Text(), nullable=False),
        sa.Column("analysis_generation_system_prompt", sa.Text(), nullable=False),
        sa.Column("advice_generation_system_prompt", sa.Text(), nullable=False),
        sa.Column("prompts_version", sa.Integer(), server_default="0", nullable=False),
        sa.Column("status", sa.Text(), server_default="ready", nullable=False),
        sa.Column("fault", sa.Text(), nullable=True),
        sa.Column("configurations_ordered", sa.Integer(), server_default="0", nullable=False),
        sa.Column(
            "models", postgresql.JSONB(astext_type=sa.Text()), server_default="{}", nullable=False
        ),
        sa.Column("interval_seconds", sa.Integer(), nullable=False),
        sa.Column("feedback_rounds", sa.Integer(), server_default="0", nullable=False),
        sa.Column("active", sa.Boolean(), server_default=sa.text("true"), nullable=False),
        sa.Column(
            "next_run_at",
            sa.DateTime(timezone=True),
            server_default=sa.text("clock_timestamp()"),
            nullable=False,
        ),
        sa.Column("run_requested_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("iterations_started", sa.Integer(), server_default="0", nullable=False),
        sa.Column("budget_usd_per_day", sa.Numeric(precision=14, scale=8), nullable=True),
        sa.Column("budget_calls_per_day", sa.Integer(), nullable=True),
        sa.Column("suspended_until", sa.DateTime(timezone=True), nullable=True),
        sa.Column(
            "created_at",
            sa.DateTime(timezone=True),
            server_default=sa.text("clock_timestamp()"),
            nullable=False,
        ),
        sa.Column(
            "updated_at",
            sa.DateTime(timezone=True),
            server_default=sa.text("clock_timestamp()"),
            nullable=False,
        ),
        sa.CheckConstraint(
            "status in ('configuring', 'ready', 'failed')", name=op.f("agents_status_check")
        ),
        sa.CheckConstraint(
            "feedback_rounds between 0 and 2", name=op.f("agents_feedback_rounds_check")
        ),
        sa.CheckConstraint("interval_seconds >= 1", name=op.f("agents_interval_seconds_check")),
        sa.ForeignKeyConstraint(
            ["owner_id"], ["users.id"], name=op.f("agents_owner_id_fkey"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("agents_pkey")),
    )
    op.create_index(
        "agents_due_idx",
        "agents",
        ["next_run_at"],
        unique=False,
        postgresql_where=sa.text("active"),
    )
    op.create_index(
        "agents_owner_name_key",
        "agents",
        ["owner_id", sa.literal_column("lower(name)")],
        unique=True,
    )
    op.create_index(
        "agents_run_requested_idx",
        "agents",
        ["run_requested_at"],
        unique=False,
        postgresql_where=sa.text("run_requested_at is not null"),
    )
    op.create_table(
        "api_tokens",
        sa.Column("id", sa.Uuid(), nullable=False),
        sa.Column("user_id", sa.Uuid(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("digest", sa.LargeBinary(), nullable=False),
        sa.Column("scopes", postgresql.JSONB(astext_type=sa.Text()), nullable=False),
        sa.Column(
            "created_at",
            sa.DateTime(timezone=True),
            server_default=sa.text("clock_timestamp()"),
            nullable=False,
        ),
        sa.Column("expires_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("last_used_at", sa.DateTime(timezone=True), nullable=True),
        sa.ForeignKeyConstraint(
            ["user_id"], ["users.id"], name=op.f("api_tokens_user_id_fkey"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("api_tokens_pkey")),
        sa.UniqueConstraint("digest", name=op.f("api_tokens_digest_key")),
    )
    op.create_index(op.f("api_tokens_user_id_idx"), "api_tokens", ["user_id"], unique=False)
    op.create_table(
        "idempotency_keys",
        sa.Column("owner_id", sa.Uuid(), nullable=False),
        sa.Column("key", sa.Text(), nullable=False),
        sa.Column("request_hash", sa.Text(), nullable=False),
        sa.Column("status", sa.Integer(), nullable=False),
        sa.Column("body", sa.LargeBinary(), nullable=True),
        sa.Column(
            "created_at",
            sa.DateTime(timezone=True),
            server_default=sa.text("clock_timestamp()"),
            nullable=False,
        ),
        sa.ForeignKeyConstraint(
            ["owner_id"],
            ["users.id"],
            name=op.f("idempotency_keys_owner_id_fkey"),
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("owner_id", "key", name=op.f("idempotency_keys_pkey")),
    )
    op.create_index(
        "idempotency_keys_created_idx", "idempotency_keys", ["created_at"], unique=False
    )
    op.create_table(
        "sessions",
        sa.Column("id", sa.Uuid(), nullable=False),
        sa.Column("user_id", sa.Uuid(), nullable=False),
        sa.Column("digest", sa.LargeBinary(), nullable=False),
        sa.Column("browser", sa.Text(), nullable=False),
        sa.Column(
            "created_at",
            sa.DateTime(timezone=True),
            server_default=sa.text("clock_timestamp()"),
            nullable=False,
        ),
        sa.Column(
            "last_used_at",
            sa.DateTime(timezone=True),
            server_default=sa.text("clock_timestamp()"),
            nullable=False,
        ),
        sa.Column("ends_at", sa.DateTime(timezone=True), nullable=False),
        sa.ForeignKeyConstraint(
            ["user_id"], ["users.id"], name=op.f("sessions_user_id_fkey"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("sessions_pkey")),
        sa.UniqueConstraint("digest", name=op.f("sessions_digest_key")),
    )
    op.create_index(op.f("sessions_user_id_idx"), "sessions", ["user_id"], unique=False)
    op.create_table(
        "sign_in_links",
        sa.Column("id", sa.Uuid(), nullable=False),
        sa.Column("user_id", sa.Uuid(), nullable=False),
        sa.Column("digest", sa.LargeBinary(), nullable=False),
        sa.Column(
            "created_at",
            sa.DateTime(timezone=True),
            server_default=sa.text("clock_timestamp()"),
            nullable=False,
        ),
        sa.Column("expires_at", sa.DateTime(timezone=True), nullable=False),
        sa.ForeignKeyConstraint(
            ["user_id"], ["users.id"], name=op.f("sign_in_links_user_id_fkey"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("sign_in_links_pkey")),
        sa.UniqueConstraint("digest", name=op.f("sign_in_links_digest_key")),
    )
    op.create_index(op.f("sign_in_links_user_id_idx"), "sign_in_links", ["user_id"], unique=False)
    op.create_table(
        "contexts",
        sa.Column("agent_id", sa.Uuid(), nullable=False),
        sa.Column("sha256", sa.LargeBinary(), nullable=False),
        sa.Column("base_sha256", sa.LargeBinary(), nullable=True),
        sa.Column("depth", sa.SmallInteger(), nullable=False),
        sa.Column("data", sa.LargeBinary(), nullable=False),
        sa.Column(
            "created_at",
            sa.DateTime(timezone=True),
            server_default=sa.text("clock_timestamp()"),
            nullable=False,
        ),
        sa.ForeignKeyConstraint(
            ["agent_id"], ["agents.id"], name=op.f("contexts_agent_id_fkey"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("agent_id", "sha256", name=op.f("contexts_pkey")),
    )
    op.create_table(
        "conversations",
        sa.Column("id", sa.Uuid(), nullable=False),
        sa.Column("agent_id", sa.Uuid(), nullable=False),
        sa.Column("turns", sa.Integer(), server_default="0", nullable=False),
        sa.Column("summary", sa.Text(), server_default="", nullable=False),
        sa.Column("summarized_turns", sa.Integer(), server_default="0", nullable=False),
        sa.Column(
            "created_at",
            sa.DateTime(timezone=True),
            server_default=sa.text("clock_timestamp()"),
            nullable=False,
        ),
        sa.ForeignKeyConstraint(
            ["agent_id"],
            ["agents.id"],
            name=op.f("conversations_agent_id_fkey"),
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("conversations_pkey")),
        sa.UniqueConstraint("agent_id", name=op.f("conversations_agent_id_key")),
    )
    op.create_table(
        "destinations",
        sa.Column("id", sa.Uuid(), nullable=False),
        sa.Column("owner_id", sa.Uuid(), nullable=False),
        sa.Column("agent_id", sa.Uuid(), nullable=True),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("address", sa.Text(), nullable=False),
        sa.Column("active", sa.Boolean(), server_default=sa.text("true"), nullable=False),
        sa.Column("stop_reason", sa.Text(), nullable=True),
        sa.Column(
            "created_at",
            sa.DateTime(timezone=True),
            server_default=sa.text("clock_timestamp()"),
            nullable=False,
        ),
        sa.CheckConstraint("kind in ('webhook', 'mail')", name=op.f("destinations_kind_check")),
        sa.ForeignKeyConstraint(
            ["agent_id"], ["agents.id"], name=op.f("destinations_agent_id_fkey"), ondelete="CASCADE"
        ),
        sa.ForeignKeyConstraint(
            ["owner_id"], ["users.id"], name=op.f("destinations_owner_id_fkey"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("destinations_pkey")),
        sa.UniqueConstraint(
            "owner_id",
            "kind",
            "address",
            "agent_id",
            name=op.f("destinations_owner_id_kind_address_agent_id_key"),
            postgresql_nulls_not_distinct=True,
        ),
    )
    op.create_index(op.f("destinations_agent_id_idx"), "destinations", ["agent_id"], unique=False)
    op.create_index(
        "destinations_owner_idx", "destinations", ["owner_id", "created_at"], unique=False
    )
    op.create_table(
        "embedding_progress",
        sa.Column("agent_id", sa.Uuid(), nullable=False),
        sa.Column("model", sa.Text(), nullable=False),
        sa.Column("through_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column(
            "through_id",
            sa.Uuid(),
            server_default=sa.text("'00000000-0000-0000-0000-000000000000'"),
            nullable=False,
        ),
        sa.ForeignKeyConstraint(
            ["agent_id"],
            ["agents.id"],
            name=op.f("embedding_sweeps_agent_id_fkey"),
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("agent_id", name=op.f("embedding_sweeps_pkey")),
    )
    op.create_table(
        "graph_edge_types",
        sa.Column("agent_id", sa.Uuid(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("description", sa.Text(), nullable=False),
        sa.Column(
            "properties_schema",
            postgresql.JSONB(astext_type=sa.Text()),
            server_default="{}",
            nullable=False,
        ),
        sa.Column(
            "source_types",
            postgresql.JSONB(astext_type=sa.Text()),
            server_default="[]",
            nullable=False,
        ),
        sa.Column(
            "target_types",
            postgresql.JSONB(astext_type=sa.Text()),
            server_default="[]",
            nullable=False,
        ),
        sa.Column(
            "example_properties",
            postgresql.JSONB(astext_type=sa.Text()),
            server_default="{}",
            nullable=False,
        ),
        sa.Column("created_by", sa.Text(), nullable=False),
        sa.Column("justification", sa.Text(), nullable=True),
        sa.Column(
            "created_at",
            sa.DateTime(timezone=True),
            server_default=sa.text("clock_timestamp()"),
            nullable=False,
        ),
        sa.ForeignKeyConstraint(
            ["agent_id"],
            ["agents.id"],
            name=op.f("graph_edge_types_agent_id_fkey"),
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("agent_id", "name", name=op.f("graph_edge_types_pkey")),
    )
    op.create_table(
        "graph_merges",
        sa.Column("id", sa.Uuid(), nullable=False),
        sa.Column("agent_id", sa.Uuid(), nullable=False),
        sa.Column("kept_id", sa.Uuid(), nullable=False),
        sa.Column("merged_id", sa.Uuid(), nullable=False),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column("merged_node", postgresql.JSONB(astext_type=sa.Text()), nullable=False),
        sa.Column("journal", postgresql.JSONB(astext_type=sa.Text()), nullable=False),
        sa.Column("made_by", sa.Uuid(), nullable=True),
        sa.Column(
            "made_at",
            sa.DateTime(timezone=True),
            server_default=sa.text("clock_timestamp()"),
            nullable=False,
        ),
        sa.Column("undone_at", sa.DateTime(timezone=True), nullable=True),
        sa.ForeignKeyConstraint(
            ["agent_id"], ["agents.id"], name=op.f("graph_merges_agent_id_fkey"), ondelete="CASCADE"
        ),
        sa.ForeignKeyConstraint(
            ["made_by"], ["users.id"], name=op.f("graph_merges_made_by_fkey"), ondelete="SET NULL"
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("graph_merges_pkey")),
    )
    op.create_index(
        "graph_merges_agent_made_idx", "graph_merges", ["agent_id", "made_at"], unique=False
    )
    op.create_index(op.f("graph_merges_merged_id_idx"), "graph_merges", ["merged_id"], unique=False)
    op.create_index(op.f("graph_merges_kept_id_idx"), "graph_merges", ["kept_id"], unique=False)
    op.create_table(
        "graph_node_types",
        sa.Column("agent_id", sa.Uuid(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("description", sa.Text(), nullable=False),
        sa.Column("properties_schema", postgresql.JSONB(astext_type=sa.Text()), nullable=False),
        sa.Column(
            "example_properties",
            postgresql.JSONB(astext_type=sa.Text()),
            server_default="{}",
            nullable=False,
        ),
        sa.Column("created_by", sa.Text(), nullable=False),
        sa.Column("justification", sa.Text(), nullable=True),
        sa.Column(
            "created_at",
            sa.DateTime(timezone=True),
            server_default=sa.text("clock_timestamp()"),
            nullable=False,
        ),
        sa.ForeignKeyConstraint(
            ["agent_id"],
            ["agents.id"],
            name=op.f("graph_node_types_agent_id_fkey"),
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("agent_id", "name", name=op.f("graph_node_types_pkey")),
    )
    op.create_table(
        "iterations",
        sa.Column("id", sa.Uuid(), nullable=False),
        sa.Column("agent_id", sa.Uuid(), nullable=False),
        sa.Column("number", sa.Integer(), nullable=False),
        sa.Column("why", sa.Text(), nullable=False),
        sa.Column("status", sa.Text(), server_default="running", nullable=False),
        sa.Column("stage", sa.Text(), server_default="observing", nullable=False),
        sa.Column("observer_plan", postgresql.JSONB(astext_type=sa.Text()), nullable=True),
        sa.Column(
            "errors", postgresql.JSONB(astext_type=sa.Text()), server_default="[]", nullable=False
        ),
        sa.Column(
            "started_at",
            sa.DateTime(timezone=True),
            server_default=sa.text("clock_timestamp()"),
            nullable=False,
        ),
        sa.Column("deadline_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column(
            "stage_changed_at",
            sa.DateTime(timezone=True),
            server_default=sa.text("clock_timestamp()"),
            nullable=False,
        ),
        sa.Column("ended_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("end_published_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("end_republish_count", sa.Integer(), server_default="0", nullable=False),
        sa.Column("end_republished_at", sa.DateTime(timezone=True), nullable=True),
        sa.CheckConstraint(
            "stage in ('observing', 'researching', 'analyzing', 'advising', 'ended')",
            name=op.f("iterations_stage_check"),
        ),
        sa.CheckConstraint(
            "status in ('running', 'completed', 'failed')", name=op.f("iterations_status_check")
        ),
        sa.ForeignKeyConstraint(
            ["agent_id"], ["agents.id"], name=op.f("iterations_agent_id_fkey"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("iterations_pkey")),
        sa.UniqueConstraint("agent_id", "number", name=op.f("iterations_agent_id_number_key")),
    )
    op.create_index(
        "iterations_deadline_idx",
        "iterations",
        ["deadline_at"],
        unique=False,
        postgresql_where=sa.text("status = 'running'"),
    )
    op.create_index(
        "iterations_one_running_key",
        "iterations",
        ["agent_id"],
        unique=True,
        postgresql_where=sa.text("status = 'running'"),
    )
    op.create_index(
        "iterations_unpublished_end_idx",
        "iterations",
        ["ended_at"],
        unique=False,
        postgresql_where=sa.text("ended_at is not null and end_published_at is null"),
    )
    op.create_table(
        "prompt_versions",
        sa.Column("agent_id", sa.Uuid(), nullable=False),
        sa.Column("version", sa.Integer(), nullable=False),
        sa.Column("phase", sa.Text(), nullable=False),
        sa.Column("prompt", sa.Text(), nullable=False),
        sa.Column("made_by", sa.Text(), nullable=False),
        sa.Column(
            "created_at",
            sa.DateTime(timezone=True),
            server_default=sa.text("clock_timestamp()"),
            nullable=False,
        ),
        sa.CheckConstraint(
            "made_by in ('configuration', 'owner')", name=op.f("prompt_versions_made_by_check")
        ),
        sa.CheckConstraint(
            "phase in ('observer', 'knowledge_acquisition', 'graph_construction', 'analysis_generation', 'advice_generation', 'conversation')",
            name=op.f("prompt_versions_phase_check"),
        ),
        sa.ForeignKeyConstraint(
            ["agent_id"],
            ["agents.id"],
            name=op.f("prompt_versions_agent_id_fkey"),
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("agent_id", "version", "phase", name=op.f("prompt_versions_pkey")),
    )
    op.create_table(
        "graph_redirects",
        sa.Column("agent_id", sa.Uuid(), nullable=False),
        sa.Column("merged_id", sa.Uuid(), nullable=False),
        sa.Column("kept_id", sa.Uuid(), nullable=False),
        sa.Column("merge_id", sa.Uuid(), nullable=False),
        sa.CheckConstraint("merged_id <> kept_id", name=op.f("graph_moves_elsewhere_check")),
        sa.ForeignKeyConstraint(
            ["agent_id"], ["agents.id"], name=op.f("graph_moves_agent_id_fkey"), ondelete="CASCADE"
        ),
        sa.ForeignKeyConstraint(
            ["merge_id"],
            ["graph_merges.id"],
            name=op.f("graph_moves_merge_id_fkey"),
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("agent_id", "merged_id", name=op.f("graph_moves_pkey")),
    )
    op.create_index("graph_moves_kept_idx", "graph_redirects", ["agent_id", "kept_id"], unique=False)
    op.create_index("graph_moves_merge_idx", "graph_redirects", ["merge_id"], unique=False)
    op.create_table(
        "messages",
        sa.Column("id", sa.Uuid(), nullable=False),
        sa.Column("conversation_id", sa.Uuid(), nullable=False),
        sa.Column("role", sa.Text(), nullable=False),
        sa.Column("turn", sa.Integer(), nullable=True),
        sa.Column("node_id", sa.Uuid(), nullable=True),
        sa.Column("content", sa.Text(), nullable=False),
        sa.Column("draft", sa.Integer(), server_default="0", nullable=False),
        sa.Column(
            "tool_uses", postgresql.JSONB(astext_type=sa.Text()), server_default="[]", nullable=False
        ),
        sa.Column(
            "citations",
            postgresql.JSONB(astext_type=sa.Text()),
            server_default="[]",
            nullable=False,
        ),
        sa.Column("completed_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column(
            "created_at",
            sa.DateTime(timezone=True),
            server_default=sa.text("clock_timestamp()"),
            nullable=False,
        ),
        sa.ForeignKeyConstraint(
            ["conversation_id"],
            ["conversations.id"],
            name=op.f("messages_conversation_id_fkey"),
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("messages_pkey")),
    )
    op.create_index(
        "messages_conversation_idx", "messages", ["conversation_id", "created_at"], unique=False
    )
    op.create_table(
        "steps",
        sa.Column("id", sa.Uuid(), nullable=False),
        sa.Column("iteration_id", sa.Uuid(), nullable=True),
        sa.Column("agent_id", sa.Uuid(), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("index", sa.Integer(), nullable=False),
        sa.Column(
            "input", postgresql.JSONB(astext_type=sa.Text()), server_default="{}", nullable=False
        ),
        sa.Column("status", sa.Text(), nullable=False),
        sa.Column("result", postgresql.JSONB(astext_type=sa.Text()), nullable=True),
        sa.Column("error", sa.Text(), nullable=True),
        sa.Column("attempts", sa.Integer(), server_default="0", nullable=False),
        sa.Column("epoch", sa.Integer(), server_default="0", nullable=False),
        sa.Column("lease_owner", sa.Text(), nullable=True),
        sa.Column("lease_until", sa.DateTime(timezone=True), nullable=True),
        sa.Column("retry_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("first_requested_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("requested_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("republish_count", sa.Integer(), server_default="0", nullable=False),
        sa.Column("retry_requested_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("retried_epoch", sa.Integer(), server_default="0", nullable=False),
        sa.Column("waiting_since", sa.DateTime(timezone=True), nullable=True),
        sa.Column("waits", sa.Integer(), server_default="0", nullable=False),
        sa.Column("started_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("ended_at", sa.DateTime(timezone=True), nullable=True),
        sa.CheckConstraint(
            "kind in ('observe', 'query', 'insight', 'advise', 'configure', 'converse')",
            name=op.f("steps_kind_check"),
        ),
        sa.CheckConstraint(
            "status in ('planned', 'pending', 'running', 'completed', 'failed')",
            name=op.f("steps_status_check"),
        ),
        sa.ForeignKeyConstraint(
            ["agent_id"], ["agents.id"], name=op.f("steps_agent_id_fkey"), ondelete="CASCADE"
        ),
        sa.ForeignKeyConstraint(
            ["iteration_id"],
            ["iterations.id"],
            name=op.f("steps_iteration_id_fkey"),
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("steps_pkey")),
        sa.UniqueConstraint(
            "iteration_id", "kind", "index", name=op.f("steps_iteration_id_kind_index_key")
        ),
    )
    op.create_index(op.f("steps_agent_id_idx"), "steps", ["agent_id"], unique=False)
    op.create_index(
        "steps_open_idx",
        "steps",
        ["requested_at"],
        unique=False,
        postgresql_where=sa.text("status in ('pending', 'running')"),
    )
    op.create_index(
        "steps_retry_idx",
        "steps",
        ["retry_requested_at"],
        unique=False,
        postgresql_where=sa.text("retry_requested_at is not null"),
    )
    op.create_table(
        "webhook_secrets",
        sa.Column("id", sa.Uuid(), nullable=False),
        sa.Column("destination_id", sa.Uuid(), nullable=False),
        sa.Column("secret", sa.Text(), nullable=False),
        sa.Column(
            "created_at",
            sa.DateTime(timezone=True),
            server_default=sa.text("clock_timestamp()"),
            nullable=False,
        ),
        sa.Column("expires_at", sa.DateTime(timezone=True), nullable=True),
        sa.ForeignKeyConstraint(
            ["destination_id"],
            ["destinations.id"],
            name=op.f("webhook_secrets_destination_id_fkey"),
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("webhook_secrets_pkey")),
    )
    op.create_index(
        op.f("webhook_secrets_destination_id_idx"),
        "webhook_secrets",
        ["destination_id"],
        unique=False,
    )
    op.create_table(
        "dead_letters",
        sa.Column("id", sa.Uuid(), nullable=False),
        sa.Column("service", sa.Text(), nullable=False),
        sa.Column("subject", sa.Text(), nullable=False),
        sa.Column("payload", sa.LargeBinary(), nullable=False),
        sa.Column("step_id", sa.Uuid(), nullable=True),
        sa.Column("code", sa.Text(), nullable=False),
        sa.Column("error", sa.Text(), nullable=False),
        sa.Column("attempts", sa.Integer(), nullable=False),
        sa.Column(
            "created_at",
            sa.DateTime(timezone=True),
            server_default=sa.text("clock_timestamp()"),
            nullable=False,
        ),
        sa.Column(
            "stored_at",
            sa.DateTime(timezone=True),
            server_default=sa.text("clock_timestamp()"),
            nullable=False,
        ),
        sa.Column("retry_requested_at", sa.DateTime(timezone=True), nullable=True),
        sa.ForeignKeyConstraint(
            ["step_id"], ["steps.id"], name=op.f("dead_letters_step_id_fkey"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("dead_letters_pkey")),
    )
    op.create_index("dead_letters_created_idx", "dead_letters", ["created_at"], unique=False)
    op.create_index("dead_letters_kept_idx", "dead_letters", ["stored_at"], unique=False)
    op.create_index(
        "dead_letters_retry_idx",
        "dead_letters",
        ["retry_requested_at"],
        unique=False,
        postgresql_where=sa.text("retry_requested_at is not null"),
    )
    op.create_index(op.f("dead_letters_step_id_idx"), "dead_letters", ["step_id"], unique=False)
    op.create_table(
        "graph_nodes",
        sa.Column("id", sa.Uuid(), nullable=False),
        sa.Column("agent_id", sa.Uuid(), nullable=False),
        sa.Column("type", sa.Text(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("properties", postgresql.JSONB(astext_type=sa.Text()), nullable=False),
        sa.Column("seal", sa.LargeBinary(), nullable=True),
        sa.Column("unsupported_since", sa.DateTime(timezone=True), nullable=True),
        sa.Column("iteration_id", sa.Uuid(), nullable=True),
        sa.Column("step_id", sa.Uuid(), nullable=True),
        sa.Column(
            "created_at",
            sa.DateTime(timezone=True),
            server_default=sa.text("clock_timestamp()"),
            nullable=False,
        ),
        sa.Column(
            "updated_at",
            sa.DateTime(timezone=True),
            server_default=sa.text("clock_timestamp()"),
            nullable=False,
        ),
        sa.ForeignKeyConstraint(
            ["agent_id", "type"],
            ["graph_node_types.agent_id", "graph_node_types.name"],
            name=op.f("graph_nodes_agent_id_type_fkey"),
        ),
        sa.ForeignKeyConstraint(
            ["agent_id"], ["agents.id"], name=op.f("graph_nodes_agent_id_fkey"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("graph_nodes_pkey")),
        sa.UniqueConstraint(
            "agent_id", "type", "name", name=op.f("graph_nodes_agent_id_type_name_key")
        ),
    )
    op.create_index(
        "graph_nodes_agent_name_idx",
        "graph_nodes",
        ["agent_id", sa.literal_column("lower(name)")],
        unique=False,
    )
    op.create_index(
        "graph_nodes_agent_type_updated_idx",
        "graph_nodes",
        ["agent_id", "type", "updated_at"],
        unique=False,
    )
    op.create_index(
        "graph_nodes_agent_updated_idx", "graph_nodes", ["agent_id", "updated_at"], unique=False
    )
    op.create_index(
        op.f("graph_nodes_iteration_id_idx"), "graph_nodes", ["iteration_id"], unique=False
    )
    op.create_index(
        "graph_nodes_search_idx",
        "graph_nodes",
        [
            "agent_id",
            "type",
            sa.literal_column("to_tsvector('simple'::regconfig, name)"),
            "name",
            sa.literal_column(
                "jsonb_to_tsvector('simple'::regconfig, properties, '[\"string\", \"numeric\"]'::jsonb)"
            ),
        ],
        unique=False,
        postgresql_using="gin",
        postgresql_ops={"name": "gin_trgm_ops"},
        postgresql_with={"fastupdate": "on", "gin_pending_list_limit": "64"},
    )
    op.create_table(
        "investigation_requests",
        sa.Column("id", sa.Uuid(), nullable=False),
        sa.Column("agent_id", sa.Uuid(), nullable=False),
        sa.Column("iteration_id", sa.Uuid(), nullable=True),
        sa.Column("iteration_number", sa.Integer(), nullable=False),
        sa.Column("step_id", sa.Uuid(), nullable=True),
        sa.Column("objective", sa.Text(), nullable=False),
        sa.Column("reasoning", sa.Text(), nullable=False),
        sa.Column(
            "search_hints",
            postgresql.JSONB(astext_type=sa.Text()),
            server_default="[]",
            nullable=False,
        ),
        sa.Column(
            "created_at",
            sa.DateTime(timezone=True),
            server_default=sa.text("clock_timestamp()"),
            nullable=False,
        ),
        sa.Column("answered_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("answered_by", sa.Uuid(), nullable=True),
        sa.Column("dropped_at", sa.DateTime(timezone=True), nullable=True),
        sa.ForeignKeyConstraint(
            ["agent_id"],
            ["agents.id"],
            name=op.f("investigation_requests_agent_id_fkey"),
            ondelete="CASCADE",
        ),
        sa.ForeignKeyConstraint(
            ["answered_by"],
            ["steps.id"],
            name=op.f("investigation_requests_answered_by_fkey"),
            ondelete="SET NULL",
        ),
        sa.ForeignKeyConstraint(
            ["iteration_id"],
            ["iterations.id"],
            name=op.f("investigation_requests_iteration_id_fkey"),
            ondelete="SET NULL",
        ),
        sa.ForeignKeyConstraint(
            ["step_id"],
            ["steps.id"],
            name=op.f("investigation_requests_step_id_fkey"),
            ondelete="SET NULL",
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("investigation_requests_pkey")),
    )
    op.create_index(
        "investigation_requests_agent_idx",
        "investigation_requests",
        ["agent_id", "created_at", "id"],
        unique=False,
    )
    op.create_index(
        op.f("investigation_requests_answered_by_idx"),
        "investigation_requests",
        ["answered_by"],
        unique=False,
    )
    op.create_index(
        op.f("investigation_requests_iteration_id_idx"),
        "investigation_requests",
        ["iteration_id"],
        unique=False,
    )
    op.create_index(
        "investigation_requests_open_idx",
        "investigation_requests",
        ["agent_id", "created_at", "id"],
        unique=False,
        postgresql_where=sa.text("answered_at is null and dropped_at is null"),
    )
    op.create_index(
        op.f("investigation_requests_step_id_idx"),
        "investigation_requests",
        ["step_id"],
        unique=False,
    )
    op.create_table(
        "llm_interactions",
        sa.Column("id", sa.Uuid(), nullable=False),
        sa.Column("agent_id", sa.Uuid(), nullable=False),
        sa.Column("iteration_id", sa.Uuid(), nullable=True),
        sa.Column("step_id", sa.Uuid(), nullable=True),
        sa.Column("phase", sa.Text(), nullable=False),
        sa.Column("model", sa.Text(), nullable=False),
        sa.Column("system_prompt", sa.Text(), nullable=False),
        sa.Column("request", postgresql.JSONB(astext_type=sa.Text()), nullable=False),
        sa.Column("message", sa.LargeBinary(), nullable=True),
        sa.Column("context_sha256", sa.LargeBinary(), nullable=True),
        sa.Column(
            "events", postgresql.JSONB(astext_type=sa.Text()), server_default="[]", nullable=False
        ),
        sa.Column(
            "created_at",
            sa.DateTime(timezone=True),
            server_default=sa.text("clock_timestamp()"),
            nullable=False,
        ),
        sa.Column("completed_at", sa.DateTime(timezone=True), nullable=True),
        sa.CheckConstraint(
            "phase in ('observer', 'knowledge_acquisition', 'graph_construction', 'analysis_generation', 'advice_generation', 'conversation', 'configuration')",
            name=op.f("llm_interactions_phase_check"),
        ),
        sa.ForeignKeyConstraint(
            ["step_id"],
            ["steps.id"],
            name=op.f("llm_interactions_step_id_fkey"),
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("llm_interactions_pkey")),
        sa.UniqueConstraint("step_id", "phase", name=op.f("llm_interactions_step_id_phase_key")),
    )
    op.create_index(
        "llm_interactions_agent_idx", "llm_interactions", ["agent_id", "created_at"], unique=False
    )
    op.create_index(
        op.f("llm_interactions_iteration_id_idx"),
        "llm_interactions",
        ["iteration_id"],
        unique=False,
    )
    op.create_table(
        "memories",
        sa.Column("id", sa.Uuid(), nullable=False),
        sa.Column("agent_id", sa.Uuid(), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("content", sa.Text(), nullable=False),
        sa.Column("message_id", sa.Uuid(), nullable=True),
        sa.Column(
            "created_at",
            sa.DateTime(timezone=True),
            server_default=sa.text("clock_timestamp()"),
            nullable=False,
        ),
        sa.Column("forgotten_at", sa.DateTime(timezone=True), nullable=True),
        sa.CheckConstraint("kind in ('wish', 'fact')", name=op.f("memories_kind_check")),
        sa.ForeignKeyConstraint(
            ["agent_id"], ["agents.id"], name=op.f("memories_agent_id_fkey"), ondelete="CASCADE"
        ),
        sa.ForeignKeyConstraint(
            ["message_id"],
            ["messages.id"],
            name=op.f("memories_message_id_fkey"),
            ondelete="SET NULL",
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("memories_pkey")),
    )
    op.create_index(
        "memories_active_idx",
        "memories",
        ["agent_id", "created_at"],
        unique=False,
        postgresql_where=sa.text("forgotten_at is null"),
    )
    op.create_index("memories_agent_idx", "memories", ["agent_id", "created_at"], unique=False)
    op.create_index(op.f("memories_message_id_idx"), "memories", ["message_id"], unique=False)
    op.create_table(
        "sources",
        sa.Column("id", sa.Uuid(), nullable=False),
        sa.Column("agent_id", sa.Uuid(), nullable=False),
        sa.Column("url", sa.Text(), nullable=False),
        sa.Column("title", sa.Text(), nullable=True),
        sa.Column("published", sa.DateTime(timezone=True), nullable=True),
        sa.Column("fetched_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("sha256", sa.LargeBinary(), nullable=False),
        sa.Column("text", sa.Text(), nullable=False),
        sa.Column("seal", sa.LargeBinary(), nullable=False),
        sa.Column("step_id", sa.Uuid(), nullable=True),
        sa.Column("retracted_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("retraction_reason", sa.Text(), nullable=True),
        sa.ForeignKeyConstraint(
            ["agent_id"], ["agents.id"], name=op.f("sources_agent_id_fkey"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("sources_pkey")),
        sa.UniqueConstraint(
            "agent_id", "url", "sha256", name=op.f("sources_agent_id_url_sha256_key")
        ),
    )
    op.create_index(
        "sources_agent_fetched_idx", "sources", ["agent_id", "fetched_at"], unique=False
    )
    op.create_table(
        "calls",
        sa.Column("id", sa.Uuid(), nullable=False),
        sa.Column("agent_id", sa.Uuid(), nullable=False),
        sa.Column("iteration_id", sa.Uuid(), nullable=True),
        sa.Column("step_id", sa.Uuid(), nullable=False),
        sa.Column("interaction_id", sa.Uuid(), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("phase", sa.Text(), nullable=False),
        sa.Column("model", sa.Text(), nullable=True),
        sa.Column("request_hash", sa.Text(), nullable=False),
        sa.Column("request", postgresql.JSONB(astext_type=sa.Text()), nullable=False),
        sa.Column("provider_ref", sa.Text(), nullable=True),
        sa.Column("answer", postgresql.JSONB(astext_type=sa.Text()), nullable=True),
        sa.Column("input_tokens", sa.Integer(), nullable=True),
        sa.Column("output_tokens", sa.Integer(), nullable=True),
        sa.Column("cost_usd", sa.Numeric(precision=14, scale=8), nullable=True),
        sa.Column("sent_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("received_chars", sa.Integer(), nullable=True),
        sa.Column("progressed_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("attempts", sa.Integer(), server_default="0", nullable=False),
        sa.Column("reserved_usd", sa.Numeric(precision=14, scale=8), nullable=True),
        sa.Column("reserved_on", sa.Date(), nullable=True),
        sa.Column(
            "assumed_usd", sa.Numeric(precision=14, scale=8), server_default="0", nullable=False
        ),
        sa.Column(
            "failures", postgresql.JSONB(astext_type=sa.Text()), server_default="[]", nullable=False
        ),
        sa.Column(
            "started_at",
            sa.DateTime(timezone=True),
            server_default=sa.text("clock_timestamp()"),
            nullable=False,
        ),
        sa.Column("answered_at", sa.DateTime(timezone=True), nullable=True),
        sa.CheckConstraint("kind in ('llm', 'search')", name=op.f("calls_kind_check")),
        sa.ForeignKeyConstraint(
            ["interaction_id"],
            ["llm_interactions.id"],
            name=op.f("calls_interaction_id_fkey"),
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("calls_pkey")),
    )
    op.create_index(
        "calls_costs_idx",
        "calls",
        ["agent_id", "started_at"],
        unique=False,
        postgresql_include=[
            "kind",
            "phase",
            "model",
            "attempts",
            "input_tokens",
            "output_tokens",
            "cost_usd",
            "assumed_usd",
        ],
    )
    op.create_index(
        "calls_embedded_idx",
        "calls",
        ["agent_id", "request_hash"],
        unique=False,
        postgresql_where=sa.text("request ? 'embeds'"),
    )
    op.create_index(op.f("calls_interaction_id_idx"), "calls", ["interaction_id"], unique=False)
    op.create_index(op.f("calls_iteration_id_idx"), "calls", ["iteration_id"], unique=False)
    op.create_index(op.f("calls_step_id_idx"), "calls", ["step_id"], unique=False)
    op.create_index(
        "calls_reserved_idx",
        "calls",
        ["agent_id"],
        unique=False,
        postgresql_where=sa.text("reserved_on is not null"),
    )
    op.create_table(
        "citations",
        sa.Column("conclusion_id", sa.Uuid(), nullable=False),
        sa.Column("cited_id", sa.Uuid(), nullable=False),
        sa.ForeignKeyConstraint(
            ["conclusion_id"],
            ["graph_nodes.id"],
            name=op.f("citations_conclusion_id_fkey"),
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("conclusion_id", "cited_id", name=op.f("citations_pkey")),
    )
    op.create_index(op.f("citations_cited_id_idx"), "citations", ["cited_id"], unique=False)
    op.create_table(
        "doubts",
        sa.Column("id", sa.Uuid(), nullable=False),
        sa.Column("conclusion_id", sa.Uuid(), nullable=False),
        sa.Column("element_id", sa.Uuid(), nullable=False),
        sa.Column("source_id", sa.Uuid(), nullable=False),
        sa.Column(
            "since",
            sa.DateTime(timezone=True),
            server_default=sa.text("clock_timestamp()"),
            nullable=False,
        ),
        sa.Column("evaluated_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("resolved_at", sa.DateTime(timezone=True), nullable=True),
        sa.ForeignKeyConstraint(
            ["conclusion_id"],
            ["graph_nodes.id"],
            name=op.f("doubts_conclusion_id_fkey"),
            ondelete="CASCADE",
        ),
        sa.ForeignKeyConstraint(
            ["source_id"], ["sources.id"], name=op.f("doubts_source_id_fkey"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("doubts_pkey")),
    )
    op.create_index(op.f("doubts_conclusion_id_idx"), "doubts", ["conclusion_id"], unique=False)
    op.create_index(
        "doubts_open_idx",
        "doubts",
        ["conclusion_id", "since"],
        unique=False,
        postgresql_where=sa.text("resolved_at is null"),
    )
    op.create_index(op.f("doubts_source_id_idx"), "doubts", ["source_id"], unique=False)
    op.create_index(op.f("doubts_element_id_idx"), "doubts", ["element_id"], unique=False)
    op.create_table(
        "graph_edges",
        sa.Column("id", sa.Uuid(), nullable=False),
        sa.Column("agent_id", sa.Uuid(), nullable=False),
        sa.Column("type", sa.Text(), nullable=False),
        sa.Column("source_id", sa.Uuid(), nullable=False),
        sa.Column("target_id", sa.Uuid(), nullable=False),
        sa.Column(
            "properties",
            postgresql.JSONB(astext_type=sa.Text()),
            server_default="{}",
            nullable=False,
        ),
        sa.Column("seal", sa.LargeBinary(), nullable=True),
        sa.Column("unsupported_since", sa.DateTime(timezone=True), nullable=True),
        sa.Column("iteration_id", sa.Uuid(), nullable=True),
        sa.Column("step_id", sa.Uuid(), nullable=True),
        sa.Column(
            "created_at",
            sa.DateTime(timezone=True),
            server_default=sa.text("clock_timestamp()"),
            nullable=False,
        ),
        sa.Column(
            "updated_at",
            sa.DateTime(timezone=True),
            server_default=sa.text("clock_timestamp()"),
            nullable=False,
        ),
        sa.ForeignKeyConstraint(
            ["agent_id", "type"],
            ["graph_edge_types.agent_id", "graph_edge_types.name"],
            name=op.f("graph_edges_agent_id_type_fkey"),
        ),
        sa.ForeignKeyConstraint(
            ["agent_id"], ["agents.id"], name=op.f("graph_edges_agent_id_fkey"), ondelete="CASCADE"
        ),
        sa.ForeignKeyConstraint(
            ["source_id"],
            ["graph_nodes.id"],
            name=op.f("graph_edges_source_id_fkey"),
            ondelete="CASCADE",
        ),
        sa.ForeignKeyConstraint(
            ["target_id"],
            ["graph_nodes.id"],
            name=op.f("graph_edges_target_id_fkey"),
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("graph_edges_pkey")),
        sa.UniqueConstraint(
            "agent_id",
            "type",
            "source_id",
            "target_id",
            name=op.f("graph_edges_agent_id_type_source_id_target_id_key"),
        ),
    )
    op.create_index(
        "graph_edges_agent_type_updated_idx",
        "graph_edges",
        ["agent_id", "type", "updated_at"],
        unique=False,
    )
    op.create_index(
        "graph_edges_agent_updated_idx", "graph_edges", ["agent_id", "updated_at"], unique=False
    )
    op.create_index("graph_edges_ends_idx", "graph_edges", ["source_id", "target_id"], unique=False)
    op.create_index(
        op.f("graph_edges_iteration_id_idx"), "graph_edges", ["iteration_id"], unique=False
    )
    op.create_index(
        "graph_edges_source_updated_idx", "graph_edges", ["source_id", "updated_at"], unique=False
    )
    op.create_index(
        "graph_edges_target_updated_idx", "graph_edges", ["target_id", "updated_at"], unique=False
    )
    op.create_table(
        "graph_names",
        sa.Column("agent_id", sa.Uuid(), nullable=False),
        sa.Column("type", sa.Text(), nullable=False),
        sa.Column("key", sa.Text(collation="C"), nullable=False),
        sa.Column("reversed_key", sa.Text(collation="C"), nullable=False),
        sa.Column("sorted_words_key", sa.Text(collation="C"), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("node_id", sa.Uuid(), nullable=False),
        sa.Column("step_id", sa.Uuid(), nullable=True),
        sa.Column(
            "created_at",
            sa.DateTime(timezone=True),
            server_default=sa.text("clock_timestamp()"),
            nullable=False,
        ),
        sa.ForeignKeyConstraint(
            ["node_id"],
            ["graph_nodes.id"],
            name=op.f("graph_names_node_id_fkey"),
            ondelete="CASCADE",
            initially="DEFERRED",
            deferrable=True,
        ),
        sa.PrimaryKeyConstraint("agent_id", "type", "key", name=op.f("graph_names_pkey")),
    )
    op.create_index(
        "graph_names_reversed_key_idx", "graph_names", ["agent_id", "type", "reversed_key"], unique=False
    )
    op.create_index(
        "graph_names_sorted_words_key_idx", "graph_names", ["agent_id", "type", "sorted_words_key"], unique=False
    )
    op.create_index(op.f("graph_names_node_id_idx"), "graph_names", ["node_id"], unique=False)
    op.create_table(
        "inbox_items",
        sa.Column("id", sa.Uuid(), nullable=False),
        sa.Column("owner_id", sa.Uuid(), nullable=False),
        sa.Column("agent_id", sa.Uuid(), nullable=False),
        sa.Column("kind", sa.Text(), server_default="advice", nullable=False),
        sa.Column("node_id", sa.Uuid(), nullable=True),
        sa.Column("title", sa.Text(), nullable=False),
        sa.Column("summary", sa.Text(), nullable=False),
        sa.Column("read_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("dispatched_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column(
            "created_at",
            sa.DateTime(timezone=True),
            server_default=sa.text("clock_timestamp()"),
            nullable=False,
        ),
        sa.ForeignKeyConstraint(
            ["agent_id"], ["agents.id"], name=op.f("inbox_items_agent_id_fkey"), ondelete="CASCADE"
        ),
        sa.ForeignKeyConstraint(
            ["node_id"],
            ["graph_nodes.id"],
            name=op.f("inbox_items_node_id_fkey"),
            ondelete="CASCADE",
        ),
        sa.ForeignKeyConstraint(
            ["owner_id"], ["users.id"], name=op.f("inbox_items_owner_id_fkey"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("inbox_items_pkey")),
        sa.UniqueConstraint("node_id", name=op.f("inbox_items_node_id_key")),
    )
    op.create_index(op.f("inbox_items_agent_id_idx"), "inbox_items", ["agent_id"], unique=False)
    op.create_index(
        "inbox_items_owner_idx", "inbox_items", ["owner_id", "created_at"], unique=False
    )
    op.create_index(
        "inbox_items_undispatched_idx",
        "inbox_items",
        ["created_at"],
        unique=False,
        postgresql_where=sa.text("dispatched_at is null"),
    )
    op.create_index(
        "inbox_items_unread_idx",
        "inbox_items",
        ["owner_id", "created_at"],
        unique=False,
        postgresql_where=sa.text("read_at is null"),
    )
    op.create_table(
        "node_embeddings",
        sa.Column("node_id", sa.Uuid(), nullable=False),
        sa.Column("agent_id", sa.Uuid(), nullable=False),
        sa.Column("model", sa.Text(), nullable=False),
        sa.Column("text_sha256", sa.LargeBinary(), nullable=False),
        sa.Column("embedding", postgresql.ARRAY(sa.REAL(), dimensions=1), nullable=False),
        sa.Column(
            "updated_at",
            sa.DateTime(timezone=True),
            server_default=sa.text("clock_timestamp()"),
            nullable=False,
        ),
        sa.CheckConstraint(
            "cardinality(embedding) = 256", name=op.f("node_embeddings_dimensions_check")
        ),
        sa.ForeignKeyConstraint(
            ["agent_id"],
            ["agents.id"],
            name=op.f("node_embeddings_agent_id_fkey"),
            ondelete="CASCADE",
        ),
        sa.ForeignKeyConstraint(
            ["node_id"],
            ["graph_nodes.id"],
            name=op.f("node_embeddings_node_id_fkey"),
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("node_id", name=op.f("node_embeddings_pkey")),
    )
    op.create_index(
        "node_embeddings_agent_model_idx", "node_embeddings", ["agent_id", "model"], unique=False
    )
    op.create_table(
        "retractions",
        sa.Column("id", sa.Uuid(), nullable=False),
        sa.Column("agent_id", sa.Uuid(), nullable=False),
        sa.Column("url", sa.Text(), nullable=False),
        sa.Column("source_id", sa.Uuid(), nullable=True),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column(
            "created_at",
            sa.DateTime(timezone=True),
            server_default=sa.text("clock_timestamp()"),
            nullable=False,
        ),
        sa.Column("restored_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("due_at", sa.DateTime(timezone=True), nullable=True),
        sa.ForeignKeyConstraint(
            ["agent_id"], ["agents.id"], name=op.f("retractions_agent_id_fkey"), ondelete="CASCADE"
        ),
        sa.ForeignKeyConstraint(
            ["source_id"],
            ["sources.id"],
            name=op.f("retractions_source_id_fkey"),
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("retractions_pkey")),
    )
    op.create_index(
        "retractions_agent_idx", "retractions", ["agent_id", "created_at"], unique=False
    )
    op.create_index(
        "retractions_due_idx",
        "retractions",
        ["due_at"],
        unique=False,
        postgresql_where=sa.text("due_at is not null"),
    )
    op.create_index(op.f("retractions_source_id_idx"), "retractions", ["source_id"], unique=False)
    op.create_table(
        "deliveries",
        sa.Column("id", sa.Uuid(), nullable=False),
        sa.Column("destination_id", sa.Uuid(), nullable=False),
        sa.Column("inbox_item_id", sa.Uuid(), nullable=True),
        sa.Column("status", sa.Text(), server_default="pending", nullable=False),
        sa.Column("attempts", sa.Integer(), server_default="0", nullable=False),
        sa.Column(
            "next_attempt_at",
            sa.DateTime(timezone=True),
            server_default=sa.text("clock_timestamp()"),
            nullable=False,
        ),
        sa.Column("give_up_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("lease_owner", sa.Text(), nullable=True),
        sa.Column("epoch", sa.Integer(), server_default="0", nullable=False),
        sa.Column("status_code", sa.Integer(), nullable=True),
        sa.Column("error", sa.Text(), nullable=True),
        sa.Column(
            "created_at",
            sa.DateTime(timezone=True),
            server_default=sa.text("clock_timestamp()"),
            nullable=False,
        ),
        sa.Column("ended_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("retry_requested_at", sa.DateTime(timezone=True), nullable=True),
        sa.CheckConstraint(
            "status in ('pending', 'delivered', 'failed')", name=op.f("deliveries_status_check")
        ),
        sa.ForeignKeyConstraint(
            ["destination_id"],
            ["destinations.id"],
            name=op.f("deliveries_destination_id_fkey"),
            ondelete="CASCADE",
        ),
        sa.ForeignKeyConstraint(
            ["inbox_item_id"],
            ["inbox_items.id"],
            name=op.f("deliveries_inbox_item_id_fkey"),
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("deliveries_pkey")),
        sa.UniqueConstraint(
            "destination_id",
            "inbox_item_id",
            name=op.f("deliveries_destination_id_inbox_item_id_key"),
        ),
    )
    op.create_index(
        "deliveries_destination_idx", "deliveries", ["destination_id", "created_at"], unique=False
    )
    op.create_index(
        "deliveries_due_idx",
        "deliveries",
        ["next_attempt_at"],
        unique=False,
        postgresql_where=sa.text("status = 'pending'"),
    )
    op.create_index(
        op.f("deliveries_inbox_item_id_idx"), "deliveries", ["inbox_item_id"], unique=False
    )
    op.create_index(
        "deliveries_retry_idx",
        "deliveries",
        ["retry_requested_at"],
        unique=False,
        postgresql_where=sa.text("retry_requested_at is not null"),
    )
    op.create_table(
        "evidence",
        sa.Column("id", sa.Uuid(), nullable=False),
        sa.Column("agent_id", sa.Uuid(), nullable=False),
        sa.Column("node_id", sa.Uuid(), nullable=True),
        sa.Column("edge_id", sa.Uuid(), nullable=True),
        sa.Column("source_id", sa.Uuid(), nullable=False),
        sa.Column("first_byte", sa.Integer(), nullable=False),
        sa.Column("end_byte", sa.Integer(), nullable=False),
        sa.Column("quote_sha256", sa.LargeBinary(), nullable=False),
        sa.Column("claims", postgresql.JSONB(astext_type=sa.Text()), nullable=False),
        sa.Column("valid_from", sa.DateTime(timezone=True), nullable=True),
        sa.Column("valid_to", sa.DateTime(timezone=True), nullable=True),
        sa.Column("as_of", sa.DateTime(timezone=True), nullable=False),
        sa.Column("learned_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("seal", sa.LargeBinary(), nullable=False),
        sa.Column("step_id", sa.Uuid(), nullable=True),
        sa.CheckConstraint(
            "0 <= first_byte and first_byte < end_byte", name=op.f("evidence_span_check")
        ),
        sa.CheckConstraint(
            "num_nonnulls(node_id, edge_id) = 1", name=op.f("evidence_of_one_thing_check")
        ),
        sa.ForeignKeyConstraint(
            ["edge_id"], ["graph_edges.id"], name=op.f("evidence_edge_id_fkey"), ondelete="CASCADE"
        ),
        sa.ForeignKeyConstraint(
            ["node_id"], ["graph_nodes.id"], name=op.f("evidence_node_id_fkey"), ondelete="CASCADE"
        ),
        sa.ForeignKeyConstraint(
            ["source_id"], ["sources.id"], name=op.f("evidence_source_id_fkey"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("evidence_pkey")),
    )
    op.create_index(op.f("evidence_agent_id_idx"), "evidence", ["agent_id"], unique=False)
    op.create_index("evidence_by_source_idx", "evidence", ["source_id", "id"], unique=False)
    op.create_index("evidence_edge_as_of_idx", "evidence", ["edge_id", "as_of"], unique=False)
    op.create_index("evidence_node_as_of_idx", "evidence", ["node_id", "as_of"], unique=False)
    op.create_index(op.f("evidence_step_id_idx"), "evidence", ["step_id"], unique=False)
    op.create_table(
        "retracted_sources",
        sa.Column("retraction_id", sa.Uuid(), nullable=False),
        sa.Column("source_id", sa.Uuid(), nullable=False),
        sa.Column("is_due", sa.Boolean(), nullable=False),
        sa.Column("through", sa.Uuid(), nullable=True),
        sa.ForeignKeyConstraint(
            ["retraction_id"],
            ["retractions.id"],
            name=op.f("retracted_sources_retraction_id_fkey"),
            ondelete="CASCADE",
        ),
        sa.ForeignKeyConstraint(
            ["source_id"],
            ["sources.id"],
            name=op.f("retracted_sources_source_id_fkey"),
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("retraction_id", "source_id", name=op.f("retracted_sources_pkey")),
    )
    op.create_index(
        op.f("retracted_sources_source_id_idx"), "retracted_sources", ["source_id"], unique=False
    )


def downgrade() -> None:
    op.drop_index(op.f("retracted_sources_source_id_idx"), table_name="retracted_sources")
    op.drop_table("retracted_sources")
    op.drop_index(op.f("evidence_step_id_idx"), table_name="evidence")
    op.drop_index("evidence_node_as_of_idx", table_name="evidence")
    op.drop_index("evidence_edge_as_of_idx", table_name="evidence")
    op.drop_index("evidence_by_source_idx", table_name="evidence")
    op.drop_index(op.f("evidence_agent_id_idx"), table_name="evidence")
    op.drop_table("evidence")
    op.drop_index(
        "deliveries_retry_idx",
        table_name="deliveries",
        postgresql_where=sa.text("retry_requested_at is not null"),
    )
    op.drop_index(op.f("deliveries_inbox_item_id_idx"), table_name="deliveries")
    op.drop_index(
        "deliveries_due_idx",
        table_name="deliveries",
        postgresql_where=sa.text("status = 'pending'"),
    )
    op.drop_index("deliveries_destination_idx", table_name="deliveries")
    op.drop_table("deliveries")
    op.drop_index(op.f("retractions_source_id_idx"), table_name="retractions")
    op.drop_index(
        "retractions_due_idx",
        table_name="retractions",
        postgresql_where=sa.text("due_at is not null"),
    )
    op.drop_index("retractions_agent_idx", table_name="retractions")
    op.drop_table("retractions")
    op.drop_index("node_embeddings_agent_model_idx", table_name="node_embeddings")
    op.drop_table("node_embeddings")
    op.drop_index(
        "inbox_items_unread_idx",
        table_name="inbox_items",
        postgresql_where=sa.text("read_at is null"),
    )
    op.drop_index(
        "inbox_items_undispatched_idx",
        table_name="inbox_items",
        postgresql_where=sa.text("dispatched_at is null"),
    )
    op.drop_index("inbox_items_owner_idx", table_name="inbox_items")
    op.drop_index(op.f("inbox_items_agent_id_idx"), table_name="inbox_items")
    op.drop_table("inbox_items")
    op.drop_index(op.f("graph_names_node_id_idx"), table_name="graph_names")
    op.drop_index("graph_names_sorted_words_key_idx", table_name="graph_names")
    op.drop_index("graph_names_reversed_key_idx", table_name="graph_names")
    op.drop_table("graph_names")
    op.drop_index("graph_edges_target_updated_idx", table_name="graph_edges")
    op.drop_index("graph_edges_source_updated_idx", table_name="graph_edges")
    op.drop_index(op.f("graph_edges_iteration_id_idx"), table_name="graph_edges")
    op.drop_index("graph_edges_ends_idx", table_name="graph_edges")
    op.drop_index("graph_edges_agent_updated_idx", table_name="graph_edges")
    op.drop_index("graph_edges_agent_type_updated_idx", table_name="graph_edges")
    op.drop_table("graph_edges")
    op.drop_index(op.f("doubts_element_id_idx"), table_name="doubts")
    op.drop_index(op.f("doubts_source_id_idx"), table_name="doubts")
    op.drop_index(
        "doubts_open_idx", table_name="doubts", postgresql_where=sa.text("resolved_at is null")
    )
    op.drop_index(op.f("doubts_conclusion_id_idx"), table_name="doubts")
    op.drop_table("doubts")
    op.drop_index(op.f("citations_cited_id_idx"), table_name="citations")
    op.drop_table("citations")
    op.drop_index(
        "calls_reserved_idx",
        table_name="calls",
        postgresql_where=sa.text("reserved_on is not null"),
    )
    op.drop_index(op.f("calls_step_id_idx"), table_name="calls")
    op.drop_index(op.f("calls_iteration_id_idx"), table_name="calls")
    op.drop_index(op.f("calls_interaction_id_idx"), table_name="calls")
    op.drop_index(
        "calls_embedded_idx", table_name="calls", postgresql_where=sa.text("request ? 'embeds'")
    )
    op.drop_index(
        "calls_costs_idx",
        table_name="calls",
        postgresql_include=[
            "kind",
            "phase",
            "model",
            "attempts",
            "input_tokens",
            "output_tokens",
            "cost_usd",
            "assumed_usd",
        ],
    )
    op.drop_table("calls")
    op.drop_index("sources_agent_fetched_idx", table_name="sources")
    op.drop_table("sources")
    op.drop_index(op.f("memories_message_id_idx"), table_name="memories")
    op.drop_index("memories_agent_idx", table_name="memories")
    op.drop_index(
        "memories_active_idx",
        table_name="memories",
        postgresql_where=sa.text("forgotten_at is null"),
    )
    op.drop_table("memories")
    op.drop_index(op.f("llm_interactions_iteration_id_idx"), table_name="llm_interactions")
    op.drop_index("llm_interactions_agent_idx", table_name="llm_interactions")
    op.drop_table("llm_interactions")
    op.drop_index(op.f("investigation_requests_step_id_idx"), table_name="investigation_requests")
    op.drop_index(
        "investigation_requests_open_idx",
        table_name="investigation_requests",
        postgresql_where=sa.text("answered_at is null and dropped_at is null"),
    )
    op.drop_index(
        op.f("investigation_requests_iteration_id_idx"), table_name="investigation_requests"
    )
    op.drop_index(
        op.f("investigation_requests_answered_by_idx"), table_name="investigation_requests"
    )
    op.drop_index("investigation_requests_agent_idx", table_name="investigation_requests")
    op.drop_table("investigation_requests")
    op.drop_index(
        "graph_nodes_search_idx",
        table_name="graph_nodes",
        postgresql_using="gin",
        postgresql_ops={"name": "gin_trgm_ops"},
        postgresql_with={"fastupdate": "on", "gin_pending_list_limit": "64"},
    )
    op.drop_index(op.f("graph_nodes_iteration_id_idx"), table_name="graph_nodes")
    op.drop_index("graph_nodes_agent_updated_idx", table_name="graph_nodes")
    op.drop_index("graph_nodes_agent_type_updated_idx", table_name="graph_nodes")
    op.drop_index("graph_nodes_agent_name_idx", table_name="graph_nodes")
    op.drop_table("graph_nodes")
    op.drop_index(op.f("dead_letters_step_id_idx"), table_name="dead_letters")
    op.drop_index(
        "dead_letters_retry_idx",
        table_name="dead_letters",
        postgresql_where=sa.text("retry_requested_at is not null"),
    )
    op.drop_index("dead_letters_kept_idx", table_name="dead_letters")
    op.drop_index("dead_letters_created_idx", table_name="dead_letters")
    op.drop_table("dead_letters")
    op.drop_index(op.f("webhook_secrets_destination_id_idx"), table_name="webhook_secrets")
    op.drop_table("webhook_secrets")
    op.drop_index(
        "steps_retry_idx",
        table_name="steps",
        postgresql_where=sa.text("retry_requested_at is not null"),
    )
    op.drop_index(
        "steps_open_idx",
        table_name="steps",
        postgresql_where=sa.text("status in ('pending', 'running')"),
    )
    op.drop_index(op.f("steps_agent_id_idx"), table_name="steps")
    op.drop_table("steps")
    op.drop_index("messages_conversation_idx", table_name="messages")
    op.drop_table("messages")
    op.drop_index("graph_moves_merge_idx", table_name="graph_redirects")
    op.drop_index("graph_moves_kept_idx", table_name="graph_redirects")
    op.drop_table("graph_redirects")
    op.drop_table("prompt_versions")
    op.drop_index(
        "iterations_unpublished_end_idx",
        table_name="iterations",
        postgresql_where=sa.text("ended_at is not null and end_published_at is null"),
    )
    op.drop_index(
        "iterations_one_running_key",
        table_name="iterations",
        postgresql_where=sa.text("status = 'running'"),
    )
    op.drop_index(
        "iterations_deadline_idx",
        table_name="iterations",
        postgresql_where=sa.text("status = 'running'"),
    )
    op.drop_table("iterations")
    op.drop_table("graph_node_types")
    op.drop_index(op.f("graph_merges_kept_id_idx"), table_name="graph_merges")
    op.drop_index(op.f("graph_merges_merged_id_idx"), table_name="graph_merges")
    op.drop_index("graph_merges_agent_made_idx", table_name="graph_merges")
    op.drop_table("graph_merges")
    op.drop_table("graph_edge_types")
    op.drop_table("embedding_progress")
    op.drop_index("destinations_owner_idx", table_name="destinations")
    op.drop_index(op.f("destinations_agent_id_idx"), table_name="destinations")
    op.drop_table("destinations")
    op.drop_table("conversations")
    op.drop_table("contexts")
    op.drop_index(op.f("sign_in_links_user_id_idx"), table_name="sign_in_links")
    op.drop_table("sign_in_links")
    op.drop_index(op.f("sessions_user_id_idx"), table_name="sessions")
    op.drop_table("sessions")
    op.drop_index("idempotency_keys_created_idx", table_name="idempotency_keys")
    op.drop_table("idempotency_keys")
    op.drop_index(op.f("api_tokens_user_id_idx"), table_name="api_tokens")
    op.drop_table("api_tokens")
    op.drop_index(
        "agents_run_requested_idx",
        table_name="agents",
        postgresql_where=sa.text("run_requested_at is not null"),
    )
    op.drop_index("agents_owner_name_key", table_name="agents")
    op.drop_index("agents_due_idx", table_name="agents", postgresql_where=sa.text("active"))
    op.drop_table("agents")
    op.drop_index("users_email_key", table_name="users")
    op.drop_table("users")
    op.drop_table("installation_budget")
    op.drop_table("budget_days")
    op.execute("drop function roll_back()")
    for extension in reversed(EXTENSIONS):
        op.execute(f"drop extension if exists {extension}")
