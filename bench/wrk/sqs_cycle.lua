-- SendMessage, ReceiveMessage, DeleteMessage: three requests a cycle, in JSON. The arguments are the URL of the queue, and
-- the header `Authorization`. wrk tells a script nothing about connections, so the thread keeps the books: every receipt
-- that came back is deleted next, every message that was sent is received next, and otherwise one is sent.
local queue, authorization, send, receive = nil, nil, nil, nil
local receipts, owed = {}, 0

local function ask(operation, rest)
    local headers = {
        ["Content-Type"] = "application/x-amz-json-1.0",
        ["X-Amz-Target"] = "AmazonSQS." .. operation,
        ["Authorization"] = authorization,
    }
    return wrk.format("POST", "/", headers, '{"QueueUrl":"' .. queue .. '"' .. rest .. "}")
end

function init(args)
    queue, authorization = args[1], args[2]
    send = ask("SendMessage", ',"MessageBody":"' .. string.rep("x", 200) .. '"')
    receive = ask("ReceiveMessage", "")
end

function request()
    local receipt = table.remove(receipts)
    if receipt then
        return ask("DeleteMessage", ',"ReceiptHandle":"' .. receipt .. '"')
    end
    if owed > 0 then
        owed = owed - 1
        return receive
    end
    return send
end

function response(status, headers, body)
    local receipt = string.match(body, '"ReceiptHandle": *"([^"]*)"')
    if receipt then
        table.insert(receipts, receipt)
    elseif string.find(body, '"MessageId"', 1, true) then
        owed = owed + 1
    end
end
