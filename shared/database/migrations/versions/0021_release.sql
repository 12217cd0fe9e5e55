-- All tables, indexes, functions and triggers of release 0.3.0.
CREATE EXTENSION IF NOT EXISTS btree_gin;
CREATE EXTENSION IF NOT EXISTS pg_trgm;
CREATE FUNCTION close_graph_journal() RETURNS TABLE(of_agent uuid, of_seq bigint, of_hash bytea)
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'public', 'pg_temp'
    AS $$
declare
  noted record;
  head record;
  now_written timestamptz;
  new_root bytea;
  new_hash bytea;
  written_by text := current_setting('application_name');
  cited bytea := decode(nullif(current_setting('vigil.cited_root', true), ''), 'hex');
begin
  if pg_current_xact_id_if_assigned() is null then
    return;
  end if;
  for noted in
    with taken as (
      delete from graph_changes where transaction_id = pg_current_xact_id()::text::bigint returning *
    ), leaves as (
      select agent_id, leaf, sum(sign) as sign from (
        select agent_id, unnest(added) as leaf, 1 as sign from taken
        union all
        select agent_id, unnest(removed), -1 from taken
      ) as each
      group by agent_id, leaf having sum(sign) <> 0
    ), contents as (
      select agent_id,
        coalesce(array_agg(leaf order by leaf) filter (where sign > 0), '{}') as added,
        coalesce(array_agg(leaf order by leaf) filter (where sign < 0), '{}') as removed
      from leaves group by agent_id
    ), elements as (
      select taken.agent_id, (array_agg(taken.step_id))[1] as step_id,
        array_remove(array_agg(distinct each.changed), null) as changed,
        array_remove(array_agg(distinct each.deleted), null) as deleted,
        array_remove(array_agg(distinct each.type), null) as types
      from taken left join lateral unnest(taken.changed, taken.deleted, taken.types)
        as each (changed, deleted, type) on true
      where exists (select from agents where agents.id = taken.agent_id)
      group by taken.agent_id
    )
    select elements.*, coalesce(added, '{}') as added, coalesce(removed, '{}') as removed
    from elements left join contents using (agent_id)
    order by agent_id
  loop
    if noted.deleted <> '{}' then
      -- It may have been inserted again.
      noted.deleted := array(
        select id from unnest(noted.deleted) as id
        where not exists (select from graph_nodes where graph_nodes.id = id.id)
          and not exists (select from graph_edges where graph_edges.id = id.id)
      );
      noted.changed := array(
        select unnest(noted.changed) as id except select unnest(noted.deleted) order by id
      );
    end if;
    -- A change by another program has an entry without leaves, which names it.
    if noted.changed = '{}' and noted.deleted = '{}' and noted.types = '{}'
      and noted.added = '{}' and noted.removed = '{}' and starts_with(written_by, 'vigil-') then
      continue;
    end if;
    select seq, hash into head from graph_head
    where agent_id = noted.agent_id for no key update;
    if not found then
      insert into graph_head (agent_id, seq, hash) values (noted.agent_id, 0, '')
      on conflict do nothing;
      select seq, hash into head from graph_head
      where agent_id = noted.agent_id for no key update;
    end if;
    now_written := clock_timestamp();
    new_root := sha256(array_send(noted.added) || array_send(noted.removed));
    new_hash := sha256(
      head.hash || int8send(head.seq + 1)
      || int8send((extract(epoch from now_written) * 1000000)::bigint)
      || coalesce(uuid_send(noted.step_id), '') || array_send(noted.changed) || array_send(noted.deleted)
      || array_send(noted.types) || new_root || int4send(octet_length(written_by))
      || convert_to(written_by, 'UTF8') || coalesce(cited, '')
    );
    insert into graph_journal (agent_id, seq, step_id, changed, deleted, types, hash, written_at,
      added, removed, root, writer, cited_root)
    values (noted.agent_id, head.seq + 1, noted.step_id, noted.changed, noted.deleted, noted.types,
      new_hash, now_written, noted.added, noted.removed, new_root, written_by, cited);
    update graph_head set seq = head.seq + 1, hash = new_hash where agent_id = noted.agent_id;
    of_agent := noted.agent_id;
    of_seq := head.seq + 1;
    of_hash := new_hash;
    return next;
  end loop;
end
$$;
CREATE TABLE citations (
    conclusion_id uuid NOT NULL,
    cited_id uuid NOT NULL
);
CREATE FUNCTION graph_leaf(citations) RETURNS bytea
    LANGUAGE sql STABLE PARALLEL SAFE
    AS $_$ select set_byte(sha256(convert_to(jsonb_build_array($1.conclusion_id, $1.cited_id)::text, 'UTF8')), 0, 12) $_$;
CREATE TABLE doubts (
    id uuid NOT NULL,
    conclusion_id uuid NOT NULL,
    element_id uuid NOT NULL,
    source_id uuid NOT NULL,
    since timestamp with time zone DEFAULT clock_timestamp() NOT NULL,
    evaluated_at timestamp with time zone,
    resolved_at timestamp with time zone
);
CREATE FUNCTION graph_leaf(doubts) RETURNS bytea
    LANGUAGE sql STABLE PARALLEL SAFE
    AS $_$ select set_byte(sha256(convert_to(jsonb_build_array($1.id, $1.conclusion_id, $1.element_id, $1.source_id, $1.since at time zone 'UTC', $1.evaluated_at at time zone 'UTC', $1.resolved_at at time zone 'UTC')::text, 'UTF8')), 0, 13) $_$;
CREATE TABLE entailment_verdicts (
    evidence_id uuid NOT NULL,
    agent_id uuid NOT NULL,
    verdict text NOT NULL,
    reason text NOT NULL,
    model text NOT NULL,
    call_id uuid NOT NULL,
    step_id uuid NOT NULL,
    created_at timestamp with time zone DEFAULT clock_timestamp() NOT NULL,
    due_at timestamp with time zone,
    CONSTRAINT entailment_verdicts_verdict_check CHECK ((verdict = ANY (ARRAY['supported'::text, 'contradicted'::text, 'not_stated'::text])))
);
CREATE FUNCTION graph_leaf(entailment_verdicts) RETURNS bytea
    LANGUAGE sql STABLE PARALLEL SAFE
    AS $_$ select set_byte(sha256(convert_to(jsonb_build_array($1.evidence_id, $1.agent_id, $1.verdict, $1.reason, $1.model, $1.call_id, $1.step_id, $1.created_at at time zone 'UTC', $1.due_at at time zone 'UTC')::text, 'UTF8')), 0, 14) $_$;
CREATE TABLE evidence (
    id uuid NOT NULL,
    agent_id uuid NOT NULL,
    node_id uuid,
    edge_id uuid,
    source_id uuid NOT NULL,
    first_byte integer NOT NULL,
    end_byte integer NOT NULL,
    quote_sha256 bytea NOT NULL,
    claims jsonb NOT NULL,
    valid_from timestamp with time zone,
    valid_to timestamp with time zone,
    as_of timestamp with time zone NOT NULL,
    learned_at timestamp with time zone NOT NULL,
    seal bytea NOT NULL,
    step_id uuid,
    rules smallint,
    CONSTRAINT evidence_of_one_thing_check CHECK ((num_nonnulls(node_id, edge_id) = 1)),
    CONSTRAINT evidence_span_check CHECK (((0 <= first_byte) AND (first_byte < end_byte)))
);
CREATE FUNCTION graph_leaf(evidence) RETURNS bytea
    LANGUAGE sql STABLE PARALLEL SAFE
    AS $_$ select set_byte(sha256(convert_to(jsonb_build_array($1.id, $1.agent_id, $1.node_id, $1.edge_id, $1.source_id, $1.first_byte, $1.end_byte, encode($1.quote_sha256, 'hex'), $1.claims, $1.valid_from at time zone 'UTC', $1.valid_to at time zone 'UTC', $1.as_of at time zone 'UTC', $1.learned_at at time zone 'UTC', $1.rules, encode($1.seal, 'hex'), $1.step_id)::text, 'UTF8')), 0, 7) $_$;
CREATE TABLE graph_edge_types (
    agent_id uuid NOT NULL,
    name text NOT NULL,
    description text NOT NULL,
    properties_schema jsonb DEFAULT '{}'::jsonb NOT NULL,
    source_types jsonb DEFAULT '[]'::jsonb NOT NULL,
    target_types jsonb DEFAULT '[]'::jsonb NOT NULL,
    example_properties jsonb DEFAULT '{}'::jsonb NOT NULL,
    created_by text NOT NULL,
    justification text,
    created_at timestamp with time zone DEFAULT clock_timestamp() NOT NULL
);
CREATE FUNCTION graph_leaf(graph_edge_types) RETURNS bytea
    LANGUAGE sql STABLE PARALLEL SAFE
    AS $_$ select set_byte(sha256(convert_to(jsonb_build_array($1.agent_id, $1.name, $1.description, $1.properties_schema, $1.example_properties, $1.created_by, $1.justification, $1.source_types, $1.target_types, $1.created_at at time zone 'UTC')::text, 'UTF8')), 0, 4) $_$;
CREATE TABLE graph_edges (
    id uuid NOT NULL,
    agent_id uuid NOT NULL,
    type text NOT NULL,
    source_id uuid NOT NULL,
    target_id uuid NOT NULL,
    properties jsonb DEFAULT '{}'::jsonb NOT NULL,
    seal bytea,
    unsupported_since timestamp with time zone,
    iteration_id uuid,
    step_id uuid,
    created_at timestamp with time zone DEFAULT clock_timestamp() NOT NULL,
    updated_at timestamp with time zone DEFAULT clock_timestamp() NOT NULL
);
CREATE FUNCTION graph_leaf(graph_edges) RETURNS bytea
    LANGUAGE sql STABLE PARALLEL SAFE
    AS $_$ select set_byte(sha256(convert_to(jsonb_build_array($1.id, $1.agent_id, $1.type, $1.source_id, $1.target_id, $1.properties, encode($1.seal, 'hex'), $1.unsupported_since at time zone 'UTC', $1.iteration_id, $1.step_id, $1.created_at at time zone 'UTC', $1.updated_at at time zone 'UTC')::text, 'UTF8')), 0, 2) $_$;
CREATE TABLE graph_merges (
    id uuid NOT NULL,
    agent_id uuid NOT NULL,
    kept_id uuid NOT NULL,
    merged_id uuid NOT NULL,
    reason text NOT NULL,
    merged_node jsonb NOT NULL,
    journal jsonb NOT NULL,
    made_by uuid,
    made_at timestamp with time zone DEFAULT clock_timestamp() NOT NULL,
    undone_at timestamp with time zone
);
CREATE FUNCTION graph_leaf(graph_merges) RETURNS bytea
    LANGUAGE sql STABLE PARALLEL SAFE
    AS $_$ select set_byte(sha256(convert_to(jsonb_build_array($1.id, $1.agent_id, $1.kept_id, $1.merged_id, $1.reason, $1.merged_node, $1.journal, $1.made_at at time zone 'UTC', $1.undone_at at time zone 'UTC')::text, 'UTF8')), 0, 8) $_$;
CREATE TABLE graph_names (
    agent_id uuid NOT NULL,
    type text NOT NULL,
    key text NOT NULL COLLATE pg_catalog."C",
    reversed_key text NOT NULL COLLATE pg_catalog."C",
    sorted_words_key text NOT NULL COLLATE pg_catalog."C",
    name text NOT NULL,
    node_id uuid NOT NULL,
    step_id uuid,
    created_at timestamp with time zone DEFAULT clock_timestamp() NOT NULL
);
CREATE FUNCTION graph_leaf(graph_names) RETURNS bytea
    LANGUAGE sql STABLE PARALLEL SAFE
    AS $_$ select set_byte(sha256(convert_to(jsonb_build_array($1.agent_id, $1.type, $1.key, $1.reversed_key, $1.sorted_words_key, $1.name, $1.node_id, $1.step_id, $1.created_at at time zone 'UTC')::text, 'UTF8')), 0, 5) $_$;
CREATE TABLE graph_node_types (
    agent_id uuid NOT NULL,
    name text NOT NULL,
    description text NOT NULL,
    properties_schema jsonb NOT NULL,
    example_properties jsonb DEFAULT '{}'::jsonb NOT NULL,
    created_by text NOT NULL,
    justification text,
    created_at timestamp with time zone DEFAULT clock_timestamp() NOT NULL
);
CREATE FUNCTION graph_leaf(graph_node_types) RETURNS bytea
    LANGUAGE sql STABLE PARALLEL SAFE
    AS $_$ select set_byte(sha256(convert_to(jsonb_build_array($1.agent_id, $1.name, $1.description, $1.properties_schema, $1.example_properties, $1.created_by, $1.justification, $1.created_at at time zone 'UTC')::text, 'UTF8')), 0, 3) $_$;
CREATE TABLE graph_nodes (
    id uuid NOT NULL,
    agent_id uuid NOT NULL,
    type text NOT NULL,
    name text NOT NULL,
    properties jsonb NOT NULL,
    seal bytea,
    unsupported_since timestamp with time zone,
    iteration_id uuid,
    step_id uuid,
    created_at timestamp with time zone DEFAULT clock_timestamp() NOT NULL,
    updated_at timestamp with time zone DEFAULT clock_timestamp() NOT NULL,
    rules jsonb
);
CREATE FUNCTION graph_leaf(graph_nodes) RETURNS bytea
    LANGUAGE sql STABLE PARALLEL SAFE
    AS $_$ select set_byte(sha256(convert_to(jsonb_build_array($1.id, $1.agent_id, $1.type, $1.name, $1.properties, $1.rules, encode($1.seal, 'hex'), $1.unsupported_since at time zone 'UTC', $1.iteration_id, $1.step_id, $1.created_at at time zone 'UTC', $1.updated_at at time zone 'UTC')::text, 'UTF8')), 0, 1) $_$;
CREATE TABLE graph_redirects (
    agent_id uuid NOT NULL,
    merged_id uuid NOT NULL,
    kept_id uuid NOT NULL,
    merge_id uuid NOT NULL,
    CONSTRAINT graph_moves_elsewhere_check CHECK ((merged_id <> kept_id))
);
CREATE FUNCTION graph_leaf(graph_redirects) RETURNS bytea
    LANGUAGE sql STABLE PARALLEL SAFE
    AS $_$ select set_byte(sha256(convert_to(jsonb_build_array($1.agent_id, $1.merged_id, $1.kept_id, $1.merge_id)::text, 'UTF8')), 0, 9) $_$;
