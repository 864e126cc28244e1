-- Records, their side rows, policies.
--
-- Absent values are null, and in the hot table so is what is as usual or follows from other
-- columns: the usual row is narrow. Ids are the first 16 bytes of record ids; the name beside
-- them says whose they are. Times are the database's own clock. Texts of a name compare by
-- bytes. No foreign keys and no sequences: every row is addressed by its record's id.

-- The hot table. Its updates stay HOT: only columns that reports never change are indexed,
-- and pages keep room for the next version of their rows. What else is to be found
-- quickly is filed in tables of its own.
create table reprise.record (
    -- Fixed widths first, the widest in front, so that rows carry no padding.
    revision bigint not null,           -- rises with every write; a write needs the one it was decided on
    granted_at timestamptz not null,
    recorded_at timestamptz,            -- of the newest outcome; null while there is none
    result_until timestamptz,           -- headers and body are replayed until then; null: recorded_at and 72 hours
    memory_until timestamptz,           -- the record is remembered until then; null: recorded_at and 840 hours
    created_at timestamptz,             -- null: granted_at
    updated_at timestamptz,             -- null: recorded_at, and without one granted_at
    lease_end timestamptz,              -- null: granted_at and the length of the lease
    lease_us bigint,                    -- the attempt's own length of lease; null: 30 seconds
    fence bigint,                       -- null: granted_at in microseconds since 1970
    repeat_until timestamptz,           -- last moment for a grant; null without take-over
    generation integer,                 -- counts effect keys; null: 1
    attempt integer,                    -- number of the newest attempt; null: 1
    state smallint not null,            -- 1 processing, 2 pending, 3 completed, 4 failed retryable, 5 failed final
    report_kind smallint,               -- 1 completed, 2 failed retryable, 3 failed final
    on_lapse smallint,                  -- null: 1 pending; 2 take over unless sent, 3 take over
    why smallint,                       -- null: 1 first; 2 after retryable failure, 3 after lapsed lease, 4 after resolution
    fingerprint_scheme smallint,        -- null: 1 raw; 2 json
    used boolean,                       -- null: false, as in the next four
    sent boolean,
    key_spent boolean,
    unaccounted boolean,
    contradicted boolean,
    id uuid primary key,                -- first half of the SHA-256 of the length-prefixed name
    attempt_id bytea not null,
    fingerprint_digest bytea not null,
    tenant text collate "C" not null,
    operation text collate "C" not null,
    subject text collate "C",
    key text collate "C" not null,
    fingerprint_rule text,
    owner text,
    correlation_id text,
    provider_reference text,
    resource_id text,
    instruction bytea,
    report_digest bytea,
    code text,                          -- of the newest outcome, as are the next seven
    content_reference text,
    headers bytea,                      -- for each: length and bytes of name and value; lengths of 4 bytes
    body bytea,
    body_size bigint,                   -- with body_sha256: of a body that is not kept
    body_sha256 bytea,
    checksum bytea,                     -- null: report_digest guards the outcome
    given_back smallint,                -- 1 by the server, 2 by the client
    earlier_ids bytea,                  -- 16 bytes each, newest first
    pending_digests bytea,              -- 32 bytes each, newest last
    previous_attempt integer,           -- how the attempt before ended
    previous_fence bigint,
    previous_report_kind smallint,
    previous_report_digest bytea,
    previous_pending_digests bytea,
    pending_reason smallint,            -- 1 reported, 2 lease expired, 3 after sending, 4 earlier attempt unknown, 5 contradictory
    pending_detail text,
    pending_since timestamptz,
    next_check timestamptz,
    resolution_attempt integer,
    resolution_digest bytea,
    resolution_content bytea,
    resolution_core bytea,
    claim_id bytea,                     -- the newest claim on the newest attempt; none in the usual row
    claim_fence bigint,
    claim_taken_at timestamptz,
    claim_lease_end timestamptz,
    claim_lease_us bigint,
    claim_owner text,
    claim_over boolean
) with (
    -- A third of a page for rows as they are inserted: the reports of a batch of grants often
    -- come in one batch too, so that a page must hold both versions of all its rows at once.
    -- Measured with results of 70 bytes and 128 callers, without vacuum: at 34 and 36 all
    -- updates stay HOT, at 38 99 %, at 45 94 %, at 55 87 %, with 606, 579, 564, 512 and 475
    -- bytes of table a record, indexes not counted; what leaves its page has entries in those
    -- once more. Larger results leave their page more often. Where a body makes a row larger
    -- than 2 kB, it goes elsewhere.
    fillfactor = 36,
    toast_tuple_target = 512,
    -- Dead versions go when their page is next visited; vacuum is for the rest.
    autovacuum_vacuum_scale_factor = 0.05
);

