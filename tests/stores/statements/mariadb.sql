-- SessionSql.find_queue
SELECT q.number, q.name, q.created_at, q.visibility_ms, q.retention_ms, q.delay_ms, q.dedup, q.ledger,
q.max_receives, (SELECT name FROM queue AS d WHERE d.number = q.dead_letter_queue),
q.backoff_first_ms, q.backoff_most_ms,
q.grouped, q.dedup_window_ms, q.dedup_scope, q.labels, q.modified_at,
q.paused_at FROM queue AS q WHERE q.name = %s AND q.deleted_at IS NULL;

-- SessionSql.queue_name
SELECT name FROM queue WHERE number = %s AND deleted_at IS NULL;

-- SessionSql.lock_queue
SELECT number FROM queue WHERE number = %s FOR UPDATE;

-- SessionSql.due
SELECT seq FROM message FORCE INDEX (message_ready) WHERE queue = %s AND ready_at > %s AND ready_at <= %s
ORDER BY ready_at LIMIT %s FOR UPDATE SKIP LOCKED;

-- SessionSql.due_with_claims
SELECT seq, ready_at, receives, receives > 0 AND claim >= 0 FROM message FORCE INDEX (message_ready) WHERE queue = %s AND ready_at > %s AND ready_at <= %s
ORDER BY ready_at LIMIT %s FOR UPDATE SKIP LOCKED;

-- SessionSql.back_off
UPDATE message SET ready_at = ready_at + %s, claim = CASE claim WHEN 0 THEN -1 ELSE -abs(claim) END WHERE seq IN %s;

-- SessionSql.lock_ready
SELECT seq FROM message WHERE seq IN %s AND ready_at = 0 ORDER BY seq FOR UPDATE;

-- SessionSql.make_ready
UPDATE message SET ready_at = 0 WHERE seq IN %s;

-- SessionSql.put_off
UPDATE message SET ready_at = %s, claim = CASE claim WHEN 0 THEN -1 ELSE -abs(claim) END WHERE seq IN %s;

-- SessionSql.record.between
INSERT INTO ledger (queue, seq, sent_at, first_claimed_at, last_claimed_at, finished_at,
                    receives, outcome, size, body_hash, content_type, body)
SELECT m.queue, m.seq, m.sent_at, m.first_claimed_at, m.last_claimed_at, %s,
       m.receives, %s, length(m.body), m.body_hash, m.content_type,
       CASE q.ledger WHEN 2 THEN m.body END FROM message AS m STRAIGHT_JOIN queue AS q FORCE INDEX (PRIMARY) ON q.number = m.queue + 0 WHERE q.ledger <> 0 AND seq BETWEEN %s AND %s ORDER BY m.seq;

-- SessionSql.record.among
INSERT INTO ledger (queue, seq, sent_at, first_claimed_at, last_claimed_at, finished_at,
                    receives, outcome, size, body_hash, content_type, body)
SELECT m.queue, m.seq, m.sent_at, m.first_claimed_at, m.last_claimed_at, %s,
       m.receives, %s, length(m.body), m.body_hash, m.content_type,
       CASE q.ledger WHEN 2 THEN m.body END FROM message AS m STRAIGHT_JOIN queue AS q FORCE INDEX (PRIMARY) ON q.number = m.queue + 0 WHERE q.ledger <> 0 AND seq IN %s ORDER BY m.seq;

-- SessionSql.delete.between
DELETE FROM message WHERE seq BETWEEN %s AND %s;

-- SessionSql.delete.among
DELETE FROM message WHERE seq IN %s;

-- QueueSql.last_number
SELECT coalesce(max(number), 0) FROM queue;

-- QueueSql.create
INSERT INTO queue (number, name, created_at, visibility_ms, retention_ms, delay_ms, dedup, ledger,
                   max_receives, dead_letter_queue, backoff_first_ms, backoff_most_ms,
                   dedup_window_ms, dedup_scope, labels, grouped, modified_at)
VALUES (%s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s);

-- QueueSql.update
UPDATE queue SET visibility_ms = %s, retention_ms = %s, delay_ms = %s, dedup = %s, ledger = %s,
                 max_receives = %s, dead_letter_queue = %s, backoff_first_ms = %s, backoff_most_ms = %s,
                 dedup_window_ms = %s, dedup_scope = %s, labels = %s, modified_at = %s
WHERE number = %s;

-- QueueSql.pause
UPDATE queue SET paused_at = %s WHERE number = %s;

-- QueueSql.lower_retention
UPDATE queue SET kept_ms = CASE WHEN kept_ms > %s THEN kept_ms ELSE %s END, lowered_through = %s
WHERE number = %s;

-- QueueSql.delete
UPDATE queue SET deleted_at = %s, due_at = 0 WHERE number = %s;

-- QueueSql.end_redrives
UPDATE queue SET max_receives = NULL, dead_letter_queue = NULL WHERE dead_letter_queue = %s;

-- QueueSql.end_shipments
UPDATE shipment SET due_at = 0 WHERE queue = %s;

-- QueueSql.end_leases
UPDATE lease SET until = 0 WHERE queue = %s;

-- QueueSql.page
SELECT q.number, q.name, q.created_at, q.visibility_ms, q.retention_ms, q.delay_ms, q.dedup, q.ledger,
q.max_receives, (SELECT name FROM queue AS d WHERE d.number = q.dead_letter_queue),
q.backoff_first_ms, q.backoff_most_ms,
q.grouped, q.dedup_window_ms, q.dedup_scope, q.labels, q.modified_at,
q.paused_at FROM queue AS q WHERE q.deleted_at IS NULL ORDER BY q.number LIMIT %s OFFSET %s;

-- QueueSql.count
SELECT count(*) FROM queue WHERE deleted_at IS NULL;

-- QueueSql.by_name
SELECT q.number, q.name, q.created_at, q.visibility_ms, q.retention_ms, q.delay_ms, q.dedup, q.ledger,
q.max_receives, (SELECT name FROM queue AS d WHERE d.number = q.dead_letter_queue),
q.backoff_first_ms, q.backoff_most_ms,
q.grouped, q.dedup_window_ms, q.dedup_scope, q.labels, q.modified_at,
q.paused_at FROM queue AS q FORCE INDEX (queue_by_any_name)
WHERE q.deleted_at IS NULL AND q.name >= %s AND q.name > %s AND q.name < %s
ORDER BY q.name LIMIT %s;

-- QueueSql.sources
SELECT q.number, q.name, q.created_at, q.visibility_ms, q.retention_ms, q.delay_ms, q.dedup, q.ledger,
q.max_receives, (SELECT name FROM queue AS d WHERE d.number = q.dead_letter_queue),
q.backoff_first_ms, q.backoff_most_ms,
q.grouped, q.dedup_window_ms, q.dedup_scope, q.labels, q.modified_at,
q.paused_at FROM queue AS q
WHERE q.dead_letter_queue = %s AND q.deleted_at IS NULL AND q.name > %s ORDER BY q.name LIMIT %s;

-- SendSql.remember
INSERT INTO sending (queue, send_key, digest, messages, stored, sent_at)
VALUES (%s, %s, %s, %s, %s, %s) ;

-- SendSql.correct
UPDATE sending SET stored = %s WHERE queue = %s AND send_key = %s;

-- SendSql.recall
SELECT digest, messages, stored, sent_at FROM sending WHERE queue = %s AND send_key = %s FOR UPDATE;

-- SendSql.forget
DELETE FROM sending WHERE queue = %s AND send_key = %s;

-- SendSql.old
SELECT id FROM sending WHERE sent_at < %s ORDER BY sent_at LIMIT %s;

-- SendSql.forget_old
DELETE FROM sending WHERE id IN %s;

-- SendSql.see
INSERT INTO seen (queue, dedup_key, seq, sent_at, until) VALUES (%s, %s, %s, %s, %s) ;

-- SendSql.see_again
UPDATE seen SET seq = %s, sent_at = %s, until = %s WHERE queue = %s AND dedup_key = %s;

-- SendSql.seen
SELECT seq, sent_at,
       CASE WHEN seq > (SELECT forgotten_through FROM queue WHERE number = %s) THEN until ELSE 0 END
FROM seen WHERE queue = %s AND dedup_key = %s FOR UPDATE;

-- SendSql.forget_seen
UPDATE queue SET forgotten_through = %s WHERE number = %s AND forgotten_through < %s;

-- SendSql.unseen
SELECT id FROM seen WHERE until <= %s ORDER BY until LIMIT %s;

-- SendSql.forget_unseen
DELETE FROM seen WHERE id IN %s;

-- SendSql.known
SELECT seq FROM message WHERE seq IN %s UNION SELECT seq FROM ledger WHERE seq IN %s;

-- TwinSql.with_key
SELECT seq, sent_at FROM message WHERE queue = %s AND dedup_key = %s AND (
    receives > 0 OR seq > COALESCE((SELECT through FROM collapse WHERE queue = %s AND dedup_key = %s), 0))
ORDER BY seq;

-- TwinSql.drop_key
UPDATE message SET dedup_key = NULL WHERE seq = %s;