CREATE TABLE retracted_sources (
    retraction_id uuid NOT NULL,
    source_id uuid NOT NULL,
    is_due boolean NOT NULL,
    through uuid
);
CREATE FUNCTION graph_leaf(retracted_sources) RETURNS bytea
    LANGUAGE sql STABLE PARALLEL SAFE
    AS $_$ select set_byte(sha256(convert_to(jsonb_build_array($1.retraction_id, $1.source_id, $1.is_due, $1.through)::text, 'UTF8')), 0, 11) $_$;
CREATE TABLE retractions (
    id uuid NOT NULL,
    agent_id uuid NOT NULL,
    url text NOT NULL,
    source_id uuid,
    reason text NOT NULL,
    created_at timestamp with time zone DEFAULT clock_timestamp() NOT NULL,
    restored_at timestamp with time zone,
    due_at timestamp with time zone
);
CREATE FUNCTION graph_leaf(retractions) RETURNS bytea
    LANGUAGE sql STABLE PARALLEL SAFE
    AS $_$ select set_byte(sha256(convert_to(jsonb_build_array($1.id, $1.agent_id, $1.url, $1.source_id, $1.reason, $1.created_at at time zone 'UTC', $1.restored_at at time zone 'UTC', $1.due_at at time zone 'UTC')::text, 'UTF8')), 0, 10) $_$;
CREATE TABLE sources (
    id uuid NOT NULL,
    agent_id uuid NOT NULL,
    url text NOT NULL,
    title text,
    published timestamp with time zone,
    fetched_at timestamp with time zone NOT NULL,
    sha256 bytea NOT NULL,
    text text NOT NULL,
    seal bytea NOT NULL,
    step_id uuid,
    retracted_at timestamp with time zone,
    retraction_reason text,
    reading jsonb
);
CREATE FUNCTION graph_leaf(sources) RETURNS bytea
    LANGUAGE sql STABLE PARALLEL SAFE
    AS $_$ select set_byte(sha256(convert_to(jsonb_build_array($1.id, $1.agent_id, $1.url, $1.title, $1.published at time zone 'UTC', $1.fetched_at at time zone 'UTC', encode($1.sha256, 'hex'), $1.reading, encode($1.seal, 'hex'), $1.step_id, $1.retracted_at at time zone 'UTC', $1.retraction_reason)::text, 'UTF8')), 0, 6) $_$;
CREATE FUNCTION note_citations() RETURNS trigger
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'public', 'pg_temp'
    AS $$
declare
  own_id bigint := pg_current_xact_id()::text::bigint;
  step uuid := nullif(current_setting('vigil.step_id', true), '')::uuid;
  is_own boolean := starts_with(current_setting('application_name'), 'vigil-');
  begins boolean := not exists (select from graph_changes where transaction_id = own_id);
begin
  if tg_op = 'INSERT' then
    insert into graph_changes (transaction_id, is_first, step_id, agent_id, changed, added)
    select own_id, begins, step, of_agent, '{}', coalesce(array_agg(set_byte(sha256(convert_to(jsonb_build_array(each.conclusion_id, each.cited_id)::text, 'UTF8')), 0, 12)) filter (where is_own), '{}')
    from (select (select agent_id from graph_nodes where id = new_rows.conclusion_id) as of_agent, new_rows.* from new_rows) as each
    where of_agent is not null group by of_agent;
  elsif tg_op = 'UPDATE' then
    insert into graph_changes (transaction_id, is_first, step_id, agent_id, added, removed)
    select own_id, begins, step, of_agent, coalesce(array_agg(leaf) filter (where is_own and is_new), '{}'), coalesce(array_agg(leaf) filter (where is_own and not is_new), '{}')
    from (
      select true as is_new, of_agent, set_byte(sha256(convert_to(jsonb_build_array(each.conclusion_id, each.cited_id)::text, 'UTF8')), 0, 12) as leaf from (select (select agent_id from graph_nodes where id = new_rows.conclusion_id) as of_agent, new_rows.* from new_rows) as each
      union all
      select false, of_agent, set_byte(sha256(convert_to(jsonb_build_array(each.conclusion_id, each.cited_id)::text, 'UTF8')), 0, 12) from (select (select agent_id from graph_nodes where id = old_rows.conclusion_id) as of_agent, old_rows.* from old_rows) as each
    ) as each
    where of_agent is not null group by of_agent;
  else
    -- The agent of a row that is deleted with its agent is gone already.
    insert into graph_changes (transaction_id, is_first, step_id, agent_id, deleted, removed)
    select own_id, begins, step, of_agent, '{}', coalesce(array_agg(set_byte(sha256(convert_to(jsonb_build_array(each.conclusion_id, each.cited_id)::text, 'UTF8')), 0, 12)) filter (where is_own), '{}')
    from (select (select agent_id from graph_nodes where id = old_rows.conclusion_id) as of_agent, old_rows.* from old_rows) as each
    where exists (select from agents where agents.id = of_agent) group by of_agent;
  end if;
  return null;
end
$$;
CREATE FUNCTION note_doubts() RETURNS trigger
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'public', 'pg_temp'
    AS $$
declare
  own_id bigint := pg_current_xact_id()::text::bigint;
  step uuid := nullif(current_setting('vigil.step_id', true), '')::uuid;
  is_own boolean := starts_with(current_setting('application_name'), 'vigil-');
  begins boolean := not exists (select from graph_changes where transaction_id = own_id);
begin
  if tg_op = 'INSERT' then
    insert into graph_changes (transaction_id, is_first, step_id, agent_id, changed, added)
    select own_id, begins, step, of_agent, '{}', coalesce(array_agg(set_byte(sha256(convert_to(jsonb_build_array(each.id, each.conclusion_id, each.element_id, each.source_id, each.since at time zone 'UTC', each.evaluated_at at time zone 'UTC', each.resolved_at at time zone 'UTC')::text, 'UTF8')), 0, 13)) filter (where is_own), '{}')
    from (select (select agent_id from graph_nodes where id = new_rows.conclusion_id) as of_agent, new_rows.* from new_rows) as each
    where of_agent is not null group by of_agent;
  elsif tg_op = 'UPDATE' then
    insert into graph_changes (transaction_id, is_first, step_id, agent_id, added, removed)
    select own_id, begins, step, of_agent, coalesce(array_agg(leaf) filter (where is_own and is_new), '{}'), coalesce(array_agg(leaf) filter (where is_own and not is_new), '{}')
    from (
      select true as is_new, of_agent, set_byte(sha256(convert_to(jsonb_build_array(each.id, each.conclusion_id, each.element_id, each.source_id, each.since at time zone 'UTC', each.evaluated_at at time zone 'UTC', each.resolved_at at time zone 'UTC')::text, 'UTF8')), 0, 13) as leaf from (select (select agent_id from graph_nodes where id = new_rows.conclusion_id) as of_agent, new_rows.* from new_rows) as each
      union all
      select false, of_agent, set_byte(sha256(convert_to(jsonb_build_array(each.id, each.conclusion_id, each.element_id, each.source_id, each.since at time zone 'UTC', each.evaluated_at at time zone 'UTC', each.resolved_at at time zone 'UTC')::text, 'UTF8')), 0, 13) from (select (select agent_id from graph_nodes where id = old_rows.conclusion_id) as of_agent, old_rows.* from old_rows) as each
    ) as each
    where of_agent is not null group by of_agent;
  else
    -- The agent of a row that is deleted with its agent is gone already.
    insert into graph_changes (transaction_id, is_first, step_id, agent_id, deleted, removed)
    select own_id, begins, step, of_agent, '{}', coalesce(array_agg(set_byte(sha256(convert_to(jsonb_build_array(each.id, each.conclusion_id, each.element_id, each.source_id, each.since at time zone 'UTC', each.evaluated_at at time zone 'UTC', each.resolved_at at time zone 'UTC')::text, 'UTF8')), 0, 13)) filter (where is_own), '{}')
    from (select (select agent_id from graph_nodes where id = old_rows.conclusion_id) as of_agent, old_rows.* from old_rows) as each
    where exists (select from agents where agents.id = of_agent) group by of_agent;
  end if;
  return null;
end
$$;
CREATE FUNCTION note_entailment_verdicts() RETURNS trigger
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'public', 'pg_temp'
    AS $$
declare
  own_id bigint := pg_current_xact_id()::text::bigint;
  step uuid := nullif(current_setting('vigil.step_id', true), '')::uuid;
  is_own boolean := starts_with(current_setting('application_name'), 'vigil-');
  begins boolean := not exists (select from graph_changes where transaction_id = own_id);
begin
  if tg_op = 'INSERT' then
    insert into graph_changes (transaction_id, is_first, step_id, agent_id, changed, added)
    select own_id, begins, step, of_agent, '{}', coalesce(array_agg(set_byte(sha256(convert_to(jsonb_build_array(each.evidence_id, each.agent_id, each.verdict, each.reason, each.model, each.call_id, each.step_id, each.created_at at time zone 'UTC', each.due_at at time zone 'UTC')::text, 'UTF8')), 0, 14)) filter (where is_own), '{}')
    from (select new_rows.agent_id as of_agent, new_rows.* from new_rows) as each
    where of_agent is not null group by of_agent;
  elsif tg_op = 'UPDATE' then
    insert into graph_changes (transaction_id, is_first, step_id, agent_id, added, removed)
    select own_id, begins, step, of_agent, coalesce(array_agg(leaf) filter (where is_own and is_new), '{}'), coalesce(array_agg(leaf) filter (where is_own and not is_new), '{}')
    from (
      select true as is_new, of_agent, set_byte(sha256(convert_to(jsonb_build_array(each.evidence_id, each.agent_id, each.verdict, each.reason, each.model, each.call_id, each.step_id, each.created_at at time zone 'UTC', each.due_at at time zone 'UTC')::text, 'UTF8')), 0, 14) as leaf from (select new_rows.agent_id as of_agent, new_rows.* from new_rows) as each
      union all
      select false, of_agent, set_byte(sha256(convert_to(jsonb_build_array(each.evidence_id, each.agent_id, each.verdict, each.reason, each.model, each.call_id, each.step_id, each.created_at at time zone 'UTC', each.due_at at time zone 'UTC')::text, 'UTF8')), 0, 14) from (select old_rows.agent_id as of_agent, old_rows.* from old_rows) as each
    ) as each
    where of_agent is not null group by of_agent;
  else
    -- The agent of a row that is deleted with its agent is gone already.
    insert into graph_changes (transaction_id, is_first, step_id, agent_id, deleted, removed)
    select own_id, begins, step, of_agent, '{}', coalesce(array_agg(set_byte(sha256(convert_to(jsonb_build_array(each.evidence_id, each.agent_id, each.verdict, each.reason, each.model, each.call_id, each.step_id, each.created_at at time zone 'UTC', each.due_at at time zone 'UTC')::text, 'UTF8')), 0, 14)) filter (where is_own), '{}')
    from (select old_rows.agent_id as of_agent, old_rows.* from old_rows) as each
    where exists (select from agents where agents.id = of_agent) group by of_agent;
  end if;
  return null;
end
$$;
CREATE FUNCTION note_evidence() RETURNS trigger
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'public', 'pg_temp'
    AS $$
declare
  own_id bigint := pg_current_xact_id()::text::bigint;
  step uuid := nullif(current_setting('vigil.step_id', true), '')::uuid;
  is_own boolean := starts_with(current_setting('application_name'), 'vigil-');
  begins boolean := not exists (select from graph_changes where transaction_id = own_id);
begin
  if tg_op = 'INSERT' then
    insert into graph_changes (transaction_id, is_first, step_id, agent_id, changed, added)
    select own_id, begins, step, of_agent, '{}', coalesce(array_agg(set_byte(sha256(convert_to(jsonb_build_array(each.id, each.agent_id, each.node_id, each.edge_id, each.source_id, each.first_byte, each.end_byte, encode(each.quote_sha256, 'hex'), each.claims, each.valid_from at time zone 'UTC', each.valid_to at time zone 'UTC', each.as_of at time zone 'UTC', each.learned_at at time zone 'UTC', each.rules, encode(each.seal, 'hex'), each.step_id)::text, 'UTF8')), 0, 7)) filter (where is_own), '{}')
    from (select new_rows.agent_id as of_agent, new_rows.* from new_rows) as each
    where of_agent is not null group by of_agent;
  elsif tg_op = 'UPDATE' then
    insert into graph_changes (transaction_id, is_first, step_id, agent_id, added, removed)
    select own_id, begins, step, of_agent, coalesce(array_agg(leaf) filter (where is_own and is_new), '{}'), coalesce(array_agg(leaf) filter (where is_own and not is_new), '{}')
    from (
      select true as is_new, of_agent, set_byte(sha256(convert_to(jsonb_build_array(each.id, each.agent_id, each.node_id, each.edge_id, each.source_id, each.first_byte, each.end_byte, encode(each.quote_sha256, 'hex'), each.claims, each.valid_from at time zone 'UTC', each.valid_to at time zone 'UTC', each.as_of at time zone 'UTC', each.learned_at at time zone 'UTC', each.rules, encode(each.seal, 'hex'), each.step_id)::text, 'UTF8')), 0, 7) as leaf from (select new_rows.agent_id as of_agent, new_rows.* from new_rows) as each
      union all
      select false, of_agent, set_byte(sha256(convert_to(jsonb_build_array(each.id, each.agent_id, each.node_id, each.edge_id, each.source_id, each.first_byte, each.end_byte, encode(each.quote_sha256, 'hex'), each.claims, each.valid_from at time zone 'UTC', each.valid_to at time zone 'UTC', each.as_of at time zone 'UTC', each.learned_at at time zone 'UTC', each.rules, encode(each.seal, 'hex'), each.step_id)::text, 'UTF8')), 0, 7) from (select old_rows.agent_id as of_agent, old_rows.* from old_rows) as each
    ) as each
    where of_agent is not null group by of_agent;
  else
    -- The agent of a row that is deleted with its agent is gone already.
    insert into graph_changes (transaction_id, is_first, step_id, agent_id, deleted, removed)
    select own_id, begins, step, of_agent, '{}', coalesce(array_agg(set_byte(sha256(convert_to(jsonb_build_array(each.id, each.agent_id, each.node_id, each.edge_id, each.source_id, each.first_byte, each.end_byte, encode(each.quote_sha256, 'hex'), each.claims, each.valid_from at time zone 'UTC', each.valid_to at time zone 'UTC', each.as_of at time zone 'UTC', each.learned_at at time zone 'UTC', each.rules, encode(each.seal, 'hex'), each.step_id)::text, 'UTF8')), 0, 7)) filter (where is_own), '{}')
    from (select old_rows.agent_id as of_agent, old_rows.* from old_rows) as each
    where exists (select from agents where agents.id = of_agent) group by of_agent;
  end if;
  return null;
