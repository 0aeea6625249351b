-- SessionSql.find_queue
SELECT q.number, q.name, q.created_at, q.visibility_ms, q.retention_ms, q.delay_ms, q.dedup, q.ledger,
q.max_receives, (SELECT name FROM queue AS d WHERE d.number = q.dead_letter_queue),
q.backoff_first_ms, q.backoff_most_ms,
q.grouped, q.dedup_window_ms, q.dedup_scope, q.labels, q.modified_at,
q.paused_at FROM queue AS q WHERE q.name = ? AND q.deleted_at IS NULL;

-- SessionSql.queue_name
SELECT name FROM queue WHERE number = ? AND deleted_at IS NULL;

-- SessionSql.lock_queue
SELECT number FROM queue WHERE number = ? ;

-- SessionSql.due
SELECT seq FROM message WHERE queue = ? AND ready_at > ? AND ready_at <= ?
ORDER BY ready_at LIMIT ? ;

-- SessionSql.due_with_claims
SELECT seq, ready_at, receives, receives > 0 AND claim >= 0 FROM message WHERE queue = ? AND ready_at > ? AND ready_at <= ?
ORDER BY ready_at LIMIT ? ;

-- SessionSql.back_off
UPDATE message SET ready_at = ready_at + ?, claim = CASE claim WHEN 0 THEN -1 ELSE -abs(claim) END WHERE seq IN (SELECT value FROM carray(?));

-- SessionSql.lock_ready
SELECT seq FROM message WHERE seq IN (SELECT value FROM carray(?)) AND ready_at = 0 ORDER BY seq ;

-- SessionSql.make_ready
UPDATE message SET ready_at = 0 WHERE seq IN (SELECT value FROM carray(?));

-- SessionSql.put_off
UPDATE message SET ready_at = ?, claim = CASE claim WHEN 0 THEN -1 ELSE -abs(claim) END WHERE seq IN (SELECT value FROM carray(?));

-- SessionSql.record.between
INSERT INTO ledger (queue, seq, sent_at, first_claimed_at, last_claimed_at, finished_at,
                    receives, outcome, size, body_hash, content_type, body)
SELECT m.queue, m.seq, m.sent_at, m.first_claimed_at, m.last_claimed_at, ?,
       m.receives, ?, length(m.body), m.body_hash, m.content_type,
       CASE q.ledger WHEN 2 THEN m.body END FROM message AS m JOIN queue AS q ON q.number = m.queue + 0 WHERE q.ledger <> 0 AND seq BETWEEN ? AND ? ORDER BY m.seq;

-- SessionSql.record.among
INSERT INTO ledger (queue, seq, sent_at, first_claimed_at, last_claimed_at, finished_at,
                    receives, outcome, size, body_hash, content_type, body)
SELECT m.queue, m.seq, m.sent_at, m.first_claimed_at, m.last_claimed_at, ?,
       m.receives, ?, length(m.body), m.body_hash, m.content_type,
       CASE q.ledger WHEN 2 THEN m.body END FROM message AS m JOIN queue AS q ON q.number = m.queue + 0 WHERE q.ledger <> 0 AND seq IN (SELECT value FROM carray(?)) ORDER BY m.seq;

-- SessionSql.delete.between
DELETE FROM message WHERE seq BETWEEN ? AND ?;

-- SessionSql.delete.among
DELETE FROM message WHERE seq IN (SELECT value FROM carray(?));

-- QueueSql.last_number
SELECT coalesce(max(number), 0) FROM queue;

-- QueueSql.create
INSERT INTO queue (number, name, created_at, visibility_ms, retention_ms, delay_ms, dedup, ledger,
                   max_receives, dead_letter_queue, backoff_first_ms, backoff_most_ms,
                   dedup_window_ms, dedup_scope, labels, grouped, modified_at)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?);

-- QueueSql.update
UPDATE queue SET visibility_ms = ?, retention_ms = ?, delay_ms = ?, dedup = ?, ledger = ?,
                 max_receives = ?, dead_letter_queue = ?, backoff_first_ms = ?, backoff_most_ms = ?,
                 dedup_window_ms = ?, dedup_scope = ?, labels = ?, modified_at = ?
WHERE number = ?;

-- QueueSql.pause
UPDATE queue SET paused_at = ? WHERE number = ?;

-- QueueSql.lower_retention
UPDATE queue SET kept_ms = CASE WHEN kept_ms > ? THEN kept_ms ELSE ? END, lowered_through = ?
WHERE number = ?;

-- QueueSql.delete
UPDATE queue SET deleted_at = ?, due_at = 0 WHERE number = ?;

-- QueueSql.end_redrives
UPDATE queue SET max_receives = NULL, dead_letter_queue = NULL WHERE dead_letter_queue = ?;

-- QueueSql.end_shipments
UPDATE shipment SET due_at = 0 WHERE queue = ?;

-- QueueSql.end_leases
UPDATE lease SET until = 0 WHERE queue = ?;

-- QueueSql.page
SELECT q.number, q.name, q.created_at, q.visibility_ms, q.retention_ms, q.delay_ms, q.dedup, q.ledger,
q.max_receives, (SELECT name FROM queue AS d WHERE d.number = q.dead_letter_queue),
q.backoff_first_ms, q.backoff_most_ms,
q.grouped, q.dedup_window_ms, q.dedup_scope, q.labels, q.modified_at,
q.paused_at FROM queue AS q WHERE q.deleted_at IS NULL ORDER BY q.number LIMIT ? OFFSET ?;

-- QueueSql.count
SELECT count(*) FROM queue WHERE deleted_at IS NULL;

-- QueueSql.by_name
SELECT q.number, q.name, q.created_at, q.visibility_ms, q.retention_ms, q.delay_ms, q.dedup, q.ledger,
q.max_receives, (SELECT name FROM queue AS d WHERE d.number = q.dead_letter_queue),
q.backoff_first_ms, q.backoff_most_ms,
q.grouped, q.dedup_window_ms, q.dedup_scope, q.labels, q.modified_at,
q.paused_at FROM queue AS q
WHERE q.deleted_at IS NULL AND q.name >= ? AND q.name > ? AND q.name < ?
ORDER BY q.name LIMIT ?;

-- QueueSql.sources
SELECT q.number, q.name, q.created_at, q.visibility_ms, q.retention_ms, q.delay_ms, q.dedup, q.ledger,
q.max_receives, (SELECT name FROM queue AS d WHERE d.number = q.dead_letter_queue),
q.backoff_first_ms, q.backoff_most_ms,
q.grouped, q.dedup_window_ms, q.dedup_scope, q.labels, q.modified_at,
q.paused_at FROM queue AS q
WHERE q.dead_letter_queue = ? AND q.deleted_at IS NULL AND q.name > ? ORDER BY q.name LIMIT ?;

-- SendSql.remember
INSERT INTO sending (queue, send_key, digest, messages, stored, sent_at)
VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING;

-- SendSql.correct
UPDATE sending SET stored = ? WHERE queue = ? AND send_key = ?;

-- SendSql.recall
SELECT digest, messages, stored, sent_at FROM sending WHERE queue = ? AND send_key = ? ;

-- SendSql.forget
DELETE FROM sending WHERE queue = ? AND send_key = ?;

-- SendSql.old
SELECT id FROM sending WHERE sent_at < ? ORDER BY sent_at LIMIT ?;

-- SendSql.forget_old
DELETE FROM sending WHERE id IN (SELECT value FROM carray(?));

-- SendSql.see
INSERT INTO seen (queue, dedup_key, seq, sent_at, until) VALUES (?, ?, ?, ?, ?) ON CONFLICT DO NOTHING;

-- SendSql.see_again
UPDATE seen SET seq = ?, sent_at = ?, until = ? WHERE queue = ? AND dedup_key = ?;