-- Only what callers may make long is stored apart: everything else belongs to each version.
alter table reprise.record
    alter column attempt_id set storage main,
    alter column fingerprint_digest set storage main,
    alter column tenant set storage main,
    alter column operation set storage main,
    alter column subject set storage main,
    alter column key set storage main,
    alter column fingerprint_rule set storage main,
    alter column owner set storage main,
    alter column correlation_id set storage main,
    alter column provider_reference set storage main,
    alter column resource_id set storage main,
    alter column report_digest set storage main,
    alter column code set storage main,
    alter column content_reference set storage main,
    alter column body_sha256 set storage main,
    alter column checksum set storage main,
    alter column earlier_ids set storage main,
    alter column pending_digests set storage main,
    alter column previous_report_digest set storage main,
    alter column previous_pending_digests set storage main,
    alter column pending_detail set storage main,
    alter column resolution_digest set storage main,
    alter column resolution_content set storage main,
    alter column resolution_core set storage main,
    alter column claim_id set storage main,
    alter column claim_owner set storage main;

-- Whoever walks the table after the fact walks it by grant, each grant once. No report
-- changes the column. Grants of one batch have one moment and lie in one entry: with the id
-- beside it the index would be several times as large, and the few of one moment are sorted
-- quickly.
create index record_granted_at on reprise.record (granted_at);

-- How far that walk has come. In a table of its own, so that moving on costs the hot table
-- nothing.
create table reprise.walk (
    one boolean primary key default true check (one), -- there is only one
    granted_at timestamptz not null,    -- all grants up to this moment and id were visited
    id uuid not null
);
insert into reprise.walk (granted_at, id)
    values ('epoch', '00000000-0000-0000-0000-000000000000');

-- What is open. Filled after the fact, so that the usual life never touches it. A table of
-- its own, since when an entry is due changes, and an index over that would end HOT updates
-- of the record.
create table reprise.worklist (
    id uuid primary key,                -- of the record
    tenant text collate "C" not null,
    operation text collate "C" not null,
    kind smallint not null,             -- 1 the service itself looks at the record, 2 somebody has to find out
    due timestamptz not null,
    since timestamptz,                  -- kind 2: since when it is not known
    reason smallint,                    -- kind 2: as record.pending_reason
    claim_id bytea,                     -- kind 2: who is at it
    claimed_until timestamptz
);
-- For the service: what is due, the longest due first.
create index worklist_look on reprise.worklist (due) where kind = 1;
-- For those who find out: a tenant's entries in order, of all operations or of one.
create index worklist_find_out on reprise.worklist (tenant, due, id) where kind = 2;
create index worklist_find_out_operation on reprise.worklist (tenant, operation, due, id)
    where kind = 2;
-- A call for claims that is repeated is answered the same ones.
create index worklist_claim on reprise.worklist (claim_id) where claim_id is not null;

-- Records by what providers and support people call them. Narrow, filed in bulk. References
-- that were replaced stay until the record goes.
create table reprise.reference (
    id uuid not null,                   -- of the record
    tenant text collate "C" not null,
    kind smallint not null,             -- 1 resource id, 2 provider reference
    reference text collate "C" not null,
    primary key (id, kind, reference)   -- files each once; goes with its record
);
create index reference_of on reprise.reference (tenant, kind, reference);