-- TwinSql.keys
SELECT seq, dedup_key, body_hash FROM message WHERE seq IN %s ORDER BY seq;

-- TwinSql.own_keys
SELECT seq, dedup_key, body_hash FROM message WHERE seq IN %s AND dedup_key IS NOT NULL ORDER BY seq;

-- TwinSql.set_key
UPDATE message SET dedup_key = %s WHERE seq = %s;

-- TwinSql.seen.between
SELECT seq, dedup_key, receives, NULL FROM message WHERE seq BETWEEN %s AND %s ORDER BY seq;

-- TwinSql.seen.among
SELECT seq, dedup_key, receives, NULL FROM message WHERE seq IN %s ORDER BY seq;

-- TwinSql.seen_with_notes
SELECT m.seq, m.dedup_key, m.receives, c.through FROM message AS m
LEFT JOIN collapse AS c ON c.queue = m.queue AND c.dedup_key = m.dedup_key
WHERE m.seq IN %s ORDER BY m.seq;

-- TwinSql.behind
SELECT t.seq FROM message AS m
JOIN message AS t FORCE INDEX (message_dedup) ON t.queue = m.queue AND t.dedup_key = m.dedup_key AND t.seq > m.seq
WHERE m.seq IN %s AND t.receives < 1 AND +t.ready_at < 1 LIMIT %s;

-- TwinSql.note
INSERT INTO collapse (queue, dedup_key, through) VALUES (%s, %s, %s) ;

-- TwinSql.note_again
UPDATE collapse SET through = %s WHERE queue = %s AND dedup_key = %s;

-- TwinSql.noted
SELECT dedup_key, through FROM collapse WHERE queue = %s ORDER BY dedup_key LIMIT %s;

-- TwinSql.left
SELECT t.seq FROM message AS t FORCE INDEX (message_dedup) WHERE t.queue = %s AND t.dedup_key = %s AND t.seq <= %s AND t.receives = 0
AND +t.ready_at = 0 LIMIT %s;

-- TwinSql.done
DELETE FROM collapse WHERE queue = %s AND dedup_key = %s;

-- TwinSql.queues
SELECT DISTINCT queue FROM collapse ORDER BY queue LIMIT %s;

-- TwinSql.spare
UPDATE message SET dedup_key = NULL WHERE seq IN %s AND EXISTS (
    SELECT 1 FROM collapse AS c
    WHERE c.queue = message.queue AND c.dedup_key = message.dedup_key AND c.through >= message.seq);

-- LineSql.first
SELECT seq, ready_at, sent_at, receives FROM message FORCE INDEX (message_group) WHERE queue = %s AND grp = %s ORDER BY seq LIMIT 1;

-- LineSql.groups
SELECT DISTINCT grp FROM message WHERE seq IN %s AND grp IS NOT NULL;

-- LineSql.stand_behind
UPDATE message SET ready_at = 253402300800000 WHERE seq IN %s AND grp IS NOT NULL;

-- LineSql.return_behind
UPDATE message SET ready_at = 253402300800000 WHERE seq IN %s AND grp IS NOT NULL AND ready_at = 0;

-- LineSql.step_forward
UPDATE message SET ready_at = %s WHERE seq IN %s;

-- LineSql.following
SELECT seq, ready_at, sent_at, receives FROM message FORCE INDEX (message_group) WHERE queue = %s AND grp = %s AND seq > %s
ORDER BY seq LIMIT %s;

-- LineSql.behind
SELECT seq, CASE WHEN length(body) <= %s THEN body END, content_type, attributes, sent_at, ready_at, receives, abs(claim) AS claim, deadline_at, came_from, grp, first_claimed_at, length(body) + coalesce(octet_length(attributes), 0) FROM message WHERE seq IN %s AND queue + 0 = %s AND ready_at IN (0, 253402300800000)
ORDER BY ready_at, seq;

-- LineSql.measured_behind
SELECT seq, length(body), NULL, NULL, sent_at, 0, receives, 0, deadline_at, NULL, grp, NULL FROM message WHERE seq IN %s AND queue + 0 = %s AND ready_at IN (0, 253402300800000)
ORDER BY ready_at, seq;

-- LineSql.waiting
SELECT grp FROM message FORCE INDEX (message_ready) WHERE queue = %s AND ready_at = 253402300800000 ORDER BY seq LIMIT %s;

-- LineSql.queues
SELECT number FROM queue WHERE number > %s AND grouped <> 0 AND deleted_at IS NULL ORDER BY number LIMIT %s;

-- ClaimSql.head
SELECT seq, CASE WHEN length(body) <= %s THEN body END, content_type, attributes, sent_at, ready_at, receives, abs(claim) AS claim, deadline_at, came_from, grp, first_claimed_at, length(body) + coalesce(octet_length(attributes), 0) FROM message FORCE INDEX (message_ready) WHERE queue = %s AND ready_at = 0 AND seq > %s
ORDER BY seq LIMIT %s FOR UPDATE SKIP LOCKED;

-- ClaimSql.measured_head
SELECT seq, length(body), NULL, NULL, sent_at, 0, receives, 0, deadline_at, NULL, grp, NULL FROM message FORCE INDEX (message_ready) WHERE queue = %s AND ready_at = 0 AND seq > %s
ORDER BY seq LIMIT %s FOR UPDATE SKIP LOCKED;

-- ClaimSql.summed_head
SELECT count(*), min(seq), max(seq), sum(size), min(sent_at), max(receives),
    count(CASE WHEN receives > 0 THEN 1 END), count(deadline_at)
FROM (SELECT seq, length(body) AS size, sent_at, receives, deadline_at FROM message FORCE INDEX (message_ready)
      WHERE queue = %s AND ready_at = 0 ORDER BY seq LIMIT %s) AS head;

-- ClaimSql.ready
SELECT seq FROM message FORCE INDEX (message_ready) WHERE queue = %s AND ready_at = 0 AND seq > %s ORDER BY seq LIMIT %s;

-- ClaimSql.chosen
SELECT seq, CASE WHEN length(body) <= %s THEN body END, content_type, attributes, sent_at, ready_at, receives, abs(claim) AS claim, deadline_at, came_from, grp, first_claimed_at, length(body) + coalesce(octet_length(attributes), 0) FROM message WHERE seq IN %s AND queue + 0 = %s AND ready_at = 0
ORDER BY seq FOR UPDATE SKIP LOCKED;

-- ClaimSql.hold.between
UPDATE message SET ready_at = %s, receives = receives + 1, claim = abs(claim) + 1,
first_claimed_at = coalesce(first_claimed_at, %s), last_claimed_at = %s WHERE seq BETWEEN %s AND %s;

-- ClaimSql.hold.among
UPDATE message SET ready_at = %s, receives = receives + 1, claim = abs(claim) + 1,
first_claimed_at = coalesce(first_claimed_at, %s), last_claimed_at = %s WHERE seq IN %s;

-- ClaimSql.hold_to_deadline.between
UPDATE message SET ready_at = CASE WHEN deadline_at > %s THEN deadline_at ELSE %s END, receives = receives + 1, claim = abs(claim) + 1,
                   first_claimed_at = coalesce(first_claimed_at, %s), last_claimed_at = %s
WHERE seq BETWEEN %s AND %s;

-- ClaimSql.hold_to_deadline.among
UPDATE message SET ready_at = CASE WHEN deadline_at > %s THEN deadline_at ELSE %s END, receives = receives + 1, claim = abs(claim) + 1,
                   first_claimed_at = coalesce(first_claimed_at, %s), last_claimed_at = %s
WHERE seq IN %s;

-- AttemptSql.remember
INSERT INTO attempt (queue, attempt_key, held, claimed_at) VALUES (%s, %s, '[]', %s) ;

-- AttemptSql.recall
SELECT held, claimed_at FROM attempt WHERE queue = %s AND attempt_key = %s FOR UPDATE;

-- AttemptSql.known
SELECT id FROM attempt WHERE queue = %s AND attempt_key = %s;

-- AttemptSql.first_due
SELECT min(ready_at) FROM message WHERE queue = %s AND ready_at < %s;

-- AttemptSql.renew
UPDATE attempt SET held = %s, claimed_at = %s WHERE queue = %s AND attempt_key = %s;

-- AttemptSql.forget
DELETE FROM attempt WHERE queue = %s AND attempt_key = %s;

-- AttemptSql.old
SELECT id FROM attempt WHERE claimed_at <= %s ORDER BY claimed_at LIMIT %s;

-- AttemptSql.forget_old
DELETE FROM attempt WHERE id IN %s;

-- AttemptSql.held
SELECT seq, body, content_type, attributes, sent_at, ready_at, receives, abs(claim) AS claim, deadline_at, came_from, grp, first_claimed_at FROM message
WHERE seq IN %s AND queue + 0 = %s AND ready_at > %s AND ready_at < %s AND receives > 0 AND claim >= 0
ORDER BY seq FOR UPDATE;

-- AttemptSql.hold
UPDATE message SET ready_at = %s WHERE seq IN %s;