-- SendSql.seen
SELECT seq, sent_at,
       CASE WHEN seq > (SELECT forgotten_through FROM queue WHERE number = ?) THEN until ELSE 0 END
FROM seen WHERE queue = ? AND dedup_key = ? ;

-- SendSql.forget_seen
UPDATE queue SET forgotten_through = ? WHERE number = ? AND forgotten_through < ?;

-- SendSql.unseen
SELECT id FROM seen WHERE until <= ? ORDER BY until LIMIT ?;

-- SendSql.forget_unseen
DELETE FROM seen WHERE id IN (SELECT value FROM carray(?));

-- SendSql.known
SELECT seq FROM message WHERE seq IN (SELECT value FROM carray(?)) UNION SELECT seq FROM ledger WHERE seq IN (SELECT value FROM carray(?));

-- TwinSql.with_key
SELECT seq, sent_at FROM message WHERE queue = ? AND dedup_key = ? AND (
    receives > 0 OR seq > COALESCE((SELECT through FROM collapse WHERE queue = ? AND dedup_key = ?), 0))
ORDER BY seq;

-- TwinSql.drop_key
UPDATE message SET dedup_key = NULL WHERE seq = ?;

-- TwinSql.keys
SELECT seq, dedup_key, body_hash FROM message WHERE seq IN (SELECT value FROM carray(?)) ORDER BY seq;

-- TwinSql.own_keys
SELECT seq, dedup_key, body_hash FROM message WHERE seq IN (SELECT value FROM carray(?)) AND dedup_key IS NOT NULL ORDER BY seq;

-- TwinSql.set_key
UPDATE message SET dedup_key = ? WHERE seq = ?;

-- TwinSql.seen.between
SELECT seq, dedup_key, receives, NULL FROM message WHERE seq BETWEEN ? AND ? ORDER BY seq;

-- TwinSql.seen.among
SELECT seq, dedup_key, receives, NULL FROM message WHERE seq IN (SELECT value FROM carray(?)) ORDER BY seq;

-- TwinSql.seen_with_notes
SELECT m.seq, m.dedup_key, m.receives, c.through FROM message AS m
LEFT JOIN collapse AS c ON c.queue = m.queue AND c.dedup_key = m.dedup_key
WHERE m.seq IN (SELECT value FROM carray(?)) ORDER BY m.seq;

-- TwinSql.behind
SELECT t.seq FROM message AS m
JOIN message AS t ON t.queue = m.queue AND t.dedup_key = m.dedup_key AND t.seq > m.seq
WHERE m.seq IN (SELECT value FROM carray(?)) AND t.receives < 1 AND +t.ready_at < 1 LIMIT ?;

-- TwinSql.note
INSERT INTO collapse (queue, dedup_key, through) VALUES (?, ?, ?) ON CONFLICT DO NOTHING;

-- TwinSql.note_again
UPDATE collapse SET through = ? WHERE queue = ? AND dedup_key = ?;

-- TwinSql.noted
SELECT dedup_key, through FROM collapse WHERE queue = ? ORDER BY dedup_key LIMIT ?;

-- TwinSql.left
SELECT t.seq FROM message AS t WHERE t.queue = ? AND t.dedup_key = ? AND t.seq <= ? AND t.receives = 0
AND +t.ready_at = 0 LIMIT ?;

-- TwinSql.done
DELETE FROM collapse WHERE queue = ? AND dedup_key = ?;

-- TwinSql.queues
SELECT DISTINCT queue FROM collapse ORDER BY queue LIMIT ?;

-- TwinSql.spare
UPDATE message SET dedup_key = NULL WHERE seq IN (SELECT value FROM carray(?)) AND EXISTS (
    SELECT 1 FROM collapse AS c
    WHERE c.queue = message.queue AND c.dedup_key = message.dedup_key AND c.through >= message.seq);

-- LineSql.first
SELECT seq, ready_at, sent_at, receives FROM message WHERE queue = ? AND grp = ? ORDER BY seq LIMIT 1;

-- LineSql.groups
SELECT DISTINCT grp FROM message WHERE seq IN (SELECT value FROM carray(?)) AND grp IS NOT NULL;

-- LineSql.stand_behind
UPDATE message SET ready_at = 253402300800000 WHERE seq IN (SELECT value FROM carray(?)) AND grp IS NOT NULL;

-- LineSql.return_behind
UPDATE message SET ready_at = 253402300800000 WHERE seq IN (SELECT value FROM carray(?)) AND grp IS NOT NULL AND ready_at = 0;

-- LineSql.step_forward
UPDATE message SET ready_at = ? WHERE seq IN (SELECT value FROM carray(?));

-- LineSql.following
SELECT seq, ready_at, sent_at, receives FROM message WHERE queue = ? AND grp = ? AND seq > ?
ORDER BY seq LIMIT ?;

-- LineSql.behind
SELECT seq, body, content_type, attributes, sent_at, ready_at, receives, abs(claim) AS claim, deadline_at, came_from, grp, first_claimed_at FROM message WHERE seq IN (SELECT value FROM carray(?)) AND queue + 0 = ? AND ready_at IN (0, 253402300800000)
ORDER BY ready_at, seq;

-- LineSql.measured_behind
SELECT seq, length(body), NULL, NULL, sent_at, 0, receives, 0, deadline_at, NULL, grp, NULL FROM message WHERE seq IN (SELECT value FROM carray(?)) AND queue + 0 = ? AND ready_at IN (0, 253402300800000)
ORDER BY ready_at, seq;

-- LineSql.waiting
SELECT grp FROM message WHERE queue = ? AND ready_at = 253402300800000 ORDER BY seq LIMIT ?;

-- LineSql.queues
SELECT number FROM queue WHERE number > ? AND grouped <> 0 AND deleted_at IS NULL ORDER BY number LIMIT ?;

-- ClaimSql.head
SELECT seq, body, content_type, attributes, sent_at, ready_at, receives, abs(claim) AS claim, deadline_at, came_from, grp, first_claimed_at FROM message WHERE queue = ? AND ready_at = 0 AND seq > ?
ORDER BY seq LIMIT ? ;

-- ClaimSql.measured_head
SELECT seq, length(body), NULL, NULL, sent_at, 0, receives, 0, deadline_at, NULL, grp, NULL FROM message WHERE queue = ? AND ready_at = 0 AND seq > ?
ORDER BY seq LIMIT ? ;

-- ClaimSql.summed_head
SELECT count(*), min(seq), max(seq), sum(size), min(sent_at), max(receives),
    count(CASE WHEN receives > 0 THEN 1 END), count(deadline_at)
FROM (SELECT seq, length(body) AS size, sent_at, receives, deadline_at FROM message
      WHERE queue = ? AND ready_at = 0 ORDER BY seq LIMIT ?) AS head;

-- ClaimSql.ready
SELECT seq FROM message WHERE queue = ? AND ready_at = 0 AND seq > ? ORDER BY seq LIMIT ?;

-- ClaimSql.chosen
SELECT seq, body, content_type, attributes, sent_at, ready_at, receives, abs(claim) AS claim, deadline_at, came_from, grp, first_claimed_at FROM message WHERE seq IN (SELECT value FROM carray(?)) AND queue + 0 = ? AND ready_at = 0
ORDER BY seq ;

-- ClaimSql.hold.between
UPDATE message SET ready_at = ?, receives = receives + 1, claim = abs(claim) + 1,
first_claimed_at = coalesce(first_claimed_at, ?), last_claimed_at = ? WHERE seq BETWEEN ? AND ?;

-- ClaimSql.hold.among
UPDATE message SET ready_at = ?, receives = receives + 1, claim = abs(claim) + 1,
first_claimed_at = coalesce(first_claimed_at, ?), last_claimed_at = ? WHERE seq IN (SELECT value FROM carray(?));