-- When which grants are to be looked through for what has come to its end. Coarse, so that
-- it stays small: an entry stands for all records granted in a stretch of time that end in
-- the same stretch of time.
create table reprise.removal (
    due timestamptz not null,
    granted_from timestamptz not null,
    granted_to timestamptz not null,    -- not included
    position_at timestamptz,            -- how far it was looked through; null at the beginning
    position_id uuid,
    taken_until timestamptz,            -- a server is at it; free again then
    primary key (due, granted_from, granted_to) -- in order of due
);

-- Reports that were refused: possibly a second effect. One row for each report, so that
-- callers cannot fill the table by repeating.
create table reprise.evidence (
    id uuid not null,                   -- of the record
    attempt integer not null,
    digest bytea not null,
    reported smallint not null,         -- 1 completed, 2 failed retryable, 3 failed final, 4 pending
    code text,
    at timestamptz not null,
    written_at timestamptz not null default clock_timestamp(), -- orders rows of one moment
    primary key (id, attempt, digest)
);

-- Attempts that another one followed.
create table reprise.history (
    id uuid not null,
    attempt integer not null,
    attempt_id bytea not null,
    owner text,
    granted_at timestamptz not null,
    ended_at timestamptz not null,
    ending smallint not null,           -- 1 lapsed, 2 failed retryable, 3 given back, 4 resolved
    code text,
    provider_reference text,
    written_at timestamptz not null default clock_timestamp()
);
create index history_id on reprise.history (id);

-- References and instructions that newer ones replaced.
create table reprise.replaced (
    id uuid not null,
    attempt integer not null,
    provider_reference text,
    instruction bytea,
    at timestamptz not null,
    written_at timestamptz not null default clock_timestamp()
);
create index replaced_id on reprise.replaced (id);

-- Repeats with another payload: one row for each fingerprint.
create table reprise.mismatch (
    id uuid not null,                   -- of the record
    slot smallint not null check (slot between 1 and 8), -- keeps callers from filling the table
    scheme smallint not null,
    rule text collate "C" not null,
    digest bytea not null,
    count bigint not null,
    first_at timestamptz not null,
    last_at timestamptz not null,
    primary key (id, slot),
    unique (id, scheme, rule, digest)   -- a fingerprint is counted in one place
);

-- What people want to see: who, when, what, why.
create table reprise.audit (
    tenant text collate "C" not null,
    operation text collate "C",
    id uuid,                            -- of the record; null for what concerns a policy
    id_end bytea,                       -- second half of the record id: the record may be gone
    attempt integer,
    action smallint not null,           -- 1 taken over, 2 contradicted, 3 contradicts resolution, resolved as:
                                        -- 4 applied, 5 not applied, 6 take over, 7 failed, 8 still unknown;
                                        -- 9 contradicts report, 10 forgotten; 64 policy written
    authority smallint not null,        -- 1 a caller's, 2 a claim, 3 an operator's
    actor text,
    evidence text,
    at timestamptz not null,
    written_at timestamptz not null default clock_timestamp(),
    -- Tells rows of one moment apart, in the order in which they were written.
    entry uuid not null default (
        lpad(to_hex((extract(epoch from clock_timestamp()) * 1000000)::bigint), 16, '0')
        || right(gen_random_uuid()::text, 12) || '0000')::uuid
);
-- The story of one record; erasing.
create index audit_id on reprise.audit (id) where id is not null;
-- A tenant's rows, newest first, page by page.
create index audit_tenant_at on reprise.audit (tenant, at desc, entry desc);
-- What is too old, of whomever.
create index audit_at on reprise.audit (at);

-- Settings of a (tenant, operation); an empty operation is the tenant's default.
create table reprise.policy (
    tenant text collate "C" not null,
    operation text collate "C" not null,
    document text not null,             -- JSON as it was written
    etag text collate "C" not null,
    updated_at timestamptz not null,
    primary key (tenant, operation)
);

-- What all servers of this database share.
create table reprise.meta (
    name text collate "C" primary key,  -- token_key: 32 random bytes
    value bytea not null
);