-- ReceiptSql.match.between
SELECT seq, queue, sent_at, claim, ready_at FROM message WHERE seq BETWEEN %s AND %s AND ready_at <> %s ORDER BY seq;

-- ReceiptSql.match.among
SELECT seq, queue, sent_at, claim, ready_at FROM message WHERE seq IN %s AND ready_at <> %s ORDER BY seq;

-- ReceiptSql.match_locked.between
SELECT seq, queue, sent_at, claim, ready_at FROM message WHERE seq BETWEEN %s AND %s AND ready_at <> %s ORDER BY seq FOR UPDATE;

-- ReceiptSql.match_locked.among
SELECT seq, queue, sent_at, claim, ready_at FROM message WHERE seq IN %s AND ready_at <> %s ORDER BY seq FOR UPDATE;

-- ReceiptSql.renew
UPDATE message SET ready_at = %s, claim = abs(claim), receives = CASE receives WHEN 0 THEN 1 ELSE receives END
WHERE seq IN %s AND (ready_at < %s OR ready_at = 253402300800000);

-- ReceiptSql.renew_or_shorten
UPDATE message SET ready_at = %s, claim = abs(claim), receives = CASE receives WHEN 0 THEN 1 ELSE receives END
WHERE seq IN %s;

-- ReceiptSql.receives
SELECT seq, receives FROM message WHERE seq IN %s;

-- ReceiptSql.release
UPDATE message SET ready_at = %s, claim = abs(claim) WHERE seq IN %s AND receives > 0 AND (claim >= 0 OR ready_at <= %s);

-- ReceiptSql.release_with_delay
UPDATE message SET ready_at = %s, claim = CASE claim WHEN 0 THEN -1 ELSE -abs(claim) END WHERE seq IN %s AND receives > 0 AND (claim >= 0 OR ready_at <= %s);

-- MessageSql.peek_here
SELECT seq, CASE WHEN length(body) <= %s THEN body END, content_type, attributes, sent_at, ready_at, receives, abs(claim) AS claim, deadline_at, came_from, grp, first_claimed_at, length(body) + coalesce(octet_length(attributes), 0) FROM message FORCE INDEX (message_ready) WHERE queue = %s AND ready_at = %s AND seq > %s
ORDER BY ready_at, seq LIMIT %s;

-- MessageSql.peek_later
SELECT seq, CASE WHEN length(body) <= %s THEN body END, content_type, attributes, sent_at, ready_at, receives, abs(claim) AS claim, deadline_at, came_from, grp, first_claimed_at, length(body) + coalesce(octet_length(attributes), 0) FROM message FORCE INDEX (message_ready) WHERE queue = %s AND ready_at > %s ORDER BY ready_at, seq LIMIT %s;

-- MessageSql.claimed
SELECT seq FROM message FORCE INDEX (message_ready) WHERE queue = %s AND ready_at > %s AND ready_at < %s AND receives > 0 AND claim >= 0
ORDER BY ready_at, seq LIMIT %s FOR UPDATE;

-- MessageSql.purged
SELECT seq FROM message FORCE INDEX (message_ready) WHERE queue = %s AND seq <= %s ORDER BY ready_at, seq LIMIT %s FOR UPDATE;

-- MessageSql.ages_here
SELECT seq, ready_at, sent_at FROM message FORCE INDEX (message_ready) WHERE queue = %s AND ready_at = %s AND seq > %s
ORDER BY ready_at, seq LIMIT %s;

-- MessageSql.ages_later
SELECT seq, ready_at, sent_at FROM message FORCE INDEX (message_ready) WHERE queue = %s AND ready_at > %s
ORDER BY ready_at, seq LIMIT %s;

-- MessageSql.lock_in_queue
SELECT seq FROM message WHERE seq IN %s AND queue + 0 = %s ORDER BY seq FOR UPDATE;

-- NamedSql.find
SELECT seq, body, content_type, attributes, sent_at, ready_at, receives, abs(claim) AS claim, deadline_at, came_from, grp, first_claimed_at, last_claimed_at, CASE WHEN receives > 0 AND claim >= 0 THEN 1 ELSE 0 END
FROM message WHERE seq = %s AND queue + 0 = %s;

-- NamedSql.find_locked
SELECT seq, body, content_type, attributes, sent_at, ready_at, receives, abs(claim) AS claim, deadline_at, came_from, grp, first_claimed_at, last_claimed_at, CASE WHEN receives > 0 AND claim >= 0 THEN 1 ELSE 0 END
FROM message WHERE seq = %s AND queue + 0 = %s FOR UPDATE;

-- NamedSql.rows
SELECT seq, sent_at, ready_at, came_from FROM message WHERE seq IN %s AND queue + 0 = %s
ORDER BY seq FOR UPDATE;

-- ScanSql.look_here
SELECT seq, ready_at, CASE WHEN receives > 0 AND claim >= 0 THEN 1 ELSE 0 END, sent_at, receives, content_type, came_from,
    last_claimed_at FROM message FORCE INDEX (message_ready) WHERE queue = %s AND ready_at = %s AND seq > %s
ORDER BY ready_at, seq LIMIT %s;

-- ScanSql.look_later
SELECT seq, ready_at, CASE WHEN receives > 0 AND claim >= 0 THEN 1 ELSE 0 END, sent_at, receives, content_type, came_from,
    last_claimed_at FROM message FORCE INDEX (message_ready) WHERE queue = %s AND ready_at > %s ORDER BY ready_at, seq LIMIT %s;

-- ScanSql.read
SELECT seq, CASE WHEN length(body) <= %s THEN body END, content_type, attributes, sent_at, ready_at, receives, abs(claim) AS claim, deadline_at, came_from, grp, first_claimed_at, length(body) + coalesce(octet_length(attributes), 0) FROM message WHERE seq IN %s AND queue + 0 = %s ORDER BY ready_at, seq;

-- CountSql.look[0]
SELECT %s, waiting, claimed, oldest,
    (SELECT min(seq) FROM (SELECT seq FROM message FORCE INDEX (message_ready) WHERE queue = %s AND ready_at > 0 AND ready_at <= %s
                           ORDER BY ready_at LIMIT %s) AS run_out),
    (SELECT seq FROM message FORCE INDEX (message_ready) WHERE queue = %s AND ready_at = 0 ORDER BY seq LIMIT 1),
    (SELECT seq FROM message FORCE INDEX (message_ready) WHERE queue = %s AND ready_at = 253402300800000 ORDER BY seq LIMIT 1)
FROM (SELECT count(*) AS waiting, min(seq) AS oldest,
             coalesce(sum(CASE WHEN receives > 0 AND claim >= 0 THEN 1 ELSE 0 END), 0) AS claimed
      FROM (SELECT seq, receives, claim FROM message FORCE INDEX (message_ready) WHERE queue = %s AND ready_at > %s AND ready_at < 253402300800000
            ORDER BY ready_at LIMIT %s) AS held) AS counted;

-- CountSql.look[1]
SELECT %s, waiting, claimed, oldest,
    (SELECT min(seq) FROM (SELECT seq FROM message FORCE INDEX (message_ready) WHERE queue = %s AND ready_at > 0 AND ready_at <= %s
                           ORDER BY ready_at LIMIT %s) AS run_out),
    (SELECT seq FROM message FORCE INDEX (message_ready) WHERE queue = %s AND ready_at = 0 ORDER BY seq LIMIT 1),
    (SELECT seq FROM message FORCE INDEX (message_ready) WHERE queue = %s AND ready_at = 253402300800000 ORDER BY seq LIMIT 1)
FROM (SELECT count(*) AS waiting, min(seq) AS oldest,
             coalesce(sum(CASE WHEN receives > 0 AND claim >= 0 THEN 1 ELSE 0 END), 0) AS claimed
      FROM (SELECT seq, receives, claim FROM message FORCE INDEX (message_ready) WHERE queue = %s AND ready_at > %s AND ready_at < 253402300800000
            ORDER BY ready_at LIMIT %s) AS held) AS counted
UNION ALL
SELECT %s, waiting, claimed, oldest,
    (SELECT min(seq) FROM (SELECT seq FROM message FORCE INDEX (message_ready) WHERE queue = %s AND ready_at > 0 AND ready_at <= %s
                           ORDER BY ready_at LIMIT %s) AS run_out),
    (SELECT seq FROM message FORCE INDEX (message_ready) WHERE queue = %s AND ready_at = 0 ORDER BY seq LIMIT 1),
    (SELECT seq FROM message FORCE INDEX (message_ready) WHERE queue = %s AND ready_at = 253402300800000 ORDER BY seq LIMIT 1)
FROM (SELECT count(*) AS waiting, min(seq) AS oldest,
             coalesce(sum(CASE WHEN receives > 0 AND claim >= 0 THEN 1 ELSE 0 END), 0) AS claimed
      FROM (SELECT seq, receives, claim FROM message FORCE INDEX (message_ready) WHERE queue = %s AND ready_at > %s AND ready_at < 253402300800000
            ORDER BY ready_at LIMIT %s) AS held) AS counted;