-- ClaimSql.hold_to_deadline.between
UPDATE message SET ready_at = CASE WHEN deadline_at > ? THEN deadline_at ELSE ? END, receives = receives + 1, claim = abs(claim) + 1,
                   first_claimed_at = coalesce(first_claimed_at, ?), last_claimed_at = ?
WHERE seq BETWEEN ? AND ?;

-- ClaimSql.hold_to_deadline.among
UPDATE message SET ready_at = CASE WHEN deadline_at > ? THEN deadline_at ELSE ? END, receives = receives + 1, claim = abs(claim) + 1,
                   first_claimed_at = coalesce(first_claimed_at, ?), last_claimed_at = ?
WHERE seq IN (SELECT value FROM carray(?));

-- AttemptSql.remember
INSERT INTO attempt (queue, attempt_key, held, claimed_at) VALUES (?, ?, '[]', ?) ON CONFLICT DO NOTHING;

-- AttemptSql.recall
SELECT held, claimed_at FROM attempt WHERE queue = ? AND attempt_key = ? ;

-- AttemptSql.known
SELECT id FROM attempt WHERE queue = ? AND attempt_key = ?;

-- AttemptSql.first_due
SELECT min(ready_at) FROM message WHERE queue = ? AND ready_at < ?;

-- AttemptSql.renew
UPDATE attempt SET held = ?, claimed_at = ? WHERE queue = ? AND attempt_key = ?;

-- AttemptSql.forget
DELETE FROM attempt WHERE queue = ? AND attempt_key = ?;

-- AttemptSql.old
SELECT id FROM attempt WHERE claimed_at <= ? ORDER BY claimed_at LIMIT ?;

-- AttemptSql.forget_old
DELETE FROM attempt WHERE id IN (SELECT value FROM carray(?));

-- AttemptSql.held
SELECT seq, body, content_type, attributes, sent_at, ready_at, receives, abs(claim) AS claim, deadline_at, came_from, grp, first_claimed_at FROM message
WHERE seq IN (SELECT value FROM carray(?)) AND queue + 0 = ? AND ready_at > ? AND ready_at < ? AND receives > 0 AND claim >= 0
ORDER BY seq ;

-- AttemptSql.hold
UPDATE message SET ready_at = ? WHERE seq IN (SELECT value FROM carray(?));

-- ReceiptSql.match.between
SELECT seq, queue, sent_at, claim, ready_at FROM message WHERE seq BETWEEN ? AND ? AND ready_at <> ? ORDER BY seq;

-- ReceiptSql.match.among
SELECT seq, queue, sent_at, claim, ready_at FROM message WHERE seq IN (SELECT value FROM carray(?)) AND ready_at <> ? ORDER BY seq;

-- ReceiptSql.match_locked.between
SELECT seq, queue, sent_at, claim, ready_at FROM message WHERE seq BETWEEN ? AND ? AND ready_at <> ? ORDER BY seq ;

-- ReceiptSql.match_locked.among
SELECT seq, queue, sent_at, claim, ready_at FROM message WHERE seq IN (SELECT value FROM carray(?)) AND ready_at <> ? ORDER BY seq ;

-- ReceiptSql.renew
UPDATE message SET ready_at = ?, claim = abs(claim), receives = CASE receives WHEN 0 THEN 1 ELSE receives END
WHERE seq IN (SELECT value FROM carray(?)) AND (ready_at < ? OR ready_at = 253402300800000);

-- ReceiptSql.renew_or_shorten
UPDATE message SET ready_at = ?, claim = abs(claim), receives = CASE receives WHEN 0 THEN 1 ELSE receives END
WHERE seq IN (SELECT value FROM carray(?));

-- ReceiptSql.receives
SELECT seq, receives FROM message WHERE seq IN (SELECT value FROM carray(?));

-- ReceiptSql.release
UPDATE message SET ready_at = ?, claim = abs(claim) WHERE seq IN (SELECT value FROM carray(?)) AND receives > 0 AND (claim >= 0 OR ready_at <= ?);

-- ReceiptSql.release_with_delay
UPDATE message SET ready_at = ?, claim = CASE claim WHEN 0 THEN -1 ELSE -abs(claim) END WHERE seq IN (SELECT value FROM carray(?)) AND receives > 0 AND (claim >= 0 OR ready_at <= ?);

-- MessageSql.peek_here
SELECT seq, body, content_type, attributes, sent_at, ready_at, receives, abs(claim) AS claim, deadline_at, came_from, grp, first_claimed_at FROM message WHERE queue = ? AND ready_at = ? AND seq > ?
ORDER BY ready_at, seq LIMIT ?;

-- MessageSql.peek_later
SELECT seq, body, content_type, attributes, sent_at, ready_at, receives, abs(claim) AS claim, deadline_at, came_from, grp, first_claimed_at FROM message WHERE queue = ? AND ready_at > ? ORDER BY ready_at, seq LIMIT ?;

-- MessageSql.claimed
SELECT seq FROM message WHERE queue = ? AND ready_at > ? AND ready_at < ? AND receives > 0 AND claim >= 0
ORDER BY ready_at, seq LIMIT ? ;

-- MessageSql.purged
SELECT seq FROM message WHERE queue = ? AND seq <= ? ORDER BY ready_at, seq LIMIT ? ;

-- MessageSql.ages_here
SELECT seq, ready_at, sent_at FROM message WHERE queue = ? AND ready_at = ? AND seq > ?
ORDER BY ready_at, seq LIMIT ?;

-- MessageSql.ages_later
SELECT seq, ready_at, sent_at FROM message WHERE queue = ? AND ready_at > ?
ORDER BY ready_at, seq LIMIT ?;

-- MessageSql.lock_in_queue
SELECT seq FROM message WHERE seq IN (SELECT value FROM carray(?)) AND queue + 0 = ? ORDER BY seq ;

-- NamedSql.find
SELECT seq, body, content_type, attributes, sent_at, ready_at, receives, abs(claim) AS claim, deadline_at, came_from, grp, first_claimed_at, last_claimed_at, CASE WHEN receives > 0 AND claim >= 0 THEN 1 ELSE 0 END
FROM message WHERE seq = ? AND queue + 0 = ?;

-- NamedSql.find_locked
SELECT seq, body, content_type, attributes, sent_at, ready_at, receives, abs(claim) AS claim, deadline_at, came_from, grp, first_claimed_at, last_claimed_at, CASE WHEN receives > 0 AND claim >= 0 THEN 1 ELSE 0 END
FROM message WHERE seq = ? AND queue + 0 = ? ;

-- NamedSql.rows
SELECT seq, sent_at, ready_at, came_from FROM message WHERE seq IN (SELECT value FROM carray(?)) AND queue + 0 = ?
ORDER BY seq ;

-- ScanSql.look_here
SELECT seq, ready_at, CASE WHEN receives > 0 AND claim >= 0 THEN 1 ELSE 0 END, sent_at, receives, content_type, came_from,
    last_claimed_at FROM message WHERE queue = ? AND ready_at = ? AND seq > ?
ORDER BY ready_at, seq LIMIT ?;

-- ScanSql.look_later
SELECT seq, ready_at, CASE WHEN receives > 0 AND claim >= 0 THEN 1 ELSE 0 END, sent_at, receives, content_type, came_from,
    last_claimed_at FROM message WHERE queue = ? AND ready_at > ? ORDER BY ready_at, seq LIMIT ?;

-- ScanSql.read
SELECT seq, body, content_type, attributes, sent_at, ready_at, receives, abs(claim) AS claim, deadline_at, came_from, grp, first_claimed_at FROM message WHERE seq IN (SELECT value FROM carray(?)) AND queue + 0 = ? ORDER BY ready_at, seq;