end
$$;
CREATE FUNCTION note_graph_edge_types() RETURNS trigger
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'public', 'pg_temp'
    AS $$
declare
  own_id bigint := pg_current_xact_id()::text::bigint;
  step uuid := nullif(current_setting('vigil.step_id', true), '')::uuid;
  is_own boolean := starts_with(current_setting('application_name'), 'vigil-');
  begins boolean := not exists (select from graph_changes where transaction_id = own_id);
begin
  if tg_op = 'INSERT' then
    insert into graph_changes (transaction_id, is_first, step_id, agent_id, types, added)
    select own_id, begins, step, of_agent, array_agg(each.name), coalesce(array_agg(set_byte(sha256(convert_to(jsonb_build_array(each.agent_id, each.name, each.description, each.properties_schema, each.example_properties, each.created_by, each.justification, each.source_types, each.target_types, each.created_at at time zone 'UTC')::text, 'UTF8')), 0, 4)) filter (where is_own), '{}')
    from (select new_rows.agent_id as of_agent, new_rows.* from new_rows) as each
    where of_agent is not null group by of_agent;
  elsif tg_op = 'UPDATE' then
    insert into graph_changes (transaction_id, is_first, step_id, agent_id, types, added, removed)
    select own_id, begins, step, of_agent, array_agg(name), coalesce(array_agg(new_leaf) filter (where is_own), '{}'), coalesce(array_agg(old_leaf) filter (where is_own), '{}')
    from (
      select of_agent, name, set_byte(sha256(convert_to(jsonb_build_array(new_row.agent_id, new_row.name, new_row.description, new_row.properties_schema, new_row.example_properties, new_row.created_by, new_row.justification, new_row.source_types, new_row.target_types, new_row.created_at at time zone 'UTC')::text, 'UTF8')), 0, 4) as new_leaf, set_byte(sha256(convert_to(jsonb_build_array(old_row.agent_id, old_row.name, old_row.description, old_row.properties_schema, old_row.example_properties, old_row.created_by, old_row.justification, old_row.source_types, old_row.target_types, old_row.created_at at time zone 'UTC')::text, 'UTF8')), 0, 4) as old_leaf
      from (select new_rows.agent_id as of_agent, new_rows.* from new_rows) as new_row join old_rows as old_row using (agent_id, name)
    ) as each
    -- By the hashes: to jsonb, 1 and 1.0 are equal.
    where new_leaf <> old_leaf group by of_agent;
  else
    -- The agent of a row that is deleted with its agent is gone already.
    insert into graph_changes (transaction_id, is_first, step_id, agent_id, types, removed)
    select own_id, begins, step, of_agent, array_agg(each.name), coalesce(array_agg(set_byte(sha256(convert_to(jsonb_build_array(each.agent_id, each.name, each.description, each.properties_schema, each.example_properties, each.created_by, each.justification, each.source_types, each.target_types, each.created_at at time zone 'UTC')::text, 'UTF8')), 0, 4)) filter (where is_own), '{}')
    from (select old_rows.agent_id as of_agent, old_rows.* from old_rows) as each
    where exists (select from agents where agents.id = of_agent) group by of_agent;
  end if;
  return null;
end
$$;
CREATE FUNCTION note_graph_edges() RETURNS trigger
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'public', 'pg_temp'
    AS $$
declare
  own_id bigint := pg_current_xact_id()::text::bigint;
  step uuid := nullif(current_setting('vigil.step_id', true), '')::uuid;
  is_own boolean := starts_with(current_setting('application_name'), 'vigil-');
  begins boolean := not exists (select from graph_changes where transaction_id = own_id);
begin
  if tg_op = 'INSERT' then
    insert into graph_changes (transaction_id, is_first, step_id, agent_id, changed, added)
    select own_id, begins, step, of_agent, array_agg(each.id), coalesce(array_agg(set_byte(sha256(convert_to(jsonb_build_array(each.id, each.agent_id, each.type, each.source_id, each.target_id, each.properties, encode(each.seal, 'hex'), each.unsupported_since at time zone 'UTC', each.iteration_id, each.step_id, each.created_at at time zone 'UTC', each.updated_at at time zone 'UTC')::text, 'UTF8')), 0, 2)) filter (where is_own), '{}')
    from (select new_rows.agent_id as of_agent, new_rows.* from new_rows) as each
    where of_agent is not null group by of_agent;
  elsif tg_op = 'UPDATE' then
    insert into graph_changes (transaction_id, is_first, step_id, agent_id, changed, added, removed)
    select own_id, begins, step, of_agent, array_agg(id), coalesce(array_agg(new_leaf) filter (where is_own), '{}'), coalesce(array_agg(old_leaf) filter (where is_own), '{}')
    from (
      select of_agent, id, set_byte(sha256(convert_to(jsonb_build_array(new_row.id, new_row.agent_id, new_row.type, new_row.source_id, new_row.target_id, new_row.properties, encode(new_row.seal, 'hex'), new_row.unsupported_since at time zone 'UTC', new_row.iteration_id, new_row.step_id, new_row.created_at at time zone 'UTC', new_row.updated_at at time zone 'UTC')::text, 'UTF8')), 0, 2) as new_leaf, set_byte(sha256(convert_to(jsonb_build_array(old_row.id, old_row.agent_id, old_row.type, old_row.source_id, old_row.target_id, old_row.properties, encode(old_row.seal, 'hex'), old_row.unsupported_since at time zone 'UTC', old_row.iteration_id, old_row.step_id, old_row.created_at at time zone 'UTC', old_row.updated_at at time zone 'UTC')::text, 'UTF8')), 0, 2) as old_leaf
      from (select new_rows.agent_id as of_agent, new_rows.* from new_rows) as new_row join old_rows as old_row using (agent_id, id)
    ) as each
    -- By the hashes: to jsonb, 1 and 1.0 are equal.
    where new_leaf <> old_leaf group by of_agent;
  else
    -- The agent of a row that is deleted with its agent is gone already.
    insert into graph_changes (transaction_id, is_first, step_id, agent_id, deleted, removed)
    select own_id, begins, step, of_agent, array_agg(each.id), coalesce(array_agg(set_byte(sha256(convert_to(jsonb_build_array(each.id, each.agent_id, each.type, each.source_id, each.target_id, each.properties, encode(each.seal, 'hex'), each.unsupported_since at time zone 'UTC', each.iteration_id, each.step_id, each.created_at at time zone 'UTC', each.updated_at at time zone 'UTC')::text, 'UTF8')), 0, 2)) filter (where is_own), '{}')
    from (select old_rows.agent_id as of_agent, old_rows.* from old_rows) as each
    where exists (select from agents where agents.id = of_agent) group by of_agent;
  end if;
  return null;
end
$$;
CREATE FUNCTION note_graph_merges() RETURNS trigger
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'public', 'pg_temp'
    AS $$
declare
  own_id bigint := pg_current_xact_id()::text::bigint;
  step uuid := nullif(current_setting('vigil.step_id', true), '')::uuid;
  is_own boolean := starts_with(current_setting('application_name'), 'vigil-');
  begins boolean := not exists (select from graph_changes where transaction_id = own_id);
begin
  if tg_op = 'INSERT' then
    insert into graph_changes (transaction_id, is_first, step_id, agent_id, changed, added)
    select own_id, begins, step, of_agent, '{}', coalesce(array_agg(set_byte(sha256(convert_to(jsonb_build_array(each.id, each.agent_id, each.kept_id, each.merged_id, each.reason, each.merged_node, each.journal, each.made_at at time zone 'UTC', each.undone_at at time zone 'UTC')::text, 'UTF8')), 0, 8)) filter (where is_own), '{}')
    from (select new_rows.agent_id as of_agent, new_rows.* from new_rows) as each
    where of_agent is not null group by of_agent;
  elsif tg_op = 'UPDATE' then
    insert into graph_changes (transaction_id, is_first, step_id, agent_id, added, removed)
    select own_id, begins, step, of_agent, coalesce(array_agg(leaf) filter (where is_own and is_new), '{}'), coalesce(array_agg(leaf) filter (where is_own and not is_new), '{}')
    from (
      select true as is_new, of_agent, set_byte(sha256(convert_to(jsonb_build_array(each.id, each.agent_id, each.kept_id, each.merged_id, each.reason, each.merged_node, each.journal, each.made_at at time zone 'UTC', each.undone_at at time zone 'UTC')::text, 'UTF8')), 0, 8) as leaf from (select new_rows.agent_id as of_agent, new_rows.* from new_rows) as each
      union all
      select false, of_agent, set_byte(sha256(convert_to(jsonb_build_array(each.id, each.agent_id, each.kept_id, each.merged_id, each.reason, each.merged_node, each.journal, each.made_at at time zone 'UTC', each.undone_at at time zone 'UTC')::text, 'UTF8')), 0, 8) from (select old_rows.agent_id as of_agent, old_rows.* from old_rows) as each
    ) as each
    where of_agent is not null group by of_agent;
  else
    -- The agent of a row that is deleted with its agent is gone already.
    insert into graph_changes (transaction_id, is_first, step_id, agent_id, deleted, removed)
    select own_id, begins, step, of_agent, '{}', coalesce(array_agg(set_byte(sha256(convert_to(jsonb_build_array(each.id, each.agent_id, each.kept_id, each.merged_id, each.reason, each.merged_node, each.journal, each.made_at at time zone 'UTC', each.undone_at at time zone 'UTC')::text, 'UTF8')), 0, 8)) filter (where is_own), '{}')
    from (select old_rows.agent_id as of_agent, old_rows.* from old_rows) as each
    where exists (select from agents where agents.id = of_agent) group by of_agent;
  end if;
  return null;
end
$$;
CREATE FUNCTION note_graph_names() RETURNS trigger
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'public', 'pg_temp'
    AS $$
declare
  own_id bigint := pg_current_xact_id()::text::bigint;
  step uuid := nullif(current_setting('vigil.step_id', true), '')::uuid;
  is_own boolean := starts_with(current_setting('application_name'), 'vigil-');
  begins boolean := not exists (select from graph_changes where transaction_id = own_id);
begin
  if tg_op = 'INSERT' then
    insert into graph_changes (transaction_id, is_first, step_id, agent_id, changed, added)
    select own_id, begins, step, of_agent, '{}', coalesce(array_agg(set_byte(sha256(convert_to(jsonb_build_array(each.agent_id, each.type, each.key, each.reversed_key, each.sorted_words_key, each.name, each.node_id, each.step_id, each.created_at at time zone 'UTC')::text, 'UTF8')), 0, 5)) filter (where is_own), '{}')
    from (select new_rows.agent_id as of_agent, new_rows.* from new_rows) as each
    where of_agent is not null group by of_agent;
  elsif tg_op = 'UPDATE' then
    insert into graph_changes (transaction_id, is_first, step_id, agent_id, added, removed)
    select own_id, begins, step, of_agent, coalesce(array_agg(leaf) filter (where is_own and is_new), '{}'), coalesce(array_agg(leaf) filter (where is_own and not is_new), '{}')
    from (
      select true as is_new, of_agent, set_byte(sha256(convert_to(jsonb_build_array(each.agent_id, each.type, each.key, each.reversed_key, each.sorted_words_key, each.name, each.node_id, each.step_id, each.created_at at time zone 'UTC')::text, 'UTF8')), 0, 5) as leaf from (select new_rows.agent_id as of_agent, new_rows.* from new_rows) as each
      union all
      select false, of_agent, set_byte(sha256(convert_to(jsonb_build_array(each.agent_id, each.type, each.key, each.reversed_key, each.sorted_words_key, each.name, each.node_id, each.step_id, each.created_at at time zone 'UTC')::text, 'UTF8')), 0, 5) from (select old_rows.agent_id as of_agent, old_rows.* from old_rows) as each
    ) as each
    where of_agent is not null group by of_agent;
  else
    -- The agent of a row that is deleted with its agent is gone already.
    insert into graph_changes (transaction_id, is_first, step_id, agent_id, deleted, removed)
    select own_id, begins, step, of_agent, '{}', coalesce(array_agg(set_byte(sha256(convert_to(jsonb_build_array(each.agent_id, each.type, each.key, each.reversed_key, each.sorted_words_key, each.name, each.node_id, each.step_id, each.created_at at time zone 'UTC')::text, 'UTF8')), 0, 5)) filter (where is_own), '{}')
    from (select old_rows.agent_id as of_agent, old_rows.* from old_rows) as each
    where exists (select from agents where agents.id = of_agent) group by of_agent;
  end if;
  return null;
end
$$;
CREATE FUNCTION note_graph_node_types() RETURNS trigger
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'public', 'pg_temp'
    AS $$
declare
  own_id bigint := pg_current_xact_id()::text::bigint;
  step uuid := nullif(current_setting('vigil.step_id', true), '')::uuid;
  is_own boolean := starts_with(current_setting('application_name'), 'vigil-');
  begins boolean := not exists (select from graph_changes where transaction_id = own_id);
begin
  if tg_op = 'INSERT' then
    insert into graph_changes (transaction_id, is_first, step_id, agent_id, types, added)
    select own_id, begins, step, of_agent, array_agg(each.name), coalesce(array_agg(set_byte(sha256(convert_to(jsonb_build_array(each.agent_id, each.name, each.description, each.properties_schema, each.example_properties, each.created_by, each.justification, each.created_at at time zone 'UTC')::text, 'UTF8')), 0, 3)) filter (where is_own), '{}')
    from (select new_rows.agent_id as of_agent, new_rows.* from new_rows) as each
    where of_agent is not null group by of_agent;
  elsif tg_op = 'UPDATE' then
    insert into graph_changes (transaction_id, is_first, step_id, agent_id, types, added, removed)
    select own_id, begins, step, of_agent, array_agg(name), coalesce(array_agg(new_leaf) filter (where is_own), '{}'), coalesce(array_agg(old_leaf) filter (where is_own), '{}')
    from (
      select of_agent, name, set_byte(sha256(convert_to(jsonb_build_array(new_row.agent_id, new_row.name, new_row.description, new_row.properties_schema, new_row.example_properties, new_row.created_by, new_row.justification, new_row.created_at at time zone 'UTC')::text, 'UTF8')), 0, 3) as new_leaf, set_byte(sha256(convert_to(jsonb_build_array(old_row.agent_id, old_row.name, old_row.description, old_row.properties_schema, old_row.example_properties, old_row.created_by, old_row.justification, old_row.created_at at time zone 'UTC')::text, 'UTF8')), 0, 3) as old_leaf
      from (select new_rows.agent_id as of_agent, new_rows.* from new_rows) as new_row join old_rows as old_row using (agent_id, name)
    ) as each
    -- By the hashes: to jsonb, 1 and 1.0 are equal.
    where new_leaf <> old_leaf group by of_agent;
  else
    -- The agent of a row that is deleted with its agent is gone already.
    insert into graph_changes (transaction_id, is_first, step_id, agent_id, types, removed)
    select own_id, begins, step, of_agent, array_agg(each.name), coalesce(array_agg(set_byte(sha256(convert_to(jsonb_build_array(each.agent_id, each.name, each.description, each.properties_schema, each.example_properties, each.created_by, each.justification, each.created_at at time zone 'UTC')::text, 'UTF8')), 0, 3)) filter (where is_own), '{}')
    from (select old_rows.agent_id as of_agent, old_rows.* from old_rows) as each
    where exists (select from agents where agents.id = of_agent) group by of_agent;
  end if;
  return null;