-- CountSql.run_out
SELECT ready_at, receives FROM message
WHERE queue = %s AND ready_at > %s AND ready_at <= %s AND receives > 0 AND claim >= 0 ORDER BY ready_at DESC LIMIT %s;

-- CountSql.sent_at
SELECT seq, sent_at FROM message WHERE seq IN %s;

-- CountSql.tallies
SELECT queue, sum(arrived), sum(departed) FROM tally WHERE queue IN %s GROUP BY queue;

-- CountSql.next_due
SELECT min(ready_at) FROM message WHERE queue = %s AND ready_at > %s AND ready_at < %s;

-- MoveSql.ready
SELECT seq FROM message FORCE INDEX (message_ready) WHERE queue = %s AND ready_at = 0 AND seq <= %s ORDER BY seq LIMIT %s FOR UPDATE;

-- MoveSql.behind
SELECT seq FROM message FORCE INDEX (message_ready) WHERE queue = %s AND ready_at = 253402300800000 AND seq <= %s
ORDER BY seq LIMIT %s FOR UPDATE;

-- MoveSql.waiting
SELECT seq FROM message FORCE INDEX (message_ready)
WHERE queue = %s AND ready_at > 0 AND ready_at < %s AND seq <= %s AND (ready_at <= %s OR (receives = 0 OR claim < 0))
ORDER BY ready_at, seq LIMIT %s FOR UPDATE;

-- MoveSql.arrive.between
UPDATE message SET ready_at = CASE WHEN ready_at > %s AND ready_at < 253402300800000 AND (receives = 0 OR claim < 0)
                                   THEN ready_at ELSE 0 END,
                   queue = %s, receives = 0, first_claimed_at = NULL, last_claimed_at = NULL, came_from = CASE WHEN came_from = %s THEN NULL ELSE came_from END WHERE seq BETWEEN %s AND %s;

-- MoveSql.arrive.among
UPDATE message SET ready_at = CASE WHEN ready_at > %s AND ready_at < 253402300800000 AND (receives = 0 OR claim < 0)
                                   THEN ready_at ELSE 0 END,
                   queue = %s, receives = 0, first_claimed_at = NULL, last_claimed_at = NULL, came_from = CASE WHEN came_from = %s THEN NULL ELSE came_from END WHERE seq IN %s;

-- MoveSql.arrive_as_dead_letter.between
UPDATE message SET ready_at = CASE WHEN ready_at > %s AND ready_at < 253402300800000 AND (receives = 0 OR claim < 0)
                                   THEN ready_at ELSE 0 END,
                   queue = %s, receives = 0, first_claimed_at = NULL, last_claimed_at = NULL, came_from = %s WHERE seq BETWEEN %s AND %s;

-- MoveSql.arrive_as_dead_letter.among
UPDATE message SET ready_at = CASE WHEN ready_at > %s AND ready_at < 253402300800000 AND (receives = 0 OR claim < 0)
                                   THEN ready_at ELSE 0 END,
                   queue = %s, receives = 0, first_claimed_at = NULL, last_claimed_at = NULL, came_from = %s WHERE seq IN %s;

-- MoveSql.arrive_as_new
UPDATE message SET seq = %s, queue = %s, sent_at = %s, ready_at = %s, receives = 0, claim = 0,
                   first_claimed_at = NULL, last_claimed_at = NULL, came_from = NULL
WHERE seq = %s;

-- MoveSql.add
INSERT INTO move (id, source, target, through, started_at, claimed, terms,
moved, status, error, finished_at, examined, matched, homeless, place_ready_at, place_seq, next_at, total,
by_key, by_via) VALUES (%s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s);

-- MoveSql.change
UPDATE move SET moved = %s, status = %s, error = %s, finished_at = %s, examined = %s, matched = %s, homeless = %s,
                place_ready_at = %s, place_seq = %s, next_at = %s
WHERE id = %s;

-- MoveSql.find
SELECT id, source, target, through, started_at, claimed, terms,
moved, status, error, finished_at, examined, matched, homeless, place_ready_at, place_seq, next_at, total,
by_key, by_via FROM move WHERE id = %s;

-- MoveSql.find_locked
SELECT id, source, target, through, started_at, claimed, terms,
moved, status, error, finished_at, examined, matched, homeless, place_ready_at, place_seq, next_at, total,
by_key, by_via FROM move WHERE id = %s FOR UPDATE;

-- MoveSql.latest
SELECT id, source, target, through, started_at, claimed, terms,
moved, status, error, finished_at, examined, matched, homeless, place_ready_at, place_seq, next_at, total,
by_key, by_via FROM move WHERE finished_at IS NULL OR finished_at >= %s
ORDER BY started_at DESC, id DESC LIMIT %s;

-- MoveSql.under_way
SELECT id, source, target, through, started_at, claimed, terms,
moved, status, error, finished_at, examined, matched, homeless, place_ready_at, place_seq, next_at, total,
by_key, by_via FROM move WHERE finished_at IS NULL;

-- MoveSql.unfinished
SELECT id FROM move WHERE finished_at IS NULL ORDER BY started_at, id;

-- MoveSql.forget
DELETE FROM move WHERE finished_at < %s;

-- MoveSql.look_at_ready
SELECT seq, ready_at, CASE WHEN receives > 0 AND claim >= 0 THEN 1 ELSE 0 END, sent_at, receives, content_type, came_from,
    last_claimed_at FROM message FORCE INDEX (message_ready) WHERE queue = %s AND ready_at = 0 AND seq > %s AND seq <= %s
ORDER BY ready_at, seq LIMIT %s;

-- MoveSql.look_behind
SELECT seq, ready_at, CASE WHEN receives > 0 AND claim >= 0 THEN 1 ELSE 0 END, sent_at, receives, content_type, came_from,
    last_claimed_at FROM message FORCE INDEX (message_ready)
WHERE queue = %s AND ready_at = 253402300800000 AND seq > %s AND seq <= %s
ORDER BY ready_at, seq LIMIT %s;

-- MoveSql.look_here
SELECT seq, ready_at, CASE WHEN receives > 0 AND claim >= 0 THEN 1 ELSE 0 END, sent_at, receives, content_type, came_from,
    last_claimed_at FROM message FORCE INDEX (message_ready) WHERE queue = %s AND ready_at = %s AND seq > %s
ORDER BY ready_at, seq LIMIT %s;

-- MoveSql.look_later
SELECT seq, ready_at, CASE WHEN receives > 0 AND claim >= 0 THEN 1 ELSE 0 END, sent_at, receives, content_type, came_from,
    last_claimed_at FROM message FORCE INDEX (message_ready) WHERE queue = %s AND ready_at > %s AND ready_at < %s
ORDER BY ready_at, seq LIMIT %s;

-- MoveSql.bodies
SELECT seq, CASE WHEN length(body) <= %s THEN body END, content_type, attributes, sent_at, ready_at, receives, abs(claim) AS claim, deadline_at, came_from, grp, first_claimed_at, length(body) + coalesce(octet_length(attributes), 0) FROM message WHERE seq IN %s AND queue + 0 = %s ORDER BY ready_at, seq;

-- MoveSql.still_there
SELECT seq FROM message
WHERE seq IN %s AND queue + 0 = %s AND ready_at <> %s AND (ready_at <= %s OR ready_at = 253402300800000 OR (receives = 0 OR claim < 0))
ORDER BY seq FOR UPDATE;

-- MoveSql.still_claimed
SELECT seq FROM message
WHERE seq IN %s AND queue + 0 = %s AND ready_at > %s AND ready_at < %s AND receives > 0 AND claim >= 0 ORDER BY seq FOR UPDATE;

-- ShipmentSql.find
SELECT id, queue, consumer, number, state, messages, bytes, cleared, kept, claimed_at, until, ended_at, stored_in FROM shipment WHERE queue = %s AND consumer = %s AND number = %s;

-- ShipmentSql.find_locked
SELECT id, queue, consumer, number, state, messages, bytes, cleared, kept, claimed_at, until, ended_at, stored_in FROM shipment WHERE queue = %s AND consumer = %s AND number = %s FOR UPDATE;

-- ShipmentSql.latest
SELECT id, queue, consumer, number, state, messages, bytes, cleared, kept, claimed_at, until, ended_at, stored_in FROM shipment WHERE queue = %s AND consumer = %s ORDER BY number DESC LIMIT 1;

-- ShipmentSql.page
SELECT id, queue, consumer, number, state, messages, bytes, cleared, kept, claimed_at, until, ended_at, stored_in FROM shipment AS s WHERE queue = %s AND consumer > %s AND number > %s AND (s.ended_at IS NULL OR s.ended_at >= %s OR NOT EXISTS (
    SELECT 1 FROM shipment AS l WHERE l.queue = s.queue AND l.consumer = s.consumer AND l.number > s.number))
ORDER BY queue, consumer, number LIMIT %s;