-- CountSql.look[0]
SELECT ?, waiting, claimed, oldest,
    (SELECT min(seq) FROM (SELECT seq FROM message WHERE queue = ? AND ready_at > 0 AND ready_at <= ?
                           ORDER BY ready_at LIMIT ?) AS run_out),
    (SELECT seq FROM message WHERE queue = ? AND ready_at = 0 ORDER BY seq LIMIT 1),
    (SELECT seq FROM message WHERE queue = ? AND ready_at = 253402300800000 ORDER BY seq LIMIT 1)
FROM (SELECT count(*) AS waiting, min(seq) AS oldest,
             coalesce(sum(CASE WHEN receives > 0 AND claim >= 0 THEN 1 ELSE 0 END), 0) AS claimed
      FROM (SELECT seq, receives, claim FROM message WHERE queue = ? AND ready_at > ? AND ready_at < 253402300800000
            ORDER BY ready_at LIMIT ?) AS held) AS counted;

-- CountSql.look[1]
SELECT ?, waiting, claimed, oldest,
    (SELECT min(seq) FROM (SELECT seq FROM message WHERE queue = ? AND ready_at > 0 AND ready_at <= ?
                           ORDER BY ready_at LIMIT ?) AS run_out),
    (SELECT seq FROM message WHERE queue = ? AND ready_at = 0 ORDER BY seq LIMIT 1),
    (SELECT seq FROM message WHERE queue = ? AND ready_at = 253402300800000 ORDER BY seq LIMIT 1)
FROM (SELECT count(*) AS waiting, min(seq) AS oldest,
             coalesce(sum(CASE WHEN receives > 0 AND claim >= 0 THEN 1 ELSE 0 END), 0) AS claimed
      FROM (SELECT seq, receives, claim FROM message WHERE queue = ? AND ready_at > ? AND ready_at < 253402300800000
            ORDER BY ready_at LIMIT ?) AS held) AS counted
UNION ALL
SELECT ?, waiting, claimed, oldest,
    (SELECT min(seq) FROM (SELECT seq FROM message WHERE queue = ? AND ready_at > 0 AND ready_at <= ?
                           ORDER BY ready_at LIMIT ?) AS run_out),
    (SELECT seq FROM message WHERE queue = ? AND ready_at = 0 ORDER BY seq LIMIT 1),
    (SELECT seq FROM message WHERE queue = ? AND ready_at = 253402300800000 ORDER BY seq LIMIT 1)
FROM (SELECT count(*) AS waiting, min(seq) AS oldest,
             coalesce(sum(CASE WHEN receives > 0 AND claim >= 0 THEN 1 ELSE 0 END), 0) AS claimed
      FROM (SELECT seq, receives, claim FROM message WHERE queue = ? AND ready_at > ? AND ready_at < 253402300800000
            ORDER BY ready_at LIMIT ?) AS held) AS counted;

-- CountSql.run_out
SELECT ready_at, receives FROM message
WHERE queue = ? AND ready_at > ? AND ready_at <= ? AND receives > 0 AND claim >= 0 ORDER BY ready_at DESC LIMIT ?;

-- CountSql.sent_at
SELECT seq, sent_at FROM message WHERE seq IN (SELECT value FROM carray(?));

-- CountSql.tallies
SELECT queue, sum(arrived), sum(departed) FROM tally WHERE queue IN (SELECT value FROM carray(?)) GROUP BY queue;

-- CountSql.next_due
SELECT min(ready_at) FROM message WHERE queue = ? AND ready_at > ? AND ready_at < ?;

-- MoveSql.ready
SELECT seq FROM message WHERE queue = ? AND ready_at = 0 AND seq <= ? ORDER BY seq LIMIT ? ;

-- MoveSql.behind
SELECT seq FROM message WHERE queue = ? AND ready_at = 253402300800000 AND seq <= ?
ORDER BY seq LIMIT ? ;

-- MoveSql.waiting
SELECT seq FROM message
WHERE queue = ? AND ready_at > 0 AND ready_at < ? AND seq <= ? AND (ready_at <= ? OR (receives = 0 OR claim < 0))
ORDER BY ready_at, seq LIMIT ? ;

-- MoveSql.arrive.between
UPDATE message SET ready_at = CASE WHEN ready_at > ? AND ready_at < 253402300800000 AND (receives = 0 OR claim < 0)
                                   THEN ready_at ELSE 0 END,
                   queue = ?, receives = 0, first_claimed_at = NULL, last_claimed_at = NULL, came_from = CASE WHEN came_from = ? THEN NULL ELSE came_from END WHERE seq BETWEEN ? AND ?;

-- MoveSql.arrive.among
UPDATE message SET ready_at = CASE WHEN ready_at > ? AND ready_at < 253402300800000 AND (receives = 0 OR claim < 0)
                                   THEN ready_at ELSE 0 END,
                   queue = ?, receives = 0, first_claimed_at = NULL, last_claimed_at = NULL, came_from = CASE WHEN came_from = ? THEN NULL ELSE came_from END WHERE seq IN (SELECT value FROM carray(?));

-- MoveSql.arrive_as_dead_letter.between
UPDATE message SET ready_at = CASE WHEN ready_at > ? AND ready_at < 253402300800000 AND (receives = 0 OR claim < 0)
                                   THEN ready_at ELSE 0 END,
                   queue = ?, receives = 0, first_claimed_at = NULL, last_claimed_at = NULL, came_from = ? WHERE seq BETWEEN ? AND ?;

-- MoveSql.arrive_as_dead_letter.among
UPDATE message SET ready_at = CASE WHEN ready_at > ? AND ready_at < 253402300800000 AND (receives = 0 OR claim < 0)
                                   THEN ready_at ELSE 0 END,
                   queue = ?, receives = 0, first_claimed_at = NULL, last_claimed_at = NULL, came_from = ? WHERE seq IN (SELECT value FROM carray(?));

-- MoveSql.arrive_as_new
UPDATE message SET seq = ?, queue = ?, sent_at = ?, ready_at = ?, receives = 0, claim = 0,
                   first_claimed_at = NULL, last_claimed_at = NULL, came_from = NULL
WHERE seq = ?;

-- MoveSql.add
INSERT INTO move (id, source, target, through, started_at, claimed, terms,
moved, status, error, finished_at, examined, matched, homeless, place_ready_at, place_seq, next_at, total,
by_key, by_via) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?);

-- MoveSql.change
UPDATE move SET moved = ?, status = ?, error = ?, finished_at = ?, examined = ?, matched = ?, homeless = ?,
                place_ready_at = ?, place_seq = ?, next_at = ?
WHERE id = ?;

-- MoveSql.find
SELECT id, source, target, through, started_at, claimed, terms,
moved, status, error, finished_at, examined, matched, homeless, place_ready_at, place_seq, next_at, total,
by_key, by_via FROM move WHERE id = ?;

-- MoveSql.find_locked
SELECT id, source, target, through, started_at, claimed, terms,
moved, status, error, finished_at, examined, matched, homeless, place_ready_at, place_seq, next_at, total,
by_key, by_via FROM move WHERE id = ? ;

-- MoveSql.latest
SELECT id, source, target, through, started_at, claimed, terms,
moved, status, error, finished_at, examined, matched, homeless, place_ready_at, place_seq, next_at, total,
by_key, by_via FROM move WHERE finished_at IS NULL OR finished_at >= ?
ORDER BY started_at DESC, id DESC LIMIT ?;

-- MoveSql.under_way
SELECT id, source, target, through, started_at, claimed, terms,
moved, status, error, finished_at, examined, matched, homeless, place_ready_at, place_seq, next_at, total,
by_key, by_via FROM move WHERE finished_at IS NULL;

-- MoveSql.unfinished
SELECT id FROM move WHERE finished_at IS NULL ORDER BY started_at, id;

-- MoveSql.forget
DELETE FROM move WHERE finished_at < ?;