end
$$;
CREATE FUNCTION note_graph_nodes() RETURNS trigger
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'public', 'pg_temp'
    AS $$
declare
  own_id bigint := pg_current_xact_id()::text::bigint;
  step uuid := nullif(current_setting('vigil.step_id', true), '')::uuid;
  is_own boolean := starts_with(current_setting('application_name'), 'vigil-');
  begins boolean := not exists (select from graph_changes where transaction_id = own_id);
begin
  if tg_op = 'INSERT' then
    insert into graph_changes (transaction_id, is_first, step_id, agent_id, changed, added)
    select own_id, begins, step, of_agent, array_agg(each.id), coalesce(array_agg(set_byte(sha256(convert_to(jsonb_build_array(each.id, each.agent_id, each.type, each.name, each.properties, each.rules, encode(each.seal, 'hex'), each.unsupported_since at time zone 'UTC', each.iteration_id, each.step_id, each.created_at at time zone 'UTC', each.updated_at at time zone 'UTC')::text, 'UTF8')), 0, 1)) filter (where is_own), '{}')
    from (select new_rows.agent_id as of_agent, new_rows.* from new_rows) as each
    where of_agent is not null group by of_agent;
  elsif tg_op = 'UPDATE' then
    insert into graph_changes (transaction_id, is_first, step_id, agent_id, changed, added, removed)
    select own_id, begins, step, of_agent, array_agg(id), coalesce(array_agg(new_leaf) filter (where is_own), '{}'), coalesce(array_agg(old_leaf) filter (where is_own), '{}')
    from (
      select of_agent, id, set_byte(sha256(convert_to(jsonb_build_array(new_row.id, new_row.agent_id, new_row.type, new_row.name, new_row.properties, new_row.rules, encode(new_row.seal, 'hex'), new_row.unsupported_since at time zone 'UTC', new_row.iteration_id, new_row.step_id, new_row.created_at at time zone 'UTC', new_row.updated_at at time zone 'UTC')::text, 'UTF8')), 0, 1) as new_leaf, set_byte(sha256(convert_to(jsonb_build_array(old_row.id, old_row.agent_id, old_row.type, old_row.name, old_row.properties, old_row.rules, encode(old_row.seal, 'hex'), old_row.unsupported_since at time zone 'UTC', old_row.iteration_id, old_row.step_id, old_row.created_at at time zone 'UTC', old_row.updated_at at time zone 'UTC')::text, 'UTF8')), 0, 1) as old_leaf
      from (select new_rows.agent_id as of_agent, new_rows.* from new_rows) as new_row join old_rows as old_row using (agent_id, id)
    ) as each
    -- By the hashes: to jsonb, 1 and 1.0 are equal.
    where new_leaf <> old_leaf group by of_agent;
  else
    -- The agent of a row that is deleted with its agent is gone already.
    insert into graph_changes (transaction_id, is_first, step_id, agent_id, deleted, removed)
    select own_id, begins, step, of_agent, array_agg(each.id), coalesce(array_agg(set_byte(sha256(convert_to(jsonb_build_array(each.id, each.agent_id, each.type, each.name, each.properties, each.rules, encode(each.seal, 'hex'), each.unsupported_since at time zone 'UTC', each.iteration_id, each.step_id, each.created_at at time zone 'UTC', each.updated_at at time zone 'UTC')::text, 'UTF8')), 0, 1)) filter (where is_own), '{}')
    from (select old_rows.agent_id as of_agent, old_rows.* from old_rows) as each
    where exists (select from agents where agents.id = of_agent) group by of_agent;
  end if;
  return null;
end
$$;
CREATE FUNCTION note_graph_redirects() RETURNS trigger
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'public', 'pg_temp'
    AS $$
declare
  own_id bigint := pg_current_xact_id()::text::bigint;
  step uuid := nullif(current_setting('vigil.step_id', true), '')::uuid;
  is_own boolean := starts_with(current_setting('application_name'), 'vigil-');
  begins boolean := not exists (select from graph_changes where transaction_id = own_id);
begin
  if tg_op = 'INSERT' then
    insert into graph_changes (transaction_id, is_first, step_id, agent_id, changed, added)
    select own_id, begins, step, of_agent, '{}', coalesce(array_agg(set_byte(sha256(convert_to(jsonb_build_array(each.agent_id, each.merged_id, each.kept_id, each.merge_id)::text, 'UTF8')), 0, 9)) filter (where is_own), '{}')
    from (select new_rows.agent_id as of_agent, new_rows.* from new_rows) as each
    where of_agent is not null group by of_agent;
  elsif tg_op = 'UPDATE' then
    insert into graph_changes (transaction_id, is_first, step_id, agent_id, added, removed)
    select own_id, begins, step, of_agent, coalesce(array_agg(leaf) filter (where is_own and is_new), '{}'), coalesce(array_agg(leaf) filter (where is_own and not is_new), '{}')
    from (
      select true as is_new, of_agent, set_byte(sha256(convert_to(jsonb_build_array(each.agent_id, each.merged_id, each.kept_id, each.merge_id)::text, 'UTF8')), 0, 9) as leaf from (select new_rows.agent_id as of_agent, new_rows.* from new_rows) as each
      union all
      select false, of_agent, set_byte(sha256(convert_to(jsonb_build_array(each.agent_id, each.merged_id, each.kept_id, each.merge_id)::text, 'UTF8')), 0, 9) from (select old_rows.agent_id as of_agent, old_rows.* from old_rows) as each
    ) as each
    where of_agent is not null group by of_agent;
  else
    -- The agent of a row that is deleted with its agent is gone already.
    insert into graph_changes (transaction_id, is_first, step_id, agent_id, deleted, removed)
    select own_id, begins, step, of_agent, '{}', coalesce(array_agg(set_byte(sha256(convert_to(jsonb_build_array(each.agent_id, each.merged_id, each.kept_id, each.merge_id)::text, 'UTF8')), 0, 9)) filter (where is_own), '{}')
    from (select old_rows.agent_id as of_agent, old_rows.* from old_rows) as each
    where exists (select from agents where agents.id = of_agent) group by of_agent;
  end if;
  return null;
end
$$;
CREATE FUNCTION note_retracted_sources() RETURNS trigger
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'public', 'pg_temp'
    AS $$
declare
  own_id bigint := pg_current_xact_id()::text::bigint;
  step uuid := nullif(current_setting('vigil.step_id', true), '')::uuid;
  is_own boolean := starts_with(current_setting('application_name'), 'vigil-');
  begins boolean := not exists (select from graph_changes where transaction_id = own_id);
begin
  if tg_op = 'INSERT' then
    insert into graph_changes (transaction_id, is_first, step_id, agent_id, changed, added)
    select own_id, begins, step, of_agent, '{}', coalesce(array_agg(set_byte(sha256(convert_to(jsonb_build_array(each.retraction_id, each.source_id, each.is_due, each.through)::text, 'UTF8')), 0, 11)) filter (where is_own), '{}')
    from (select (select agent_id from retractions where id = new_rows.retraction_id) as of_agent, new_rows.* from new_rows) as each
    where of_agent is not null group by of_agent;
  elsif tg_op = 'UPDATE' then
    insert into graph_changes (transaction_id, is_first, step_id, agent_id, added, removed)
    select own_id, begins, step, of_agent, coalesce(array_agg(leaf) filter (where is_own and is_new), '{}'), coalesce(array_agg(leaf) filter (where is_own and not is_new), '{}')
    from (
      select true as is_new, of_agent, set_byte(sha256(convert_to(jsonb_build_array(each.retraction_id, each.source_id, each.is_due, each.through)::text, 'UTF8')), 0, 11) as leaf from (select (select agent_id from retractions where id = new_rows.retraction_id) as of_agent, new_rows.* from new_rows) as each
      union all
      select false, of_agent, set_byte(sha256(convert_to(jsonb_build_array(each.retraction_id, each.source_id, each.is_due, each.through)::text, 'UTF8')), 0, 11) from (select (select agent_id from retractions where id = old_rows.retraction_id) as of_agent, old_rows.* from old_rows) as each
    ) as each
    where of_agent is not null group by of_agent;
  else
    -- The agent of a row that is deleted with its agent is gone already.
    insert into graph_changes (transaction_id, is_first, step_id, agent_id, deleted, removed)
    select own_id, begins, step, of_agent, '{}', coalesce(array_agg(set_byte(sha256(convert_to(jsonb_build_array(each.retraction_id, each.source_id, each.is_due, each.through)::text, 'UTF8')), 0, 11)) filter (where is_own), '{}')
    from (select (select agent_id from retractions where id = old_rows.retraction_id) as of_agent, old_rows.* from old_rows) as each
    where exists (select from agents where agents.id = of_agent) group by of_agent;
  end if;
  return null;
end
$$;
CREATE FUNCTION note_retractions() RETURNS trigger
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'public', 'pg_temp'
    AS $$
declare
  own_id bigint := pg_current_xact_id()::text::bigint;
  step uuid := nullif(current_setting('vigil.step_id', true), '')::uuid;
  is_own boolean := starts_with(current_setting('application_name'), 'vigil-');
  begins boolean := not exists (select from graph_changes where transaction_id = own_id);
begin
  if tg_op = 'INSERT' then
    insert into graph_changes (transaction_id, is_first, step_id, agent_id, changed, added)
    select own_id, begins, step, of_agent, '{}', coalesce(array_agg(set_byte(sha256(convert_to(jsonb_build_array(each.id, each.agent_id, each.url, each.source_id, each.reason, each.created_at at time zone 'UTC', each.restored_at at time zone 'UTC', each.due_at at time zone 'UTC')::text, 'UTF8')), 0, 10)) filter (where is_own), '{}')
    from (select new_rows.agent_id as of_agent, new_rows.* from new_rows) as each
    where of_agent is not null group by of_agent;
  elsif tg_op = 'UPDATE' then
    insert into graph_changes (transaction_id, is_first, step_id, agent_id, added, removed)
    select own_id, begins, step, of_agent, coalesce(array_agg(leaf) filter (where is_own and is_new), '{}'), coalesce(array_agg(leaf) filter (where is_own and not is_new), '{}')
    from (
      select true as is_new, of_agent, set_byte(sha256(convert_to(jsonb_build_array(each.id, each.agent_id, each.url, each.source_id, each.reason, each.created_at at time zone 'UTC', each.restored_at at time zone 'UTC', each.due_at at time zone 'UTC')::text, 'UTF8')), 0, 10) as leaf from (select new_rows.agent_id as of_agent, new_rows.* from new_rows) as each
      union all
      select false, of_agent, set_byte(sha256(convert_to(jsonb_build_array(each.id, each.agent_id, each.url, each.source_id, each.reason, each.created_at at time zone 'UTC', each.restored_at at time zone 'UTC', each.due_at at time zone 'UTC')::text, 'UTF8')), 0, 10) from (select old_rows.agent_id as of_agent, old_rows.* from old_rows) as each
    ) as each
    where of_agent is not null group by of_agent;
  else
    -- The agent of a row that is deleted with its agent is gone already.
    insert into graph_changes (transaction_id, is_first, step_id, agent_id, deleted, removed)
    select own_id, begins, step, of_agent, '{}', coalesce(array_agg(set_byte(sha256(convert_to(jsonb_build_array(each.id, each.agent_id, each.url, each.source_id, each.reason, each.created_at at time zone 'UTC', each.restored_at at time zone 'UTC', each.due_at at time zone 'UTC')::text, 'UTF8')), 0, 10)) filter (where is_own), '{}')
    from (select old_rows.agent_id as of_agent, old_rows.* from old_rows) as each
    where exists (select from agents where agents.id = of_agent) group by of_agent;
  end if;
  return null;
end
$$;
CREATE FUNCTION note_sources() RETURNS trigger
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'public', 'pg_temp'
    AS $$
declare
  own_id bigint := pg_current_xact_id()::text::bigint;
  step uuid := nullif(current_setting('vigil.step_id', true), '')::uuid;
  is_own boolean := starts_with(current_setting('application_name'), 'vigil-');
  begins boolean := not exists (select from graph_changes where transaction_id = own_id);
begin
  if tg_op = 'INSERT' then
    insert into graph_changes (transaction_id, is_first, step_id, agent_id, changed, added)
    select own_id, begins, step, of_agent, '{}', coalesce(array_agg(set_byte(sha256(convert_to(jsonb_build_array(each.id, each.agent_id, each.url, each.title, each.published at time zone 'UTC', each.fetched_at at time zone 'UTC', encode(each.sha256, 'hex'), each.reading, encode(each.seal, 'hex'), each.step_id, each.retracted_at at time zone 'UTC', each.retraction_reason)::text, 'UTF8')), 0, 6)) filter (where is_own), '{}')
    from (select new_rows.agent_id as of_agent, new_rows.* from new_rows) as each
    where of_agent is not null group by of_agent;
  elsif tg_op = 'UPDATE' then
    insert into graph_changes (transaction_id, is_first, step_id, agent_id, added, removed)
    select own_id, begins, step, of_agent, coalesce(array_agg(leaf) filter (where is_own and is_new), '{}'), coalesce(array_agg(leaf) filter (where is_own and not is_new), '{}')
    from (
      select true as is_new, of_agent, set_byte(sha256(convert_to(jsonb_build_array(each.id, each.agent_id, each.url, each.title, each.published at time zone 'UTC', each.fetched_at at time zone 'UTC', encode(each.sha256, 'hex'), each.reading, encode(each.seal, 'hex'), each.step_id, each.retracted_at at time zone 'UTC', each.retraction_reason)::text, 'UTF8')), 0, 6) as leaf from (select new_rows.agent_id as of_agent, new_rows.* from new_rows) as each
      union all
      select false, of_agent, set_byte(sha256(convert_to(jsonb_build_array(each.id, each.agent_id, each.url, each.title, each.published at time zone 'UTC', each.fetched_at at time zone 'UTC', encode(each.sha256, 'hex'), each.reading, encode(each.seal, 'hex'), each.step_id, each.retracted_at at time zone 'UTC', each.retraction_reason)::text, 'UTF8')), 0, 6) from (select old_rows.agent_id as of_agent, old_rows.* from old_rows) as each
    ) as each
    where of_agent is not null group by of_agent;
  else
    -- The agent of a row that is deleted with its agent is gone already.
    insert into graph_changes (transaction_id, is_first, step_id, agent_id, deleted, removed)
    select own_id, begins, step, of_agent, '{}', coalesce(array_agg(set_byte(sha256(convert_to(jsonb_build_array(each.id, each.agent_id, each.url, each.title, each.published at time zone 'UTC', each.fetched_at at time zone 'UTC', encode(each.sha256, 'hex'), each.reading, encode(each.seal, 'hex'), each.step_id, each.retracted_at at time zone 'UTC', each.retraction_reason)::text, 'UTF8')), 0, 6)) filter (where is_own), '{}')
    from (select old_rows.agent_id as of_agent, old_rows.* from old_rows) as each
    where exists (select from agents where agents.id = of_agent) group by of_agent;
  end if;
  return null;