-- ShipmentSql.page_of_consumer
SELECT id, queue, consumer, number, state, messages, bytes, cleared, kept, claimed_at, until, ended_at, stored_in FROM shipment AS s WHERE queue = %s AND consumer = %s AND number > %s AND (s.ended_at IS NULL OR s.ended_at >= %s OR NOT EXISTS (
    SELECT 1 FROM shipment AS l WHERE l.queue = s.queue AND l.consumer = s.consumer AND l.number > s.number))
ORDER BY queue, consumer, number LIMIT %s;

-- ShipmentSql.add
INSERT INTO shipment (queue, consumer, number, state, messages, bytes, cleared, kept, claimed_at,
                      until, due_at, runs)
VALUES (%s, %s, %s, %s, %s, %s, 0, 0, %s, %s, %s, %s);

-- ShipmentSql.extend
UPDATE shipment SET state = %s, messages = %s, bytes = %s, until = %s, due_at = %s, runs = %s WHERE id = %s;

-- ShipmentSql.prolong
UPDATE shipment SET until = %s, due_at = %s WHERE id = %s;

-- ShipmentSql.runs
SELECT runs FROM shipment WHERE id = %s;

-- ShipmentSql.read.between
SELECT seq, CASE WHEN length(body) <= %s THEN body END, content_type, attributes, sent_at, ready_at, receives, abs(claim) AS claim, deadline_at, came_from, grp, first_claimed_at, length(body) + coalesce(octet_length(attributes), 0) FROM message WHERE seq BETWEEN %s AND %s AND ready_at = 253402300799999 AND queue + 0 IN (%s, %s) ORDER BY seq;

-- ShipmentSql.read.among
SELECT seq, CASE WHEN length(body) <= %s THEN body END, content_type, attributes, sent_at, ready_at, receives, abs(claim) AS claim, deadline_at, came_from, grp, first_claimed_at, length(body) + coalesce(octet_length(attributes), 0) FROM message WHERE seq IN %s AND ready_at = 253402300799999 AND queue + 0 IN (%s, %s) ORDER BY seq;

-- ShipmentSql.delete
DELETE FROM shipment WHERE id = %s;

-- ShipmentSql.open_of_queue
SELECT id, queue, consumer, number, state, messages, bytes, cleared, kept, claimed_at, until, ended_at, stored_in FROM shipment WHERE queue = %s AND ended_at IS NULL ORDER BY consumer LIMIT %s;

-- ShipmentSql.not_ended
SELECT id FROM shipment WHERE ended_at IS NULL LIMIT %s;

-- ShipmentSql.decide
UPDATE shipment SET state = %s, ended_at = %s, kept = %s, stored_in = %s, due_at = %s WHERE id = %s;

-- ShipmentSql.former
SELECT id, queue, consumer, number, state, messages, bytes, cleared, kept, claimed_at, until, ended_at, stored_in FROM shipment WHERE queue = %s AND consumer = %s AND number < %s AND state = %s
ORDER BY number DESC LIMIT 1 FOR UPDATE;

-- ShipmentSql.clear
UPDATE shipment SET cleared = %s WHERE id = %s;

-- ShipmentSql.remember
UPDATE shipment SET kept = 0, due_at = %s, runs = '[]' WHERE id = %s;

-- ShipmentSql.due_at
UPDATE shipment SET due_at = %s WHERE id = %s;

-- ShipmentSql.free
UPDATE shipment SET kept = %s, due_at = %s WHERE id = %s;

-- ShipmentSql.lock_messages.between
SELECT seq FROM message WHERE seq BETWEEN %s AND %s AND ready_at = 253402300799999 AND queue + 0 = %s ORDER BY seq FOR UPDATE;

-- ShipmentSql.lock_messages.among
SELECT seq FROM message WHERE seq IN %s AND ready_at = 253402300799999 AND queue + 0 = %s ORDER BY seq FOR UPDATE;

-- ShipmentSql.make_ready.between
UPDATE message SET ready_at = 0 WHERE seq BETWEEN %s AND %s AND ready_at = 253402300799999 AND queue + 0 = %s;

-- ShipmentSql.make_ready.among
UPDATE message SET ready_at = 0 WHERE seq IN %s AND ready_at = 253402300799999 AND queue + 0 = %s;

-- ShipmentSql.record.between
INSERT INTO ledger (queue, seq, sent_at, first_claimed_at, last_claimed_at, finished_at,
                    receives, outcome, size, body_hash, content_type, body)
SELECT m.queue, m.seq, m.sent_at, m.first_claimed_at, m.last_claimed_at, %s,
       m.receives, %s, length(m.body), m.body_hash, m.content_type,
       CASE q.ledger WHEN 2 THEN m.body END FROM message AS m STRAIGHT_JOIN queue AS q FORCE INDEX (PRIMARY) ON q.number = m.queue + 0 WHERE q.ledger <> 0 AND seq BETWEEN %s AND %s AND ready_at = 253402300799999 AND queue + 0 = %s ORDER BY m.seq;

-- ShipmentSql.record.among
INSERT INTO ledger (queue, seq, sent_at, first_claimed_at, last_claimed_at, finished_at,
                    receives, outcome, size, body_hash, content_type, body)
SELECT m.queue, m.seq, m.sent_at, m.first_claimed_at, m.last_claimed_at, %s,
       m.receives, %s, length(m.body), m.body_hash, m.content_type,
       CASE q.ledger WHEN 2 THEN m.body END FROM message AS m STRAIGHT_JOIN queue AS q FORCE INDEX (PRIMARY) ON q.number = m.queue + 0 WHERE q.ledger <> 0 AND seq IN %s AND ready_at = 253402300799999 AND queue + 0 = %s ORDER BY m.seq;

-- ShipmentSql.keep.between
UPDATE message SET queue = %s WHERE seq BETWEEN %s AND %s AND ready_at = 253402300799999 AND queue + 0 = %s;

-- ShipmentSql.keep.among
UPDATE message SET queue = %s WHERE seq IN %s AND ready_at = 253402300799999 AND queue + 0 = %s;

-- ShipmentSql.finish.between
DELETE FROM message WHERE seq BETWEEN %s AND %s AND ready_at = 253402300799999 AND queue + 0 = %s;

-- ShipmentSql.finish.among
DELETE FROM message WHERE seq IN %s AND ready_at = 253402300799999 AND queue + 0 = %s;

-- ShipmentSql.due
SELECT id FROM shipment WHERE due_at < %s ORDER BY due_at LIMIT %s;

-- ShipmentSql.due_locked
SELECT id, queue, consumer, number, state, messages, bytes, cleared, kept, claimed_at, until, ended_at, stored_in FROM shipment WHERE id = %s AND due_at < %s FOR UPDATE SKIP LOCKED;

-- ShipmentSql.kept
SELECT seq FROM message FORCE INDEX (message_ready) WHERE queue = %s LIMIT %s;

-- ShipmentSql.later
SELECT 1 FROM shipment WHERE queue = %s AND consumer = %s AND number > %s LIMIT 1;

-- LeaseSql.find
SELECT id, holder, taken_at, until FROM lease WHERE queue = %s AND name = %s;

-- LeaseSql.find_locked
SELECT id, holder, taken_at, until FROM lease WHERE queue = %s AND name = %s FOR UPDATE;

-- LeaseSql.add
INSERT INTO lease (queue, name, holder, taken_at, until) VALUES (%s, %s, %s, %s, %s) ;

-- LeaseSql.hold
UPDATE lease SET holder = %s, taken_at = %s, until = %s WHERE id = %s;

-- LeaseSql.delete
DELETE FROM lease WHERE id = %s;

-- LeaseSql.over
SELECT id FROM lease WHERE until <= %s ORDER BY until LIMIT %s;

-- LeaseSql.delete_over
DELETE FROM lease WHERE id IN %s AND until <= %s;

-- LedgerSql.measure
SELECT number, CASE WHEN body IS NULL THEN 0 ELSE size END FROM ledger WHERE number > %s AND number <= %s ORDER BY number LIMIT %s;

-- LedgerSql.measure_by_time
SELECT number, CASE WHEN body IS NULL THEN 0 ELSE size END FROM ledger WHERE number > %s AND number <= %s AND finished_at >= %s AND finished_at < %s
ORDER BY number LIMIT %s;

-- LedgerSql.measure_queues[0]
SELECT * FROM (
SELECT number, CASE WHEN body IS NULL THEN 0 ELSE size END FROM ledger FORCE INDEX (ledger_by_queue)
WHERE queue = %s AND number > %s AND number <= %s AND finished_at >= %s AND finished_at < %s
ORDER BY number LIMIT %s) AS part;

-- LedgerSql.measure_queues[1]
SELECT * FROM (
    SELECT number, CASE WHEN body IS NULL THEN 0 ELSE size END FROM ledger FORCE INDEX (ledger_by_queue)
    WHERE queue = %s AND number > %s AND number <= %s AND finished_at >= %s AND finished_at < %s
    ORDER BY number LIMIT %s) AS part
UNION ALL
SELECT * FROM (
    SELECT number, CASE WHEN body IS NULL THEN 0 ELSE size END FROM ledger FORCE INDEX (ledger_by_queue)
    WHERE queue = %s AND number > %s AND number <= %s AND finished_at >= %s AND finished_at < %s
    ORDER BY number LIMIT %s) AS part;