-- MoveSql.look_at_ready
SELECT seq, ready_at, CASE WHEN receives > 0 AND claim >= 0 THEN 1 ELSE 0 END, sent_at, receives, content_type, came_from,
    last_claimed_at FROM message WHERE queue = ? AND ready_at = 0 AND seq > ? AND seq <= ?
ORDER BY ready_at, seq LIMIT ?;

-- MoveSql.look_behind
SELECT seq, ready_at, CASE WHEN receives > 0 AND claim >= 0 THEN 1 ELSE 0 END, sent_at, receives, content_type, came_from,
    last_claimed_at FROM message
WHERE queue = ? AND ready_at = 253402300800000 AND seq > ? AND seq <= ?
ORDER BY ready_at, seq LIMIT ?;

-- MoveSql.look_here
SELECT seq, ready_at, CASE WHEN receives > 0 AND claim >= 0 THEN 1 ELSE 0 END, sent_at, receives, content_type, came_from,
    last_claimed_at FROM message WHERE queue = ? AND ready_at = ? AND seq > ?
ORDER BY ready_at, seq LIMIT ?;

-- MoveSql.look_later
SELECT seq, ready_at, CASE WHEN receives > 0 AND claim >= 0 THEN 1 ELSE 0 END, sent_at, receives, content_type, came_from,
    last_claimed_at FROM message WHERE queue = ? AND ready_at > ? AND ready_at < ?
ORDER BY ready_at, seq LIMIT ?;

-- MoveSql.bodies
SELECT seq, body, content_type, attributes, sent_at, ready_at, receives, abs(claim) AS claim, deadline_at, came_from, grp, first_claimed_at FROM message WHERE seq IN (SELECT value FROM carray(?)) AND queue + 0 = ? ORDER BY ready_at, seq;

-- MoveSql.still_there
SELECT seq FROM message
WHERE seq IN (SELECT value FROM carray(?)) AND queue + 0 = ? AND ready_at <> ? AND (ready_at <= ? OR ready_at = 253402300800000 OR (receives = 0 OR claim < 0))
ORDER BY seq ;

-- MoveSql.still_claimed
SELECT seq FROM message
WHERE seq IN (SELECT value FROM carray(?)) AND queue + 0 = ? AND ready_at > ? AND ready_at < ? AND receives > 0 AND claim >= 0 ORDER BY seq ;

-- ShipmentSql.find
SELECT id, queue, consumer, number, state, messages, bytes, cleared, kept, claimed_at, until, ended_at, stored_in FROM shipment WHERE queue = ? AND consumer = ? AND number = ?;

-- ShipmentSql.find_locked
SELECT id, queue, consumer, number, state, messages, bytes, cleared, kept, claimed_at, until, ended_at, stored_in FROM shipment WHERE queue = ? AND consumer = ? AND number = ? ;

-- ShipmentSql.latest
SELECT id, queue, consumer, number, state, messages, bytes, cleared, kept, claimed_at, until, ended_at, stored_in FROM shipment WHERE queue = ? AND consumer = ? ORDER BY number DESC LIMIT 1;

-- ShipmentSql.page
SELECT id, queue, consumer, number, state, messages, bytes, cleared, kept, claimed_at, until, ended_at, stored_in FROM shipment AS s WHERE queue = ? AND consumer > ? AND number > ? AND (s.ended_at IS NULL OR s.ended_at >= ? OR NOT EXISTS (
    SELECT 1 FROM shipment AS l WHERE l.queue = s.queue AND l.consumer = s.consumer AND l.number > s.number))
ORDER BY queue, consumer, number LIMIT ?;

-- ShipmentSql.page_of_consumer
SELECT id, queue, consumer, number, state, messages, bytes, cleared, kept, claimed_at, until, ended_at, stored_in FROM shipment AS s WHERE queue = ? AND consumer = ? AND number > ? AND (s.ended_at IS NULL OR s.ended_at >= ? OR NOT EXISTS (
    SELECT 1 FROM shipment AS l WHERE l.queue = s.queue AND l.consumer = s.consumer AND l.number > s.number))
ORDER BY queue, consumer, number LIMIT ?;

-- ShipmentSql.add
INSERT INTO shipment (queue, consumer, number, state, messages, bytes, cleared, kept, claimed_at,
                      until, due_at, runs)
VALUES (?, ?, ?, ?, ?, ?, 0, 0, ?, ?, ?, ?);

-- ShipmentSql.extend
UPDATE shipment SET state = ?, messages = ?, bytes = ?, until = ?, due_at = ?, runs = ? WHERE id = ?;

-- ShipmentSql.prolong
UPDATE shipment SET until = ?, due_at = ? WHERE id = ?;

-- ShipmentSql.runs
SELECT runs FROM shipment WHERE id = ?;

-- ShipmentSql.read.between
SELECT seq, body, content_type, attributes, sent_at, ready_at, receives, abs(claim) AS claim, deadline_at, came_from, grp, first_claimed_at FROM message WHERE seq BETWEEN ? AND ? AND ready_at = 253402300799999 AND queue + 0 IN (?, ?) ORDER BY seq;

-- ShipmentSql.read.among
SELECT seq, body, content_type, attributes, sent_at, ready_at, receives, abs(claim) AS claim, deadline_at, came_from, grp, first_claimed_at FROM message WHERE seq IN (SELECT value FROM carray(?)) AND ready_at = 253402300799999 AND queue + 0 IN (?, ?) ORDER BY seq;

-- ShipmentSql.delete
DELETE FROM shipment WHERE id = ?;

-- ShipmentSql.open_of_queue
SELECT id, queue, consumer, number, state, messages, bytes, cleared, kept, claimed_at, until, ended_at, stored_in FROM shipment WHERE queue = ? AND ended_at IS NULL ORDER BY consumer LIMIT ?;

-- ShipmentSql.not_ended
SELECT id FROM shipment WHERE ended_at IS NULL LIMIT ?;

-- ShipmentSql.decide
UPDATE shipment SET state = ?, ended_at = ?, kept = ?, stored_in = ?, due_at = ? WHERE id = ?;

-- ShipmentSql.former
SELECT id, queue, consumer, number, state, messages, bytes, cleared, kept, claimed_at, until, ended_at, stored_in FROM shipment WHERE queue = ? AND consumer = ? AND number < ? AND state = ?
ORDER BY number DESC LIMIT 1 ;

-- ShipmentSql.clear
UPDATE shipment SET cleared = ? WHERE id = ?;

-- ShipmentSql.remember
UPDATE shipment SET kept = 0, due_at = ?, runs = '[]' WHERE id = ?;

-- ShipmentSql.due_at
UPDATE shipment SET due_at = ? WHERE id = ?;

-- ShipmentSql.free
UPDATE shipment SET kept = ?, due_at = ? WHERE id = ?;

-- ShipmentSql.lock_messages.between
SELECT seq FROM message WHERE seq BETWEEN ? AND ? AND ready_at = 253402300799999 AND queue + 0 = ? ORDER BY seq ;

-- ShipmentSql.lock_messages.among
SELECT seq FROM message WHERE seq IN (SELECT value FROM carray(?)) AND ready_at = 253402300799999 AND queue + 0 = ? ORDER BY seq ;

-- ShipmentSql.make_ready.between
UPDATE message SET ready_at = 0 WHERE seq BETWEEN ? AND ? AND ready_at = 253402300799999 AND queue + 0 = ?;

-- ShipmentSql.make_ready.among
UPDATE message SET ready_at = 0 WHERE seq IN (SELECT value FROM carray(?)) AND ready_at = 253402300799999 AND queue + 0 = ?;

-- ShipmentSql.record.between
INSERT INTO ledger (queue, seq, sent_at, first_claimed_at, last_claimed_at, finished_at,
                    receives, outcome, size, body_hash, content_type, body)