end
$$;
CREATE FUNCTION roll_back() RETURNS boolean
    LANGUAGE plpgsql
    AS $$begin raise exception 'an unusual result' using errcode = 'VG001'; end$$;
CREATE FUNCTION sign_graph_journal(of_agent uuid, of_seq bigint, of_signature bytea) RETURNS void
    LANGUAGE sql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'public', 'pg_temp'
    AS $$
  update graph_journal set signature = of_signature
  where agent_id = of_agent and seq = of_seq and signature is null
$$;
CREATE FUNCTION write_graph_journal() RETURNS trigger
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'public', 'pg_temp'
    AS $$
begin
  perform close_graph_journal();
  return null;
end
$$;
CREATE TABLE agents (
    id uuid NOT NULL,
    owner_id uuid NOT NULL,
    name text NOT NULL,
    mission text NOT NULL,
    conversation_system_prompt text NOT NULL,
    observer_system_prompt text NOT NULL,
    knowledge_acquisition_system_prompt text NOT NULL,
    graph_construction_system_prompt text NOT NULL,
    analysis_generation_system_prompt text NOT NULL,
    advice_generation_system_prompt text NOT NULL,
    prompts_version integer DEFAULT 0 NOT NULL,
    status text DEFAULT 'ready'::text NOT NULL,
    fault text,
    configurations_ordered integer DEFAULT 0 NOT NULL,
    models jsonb DEFAULT '{}'::jsonb NOT NULL,
    interval_seconds integer NOT NULL,
    feedback_rounds integer DEFAULT 0 NOT NULL,
    active boolean DEFAULT true NOT NULL,
    next_run_at timestamp with time zone DEFAULT clock_timestamp() NOT NULL,
    run_requested_at timestamp with time zone,
    iterations_started integer DEFAULT 0 NOT NULL,
    budget_usd_per_day numeric(14,8),
    budget_calls_per_day integer,
    suspended_until timestamp with time zone,
    created_at timestamp with time zone DEFAULT clock_timestamp() NOT NULL,
    updated_at timestamp with time zone DEFAULT clock_timestamp() NOT NULL,
    advice_from_one_analysis boolean DEFAULT false NOT NULL,
    entailment_usd_per_day numeric(14,8) DEFAULT '0'::numeric NOT NULL,
    entailment_share double precision DEFAULT '0.05'::double precision NOT NULL,
    preferred_domains text[] DEFAULT '{}'::text[] NOT NULL,
    barred_domains text[] DEFAULT '{}'::text[] NOT NULL,
    max_interval_seconds integer,
    bytes_per_token double precision DEFAULT '3.2'::double precision NOT NULL,
    corpus text,
    CONSTRAINT agents_feedback_rounds_check CHECK (((feedback_rounds >= 0) AND (feedback_rounds <= 2))),
    CONSTRAINT agents_interval_seconds_check CHECK ((interval_seconds >= 1)),
    CONSTRAINT agents_status_check CHECK ((status = ANY (ARRAY['configuring'::text, 'ready'::text, 'failed'::text])))
);
CREATE TABLE api_tokens (
    id uuid NOT NULL,
    user_id uuid NOT NULL,
    name text NOT NULL,
    digest bytea NOT NULL,
    scopes jsonb NOT NULL,
    created_at timestamp with time zone DEFAULT clock_timestamp() NOT NULL,
    expires_at timestamp with time zone,
    last_used_at timestamp with time zone
);
CREATE TABLE budget_days (
    scope uuid NOT NULL,
    day date NOT NULL,
    spent_usd numeric(14,8) DEFAULT '0'::numeric NOT NULL,
    reserved_usd numeric(14,8) DEFAULT '0'::numeric NOT NULL,
    spent_calls integer DEFAULT 0 NOT NULL,
    reserved_calls integer DEFAULT 0 NOT NULL
);
CREATE TABLE calls (
    id uuid NOT NULL,
    agent_id uuid NOT NULL,
    iteration_id uuid,
    step_id uuid NOT NULL,
    interaction_id uuid NOT NULL,
    kind text NOT NULL,
    phase text NOT NULL,
    model text,
    request_hash text NOT NULL,
    request jsonb NOT NULL,
    provider_ref text,
    answer jsonb,
    input_tokens integer,
    output_tokens integer,
    cost_usd numeric(14,8),
    sent_at timestamp with time zone,
    received_chars integer,
    progressed_at timestamp with time zone,
    attempts integer DEFAULT 0 NOT NULL,
    reserved_usd numeric(14,8),
    reserved_on date,
    assumed_usd numeric(14,8) DEFAULT '0'::numeric NOT NULL,
    failures jsonb DEFAULT '[]'::jsonb NOT NULL,
    started_at timestamp with time zone DEFAULT clock_timestamp() NOT NULL,
    answered_at timestamp with time zone,
    events jsonb DEFAULT '[]'::jsonb NOT NULL,
    cached_tokens integer DEFAULT 0 NOT NULL,
    reasoning_tokens integer DEFAULT 0 NOT NULL,
    system_tokens integer DEFAULT 0 NOT NULL,
    tools_tokens integer DEFAULT 0 NOT NULL,
    context_tokens integer DEFAULT 0 NOT NULL,
    results_tokens integer DEFAULT 0 NOT NULL,
    CONSTRAINT calls_kind_check CHECK ((kind = ANY (ARRAY['llm'::text, 'search'::text])))
);
CREATE TABLE contexts (
    agent_id uuid NOT NULL,
    sha256 bytea NOT NULL,
    base_sha256 bytea,
    depth smallint NOT NULL,
    data bytea NOT NULL,
    created_at timestamp with time zone DEFAULT clock_timestamp() NOT NULL
);
CREATE TABLE conversations (
    id uuid NOT NULL,
    agent_id uuid NOT NULL,
    turns integer DEFAULT 0 NOT NULL,
    summary text DEFAULT ''::text NOT NULL,
    summarized_turns integer DEFAULT 0 NOT NULL,
    created_at timestamp with time zone DEFAULT clock_timestamp() NOT NULL
);
CREATE TABLE dead_letters (
    id uuid NOT NULL,
    service text NOT NULL,
    subject text NOT NULL,
    payload bytea NOT NULL,
    step_id uuid,
    code text NOT NULL,
    error text NOT NULL,
    attempts integer NOT NULL,
    created_at timestamp with time zone DEFAULT clock_timestamp() NOT NULL,
    stored_at timestamp with time zone DEFAULT clock_timestamp() NOT NULL,
    retry_requested_at timestamp with time zone
);
CREATE TABLE deliveries (
    id uuid NOT NULL,
    destination_id uuid NOT NULL,
    inbox_item_id uuid,
    status text DEFAULT 'pending'::text NOT NULL,
    attempts integer DEFAULT 0 NOT NULL,
    next_attempt_at timestamp with time zone DEFAULT clock_timestamp() NOT NULL,
    give_up_at timestamp with time zone NOT NULL,
    lease_owner text,
    epoch integer DEFAULT 0 NOT NULL,
    status_code integer,
    error text,
    created_at timestamp with time zone DEFAULT clock_timestamp() NOT NULL,
    ended_at timestamp with time zone,
    retry_requested_at timestamp with time zone,
    CONSTRAINT deliveries_status_check CHECK ((status = ANY (ARRAY['pending'::text, 'delivered'::text, 'failed'::text])))
);
CREATE TABLE destinations (
    id uuid NOT NULL,
    owner_id uuid NOT NULL,
    agent_id uuid,
    kind text NOT NULL,
    address text NOT NULL,
    active boolean DEFAULT true NOT NULL,
    stop_reason text,
    created_at timestamp with time zone DEFAULT clock_timestamp() NOT NULL,
    CONSTRAINT destinations_kind_check CHECK ((kind = ANY (ARRAY['webhook'::text, 'mail'::text])))
);
CREATE TABLE element_numbers (
    agent_id uuid NOT NULL,
    number integer NOT NULL,
    element_id uuid NOT NULL,
    kind text NOT NULL,
    CONSTRAINT element_numbers_element_numbers_kind_check_check CHECK ((kind = ANY (ARRAY['n'::text, 'e'::text])))
);
CREATE TABLE embedding_progress (
    agent_id uuid NOT NULL,
    model text NOT NULL,
    through_at timestamp with time zone NOT NULL,
    through_id uuid DEFAULT '00000000-0000-0000-0000-000000000000'::uuid NOT NULL
);
CREATE UNLOGGED TABLE graph_changes (
    transaction_id bigint NOT NULL,
    is_first boolean NOT NULL,
    step_id uuid,
    agent_id uuid NOT NULL,
    changed uuid[] DEFAULT '{}'::uuid[] NOT NULL,
    deleted uuid[] DEFAULT '{}'::uuid[] NOT NULL,
    types text[] DEFAULT '{}'::text[] NOT NULL,
    added bytea[] DEFAULT '{}'::bytea[] NOT NULL,
    removed bytea[] DEFAULT '{}'::bytea[] NOT NULL
);
CREATE TABLE graph_distinct_pairs (
    id uuid NOT NULL,
    agent_id uuid NOT NULL,
    one_id uuid NOT NULL,
    other_id uuid NOT NULL,
    type text NOT NULL,
    one_name text NOT NULL,
    other_name text NOT NULL,
    made_by uuid,
    made_at timestamp with time zone DEFAULT clock_timestamp() NOT NULL,
    CONSTRAINT graph_distinct_pairs_ordered_check CHECK ((one_id < other_id))
);
CREATE TABLE graph_head (
    agent_id uuid NOT NULL,
    seq bigint NOT NULL,
    hash bytea NOT NULL
);
CREATE TABLE graph_journal (
    agent_id uuid NOT NULL,
    seq bigint NOT NULL,
    step_id uuid,
    changed uuid[] NOT NULL,
    deleted uuid[] NOT NULL,
    types text[] NOT NULL,
    hash bytea NOT NULL,
    written_at timestamp with time zone NOT NULL,
    added bytea[],
    removed bytea[],
    root bytea,
    cited_root bytea,
    signature bytea,
    writer text
);
CREATE TABLE idempotency_keys (
    owner_id uuid NOT NULL,
    key text NOT NULL,
    request_hash text NOT NULL,
    status integer NOT NULL,
    body bytea,
    created_at timestamp with time zone DEFAULT clock_timestamp() NOT NULL
);
CREATE TABLE inbox_items (
    id uuid NOT NULL,
    owner_id uuid NOT NULL,
    agent_id uuid NOT NULL,
    kind text DEFAULT 'advice'::text NOT NULL,
    node_id uuid,
    title text NOT NULL,
    summary text NOT NULL,
    read_at timestamp with time zone,
    dispatched_at timestamp with time zone,
    created_at timestamp with time zone DEFAULT clock_timestamp() NOT NULL,
    outcome text,
    feedback text,
    useful boolean,
    answered_at timestamp with time zone,
    snoozed_until timestamp with time zone,
    resolved_at timestamp with time zone
);
CREATE TABLE installation_budget (
    id integer DEFAULT 1 NOT NULL,
    usd_per_day numeric(14,8),
    calls_per_day integer,
    CONSTRAINT installation_budget_one_row_check CHECK ((id = 1))
);
CREATE TABLE investigation_requests (
    id uuid NOT NULL,
    agent_id uuid NOT NULL,
    iteration_id uuid,
    iteration_number integer NOT NULL,
    step_id uuid,
    objective text NOT NULL,
    reasoning text NOT NULL,
    search_hints jsonb DEFAULT '[]'::jsonb NOT NULL,
    created_at timestamp with time zone DEFAULT clock_timestamp() NOT NULL,
    answered_at timestamp with time zone,
    answered_by uuid,
    dropped_at timestamp with time zone
);
CREATE TABLE iterations (
    id uuid NOT NULL,
    agent_id uuid NOT NULL,
    number integer NOT NULL,
    why text NOT NULL,
    status text DEFAULT 'running'::text NOT NULL,
    stage text DEFAULT 'observing'::text NOT NULL,
    observer_plan jsonb,
    errors jsonb DEFAULT '[]'::jsonb NOT NULL,
    started_at timestamp with time zone DEFAULT clock_timestamp() NOT NULL,
    deadline_at timestamp with time zone NOT NULL,
    stage_changed_at timestamp with time zone DEFAULT clock_timestamp() NOT NULL,
    ended_at timestamp with time zone,
    end_published_at timestamp with time zone,
    end_republish_count integer DEFAULT 0 NOT NULL,
    end_republished_at timestamp with time zone,
    graph_root bytea,
    CONSTRAINT iterations_stage_check CHECK ((stage = ANY (ARRAY['observing'::text, 'researching'::text, 'analyzing'::text, 'advising'::text, 'ended'::text])))
);
CREATE TABLE llm_interactions (
    id uuid NOT NULL,
    agent_id uuid NOT NULL,
    iteration_id uuid,
    step_id uuid,
    phase text NOT NULL,
    model text NOT NULL,
    system_prompt text NOT NULL,
    request jsonb NOT NULL,
    message bytea,
    context_sha256 bytea,
    created_at timestamp with time zone DEFAULT clock_timestamp() NOT NULL,
    completed_at timestamp with time zone
);
CREATE TABLE memories (
    id uuid NOT NULL,
    agent_id uuid NOT NULL,
    kind text NOT NULL,
    content text NOT NULL,
    message_id uuid,
    created_at timestamp with time zone DEFAULT clock_timestamp() NOT NULL,
    forgotten_at timestamp with time zone,
    CONSTRAINT memories_kind_check CHECK ((kind = ANY (ARRAY['wish'::text, 'fact'::text])))
);
CREATE TABLE messages (
    id uuid NOT NULL,
    conversation_id uuid NOT NULL,
    role text NOT NULL,
    turn integer,
    node_id uuid,
    content text NOT NULL,
    draft integer DEFAULT 0 NOT NULL,
    tool_uses jsonb DEFAULT '[]'::jsonb NOT NULL,
    citations jsonb DEFAULT '[]'::jsonb NOT NULL,
    completed_at timestamp with time zone,
    created_at timestamp with time zone DEFAULT clock_timestamp() NOT NULL
);
CREATE TABLE node_embeddings (
    node_id uuid NOT NULL,
    agent_id uuid NOT NULL,
    model text NOT NULL,
    text_sha256 bytea NOT NULL,
    embedding real[] NOT NULL,
    updated_at timestamp with time zone DEFAULT clock_timestamp() NOT NULL,
    CONSTRAINT node_embeddings_dimensions_check CHECK ((cardinality(embedding) = 256))
);
CREATE TABLE page_probes (
    agent_id uuid NOT NULL,
    url text NOT NULL,
    kind text NOT NULL,
    etag text,
    last_modified text,
    digest bytea,
    entries jsonb,
    changes integer DEFAULT 0 NOT NULL,
    failures integer DEFAULT 0 NOT NULL,
    error text,
    checked_at timestamp with time zone NOT NULL,
    changed_at timestamp with time zone,
    CONSTRAINT page_probes_page_probes_kind_check_check CHECK ((kind = ANY (ARRAY['page'::text, 'feed'::text])))
);
CREATE TABLE pinned_contexts (
    iteration_id uuid NOT NULL,
    kind text NOT NULL,
    round smallint NOT NULL,
    agent_id uuid NOT NULL,
    sha256 bytea NOT NULL
);
CREATE TABLE prompt_versions (
    agent_id uuid NOT NULL,
    version integer NOT NULL,
    phase text NOT NULL,
    prompt text NOT NULL,
    made_by text NOT NULL,
    created_at timestamp with time zone DEFAULT clock_timestamp() NOT NULL,
    CONSTRAINT prompt_versions_made_by_check CHECK ((made_by = ANY (ARRAY['configuration'::text, 'owner'::text]))),
    CONSTRAINT prompt_versions_phase_check CHECK ((phase = ANY (ARRAY['observer'::text, 'knowledge_acquisition'::text, 'graph_construction'::text, 'analysis_generation'::text, 'advice_generation'::text, 'conversation'::text])))
);
CREATE TABLE sessions (
    id uuid NOT NULL,
    user_id uuid NOT NULL,
    digest bytea NOT NULL,
    browser text NOT NULL,
    created_at timestamp with time zone DEFAULT clock_timestamp() NOT NULL,
    last_used_at timestamp with time zone DEFAULT clock_timestamp() NOT NULL,
    ends_at timestamp with time zone NOT NULL
);
CREATE TABLE sign_in_links (
    id uuid NOT NULL,
    user_id uuid NOT NULL,
    digest bytea NOT NULL,
    created_at timestamp with time zone DEFAULT clock_timestamp() NOT NULL,
    expires_at timestamp with time zone NOT NULL
);
CREATE TABLE steps (
    id uuid NOT NULL,
    iteration_id uuid,
    agent_id uuid NOT NULL,
    kind text NOT NULL,
    index integer NOT NULL,
    input jsonb DEFAULT '{}'::jsonb NOT NULL,
    status text NOT NULL,
    result jsonb,
    error text,
    attempts integer DEFAULT 0 NOT NULL,
    epoch integer DEFAULT 0 NOT NULL,
    lease_owner text,
    lease_until timestamp with time zone,
    retry_at timestamp with time zone,
    first_requested_at timestamp with time zone,
    requested_at timestamp with time zone,
    republish_count integer DEFAULT 0 NOT NULL,
    retry_requested_at timestamp with time zone,
    retried_epoch integer DEFAULT 0 NOT NULL,
    waiting_since timestamp with time zone,
    waits integer DEFAULT 0 NOT NULL,
    started_at timestamp with time zone,
    ended_at timestamp with time zone,
    CONSTRAINT steps_kind_check CHECK ((kind = ANY (ARRAY['observe'::text, 'query'::text, 'insight'::text, 'advise'::text, 'configure'::text, 'converse'::text]))),
    CONSTRAINT steps_status_check CHECK ((status = ANY (ARRAY['planned'::text, 'pending'::text, 'running'::text, 'completed'::text, 'failed'::text])))
);
CREATE TABLE users (
    id uuid NOT NULL,
    name text NOT NULL,
    email text,
    operator boolean DEFAULT false NOT NULL,
    disabled_at timestamp with time zone,
    signed_in_at timestamp with time zone,
    created_at timestamp with time zone DEFAULT clock_timestamp() NOT NULL
);
CREATE TABLE webhook_secrets (
    id uuid NOT NULL,
    destination_id uuid NOT NULL,
    secret text NOT NULL,
    created_at timestamp with time zone DEFAULT clock_timestamp() NOT NULL,
    expires_at timestamp with time zone
);
ALTER TABLE agents ADD CONSTRAINT agents_pkey PRIMARY KEY (id);
ALTER TABLE api_tokens ADD CONSTRAINT api_tokens_digest_key UNIQUE (digest);
ALTER TABLE api_tokens ADD CONSTRAINT api_tokens_pkey PRIMARY KEY (id);
ALTER TABLE budget_days ADD CONSTRAINT budget_days_pkey PRIMARY KEY (scope, day);
ALTER TABLE calls ADD CONSTRAINT calls_pkey PRIMARY KEY (id);
ALTER TABLE citations ADD CONSTRAINT citations_pkey PRIMARY KEY (conclusion_id, cited_id);
ALTER TABLE contexts ADD CONSTRAINT contexts_pkey PRIMARY KEY (agent_id, sha256);
ALTER TABLE conversations ADD CONSTRAINT conversations_agent_id_key UNIQUE (agent_id);
ALTER TABLE conversations ADD CONSTRAINT conversations_pkey PRIMARY KEY (id);
ALTER TABLE dead_letters ADD CONSTRAINT dead_letters_pkey PRIMARY KEY (id);
ALTER TABLE deliveries ADD CONSTRAINT deliveries_destination_id_inbox_item_id_key UNIQUE (destination_id, inbox_item_id);
ALTER TABLE deliveries ADD CONSTRAINT deliveries_pkey PRIMARY KEY (id);
ALTER TABLE destinations ADD CONSTRAINT destinations_owner_id_kind_address_agent_id_key UNIQUE NULLS NOT DISTINCT (owner_id, kind, address, agent_id);
ALTER TABLE destinations ADD CONSTRAINT destinations_pkey PRIMARY KEY (id);
ALTER TABLE doubts ADD CONSTRAINT doubts_pkey PRIMARY KEY (id);
ALTER TABLE element_numbers ADD CONSTRAINT element_numbers_agent_id_element_id_key UNIQUE (agent_id, element_id);
ALTER TABLE element_numbers ADD CONSTRAINT element_numbers_pkey PRIMARY KEY (agent_id, number);
ALTER TABLE embedding_progress ADD CONSTRAINT embedding_sweeps_pkey PRIMARY KEY (agent_id);
ALTER TABLE entailment_verdicts ADD CONSTRAINT entailment_verdicts_pkey PRIMARY KEY (evidence_id);
ALTER TABLE evidence ADD CONSTRAINT evidence_pkey PRIMARY KEY (id);
ALTER TABLE graph_distinct_pairs ADD CONSTRAINT graph_distinct_pairs_agent_id_one_id_other_id_key UNIQUE (agent_id, one_id, other_id);
ALTER TABLE graph_distinct_pairs ADD CONSTRAINT graph_distinct_pairs_pkey PRIMARY KEY (id);
ALTER TABLE graph_edge_types ADD CONSTRAINT graph_edge_types_pkey PRIMARY KEY (agent_id, name);
ALTER TABLE graph_edges ADD CONSTRAINT graph_edges_agent_id_type_source_id_target_id_key UNIQUE (agent_id, type, source_id, target_id);
ALTER TABLE graph_edges ADD CONSTRAINT graph_edges_pkey PRIMARY KEY (id);
ALTER TABLE graph_head ADD CONSTRAINT graph_head_pkey PRIMARY KEY (agent_id);
ALTER TABLE graph_journal ADD CONSTRAINT graph_journal_pkey PRIMARY KEY (agent_id, seq);
ALTER TABLE graph_merges ADD CONSTRAINT graph_merges_pkey PRIMARY KEY (id);
ALTER TABLE graph_redirects ADD CONSTRAINT graph_moves_pkey PRIMARY KEY (agent_id, merged_id);
ALTER TABLE graph_names ADD CONSTRAINT graph_names_pkey PRIMARY KEY (agent_id, type, key);
ALTER TABLE graph_node_types ADD CONSTRAINT graph_node_types_pkey PRIMARY KEY (agent_id, name);
ALTER TABLE graph_nodes ADD CONSTRAINT graph_nodes_agent_id_type_name_key UNIQUE (agent_id, type, name);
ALTER TABLE graph_nodes ADD CONSTRAINT graph_nodes_pkey PRIMARY KEY (id);
ALTER TABLE idempotency_keys ADD CONSTRAINT idempotency_keys_pkey PRIMARY KEY (owner_id, key);
ALTER TABLE inbox_items ADD CONSTRAINT inbox_items_node_id_key UNIQUE (node_id);
ALTER TABLE inbox_items ADD CONSTRAINT inbox_items_pkey PRIMARY KEY (id);
ALTER TABLE installation_budget ADD CONSTRAINT installation_budget_pkey PRIMARY KEY (id);
ALTER TABLE investigation_requests ADD CONSTRAINT investigation_requests_pkey PRIMARY KEY (id);
ALTER TABLE iterations ADD CONSTRAINT iterations_agent_id_number_key UNIQUE (agent_id, number);
ALTER TABLE iterations ADD CONSTRAINT iterations_pkey PRIMARY KEY (id);
ALTER TABLE iterations
    ADD CONSTRAINT iterations_status_check CHECK ((status = ANY (ARRAY['running'::text, 'completed'::text, 'failed'::text, 'quiet'::text]))) NOT VALID;