-- LedgerSql.measure_message
SELECT number, CASE WHEN body IS NULL THEN 0 ELSE size END FROM ledger WHERE seq = %s AND number > %s AND number <= %s ORDER BY number LIMIT %s;

-- LedgerSql.latest
SELECT number, CASE WHEN body IS NULL THEN 0 ELSE size END, outcome, finished_at FROM ledger WHERE number > %s AND number <= %s ORDER BY number DESC LIMIT %s;

-- LedgerSql.latest_of_queues[0]
SELECT * FROM (
SELECT number, CASE WHEN body IS NULL THEN 0 ELSE size END, outcome, finished_at FROM ledger FORCE INDEX (ledger_by_queue)
WHERE queue = %s AND number > %s AND number <= %s ORDER BY number DESC LIMIT %s) AS part;

-- LedgerSql.latest_of_queues[1]
SELECT * FROM (
    SELECT number, CASE WHEN body IS NULL THEN 0 ELSE size END, outcome, finished_at FROM ledger FORCE INDEX (ledger_by_queue)
    WHERE queue = %s AND number > %s AND number <= %s ORDER BY number DESC LIMIT %s) AS part
UNION ALL
SELECT * FROM (
    SELECT number, CASE WHEN body IS NULL THEN 0 ELSE size END, outcome, finished_at FROM ledger FORCE INDEX (ledger_by_queue)
    WHERE queue = %s AND number > %s AND number <= %s ORDER BY number DESC LIMIT %s) AS part;

-- LedgerSql.read
SELECT l.number, q.name, l.seq, l.sent_at, l.first_claimed_at, l.last_claimed_at, l.finished_at,
       l.receives, l.outcome, l.size, l.body_hash, l.content_type, l.body
FROM ledger AS l JOIN queue AS q ON q.number = l.queue
WHERE l.number IN %s ORDER BY l.number;

-- LedgerSql.queues_of_name
SELECT number FROM queue WHERE name = %s;

-- LedgerSql.last
SELECT coalesce(max(number), 0) FROM ledger;

-- LedgerSql.after
SELECT number, finished_at FROM ledger WHERE number > %s ORDER BY number LIMIT 1;

-- LedgerSql.oldest
SELECT number, CASE WHEN body IS NULL THEN 0 ELSE size END, finished_at FROM ledger ORDER BY number LIMIT %s;

-- LedgerSql.delete
DELETE FROM ledger WHERE number IN %s;

-- LedgerSql.size
SELECT through, amount, bytes FROM ledger_size;

-- LedgerSql.size_locked
SELECT through, amount, bytes FROM ledger_size FOR UPDATE SKIP LOCKED;

-- LedgerSql.uncounted
SELECT count(*), coalesce(max(number), 0), coalesce(sum(size), 0) FROM
(SELECT number, CASE WHEN body IS NULL THEN 0 ELSE size END AS size FROM ledger WHERE number > %s AND number <= %s ORDER BY number LIMIT %s) AS part;

-- LedgerSql.keep_size
UPDATE ledger_size SET through = %s, amount = %s, bytes = %s;

-- ExportSql.find
SELECT consumer, number, after_number, through_number, amount, claimed_at, settled_at FROM export WHERE consumer = %s AND number = %s;

-- ExportSql.latest
SELECT consumer, number, after_number, through_number, amount, claimed_at, settled_at FROM export WHERE consumer = %s ORDER BY number DESC LIMIT 1;

-- ExportSql.page
SELECT consumer, number, after_number, through_number, amount, claimed_at, settled_at FROM export AS e WHERE number > %s AND (e.settled_at IS NULL OR e.settled_at >= %s OR NOT EXISTS (
    SELECT 1 FROM export AS l WHERE l.consumer = e.consumer AND l.number > e.number)) ORDER BY consumer, number LIMIT %s;

-- ExportSql.page_of_consumer
SELECT consumer, number, after_number, through_number, amount, claimed_at, settled_at FROM export AS e WHERE consumer = %s AND number > %s AND (e.settled_at IS NULL OR e.settled_at >= %s OR NOT EXISTS (
    SELECT 1 FROM export AS l WHERE l.consumer = e.consumer AND l.number > e.number))
ORDER BY consumer, number LIMIT %s;

-- ExportSql.later
SELECT 1 FROM export WHERE consumer = %s AND number > %s LIMIT 1;

-- ExportSql.count
SELECT count(*), min(number), max(number) FROM
(SELECT number FROM ledger WHERE number > %s AND number <= %s ORDER BY number LIMIT %s) AS found;

-- ExportSql.add
INSERT INTO export (consumer, number, after_number, through_number, amount, claimed_at, first_number)
VALUES (%s, %s, %s, %s, %s, %s, %s) ;

-- ExportSql.first_row
SELECT l.finished_at FROM export AS e JOIN ledger AS l ON l.number = e.first_number
WHERE e.consumer = %s AND e.number = %s;

-- ExportSql.settle
UPDATE export SET settled_at = %s WHERE consumer = %s AND number = %s AND settled_at IS NULL;

-- ExportSql.old
SELECT id FROM export AS e WHERE settled_at < %s
AND EXISTS (SELECT 1 FROM export AS l WHERE l.consumer = e.consumer AND l.number > e.number) LIMIT %s;

-- ExportSql.forget
DELETE FROM export WHERE id IN %s;

-- ConsumerSql.next_number
SELECT coalesce(max(number), 0) + 1 FROM consumer WHERE queue = %s;

-- ConsumerSql.add
INSERT INTO consumer (id, queue, number, delivery, beat_at, dead_after_ms, holding)
VALUES (%s, %s, %s, %s, %s, %s, '[]');

-- ConsumerSql.attend
SELECT queue, holding FROM consumer WHERE id = %s FOR UPDATE;

-- ConsumerSql.hold
UPDATE consumer SET beat_at = %s, holding = %s WHERE id = %s;

-- ConsumerSql.of_queue
SELECT id, delivery, beat_at, dead_after_ms, holding FROM consumer WHERE queue = %s ORDER BY number LIMIT %s;

-- ConsumerSql.leave
DELETE FROM consumer WHERE id = %s;

-- ConsumerSql.living
SELECT id FROM consumer WHERE queue = %s AND beat_at > %s - dead_after_ms AND beat_at < %s + dead_after_ms ORDER BY number;

-- ConsumerSql.dead
SELECT id FROM consumer WHERE NOT (beat_at > %s - dead_after_ms AND beat_at < %s + dead_after_ms) LIMIT %s;

-- ConsumerSql.dead_locked
SELECT queue, delivery, holding FROM consumer WHERE id = %s AND NOT (beat_at > %s - dead_after_ms AND beat_at < %s + dead_after_ms) FOR UPDATE SKIP LOCKED;

-- ConsumerSql.held.between
SELECT seq, claim, queue FROM message WHERE seq BETWEEN %s AND %s ORDER BY seq FOR UPDATE;

-- ConsumerSql.held.among
SELECT seq, claim, queue FROM message WHERE seq IN %s ORDER BY seq FOR UPDATE;

-- ConsumerSql.first_due
SELECT min(ready_at) FROM message WHERE queue = %s AND ready_at < %s;

-- ConsumerSql.trace
SELECT queue, sent_at, ready_at, receives > 0 AND claim >= 0 FROM message WHERE seq = %s AND queue + 0 > 0;

-- ConsumerSql.outcome
SELECT sent_at, outcome FROM ledger WHERE seq = %s ORDER BY number DESC LIMIT 1;

-- KeySql.find
SELECT 1 FROM api_key WHERE name = %s;

-- KeySql.count
SELECT count(*) FROM api_key;

-- KeySql.add
INSERT INTO api_key (name, digest, rules, created_at, revoked_at, expires_at) VALUES (%s, %s, %s, %s, %s, %s);

-- KeySql.expire
UPDATE api_key SET expires_at = %s WHERE name = %s AND revoked_at IS NULL;

-- KeySql.rotate
UPDATE api_key
SET old_digest = digest, old_until = %s, old_last_used_at = last_used_at, rotated_at = %s, digest = %s
WHERE name = %s AND digest = %s AND revoked_at IS NULL;

-- KeySql.retire
UPDATE api_key SET old_digest = NULL, old_until = NULL, old_last_used_at = NULL
WHERE name = %s AND old_digest = %s;

-- KeySql.use
UPDATE api_key SET last_used_at = %s
WHERE name = %s AND (digest = %s OR old_digest = %s) AND coalesce(last_used_at, 0) < %s;

-- KeySql.use_old
UPDATE api_key SET old_last_used_at = %s
WHERE name = %s AND old_digest = %s AND coalesce(old_last_used_at, 0) < %s;

-- KeySql.revoke
UPDATE api_key SET revoked_at = %s WHERE name = %s AND revoked_at IS NULL;

-- KeySql.ended
SELECT ended_sessions FROM api_key WHERE name = %s;

-- KeySql.shorten
UPDATE api_key SET ended_sessions = %s WHERE name = %s AND ended_sessions = %s;