SELECT m.queue, m.seq, m.sent_at, m.first_claimed_at, m.last_claimed_at, ?,
       m.receives, ?, length(m.body), m.body_hash, m.content_type,
       CASE q.ledger WHEN 2 THEN m.body END FROM message AS m JOIN queue AS q ON q.number = m.queue + 0 WHERE q.ledger <> 0 AND seq BETWEEN ? AND ? AND ready_at = 253402300799999 AND queue + 0 = ? ORDER BY m.seq;

-- ShipmentSql.record.among
INSERT INTO ledger (queue, seq, sent_at, first_claimed_at, last_claimed_at, finished_at,
                    receives, outcome, size, body_hash, content_type, body)
SELECT m.queue, m.seq, m.sent_at, m.first_claimed_at, m.last_claimed_at, ?,
       m.receives, ?, length(m.body), m.body_hash, m.content_type,
       CASE q.ledger WHEN 2 THEN m.body END FROM message AS m JOIN queue AS q ON q.number = m.queue + 0 WHERE q.ledger <> 0 AND seq IN (SELECT value FROM carray(?)) AND ready_at = 253402300799999 AND queue + 0 = ? ORDER BY m.seq;

-- ShipmentSql.keep.between
UPDATE message SET queue = ? WHERE seq BETWEEN ? AND ? AND ready_at = 253402300799999 AND queue + 0 = ?;

-- ShipmentSql.keep.among
UPDATE message SET queue = ? WHERE seq IN (SELECT value FROM carray(?)) AND ready_at = 253402300799999 AND queue + 0 = ?;

-- ShipmentSql.finish.between
DELETE FROM message WHERE seq BETWEEN ? AND ? AND ready_at = 253402300799999 AND queue + 0 = ?;

-- ShipmentSql.finish.among
DELETE FROM message WHERE seq IN (SELECT value FROM carray(?)) AND ready_at = 253402300799999 AND queue + 0 = ?;

-- ShipmentSql.due
SELECT id FROM shipment WHERE due_at < ? ORDER BY due_at LIMIT ?;

-- ShipmentSql.due_locked
SELECT id, queue, consumer, number, state, messages, bytes, cleared, kept, claimed_at, until, ended_at, stored_in FROM shipment WHERE id = ? AND due_at < ? ;

-- ShipmentSql.kept
SELECT seq FROM message WHERE queue = ? LIMIT ?;

-- ShipmentSql.later
SELECT 1 FROM shipment WHERE queue = ? AND consumer = ? AND number > ? LIMIT 1;

-- LeaseSql.find
SELECT id, holder, taken_at, until FROM lease WHERE queue = ? AND name = ?;

-- LeaseSql.find_locked
SELECT id, holder, taken_at, until FROM lease WHERE queue = ? AND name = ? ;

-- LeaseSql.add
INSERT INTO lease (queue, name, holder, taken_at, until) VALUES (?, ?, ?, ?, ?) ON CONFLICT DO NOTHING;

-- LeaseSql.hold
UPDATE lease SET holder = ?, taken_at = ?, until = ? WHERE id = ?;

-- LeaseSql.delete
DELETE FROM lease WHERE id = ?;

-- LeaseSql.over
SELECT id FROM lease WHERE until <= ? ORDER BY until LIMIT ?;

-- LeaseSql.delete_over
DELETE FROM lease WHERE id IN (SELECT value FROM carray(?)) AND until <= ?;

-- LedgerSql.measure
SELECT number, CASE WHEN body IS NULL THEN 0 ELSE size END FROM ledger WHERE number > ? AND number <= ? ORDER BY number LIMIT ?;

-- LedgerSql.measure_by_time
SELECT number, CASE WHEN body IS NULL THEN 0 ELSE size END FROM ledger WHERE number > ? AND number <= ? AND finished_at >= ? AND finished_at < ?
ORDER BY number LIMIT ?;

-- LedgerSql.measure_queues[0]
SELECT * FROM (
SELECT number, CASE WHEN body IS NULL THEN 0 ELSE size END FROM ledger
WHERE queue = ? AND number > ? AND number <= ? AND finished_at >= ? AND finished_at < ?
ORDER BY number LIMIT ?) AS part;

-- LedgerSql.measure_queues[1]
SELECT * FROM (
    SELECT number, CASE WHEN body IS NULL THEN 0 ELSE size END FROM ledger
    WHERE queue = ? AND number > ? AND number <= ? AND finished_at >= ? AND finished_at < ?
    ORDER BY number LIMIT ?) AS part
UNION ALL
SELECT * FROM (
    SELECT number, CASE WHEN body IS NULL THEN 0 ELSE size END FROM ledger
    WHERE queue = ? AND number > ? AND number <= ? AND finished_at >= ? AND finished_at < ?
    ORDER BY number LIMIT ?) AS part;

-- LedgerSql.measure_message
SELECT number, CASE WHEN body IS NULL THEN 0 ELSE size END FROM ledger WHERE seq = ? AND number > ? AND number <= ? ORDER BY number LIMIT ?;

-- LedgerSql.latest
SELECT number, CASE WHEN body IS NULL THEN 0 ELSE size END, outcome, finished_at FROM ledger WHERE number > ? AND number <= ? ORDER BY number DESC LIMIT ?;

-- LedgerSql.latest_of_queues[0]
SELECT * FROM (
SELECT number, CASE WHEN body IS NULL THEN 0 ELSE size END, outcome, finished_at FROM ledger
WHERE queue = ? AND number > ? AND number <= ? ORDER BY number DESC LIMIT ?) AS part;

-- LedgerSql.latest_of_queues[1]
SELECT * FROM (
    SELECT number, CASE WHEN body IS NULL THEN 0 ELSE size END, outcome, finished_at FROM ledger
    WHERE queue = ? AND number > ? AND number <= ? ORDER BY number DESC LIMIT ?) AS part
UNION ALL
SELECT * FROM (
    SELECT number, CASE WHEN body IS NULL THEN 0 ELSE size END, outcome, finished_at FROM ledger
    WHERE queue = ? AND number > ? AND number <= ? ORDER BY number DESC LIMIT ?) AS part;

-- LedgerSql.read
SELECT l.number, q.name, l.seq, l.sent_at, l.first_claimed_at, l.last_claimed_at, l.finished_at,
       l.receives, l.outcome, l.size, l.body_hash, l.content_type, l.body
FROM ledger AS l JOIN queue AS q ON q.number = l.queue
WHERE l.number IN (SELECT value FROM carray(?)) ORDER BY l.number;

-- LedgerSql.queues_of_name
SELECT number FROM queue WHERE name = ?;

-- LedgerSql.last
SELECT coalesce(max(number), 0) FROM ledger;

-- LedgerSql.after
SELECT number, finished_at FROM ledger WHERE number > ? ORDER BY number LIMIT 1;

-- LedgerSql.oldest
SELECT number, CASE WHEN body IS NULL THEN 0 ELSE size END, finished_at FROM ledger ORDER BY number LIMIT ?;

-- LedgerSql.delete
DELETE FROM ledger WHERE number IN (SELECT value FROM carray(?));

-- LedgerSql.size
SELECT through, amount, bytes FROM ledger_size;

-- LedgerSql.size_locked
SELECT through, amount, bytes FROM ledger_size ;

-- LedgerSql.uncounted
SELECT count(*), coalesce(max(number), 0), coalesce(sum(size), 0) FROM
(SELECT number, CASE WHEN body IS NULL THEN 0 ELSE size END AS size FROM ledger WHERE number > ? AND number <= ? ORDER BY number LIMIT ?) AS part;

-- LedgerSql.keep_size
UPDATE ledger_size SET through = ?, amount = ?, bytes = ?;

