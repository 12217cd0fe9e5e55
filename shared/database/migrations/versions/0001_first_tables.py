"""the first tables

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


def upgrade() -> None:
    op.create_table('users',
    sa.Column('id', sa.Uuid(), nullable=False),
    sa.Column('name', sa.Text(), nullable=False),
    sa.Column('created_at', sa.DateTime(timezone=True), server_default=sa.text('clock_timestamp()'), nullable=False),
    sa.PrimaryKeyConstraint('id', name=op.f('users_pkey')),
    sa.UniqueConstraint('name', name=op.f('users_name_key'))
    )
    op.create_table('agents',
    sa.Column('id', sa.Uuid(), nullable=False),
    sa.Column('owner_id', sa.Uuid(), nullable=False),
    sa.Column('name', sa.Text(), nullable=False),
    sa.Column('mission', sa.Text(), nullable=False),
    sa.Column('conversation_system_prompt', sa.Text(), nullable=False),
    sa.Column('observer_system_prompt', sa.Text(), nullable=False),
    sa.Column('knowledge_acquisition_system_prompt', sa.Text(), nullable=False),
    sa.Column('graph_construction_system_prompt', sa.Text(), nullable=False),
    sa.Column('analysis_generation_system_prompt', sa.Text(), nullable=False),
    sa.Column('advice_generation_system_prompt', sa.Text(), nullable=False),
    sa.Column('models', postgresql.JSONB(astext_type=sa.Text()), server_default='{}', nullable=False),
    sa.Column('interval_seconds', sa.Integer(), nullable=False),
    sa.Column('active', sa.Boolean(), server_default=sa.text('true'), nullable=False),
    sa.Column('next_run_at', sa.DateTime(timezone=True), server_default=sa.text('clock_timestamp()'), nullable=False),
    sa.Column('run_requested_at', sa.DateTime(timezone=True), nullable=True),
    sa.Column('iterations_started', sa.Integer(), server_default='0', nullable=False),
    sa.Column('created_at', sa.DateTime(timezone=True), server_default=sa.text('clock_timestamp()'), nullable=False),
    sa.Column('updated_at', sa.DateTime(timezone=True), server_default=sa.text('clock_timestamp()'), nullable=False),
    sa.CheckConstraint('interval_seconds >= 1', name=op.f('agents_interval_seconds_check')),
    sa.ForeignKeyConstraint(['owner_id'], ['users.id'], name=op.f('agents_owner_id_fkey'), ondelete='CASCADE'),
    sa.PrimaryKeyConstraint('id', name=op.f('agents_pkey'))
    )
    op.create_index('agents_due_idx', 'agents', ['next_run_at'], unique=False, postgresql_where=sa.text('active'))
    op.create_index('agents_owner_name_key', 'agents', ['owner_id', sa.literal_column('lower(name)')], unique=True)
    op.create_index('agents_run_requested_idx', 'agents', ['run_requested_at'], unique=False, postgresql_where=sa.text('run_requested_at is not null'))
    op.create_table('conversations',
    sa.Column('id', sa.Uuid(), nullable=False),
    sa.Column('agent_id', sa.Uuid(), nullable=False),
    sa.Column('created_at', sa.DateTime(timezone=True), server_default=sa.text('clock_timestamp()'), nullable=False),
    sa.ForeignKeyConstraint(['agent_id'], ['agents.id'], name=op.f('conversations_agent_id_fkey'), ondelete='CASCADE'),
    sa.PrimaryKeyConstraint('id', name=op.f('conversations_pkey')),
    sa.UniqueConstraint('agent_id', name=op.f('conversations_agent_id_key'))
    )
    op.create_table('graph_edge_types',
    sa.Column('agent_id', sa.Uuid(), nullable=False),
    sa.Column('name', sa.Text(), nullable=False),
    sa.Column('description', sa.Text(), nullable=False),
    sa.Column('properties_schema', postgresql.JSONB(astext_type=sa.Text()), server_default='{}', nullable=False),
    sa.Column('source_types', postgresql.JSONB(astext_type=sa.Text()), server_default='[]', nullable=False),
    sa.Column('target_types', postgresql.JSONB(astext_type=sa.Text()), server_default='[]', nullable=False),
    sa.Column('created_by', sa.Text(), nullable=False),
    sa.Column('created_at', sa.DateTime(timezone=True), server_default=sa.text('clock_timestamp()'), nullable=False),
    sa.ForeignKeyConstraint(['agent_id'], ['agents.id'], name=op.f('graph_edge_types_agent_id_fkey'), ondelete='CASCADE'),
    sa.PrimaryKeyConstraint('agent_id', 'name', name=op.f('graph_edge_types_pkey'))
    )
    op.create_table('graph_node_types',
    sa.Column('agent_id', sa.Uuid(), nullable=False),
    sa.Column('name', sa.Text(), nullable=False),
    sa.Column('description', sa.Text(), nullable=False),
    sa.Column('properties_schema', postgresql.JSONB(astext_type=sa.Text()), nullable=False),
    sa.Column('example_properties', postgresql.JSONB(astext_type=sa.Text()), server_default='{}', nullable=False),
    sa.Column('created_by', sa.Text(), nullable=False),
    sa.Column('created_at', sa.DateTime(timezone=True), server_default=sa.text('clock_timestamp()'), nullable=False),
    sa.ForeignKeyConstraint(['agent_id'], ['agents.id'], name=op.f('graph_node_types_agent_id_fkey'), ondelete='CASCADE'),
    sa.PrimaryKeyConstraint('agent_id', 'name', name=op.f('graph_node_types_pkey'))
    )
    op.create_table('iterations',
    sa.Column('id', sa.Uuid(), nullable=False),
    sa.Column('agent_id', sa.Uuid(), nullable=False),
    sa.Column('number', sa.Integer(), nullable=False),
    sa.Column('why', sa.Text(), nullable=False),
    sa.Column('status', sa.Text(), server_default='running', nullable=False),
    sa.Column('stage', sa.Text(), server_default='observing', nullable=False),
    sa.Column('observer_plan', postgresql.JSONB(astext_type=sa.Text()), nullable=True),
    sa.Column('errors', postgresql.JSONB(astext_type=sa.Text()), server_default='[]', nullable=False),
    sa.Column('started_at', sa.DateTime(timezone=True), server_default=sa.text('clock_timestamp()'), nullable=False),
    sa.Column('deadline_at', sa.DateTime(timezone=True), nullable=False),
    sa.Column('stage_changed_at', sa.DateTime(timezone=True), server_default=sa.text('clock_timestamp()'), nullable=False),
    sa.Column('ended_at', sa.DateTime(timezone=True), nullable=True),
    sa.CheckConstraint("stage in ('observing', 'researching', 'analyzing', 'advising', 'ended')", name=op.f('iterations_stage_check')),
    sa.CheckConstraint("status in ('running', 'completed', 'failed')", name=op.f('iterations_status_check')),
    sa.ForeignKeyConstraint(['agent_id'], ['agents.id'], name=op.f('iterations_agent_id_fkey'), ondelete='CASCADE'),
    sa.PrimaryKeyConstraint('id', name=op.f('iterations_pkey')),
    sa.UniqueConstraint('agent_id', 'number', name=op.f('iterations_agent_id_number_key'))
    )
    op.create_index('iterations_deadline_idx', 'iterations', ['deadline_at'], unique=False, postgresql_where=sa.text("status = 'running'"))
    op.create_index('iterations_one_running_key', 'iterations', ['agent_id'], unique=True, postgresql_where=sa.text("status = 'running'"))
    op.create_table('messages',
    sa.Column('id', sa.Uuid(), nullable=False),
    sa.Column('conversation_id', sa.Uuid(), nullable=False),
    sa.Column('role', sa.Text(), nullable=False),
    sa.Column('content', sa.Text(), nullable=False),
    sa.Column('created_at', sa.DateTime(timezone=True), server_default=sa.text('clock_timestamp()'), nullable=False),
    sa.ForeignKeyConstraint(['conversation_id'], ['conversations.id'], name=op.f('messages_conversation_id_fkey'), ondelete='CASCADE'),
    sa.PrimaryKeyConstraint('id', name=op.f('messages_pkey'))
    )
    op.create_index('messages_conversation_idx', 'messages', ['conversation_id', 'created_at'], unique=False)
    op.create_table('steps',
    sa.Column('id', sa.Uuid(), nullable=False),
    sa.Column('iteration_id', sa.Uuid(), nullable=False),
    sa.Column('agent_id', sa.Uuid(), nullable=False),
    sa.Column('kind', sa.Text(), nullable=False),
    sa.Column('index', sa.Integer(), nullable=False),
    sa.Column('input', postgresql.JSONB(astext_type=sa.Text()), server_default='{}', nullable=False),
    sa.Column('status', sa.Text(), nullable=False),
    sa.Column('result', postgresql.JSONB(astext_type=sa.Text()), nullable=True),
    sa.Column('error', sa.Text(), nullable=True),
    sa.Column('attempts', sa.Integer(), server_default='0', nullable=False),
    sa.Column('epoch', sa.Integer(), server_default='0', nullable=False),
    sa.Column('lease_owner', sa.Text(), nullable=True),
    sa.Column('lease_until', sa.DateTime(timezone=True), nullable=True),
    sa.Column('retry_at', sa.DateTime(timezone=True), nullable=True),
    sa.Column('requested_at', sa.DateTime(timezone=True), nullable=True),
    sa.Column('resends', sa.Integer(), server_default='0', nullable=False),
    sa.Column('started_at', sa.DateTime(timezone=True), nullable=True),
    sa.Column('ended_at', sa.DateTime(timezone=True), nullable=True),
    sa.CheckConstraint("kind in ('observe', 'query', 'insight', 'advise')", name=op.f('steps_kind_check')),
    sa.CheckConstraint("status in ('planned', 'pending', 'running', 'completed', 'failed')", name=op.f('steps_status_check')),
    sa.ForeignKeyConstraint(['agent_id'], ['agents.id'], name=op.f('steps_agent_id_fkey'), ondelete='CASCADE'),
    sa.ForeignKeyConstraint(['iteration_id'], ['iterations.id'], name=op.f('steps_iteration_id_fkey'), ondelete='CASCADE'),
    sa.PrimaryKeyConstraint('id', name=op.f('steps_pkey')),
    sa.UniqueConstraint('iteration_id', 'kind', 'index', name=op.f('steps_iteration_id_kind_index_key'))
    )
    op.create_index(op.f('steps_agent_id_idx'), 'steps', ['agent_id'], unique=False)
    op.create_index('steps_open_idx', 'steps', ['requested_at'], unique=False, postgresql_where=sa.text("status in ('pending', 'running')"))
    op.create_table('dead_letters',
    sa.Column('id', sa.Uuid(), nullable=False),
    sa.Column('actor', sa.Text(), nullable=False),
    sa.Column('subject', sa.Text(), nullable=False),
    sa.Column('payload', sa.LargeBinary(), nullable=False),
    sa.Column('step_id', sa.Uuid(), nullable=True),
    sa.Column('code', sa.Text(), nullable=False),
    sa.Column('error', sa.Text(), nullable=False),
    sa.Column('attempts', sa.Integer(), nullable=False),
    sa.Column('created_at', sa.DateTime(timezone=True), server_default=sa.text('clock_timestamp()'), nullable=False),
    sa.ForeignKeyConstraint(['step_id'], ['steps.id'], name=op.f('dead_letters_step_id_fkey'), ondelete='CASCADE'),
    sa.PrimaryKeyConstraint('id', name=op.f('dead_letters_pkey'))
    )
    op.create_index('dead_letters_created_idx', 'dead_letters', ['created_at'], unique=False)
    op.create_index(op.f('dead_letters_step_id_idx'), 'dead_letters', ['step_id'], unique=False)
    op.create_table('graph_nodes',
    sa.Column('id', sa.Uuid(), nullable=False),
    sa.Column('agent_id', sa.Uuid(), nullable=False),
    sa.Column('type', sa.Text(), nullable=False),
    sa.Column('name', sa.Text(), nullable=False),
    sa.Column('properties', postgresql.JSONB(astext_type=sa.Text()), nullable=False),
    sa.Column('iteration_id', sa.Uuid(), nullable=True),
    sa.Column('step_id', sa.Uuid(), nullable=True),
    sa.Column('created_at', sa.DateTime(timezone=True), server_default=sa.text('clock_timestamp()'), nullable=False),
    sa.Column('updated_at', sa.DateTime(timezone=True), server_default=sa.text('clock_timestamp()'), nullable=False),
    sa.ForeignKeyConstraint(['agent_id', 'type'], ['graph_node_types.agent_id', 'graph_node_types.name'], name=op.f('graph_nodes_agent_id_type_fkey')),
    sa.ForeignKeyConstraint(['agent_id'], ['agents.id'], name=op.f('graph_nodes_agent_id_fkey'), ondelete='CASCADE'),
    sa.ForeignKeyConstraint(['iteration_id'], ['iterations.id'], name=op.f('graph_nodes_iteration_id_fkey'), ondelete='SET NULL'),
    sa.ForeignKeyConstraint(['step_id'], ['steps.id'], name=op.f('graph_nodes_step_id_fkey'), ondelete='SET NULL'),
    sa.PrimaryKeyConstraint('id', name=op.f('graph_nodes_pkey')),
    sa.UniqueConstraint('agent_id', 'type', 'name', name=op.f('graph_nodes_agent_id_type_name_key'))
    )
    op.create_index('graph_nodes_agent_type_updated_idx', 'graph_nodes', ['agent_id', 'type', 'updated_at'], unique=False)
    op.create_index('graph_nodes_agent_updated_idx', 'graph_nodes', ['agent_id', 'updated_at'], unique=False)
    op.create_index(op.f('graph_nodes_iteration_id_idx'), 'graph_nodes', ['iteration_id'], unique=False)
    op.create_index(op.f('graph_nodes_step_id_idx'), 'graph_nodes', ['step_id'], unique=False)
    op.create_table('llm_interactions',
    sa.Column('id', sa.Uuid(), nullable=False),
    sa.Column('agent_id', sa.Uuid(), nullable=False),
    sa.Column('iteration_id', sa.Uuid(), nullable=True),
    sa.Column('step_id', sa.Uuid(), nullable=True),
    sa.Column('phase', sa.Text(), nullable=False),
    sa.Column('model', sa.Text(), nullable=False),
    sa.Column('system_prompt', sa.Text(), nullable=False),
    sa.Column('request', postgresql.JSONB(astext_type=sa.Text()), nullable=False),
    sa.Column('events', postgresql.JSONB(astext_type=sa.Text()), server_default='[]', nullable=False),
    sa.Column('created_at', sa.DateTime(timezone=True), server_default=sa.text('clock_timestamp()'), nullable=False),
    sa.Column('completed_at', sa.DateTime(timezone=True), nullable=True),
    sa.CheckConstraint("phase in ('observer', 'knowledge_acquisition', 'graph_construction', 'analysis_generation', 'advice_generation', 'conversation', 'configuration')", name=op.f('llm_interactions_phase_check')),
    sa.ForeignKeyConstraint(['agent_id'], ['agents.id'], name=op.f('llm_interactions_agent_id_fkey'), ondelete='CASCADE'),
    sa.ForeignKeyConstraint(['iteration_id'], ['iterations.id'], name=op.f('llm_interactions_iteration_id_fkey'), ondelete='CASCADE'),
    sa.ForeignKeyConstraint(['step_id'], ['steps.id'], name=op.f('llm_interactions_step_id_fkey'), ondelete='CASCADE'),
    sa.PrimaryKeyConstraint('id', name=op.f('llm_interactions_pkey')),
    sa.UniqueConstraint('step_id', 'phase', name=op.f('llm_interactions_step_id_phase_key'))
    )
    op.create_index('llm_interactions_agent_idx', 'llm_interactions', ['agent_id', 'created_at'], unique=False)
    op.create_index(op.f('llm_interactions_iteration_id_idx'), 'llm_interactions', ['iteration_id'], unique=False)
    op.create_table('calls',
    sa.Column('id', sa.Uuid(), nullable=False),
    sa.Column('agent_id', sa.Uuid(), nullable=False),
    sa.Column('iteration_id', sa.Uuid(), nullable=True),
    sa.Column('step_id', sa.Uuid(), nullable=False),
    sa.Column('interaction_id', sa.Uuid(), nullable=False),
    sa.Column('kind', sa.Text(), nullable=False),
    sa.Column('phase', sa.Text(), nullable=False),
    sa.Column('model', sa.Text(), nullable=True),
    sa.Column('request_hash', sa.Text(), nullable=False),
    sa.Column('request', postgresql.JSONB(astext_type=sa.Text()), nullable=False),
    sa.Column('answer', postgresql.JSONB(astext_type=sa.Text()), nullable=True),
    sa.Column('input_tokens', sa.Integer(), nullable=True),
    sa.Column('output_tokens', sa.Integer(), nullable=True),
    sa.Column('cost_usd', sa.Numeric(precision=14, scale=8), nullable=True),
    sa.Column('started_at', sa.DateTime(timezone=True), server_default=sa.text('clock_timestamp()'), nullable=False),
    sa.Column('answered_at', sa.DateTime(timezone=True), nullable=True),
    sa.CheckConstraint("kind in ('llm', 'search')", name=op.f('calls_kind_check')),
    sa.ForeignKeyConstraint(['agent_id'], ['agents.id'], name=op.f('calls_agent_id_fkey'), ondelete='CASCADE'),
    sa.ForeignKeyConstraint(['interaction_id'], ['llm_interactions.id'], name=op.f('calls_interaction_id_fkey'), ondelete='CASCADE'),
    sa.ForeignKeyConstraint(['iteration_id'], ['iterations.id'], name=op.f('calls_iteration_id_fkey'), ondelete='CASCADE'),
    sa.ForeignKeyConstraint(['step_id'], ['steps.id'], name=op.f('calls_step_id_fkey'), ondelete='CASCADE'),
    sa.PrimaryKeyConstraint('id', name=op.f('calls_pkey')),
    sa.UniqueConstraint('step_id', 'request_hash', name=op.f('calls_step_id_request_hash_key'))
    )
    op.create_index('calls_agent_idx', 'calls', ['agent_id', 'started_at'], unique=False)
    op.create_index(op.f('calls_interaction_id_idx'), 'calls', ['interaction_id'], unique=False)
    op.create_index(op.f('calls_iteration_id_idx'), 'calls', ['iteration_id'], unique=False)
    op.create_table('graph_edges',
    sa.Column('id', sa.Uuid(), nullable=False),
    sa.Column('agent_id', sa.Uuid(), nullable=False),
    sa.Column('type', sa.Text(), nullable=False),
    sa.Column('source_id', sa.Uuid(), nullable=False),
    sa.Column('target_id', sa.Uuid(), nullable=False),
    sa.Column('properties', postgresql.JSONB(astext_type=sa.Text()), server_default='{}', nullable=False),
    sa.Column('iteration_id', sa.Uuid(), nullable=True),
    sa.Column('step_id', sa.Uuid(), nullable=True),
    sa.Column('created_at', sa.DateTime(timezone=True), server_default=sa.text('clock_timestamp()'), nullable=False),
    sa.Column('updated_at', sa.DateTime(timezone=True), server_default=sa.text('clock_timestamp()'), nullable=False),
    sa.ForeignKeyConstraint(['agent_id', 'type'], ['graph_edge_types.agent_id', 'graph_edge_types.name'], name=op.f('graph_edges_agent_id_type_fkey')),
    sa.ForeignKeyConstraint(['agent_id'], ['agents.id'], name=op.f('graph_edges_agent_id_fkey'), ondelete='CASCADE'),
    sa.ForeignKeyConstraint(['iteration_id'], ['iterations.id'], name=op.f('graph_edges_iteration_id_fkey'), ondelete='SET NULL'),
    sa.ForeignKeyConstraint(['source_id'], ['graph_nodes.id'], name=op.f('graph_edges_source_id_fkey'), ondelete='CASCADE'),
    sa.ForeignKeyConstraint(['step_id'], ['steps.id'], name=op.f('graph_edges_step_id_fkey'), ondelete='SET NULL'),
    sa.ForeignKeyConstraint(['target_id'], ['graph_nodes.id'], name=op.f('graph_edges_target_id_fkey'), ondelete='CASCADE'),
    sa.PrimaryKeyConstraint('id', name=op.f('graph_edges_pkey')),
    sa.UniqueConstraint('agent_id', 'type', 'source_id', 'target_id', name=op.f('graph_edges_agent_id_type_source_id_target_id_key'))
    )
    op.create_index('graph_edges_agent_updated_idx', 'graph_edges', ['agent_id', 'updated_at'], unique=False)
    op.create_index(op.f('graph_edges_iteration_id_idx'), 'graph_edges', ['iteration_id'], unique=False)
    op.create_index(op.f('graph_edges_source_id_idx'), 'graph_edges', ['source_id'], unique=False)
    op.create_index(op.f('graph_edges_step_id_idx'), 'graph_edges', ['step_id'], unique=False)
    op.create_index(op.f('graph_edges_target_id_idx'), 'graph_edges', ['target_id'], unique=False)
    op.create_table('inbox_items',
    sa.Column('id', sa.Uuid(), nullable=False),
    sa.Column('owner_id', sa.Uuid(), nullable=False),
    sa.Column('agent_id', sa.Uuid(), nullable=False),
    sa.Column('node_id', sa.Uuid(), nullable=False),
    sa.Column('title', sa.Text(), nullable=False),
    sa.Column('summary', sa.Text(), nullable=False),
    sa.Column('read_at', sa.DateTime(timezone=True), nullable=True),
    sa.Column('created_at', sa.DateTime(timezone=True), server_default=sa.text('clock_timestamp()'), nullable=False),
    sa.ForeignKeyConstraint(['agent_id'], ['agents.id'], name=op.f('inbox_items_agent_id_fkey'), ondelete='CASCADE'),
    sa.ForeignKeyConstraint(['node_id'], ['graph_nodes.id'], name=op.f('inbox_items_node_id_fkey'), ondelete='CASCADE'),
    sa.ForeignKeyConstraint(['owner_id'], ['users.id'], name=op.f('inbox_items_owner_id_fkey'), ondelete='CASCADE'),
    sa.PrimaryKeyConstraint('id', name=op.f('inbox_items_pkey')),
    sa.UniqueConstraint('node_id', name=op.f('inbox_items_node_id_key'))
    )
    op.create_index(op.f('inbox_items_agent_id_idx'), 'inbox_items', ['agent_id'], unique=False)
    op.create_index('inbox_items_owner_idx', 'inbox_items', ['owner_id', 'created_at'], unique=False)


def downgrade() -> None:
    op.drop_index('inbox_items_owner_idx', table_name='inbox_items')
    op.drop_index(op.f('inbox_items_agent_id_idx'), table_name='inbox_items')
    op.drop_table('inbox_items')
    op.drop_index(op.f('graph_edges_target_id_idx'), table_name='graph_edges')
    op.drop_index(op.f('graph_edges_step_id_idx'), table_name='graph_edges')
    op.drop_index(op.f('graph_edges_source_id_idx'), table_name='graph_edges')
    op.drop_index(op.f('graph_edges_iteration_id_idx'), table_name='graph_edges')
    op.drop_index('graph_edges_agent_updated_idx', table_name='graph_edges')
    op.drop_table('graph_edges')
    op.drop_index(op.f('calls_iteration_id_idx'), table_name='calls')
    op.drop_index(op.f('calls_interaction_id_idx'), table_name='calls')
    op.drop_index('calls_agent_idx', table_name='calls')
    op.drop_table('calls')
    op.drop_index(op.f('llm_interactions_iteration_id_idx'), table_name='llm_interactions')
    op.drop_index('llm_interactions_agent_idx', table_name='llm_interactions')
    op.drop_table('llm_interactions')
    op.drop_index(op.f('graph_nodes_step_id_idx'), table_name='graph_nodes')
    op.drop_index(op.f('graph_nodes_iteration_id_idx'), table_name='graph_nodes')
    op.drop_index('graph_nodes_agent_updated_idx', table_name='graph_nodes')
    op.drop_index('graph_nodes_agent_type_updated_idx', table_name='graph_nodes')
    op.drop_table('graph_nodes')
    op.drop_index(op.f('dead_letters_step_id_idx'), table_name='dead_letters')
    op.drop_index('dead_letters_created_idx', table_name='dead_letters')
    op.drop_table('dead_letters')
    op.drop_index('steps_open_idx', table_name='steps', postgresql_where=sa.text("status in ('pending', 'running')"))
    op.drop_index(op.f('steps_agent_id_idx'), table_name='steps')
    op.drop_table('steps')
    op.drop_index('messages_conversation_idx', table_name='messages')
    op.drop_table('messages')
    op.drop_index('iterations_one_running_key', table_name='iterations', postgresql_where=sa.text("status = 'running'"))
    op.drop_index('iterations_deadline_idx', table_name='iterations', postgresql_where=sa.text("status = 'running'"))
    op.drop_table('iterations')
    op.drop_table('graph_node_types')
    op.drop_table('graph_edge_types')
    op.drop_table('conversations')
    op.drop_index('agents_run_requested_idx', table_name='agents', postgresql_where=sa.text('run_requested_at is not null'))
    op.drop_index('agents_owner_name_key', table_name='agents')
    op.drop_index('agents_due_idx', table_name='agents', postgresql_where=sa.text('active'))
    op.drop_table('agents')
    op.drop_table('users')