-- KeySql.end
UPDATE api_key SET ended_sessions = concat(coalesce(ended_sessions, ''), coalesce(%s, '')) WHERE name = %s;

-- KeySql.one
SELECT name, digest, rules, created_at, revoked_at, ended_sessions, expires_at, rotated_at, last_used_at, old_digest, old_until, old_last_used_at FROM api_key WHERE name = %s;

-- KeySql.all
SELECT name, digest, rules, created_at, revoked_at, ended_sessions, expires_at, rotated_at, last_used_at, old_digest, old_until, old_last_used_at FROM api_key ORDER BY number;

-- ActionSql.add
INSERT INTO action (acted_at, api_key, via, what, queue_name, amount, detail) VALUES (%s, %s, %s, %s, %s, %s, %s);

-- ActionSql.pages[0]
SELECT number, acted_at, api_key, via, what, queue_name, amount, detail FROM action
WHERE number >= %s AND number < %s AND acted_at >= %s AND acted_at < %s
ORDER BY number DESC LIMIT %s;

-- ActionSql.pages[1]
SELECT number, acted_at, api_key, via, what, queue_name, amount, detail FROM action
WHERE what = %s AND number >= %s AND number < %s AND acted_at >= %s AND acted_at < %s
ORDER BY number DESC LIMIT %s;

-- ActionSql.first_since
SELECT number FROM action WHERE acted_at >= %s ORDER BY acted_at, number LIMIT 1;

-- ActionSql.last_until
SELECT number FROM action WHERE acted_at < %s ORDER BY acted_at DESC, number DESC LIMIT 1;

-- ActionSql.old
SELECT number FROM action WHERE acted_at < %s ORDER BY acted_at, number LIMIT %s;

-- ActionSql.delete
DELETE FROM action WHERE number IN %s;

-- FigureSql.known
SELECT number FROM queue WHERE number IN %s;

-- FigureSql.add
INSERT INTO figure (queue, width, since, sent, claimed, redelivered, acked, expired, dead_lettered, failed, purged, moved, collapsed) VALUES (%s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s) ON DUPLICATE KEY UPDATE sent = figure.sent + VALUES(sent), claimed = figure.claimed + VALUES(claimed), redelivered = figure.redelivered + VALUES(redelivered), acked = figure.acked + VALUES(acked), expired = figure.expired + VALUES(expired), dead_lettered = figure.dead_lettered + VALUES(dead_lettered), failed = figure.failed + VALUES(failed), purged = figure.purged + VALUES(purged), moved = figure.moved + VALUES(moved), collapsed = figure.collapsed + VALUES(collapsed);

-- FigureSql.sample
INSERT INTO figure (queue, width, since, ready_now, delayed_now, claimed_now, oldest_sent_at) VALUES (%s, %s, %s, %s, %s, %s, %s) ON DUPLICATE KEY UPDATE ready_now = VALUES(ready_now), delayed_now = VALUES(delayed_now), claimed_now = VALUES(claimed_now), oldest_sent_at = VALUES(oldest_sent_at);

-- FigureSql.totals
SELECT queue, since, sent, claimed, redelivered, acked, expired, dead_lettered, failed, purged, moved, collapsed, ready_now, delayed_now, claimed_now, oldest_sent_at FROM figure WHERE queue IN %s AND width = 0 AND since = 0;

-- FigureSql.active_then
SELECT queue, since, sent, claimed, redelivered, acked, expired, dead_lettered, failed, purged, moved, collapsed, ready_now, delayed_now, claimed_now, oldest_sent_at FROM figure WHERE width = 60000 AND since = %s AND queue > %s
ORDER BY queue LIMIT %s;

-- FigureSql.active_later
SELECT queue, since, sent, claimed, redelivered, acked, expired, dead_lettered, failed, purged, moved, collapsed, ready_now, delayed_now, claimed_now, oldest_sent_at FROM figure WHERE width = 60000 AND since > %s ORDER BY since, queue LIMIT %s;

-- FigureSql.history
SELECT queue, since, sent, claimed, redelivered, acked, expired, dead_lettered, failed, purged, moved, collapsed, ready_now, delayed_now, claimed_now, oldest_sent_at FROM figure WHERE queue = %s AND width = %s AND since >= %s ORDER BY since;

-- FigureSql.old
SELECT id FROM figure WHERE width = %s AND since < %s ORDER BY since LIMIT %s;

-- FigureSql.forget_old
DELETE FROM figure WHERE id IN %s;

-- FigureSql.of_queue
SELECT id FROM figure WHERE queue = %s AND width = %s LIMIT %s;

-- SweepSql.deleted_queues
SELECT number, deleted_at FROM queue WHERE due_at <= %s ORDER BY due_at, number LIMIT %s;

-- SweepSql.last_queue
SELECT max(number) FROM queue;

-- SweepSql.named_queue
SELECT 1 FROM queue AS q WHERE q.number = %s
AND (EXISTS (SELECT 1 FROM ledger WHERE queue = q.number)
     OR EXISTS (SELECT 1 FROM shipment WHERE queue = q.number)
     OR EXISTS (SELECT 1 FROM lease WHERE queue = q.number)
     OR EXISTS (SELECT 1 FROM consumer WHERE queue = q.number)
     OR EXISTS (SELECT 1 FROM sending WHERE queue = q.number)
     OR EXISTS (SELECT 1 FROM seen WHERE queue = q.number)
     OR EXISTS (SELECT 1 FROM attempt WHERE queue = q.number)
     OR EXISTS (SELECT 1 FROM collapse WHERE queue = q.number));

-- SweepSql.look_again
UPDATE queue SET due_at = %s WHERE number = %s;

-- SweepSql.forget_tally
DELETE FROM tally WHERE queue = %s;

-- SweepSql.forget_queue
DELETE FROM queue WHERE number = %s;

-- SweepSql.queues_due
SELECT q.number, q.name, q.created_at, q.visibility_ms, q.retention_ms, q.delay_ms, q.dedup, q.ledger,
q.max_receives, (SELECT name FROM queue AS d WHERE d.number = q.dead_letter_queue),
q.backoff_first_ms, q.backoff_most_ms,
q.grouped, q.dedup_window_ms, q.dedup_scope, q.labels, q.modified_at,
q.paused_at FROM queue AS q
WHERE q.deleted_at IS NULL AND (SELECT sum(arrived) - sum(departed) FROM tally WHERE tally.queue = q.number) > 0
   AND (SELECT ready_at FROM message FORCE INDEX (message_ready) WHERE queue = q.number AND ready_at > 0 ORDER BY ready_at LIMIT 1) <= %s
LIMIT %s;

-- SweepSql.queues_expired
SELECT number, lowered_through, retention_ms, CASE WHEN q.kept_ms > q.retention_ms THEN q.kept_ms ELSE q.retention_ms END FROM queue AS q
WHERE q.deleted_at IS NULL AND (SELECT sum(arrived) - sum(departed) FROM tally WHERE tally.queue = q.number) > 0
    AND (((SELECT sent_at FROM message FORCE INDEX (message_ready) WHERE queue = q.number AND ready_at = 0 AND seq > q.lowered_through ORDER BY seq LIMIT 1) <= %s - q.retention_ms
         OR (SELECT sent_at FROM message FORCE INDEX (message_ready) WHERE queue = q.number AND ready_at = 0 ORDER BY seq LIMIT 1) <= %s - CASE WHEN q.kept_ms > q.retention_ms THEN q.kept_ms ELSE q.retention_ms END)
         OR (q.grouped <> 0 AND ((SELECT sent_at FROM message FORCE INDEX (message_ready) WHERE queue = q.number AND ready_at = 253402300800000 AND seq > q.lowered_through ORDER BY seq LIMIT 1) <= %s - q.retention_ms
         OR (SELECT sent_at FROM message FORCE INDEX (message_ready) WHERE queue = q.number AND ready_at = 253402300800000 ORDER BY seq LIMIT 1) <= %s - CASE WHEN q.kept_ms > q.retention_ms THEN q.kept_ms ELSE q.retention_ms END)))
LIMIT %s;

-- SweepSql.oldest
SELECT seq, sent_at FROM message FORCE INDEX (message_ready) WHERE queue = %s AND ready_at = %s AND seq > %s AND seq <= %s
ORDER BY seq LIMIT %s FOR UPDATE SKIP LOCKED;

-- MariaSql.for_writing
SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED;

-- MariaSql.for_reading
SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ;

-- MariaSql.for_looking
SET SESSION TRANSACTION ISOLATION LEVEL READ UNCOMMITTED;

-- MariaSql.number_step
SELECT @@auto_increment_increment;

-- MariaSql.insert_messages
INSERT INTO message (seq, queue, ready_at, sent_at, deadline_at, content_type, attributes, grp, dedup_key, body_hash, body, receives, claim) VALUES;

-- MariaSql.one_message
(%s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, 0, 0);

-- MariaSql.latest_due
SELECT max(ready_at) FROM message FORCE INDEX (message_ready)
WHERE queue = %s AND ready_at > %s AND ready_at <= %s;