-- ExportSql.find
SELECT consumer, number, after_number, through_number, amount, claimed_at, settled_at FROM export WHERE consumer = ? AND number = ?;

-- ExportSql.latest
SELECT consumer, number, after_number, through_number, amount, claimed_at, settled_at FROM export WHERE consumer = ? ORDER BY number DESC LIMIT 1;

-- ExportSql.page
SELECT consumer, number, after_number, through_number, amount, claimed_at, settled_at FROM export AS e WHERE number > ? AND (e.settled_at IS NULL OR e.settled_at >= ? OR NOT EXISTS (
    SELECT 1 FROM export AS l WHERE l.consumer = e.consumer AND l.number > e.number)) ORDER BY consumer, number LIMIT ?;

-- ExportSql.page_of_consumer
SELECT consumer, number, after_number, through_number, amount, claimed_at, settled_at FROM export AS e WHERE consumer = ? AND number > ? AND (e.settled_at IS NULL OR e.settled_at >= ? OR NOT EXISTS (
    SELECT 1 FROM export AS l WHERE l.consumer = e.consumer AND l.number > e.number))
ORDER BY consumer, number LIMIT ?;

-- ExportSql.later
SELECT 1 FROM export WHERE consumer = ? AND number > ? LIMIT 1;

-- ExportSql.count
SELECT count(*), min(number), max(number) FROM
(SELECT number FROM ledger WHERE number > ? AND number <= ? ORDER BY number LIMIT ?) AS found;

