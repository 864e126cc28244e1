-- The embedded store's file: one SQLite database.
--
-- Times are microseconds since the Unix epoch, durations microseconds, digests and ids raw
-- bytes. To look around:
--
--     select lower(hex(id)), tenant, operation, subject, key, state,
--            datetime(granted_at / 1000000, 'unixepoch') from records;
--
-- Only the server writes here: a row that was changed by hand no longer matches its
-- checksum and is answered as damaged. STRICT makes SQLite refuse values of another type
-- than the column's. There are no foreign keys: side rows outlive what they tell about.

-- Known to this file as a whole; one row.
create table meta (
    one integer primary key check (one = 1),
    -- The secret that all tokens of this file are made with. Who has it can make tokens.
    token_key blob not null check (length(token_key) = 32),
    -- The latest moment that was written. The store's clock starts no earlier, so a
    -- system clock that was set back gives out no fence a second time.
    clock integer not null,
    -- Where the walk over grants stands: those up to this moment, and of this moment those
    -- up to this id, were visited.
    walked_at integer not null default 0,
    walked_id blob not null default x''
) strict;

-- One row for each business intent.
create table records (
    -- SHA-256 of the identity. The row's address: effect keys lead back to their record by
    -- a range of it, and a record is found by it alone. Rows keep SQLite's own rowid
    -- beside it, since they can hold a body of megabytes, which a WITHOUT ROWID table
    -- would drag through its inner pages.
    id blob not null primary key check (length(id) = 32),
    tenant text not null,
    operation text not null,
    subject text not null,
    key text not null,
    -- Rises with every write.
    revision integer not null,
    -- First grant.
    created_at integer not null,
    -- Newest grant.
    granted_at integer not null,
    -- As written; a lapse or an end of retention is judged at the moment of reading.
    -- Compared one by one: of a list of more than two SQLite would make a table for each write.
    state text not null check (state = 'processing' or state = 'completed'
        or state = 'pending' or state = 'failed_retryable' or state = 'failed_final'),
    correlation_id text not null,
    -- All that no statement asks for, packed: a column more costs each write, and most parts
    -- are absent in the usual row. The server's code tells how they stand in it.
    details blob not null,

    -- What is large stands last, so that lists and removal read a row without it.
    instruction blob not null,
    -- First 16 bytes of SHA-256 over headers and body; null where neither is kept.
    content_checksum blob check (length(content_checksum) = 16),
    -- First 16 bytes of SHA-256 over all columns before it.
    checksum blob not null check (length(checksum) = 16),
    -- Zeros, for the outcome to take their place: a row that grew would often move half of
    -- its page to another one.
    room blob,
    -- For each header: length of the name (4 bytes, big-endian), name, length of the value
    -- (4 bytes), value.
    outcome_headers blob,
    -- Null and empty differ.
    outcome_body blob
) strict;

-- Visiting each grant once, finding what is to be removed, and listing, newest first. A
-- report changes neither column, and is written without them, so that it does not pay.
create index records_granted on records (granted_at, id);

-- Records that are not closed, as far as somebody has to look at them later. Filled by the
-- walk and by what leads to PENDING; a grant that completes in time is never here.
create table worklist (
    record blob not null primary key check (length(record) = 32),
    tenant text not null,
    operation text not null,
    -- Who is to look: the server itself, or whoever finds out.
    kind text not null check (kind in ('look', 'find_out')),
    due integer not null,
    -- Since when and why the outcome is uncertain.
    since integer check ((since is null) = (kind = 'look')),
    reason text check ((reason is null) = (kind = 'look')),
    -- The call that took the claim which runs, and until when.
    claim_id blob check (claim_id is null or (length(claim_id) = 16 and kind = 'find_out')),
    claimed_until integer check ((claimed_until is null) = (claim_id is null))
) strict, without rowid;

-- What the server is to look at, the longest due first.
create index worklist_look on worklist (due) where kind = 'look';

-- What a tenant is to find out about, the longest due first.
create index worklist_find_out on worklist (tenant, due, record) where kind = 'find_out';

-- Answering a call for claims again.
create index worklist_claim on worklist (tenant, claim_id) where claim_id is not null;

-- Where closed records stand whose headers and body, or whole memory, end: all that were
-- granted in a window of time, due when the last one of them ends. Coarse, so that there
-- are few rows for many records.
create table removal (
    due integer not null,
    granted_from integer not null,
    granted_before integer not null check (granted_before > granted_from),
    -- Where a removal that was begun goes on.
    walked_at integer not null,
    walked_id blob not null,
    primary key (due, granted_from, granted_before)
) strict, without rowid;

-- Resource ids and provider references, for people who know nothing else. Also those that
-- newer ones replaced.
create table reference (
    tenant text not null,
    kind text not null check (kind in ('resource', 'provider')),
    reference text not null,
    record blob not null,
    primary key (tenant, kind, reference, record)
) strict, without rowid;

-- Removing those of one record.
create index reference_record on reference (record);

-- Side rows: what is to be seen later, but rules nothing. `seq` gives their order.

-- Reports that were refused: possibly a second effect.
create table evidence (
    seq integer primary key,
    record blob not null,
    attempt integer not null,
    reported text not null,
    code text not null,
    digest blob not null,
    at integer not null,
    -- A caller that repeats itself leaves one row. Its leading column also serves the
    -- count that bounds the rows of a record, and reading them.
    unique (record, attempt, digest)
) strict;

-- Attempts that another one followed.
create table history (
    seq integer primary key,
    record blob not null,
    attempt integer not null,
    attempt_id blob not null,
    owner text not null,
    granted_at integer not null,
    ended_at integer not null,
    ending text not null,
    code text not null,
    provider_reference text not null
) strict;

-- Reading the history of one record.
create index history_record on history (record);

-- References and instructions that newer ones replaced.
create table replaced (
    seq integer primary key,
    record blob not null,
    attempt integer not null,
    provider_reference text not null,
    instruction blob not null,
    at integer not null
) strict;

-- As for history.
create index replaced_record on replaced (record);

-- Repeats with another payload, counted for each fingerprint. Callers cause them, so a
-- record has a bounded number of them.
create table mismatch (
    seq integer primary key,
    record blob not null,
    scheme text not null check (scheme in ('raw', 'json')),
    rule text not null,
    digest blob not null check (length(digest) = 32),
    count integer not null,
    first_at integer not null,
    last_at integer not null,
    -- As for evidence.
    unique (record, scheme, rule, digest)
) strict;

-- What people did, and what people want to see: who, when, what, why.
create table audit (
    seq integer primary key,
    tenant text not null,
    operation text not null,
    -- Null where a policy was written.
    record blob,
    attempt integer check ((attempt is null) = (record is null)),
    action text not null,
    -- By what right.
    authority text not null check (authority in ('caller', 'claim', 'operator')),
    actor text not null,
    -- Empty where it was erased.
    evidence text not null,
    -- The document that was written.
    policy text check ((policy is null) = (record is not null)),
    at integer not null
) strict;

-- As for history; changes of policies need not be found by record.
create index audit_record on audit (record) where record is not null;

-- Pages of a tenant's rows, newest first.
create index audit_tenant on audit (tenant, at, seq);

-- Settings; an empty operation is the tenant's default.
create table policies (
    tenant text not null,
    operation text not null,
    -- JSON, durations in milliseconds.
    document text not null,
    -- Changes with every write.
    etag text not null,
    updated_at integer not null,
    checksum blob not null check (length(checksum) = 16),
    primary key (tenant, operation)
) strict, without rowid;