-- MariaSql.bodies
SELECT seq, body FROM message WHERE seq IN %s;

-- MariaSql.take_tickets
INSERT INTO ticket (seq) VALUES;

-- MariaSql.one_ticket
(NULL);

-- MariaSql.drop_tickets
DELETE FROM ticket WHERE seq >= %s AND seq < %s;

-- MariaSql.drop_old_tickets
DELETE FROM ticket WHERE seq < %s;

-- MariaSql.last_seq
SELECT coalesce(max(seq), 0) FROM ticket;

-- MariaSql.begin
SELECT CAST(UNIX_TIMESTAMP(SYSDATE(3)) * 1000 AS SIGNED), version FROM store;

-- MariaSql.add_to_tallies
INSERT INTO tally (queue, slot, arrived, departed) VALUES;

-- MariaSql.one_tally
(%s, %s, %s, %s);

-- MariaSql.where_counted
ON DUPLICATE KEY UPDATE arrived = arrived + VALUES(arrived), departed = departed + VALUES(departed);

-- MariaSql.change_queues
UPDATE store SET version = version + 1;

-- MariaSql.size
SELECT coalesce(sum(data_length + index_length), 0) FROM information_schema.tables
WHERE table_schema = database();

-- MariaSql.prove_writable
UPDATE store SET origin = origin WHERE 1 = 0;

-- MariaSql.has_table
SELECT 1 FROM information_schema.tables WHERE table_schema = DATABASE() AND table_name = %s;

-- MariaSql.enter_ledger
INSERT INTO ledger_writer (since) SELECT coalesce(max(number), 0) FROM ledger;

-- MariaSql.old_writers
SELECT entry FROM ledger_writer WHERE entry < %s FOR UPDATE SKIP LOCKED;

-- MariaSql.forget_writers
DELETE FROM ledger_writer WHERE entry IN %s;

-- MariaSql.writers
SELECT entry FROM ledger_writer;

-- MariaSql.last_in_ledger
SELECT coalesce(max(number), 0) FROM ledger;

-- MariaSql.writers_since
SELECT entry, since FROM ledger_writer;

-- MariaSql.stirred
SELECT sum(arrived) FROM tally WHERE queue = 0;

-- MariaSql.take_place
SELECT GET_LOCK(CONCAT('penstock.', CRC32(DATABASE()), '.', %s), 0);

-- MariaSql.places_taken
SELECT CONNECTION_ID(),
IS_USED_LOCK(CONCAT('penstock.', CRC32(DATABASE()), '.', 0)),
IS_USED_LOCK(CONCAT('penstock.', CRC32(DATABASE()), '.', 1)),
IS_USED_LOCK(CONCAT('penstock.', CRC32(DATABASE()), '.', 2)),
IS_USED_LOCK(CONCAT('penstock.', CRC32(DATABASE()), '.', 3)),
IS_USED_LOCK(CONCAT('penstock.', CRC32(DATABASE()), '.', 4)),
IS_USED_LOCK(CONCAT('penstock.', CRC32(DATABASE()), '.', 5)),
IS_USED_LOCK(CONCAT('penstock.', CRC32(DATABASE()), '.', 6)),
IS_USED_LOCK(CONCAT('penstock.', CRC32(DATABASE()), '.', 7)),
IS_USED_LOCK(CONCAT('penstock.', CRC32(DATABASE()), '.', 8)),
IS_USED_LOCK(CONCAT('penstock.', CRC32(DATABASE()), '.', 9)),
IS_USED_LOCK(CONCAT('penstock.', CRC32(DATABASE()), '.', 10)),
IS_USED_LOCK(CONCAT('penstock.', CRC32(DATABASE()), '.', 11)),
IS_USED_LOCK(CONCAT('penstock.', CRC32(DATABASE()), '.', 12)),
IS_USED_LOCK(CONCAT('penstock.', CRC32(DATABASE()), '.', 13)),
IS_USED_LOCK(CONCAT('penstock.', CRC32(DATABASE()), '.', 14)),
IS_USED_LOCK(CONCAT('penstock.', CRC32(DATABASE()), '.', 15)),
IS_USED_LOCK(CONCAT('penstock.', CRC32(DATABASE()), '.', 16)),
IS_USED_LOCK(CONCAT('penstock.', CRC32(DATABASE()), '.', 17)),
IS_USED_LOCK(CONCAT('penstock.', CRC32(DATABASE()), '.', 18)),
IS_USED_LOCK(CONCAT('penstock.', CRC32(DATABASE()), '.', 19)),
IS_USED_LOCK(CONCAT('penstock.', CRC32(DATABASE()), '.', 20)),
IS_USED_LOCK(CONCAT('penstock.', CRC32(DATABASE()), '.', 21)),
IS_USED_LOCK(CONCAT('penstock.', CRC32(DATABASE()), '.', 22)),
IS_USED_LOCK(CONCAT('penstock.', CRC32(DATABASE()), '.', 23)),
IS_USED_LOCK(CONCAT('penstock.', CRC32(DATABASE()), '.', 24)),
IS_USED_LOCK(CONCAT('penstock.', CRC32(DATABASE()), '.', 25)),
IS_USED_LOCK(CONCAT('penstock.', CRC32(DATABASE()), '.', 26)),
IS_USED_LOCK(CONCAT('penstock.', CRC32(DATABASE()), '.', 27)),
IS_USED_LOCK(CONCAT('penstock.', CRC32(DATABASE()), '.', 28)),
IS_USED_LOCK(CONCAT('penstock.', CRC32(DATABASE()), '.', 29)),
IS_USED_LOCK(CONCAT('penstock.', CRC32(DATABASE()), '.', 30)),
IS_USED_LOCK(CONCAT('penstock.', CRC32(DATABASE()), '.', 31)),
IS_USED_LOCK(CONCAT('penstock.', CRC32(DATABASE()), '.', 32)),
IS_USED_LOCK(CONCAT('penstock.', CRC32(DATABASE()), '.', 33)),
IS_USED_LOCK(CONCAT('penstock.', CRC32(DATABASE()), '.', 34)),
IS_USED_LOCK(CONCAT('penstock.', CRC32(DATABASE()), '.', 35)),
IS_USED_LOCK(CONCAT('penstock.', CRC32(DATABASE()), '.', 36)),
IS_USED_LOCK(CONCAT('penstock.', CRC32(DATABASE()), '.', 37)),
IS_USED_LOCK(CONCAT('penstock.', CRC32(DATABASE()), '.', 38)),
IS_USED_LOCK(CONCAT('penstock.', CRC32(DATABASE()), '.', 39)),
IS_USED_LOCK(CONCAT('penstock.', CRC32(DATABASE()), '.', 40)),
IS_USED_LOCK(CONCAT('penstock.', CRC32(DATABASE()), '.', 41)),
IS_USED_LOCK(CONCAT('penstock.', CRC32(DATABASE()), '.', 42)),
IS_USED_LOCK(CONCAT('penstock.', CRC32(DATABASE()), '.', 43)),
IS_USED_LOCK(CONCAT('penstock.', CRC32(DATABASE()), '.', 44)),
IS_USED_LOCK(CONCAT('penstock.', CRC32(DATABASE()), '.', 45)),
IS_USED_LOCK(CONCAT('penstock.', CRC32(DATABASE()), '.', 46)),
IS_USED_LOCK(CONCAT('penstock.', CRC32(DATABASE()), '.', 47)),
IS_USED_LOCK(CONCAT('penstock.', CRC32(DATABASE()), '.', 48)),
IS_USED_LOCK(CONCAT('penstock.', CRC32(DATABASE()), '.', 49)),
IS_USED_LOCK(CONCAT('penstock.', CRC32(DATABASE()), '.', 50)),
IS_USED_LOCK(CONCAT('penstock.', CRC32(DATABASE()), '.', 51)),
IS_USED_LOCK(CONCAT('penstock.', CRC32(DATABASE()), '.', 52)),
IS_USED_LOCK(CONCAT('penstock.', CRC32(DATABASE()), '.', 53)),
IS_USED_LOCK(CONCAT('penstock.', CRC32(DATABASE()), '.', 54)),
IS_USED_LOCK(CONCAT('penstock.', CRC32(DATABASE()), '.', 55)),
IS_USED_LOCK(CONCAT('penstock.', CRC32(DATABASE()), '.', 56)),
IS_USED_LOCK(CONCAT('penstock.', CRC32(DATABASE()), '.', 57)),
IS_USED_LOCK(CONCAT('penstock.', CRC32(DATABASE()), '.', 58)),
IS_USED_LOCK(CONCAT('penstock.', CRC32(DATABASE()), '.', 59)),
IS_USED_LOCK(CONCAT('penstock.', CRC32(DATABASE()), '.', 60)),
IS_USED_LOCK(CONCAT('penstock.', CRC32(DATABASE()), '.', 61)),
IS_USED_LOCK(CONCAT('penstock.', CRC32(DATABASE()), '.', 62)),
IS_USED_LOCK(CONCAT('penstock.', CRC32(DATABASE()), '.', 63));