ALTER TABLE llm_interactions
    ADD CONSTRAINT llm_interactions_phase_check CHECK ((phase = ANY (ARRAY['observer'::text, 'knowledge_acquisition'::text, 'graph_construction'::text, 'analysis_generation'::text, 'advice_generation'::text, 'entailment_check'::text, 'conversation'::text, 'configuration'::text]))) NOT VALID;
ALTER TABLE llm_interactions ADD CONSTRAINT llm_interactions_pkey PRIMARY KEY (id);
ALTER TABLE llm_interactions ADD CONSTRAINT llm_interactions_step_id_phase_key UNIQUE (step_id, phase);
ALTER TABLE memories ADD CONSTRAINT memories_pkey PRIMARY KEY (id);
ALTER TABLE messages ADD CONSTRAINT messages_pkey PRIMARY KEY (id);
ALTER TABLE node_embeddings ADD CONSTRAINT node_embeddings_pkey PRIMARY KEY (node_id);
ALTER TABLE page_probes ADD CONSTRAINT page_probes_pkey PRIMARY KEY (agent_id, url);
ALTER TABLE pinned_contexts ADD CONSTRAINT pinned_contexts_pkey PRIMARY KEY (iteration_id, kind, round);
ALTER TABLE prompt_versions ADD CONSTRAINT prompt_versions_pkey PRIMARY KEY (agent_id, version, phase);
ALTER TABLE retracted_sources ADD CONSTRAINT retracted_sources_pkey PRIMARY KEY (retraction_id, source_id);
ALTER TABLE retractions ADD CONSTRAINT retractions_pkey PRIMARY KEY (id);
ALTER TABLE sessions ADD CONSTRAINT sessions_digest_key UNIQUE (digest);
ALTER TABLE sessions ADD CONSTRAINT sessions_pkey PRIMARY KEY (id);
ALTER TABLE sign_in_links ADD CONSTRAINT sign_in_links_digest_key UNIQUE (digest);
ALTER TABLE sign_in_links ADD CONSTRAINT sign_in_links_pkey PRIMARY KEY (id);
ALTER TABLE sources ADD CONSTRAINT sources_agent_id_url_sha256_key UNIQUE (agent_id, url, sha256);
ALTER TABLE sources ADD CONSTRAINT sources_pkey PRIMARY KEY (id);
ALTER TABLE steps ADD CONSTRAINT steps_iteration_id_kind_index_key UNIQUE (iteration_id, kind, index);
ALTER TABLE steps ADD CONSTRAINT steps_pkey PRIMARY KEY (id);
ALTER TABLE users ADD CONSTRAINT users_name_key UNIQUE (name);
ALTER TABLE users ADD CONSTRAINT users_pkey PRIMARY KEY (id);
ALTER TABLE webhook_secrets ADD CONSTRAINT webhook_secrets_pkey PRIMARY KEY (id);
CREATE INDEX agents_due_idx ON agents USING btree (next_run_at) WHERE active;
CREATE UNIQUE INDEX agents_owner_name_key ON agents USING btree (owner_id, lower(name));
CREATE INDEX agents_run_requested_idx ON agents USING btree (run_requested_at) WHERE (run_requested_at IS NOT NULL);
CREATE INDEX api_tokens_user_id_idx ON api_tokens USING btree (user_id);
CREATE INDEX calls_costs_idx ON calls USING btree (agent_id, started_at) INCLUDE (kind, phase, model, attempts, input_tokens, output_tokens, cached_tokens, reasoning_tokens, system_tokens, tools_tokens, context_tokens, results_tokens, cost_usd, assumed_usd);
CREATE INDEX calls_embedded_idx ON calls USING btree (agent_id, request_hash) WHERE (request ? 'embeds'::text);
CREATE INDEX calls_interaction_id_idx ON calls USING btree (interaction_id);
CREATE INDEX calls_iteration_id_idx ON calls USING btree (iteration_id);
CREATE INDEX calls_reserved_idx ON calls USING btree (agent_id) WHERE (reserved_on IS NOT NULL);
CREATE INDEX calls_step_id_idx ON calls USING btree (step_id);
CREATE INDEX citations_cited_id_idx ON citations USING btree (cited_id);
CREATE INDEX dead_letters_created_idx ON dead_letters USING btree (created_at);
CREATE INDEX dead_letters_kept_idx ON dead_letters USING btree (stored_at);
CREATE INDEX dead_letters_retry_idx ON dead_letters USING btree (retry_requested_at) WHERE (retry_requested_at IS NOT NULL);
CREATE INDEX dead_letters_step_id_idx ON dead_letters USING btree (step_id);
CREATE INDEX deliveries_destination_idx ON deliveries USING btree (destination_id, created_at);
CREATE INDEX deliveries_due_idx ON deliveries USING btree (next_attempt_at) WHERE (status = 'pending'::text);
CREATE INDEX deliveries_inbox_item_id_idx ON deliveries USING btree (inbox_item_id);
CREATE INDEX deliveries_retry_idx ON deliveries USING btree (retry_requested_at) WHERE (retry_requested_at IS NOT NULL);
CREATE INDEX destinations_agent_id_idx ON destinations USING btree (agent_id);
CREATE INDEX destinations_owner_idx ON destinations USING btree (owner_id, created_at);
CREATE INDEX doubts_conclusion_id_idx ON doubts USING btree (conclusion_id);
CREATE INDEX doubts_element_id_idx ON doubts USING btree (element_id);
CREATE INDEX doubts_open_idx ON doubts USING btree (conclusion_id, since) WHERE (resolved_at IS NULL);
CREATE INDEX doubts_source_id_idx ON doubts USING btree (source_id);
CREATE INDEX entailment_verdicts_agent_idx ON entailment_verdicts USING btree (agent_id, verdict);
CREATE INDEX entailment_verdicts_due_idx ON entailment_verdicts USING btree (due_at) WHERE (due_at IS NOT NULL);
CREATE INDEX evidence_agent_id_idx ON evidence USING btree (agent_id);
CREATE INDEX evidence_by_source_idx ON evidence USING btree (source_id, id);
CREATE INDEX evidence_edge_as_of_idx ON evidence USING btree (edge_id, as_of);
CREATE INDEX evidence_node_as_of_idx ON evidence USING btree (node_id, as_of);
CREATE INDEX evidence_step_id_idx ON evidence USING btree (step_id);
CREATE INDEX evidence_valid_to_idx ON evidence USING btree (agent_id, valid_to) WHERE (valid_to IS NOT NULL);
CREATE INDEX graph_changes_transaction_idx ON graph_changes USING btree (transaction_id);
CREATE INDEX graph_distinct_pairs_agent_made_idx ON graph_distinct_pairs USING btree (agent_id, made_at);
CREATE INDEX graph_distinct_pairs_other_idx ON graph_distinct_pairs USING btree (agent_id, other_id);
CREATE INDEX graph_edges_agent_type_updated_idx ON graph_edges USING btree (agent_id, type, updated_at);
CREATE INDEX graph_edges_agent_updated_idx ON graph_edges USING btree (agent_id, updated_at);
CREATE INDEX graph_edges_ends_idx ON graph_edges USING btree (source_id, target_id);
CREATE INDEX graph_edges_iteration_id_idx ON graph_edges USING btree (iteration_id);
CREATE INDEX graph_edges_source_updated_idx ON graph_edges USING btree (source_id, updated_at);
CREATE INDEX graph_edges_target_updated_idx ON graph_edges USING btree (target_id, updated_at);
CREATE INDEX graph_merges_agent_made_idx ON graph_merges USING btree (agent_id, made_at);
CREATE INDEX graph_merges_kept_id_idx ON graph_merges USING btree (kept_id);
CREATE INDEX graph_merges_merged_id_idx ON graph_merges USING btree (merged_id);
CREATE INDEX graph_moves_kept_idx ON graph_redirects USING btree (agent_id, kept_id);
CREATE INDEX graph_moves_merge_idx ON graph_redirects USING btree (merge_id);
CREATE INDEX graph_names_node_id_idx ON graph_names USING btree (node_id);
CREATE INDEX graph_names_reversed_key_idx ON graph_names USING btree (agent_id, type, reversed_key);
CREATE INDEX graph_names_sorted_words_key_idx ON graph_names USING btree (agent_id, type, sorted_words_key);
CREATE INDEX graph_nodes_agent_name_idx ON graph_nodes USING btree (agent_id, lower(name));
CREATE INDEX graph_nodes_agent_type_updated_idx ON graph_nodes USING btree (agent_id, type, updated_at);
CREATE INDEX graph_nodes_agent_updated_idx ON graph_nodes USING btree (agent_id, updated_at);
CREATE INDEX graph_nodes_iteration_id_idx ON graph_nodes USING btree (iteration_id);
CREATE INDEX graph_nodes_search_idx ON graph_nodes USING gin (agent_id, type, to_tsvector('simple'::regconfig, name), name gin_trgm_ops, jsonb_to_tsvector('simple'::regconfig, properties, '["string", "numeric"]'::jsonb)) WITH (fastupdate='on', gin_pending_list_limit='64');
CREATE INDEX idempotency_keys_created_idx ON idempotency_keys USING btree (created_at);
CREATE INDEX inbox_items_agent_id_idx ON inbox_items USING btree (agent_id);
CREATE INDEX inbox_items_answered_idx ON inbox_items USING btree (agent_id, answered_at) WHERE (answered_at IS NOT NULL);
CREATE INDEX inbox_items_owner_idx ON inbox_items USING btree (owner_id, created_at);
CREATE INDEX inbox_items_shown_idx ON inbox_items USING btree (owner_id, COALESCE(snoozed_until, created_at), id);
CREATE INDEX inbox_items_undispatched_idx ON inbox_items USING btree (created_at) WHERE (dispatched_at IS NULL);
CREATE INDEX inbox_items_unread_idx ON inbox_items USING btree (owner_id, created_at) WHERE (read_at IS NULL);
CREATE INDEX investigation_requests_agent_idx ON investigation_requests USING btree (agent_id, created_at, id);
CREATE INDEX investigation_requests_answered_by_idx ON investigation_requests USING btree (answered_by);
CREATE INDEX investigation_requests_iteration_id_idx ON investigation_requests USING btree (iteration_id);
CREATE INDEX investigation_requests_open_idx ON investigation_requests USING btree (agent_id, created_at, id) WHERE ((answered_at IS NULL) AND (dropped_at IS NULL));
CREATE INDEX investigation_requests_step_id_idx ON investigation_requests USING btree (step_id);
CREATE INDEX iterations_deadline_idx ON iterations USING btree (deadline_at) WHERE (status = 'running'::text);
CREATE UNIQUE INDEX iterations_one_running_key ON iterations USING btree (agent_id) WHERE (status = 'running'::text);
CREATE INDEX iterations_unpublished_end_idx ON iterations USING btree (ended_at) WHERE ((ended_at IS NOT NULL) AND (end_published_at IS NULL));
CREATE INDEX llm_interactions_agent_idx ON llm_interactions USING btree (agent_id, created_at);
CREATE INDEX llm_interactions_iteration_id_idx ON llm_interactions USING btree (iteration_id);
CREATE INDEX memories_active_idx ON memories USING btree (agent_id, created_at) WHERE (forgotten_at IS NULL);
CREATE INDEX memories_agent_idx ON memories USING btree (agent_id, created_at);
CREATE INDEX memories_message_id_idx ON memories USING btree (message_id);
CREATE INDEX messages_conversation_idx ON messages USING btree (conversation_id, created_at);
CREATE INDEX node_embeddings_agent_model_idx ON node_embeddings USING btree (agent_id, model);
CREATE INDEX retracted_sources_source_id_idx ON retracted_sources USING btree (source_id);
CREATE INDEX retractions_agent_idx ON retractions USING btree (agent_id, created_at);
CREATE INDEX retractions_due_idx ON retractions USING btree (due_at) WHERE (due_at IS NOT NULL);
CREATE INDEX retractions_source_id_idx ON retractions USING btree (source_id);
CREATE INDEX sessions_user_id_idx ON sessions USING btree (user_id);
CREATE INDEX sign_in_links_user_id_idx ON sign_in_links USING btree (user_id);
CREATE INDEX sources_agent_fetched_idx ON sources USING btree (agent_id, fetched_at);
CREATE INDEX steps_agent_id_idx ON steps USING btree (agent_id);
CREATE INDEX steps_open_idx ON steps USING btree (requested_at) WHERE (status = ANY (ARRAY['pending'::text, 'running'::text]));
CREATE INDEX steps_retry_idx ON steps USING btree (retry_requested_at) WHERE (retry_requested_at IS NOT NULL);
CREATE UNIQUE INDEX users_email_key ON users USING btree (lower(email));
CREATE INDEX webhook_secrets_destination_id_idx ON webhook_secrets USING btree (destination_id);
CREATE TRIGGER note_delete AFTER DELETE ON citations REFERENCING OLD TABLE AS old_rows FOR EACH STATEMENT EXECUTE FUNCTION note_citations();
CREATE TRIGGER note_delete AFTER DELETE ON doubts REFERENCING OLD TABLE AS old_rows FOR EACH STATEMENT EXECUTE FUNCTION note_doubts();
CREATE TRIGGER note_delete AFTER DELETE ON entailment_verdicts REFERENCING OLD TABLE AS old_rows FOR EACH STATEMENT EXECUTE FUNCTION note_entailment_verdicts();
CREATE TRIGGER note_delete AFTER DELETE ON evidence REFERENCING OLD TABLE AS old_rows FOR EACH STATEMENT EXECUTE FUNCTION note_evidence();
CREATE TRIGGER note_delete AFTER DELETE ON graph_edge_types REFERENCING OLD TABLE AS old_rows FOR EACH STATEMENT EXECUTE FUNCTION note_graph_edge_types();
CREATE TRIGGER note_delete AFTER DELETE ON graph_edges REFERENCING OLD TABLE AS old_rows FOR EACH STATEMENT EXECUTE FUNCTION note_graph_edges();
CREATE TRIGGER note_delete AFTER DELETE ON graph_merges REFERENCING OLD TABLE AS old_rows FOR EACH STATEMENT EXECUTE FUNCTION note_graph_merges();
CREATE TRIGGER note_delete AFTER DELETE ON graph_names REFERENCING OLD TABLE AS old_rows FOR EACH STATEMENT EXECUTE FUNCTION note_graph_names();
CREATE TRIGGER note_delete AFTER DELETE ON graph_node_types REFERENCING OLD TABLE AS old_rows FOR EACH STATEMENT EXECUTE FUNCTION note_graph_node_types();
CREATE TRIGGER note_delete AFTER DELETE ON graph_nodes REFERENCING OLD TABLE AS old_rows FOR EACH STATEMENT EXECUTE FUNCTION note_graph_nodes();
CREATE TRIGGER note_delete AFTER DELETE ON graph_redirects REFERENCING OLD TABLE AS old_rows FOR EACH STATEMENT EXECUTE FUNCTION note_graph_redirects();
CREATE TRIGGER note_delete AFTER DELETE ON retracted_sources REFERENCING OLD TABLE AS old_rows FOR EACH STATEMENT EXECUTE FUNCTION note_retracted_sources();
CREATE TRIGGER note_delete AFTER DELETE ON retractions REFERENCING OLD TABLE AS old_rows FOR EACH STATEMENT EXECUTE FUNCTION note_retractions();
CREATE TRIGGER note_delete AFTER DELETE ON sources REFERENCING OLD TABLE AS old_rows FOR EACH STATEMENT EXECUTE FUNCTION note_sources();
CREATE TRIGGER note_insert AFTER INSERT ON citations REFERENCING NEW TABLE AS new_rows FOR EACH STATEMENT EXECUTE FUNCTION note_citations();
CREATE TRIGGER note_insert AFTER INSERT ON doubts REFERENCING NEW TABLE AS new_rows FOR EACH STATEMENT EXECUTE FUNCTION note_doubts();
CREATE TRIGGER note_insert AFTER INSERT ON entailment_verdicts REFERENCING NEW TABLE AS new_rows FOR EACH STATEMENT EXECUTE FUNCTION note_entailment_verdicts();
CREATE TRIGGER note_insert AFTER INSERT ON evidence REFERENCING NEW TABLE AS new_rows FOR EACH STATEMENT EXECUTE FUNCTION note_evidence();
CREATE TRIGGER note_insert AFTER INSERT ON graph_edge_types REFERENCING NEW TABLE AS new_rows FOR EACH STATEMENT EXECUTE FUNCTION note_graph_edge_types();
CREATE TRIGGER note_insert AFTER INSERT ON graph_edges REFERENCING NEW TABLE AS new_rows FOR EACH STATEMENT EXECUTE FUNCTION note_graph_edges();
CREATE TRIGGER note_insert AFTER INSERT ON graph_merges REFERENCING NEW TABLE AS new_rows FOR EACH STATEMENT EXECUTE FUNCTION note_graph_merges();
CREATE TRIGGER note_insert AFTER INSERT ON graph_names REFERENCING NEW TABLE AS new_rows FOR EACH STATEMENT EXECUTE FUNCTION note_graph_names();
CREATE TRIGGER note_insert AFTER INSERT ON graph_node_types REFERENCING NEW TABLE AS new_rows FOR EACH STATEMENT EXECUTE FUNCTION note_graph_node_types();
CREATE TRIGGER note_insert AFTER INSERT ON graph_nodes REFERENCING NEW TABLE AS new_rows FOR EACH STATEMENT EXECUTE FUNCTION note_graph_nodes();
CREATE TRIGGER note_insert AFTER INSERT ON graph_redirects REFERENCING NEW TABLE AS new_rows FOR EACH STATEMENT EXECUTE FUNCTION note_graph_redirects();
CREATE TRIGGER note_insert AFTER INSERT ON retracted_sources REFERENCING NEW TABLE AS new_rows FOR EACH STATEMENT EXECUTE FUNCTION note_retracted_sources();
CREATE TRIGGER note_insert AFTER INSERT ON retractions REFERENCING NEW TABLE AS new_rows FOR EACH STATEMENT EXECUTE FUNCTION note_retractions();
CREATE TRIGGER note_insert AFTER INSERT ON sources REFERENCING NEW TABLE AS new_rows FOR EACH STATEMENT EXECUTE FUNCTION note_sources();
CREATE TRIGGER note_update AFTER UPDATE ON citations REFERENCING OLD TABLE AS old_rows NEW TABLE AS new_rows FOR EACH STATEMENT EXECUTE FUNCTION note_citations();
CREATE TRIGGER note_update AFTER UPDATE ON doubts REFERENCING OLD TABLE AS old_rows NEW TABLE AS new_rows FOR EACH STATEMENT EXECUTE FUNCTION note_doubts();
CREATE TRIGGER note_update AFTER UPDATE ON entailment_verdicts REFERENCING OLD TABLE AS old_rows NEW TABLE AS new_rows FOR EACH STATEMENT EXECUTE FUNCTION note_entailment_verdicts();
CREATE TRIGGER note_update AFTER UPDATE ON evidence REFERENCING OLD TABLE AS old_rows NEW TABLE AS new_rows FOR EACH STATEMENT EXECUTE FUNCTION note_evidence();
CREATE TRIGGER note_update AFTER UPDATE ON graph_edge_types REFERENCING OLD TABLE AS old_rows NEW TABLE AS new_rows FOR EACH STATEMENT EXECUTE FUNCTION note_graph_edge_types();
CREATE TRIGGER note_update AFTER UPDATE ON graph_edges REFERENCING OLD TABLE AS old_rows NEW TABLE AS new_rows FOR EACH STATEMENT EXECUTE FUNCTION note_graph_edges();
CREATE TRIGGER note_update AFTER UPDATE ON graph_merges REFERENCING OLD TABLE AS old_rows NEW TABLE AS new_rows FOR EACH STATEMENT EXECUTE FUNCTION note_graph_merges();
CREATE TRIGGER note_update AFTER UPDATE ON graph_names REFERENCING OLD TABLE AS old_rows NEW TABLE AS new_rows FOR EACH STATEMENT EXECUTE FUNCTION note_graph_names();
CREATE TRIGGER note_update AFTER UPDATE ON graph_node_types REFERENCING OLD TABLE AS old_rows NEW TABLE AS new_rows FOR EACH STATEMENT EXECUTE FUNCTION note_graph_node_types();
CREATE TRIGGER note_update AFTER UPDATE ON graph_nodes REFERENCING OLD TABLE AS old_rows NEW TABLE AS new_rows FOR EACH STATEMENT EXECUTE FUNCTION note_graph_nodes();
CREATE TRIGGER note_update AFTER UPDATE ON graph_redirects REFERENCING OLD TABLE AS old_rows NEW TABLE AS new_rows FOR EACH STATEMENT EXECUTE FUNCTION note_graph_redirects();
CREATE TRIGGER note_update AFTER UPDATE ON retracted_sources REFERENCING OLD TABLE AS old_rows NEW TABLE AS new_rows FOR EACH STATEMENT EXECUTE FUNCTION note_retracted_sources();
CREATE TRIGGER note_update AFTER UPDATE ON retractions REFERENCING OLD TABLE AS old_rows NEW TABLE AS new_rows FOR EACH STATEMENT EXECUTE FUNCTION note_retractions();
CREATE TRIGGER note_update AFTER UPDATE ON sources REFERENCING OLD TABLE AS old_rows NEW TABLE AS new_rows FOR EACH STATEMENT EXECUTE FUNCTION note_sources();
CREATE CONSTRAINT TRIGGER write_graph_journal AFTER INSERT ON graph_changes DEFERRABLE INITIALLY DEFERRED FOR EACH ROW WHEN (new.is_first) EXECUTE FUNCTION write_graph_journal();
ALTER TABLE agents ADD CONSTRAINT agents_owner_id_fkey FOREIGN KEY (owner_id) REFERENCES users(id) ON DELETE CASCADE;
ALTER TABLE api_tokens ADD CONSTRAINT api_tokens_user_id_fkey FOREIGN KEY (user_id) REFERENCES users(id) ON DELETE CASCADE;
ALTER TABLE calls ADD CONSTRAINT calls_interaction_id_fkey FOREIGN KEY (interaction_id) REFERENCES llm_interactions(id) ON DELETE CASCADE;
ALTER TABLE citations ADD CONSTRAINT citations_conclusion_id_fkey FOREIGN KEY (conclusion_id) REFERENCES graph_nodes(id) ON DELETE CASCADE;
ALTER TABLE contexts ADD CONSTRAINT contexts_agent_id_fkey FOREIGN KEY (agent_id) REFERENCES agents(id) ON DELETE CASCADE;
ALTER TABLE conversations ADD CONSTRAINT conversations_agent_id_fkey FOREIGN KEY (agent_id) REFERENCES agents(id) ON DELETE CASCADE;
ALTER TABLE dead_letters ADD CONSTRAINT dead_letters_step_id_fkey FOREIGN KEY (step_id) REFERENCES steps(id) ON DELETE CASCADE;
ALTER TABLE deliveries ADD CONSTRAINT deliveries_destination_id_fkey FOREIGN KEY (destination_id) REFERENCES destinations(id) ON DELETE CASCADE;
ALTER TABLE deliveries ADD CONSTRAINT deliveries_inbox_item_id_fkey FOREIGN KEY (inbox_item_id) REFERENCES inbox_items(id) ON DELETE CASCADE;
ALTER TABLE destinations ADD CONSTRAINT destinations_agent_id_fkey FOREIGN KEY (agent_id) REFERENCES agents(id) ON DELETE CASCADE;
ALTER TABLE destinations ADD CONSTRAINT destinations_owner_id_fkey FOREIGN KEY (owner_id) REFERENCES users(id) ON DELETE CASCADE;
ALTER TABLE doubts ADD CONSTRAINT doubts_conclusion_id_fkey FOREIGN KEY (conclusion_id) REFERENCES graph_nodes(id) ON DELETE CASCADE;
ALTER TABLE doubts ADD CONSTRAINT doubts_source_id_fkey FOREIGN KEY (source_id) REFERENCES sources(id) ON DELETE CASCADE;
ALTER TABLE element_numbers ADD CONSTRAINT element_numbers_agent_id_fkey FOREIGN KEY (agent_id) REFERENCES agents(id) ON DELETE CASCADE;
ALTER TABLE embedding_progress ADD CONSTRAINT embedding_sweeps_agent_id_fkey FOREIGN KEY (agent_id) REFERENCES agents(id) ON DELETE CASCADE;
ALTER TABLE entailment_verdicts ADD CONSTRAINT entailment_verdicts_evidence_id_fkey FOREIGN KEY (evidence_id) REFERENCES evidence(id) ON UPDATE CASCADE ON DELETE CASCADE;
ALTER TABLE evidence ADD CONSTRAINT evidence_edge_id_fkey FOREIGN KEY (edge_id) REFERENCES graph_edges(id) ON DELETE CASCADE;
ALTER TABLE evidence ADD CONSTRAINT evidence_node_id_fkey FOREIGN KEY (node_id) REFERENCES graph_nodes(id) ON DELETE CASCADE;
ALTER TABLE evidence ADD CONSTRAINT evidence_source_id_fkey FOREIGN KEY (source_id) REFERENCES sources(id) ON DELETE CASCADE;
ALTER TABLE graph_distinct_pairs ADD CONSTRAINT graph_distinct_pairs_agent_id_fkey FOREIGN KEY (agent_id) REFERENCES agents(id) ON DELETE CASCADE;
ALTER TABLE graph_distinct_pairs ADD CONSTRAINT graph_distinct_pairs_made_by_fkey FOREIGN KEY (made_by) REFERENCES users(id) ON DELETE SET NULL;
ALTER TABLE graph_edge_types ADD CONSTRAINT graph_edge_types_agent_id_fkey FOREIGN KEY (agent_id) REFERENCES agents(id) ON DELETE CASCADE;
ALTER TABLE graph_edges ADD CONSTRAINT graph_edges_agent_id_fkey FOREIGN KEY (agent_id) REFERENCES agents(id) ON DELETE CASCADE;
ALTER TABLE graph_edges ADD CONSTRAINT graph_edges_agent_id_type_fkey FOREIGN KEY (agent_id, type) REFERENCES graph_edge_types(agent_id, name);
ALTER TABLE graph_edges ADD CONSTRAINT graph_edges_source_id_fkey FOREIGN KEY (source_id) REFERENCES graph_nodes(id) ON DELETE CASCADE;
ALTER TABLE graph_edges ADD CONSTRAINT graph_edges_target_id_fkey FOREIGN KEY (target_id) REFERENCES graph_nodes(id) ON DELETE CASCADE;
ALTER TABLE graph_head ADD CONSTRAINT graph_head_agent_id_fkey FOREIGN KEY (agent_id) REFERENCES agents(id) ON DELETE CASCADE;
ALTER TABLE graph_journal ADD CONSTRAINT graph_journal_agent_id_fkey FOREIGN KEY (agent_id) REFERENCES graph_head(agent_id) ON DELETE CASCADE;
ALTER TABLE graph_merges ADD CONSTRAINT graph_merges_agent_id_fkey FOREIGN KEY (agent_id) REFERENCES agents(id) ON DELETE CASCADE;
ALTER TABLE graph_merges ADD CONSTRAINT graph_merges_made_by_fkey FOREIGN KEY (made_by) REFERENCES users(id) ON DELETE SET NULL;
ALTER TABLE graph_redirects ADD CONSTRAINT graph_moves_agent_id_fkey FOREIGN KEY (agent_id) REFERENCES agents(id) ON DELETE CASCADE;
ALTER TABLE graph_redirects ADD CONSTRAINT graph_moves_merge_id_fkey FOREIGN KEY (merge_id) REFERENCES graph_merges(id) ON DELETE CASCADE;
ALTER TABLE graph_names ADD CONSTRAINT graph_names_node_id_fkey FOREIGN KEY (node_id) REFERENCES graph_nodes(id) ON DELETE CASCADE DEFERRABLE INITIALLY DEFERRED;
ALTER TABLE graph_node_types ADD CONSTRAINT graph_node_types_agent_id_fkey FOREIGN KEY (agent_id) REFERENCES agents(id) ON DELETE CASCADE;
ALTER TABLE graph_nodes ADD CONSTRAINT graph_nodes_agent_id_fkey FOREIGN KEY (agent_id) REFERENCES agents(id) ON DELETE CASCADE;
ALTER TABLE graph_nodes ADD CONSTRAINT graph_nodes_agent_id_type_fkey FOREIGN KEY (agent_id, type) REFERENCES graph_node_types(agent_id, name);
ALTER TABLE idempotency_keys ADD CONSTRAINT idempotency_keys_owner_id_fkey FOREIGN KEY (owner_id) REFERENCES users(id) ON DELETE CASCADE;
ALTER TABLE inbox_items ADD CONSTRAINT inbox_items_agent_id_fkey FOREIGN KEY (agent_id) REFERENCES agents(id) ON DELETE CASCADE;
ALTER TABLE inbox_items ADD CONSTRAINT inbox_items_node_id_fkey FOREIGN KEY (node_id) REFERENCES graph_nodes(id) ON DELETE CASCADE;
ALTER TABLE inbox_items ADD CONSTRAINT inbox_items_owner_id_fkey FOREIGN KEY (owner_id) REFERENCES users(id) ON DELETE CASCADE;
ALTER TABLE investigation_requests ADD CONSTRAINT investigation_requests_agent_id_fkey FOREIGN KEY (agent_id) REFERENCES agents(id) ON DELETE CASCADE;
ALTER TABLE investigation_requests ADD CONSTRAINT investigation_requests_answered_by_fkey FOREIGN KEY (answered_by) REFERENCES steps(id) ON DELETE SET NULL;
ALTER TABLE investigation_requests ADD CONSTRAINT investigation_requests_iteration_id_fkey FOREIGN KEY (iteration_id) REFERENCES iterations(id) ON DELETE SET NULL;
ALTER TABLE investigation_requests ADD CONSTRAINT investigation_requests_step_id_fkey FOREIGN KEY (step_id) REFERENCES steps(id) ON DELETE SET NULL;
ALTER TABLE iterations ADD CONSTRAINT iterations_agent_id_fkey FOREIGN KEY (agent_id) REFERENCES agents(id) ON DELETE CASCADE;
ALTER TABLE llm_interactions ADD CONSTRAINT llm_interactions_step_id_fkey FOREIGN KEY (step_id) REFERENCES steps(id) ON DELETE CASCADE;
ALTER TABLE memories ADD CONSTRAINT memories_agent_id_fkey FOREIGN KEY (agent_id) REFERENCES agents(id) ON DELETE CASCADE;
ALTER TABLE memories ADD CONSTRAINT memories_message_id_fkey FOREIGN KEY (message_id) REFERENCES messages(id) ON DELETE SET NULL;
ALTER TABLE messages ADD CONSTRAINT messages_conversation_id_fkey FOREIGN KEY (conversation_id) REFERENCES conversations(id) ON DELETE CASCADE;
ALTER TABLE node_embeddings ADD CONSTRAINT node_embeddings_agent_id_fkey FOREIGN KEY (agent_id) REFERENCES agents(id) ON DELETE CASCADE;
ALTER TABLE node_embeddings ADD CONSTRAINT node_embeddings_node_id_fkey FOREIGN KEY (node_id) REFERENCES graph_nodes(id) ON DELETE CASCADE;
ALTER TABLE page_probes ADD CONSTRAINT page_probes_agent_id_fkey FOREIGN KEY (agent_id) REFERENCES agents(id) ON DELETE CASCADE;
ALTER TABLE pinned_contexts ADD CONSTRAINT pinned_contexts_iteration_id_fkey FOREIGN KEY (iteration_id) REFERENCES iterations(id) ON DELETE CASCADE;
ALTER TABLE prompt_versions ADD CONSTRAINT prompt_versions_agent_id_fkey FOREIGN KEY (agent_id) REFERENCES agents(id) ON DELETE CASCADE;
ALTER TABLE retracted_sources ADD CONSTRAINT retracted_sources_retraction_id_fkey FOREIGN KEY (retraction_id) REFERENCES retractions(id) ON DELETE CASCADE;
ALTER TABLE retracted_sources ADD CONSTRAINT retracted_sources_source_id_fkey FOREIGN KEY (source_id) REFERENCES sources(id) ON DELETE CASCADE;
ALTER TABLE retractions ADD CONSTRAINT retractions_agent_id_fkey FOREIGN KEY (agent_id) REFERENCES agents(id) ON DELETE CASCADE;
ALTER TABLE retractions ADD CONSTRAINT retractions_source_id_fkey FOREIGN KEY (source_id) REFERENCES sources(id) ON DELETE CASCADE;
ALTER TABLE sessions ADD CONSTRAINT sessions_user_id_fkey FOREIGN KEY (user_id) REFERENCES users(id) ON DELETE CASCADE;
ALTER TABLE sign_in_links ADD CONSTRAINT sign_in_links_user_id_fkey FOREIGN KEY (user_id) REFERENCES users(id) ON DELETE CASCADE;
ALTER TABLE sources ADD CONSTRAINT sources_agent_id_fkey FOREIGN KEY (agent_id) REFERENCES agents(id) ON DELETE CASCADE;
ALTER TABLE steps ADD CONSTRAINT steps_agent_id_fkey FOREIGN KEY (agent_id) REFERENCES agents(id) ON DELETE CASCADE;
ALTER TABLE steps ADD CONSTRAINT steps_iteration_id_fkey FOREIGN KEY (iteration_id) REFERENCES iterations(id) ON DELETE CASCADE;
ALTER TABLE webhook_secrets ADD CONSTRAINT webhook_secrets_destination_id_fkey FOREIGN KEY (destination_id) REFERENCES destinations(id) ON DELETE CASCADE;