-- ExportSql.add
INSERT INTO export (consumer, number, after_number, through_number, amount, claimed_at, first_number)
VALUES (?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING;

-- ExportSql.first_row
SELECT l.finished_at FROM export AS e JOIN ledger AS l ON l.number = e.first_number
WHERE e.consumer = ? AND e.number = ?;

-- ExportSql.settle
UPDATE export SET settled_at = ? WHERE consumer = ? AND number = ? AND settled_at IS NULL;

-- ExportSql.old
SELECT id FROM export AS e WHERE settled_at < ?
AND EXISTS (SELECT 1 FROM export AS l WHERE l.consumer = e.consumer AND l.number > e.number) LIMIT ?;

-- ExportSql.forget
DELETE FROM export WHERE id IN (SELECT value FROM carray(?));

-- ConsumerSql.next_number
SELECT coalesce(max(number), 0) + 1 FROM consumer WHERE queue = ?;

-- ConsumerSql.add
INSERT INTO consumer (id, queue, number, delivery, beat_at, dead_after_ms, holding)
VALUES (?, ?, ?, ?, ?, ?, '[]');

-- ConsumerSql.attend
SELECT queue, holding FROM consumer WHERE id = ? ;

-- ConsumerSql.hold
UPDATE consumer SET beat_at = ?, holding = ? WHERE id = ?;

-- ConsumerSql.of_queue
SELECT id, delivery, beat_at, dead_after_ms, holding FROM consumer WHERE queue = ? ORDER BY number LIMIT ?;

-- ConsumerSql.leave
DELETE FROM consumer WHERE id = ?;

-- ConsumerSql.living
SELECT id FROM consumer WHERE queue = ? AND beat_at > ? - dead_after_ms AND beat_at < ? + dead_after_ms ORDER BY number;

-- ConsumerSql.dead
SELECT id FROM consumer WHERE NOT (beat_at > ? - dead_after_ms AND beat_at < ? + dead_after_ms) LIMIT ?;

-- ConsumerSql.dead_locked
SELECT queue, delivery, holding FROM consumer WHERE id = ? AND NOT (beat_at > ? - dead_after_ms AND beat_at < ? + dead_after_ms) ;

-- ConsumerSql.held.between
SELECT seq, claim, queue FROM message WHERE seq BETWEEN ? AND ? ORDER BY seq ;

-- ConsumerSql.held.among
SELECT seq, claim, queue FROM message WHERE seq IN (SELECT value FROM carray(?)) ORDER BY seq ;

-- ConsumerSql.first_due
SELECT min(ready_at) FROM message WHERE queue = ? AND ready_at < ?;

-- ConsumerSql.trace
SELECT queue, sent_at, ready_at, receives > 0 AND claim >= 0 FROM message WHERE seq = ? AND queue + 0 > 0;

-- ConsumerSql.outcome
SELECT sent_at, outcome FROM ledger WHERE seq = ? ORDER BY number DESC LIMIT 1;

-- KeySql.find
SELECT 1 FROM api_key WHERE name = ?;

-- KeySql.count
SELECT count(*) FROM api_key;

-- KeySql.add
INSERT INTO api_key (name, digest, rules, created_at, revoked_at, expires_at) VALUES (?, ?, ?, ?, ?, ?);

-- KeySql.expire
UPDATE api_key SET expires_at = ? WHERE name = ? AND revoked_at IS NULL;

-- KeySql.rotate
UPDATE api_key
SET old_digest = digest, old_until = ?, old_last_used_at = last_used_at, rotated_at = ?, digest = ?
WHERE name = ? AND digest = ? AND revoked_at IS NULL;

-- KeySql.retire
UPDATE api_key SET old_digest = NULL, old_until = NULL, old_last_used_at = NULL
WHERE name = ? AND old_digest = ?;

-- KeySql.use
UPDATE api_key SET last_used_at = ?
WHERE name = ? AND (digest = ? OR old_digest = ?) AND coalesce(last_used_at, 0) < ?;

-- KeySql.use_old
UPDATE api_key SET old_last_used_at = ?
WHERE name = ? AND old_digest = ? AND coalesce(old_last_used_at, 0) < ?;

-- KeySql.revoke
UPDATE api_key SET revoked_at = ? WHERE name = ? AND revoked_at IS NULL;

-- KeySql.ended
SELECT ended_sessions FROM api_key WHERE name = ?;

-- KeySql.shorten
UPDATE api_key SET ended_sessions = ? WHERE name = ? AND ended_sessions = ?;

-- KeySql.end
UPDATE api_key SET ended_sessions = concat(coalesce(ended_sessions, ''), coalesce(?, '')) WHERE name = ?;

-- KeySql.one
SELECT name, digest, rules, created_at, revoked_at, ended_sessions, expires_at, rotated_at, last_used_at, old_digest, old_until, old_last_used_at FROM api_key WHERE name = ?;

-- KeySql.all
SELECT name, digest, rules, created_at, revoked_at, ended_sessions, expires_at, rotated_at, last_used_at, old_digest, old_until, old_last_used_at FROM api_key ORDER BY number;

-- ActionSql.add
INSERT INTO action (acted_at, api_key, via, what, queue_name, amount, detail) VALUES (?, ?, ?, ?, ?, ?, ?);

-- ActionSql.pages[0]
SELECT number, acted_at, api_key, via, what, queue_name, amount, detail FROM action
WHERE number >= ? AND number < ? AND acted_at >= ? AND acted_at < ?
ORDER BY number DESC LIMIT ?;

-- ActionSql.pages[1]
SELECT number, acted_at, api_key, via, what, queue_name, amount, detail FROM action
WHERE what = ? AND number >= ? AND number < ? AND acted_at >= ? AND acted_at < ?
ORDER BY number DESC LIMIT ?;

-- ActionSql.first_since
SELECT number FROM action WHERE acted_at >= ? ORDER BY acted_at, number LIMIT 1;

-- ActionSql.last_until
SELECT number FROM action WHERE acted_at < ? ORDER BY acted_at DESC, number DESC LIMIT 1;

-- ActionSql.old
SELECT number FROM action WHERE acted_at < ? ORDER BY acted_at, number LIMIT ?;

-- ActionSql.delete
DELETE FROM action WHERE number IN (SELECT value FROM carray(?));

-- FigureSql.known
SELECT number FROM queue WHERE number IN (SELECT value FROM carray(?));

-- FigureSql.add
INSERT INTO figure (queue, width, since, sent, claimed, redelivered, acked, expired, dead_lettered, failed, purged, moved, collapsed) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (queue, width, since) DO UPDATE SET sent = figure.sent + excluded.sent, claimed = figure.claimed + excluded.claimed, redelivered = figure.redelivered + excluded.redelivered, acked = figure.acked + excluded.acked, expired = figure.expired + excluded.expired, dead_lettered = figure.dead_lettered + excluded.dead_lettered, failed = figure.failed + excluded.failed, purged = figure.purged + excluded.purged, moved = figure.moved + excluded.moved, collapsed = figure.collapsed + excluded.collapsed;

-- FigureSql.sample
INSERT INTO figure (queue, width, since, ready_now, delayed_now, claimed_now, oldest_sent_at) VALUES (?, ?, ?, ?, ?, ?, ?) ON CONFLICT (queue, width, since) DO UPDATE SET ready_now = excluded.ready_now, delayed_now = excluded.delayed_now, claimed_now = excluded.claimed_now, oldest_sent_at = excluded.oldest_sent_at;

-- FigureSql.totals
SELECT queue, since, sent, claimed, redelivered, acked, expired, dead_lettered, failed, purged, moved, collapsed, ready_now, delayed_now, claimed_now, oldest_sent_at FROM figure WHERE queue IN (SELECT value FROM carray(?)) AND width = 0 AND since = 0;

-- FigureSql.active_then
SELECT queue, since, sent, claimed, redelivered, acked, expired, dead_lettered, failed, purged, moved, collapsed, ready_now, delayed_now, claimed_now, oldest_sent_at FROM figure WHERE width = 60000 AND since = ? AND queue > ?
ORDER BY queue LIMIT ?;

-- FigureSql.active_later
SELECT queue, since, sent, claimed, redelivered, acked, expired, dead_lettered, failed, purged, moved, collapsed, ready_now, delayed_now, claimed_now, oldest_sent_at FROM figure WHERE width = 60000 AND since > ? ORDER BY since, queue LIMIT ?;

-- FigureSql.history
SELECT queue, since, sent, claimed, redelivered, acked, expired, dead_lettered, failed, purged, moved, collapsed, ready_now, delayed_now, claimed_now, oldest_sent_at FROM figure WHERE queue = ? AND width = ? AND since >= ? ORDER BY since;

-- FigureSql.old
SELECT id FROM figure WHERE width = ? AND since < ? ORDER BY since LIMIT ?;

-- FigureSql.forget_old
DELETE FROM figure WHERE id IN (SELECT value FROM carray(?));

-- FigureSql.of_queue
SELECT id FROM figure WHERE queue = ? AND width = ? LIMIT ?;

-- SweepSql.deleted_queues
SELECT number, deleted_at FROM queue WHERE due_at <= ? ORDER BY due_at, number LIMIT ?;

-- SweepSql.last_queue
SELECT max(number) FROM queue;

-- SweepSql.named_queue
SELECT 1 FROM queue AS q WHERE q.number = ?
AND (EXISTS (SELECT 1 FROM ledger WHERE queue = q.number)
     OR EXISTS (SELECT 1 FROM shipment WHERE queue = q.number)
     OR EXISTS (SELECT 1 FROM lease WHERE queue = q.number)
     OR EXISTS (SELECT 1 FROM consumer WHERE queue = q.number)
     OR EXISTS (SELECT 1 FROM sending WHERE queue = q.number)
     OR EXISTS (SELECT 1 FROM seen WHERE queue = q.number)
     OR EXISTS (SELECT 1 FROM attempt WHERE queue = q.number)
     OR EXISTS (SELECT 1 FROM collapse WHERE queue = q.number));

-- SweepSql.look_again
UPDATE queue SET due_at = ? WHERE number = ?;

-- SweepSql.forget_tally
DELETE FROM tally WHERE queue = ?;

-- SweepSql.forget_queue
DELETE FROM queue WHERE number = ?;

-- SweepSql.queues_due
SELECT q.number, q.name, q.created_at, q.visibility_ms, q.retention_ms, q.delay_ms, q.dedup, q.ledger,
q.max_receives, (SELECT name FROM queue AS d WHERE d.number = q.dead_letter_queue),
q.backoff_first_ms, q.backoff_most_ms,
q.grouped, q.dedup_window_ms, q.dedup_scope, q.labels, q.modified_at,
q.paused_at FROM queue AS q
WHERE q.deleted_at IS NULL AND (SELECT sum(arrived) - sum(departed) FROM tally WHERE tally.queue = q.number) > 0
   AND (SELECT ready_at FROM message WHERE queue = q.number AND ready_at > 0 ORDER BY ready_at LIMIT 1) <= ?
LIMIT ?;

-- SweepSql.queues_expired
SELECT number, lowered_through, retention_ms, CASE WHEN q.kept_ms > q.retention_ms THEN q.kept_ms ELSE q.retention_ms END FROM queue AS q
WHERE q.deleted_at IS NULL AND (SELECT sum(arrived) - sum(departed) FROM tally WHERE tally.queue = q.number) > 0
    AND (((SELECT sent_at FROM message WHERE queue = q.number AND ready_at = 0 AND seq > q.lowered_through ORDER BY seq LIMIT 1) <= ? - q.retention_ms
         OR (SELECT sent_at FROM message WHERE queue = q.number AND ready_at = 0 ORDER BY seq LIMIT 1) <= ? - CASE WHEN q.kept_ms > q.retention_ms THEN q.kept_ms ELSE q.retention_ms END)
         OR (q.grouped <> 0 AND ((SELECT sent_at FROM message WHERE queue = q.number AND ready_at = 253402300800000 AND seq > q.lowered_through ORDER BY seq LIMIT 1) <= ? - q.retention_ms
         OR (SELECT sent_at FROM message WHERE queue = q.number AND ready_at = 253402300800000 ORDER BY seq LIMIT 1) <= ? - CASE WHEN q.kept_ms > q.retention_ms THEN q.kept_ms ELSE q.retention_ms END)))
LIMIT ?;

-- SweepSql.oldest
SELECT seq, sent_at FROM message WHERE queue = ? AND ready_at = ? AND seq > ? AND seq <= ?
ORDER BY seq LIMIT ? ;

-- SqliteSql.insert_message
INSERT INTO message (seq, queue, ready_at, sent_at, deadline_at, content_type, attributes, grp, dedup_key, body_hash, body, receives, claim)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, 0, 0);

-- SqliteSql.insert_alike
INSERT INTO message (seq, queue, ready_at, sent_at, deadline_at, content_type, attributes, grp, dedup_key, body_hash, body, receives, claim)
SELECT ? + rowid, ?, ?, ?, ?, ?, ?, ?, substr(?, rowid * 16 - 15, 16),
       substr(?, rowid * 32 - 31, 32), value, 0, 0
FROM carray(?);

-- SqliteSql.add_to_tally
INSERT INTO tally (queue, arrived, departed) VALUES (?, ?, ?)
ON CONFLICT (queue) DO UPDATE
SET arrived = arrived + excluded.arrived, departed = departed + excluded.departed;

-- SqliteSql.last_seq
SELECT arrived FROM tally WHERE queue = 0;

-- SqliteSql.has_table
SELECT 1 FROM sqlite_schema WHERE name = ?;

-- SqliteSql.write_row
INSERT INTO store SELECT * FROM store;

-- SqliteSql.unwrite_row
DELETE FROM store WHERE rowid > (SELECT min(rowid) FROM store);

-- SqliteSql.empty_queues
SELECT name FROM queue AS q WHERE deleted_at IS NULL
AND NOT EXISTS (SELECT 1 FROM tally WHERE tally.queue = q.number AND arrived > departed) LIMIT ?;
