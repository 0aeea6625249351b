#!/usr/bin/env bash
# The life of a message with curl, through the native API. Needs a server, curl and bash.
set -euo pipefail
url=${PENSTOCK_URL:-http://127.0.0.1:8080}

# Every request answers JSON; a status of 400 or more ends the script.
api() { curl --silent --show-error --fail-with-body "$@"; echo; }

echo "# Create a queue. Its claims last one minute."
api -X PUT "$url/v1/queues/curl" -d '{"visibility_ms": 60000}'

echo "# Send two messages. The key makes the send safe to repeat ..."
send() { api "$url/v1/queues/curl/messages" -H "Idempotency-Key: session-$$" -d '{"messages": [{"body": "one"}, {"body": "two"}]}'; }
send
echo "# ... so the second attempt stores nothing."
send

echo "# Claim both; wait up to five seconds if none is ready."
claimed=$(api "$url/v1/queues/curl/claim" -d '{"limit": 2, "wait_ms": 5000}')
echo "$claimed"

echo "# Ack them with their receipts: they are gone."
receipts=$(grep -o '"receipt":"[^"]*"' <<<"$claimed" | cut -d : -f 2- | paste -s -d ,)
api "$url/v1/queues/curl/ack" -d "{\"receipts\": [$receipts]}"

echo "# The queue is empty, and its tally says that two messages have come and gone."
api "$url/v1/queues/curl"
api -X DELETE "$url/v1/queues/curl" >/dev/null
